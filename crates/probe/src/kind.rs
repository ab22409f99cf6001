//! Kinds of credentials.

use types::Location;

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
    /// An access key of an S3 storage.
    Keys,
}

impl Kind {
    /// All kinds, those that others are asked for with first.
    pub const ALL: [Self; 5] = [Self::Proxy, Self::Token, Self::Keys, Self::Anonymous, Self::Macaroon];

    /// Whether a server is asked with it: S3 knows access keys, and other servers know none.
    #[must_use]
    pub(crate) fn suits(self, place: &Location) -> bool {
        match self {
            Self::Keys => place.is_s3(),
            Self::Anonymous => true,
            Self::Token | Self::Proxy | Self::Macaroon => !place.is_s3(),
        }
    }

    /// The word in tables, JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Token => "token",
            Self::Proxy => "x509",
            Self::Macaroon => "macaroon",
            Self::Keys => "keys",
        }
    }
}
