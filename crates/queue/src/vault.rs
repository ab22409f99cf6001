//! Credentials at rest: sealed with a key that is not in the database.

use catalog::SecretKind;
use credentials::SealingKey;
use gsi_wire::to_pem;
use net::random::random;
use net::tls::ClientIdentity;
use types::{Error, ErrorCode, Phase, Result, Secret, Side};
use zeroize::Zeroizing;

/// What separates the uses of the key: a text that was sealed as one kind does not open as another.
fn purpose(kind: SecretKind) -> &'static [u8] {
    match kind {
        SecretKind::Token => b"queue token 1",
        SecretKind::Proxy => b"queue proxy 1",
        SecretKind::DelegationKey => b"queue delegation key 1",
        SecretKind::RefreshToken => b"queue refresh token 1",
        SecretKind::S3 => b"queue s3 1",
        SecretKind::Webhook => b"queue webhook 1",
    }
}

/// The use for queries of URLs, which are no secrets of their own in the catalog.
const QUERY: &[u8] = b"queue url query 1";

/// Seals credentials and opens them again.
#[derive(Clone, Debug)]
pub struct Vault(SealingKey);

impl Vault {
    /// A vault with this key.
    #[must_use]
    pub fn new(key: SealingKey) -> Self {
        Self(key)
    }

    /// The mark of the key in the database, as hexadecimal digits.
    ///
    /// # Errors
    /// `internal` when the library fails.
    pub fn key_mark(&self) -> Result<String> {
        let mark = self.0.fingerprint().ok_or_else(|| internal("a key has no mark"))?;
        Ok(mark.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Seals a text under its name in the database.
    ///
    /// # Errors
    /// `internal` when the library fails.
    pub fn seal(&self, kind: SecretKind, name: &str, plain: &[u8]) -> Result<Vec<u8>> {
        let sealed = self.0.seal(purpose(kind), random(), name.as_bytes(), plain);
        sealed.ok_or_else(|| internal("a credential cannot be sealed"))
    }

    /// Opens what was sealed under this name.
    ///
    /// # Errors
    /// `internal` when it was sealed with another key, or changed.
    pub fn open(&self, kind: SecretKind, name: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let opened = self.0.open(purpose(kind), name.as_bytes(), sealed);
        opened.ok_or_else(|| internal("a stored credential was sealed with another key"))
    }

    /// Seals the query of a URL. `bound` must be the same when it is opened.
    ///
    /// # Errors
    /// As [`Vault::seal`].
    pub fn seal_query(&self, bound: &str, query: &[u8]) -> Result<Vec<u8>> {
        let sealed = self.0.seal(QUERY, random(), bound.as_bytes(), query);
        sealed.ok_or_else(|| internal("a URL cannot be sealed"))
    }

    /// Opens the query of a URL.
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn open_query(&self, bound: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let opened = self.0.open(QUERY, bound.as_bytes(), sealed);
        opened.ok_or_else(|| internal("a stored URL was sealed with another key"))
    }

    /// Seals a proxy with its private key.
    ///
    /// # Errors
    /// As [`Vault::seal`].
    pub fn seal_proxy(&self, name: &str, identity: &ClientIdentity) -> Result<Vec<u8>> {
        let key = to_pem("PRIVATE KEY", identity.private_key().secret_der());
        let certificates = identity.chain().iter().map(|der| to_pem("CERTIFICATE", der));
        let pem: Zeroizing<String> = Zeroizing::new(certificates.chain([key]).collect());
        self.seal(SecretKind::Proxy, name, pem.as_bytes())
    }

    /// Opens a proxy.
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn open_proxy(&self, name: &str, sealed: &[u8]) -> Result<ClientIdentity> {
        let pem = self.open(SecretKind::Proxy, name, sealed)?;
        ClientIdentity::from_pem(&pem, &pem)
    }

    /// Opens a token.
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn open_token(&self, name: &str, sealed: &[u8]) -> Result<Secret> {
        let plain = self.open(SecretKind::Token, name, sealed)?;
        let text = std::str::from_utf8(&plain).map_err(|_| internal("a stored token is no text"))?;
        Ok(Secret::new(text))
    }
}

fn internal(why: &'static str) -> Error {
    Error::new(ErrorCode::Internal, Side::Queue, Phase::Authenticate).with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_under_its_name_and_kind_only() {
        let vault = Vault::new(SealingKey::new(b"key"));
        let sealed = vault.seal(SecretKind::Token, "a", b"secret").unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_eq!(vault.open_token("a", &sealed).unwrap().expose(), "secret");
        assert!(vault.open_token("b", &sealed).is_err());
        assert!(vault.open(SecretKind::S3, "a", &sealed).is_err());
        let other = Vault::new(SealingKey::new(b"other"));
        let error = other.open_token("a", &sealed).unwrap_err();
        assert!(error.public().contains("another key"), "{}", error.public());
        assert_ne!(vault.key_mark().unwrap(), other.key_mark().unwrap());
        assert_eq!(
            vault.key_mark().unwrap(),
            Vault::new(SealingKey::new(b"key")).key_mark().unwrap()
        );
    }
}
