//! Instruments for storage endpoints: what transfers ask of servers, asked with our own client.
//!
//! [`Smoke`] probes one endpoint. Its list of probes is that of the WLCG's HTTP-TPC smoke test
//! (`http-tpc-utils`), for the XRootD protocol as well as for HTTP, and stricter where that costs
//! nothing: what comes back is compared byte by byte, and a checksum must be the right one.
//!
//! [`mesh`] copies a file between each two of many endpoints, in each protocol and mode.
#![forbid(unsafe_code)]

mod kind;
mod limits;
pub mod mesh;
mod reproduce;
mod smoke;
mod steps;

pub use kind::Kind;
pub use reproduce::{CredentialFile, Trust};
pub use smoke::cells as smoke_cells;
pub use smoke::{Blame, Credential, Failure, Options, Outcome, Probe, Protocol, Smoke, Tally};
