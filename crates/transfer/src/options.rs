//! Orders and outcomes of transfers.

use std::time::SystemTime;

use endpoint::{ClientId, Permit};
use remote::Resource;
use storage::Overwrite;
use types::limits::ATTEMPTS_MAX;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use crate::rate::RateLimit;

/// Whether the checksums of the two sides are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// Fail if the other side reports no checksum.
    Required,
    /// Compare if the other side reports one; the default.
    WhenAvailable,
    /// Do not ask.
    Never,
}

/// The number of connections per file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// This many, 0 meaning one; fewer if the file is short or the source does not support ranges.
    Fixed(u32),
    /// One, and up to this many while that makes the transfer faster: on long lines, and over TLS
    /// if processors are idle.
    Chosen(u32),
}

impl Streams {
    /// The requested number, up to `max`; if there is none, a number chosen during the transfer, up
    /// to `chosen_max`.
    #[must_use]
    pub fn asked(asked: Option<u32>, max: u32, chosen_max: u32) -> Self {
        match asked {
            Some(count) => Self::Fixed(count.min(max)),
            None => Self::Chosen(chosen_max.min(max)),
        }
    }
}

/// The order of a transfer.
#[derive(Clone, Debug)]
pub struct Order {
    /// Handling of an existing destination.
    pub overwrite: Overwrite,
    /// Connections to the source at the same time. Pulls only.
    pub streams: Streams,
    /// Comparison of checksums.
    pub verification: Verification,
    /// The checksum that the client expects.
    pub expected: Option<Checksum>,
    /// The modification time to give to a file that is stored here, or at a server that can;
    /// otherwise that of the copy.
    pub modified: Option<SystemTime>,
    /// Checksums to compute and keep with a file that is stored here.
    pub keep: Vec<ChecksumAlgorithm>,
    /// Most attempts in a row without progress, including the first.
    pub attempts: u32,
    /// Whether the source may be asked (HEAD) before data is requested. Some pre-signed URLs forbid
    /// it.
    pub ask_first: bool,
    /// The size of the file according to the client, to reserve space if the source may not be
    /// asked.
    pub announced_bytes: Option<u64>,
    /// The size in a listing of the source. A source that then tells no size is stopped there, so
    /// that an answer without end fills no disk; 0 is taken for unknown.
    pub listed_bytes: Option<u64>,
    /// Another URL for the source's checksum, if the source's own URL is good for one request only.
    pub digests_from: Option<Resource>,
    /// Whether to make missing parent directories.
    pub create_parents: bool,
    /// Most bytes that the client may store here, if its credential has such a limit.
    pub max_bytes: Option<u64>,
    /// Rate limits of both sides. They hold where the data passes this program in one stream; with
    /// [`Streams::Fixed`] of more than one, further streams are not limited.
    pub rates: Vec<RateLimit>,
    /// The right to store the file, checked again before the commit.
    pub permit: Option<Permit>,
    /// The client in whose fair share the file is read for checksums.
    pub client: ClientId,
}

impl Order {
    /// Whether the source's checksum is needed before anything is copied.
    pub(crate) fn needs_checksum_first(&self) -> bool {
        self.expected.is_some() || self.verification == Verification::Required
    }

    /// Checks the size of the file against the order's limit.
    ///
    /// # Errors
    /// `forbidden` over the limit, with its value.
    pub(crate) fn check_size(&self, bytes: u64) -> Result<()> {
        match self.max_bytes.filter(|limit| bytes > *limit) {
            None => Ok(()),
            Some(limit) => {
                let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize);
                Err(error.with_detail(format!("this credential allows uploads of at most {limit} bytes")))
            }
        }
    }
}

impl Default for Order {
    fn default() -> Self {
        Self {
            overwrite: Overwrite::Allow,
            streams: Streams::Fixed(1),
            verification: Verification::WhenAvailable,
            expected: None,
            modified: None,
            keep: vec![ChecksumAlgorithm::Adler32],
            attempts: ATTEMPTS_MAX,
            ask_first: true,
            announced_bytes: None,
            listed_bytes: None,
            digests_from: None,
            create_parents: true,
            max_bytes: None,
            rates: Vec::new(),
            permit: None,
            client: ClientId::own(),
        }
    }
}

/// The result of verifying the data against the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Both sides have this checksum.
    Agreed(Checksum),
    /// Only sizes were compared, for this reason.
    SizeOnly(Uncompared),
}

/// Why no checksums were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncompared {
    /// They were not asked for.
    NotAsked,
    /// The source reports none.
    NoneAtSource,
    /// The destination reports none, or none of a kind that the source has.
    NoneAtDestination,
}

/// The outcome of a successful transfer.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether the destination existed before.
    pub replaced: bool,
    /// Checksums of the data that were computed.
    pub checksums: Vec<Checksum>,
    /// The result of verification.
    pub verified: Verified,
    /// The number of times it resumed.
    pub resumed: u32,
    /// Connections that carried payload at the same time.
    pub streams: u32,
    /// A server gave the file the time of [`Order::modified`].
    pub keeps_modified: bool,
}
