//! Where the data of a copy comes from.

use std::net::SocketAddr;

use net::Batch;
use remote::{Download, Facts, GetOptions, Opened, Validator};
use storage::{Answer, ReadHandle};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Side};

use crate::mover::Payload;

/// A file that can be copied. Errors name the side and the phase.
pub trait Source: Send + Sync {
    /// What the engine may do with it.
    fn abilities(&self) -> SourceAbilities;

    /// Asks what the file is, with the `wanted` checksums, best first, as far as they are known.
    ///
    /// # Errors
    /// Why the file cannot be read.
    fn ask<'a>(&'a self, wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SourceFacts>;

    /// Whether the data may be readable although [`Source::ask`] failed so.
    fn may_be_read_after(&self, _refusal: &Error) -> bool {
        false
    }

    /// Asks for checksums alone while the data moves; they may take as long as reading the file. `was_asked` says whether
    /// [`Source::ask`] was called before.
    ///
    /// # Errors
    /// Why they are not told.
    fn checksums<'a>(&'a self, _wanted: &'a [ChecksumAlgorithm], _was_asked: bool) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Begins to read the file or a range of it.
    ///
    /// # Errors
    /// The refusal; `source_changed` when the validator no longer holds; `peer_misbehaved` when something else than what was
    /// asked for would come.
    fn read<'a>(&'a self, options: &'a GetOptions) -> Answer<'a, Box<dyn Incoming>>;

    /// Opens a file that may be opened only once ([`SourceAbilities::opens_once`]).
    ///
    /// # Errors
    /// The refusal.
    fn open_once(&self) -> Answer<'_, Opened> {
        Box::pin(async { Err(Error::new(ErrorCode::NotImplemented, Side::Source, Phase::Open)) })
    }

    /// The open file, where it is one of a store here.
    fn local(&self) -> Option<&dyn ReadHandle> {
        None
    }

    /// Keeps checksums that were computed while the file was read. Failing to is no error.
    fn keep_checksums<'a>(&'a self, _computed: &'a [Checksum]) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Where it is, if it is on another server: the number of streams that was worth it is remembered for that server.
    fn location(&self) -> Option<&Location> {
        None
    }
}

/// What can be done with a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceAbilities {
    /// Its data is decrypted here, so further streams can use further processors.
    pub is_encrypted: bool,
    /// Several connections can read it although it is opened once.
    pub opens_once: bool,
    /// A checksum that is known before the data moves saves it the checksums of pages.
    pub prefers_checksum_first: bool,
}

/// What a source says of its file.
#[derive(Clone, Debug, Default)]
pub struct SourceFacts {
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// By what the same state of the file is recognised.
    pub validator: Option<Validator>,
    /// Checksums of the whole file, each algorithm at most once.
    pub checksums: Vec<Checksum>,
    /// Whether ranges can be read; `None` when the source does not say.
    pub accepts_ranges: Option<bool>,
}

impl From<&Facts> for SourceFacts {
    fn from(facts: &Facts) -> Self {
        Self {
            size_bytes: facts.size_bytes,
            validator: facts.validator(),
            checksums: facts.checksums.clone(),
            accepts_ranges: facts.accepts_ranges,
        }
    }
}

/// Data on its way from a source.
pub trait Incoming: Send {
    /// The next bytes in order; `None` at the end.
    ///
    /// # Errors
    /// That not all of it comes.
    fn next(&mut self) -> Answer<'_, Option<Batch>>;

    /// What the source says of the file with the data. Checksums may come behind the data.
    fn facts(&self) -> SourceFacts {
        SourceFacts::default()
    }

    /// The address of the server that sends.
    fn peer_address(&self) -> Option<SocketAddr> {
        None
    }
}

impl Incoming for Download {
    fn next(&mut self) -> Answer<'_, Option<Batch>> {
        self.boxed_next()
    }

    fn facts(&self) -> SourceFacts {
        Self::facts(self).into()
    }

    fn peer_address(&self) -> Option<SocketAddr> {
        Self::peer_address(self)
    }
}

impl Payload for Box<dyn Incoming + '_> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        self.as_mut().next().await
    }
}
