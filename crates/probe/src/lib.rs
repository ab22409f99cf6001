//! Probes of storage endpoints: what a grid's smoke test asks of a server, asked with our own
//! client.
//!
//! The list of probes is that of the WLCG's HTTP-TPC smoke test (`http-tpc-utils`), for the XRootD
//! protocol as well as for HTTP, and stricter where that costs nothing: what comes back is compared
//! byte by byte, and a checksum must be the right one. See [`Smoke`].
#![forbid(unsafe_code)]

mod smoke;

pub use smoke::{Blame, Credential, Failure, Kind, Options, Outcome, Probe, Protocol, Smoke, Tally, Trust};
