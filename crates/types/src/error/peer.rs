//! The status in a peer's answer.

use std::fmt;

/// The status of a peer's refusal, in terms of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerStatus {
    /// An HTTP status.
    Http(u16),
    /// An error number of the XRootD protocol.
    Xrootd(u32),
}

impl PeerStatus {
    /// The number alone.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Http(status) => u32::from(status),
            Self::Xrootd(number) => number,
        }
    }

    /// Whether the refusal may be temporary.
    #[must_use]
    pub fn may_pass(self) -> bool {
        match self {
            // Request timeout, a locked file, too many requests, and server errors; but not "not
            // implemented", "version not supported" or "no space".
            Self::Http(status) => {
                matches!(status, 408 | 423 | 429) || (status >= 500 && !matches!(status, 501 | 505 | 507))
            }
            // A locked file, trouble with disk, memory or the server itself, no server found, a
            // transfer in progress, overload, timeouts.
            Self::Xrootd(number) => {
                matches!(number, 3003 | 3007 | 3008 | 3012 | 3014 | 3020 | 3024 | 3034 | 3035)
            }
        }
    }

    /// Whether the file itself is refused, so that no other way helps (409 Conflict).
    #[must_use]
    pub fn is_conflict(self) -> bool {
        self == Self::Http(409)
    }
}

impl fmt::Display for PeerStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.number())
    }
}
