//! door-http
