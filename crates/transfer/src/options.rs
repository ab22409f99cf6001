//! What a transfer is asked to do, and what came of it.

use endpoint::{ClientId, Permit};
use remote::Resource;
use storage::Overwrite;
use types::limits::ATTEMPTS_MAX;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

/// Whether the checksums of the two sides are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// Fail when the other side tells no checksum.
    Required,
    /// Compare when the other side tells one; the default.
    WhenAvailable,
    /// Do not ask.
    Never,
}

/// How many connections carry one file at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// So many, 0 meaning one; fewer where the file is short or its source does no ranges.
    Fixed(u32),
    /// One, and more, up to so many, while that makes the transfer faster: on long lines, and over TLS where processors are
    /// idle.
    Chosen(u32),
}

impl Streams {
    /// What was asked for, at most `max` of it; where nothing was, a number that is chosen on the way, up to `chosen_max`.
    #[must_use]
    pub fn asked(asked: Option<u32>, max: u32, chosen_max: u32) -> Self {
        match asked {
            Some(count) => Self::Fixed(count.min(max)),
            None => Self::Chosen(chosen_max.min(max)),
        }
    }
}

/// How a transfer is to be done.
#[derive(Clone, Debug)]
pub struct Order {
    /// What happens to an existing destination.
    pub overwrite: Overwrite,
    /// Connections to the source at the same time. Pulls only.
    pub streams: Streams,
    /// Comparison of checksums.
    pub verification: Verification,
    /// The checksum that whoever ordered the transfer expects of the data.
    pub expected: Option<Checksum>,
    /// Checksums to compute and keep with a file that is stored here.
    pub keep: Vec<ChecksumAlgorithm>,
    /// Attempts without a byte of progress between them before giving up, the first one included.
    pub attempts: u32,
    /// Whether the source may be asked (HEAD) before data is requested; some pre-signed URLs forbid it.
    pub ask_first: bool,
    /// The size that whoever ordered the transfer says the file has: space for it is asked for before
    /// the first byte where the source may not be asked.
    pub announced_bytes: Option<u64>,
    /// Whom to ask for the source's checksum where the source itself may not be asked first, because
    /// its URL is good for one request.
    pub digests_from: Option<Resource>,
    /// Whether missing parent directories are made.
    pub create_parents: bool,
    /// Most bytes that whoever ordered the transfer may store here, when that is limited.
    pub max_bytes: Option<u64>,
    /// The right to store the file, asked again before it takes its name.
    pub permit: Option<Permit>,
    /// For whom what came is read back, in turns with others.
    pub client: ClientId,
}

impl Order {
    /// Whether the source's checksum decides if anything is copied at all.
    pub(crate) fn needs_checksum_first(&self) -> bool {
        self.expected.is_some() || self.verification == Verification::Required
    }

    /// Whether a file of `bytes` may be stored under this order.
    ///
    /// # Errors
    /// `forbidden` over the limit, naming it.
    pub(crate) fn check_size(&self, bytes: u64) -> Result<()> {
        match self.max_bytes.filter(|limit| bytes > *limit) {
            None => Ok(()),
            Some(limit) => {
                let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize);
                Err(error.with_detail(format!("at most {limit} bytes may be uploaded with this credential")))
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
            keep: vec![ChecksumAlgorithm::Adler32],
            attempts: ATTEMPTS_MAX,
            ask_first: true,
            announced_bytes: None,
            digests_from: None,
            create_parents: true,
            max_bytes: None,
            permit: None,
            client: ClientId::own(),
        }
    }
}

/// How far the data was verified against the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Both sides have this checksum.
    Agreed(Checksum),
    /// Only the sizes could be compared: the other side tells no checksum, or was not to be asked.
    SizeOnly,
}

/// What a finished transfer did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether the destination existed before.
    pub replaced: bool,
    /// Checksums of the data as far as they were computed.
    pub checksums: Vec<Checksum>,
    /// What was compared.
    pub verified: Verified,
    /// How often it went on from what it had already.
    pub resumed: u32,
    /// Connections that carried payload at the same time.
    pub streams: u32,
}
