//! Who uses a file.

use std::net::SocketAddr;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spoken {
    /// HTTP or WebDAV.
    Http,
    /// The XRootD protocol.
    Xroot,
}

/// A client and what is known of it. No field holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// Its protocol.
    pub spoken: Spoken,
    /// Its address, which names its connection.
    pub peer: SocketAddr,
    /// Our own address on that connection, if it is known.
    pub local: Option<SocketAddr>,
    /// The user that it says it is, or to whom it was mapped; empty if not known.
    pub user: String,
    /// Its program and version, as it tells them; empty if it does not.
    pub program: String,
    /// The kind of credential, in the words of the log: `anonymous`, `token`, `x509`, ….
    pub credential: &'static str,
    /// The subject of the credential.
    pub subject: String,
    /// Who issued it.
    pub issuer: String,
    /// The virtual organisation of its holder.
    pub organisation: String,
}

impl Client {
    /// The same without what names a person.
    #[must_use]
    pub fn without_names(&self) -> Self {
        Self {
            user: String::new(),
            subject: String::new(),
            ..self.clone()
        }
    }
}
