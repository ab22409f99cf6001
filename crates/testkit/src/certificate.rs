//! Certificates of any shape, sound or not, written byte by byte: libraries refuse to make broken
//! ones.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use gsi_wire::delegation::SignatureKind;
use gsi_wire::encode;
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};

use crate::authority::key_pair;
use crate::{Error, KeyKind, Result};

/// `subjectKeyIdentifier`.
const KEY_IDENTIFIER: &str = "2.5.29.14";
/// `basicConstraints`, `keyUsage` and `extKeyUsage`.
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
const KEY_USAGE: &str = "2.5.29.15";
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
/// `digitalSignature` and `keyEncipherment`, as the value of `keyUsage`.
const SIGNS: &[u8] = &[3, 2, 5, 0xa0];
/// `keyCertSign` and `cRLSign`.
const SIGNS_CERTIFICATES: &[u8] = &[3, 2, 1, 0x06];

/// Seconds since 1970.
pub(crate) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The DER of a name in one line, such as `/DC=test/O=Grid/CN=Jane Doe`: `DC` and `emailAddress` as
/// IA5String, other parts as UTF8String. What follows a plus sign and has a type belongs to the
/// same relative name, as in `/CN=Jane Doe+UID=jane`.
///
/// # Errors
/// When a part has no type that is known here.
pub fn name_der(line: &str) -> Result<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    // A slash inside of a value, as in `CN=host/example.org`, is followed by no type.
    let mut texts: Vec<String> = Vec::new();
    for text in line.split('/').skip(1) {
        match texts.last_mut() {
            Some(last) if !text.contains('=') => last.push_str(&format!("/{text}")),
            _ => texts.push(text.to_owned()),
        }
    }
    for text in texts {
        let mut pairs = Vec::new();
        for text in together(&text) {
            pairs.push(attribute(&text, line)?);
        }
        let pairs: Vec<&[u8]> = pairs.iter().map(Vec::as_slice).collect();
        parts.push(encode::set(&pairs));
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(encode::sequence(&parts))
}

/// The attributes of one relative name, each with its type.
fn together(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for piece in text.split('+') {
        match all.last_mut() {
            Some(last) if !piece.contains('=') => last.push_str(&format!("+{piece}")),
            _ => all.push(piece.to_owned()),
        }
    }
    all
}

/// The DER of one attribute of the name `line`.
fn attribute(text: &str, line: &str) -> Result<Vec<u8>> {
    let (kind, value) = text.split_once('=').unwrap_or((text, ""));
    let oid = match kind {
        "CN" => "2.5.4.3",
        "C" => "2.5.4.6",
        "L" => "2.5.4.7",
        "ST" => "2.5.4.8",
        "O" => "2.5.4.10",
        "OU" => "2.5.4.11",
        "DC" => "0.9.2342.19200300.100.1.25",
        "UID" => "0.9.2342.19200300.100.1.1",
        "emailAddress" => "1.2.840.113549.1.9.1",
        _ => return Err(Error::Failed(format!("the part {kind} of {line} has no known type"))),
    };
    let value = match kind {
        "DC" | "emailAddress" => encode::element(0x16, &[value.as_bytes()]),
        "C" => encode::element(0x13, &[value.as_bytes()]),
        _ => encode::utf8_string(value),
    };
    Ok(encode::sequence(&[&encode::object_identifier(oid), &value]))
}

/// A key and how it signs.
#[derive(Debug, Clone)]
pub struct SigningPair {
    key: Arc<KeyPair>,
    kind: SignatureKind,
}

impl SigningPair {
    /// Makes a key.
    ///
    /// # Errors
    /// When the library fails.
    pub fn new(kind: KeyKind) -> Result<Self> {
        Ok(Self::of(key_pair(kind)?, kind))
    }

    pub(crate) fn of(key: KeyPair, kind: KeyKind) -> Self {
        let kind = match kind {
            KeyKind::Rsa2048 => SignatureKind::RsaSha256,
            KeyKind::EcdsaP256 => SignatureKind::EcdsaSha256,
        };
        Self {
            key: Arc::new(key),
            kind,
        }
    }

    /// Another key of the same kind.
    pub(crate) fn another(&self) -> Result<Self> {
        Self::new(match self.kind {
            SignatureKind::RsaSha256 => KeyKind::Rsa2048,
            SignatureKind::EcdsaSha256 | SignatureKind::EcdsaSha384 => KeyKind::EcdsaP256,
        })
    }

    /// How it signs.
    #[must_use]
    pub fn kind(&self) -> SignatureKind {
        self.kind
    }

    /// Signs.
    ///
    /// # Errors
    /// When the library fails.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        Ok(self.key.sign(message)?)
    }

    /// The public key, a `SubjectPublicKeyInfo` in DER.
    #[must_use]
    pub fn public_key_info(&self) -> Vec<u8> {
        self.key.subject_public_key_info()
    }

    /// A name for the key: the SHA-1 of its bits (RFC 5280 §4.2.1.2, method 1). VOMS' library knows
    /// no other: it names the issuer of attributes so, and looks for a certificate of that name.
    pub(crate) fn identifier(&self) -> Vec<u8> {
        let name = digest(&SHA1_FOR_LEGACY_USE_ONLY, self.key.der_bytes());
        name.as_ref().to_vec()
    }

    /// The private key, PKCS#8 in PEM.
    #[must_use]
    pub fn private_pem(&self) -> String {
        self.key.serialize_pem()
    }
}

/// The issuer of a certificate.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    /// Its name in DER.
    pub(crate) name: Vec<u8>,
    pub(crate) pair: SigningPair,
}

/// What a certificate is to say; sound unless changed.
#[derive(Debug, Clone)]
pub struct CertificateOptions {
    /// The kind of its key.
    pub key: KeyKind,
    /// Its number; `None`: some number that no other has.
    pub serial: Option<Vec<u8>>,
    /// Valid from so many seconds from now on; negative: since so long.
    pub starts_s: i64,
    /// Valid until so many seconds from now; negative: it has expired.
    pub ends_s: i64,
    /// Whether it is an authority's.
    pub is_ca: bool,
    /// The value of `keyUsage` in DER; `None`: what fits; empty: none.
    pub key_usage: Option<Vec<u8>>,
    /// The purposes of its extended key usage in dotted form; empty: none.
    pub purposes: Vec<String>,
    /// Host names for `subjectAltName`.
    pub host_names: Vec<String>,
    /// Further extensions in DER, see [`gsi_wire::encode::extension`].
    pub extensions: Vec<Vec<u8>>,
    /// The key that it is for, in place of one made for it: a `SubjectPublicKeyInfo` in DER.
    pub public_key_info: Option<Vec<u8>>,
    /// The `AlgorithmIdentifier` that it claims to be signed with, in place of the true one.
    pub claimed_algorithm: Option<Vec<u8>>,
}

impl Default for CertificateOptions {
    fn default() -> Self {
        Self {
            key: KeyKind::Rsa2048,
            serial: None,
            starts_s: -3600,
            ends_s: 10 * 86400,
            is_ca: false,
            key_usage: None,
            purposes: vec!["1.3.6.1.5.5.7.3.2".to_owned()],
            host_names: Vec::new(),
            extensions: Vec::new(),
            public_key_info: None,
            claimed_algorithm: None,
        }
    }
}

/// A certificate that was made: its DER, and its key.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) der: Vec<u8>,
    pub(crate) pair: SigningPair,
}

impl CertificateOptions {
    fn own_extensions(&self) -> Vec<Vec<u8>> {
        let basic = if self.is_ca {
            encode::sequence(&[&encode::boolean_true()])
        } else {
            encode::sequence(&[])
        };
        let mut extensions = vec![encode::extension(BASIC_CONSTRAINTS, true, &basic)];
        let fitting = if self.is_ca { SIGNS_CERTIFICATES } else { SIGNS };
        let usage = self.key_usage.as_deref().unwrap_or(fitting);
        if !usage.is_empty() {
            extensions.push(encode::extension(KEY_USAGE, true, usage));
        }
        if !self.is_ca && !self.purposes.is_empty() {
            let purposes: Vec<_> = self.purposes.iter().map(|oid| encode::object_identifier(oid)).collect();
            let purposes: Vec<&[u8]> = purposes.iter().map(Vec::as_slice).collect();
            extensions.push(encode::extension(
                EXTENDED_KEY_USAGE,
                false,
                &encode::sequence(&purposes),
            ));
        }
        if !self.host_names.is_empty() {
            let names: Vec<_> = self
                .host_names
                .iter()
                .map(|host| encode::element(0x82, &[host.as_bytes()]))
                .collect();
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            extensions.push(encode::extension("2.5.29.17", false, &encode::sequence(&names)));
        }
        extensions.extend(self.extensions.iter().cloned());
        extensions
    }

    /// Makes a certificate for a name in DER.
    pub(crate) fn make(&self, subject: &[u8], signer: &Signer) -> Result<Made> {
        self.make_with(subject, &self.own_extensions(), signer)
    }

    /// As [`Self::make`], with exactly these extensions and the name of its key.
    pub(crate) fn make_with(&self, subject: &[u8], extensions: &[Vec<u8>], signer: &Signer) -> Result<Made> {
        let pair = SigningPair::new(self.key)?;
        let now = now_s();
        let random = random_serial();
        let own_key = pair.public_key_info();
        let identifier = encode::extension(KEY_IDENTIFIER, false, &encode::octet_string(&pair.identifier()));
        let extensions: Vec<&[u8]> = extensions.iter().chain([&identifier]).map(Vec::as_slice).collect();
        let algorithm = self
            .claimed_algorithm
            .clone()
            .unwrap_or_else(|| signer.pair.kind.algorithm());
        let content = encode::sequence(&[
            &encode::element(encode::context(0), &[&encode::positive_integer(&[2])]),
            &encode::positive_integer(self.serial.as_deref().unwrap_or(&random)),
            &algorithm,
            &signer.name,
            &encode::sequence(&[
                &encode::certificate_time(now + self.starts_s),
                &encode::certificate_time(now + self.ends_s),
            ]),
            subject,
            self.public_key_info.as_deref().unwrap_or(&own_key),
            &encode::element(encode::context(3), &[&encode::sequence(&extensions)]),
        ]);
        let signature = encode::bit_string(&signer.pair.sign(&content)?);
        let der = encode::sequence(&[&content, &algorithm, &signature]);
        Ok(Made { der, pair })
    }
}

/// Sixteen bytes that nothing else has.
pub(crate) fn random_serial() -> Vec<u8> {
    let mut bytes = [0; 16];
    // Uniqueness is all that is wanted here, and without randomness the first certificate would
    // fail anyway.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes[0] = 0x40 | (bytes[0] >> 2);
    bytes.to_vec()
}
