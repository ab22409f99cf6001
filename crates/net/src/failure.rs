//! How a system error becomes the house's error: the same `ECONNRESET` is the peer's fault on an
//! outgoing connection and the client leaving on an incoming one.

use std::io;

use types::{Error, ErrorCode, Phase, Side};

/// What the other end of a connection is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A client that connected to us.
    Client,
    /// A server that we connected to, at this side of a transfer.
    Peer(Side),
}

impl Role {
    /// The side that an error on this connection is blamed on.
    #[must_use]
    pub fn side(self) -> Side {
        match self {
            Self::Client => Side::Client,
            Self::Peer(side) => side,
        }
    }

    /// The other end closed or reset the connection.
    #[must_use]
    pub fn closed(self, phase: Phase) -> Error {
        let code = match self {
            Self::Client => ErrorCode::ClientGone,
            Self::Peer(_) => ErrorCode::PeerClosed,
        };
        Error::new(code, self.side(), phase)
    }

    /// The other end neither sent nor took a byte for too long.
    #[must_use]
    pub fn stalled(self, phase: Phase) -> Error {
        let code = match self {
            Self::Client => ErrorCode::BodyStalled,
            Self::Peer(_) => ErrorCode::PeerStalled,
        };
        Error::new(code, self.side(), phase)
    }

    /// A socket operation failed.
    #[must_use]
    pub fn broken(self, phase: Phase, cause: &io::Error) -> Error {
        self.closed(phase).with_private(cause)
    }

    /// The TLS session failed; `words` say how, and name no secret.
    #[must_use]
    pub fn tls(self, words: impl std::fmt::Display) -> Error {
        let code = match self {
            Self::Client => ErrorCode::BadRequest,
            Self::Peer(_) => ErrorCode::PeerTlsFailed,
        };
        Error::new(code, self.side(), Phase::Tls).with_detail(words.to_string())
    }
}
