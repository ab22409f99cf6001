//! Options of requests, in every protocol.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crate::limits::MARKER_SILENCE;
use http_wire::Method;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Location, Side};

use crate::outlet::CreatedFile;
use crate::resource::{Access, Facts, Validator};

/// What to read of a file.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// One part of the file, not empty; `None` for all of it.
    pub range: Option<ByteRange>,
    /// The version that the file must still have.
    pub validator: Option<Validator>,
    /// The server has said before that it is a file, not a directory, so it is not asked again.
    pub is_asked: bool,
    /// The size in that answer.
    pub size_bytes: Option<u64>,
    /// Checksums to ask for, best first. In the XRootD protocol we ask at the end, in the session
    /// in which the file is open.
    pub wanted: Vec<ChecksumAlgorithm>,
    /// The caller compares the whole file with the server's checksum, or trusts the network. So the
    /// protocol need not protect each page: that would double the work on both sides, and the
    /// source could not send its file without reading it.
    pub is_compared: bool,
}

/// How to store a file.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Size of the file, in bytes; `None` when it is unknown: the body is then sent in chunks.
    pub size_bytes: Option<u64>,
    /// Whether an existing file may be replaced.
    pub overwrite: bool,
    /// The server has just said that there is no such file, so it is not asked again before a file
    /// that must not replace another.
    pub is_absent: bool,
    /// Checksums of the content, for the server to verify.
    pub declared: Vec<Checksum>,
    /// The server that compares a checksum behind the content ([`Facts::compares_trailers`]): the
    /// content goes there in chunks, and [`Outlet::declare`](crate::Outlet::declare) adds it.
    pub compares_trailers_at: Option<Location>,
    /// The time of the last change to give to the file, where the protocol and the server can.
    pub modified: Option<SystemTime>,
}

impl PutOptions {
    /// Whether a checksum goes behind the content to the server of `place`.
    pub(crate) fn declares_behind(&self, place: &Location) -> bool {
        let server = self.compares_trailers_at.as_ref();
        self.size_bytes != Some(0) && server.is_some_and(|server| server.same_origin(place))
    }
}

/// How a file is copied within its server.
#[derive(Clone, Copy, Debug, Default)]
pub struct WithinOptions {
    /// Whether the destination is replaced if it exists.
    pub overwrite: bool,
    /// The destination has just been found to be absent.
    pub is_absent: bool,
}

/// A file that its server has copied.
#[derive(Clone, Debug)]
pub struct CopiedWithin {
    /// The source, as it was before.
    pub source: Facts,
    /// The copy. If another client has replaced it since, what the server said when it made it.
    pub target: Facts,
    /// The version of the copy, as the server called it when it made it. `None`: it did not name
    /// it, or another client has replaced it since. Then the object there must not be removed.
    pub version: Option<Validator>,
}

impl CopiedWithin {
    /// What differs between the two, in words.
    #[must_use]
    pub fn difference(&self) -> Option<String> {
        let sizes = self.source.size_bytes.zip(self.target.size_bytes);
        if let Some((source, target)) = sizes.filter(|(source, target)| source != target) {
            return Some(format!("the source has {source} bytes, the copy {target}"));
        }
        let theirs = &self.target.checksums;
        self.source.checksums.iter().find_map(|ours| {
            let copy = theirs.iter().find(|theirs| theirs.algorithm() == ours.algorithm())?;
            (copy != ours).then(|| format!("the source has {ours}, the copy {copy}"))
        })
    }
}

/// What the server says of a stored file, and what is known of what it was sent.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The file did not exist before.
    pub created: bool,
    /// The server has accepted the file and not stored it yet (202). Only another request shows
    /// whether it does.
    pub is_pending: bool,
    /// Checksums of the stored file, as the server computed them.
    pub checksums: Vec<Checksum>,
    /// Checksums of what was sent, computed on the way.
    pub sent: Vec<Checksum>,
    /// The version that was stored, if the server names it (RFC 9110 §8.8.3).
    pub version: Option<Validator>,
    /// The file has the time of [`PutOptions::modified`].
    pub keeps_modified: bool,
}

impl Stored {
    /// With more checksums of what was sent.
    #[must_use]
    pub fn with_sent(&self, computed: &[Checksum]) -> Self {
        let mut stored = self.clone();
        stored.sent.extend_from_slice(computed);
        stored
    }
}

/// What a server of the XRootD protocol offers in the login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginOffer {
    /// The authentication protocols, such as `gsi` and `ztn`, in the server's order. With none of
    /// them it lets in every client.
    pub methods: Vec<String>,
    /// It sends clients on to other servers, which may offer others.
    pub is_redirector: bool,
}

/// What a server of HTTP says of itself (OPTIONS).
#[derive(Clone, Debug, Default)]
pub struct Offers {
    /// The methods that it offers for a file. They do not tell whether it makes third-party copies:
    /// in WebDAV, COPY is a copy within a server, and dCache does not list it.
    pub methods: Vec<Method>,
}

/// What a server says of the third-party copies that it makes with servers of another one's kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyAbilities {
    /// Whether it fetches from them; `None`: it does not say.
    pub pulls: Option<bool>,
    /// Whether it fetches with a proxy that the client signs for it; `None`: it does not say, or
    /// was not asked.
    pub with_proxy: Option<bool>,
}

/// Whether we sign a proxy for the active server of a copy, so that it acts for us at the other
/// one.
/// Only a server whose certificate was verified and names the host gets one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delegation {
    /// No.
    #[default]
    Never,
    /// Yes. Where it cannot be done the copy goes on without: with a token, a rendezvous key, or no
    /// credential.
    First,
    /// Yes. Where it cannot be done the copy fails.
    Only,
}

impl Delegation {
    /// Whether a server that asks for a proxy gets one.
    #[must_use]
    pub fn is_wanted(self) -> bool {
        self != Self::Never
    }
}

/// The direction of a third-party copy, as seen from the active side.
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

    /// The side of the transfer at which the peer is.
    #[must_use]
    pub fn peer_side(self) -> Side {
        match self {
            Self::Pull => Side::Source,
            Self::Push => Side::Destination,
        }
    }
}

/// An order for a third-party copy.
#[derive(Clone, Debug)]
pub struct CopyOrder {
    /// The other server's file.
    pub peer: Location,
    /// The direction.
    pub direction: Direction,
    /// What the active server shows to the other one. It gets this as transfer headers.
    pub peer_access: Access,
    /// Whether an existing destination may be replaced.
    pub overwrite: bool,
    /// The number of streams; `None` leaves it to the active server.
    pub streams: Option<u32>,
    /// Whether the active server must (`true`) or need not (`false`) compare checksums; `None`
    /// leaves it to the server.
    pub verification: Option<bool>,
    /// The expected checksum of the data.
    pub expected: Option<Checksum>,
    /// The active server has said that it makes such copies, so it is not asked again
    /// ([`crate::Client::copy_abilities`]).
    pub is_offered: bool,
    /// Longest time without a progress marker. It should not be under a minute, since some servers
    /// wait as long for a slow disk.
    pub silence: Duration,
    /// Set once the destination has created the file, where the client opens it and the server
    /// names files ([`crate::Outlet::created`]). Also known if the order fails afterwards.
    pub created: Arc<OnceLock<CreatedFile>>,
}

impl CopyOrder {
    /// An order with defaults: overwriting is allowed, and the active server decides about streams
    /// and checksums.
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
            is_offered: false,
            silence: MARKER_SILENCE,
            created: Arc::default(),
        }
    }
}
