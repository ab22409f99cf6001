//! Signing a proxy for a server that asks for one: over HTTP by a GridSite service, in the XRootD
//! protocol by `gsi`. The private key never leaves this process.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use credentials::x509::{Naming, Unsigned, proxy_terms};
use gsi_wire::delegation::{CertificateRequest, ProxyDraft};
use gsi_wire::{Certificate, Malformed, pem_blocks, to_pem};
use net::tls::ClientIdentity;
use types::{Error, ErrorCode, Phase, Side};

use crate::limits::{DELEGATED_LIFETIME, DELEGATED_LIFETIME_MIN};
use crate::resource::Resource;

/// A proxy is valid from this many seconds ago, since clocks differ.
const CLOCK_SKEW_S: i64 = 300;
/// The label of a request in PEM, and that of some older programs.
const REQUEST_LABELS: [&str; 2] = ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"];

/// A proxy that was signed for a server.
#[derive(Debug)]
pub(crate) struct SignedProxy {
    /// The proxy, PEM, without its chain and without any key.
    pub(crate) pem: String,
    /// When it expires, in seconds since 1970.
    pub(crate) expires_s: i64,
}

/// Signs the proxy that `request` (PEM) asks for. It lasts for [`DELEGATED_LIFETIME`], and no
/// longer than the certificates that sign it.
///
/// # Errors
/// Why it is not signed.
pub(crate) fn sign_proxy(
    identity: &ClientIdentity,
    request: &[u8],
    naming: Naming,
) -> std::result::Result<SignedProxy, Unsigned> {
    let theirs = |why: Malformed| Unsigned::Request(why.to_string());
    let own = |why: Malformed| Unsigned::Own(why.to_string());
    let blocks = pem_blocks(request).map_err(theirs)?;
    let request = match blocks.as_slice() {
        [request] if REQUEST_LABELS.contains(&&*request.label) => request,
        _ => return Err(Unsigned::Request("there is no request for a proxy".to_owned())),
    };
    let request = CertificateRequest::parse(&request.der).map_err(theirs)?;
    let chain = identity.chain().iter().map(|der| Certificate::parse(der));
    let chain = chain.collect::<std::result::Result<Vec<_>, _>>().map_err(own)?;
    let terms = proxy_terms(&chain, &request, naming)?;
    let issuer = chain
        .first()
        .ok_or_else(|| Unsigned::Own("there is no certificate".to_owned()))?;
    let number = terms.number.map_or_else(random_number, Ok)?;
    let (not_before_s, not_after_s) = times(identity, issuer)?;
    let draft = ProxyDraft {
        issuer: issuer.subject().der,
        common_name: &number.to_string(),
        serial: &number.to_be_bytes(),
        public_key_info: request.public_key_info,
        not_before_s,
        not_after_s,
        policy: terms.policy,
        path_length: terms.path_length,
        extensions: Vec::new(),
    };
    // The kind of a signature is known only from a signature.
    let (kind, _) = identity.sign(&[]).map_err(|error| Failed::from(error).0)?;
    let signed = draft.encode(kind, |content| {
        let (_, signature) = identity.sign(content)?;
        Ok::<_, Failed>(signature)
    });
    Ok(SignedProxy {
        pem: to_pem("CERTIFICATE", &signed.map_err(|Failed(why)| why)?),
        expires_s: not_after_s,
    })
}

/// The proxy that a service asks for, with the chain of our identity, as PEM. `is_verified` says
/// whether the service's certificate was.
///
/// # Errors
/// The connection does not protect the proxy, there is no identity, or the request is unusable.
pub(crate) fn sign_chain(service: &Resource, request: &str, is_verified: bool) -> types::Result<String> {
    let own = |words: &str| refusal(service, &Unsigned::Own(words.to_owned()));
    if !service.location.is_encrypted() || !is_verified {
        return Err(own("the server's certificate is not verified"));
    }
    let identity = service.access.identity.as_ref();
    let identity = identity.ok_or_else(|| own("there is no certificate"))?;
    let signed = sign_proxy(identity, request.as_bytes(), Naming::Free);
    let mut chain = signed.map_err(|why| refusal(service, &why))?.pem;
    for der in identity.chain() {
        chain.push_str(&to_pem("CERTIFICATE", der));
    }
    Ok(chain)
}

/// The error for the user. `server` is the one that asked.
pub(crate) fn refusal(server: &Resource, why: &Unsigned) -> Error {
    let (code, side) = match why {
        Unsigned::Own(_) => (ErrorCode::CertificateUnusable, Side::Client),
        Unsigned::Request(_) => (ErrorCode::PeerMisbehaved, server.side),
    };
    let error = Error::new(code, side, Phase::Authenticate).with_subject(&server.location);
    error.with_detail(format!("no proxy was delegated: {why}"))
}

/// From when to when a proxy is valid.
fn times(identity: &ClientIdentity, issuer: &Certificate<'_>) -> std::result::Result<(i64, i64), Unsigned> {
    let now_s = now_s();
    let seconds = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(0);
    let not_after_s = (now_s + seconds(DELEGATED_LIFETIME)).min(identity.expires_s());
    if not_after_s < now_s + seconds(DELEGATED_LIFETIME_MIN) {
        return Err(Unsigned::Own("our certificate expires too soon".to_owned()));
    }
    Ok(((now_s - CLOCK_SKEW_S).max(issuer.not_before_s()), not_after_s))
}

/// The time in seconds since 1970.
pub(crate) fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0))
}

/// A positive number that no other proxy of ours has.
fn random_number() -> std::result::Result<u64, Unsigned> {
    let mut bytes = [0; 8];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| Unsigned::Own("there are no random bytes".to_owned()))?;
    Ok(u64::from_be_bytes(bytes) >> 1 | 1)
}

/// The signature could not be made.
struct Failed(Unsigned);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(Unsigned::Own(error.public()))
    }
}

impl From<Malformed> for Failed {
    fn from(why: Malformed) -> Self {
        Self(Unsigned::Own(why.to_string()))
    }
}
