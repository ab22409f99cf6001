//! Signatures of webhooks: Standard Webhooks (<https://www.standardwebhooks.com>), symmetric, with
//! HMAC-SHA256.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use net::random::random;
use types::Secret;

/// The beginning of a secret in its text form.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, as the standard says.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that a receiver shares with the queue: `whsec_` and base64 of 24 to 64 bytes.
#[derive(Clone, Debug)]
pub struct WebhookSecret(Secret);

impl WebhookSecret {
    /// A new secret.
    #[must_use]
    pub fn random() -> Self {
        let bytes: [u8; 32] = random();
        Self(Secret::new(format!("{PREFIX}{}", BASE64.encode(bytes))))
    }

    /// Reads the text form. `None` for what is no secret.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let secret = Self(Secret::new(text));
        BYTES.contains(&secret.bytes()?.len()).then_some(secret)
    }

    /// The text form: it is shown once, when a webhook is made.
    #[must_use]
    pub fn text(&self) -> &Secret {
        &self.0
    }

    fn bytes(&self) -> Option<zeroize::Zeroizing<Vec<u8>>> {
        let encoded = self.0.expose().strip_prefix(PREFIX)?;
        BASE64.decode(encoded).ok().map(zeroize::Zeroizing::new)
    }

    /// The value of `webhook-signature` for a message with this id, time in seconds since 1970, and
    /// body.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp_s: i64, body: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.bytes().unwrap_or_default());
        let tag = hmac::sign(&key, format!("{id}.{timestamp_s}.{body}").as_bytes());
        format!("v1,{}", BASE64.encode(tag.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_signed_as_the_standard_says() {
        // The example of the standard's documentation.
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_have_a_prefix_and_enough_bytes() {
        let own = WebhookSecret::random();
        assert!(WebhookSecret::parse(own.text().expose()).is_some());
        for bad in [
            "",
            "whsec_",
            "whsec_MfKQ",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_*",
        ] {
            assert!(WebhookSecret::parse(bad).is_none(), "{bad}");
        }
    }
}
