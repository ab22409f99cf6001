//! Kinds of credentials.

/// With what a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing.
    Anonymous,
    /// A bearer token that was at hand.
    Token,
    /// A proxy certificate, shown in the TLS handshake.
    Proxy,
    /// A macaroon that the server gave out on the way.
    Macaroon,
}

impl Kind {
    /// All kinds, those that others are asked for with first.
    pub const ALL: [Self; 4] = [Self::Proxy, Self::Token, Self::Anonymous, Self::Macaroon];

    /// The word in tables, JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Token => "token",
            Self::Proxy => "x509",
            Self::Macaroon => "macaroon",
        }
    }
}
