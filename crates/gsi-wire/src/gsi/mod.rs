//! The messages of the XRootD protocol's `gsi` authentication, as bytes.
//!
//! gsi shows a chain of X.509 certificates, proxies included, inside `kXR_auth`, with a key
//! agreement of its own (XRootD, `XrdSecgsi`; versions from 10400 on, in which the agreement is
//! signed). Both ends exchange [`Buffer`]s, each a step's number and some buckets:
//!
//! 1. the client says what it is and sends a tag ([`Opening`]);
//! 2. the server returns that tag signed, its certificate, its half of the agreement, and a tag
//!    ([`ServerHello`]);
//! 3. the client sends its half, and encrypted the server's tag signed, the server that it means
//!    (ours only) and its chain ([`ClientHello`], [`ClientProof`]);
//! 4. the server is satisfied, or asks for a delegated proxy ([`ProxyRequest`]), which the client
//!    signs ([`ProxyAnswer`]).
//!
//! Nothing is calculated here: what is signed or encrypted goes in and out as it is on the wire;
//! [`block`] says how it is laid out below the arithmetic of RSA.

pub mod agreement;
pub mod block;
mod buffer;
mod der;
mod entry;
pub mod key;
mod message;
pub mod name;
mod options;

pub use buffer::{Buffer, Kind, Step};
pub use entry::ServerEntry;
pub use message::{ClientHello, ClientProof, Opening, ProxyAnswer, ProxyGrant, ProxyProof, ProxyRequest, ServerHello};
pub use options::ClientOptions;

/// The name of the protocol.
pub const NAME: &str = "gsi";
/// The version that we announce, XRootD 5's: certificates without a proxy are taken too.
pub const VERSION: u32 = 10_600;
/// The first version that signs the agreement. Older ones are refused.
pub const VERSION_MIN: u32 = 10_400;
/// The only cipher that is offered and accepted, which all peers know.
pub const CIPHER: &str = "aes-128-cbc";
/// Bytes of a tag. Nothing of another length is ever signed, so no digest can be slipped in: it
/// would be longer.
pub const TAG_BYTES: usize = 8;
/// Bytes of the key of [`CIPHER`], and of the vector in front of what it encrypted.
pub const CIPHER_KEY_BYTES: usize = 16;

/// Bytes of what a client says of the server that it means.
pub const SERVER_HASH_BYTES: usize = 32;

/// A random text that the other end signs.
pub type Tag = [u8; TAG_BYTES];

/// Why a message cannot be understood or must not be accepted; in words that may be shown to its
/// sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Fault {}

/// What reading a message gives.
pub type Result<T> = std::result::Result<T, Fault>;
