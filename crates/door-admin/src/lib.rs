//! The admin door: metrics for Prometheus, and whether the server is alive and ready.
//!
//! It speaks clear text on an address of its own that only administrators and monitoring reach.
//! What it shows is documented in `docs/metrics.md`.
#![forbid(unsafe_code)]

mod door;
mod metrics;
mod process;
mod ready;

pub use door::{Admin, serve};
pub use metrics::{ErrorNames, Metrics, Request, Transfer, Trust};
pub use ready::{Check, Export};
