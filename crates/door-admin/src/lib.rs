//! door-admin
