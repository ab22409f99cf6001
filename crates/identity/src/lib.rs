//! Who is on the other side of this connection? The one place that every door asks.
//!
//! `credentials` can tell from bytes, keys and a time; here is what those are taken from: the keys
//! of macaroons, the keys of token issuers (fetched, kept and refreshed), the trust directory
//! (read, and read again when it changes), and the memory of what was verified already.
#![forbid(unsafe_code)]

mod authenticator;
mod certificate_files;
mod certificates;
mod clear_text;
mod clock;
pub mod delegation;
mod issuers;
mod last_shown;
pub mod limits;
pub mod name_uuid;
mod verified;

pub use authenticator::{Authenticator, Sources};
pub use certificate_files::{CertificateFiles, CertificateReport, directory_fingerprint};
pub use certificates::{Certificates, ShownBy};
pub use clear_text::ClearText;
pub use issuers::{
    FetchedKeys, IssuerEvent, IssuerSettings, IssuerStatus, Issuers, KeyFetcher, StoredKeys, TellIssuerEvent,
    stored_keys,
};
pub use last_shown::LastShown;
