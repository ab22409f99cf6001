//! The loads.
