//! The public keys of an issuer (RFC 7517, RFC 7518 §6) and what they verify.

use crate::limits::{ISSUER_KEYS_MAX, TOKEN_KEY_NAME_BYTES_MAX};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Map, Value};
use types::limits::ISSUER_DOCUMENT_BYTES_MAX;
use types::{Error, ErrorCode};

use super::{json, refused};
use crate::inspect::shown;
use crate::macaroon::decode_base64;

/// Values in a key set, all levels together: [`ISSUER_KEYS_MAX`] keys, each with its chain of
/// certificates.
const VALUES_MAX: usize = 4096;
/// RSA keys of another size are neither safe nor known to the library, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// Bytes of one coordinate on P-256.
const P256_BYTES: usize = 32;

/// How tokens may be signed (WLCG Common JWT Profiles: both must be understood; RFC 7518 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
}

impl Algorithm {
    /// Case matters (RFC 7515 §4.1.1).
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point (SEC 1 §2.3.3).
    P256(Vec<u8>),
}

impl PublicKey {
    fn fits(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::Rsa { .. }, Algorithm::Rs256) | (Self::P256(_), Algorithm::Es256)
        )
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "an RSA key",
            Self::P256(_) => "a key on the curve P-256",
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents {
                n: modulus,
                e: exponent,
            }
            .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            .is_ok(),
            Self::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .is_ok(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    name: Option<String>,
    key: PublicKey,
}

/// The keys of one issuer that can verify a token.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    /// Why others of the set are of no use, one reason each.
    passed_over: Vec<String>,
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys of other kinds and for other purposes are passed over, and so
    /// are certificates in it (`x5c`): the key itself is what counts.
    ///
    /// # Errors
    /// `token_issuer_unreachable` with the reason: more than [`ISSUER_DOCUMENT_BYTES_MAX`], no key
    /// set, or not one key in it that can be used.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let unusable = |why: String| refused(ErrorCode::TokenIssuerUnreachable, why);
        if text.len() > ISSUER_DOCUMENT_BYTES_MAX {
            let words = format!("its key set is larger than {ISSUER_DOCUMENT_BYTES_MAX} bytes");
            return Err(unusable(words));
        }
        let set = json::object(text, VALUES_MAX).map_err(|why| unusable(format!("its key set {why}")))?;
        let Some(Value::Array(list)) = set.get("keys") else {
            return Err(unusable("its key set has no list of keys".to_owned()));
        };
        if list.len() > ISSUER_KEYS_MAX {
            let words = format!("its key set holds more than {ISSUER_KEYS_MAX} keys");
            return Err(unusable(words));
        }
        let mut all = Self::default();
        for entry in list {
            match read_key(entry) {
                Ok(key) => all.keys.push(key),
                Err(why) => all.passed_over.push(why),
            }
        }
        if all.keys.is_empty() {
            let why = all.passed_over.first().map_or("it is empty", String::as_str);
            return Err(unusable(format!(
                "its key set holds no key that can be used here: {why}"
            )));
        }
        Ok(all)
    }

    /// How many keys can be used.
    #[must_use]
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Why other keys of the set cannot be used, one reason each.
    #[must_use]
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// The names of the keys, for reports.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys
            .iter()
            .map(|key| key.name.as_deref().unwrap_or("(without a name)"))
    }

    /// Checks a signature with the key of that name; without a name, with the only one that fits.
    pub(super) fn verify(
        &self,
        name: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        let named: Vec<&Key> = match name {
            Some(name) => self
                .keys
                .iter()
                .filter(|key| key.name.as_deref() == Some(name))
                .collect(),
            None => self.keys.iter().filter(|key| key.key.fits(algorithm)).collect(),
        };
        match (name, named.len()) {
            (Some(name), 0) => {
                let words = format!("the token names the key \"{}\"", shown(name));
                return Err(refused(ErrorCode::TokenKeyUnknown, words));
            }
            (None, 0) => {
                let words = format!("the issuer has no key for {}", algorithm.name());
                return Err(refused(ErrorCode::TokenKeyUnknown, words));
            }
            (None, 2..) => {
                let words = "the token names no key (kid), and its issuer has several";
                return Err(refused(ErrorCode::TokenKeyUnknown, words));
            }
            _ => {}
        }
        let mut fitting = named.iter().filter(|key| key.key.fits(algorithm)).peekable();
        if fitting.peek().is_none() {
            let words = format!(
                "the token says {}, and the issuer's key is {}",
                algorithm.name(),
                named[0].key.kind()
            );
            return Err(refused(ErrorCode::TokenAlgorithm, words));
        }
        if fitting.any(|key| key.key.verifies(message, signature)) {
            Ok(())
        } else {
            Err(refused(
                ErrorCode::TokenSignature,
                "it was changed on its way, or is not from this issuer",
            ))
        }
    }
}

fn read_key(entry: &Value) -> Result<Key, String> {
    let Value::Object(key) = entry else {
        return Err("an entry is not an object".to_owned());
    };
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let name = text("kid").map(str::to_owned);
    let label = name.as_deref().map_or("a key without a name".to_owned(), |name| {
        format!("the key \"{}\"", shown(name))
    });
    let refuse = |why: &str| Err(format!("{label} {why}"));
    if key.get("kid").is_some_and(|kid| !kid.is_string())
        || name.as_ref().is_some_and(|name| name.len() > TOKEN_KEY_NAME_BYTES_MAX)
    {
        return refuse("has a name that is not a short text");
    }
    if text("use").is_some_and(|purpose| purpose != "sig") || !may_verify(key) {
        return refuse("is not for signatures");
    }
    let (public, algorithm) = match text("kty") {
        Some("RSA") => (rsa(key), Algorithm::Rs256),
        Some("EC") if text("crv") == Some("P-256") => (p256(key), Algorithm::Es256),
        Some("EC") => return refuse("is on another curve than P-256"),
        _ => return refuse("is of a kind that is not used here"),
    };
    if text("alg").is_some_and(|name| name != algorithm.name()) {
        return refuse("is for another algorithm than RS256 and ES256");
    }
    match public {
        Some(key) => Ok(Key { name, key }),
        None => refuse("cannot be read, or has a size that is not used here"),
    }
}

/// `key_ops` (RFC 7517 §4.3), when it is there, must allow verifying.
fn may_verify(key: &Map<String, Value>) -> bool {
    match key.get("key_ops") {
        None => true,
        Some(Value::Array(list)) => list.iter().any(|operation| operation == "verify"),
        Some(_) => false,
    }
}

fn number(key: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    decode_base64(key.get(name)?.as_str()?).filter(|bytes| !bytes.is_empty())
}

fn rsa(key: &Map<String, Value>) -> Option<PublicKey> {
    let trim = |bytes: Vec<u8>| -> Vec<u8> { bytes.into_iter().skip_while(|byte| *byte == 0).collect() };
    let (modulus, exponent) = (trim(number(key, "n")?), trim(number(key, "e")?));
    let bits = modulus.len() * 8 - usize::try_from(modulus.first()?.leading_zeros()).ok()?;
    let usable = RSA_BITS.contains(&bits) && !exponent.is_empty();
    usable.then_some(PublicKey::Rsa { modulus, exponent })
}

fn p256(key: &Map<String, Value>) -> Option<PublicKey> {
    let mut point = vec![4];
    for name in ["x", "y"] {
        point.extend(number(key, name).filter(|bytes| bytes.len() == P256_BYTES)?);
    }
    Some(PublicKey::P256(point))
}
