//! A request for a certificate (PKCS#10, RFC 2986).

use crate::limits::CERTIFICATE_BYTES_MAX;

use super::SignatureKind;
use crate::der::{self, BIT_STRING, INTEGER, SEQUENCE, context};
use crate::{Malformed, dn, encode, malformed};

/// `extensionRequest`: the extensions that the certificate should have (RFC 2985 §5.4.2).
const EXTENSION_REQUEST: &str = "1.2.840.113549.1.9.14";

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
}

impl<'a> CertificateRequest<'a> {
    /// Reads a request; `der` is exactly that. What else it asks for is passed over.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than [`CERTIFICATE_BYTES_MAX`].
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
        reader.optional(context(0))?;
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
        })
    }
}
