//! A proxy (RFC 3820) to be signed.

use super::SignatureKind;
use crate::der::context;
use crate::proxy::{INDEPENDENT, INHERIT_ALL, LIMITED, PROXY_CERT_INFO, ProxyPolicy};
use crate::{Malformed, der, encode, malformed};

/// `commonName`.
const COMMON_NAME: &str = "2.5.4.3";
/// `keyUsage`: to sign, and to encrypt keys, critical. What clients of TLS need.
const KEY_USAGE: (&str, &[u8]) = ("2.5.29.15", &[0x03, 0x02, 0x05, 0xa0]);

/// The name (DER) of a proxy: its issuer's name (DER) and one more common name (RFC 3820 §3.4).
///
/// # Errors
/// When the issuer's name cannot be read, or the common name is empty.
pub fn proxy_name(issuer: &[u8], common_name: &str) -> Result<Vec<u8>, Malformed> {
    if common_name.is_empty() {
        return Err(malformed("a proxy needs a name"));
    }
    let issuer = der::only(issuer, der::SEQUENCE, "the issuer's name")?;
    let pair = encode::sequence(&[
        &encode::object_identifier(COMMON_NAME),
        &encode::utf8_string(common_name),
    ]);
    Ok(encode::sequence(&[issuer.content, &encode::set(&[&pair])]))
}

/// The extensions that a request for a full proxy names. XRootD's clients sign no request without
/// any.
#[must_use]
pub fn proxy_extensions() -> Vec<Vec<u8>> {
    vec![
        encode::extension(KEY_USAGE.0, true, KEY_USAGE.1),
        encode::extension(PROXY_CERT_INFO, true, &proxy_info(&ProxyPolicy::Full, None)),
    ]
}

/// The content of `proxyCertInfo` (RFC 3820 §3.8).
fn proxy_info(policy: &ProxyPolicy, path_length: Option<u32>) -> Vec<u8> {
    let language = match policy {
        ProxyPolicy::Full => INHERIT_ALL,
        ProxyPolicy::Limited => LIMITED,
        ProxyPolicy::Independent => INDEPENDENT,
        ProxyPolicy::Other(language) => language,
    };
    let policy = encode::sequence(&[&encode::object_identifier(language)]);
    let length = path_length.map(|length| encode::positive_integer(&length.to_be_bytes()));
    encode::sequence(&[&length.unwrap_or_default(), &policy])
}

/// What a proxy is to say.
#[derive(Clone, Debug)]
pub struct ProxyDraft<'d> {
    /// The name (DER) of the certificate that signs it.
    pub issuer: &'d [u8],
    /// The common name that is appended: a number that no other proxy of the issuer has (RFC 3820
    /// §3.4).
    pub common_name: &'d str,
    /// The serial number, which no other proxy of the issuer has, as the bytes of a positive
    /// number.
    pub serial: &'d [u8],
    /// The key that it is for: a `SubjectPublicKeyInfo` in DER.
    pub public_key_info: &'d [u8],
    /// Valid from this time on, in seconds since 1970.
    pub not_before_s: i64,
    /// Valid until this time, in seconds since 1970.
    pub not_after_s: i64,
    /// What it may do. One that is made from a limited proxy must be limited.
    pub policy: ProxyPolicy,
    /// How many proxies may follow below it; `None`: any number.
    pub path_length: Option<u32>,
    /// Further extensions, such as that with VOMS attributes: each as a whole, in DER.
    pub extensions: Vec<Vec<u8>>,
}

impl ProxyDraft<'_> {
    /// Writes the proxy, in DER. `sign` is the key of the issuer, and `kind` says how it signs.
    ///
    /// # Errors
    /// When the issuer's name cannot be read, or with what `sign` says.
    pub fn encode<E: From<Malformed>>(
        &self,
        kind: SignatureKind,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let times = [self.not_before_s, self.not_after_s].map(encode::certificate_time);
        let mut extensions = vec![
            encode::extension(KEY_USAGE.0, true, KEY_USAGE.1),
            encode::extension(PROXY_CERT_INFO, true, &proxy_info(&self.policy, self.path_length)),
        ];
        extensions.extend(self.extensions.iter().cloned());
        let extensions: Vec<&[u8]> = extensions.iter().map(Vec::as_slice).collect();
        let content = encode::sequence(&[
            // Version 3 has the number 2.
            &encode::element(context(0), &[&encode::positive_integer(&[2])]),
            &encode::positive_integer(self.serial),
            &kind.algorithm(),
            self.issuer,
            &encode::sequence(&[&times[0], &times[1]]),
            &proxy_name(self.issuer, self.common_name)?,
            self.public_key_info,
            &encode::element(context(3), &[&encode::sequence(&extensions)]),
        ]);
        kind.seal(&content, sign)
    }
}
