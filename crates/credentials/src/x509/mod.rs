//! Certificates, proxies and VOMS attributes: from the chain that a client shows to a name that
//! rules can be made for.
//!
//! The end-entity certificate is verified by `webpki`, which knows nothing of proxies; those in
//! front of it are verified here (RFC 3820), and so are revocation lists, the names that an
//! authority may sign, and VOMS' attribute certificates (RFC 5755).

mod attributes;
mod chain;
mod delegation;
mod maps;
mod names;
mod proxies;
mod revocation;
mod signature;
mod trust;
mod voms_directory;

pub use chain::{VerifiedHost, verify_chain, verify_gsi_chain, verify_host};
pub use delegation::{Naming, ProxyTerms, Unsigned, proxy_terms};
pub use maps::{GridMap, VomsMap};
pub use signature::{has_sha1_proxy, has_signed, verify_request};
pub use trust::{ListTimes, TrustFault, TrustStore};
pub use voms_directory::VomsDirectory;

use std::sync::Arc;

use gsi_wire::Malformed;
use types::{Error, ErrorCode, Phase, Side};

/// What certificates are checked against.
#[derive(Clone, Debug, Default)]
pub struct CertificateRules {
    /// The authorities.
    pub trust: Arc<TrustStore>,
    /// The servers that speak for VOs.
    pub voms: Arc<VomsDirectory>,
    /// Names of certificates and the local users they are.
    pub grid_map: GridMap,
    /// Attributes of VOMS and the local users they are. What the name says goes before.
    pub voms_map: VomsMap,
    /// What is demanded of revocation lists.
    pub revocation: Revocation,
    /// The names of this host. VOMS attributes that are restricted to hosts must name one of them.
    pub host_names: Vec<String>,
}

/// What is demanded of the revocation lists of the authorities in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revocation {
    /// Each authority has a list, and it is not out of date.
    Required,
    /// Where an authority has a list, it can be read and is not out of date. This is how dCache's
    /// mode `IF_VALID` and OpenSSL, where it has a list, see it: an old list would let those in
    /// that were revoked since.
    #[default]
    IfPresent,
    /// Nothing: revoked certificates are accepted.
    Off,
}

/// A refusal for the certificate's sender.
fn refused(code: ErrorCode, why: impl Into<String>) -> Error {
    Error::new(code, Side::Client, Phase::Authenticate).with_detail(why)
}

/// A certificate that cannot be read.
fn unreadable(why: &Malformed) -> Error {
    refused(ErrorCode::CertificateMalformed, why.to_string())
}
