//! Which checksum a client wants, and in which header (RFC 3230, RFC 9530).

use http_wire::{RequestHead, ResponseBuilder};
use types::{Checksum, ChecksumAlgorithm};

/// The checksums of a file that a client asks for, at most one for each header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    classic: Option<ChecksumAlgorithm>,
    modern: Option<ChecksumAlgorithm>,
}

impl Wishes {
    /// What the request asks for. Unknown algorithms are ignored.
    pub(crate) fn of(head: &RequestHead) -> Self {
        Self {
            classic: head.want_digest().first().copied(),
            modern: head.want_repr_digest().first().copied(),
        }
    }

    /// The algorithms, each once.
    pub(crate) fn algorithms(self) -> impl Iterator<Item = ChecksumAlgorithm> {
        let second = self.modern.filter(|modern| self.classic != Some(*modern));
        self.classic.into_iter().chain(second)
    }

    /// Adds the requested checksums that are known.
    pub(crate) fn tell(self, mut head: ResponseBuilder, known: &[Checksum]) -> ResponseBuilder {
        let find = |wanted: Option<ChecksumAlgorithm>| known.iter().find(|sum| Some(sum.algorithm()) == wanted);
        if let Some(checksum) = find(self.classic) {
            head = head.digest(checksum);
        }
        match find(self.modern) {
            Some(checksum) => head.repr_digest(checksum),
            None => head,
        }
    }

    /// The wishes for a file just stored: without any, the checksum that is always computed.
    pub(crate) fn or_default(self, usual: ChecksumAlgorithm) -> Self {
        match self.classic.or(self.modern) {
            Some(_) => self,
            None => Self {
                classic: Some(usual),
                ..self
            },
        }
    }
}
