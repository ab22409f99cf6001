//! What is free at a destination, and whose it is: that decides what waits if it is too little.

use remote::{Entry, Space};
use types::{Error, ErrorCode, Phase, Side};

/// What is free at the destination, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Free {
    /// Of the storage, as a server of the XRootD protocol says.
    Storage(u64),
    /// Of the user who asks: the properties of the directory over HTTP. They may be less than what
    /// the storage has for others (RFC 4331 §3), and nothing tells which of both it is.
    User(u64),
}

impl Free {
    /// Servers without quota may report zeros.
    pub(super) fn of(space: Option<Space>, parent: Option<&Entry>) -> Option<Self> {
        if let Some(space) = space.filter(|space| space.total_bytes > 0) {
            return Some(Self::Storage(space.free_bytes));
        }
        let parent = parent?;
        let free_bytes = parent.quota_available_bytes?;
        (free_bytes > 0 || parent.quota_used_bytes > Some(0)).then_some(Self::User(free_bytes))
    }

    /// The error of a file of this size that has no room: only a full storage holds its link.
    pub(super) fn lack(self, size_bytes: u64) -> Option<Error> {
        let (code, free_bytes, words) = match self {
            Self::Storage(free_bytes) => (ErrorCode::PeerNoSpace, free_bytes, "bytes are free"),
            Self::User(free_bytes) => (
                ErrorCode::QuotaExceeded,
                free_bytes,
                "bytes are left for the user (quota-available-bytes)",
            ),
        };
        (free_bytes < size_bytes).then(|| {
            let error = Error::new(code, Side::Destination, Phase::Open);
            error.with_detail(format!("{free_bytes} {words}, the file has {size_bytes}"))
        })
    }
}
