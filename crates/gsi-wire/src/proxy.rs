//! What makes a certificate a proxy: the extension `proxyCertInfo` (RFC 3820 §3.8), its draft form
//! of GT3, and the last part of the name for those of GT2, which have no extension.

use crate::der::{self, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, context};
use crate::{Certificate, Malformed, dn, malformed};

/// `id-pe-proxyCertInfo` (RFC 3820 §3.8).
pub const PROXY_CERT_INFO: &str = "1.3.6.1.5.5.7.1.14";
/// The same extension in the draft that the Globus Toolkit 3 went by.
pub const PROXY_CERT_INFO_DRAFT: &str = "1.3.6.1.4.1.3536.1.222";
/// `id-ppl-inheritAll`: the proxy may do whatever its issuer may (RFC 3820 §3.8.2).
pub const INHERIT_ALL: &str = "1.3.6.1.5.5.7.21.1";
/// `id-ppl-independent`: the proxy has no rights of its issuer.
pub const INDEPENDENT: &str = "1.3.6.1.5.5.7.21.2";
/// Globus' limited proxy, which may not start jobs.
pub const LIMITED: &str = "1.3.6.1.4.1.3536.1.1.1.9";

/// The generation that a proxy belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// RFC 3820.
    Rfc3820,
    /// With the draft's extension, of GT3.
    Draft,
    /// Without an extension, of GT2: its subject is its issuer and `CN=proxy` or `CN=limited
    /// proxy`.
    Legacy,
}

/// What a proxy may do with the rights of its issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyPolicy {
    /// All that its issuer may.
    Full,
    /// All but starting jobs.
    Limited,
    /// Nothing.
    Independent,
    /// In a language that is not known here, by its object identifier.
    Other(String),
}

/// The content of the extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyInfo<'c> {
    /// Which form of the extension it is.
    pub kind: ProxyKind,
    /// Whether the extension is marked critical.
    pub is_critical: bool,
    /// How many proxies may follow below this one; `None`: any number.
    pub path_length: Option<u32>,
    /// What it may do.
    pub policy: ProxyPolicy,
    /// The words of the policy, which must not be there for the known languages.
    pub policy_text: Option<&'c [u8]>,
}

pub(crate) fn info_of<'c>(certificate: &'c Certificate<'_>) -> Result<Option<ProxyInfo<'c>>, Malformed> {
    let forms = [
        (PROXY_CERT_INFO, ProxyKind::Rfc3820),
        (PROXY_CERT_INFO_DRAFT, ProxyKind::Draft),
    ];
    let found = forms.map(|(oid, kind)| Some((certificate.extension(oid)?, kind)));
    let (extension, kind) = match found {
        [None, None] => return Ok(None),
        [Some(_), Some(_)] => return Err(malformed("the certificate is two kinds of proxy at once")),
        [Some(one), None] | [None, Some(one)] => one,
    };
    let mut info = decode(extension.value, kind)?;
    info.is_critical = extension.is_critical;
    Ok(Some(info))
}

/// Reads the content of the extension. The draft has the path length behind the policy, as `[1]`.
pub(crate) fn decode(value: &[u8], kind: ProxyKind) -> Result<ProxyInfo<'_>, Malformed> {
    let mut reader = der::only(value, SEQUENCE, "the proxy's description")?.inside();
    let mut path_length = reader
        .optional(INTEGER)?
        .map(|number| small(number.content))
        .transpose()?;
    let mut policy = reader.expect(SEQUENCE, "the proxy's policy")?.inside();
    let language = der::dotted(
        policy
            .expect(OBJECT_IDENTIFIER, "the language of the proxy's policy")?
            .content,
    )?;
    let policy_text = policy.optional(OCTET_STRING)?.map(|text| text.content);
    policy.finish()?;
    if kind == ProxyKind::Draft && path_length.is_none() {
        let tagged = reader.optional(context(1))?;
        path_length = tagged
            .map(|tagged| {
                let mut number = Reader::new(tagged.content);
                small(number.expect(INTEGER, "the path length of the proxy")?.content)
            })
            .transpose()?;
    }
    reader.finish()?;
    let policy = match &*language {
        INHERIT_ALL => ProxyPolicy::Full,
        LIMITED => ProxyPolicy::Limited,
        INDEPENDENT => ProxyPolicy::Independent,
        _ => ProxyPolicy::Other(language),
    };
    Ok(ProxyInfo {
        kind,
        is_critical: false,
        path_length,
        policy,
        policy_text,
    })
}

fn small(digits: &[u8]) -> Result<u32, Malformed> {
    match digits {
        [] => Err(malformed("a number is empty")),
        [first, ..] if first & 0x80 != 0 => Err(malformed("the path length of the proxy is negative")),
        // More proxies than anybody makes: as good as no limit.
        _ if digits.len() > 4 => Ok(u32::MAX),
        _ => Ok(digits.iter().fold(0, |sum, digit| (sum << 8) | u32::from(*digit))),
    }
}

pub(crate) fn kind_of(certificate: &Certificate<'_>) -> Result<Option<ProxyKind>, Malformed> {
    if let Some(info) = info_of(certificate)? {
        return Ok(Some(info.kind));
    }
    let last = dn::appended_common_name(certificate.issuer().der, certificate.subject().der)?;
    let is_legacy = matches!(last.as_deref(), Some("proxy" | "limited proxy"));
    Ok((is_legacy && !certificate.is_ca()).then_some(ProxyKind::Legacy))
}
