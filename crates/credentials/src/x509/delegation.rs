//! Delegation as the client: what a proxy may say that a server asks for. A request is hostile
//! input. The proxy says nothing that the client's own chain does not allow.

use gsi_wire::delegation::CertificateRequest;
use gsi_wire::proxy::{ProxyInfo, ProxyKind, ProxyPolicy};
use gsi_wire::{Certificate, Malformed};

use super::signature;

/// `subjectAltName` and `issuerAltName`, which a proxy must not have (RFC 3820 §3.5, §3.2).
const ALTERNATIVE_NAMES: [&str; 2] = ["2.5.29.17", "2.5.29.18"];

/// How a request must name the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// In any way: the signer chooses the name (GridSite).
    Free,
    /// As the signer and one number more, which is the serial number too (`gsi`).
    Numbered,
}

/// Why a proxy is not signed, in words for the server and the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsigned {
    /// The client's own certificates do not allow it.
    Own(String),
    /// The server must not ask for it.
    Request(String),
}

impl Unsigned {
    /// The reason.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Own(words) | Self::Request(words) => words,
        }
    }
}

impl std::fmt::Display for Unsigned {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.words())
    }
}

/// What a proxy may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyTerms {
    /// The number that the request names; `None` with [`Naming::Free`].
    pub number: Option<u64>,
    /// Limited if one in the chain is limited, or if the request asks for it.
    pub policy: ProxyPolicy,
    /// How many proxies may follow below it; `None`: any number.
    pub path_length: Option<u32>,
}

/// What the proxy for `request` may say that the first certificate of `chain` signs.
///
/// # Errors
/// Why it is not to be signed.
pub fn proxy_terms(
    chain: &[Certificate<'_>],
    request: &CertificateRequest<'_>,
    naming: Naming,
) -> Result<ProxyTerms, Unsigned> {
    let own = own_terms(chain)?;
    check_request(request)?;
    let asked = asked_info(request)?;
    let is_limited = own.is_limited || asked.as_ref().is_some_and(|info| info.policy == ProxyPolicy::Limited);
    let asked_length = asked.and_then(|info| info.path_length);
    let subject = chain.first().map_or("", |own| own.subject().one_line);
    Ok(ProxyTerms {
        number: match naming {
            Naming::Free => None,
            Naming::Numbered => Some(number(subject, &request.subject_line)?),
        },
        policy: if is_limited {
            ProxyPolicy::Limited
        } else {
            ProxyPolicy::Full
        },
        path_length: match (own.path_length, asked_length) {
            (Some(own), Some(asked)) => Some(own.min(asked)),
            (own, asked) => own.or(asked),
        },
    })
}

/// What the client's own chain allows a further proxy.
struct OwnTerms {
    is_limited: bool,
    path_length: Option<u32>,
}

fn own_terms(chain: &[Certificate<'_>]) -> Result<OwnTerms, Unsigned> {
    let own = |words: &str| Unsigned::Own(words.to_owned());
    let unreadable = |why: Malformed| Unsigned::Own(why.to_string());
    let leaf = chain.first().ok_or_else(|| own("there is no certificate"))?;
    if leaf.key_usage().is_some_and(|usage| !usage.digital_signature) {
        return Err(own("our certificate's key may not be used to sign"));
    }
    let mut terms = OwnTerms {
        is_limited: false,
        path_length: None,
    };
    // The proxies, the first one made first. A length counts those that follow.
    let mut proxies = Vec::new();
    for certificate in chain {
        match certificate.proxy_kind().map_err(unreadable)? {
            Some(ProxyKind::Rfc3820) => proxies.push(certificate),
            Some(ProxyKind::Draft | ProxyKind::Legacy) => {
                return Err(own("our proxy is not of RFC 3820; make one with voms-proxy-init -rfc"));
            }
            None => break,
        }
    }
    for proxy in proxies.iter().rev() {
        let Some(info) = proxy.proxy_info().map_err(unreadable)? else {
            continue;
        };
        match info.policy {
            ProxyPolicy::Full => {}
            ProxyPolicy::Limited => terms.is_limited = true,
            ProxyPolicy::Independent | ProxyPolicy::Other(_) => {
                return Err(own("our proxy has none of the rights of its user"));
            }
        }
        terms.path_length = match (terms.path_length.map(|left| left.saturating_sub(1)), info.path_length) {
            (Some(left), Some(own)) => Some(left.min(own)),
            (left, own) => left.or(own),
        };
    }
    match terms.path_length {
        Some(0) => Err(own("our proxy allows no further proxy below it (path length 0)")),
        Some(left) => Ok(OwnTerms {
            path_length: Some(left - 1),
            ..terms
        }),
        None => Ok(terms),
    }
}

/// Checks the request's key and what it asks for beside the name.
fn check_request(request: &CertificateRequest<'_>) -> Result<(), Unsigned> {
    let unreadable = |why: Malformed| Unsigned::Request(why.to_string());
    let refuse = |words: &str| Err(Unsigned::Request(words.to_owned()));
    signature::verify_request(request)
        .map_err(|error| Unsigned::Request(error.detail().unwrap_or_default().to_owned()))?;
    if request.asks_for_authority().map_err(unreadable)? {
        return refuse("the request is for the certificate of an authority");
    }
    let usage = request.key_usage().map_err(unreadable)?;
    if usage.is_some_and(|usage| usage.certificate_sign || usage.revocation_list_sign) {
        return refuse("the request is for a key that signs certificates");
    }
    if ALTERNATIVE_NAMES.iter().any(|oid| request.extension(oid).is_some()) {
        return refuse("the request asks for an alternative name, which proxies must not have");
    }
    Ok(())
}

/// What the request says of the proxy's policy.
fn asked_info<'r>(request: &CertificateRequest<'r>) -> Result<Option<ProxyInfo<'r>>, Unsigned> {
    let info = request.proxy_info().map_err(|why| Unsigned::Request(why.to_string()))?;
    match info.as_ref().map(|info| &info.policy) {
        None | Some(ProxyPolicy::Full | ProxyPolicy::Limited) => Ok(info),
        Some(ProxyPolicy::Independent | ProxyPolicy::Other(_)) => Err(Unsigned::Request(
            "the request asks for a proxy with an unknown policy".to_owned(),
        )),
    }
}

/// The number that a request adds to the signer's name. Names are compared in one line: some
/// servers write them in another encoding, and the proxy gets the signer's own bytes anyway.
fn number(signer: &str, subject: &str) -> Result<u64, Unsigned> {
    let added = subject.strip_prefix(signer).and_then(|rest| rest.strip_prefix("/CN="));
    let number = added
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .filter(|number| *number > 0);
    number.ok_or_else(|| {
        let words = format!("the request is for {subject}, not for a proxy of {signer} with a number");
        Unsigned::Request(words)
    })
}
