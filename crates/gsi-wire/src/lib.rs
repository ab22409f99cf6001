//! What grid security adds to certificates, as bytes: names in one line, proxies (RFC 3820),
//! attribute certificates of VOMS (RFC 5755), requests and answers of delegation, and the messages
//! of the XRootD protocol's `gsi` authentication. Nothing is verified here: that is the work of
//! `credentials`.
#![forbid(unsafe_code)]

mod certificate;
pub mod delegation;
mod der;
pub mod dn;
pub mod encode;
pub mod gsi;
pub mod limits;
pub mod lsc;
pub mod namespaces;
mod pem;
pub mod proxy;
mod revocation_list;
pub mod signing_policy;
pub mod voms;

pub use certificate::{Certificate, Extension, KeyUsage, Name, PublicKeyKind};
pub use pem::{PemBlock, certificates_in_pem, pem_blocks, to_pem};
pub use proxy::{ProxyInfo, ProxyKind, ProxyPolicy};
pub use revocation_list::{RevocationList, significant};

use std::borrow::Cow;

/// Why something cannot be read, in words that its sender may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub Cow<'static, str>);

impl std::fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

fn malformed(why: impl Into<Cow<'static, str>>) -> Malformed {
    Malformed(why.into())
}
