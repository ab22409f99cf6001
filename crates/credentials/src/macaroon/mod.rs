//! Macaroons: a token that its holder can narrow but not widen, checked with the issuer's secret
//! alone.
//!
//! The signature is a chain of HMAC-SHA256: each caveat's signature is keyed with the one before,
//! so a caveat can be appended without the secret but not taken away (A. Birgisson et al.,
//! "Macaroons: Cookies with Contextual Caveats", NDSS 2014). Key derivation and the three
//! serialisations are those of libmacaroons, which XRootD and dCache speak.

mod v1;
mod v2;
mod v2_json;

use crate::limits::MACAROON_CAVEATS_MAX;
use aws_lc_rs::{constant_time, hmac};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use types::limits::MACAROON_BYTES_MAX;
use types::{Error, Secret};
use zeroize::Zeroizing;

use crate::caveat::Caveat;
use crate::{bad_request, invalid_token};

/// Length of a signature (HMAC-SHA256), in bytes.
pub const SIGNATURE_BYTES: usize = 32;

/// Shortest secret that a key file may hold, in bytes; XRootD refuses shorter ones too.
const SECRET_BYTES_MIN: usize = 32;

/// Writes base64url without padding and reads it with or without (libmacaroons does so).
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        // Some encoders leave rubbish in the unused last bits; the signature protects the content.
        .with_decode_allow_trailing_bits(true),
);

/// The issuer's key, derived from its secret. It cannot be printed.
#[derive(Clone)]
pub struct MacaroonKey(hmac::Key);

impl MacaroonKey {
    /// Derives the key from a secret of any length, as libmacaroons does: HMAC-SHA256 of the secret
    /// under the text `macaroons-key-generator` padded with zeros to 32 bytes.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        let mut generator = [0_u8; SIGNATURE_BYTES];
        let label = b"macaroons-key-generator";
        generator[..label.len()].copy_from_slice(label);
        let derived = sign(&generator, secret);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &derived))
    }

    /// Reads the content of a secret file as XRootD keeps it: base64 text (any line breaks) of at
    /// least 32 bytes, for instance from `openssl rand -base64 64`.
    ///
    /// # Errors
    /// `bad_request` when it is not base64, or too short; the words hold nothing of the secret.
    pub fn from_base64(text: &str) -> Result<Self, Error> {
        let compact = Secret::new(text.split_ascii_whitespace().collect::<String>());
        let secret = decode_base64(compact.expose())
            .map(Zeroizing::new)
            .ok_or_else(|| bad_request("the macaroon secret is not base64 text"))?;
        if secret.len() < SECRET_BYTES_MIN {
            return Err(bad_request(format!(
                "the macaroon secret is shorter than {SECRET_BYTES_MIN} bytes"
            )));
        }
        Ok(Self::new(&secret))
    }
}

impl std::fmt::Debug for MacaroonKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MacaroonKey(…)")
    }
}

/// A caveat as it stands in the macaroon, not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCaveat {
    /// `key:value` of a first-party caveat; opaque to us in a third-party one.
    pub identifier: Vec<u8>,
    /// The verification identifier of a third-party caveat; `None` in a first-party one.
    pub verification: Option<Vec<u8>>,
    /// Where a third party would discharge it.
    pub location: Option<Vec<u8>>,
}

impl RawCaveat {
    fn first_party(text: &str) -> Self {
        Self {
            identifier: text.as_bytes().to_vec(),
            verification: None,
            location: None,
        }
    }

    /// Reads it, genuine or not.
    ///
    /// # Errors
    /// `invalid_token` when it is not understood, or must be discharged by a third party.
    pub fn understand(&self) -> Result<Caveat, Error> {
        if self.verification.is_some() {
            return Err(invalid_token(
                "the macaroon has a third-party caveat, which cannot be discharged here",
            ));
        }
        let text = std::str::from_utf8(&self.identifier)
            .map_err(|_| invalid_token("the macaroon holds a caveat that is not text"))?;
        Caveat::parse(text)
    }

    /// The identifier as text for people.
    #[must_use]
    pub fn shown(&self) -> String {
        printable(&self.identifier)
    }
}

/// A macaroon, genuine or not: what it is worth only [`Macaroon::verify`] says. Its signature is a
/// bearer secret, so printing it shows no signature.
#[derive(Clone, PartialEq, Eq)]
pub struct Macaroon {
    location: Vec<u8>,
    identifier: Vec<u8>,
    caveats: Vec<RawCaveat>,
    signature: [u8; SIGNATURE_BYTES],
}

impl Macaroon {
    /// Makes a new macaroon with these first-party caveats, in this order.
    ///
    /// `location` names the issuer and is a hint only; `identifier` is the token's own name, which
    /// shows up in logs and must be unique (random).
    ///
    /// # Errors
    /// `bad_request` when it would exceed [`MACAROON_CAVEATS_MAX`] or [`MACAROON_BYTES_MAX`].
    pub fn mint<'a>(
        key: &MacaroonKey,
        location: &str,
        identifier: &str,
        caveats: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Error> {
        let mut macaroon = Self {
            location: location.as_bytes().to_vec(),
            identifier: identifier.as_bytes().to_vec(),
            caveats: Vec::new(),
            signature: tag_bytes(&hmac::sign(&key.0, identifier.as_bytes())),
        };
        for caveat in caveats {
            macaroon.attenuate(caveat)?;
        }
        macaroon.check_size()?;
        Ok(macaroon)
    }

    /// Narrows it by one more first-party caveat. Needs no secret.
    ///
    /// # Errors
    /// `bad_request` when it would exceed [`MACAROON_CAVEATS_MAX`] or [`MACAROON_BYTES_MAX`]; the
    /// macaroon is as before then.
    pub fn attenuate(&mut self, caveat: &str) -> Result<(), Error> {
        if self.caveats.len() == MACAROON_CAVEATS_MAX {
            return Err(bad_request(format!(
                "a macaroon holds at most {MACAROON_CAVEATS_MAX} caveats"
            )));
        }
        self.caveats.push(RawCaveat::first_party(caveat));
        if let Err(error) = self.check_size() {
            self.caveats.pop();
            return Err(error);
        }
        self.signature = sign(&self.signature, caveat.as_bytes());
        Ok(())
    }

    /// Checks the signature and reads every caveat.
    ///
    /// The location does not matter: behind an alias or a load balancer it need not be ours.
    ///
    /// # Errors
    /// `invalid_token` when the signature is not ours, a caveat is unknown, or needs a discharge by
    /// a third party (none is known here).
    pub fn verify(&self, key: &MacaroonKey) -> Result<Vec<Caveat>, Error> {
        let mut signature = tag_bytes(&hmac::sign(&key.0, &self.identifier));
        for caveat in &self.caveats {
            signature = match &caveat.verification {
                None => sign(&signature, &caveat.identifier),
                Some(verification) => {
                    let parts = [sign(&signature, verification), sign(&signature, &caveat.identifier)];
                    sign(&signature, &parts.concat())
                }
            };
        }
        constant_time::verify_slices_are_equal(&signature, &self.signature)
            .map_err(|_| invalid_token("the macaroon was not issued here: its signature does not match"))?;
        self.read_caveats()
    }

    /// Reads every caveat without any check of the signature.
    ///
    /// # Errors
    /// `invalid_token` as [`RawCaveat::understand`].
    pub fn read_caveats(&self) -> Result<Vec<Caveat>, Error> {
        self.caveats.iter().map(RawCaveat::understand).collect()
    }

    /// Reads a serialised macaroon: version 1 (packets) or 2 (binary) in base64url or plain base64
    /// with or without padding, or version 2 JSON, bare or in base64.
    ///
    /// # Errors
    /// `invalid_token` when it is none of these or exceeds [`MACAROON_BYTES_MAX`] or
    /// [`MACAROON_CAVEATS_MAX`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.len() > MACAROON_BYTES_MAX {
            return Err(invalid_token(format!(
                "the macaroon is longer than {MACAROON_BYTES_MAX} bytes"
            )));
        }
        if text.starts_with('{') {
            return v2_json::decode(text.as_bytes());
        }
        let bytes = decode_base64(text).ok_or_else(|| invalid_token("the token is not base64 text"))?;
        Self::parse_binary(&bytes)
    }

    /// Whether a text begins like a macaroon in base64: other texts are none at all.
    #[must_use]
    pub fn is_likely(text: &str) -> bool {
        let bytes = decode_base64(text.trim()).unwrap_or_default();
        // The first field of version 1 is the location, behind four digits of length.
        matches!(bytes.first(), Some(b'{' | 2)) || bytes.get(4..12) == Some(b"location")
    }

    /// Reads the bytes of a macaroon below the base64; see [`Macaroon::parse`].
    ///
    /// # Errors
    /// As [`Macaroon::parse`].
    pub fn parse_binary(bytes: &[u8]) -> Result<Self, Error> {
        match bytes.first() {
            Some(b'{') => v2_json::decode(bytes),
            Some(2) => v2::decode(bytes),
            Some(_) => v1::decode(bytes),
            None => Err(invalid_token("the token is empty")),
        }
    }

    /// Serialised for handing out: version 1, which every peer reads, in base64url without padding.
    #[must_use]
    pub fn to_text(&self) -> Secret {
        Secret::new(BASE64_URL.encode(v1::encode(self)))
    }

    /// Serialised as version 2 binary, in base64url without padding: a third shorter.
    #[must_use]
    pub fn to_text_v2(&self) -> Secret {
        Secret::new(BASE64_URL.encode(v2::encode(self)))
    }

    /// The issuer's name for itself; a hint, not protected by the signature.
    #[must_use]
    pub fn location(&self) -> String {
        printable(&self.location)
    }

    /// The token's own name, for logs.
    #[must_use]
    pub fn identifier(&self) -> String {
        printable(&self.identifier)
    }

    /// The caveats in their order, not checked; for showing what a token says.
    #[must_use]
    pub fn caveats(&self) -> &[RawCaveat] {
        &self.caveats
    }

    /// Each field costs its bytes and, in version 1, up to 16 bytes of framing.
    fn check_size(&self) -> Result<(), Error> {
        const FRAME_BYTES: usize = 16;
        let caveats: usize = self
            .caveats
            .iter()
            .map(|caveat| {
                let optional = [&caveat.verification, &caveat.location].into_iter().flatten();
                caveat.identifier.len() + FRAME_BYTES + optional.map(|field| field.len() + FRAME_BYTES).sum::<usize>()
            })
            .sum();
        let binary = self.location.len() + self.identifier.len() + SIGNATURE_BYTES + 3 * FRAME_BYTES + caveats;
        if binary.div_ceil(3) * 4 > MACAROON_BYTES_MAX {
            return Err(bad_request(format!(
                "the macaroon would be longer than {MACAROON_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Macaroon {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let caveats: Vec<String> = self.caveats.iter().map(RawCaveat::shown).collect();
        write!(
            formatter,
            "Macaroon {{ {} {} {caveats:?} }}",
            self.location(),
            self.identifier()
        )
    }
}

fn sign(key: &[u8], message: &[u8]) -> [u8; SIGNATURE_BYTES] {
    tag_bytes(&hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message))
}

fn tag_bytes(tag: &hmac::Tag) -> [u8; SIGNATURE_BYTES] {
    let mut bytes = [0; SIGNATURE_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

/// Reads base64 in either alphabet, padded or not.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let url_safe: String = text
        .chars()
        .map(|character| match character {
            '+' => '-',
            '/' => '_',
            other => other,
        })
        .collect();
    BASE64_URL.decode(url_safe).ok()
}

/// The field as text for people: as it is when it is short plain text, else in hexadecimal.
fn printable(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 256;
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= SHOWN_BYTES_MAX && !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes
            .iter()
            .take(SHOWN_BYTES_MAX / 2)
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    }
}

/// What the three decoders collect; the checks that they share are made here.
#[derive(Default)]
struct Parts {
    location: Vec<u8>,
    identifier: Option<Vec<u8>>,
    caveats: Vec<RawCaveat>,
    signature: Option<Vec<u8>>,
}

impl Parts {
    fn add_caveat(&mut self, caveat: RawCaveat) -> Result<(), Error> {
        if self.caveats.len() == MACAROON_CAVEATS_MAX {
            return Err(invalid_token(format!(
                "the macaroon holds more than {MACAROON_CAVEATS_MAX} caveats"
            )));
        }
        self.caveats.push(caveat);
        Ok(())
    }

    fn finish(self) -> Result<Macaroon, Error> {
        let signature = self
            .signature
            .ok_or_else(|| invalid_token("the macaroon has no signature"))?;
        Ok(Macaroon {
            location: self.location,
            identifier: self
                .identifier
                .ok_or_else(|| invalid_token("the macaroon has no identifier"))?,
            caveats: self.caveats,
            signature: signature
                .try_into()
                .map_err(|_| invalid_token("the macaroon's signature has the wrong length"))?,
        })
    }
}
