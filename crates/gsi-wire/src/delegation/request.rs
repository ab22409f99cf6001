//! A request for a certificate (PKCS#10, RFC 2986).

use crate::limits::CERTIFICATE_BYTES_MAX;

use super::SignatureKind;
use crate::certificate::{KeyUsage, PublicKeyKind};
use crate::der::{
    self, BIT_STRING, BOOLEAN, Element, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, SET, context,
};
use crate::limits::CERTIFICATE_EXTENSIONS_MAX;
use crate::proxy::{self, ProxyInfo, ProxyKind};
use crate::{Malformed, dn, encode, malformed};

/// `extensionRequest`: the extensions that the certificate should have (RFC 2985 §5.4.2).
const EXTENSION_REQUEST: &str = "1.2.840.113549.1.9.14";
/// `keyUsage`.
const KEY_USAGE: &str = "2.5.29.15";
/// `basicConstraints`.
const BASIC_CONSTRAINTS: &str = "2.5.29.19";

/// Writes a request in DER for the key `public_key_info` (a `SubjectPublicKeyInfo`), under the name
/// `subject` (DER), signed by that key. `extensions`, each in DER, are those that the certificate
/// should have.
///
/// # Errors
/// What `sign` says.
pub fn certificate_request<E>(
    subject: &[u8],
    public_key_info: &[u8],
    extensions: &[Vec<u8>],
    kind: SignatureKind,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let attributes = encode::element(context(0), &[&extension_request(extensions)]);
    let version = encode::positive_integer(&[0]);
    let content = encode::sequence(&[&version, subject, public_key_info, &attributes]);
    kind.seal(&content, sign)
}

fn extension_request(extensions: &[Vec<u8>]) -> Vec<u8> {
    if extensions.is_empty() {
        return Vec::new();
    }
    let extensions: Vec<&[u8]> = extensions.iter().map(Vec::as_slice).collect();
    let list = encode::sequence(&extensions);
    encode::sequence(&[&encode::object_identifier(EXTENSION_REQUEST), &encode::set(&[&list])])
}

/// A request that could be read.
#[derive(Clone, Debug)]
pub struct CertificateRequest<'a> {
    /// What was signed.
    pub signed_part: &'a [u8],
    /// The content of the `AlgorithmIdentifier` of the signature, without tag and length.
    pub signature_algorithm_content: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// The name (DER) that is asked for. What a proxy is called is for its issuer to say.
    pub subject: &'a [u8],
    /// The same in one line.
    pub subject_line: String,
    /// The key: a `SubjectPublicKeyInfo` in DER.
    pub public_key_info: &'a [u8],
    /// The content of the `AlgorithmIdentifier` of the key, without tag and length.
    pub key_algorithm_content: &'a [u8],
    /// The key's bits, without its algorithm.
    pub public_key: &'a [u8],
    /// The extensions that the certificate is to have, in order.
    pub extensions: Vec<RequestedExtension<'a>>,
}

/// An extension that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedExtension<'a> {
    /// Its object identifier in dotted form.
    pub oid: String,
    /// Whether it is to be critical.
    pub is_critical: bool,
    /// What is to be in its octet string.
    pub value: &'a [u8],
}

impl<'a> CertificateRequest<'a> {
    /// Reads a request; `der` is exactly that. Attributes other than extensions are skipped.
    ///
    /// # Errors
    /// When it cannot be read, asks for an extension twice or for more than
    /// [`CERTIFICATE_EXTENSIONS_MAX`], or is larger than [`CERTIFICATE_BYTES_MAX`].
    pub fn parse(der: &'a [u8]) -> Result<Self, Malformed> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return Err(malformed("the request is too large"));
        }
        let mut whole = der::only(der, SEQUENCE, "the request")?.inside();
        let content = whole.expect(SEQUENCE, "the content of the request")?;
        let algorithm = whole.expect(SEQUENCE, "the algorithm of the signature")?.content;
        let signature = whole.expect(BIT_STRING, "the signature")?.bits()?;
        whole.finish()?;
        let mut reader = content.inside();
        if reader.expect(INTEGER, "the version")?.content != [0] {
            return Err(malformed("the request is not of version 1"));
        }
        let subject = reader.expect(SEQUENCE, "the name")?.raw;
        let info = reader.expect(SEQUENCE, "the key")?;
        let attributes = reader.optional(context(0))?;
        reader.finish()?;
        let mut key = info.inside();
        let key_algorithm_content = key.expect(SEQUENCE, "the algorithm of the key")?.content;
        let public_key = key.expect(BIT_STRING, "the bits of the key")?.bits()?;
        key.finish()?;
        Ok(Self {
            signed_part: content.raw,
            signature_algorithm_content: algorithm,
            signature,
            subject,
            subject_line: dn::one_line(subject)?,
            public_key_info: info.raw,
            key_algorithm_content,
            public_key,
            extensions: attributes.map_or_else(|| Ok(Vec::new()), |all| requested(&all))?,
        })
    }

    /// The kind of the key.
    #[must_use]
    pub fn public_key_kind(&self) -> PublicKeyKind {
        PublicKeyKind::of_info(self.public_key_info)
    }

    /// The extension with this object identifier in dotted form.
    #[must_use]
    pub fn extension(&self, oid: &str) -> Option<&RequestedExtension<'a>> {
        self.extensions.iter().find(|extension| extension.oid == oid)
    }

    /// Whether it asks for the certificate of an authority (RFC 5280 §4.2.1.9).
    ///
    /// # Errors
    /// When that extension cannot be read.
    pub fn asks_for_authority(&self) -> Result<bool, Malformed> {
        let Some(extension) = self.extension(BASIC_CONSTRAINTS) else {
            return Ok(false);
        };
        let mut reader = der::only(extension.value, SEQUENCE, "the requested basic constraints")?.inside();
        let is_authority = reader.optional(BOOLEAN)?;
        Ok(is_authority.is_some_and(|flag| flag.content != [0]))
    }

    /// What the key is to be used for (RFC 5280 §4.2.1.3); `None`: it does not say.
    ///
    /// # Errors
    /// When that extension cannot be read.
    pub fn key_usage(&self) -> Result<Option<KeyUsage>, Malformed> {
        let Some(extension) = self.extension(KEY_USAGE) else {
            return Ok(None);
        };
        let bits = der::only(extension.value, BIT_STRING, "the requested key usage")?;
        let first = bits.content.get(1).copied().unwrap_or(0);
        Ok(Some(KeyUsage {
            digital_signature: first & 0x80 != 0,
            certificate_sign: first & 0x04 != 0,
            revocation_list_sign: first & 0x02 != 0,
        }))
    }

    /// What it says of the proxy (RFC 3820 §3.8); `None`: nothing.
    ///
    /// # Errors
    /// When that extension cannot be read.
    pub fn proxy_info(&self) -> Result<Option<ProxyInfo<'a>>, Malformed> {
        let Some(extension) = self.extension(proxy::PROXY_CERT_INFO) else {
            return Ok(None);
        };
        let info = proxy::decode(extension.value, ProxyKind::Rfc3820)?;
        Ok(Some(ProxyInfo {
            is_critical: extension.is_critical,
            ..info
        }))
    }
}

/// The extensions among the attributes of a request.
fn requested<'a>(attributes: &Element<'a>) -> Result<Vec<RequestedExtension<'a>>, Malformed> {
    let mut extensions: Vec<RequestedExtension<'a>> = Vec::new();
    let mut attributes = attributes.inside();
    while !attributes.is_at_end() {
        let mut attribute = attributes.expect(SEQUENCE, "an attribute of the request")?.inside();
        let kind = attribute.expect(OBJECT_IDENTIFIER, "the kind of an attribute")?;
        let values = attribute.expect(SET, "the values of an attribute")?;
        attribute.finish()?;
        if der::dotted(kind.content)? != EXTENSION_REQUEST {
            continue;
        }
        let mut list = der::only(values.content, SEQUENCE, "the requested extensions")?.inside();
        while !list.is_at_end() {
            let extension = requested_extension(&list.expect(SEQUENCE, "a requested extension")?)?;
            if extensions.iter().any(|earlier| earlier.oid == extension.oid) {
                return Err(malformed("the request asks for an extension twice"));
            }
            if extensions.len() == CERTIFICATE_EXTENSIONS_MAX {
                return Err(malformed("the request asks for too many extensions"));
            }
            extensions.push(extension);
        }
    }
    Ok(extensions)
}

fn requested_extension<'a>(element: &Element<'a>) -> Result<RequestedExtension<'a>, Malformed> {
    let mut reader = element.inside();
    let oid = reader.expect(OBJECT_IDENTIFIER, "the kind of a requested extension")?;
    let is_critical = reader.optional(BOOLEAN)?.is_some_and(|flag| flag.content != [0]);
    let value = reader.expect(OCTET_STRING, "the content of a requested extension")?;
    reader.finish()?;
    Ok(RequestedExtension {
        oid: der::dotted(oid.content)?,
        is_critical,
        value: value.content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these attributes.
    fn request(attributes: &[Vec<u8>]) -> Vec<u8> {
        let attributes: Vec<&[u8]> = attributes.iter().map(Vec::as_slice).collect();
        let algorithm = SignatureKind::RsaSha256.algorithm();
        let key = encode::sequence(&[&algorithm, &encode::bit_string(b"key")]);
        let content = encode::sequence(&[
            &encode::positive_integer(&[0]),
            &encode::sequence(&[]),
            &key,
            &encode::element(context(0), &attributes),
        ]);
        encode::sequence(&[&content, &algorithm, &encode::bit_string(b"signature")])
    }

    fn asking(extensions: &[Vec<u8>]) -> Vec<u8> {
        let extensions: Vec<&[u8]> = extensions.iter().map(Vec::as_slice).collect();
        let value = encode::set(&[&encode::sequence(&extensions)]);
        encode::sequence(&[&encode::object_identifier(EXTENSION_REQUEST), &value])
    }

    #[test]
    fn requested_extensions_are_read() {
        let constraints = encode::extension(BASIC_CONSTRAINTS, false, &encode::sequence(&[&encode::boolean_true()]));
        let usage = encode::extension(KEY_USAGE, true, &[3, 2, 1, 0x06]);
        let challenge = encode::sequence(&[
            &encode::object_identifier("1.2.840.113549.1.9.7"),
            &encode::set(&[&encode::utf8_string("word")]),
        ]);
        let der = request(&[challenge, asking(&[constraints.clone(), usage])]);
        let request = CertificateRequest::parse(&der).unwrap();
        assert!(request.asks_for_authority().unwrap());
        let usage = request.key_usage().unwrap().unwrap();
        assert!(usage.certificate_sign && usage.revocation_list_sign && !usage.digital_signature);
        assert!(request.extension(KEY_USAGE).unwrap().is_critical);
        assert_eq!(request.proxy_info(), Ok(None));
        let none = self::request(&[]);
        let none = CertificateRequest::parse(&none).unwrap();
        assert_eq!((none.asks_for_authority(), none.key_usage()), (Ok(false), Ok(None)));
        for twice in [
            vec![asking(&[constraints.clone(), constraints.clone()])],
            vec![asking(std::slice::from_ref(&constraints)), asking(&[constraints])],
        ] {
            let der = self::request(&twice);
            assert!(CertificateRequest::parse(&der).is_err());
        }
    }

    #[test]
    fn malformed_attributes_are_refused() {
        let good = asking(&[encode::extension(KEY_USAGE, true, &[3, 2, 5, 0xa0])]);
        for end in 2..good.len() {
            let mut cut = good[..end].to_vec();
            // The outer length fits, so that only the inside is wrong.
            cut[1] = u8::try_from(end - 2).unwrap_or(0);
            assert!(CertificateRequest::parse(&request(&[cut])).is_err(), "{end}");
        }
    }
}
