//! Traffic secrets of TLS 1.3 connections of clients to us, from which changed keys are made.
//!
//! rustls can change keys too, but for that it keeps the client's certificates with each
//! connection, which is more than the rest of an idle connection. It gives the secrets to a key
//! log; here that is only the connection itself.

use std::cell::RefCell;

use records::{Algorithm, Keys, NONCE_BYTES, Version};
use rustls::crypto::tls13::OkmBlock;
use rustls::{CipherSuite, ConnectionTrafficSecrets, KeyLog, ProtocolVersion, Tls13CipherSuite};
use zeroize::Zeroizing;

/// The keys of one direction as rustls hands them over, with the number of records that it has
/// sealed. `None` when the suite or version is not one of those offered.
#[must_use]
pub fn record_keys(version: ProtocolVersion, sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Keys> {
    let (algorithm, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Algorithm::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Algorithm::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Algorithm::ChaCha20Poly1305, key, iv),
        _ => return None,
    };
    let version = match version {
        ProtocolVersion::TLSv1_3 => Version::Tls13,
        ProtocolVersion::TLSv1_2 => Version::Tls12,
        _ => return None,
    };
    Keys::new(version, algorithm, key.as_ref(), iv.as_ref().try_into().ok()?, sequence)
}

/// Longest key of the suites on offer.
const KEY_BYTES_MAX: usize = 32;

/// The secrets of both directions, as the handshake on this thread tells them.
#[derive(Default)]
struct Heard {
    client: Option<OkmBlock>,
    server: Option<OkmBlock>,
}

thread_local! {
    static HEARD: RefCell<Heard> = RefCell::default();
}

/// Listens while rustls works on a handshake.
#[derive(Debug)]
pub(super) struct Listener;

impl KeyLog for Listener {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        HEARD.with_borrow_mut(|heard| match label {
            CLIENT => heard.client = Some(OkmBlock::new(secret)),
            SERVER => heard.server = Some(OkmBlock::new(secret)),
            _ => {}
        });
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(label, CLIENT | SERVER)
    }
}

const CLIENT: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER: &str = "SERVER_TRAFFIC_SECRET_0";

/// What was heard since the last call on this thread: the secret of the client's direction and of
/// ours.
pub(super) fn heard() -> Option<(OkmBlock, OkmBlock)> {
    let Heard { client, server } = HEARD.take();
    client.zip(server)
}

/// The secret of one direction.
pub(crate) struct TrafficSecret {
    suite: &'static Tls13CipherSuite,
    secret: OkmBlock,
}

impl TrafficSecret {
    pub(super) fn new(suite: &'static Tls13CipherSuite, secret: OkmBlock) -> Self {
        Self { suite, secret }
    }

    /// Goes on to the next secret (RFC 8446 §7.2) and gives its keys (§7.3).
    pub(crate) fn next_keys(&mut self) -> Option<Keys> {
        let hash_bytes = self.secret.as_ref().len() as u16;
        let hkdf = self.suite.hkdf_provider;
        let expander = hkdf.expander_for_okm(&self.secret);
        let info = Label::new(hash_bytes, "traffic upd");
        self.secret = expander.expand_block(&info.parts());
        let expander = hkdf.expander_for_okm(&self.secret);
        let algorithm = algorithm(self.suite.common.suite)?;
        let mut key = Zeroizing::new([0; KEY_BYTES_MAX]);
        let key = &mut key[..algorithm.key_bytes()];
        let info = Label::new(key.len() as u16, "key");
        expander.expand_slice(&info.parts(), key).ok()?;
        let mut iv = [0; NONCE_BYTES];
        let info = Label::new(NONCE_BYTES as u16, "iv");
        expander.expand_slice(&info.parts(), &mut iv).ok()?;
        Keys::new(Version::Tls13, algorithm, key, iv, 0)
    }
}

fn algorithm(suite: CipherSuite) -> Option<Algorithm> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Algorithm::Aes128Gcm),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Algorithm::Aes256Gcm),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Algorithm::ChaCha20Poly1305),
        _ => None,
    }
}

/// `HkdfLabel` of RFC 8446 §7.1 without a context.
struct Label {
    length: [u8; 2],
    label_bytes: [u8; 1],
    label: &'static str,
}

impl Label {
    const PREFIX: &'static str = "tls13 ";

    fn new(length: u16, label: &'static str) -> Self {
        Self {
            length: length.to_be_bytes(),
            label_bytes: [(Self::PREFIX.len() + label.len()) as u8],
            label,
        }
    }

    fn parts(&self) -> [&[u8]; 5] {
        let (prefix, label) = (Self::PREFIX.as_bytes(), self.label.as_bytes());
        [&self.length, &self.label_bytes, prefix, label, &[0]]
    }
}
