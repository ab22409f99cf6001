//! What a file elsewhere is asked for, whatever its protocol.

use std::time::Duration;

use crate::limits::MARKER_SILENCE;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Location, Side};

use crate::resource::{Access, Validator};

/// What is wanted of a file.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// One part of the file, not empty; `None` for all of it.
    pub range: Option<ByteRange>,
    /// The state in which the file must still be.
    pub validator: Option<Validator>,
    /// The server has told before that it is a file, not a directory: it need not be asked again.
    pub is_asked: bool,
    /// The size that it told then.
    pub size_bytes: Option<u64>,
    /// Checksums to ask for, best first. Over the XRootD protocol they are asked for at the end, in the session in which the
    /// file is open.
    pub wanted: Vec<ChecksumAlgorithm>,
    /// What comes is compared, as a whole, with a checksum that the server told. Then the protocol need not protect each
    /// page on the way: that would be the same work once more on both sides, and keep the source from sending its file
    /// without looking at it.
    pub is_compared: bool,
}

/// How a file is to be stored.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Size of the file, in bytes; `None` when it is not known yet: the body then comes in chunks.
    pub size_bytes: Option<u64>,
    /// Whether an existing file may be replaced.
    pub overwrite: bool,
    /// The peer has just said that there is no such file: it need not be asked that again before one that may not be
    /// replaced is sent.
    pub is_absent: bool,
    /// Checksums of what will come, for the peer to verify.
    pub declared: Vec<Checksum>,
}

/// What the peer says of a stored file.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// There was no such file before.
    pub created: bool,
    /// The peer has taken the file and not stored it yet (202): only another question tells whether it does.
    pub is_pending: bool,
    /// Checksums of the stored file, as the peer computed them.
    pub checksums: Vec<Checksum>,
}

/// Which way the bytes go, as seen from the server that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It fetches from the peer.
    Pull,
    /// It sends to the peer.
    Push,
}

impl Direction {
    /// The word in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }

    /// The side of the transfer that the peer is.
    #[must_use]
    pub fn peer_side(self) -> Side {
        match self {
            Self::Pull => Side::Source,
            Self::Push => Side::Destination,
        }
    }
}

/// What a server is to copy.
#[derive(Clone, Debug)]
pub struct CopyOrder {
    /// The other server's file.
    pub peer: Location,
    /// Which way.
    pub direction: Direction,
    /// What the active server shows to the other one: goes there as transfer headers.
    pub peer_access: Access,
    /// Whether an existing destination may be replaced.
    pub overwrite: bool,
    /// How many streams; `None` leaves it to the active server, which may take several by itself.
    pub streams: Option<u32>,
    /// Whether the active server must (`true`) or need not (`false`) compare checksums.
    pub verification: Option<bool>,
    /// The checksum that the data should have.
    pub expected: Option<Checksum>,
    /// Longest time without a performance marker; never under a minute in practice, since some
    /// servers wait as long for a slow disk.
    pub silence: Duration,
}

impl CopyOrder {
    /// An order with what is usual for the rest: overwriting allowed, as many streams as
    /// the active server likes, and the active
    /// server's own rule about checksums.
    #[must_use]
    pub fn new(peer: Location, direction: Direction, peer_access: Access) -> Self {
        Self {
            peer,
            direction,
            peer_access,
            overwrite: true,
            streams: None,
            verification: None,
            expected: None,
            silence: MARKER_SILENCE,
        }
    }
}
