//! The admin door: metrics for Prometheus, and whether the server is alive and ready.
//!
//! It is a control door ([`http_server::control`]) in clear text, on an address of its own that
//! only administrators and monitoring reach: it asks for no credential. Its connections are counted
//! apart from those of clients, so that it can be reached when clients hold all that there are.
//! What it shows is documented in `docs/metrics.md`.
#![forbid(unsafe_code)]

mod door;
mod durations;
pub mod limits;
mod metrics;
mod operations;
mod part;
mod plain;
mod process;
mod ready;
mod state;

pub use door::{Admin, LinesAbout, door};
pub use metrics::{ErrorNames, Metrics, Request, Totals, Transfer};
pub use operations::OperationCount;
pub use part::{Part, PartFuture};
pub use process::{ProcessorTime, processor_time};
pub use ready::{Check, Export};
pub use state::{Reload, Trust};
