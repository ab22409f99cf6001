//! Proxies (RFC 3820): certificates that a user signs with a certificate, or with another proxy.

use gsi_wire::proxy::{PROXY_CERT_INFO, ProxyInfo, ProxyKind, ProxyPolicy};
use gsi_wire::{Certificate, dn};
use types::{Error, ErrorCode};

use super::chain::check_time;
use super::signature::ProxyDigests;
use super::{refused, signature, unreadable};

/// Extensions that may be critical in a proxy: what is known here. Others are refused then (RFC
/// 5280 §4.2).
const KNOWN_EXTENSIONS: &[&str] = &[
    PROXY_CERT_INFO,
    // keyUsage, basicConstraints, extKeyUsage
    "2.5.29.15",
    "2.5.29.19",
    "2.5.29.37",
];
/// subjectAltName and issuerAltName, which a proxy must not have (RFC 3820 §3.5, §3.2).
const ALTERNATIVE_NAMES: &[&str] = &["2.5.29.17", "2.5.29.18"];

/// What the proxies of a chain say together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verified {
    /// The end of the first that ends, in seconds since 1970; `None`: there is none.
    pub(super) expires_s: Option<i64>,
    /// Whether the last one is limited.
    pub(super) is_limited: bool,
    /// How many more may follow; `None`: any number.
    pub(super) left: Option<u32>,
}

/// How many proxies stand in front of the certificate that an authority issued.
///
/// # Errors
/// `proxy_legacy` when one of them is not of RFC 3820.
pub(super) fn count(chain: &[Certificate<'_>]) -> Result<usize, Error> {
    if chain.is_empty() {
        return Err(refused(ErrorCode::CertificateMalformed, "no certificate was sent"));
    }
    for (index, certificate) in chain.iter().enumerate() {
        let name = certificate.subject().one_line;
        let old = |which: &str| {
            let why = format!("{name} is a proxy of {which}; make one of RFC 3820 with voms-proxy-init -rfc");
            Err(refused(ErrorCode::ProxyLegacy, why))
        };
        match certificate.proxy_kind().map_err(|why| unreadable(&why))? {
            None => return Ok(index),
            Some(ProxyKind::Rfc3820) => {}
            Some(ProxyKind::Draft) => return old("the draft that the Globus Toolkit 3 went by"),
            Some(ProxyKind::Legacy) => return old("the Globus Toolkit 2"),
        }
    }
    Ok(chain.len())
}

/// Verifies proxies, the last made first, with the certificate that they come from behind them.
///
/// # Errors
/// Each reason has its own code.
pub(super) fn verify(chain: &[Certificate<'_>], digests: ProxyDigests, now_s: i64) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    for pair in chain.windows(2).rev() {
        let [proxy, issuer] = pair else { continue };
        let name = proxy.subject().one_line;
        let info = proxy.proxy_info().map_err(|why| unreadable(&why))?;
        let Some(info) = info else { continue };
        check_step(proxy, issuer)?;
        check_time(proxy, now_s)?;
        signature::check_key(proxy, name)?;
        signature::verify_proxy(issuer, proxy, digests).map_err(|fault| fault.refuse(name))?;
        if verified.left == Some(0) {
            let why = format!("{} allows no further proxy below it", issuer.subject().one_line);
            return Err(refused(ErrorCode::ProxyTooDeep, why));
        }
        let left = match (verified.left.map(|left| left - 1), info.path_length) {
            (Some(left), Some(own)) => Some(left.min(own)),
            (left, own) => left.or(own),
        };
        let is_limited = check_policy(&info, name)?;
        if verified.is_limited && !is_limited {
            let why = format!("{name} is a full proxy made from a limited one");
            return Err(refused(ErrorCode::ProxyWidened, why));
        }
        let end = proxy.not_after_s();
        verified = Verified {
            expires_s: Some(verified.expires_s.map_or(end, |earlier| earlier.min(end))),
            is_limited,
            left,
        };
    }
    Ok(verified)
}

/// The rules about one proxy and what it was made from (RFC 3820 §3, §4.1).
fn check_step(proxy: &Certificate<'_>, issuer: &Certificate<'_>) -> Result<(), Error> {
    let name = proxy.subject().one_line;
    let broken = |why: &str| Err(refused(ErrorCode::ProxyInvalid, format!("{name} {why}")));
    if proxy.issuer().der != issuer.subject().der {
        return broken("was not made from the certificate that was sent after it");
    }
    let appended = dn::appended_common_name(proxy.issuer().der, proxy.subject().der);
    if appended.map_err(|why| unreadable(&why))?.is_none() {
        return broken("is not named as its issuer and exactly one more common name");
    }
    if proxy.is_ca() {
        return broken("claims to be an authority");
    }
    if issuer.key_usage().is_some_and(|usage| !usage.digital_signature) {
        return broken("was made from a certificate whose key may not be used to sign");
    }
    if proxy.key_usage().is_some_and(|usage| usage.certificate_sign) {
        return broken("claims the right to sign certificates");
    }
    for extension in proxy.extensions() {
        let oid = extension.oid();
        if ALTERNATIVE_NAMES.contains(&&*oid) {
            return broken("has an alternative name, which proxies must not have");
        }
        if oid == PROXY_CERT_INFO && !extension.is_critical {
            return broken("does not mark its being a proxy as critical");
        }
        if extension.is_critical && !KNOWN_EXTENSIONS.contains(&&*oid) {
            return broken(&format!(
                "has the critical extension {oid}, which is not understood here"
            ));
        }
    }
    Ok(())
}

/// Whether it is a limited one.
fn check_policy(info: &ProxyInfo<'_>, name: &str) -> Result<bool, Error> {
    let refuse = |why: &str| {
        let why = format!("{name} {why}");
        Err(refused(ErrorCode::ProxyPolicyRefused, why))
    };
    match &info.policy {
        ProxyPolicy::Full | ProxyPolicy::Limited if info.policy_text.is_some_and(|text| !text.is_empty()) => {
            refuse("has words in its policy, where its language has none")
        }
        ProxyPolicy::Full => Ok(false),
        ProxyPolicy::Limited => Ok(true),
        ProxyPolicy::Independent => refuse("is independent: it has none of the rights of whom it names"),
        ProxyPolicy::Other(language) => refuse(&format!("has a policy in the language {language}")),
    }
}
