//! The trait of sources of a copy.

use net::{Batch, Ends};
use remote::{Download, Facts, GetOptions, Opened, Validator};
use storage::{Answer, ReadHandle};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Side};

use crate::mover::Payload;

/// A file to copy. Errors have a side and a phase.
pub trait Source: Send + Sync {
    /// What the engine can do with it.
    fn abilities(&self) -> SourceAbilities;

    /// Asks for the file's properties, and for the `wanted` checksums, best first, if they are
    /// known.
    ///
    /// # Errors
    /// The file cannot be read.
    fn ask<'a>(&'a self, wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SourceFacts>;

    /// Whether the data may be readable although [`Source::ask`] failed with this error.
    fn may_be_read_after(&self, _refusal: &Error) -> bool {
        false
    }

    /// Asks for checksums only, while the data moves. They may take as long as reading the file.
    /// `was_asked`: [`Source::ask`] was called before.
    ///
    /// # Errors
    /// The source does not report them.
    fn checksums<'a>(&'a self, _wanted: &'a [ChecksumAlgorithm], _was_asked: bool) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Begins to read the file or a range of it.
    ///
    /// # Errors
    /// The refusal; `source_changed` if the validator no longer matches; `peer_misbehaved` if the
    /// answer is not what was requested.
    fn read<'a>(&'a self, options: &'a GetOptions) -> Answer<'a, Box<dyn Incoming>>;

    /// Opens a file that may be opened only once ([`SourceAbilities::opens_once`]).
    ///
    /// # Errors
    /// The refusal.
    fn open_once(&self) -> Answer<'_, Opened> {
        Box::pin(async { Err(Error::new(ErrorCode::NotImplemented, Side::Source, Phase::Open)) })
    }

    /// The open file, if it is in a local store.
    fn local(&self) -> Option<&dyn ReadHandle> {
        None
    }

    /// Checks that the file is still the one whose data was read, if it is in a local store.
    ///
    /// # Errors
    /// `source_changed`.
    fn check_unchanged(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Keeps checksums that were computed while the file was read. A failure to keep them is
    /// ignored.
    fn keep_checksums<'a>(&'a self, _computed: &'a [Checksum]) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Its location, if it is on another server, to record the best number of streams for that
    /// server.
    fn location(&self) -> Option<&Location> {
        None
    }
}

/// Abilities of a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceAbilities {
    /// Its data is decrypted here, so more streams can use more processors.
    pub is_encrypted: bool,
    /// Several connections can read it although it is opened only once.
    pub opens_once: bool,
    /// Knowing its checksum before the data moves saves the checksums of pages.
    pub prefers_checksum_first: bool,
    /// It has no checksum of its own, so only the sink can say what it got.
    pub has_no_checksum: bool,
}

/// What a source reports about its file.
#[derive(Clone, Debug, Default)]
pub struct SourceFacts {
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Identifies this version of the file.
    pub validator: Option<Validator>,
    /// Checksums of the whole file, each algorithm at most once.
    pub checksums: Vec<Checksum>,
    /// Whether ranges can be read; `None` if the source does not say.
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

/// Data arriving from a source.
pub trait Incoming: Send {
    /// The next bytes in order; `None` at the end.
    ///
    /// # Errors
    /// The data is incomplete.
    fn next(&mut self) -> Answer<'_, Option<Batch>>;

    /// What the source reports with the data. Checksums may come after the data.
    fn facts(&self) -> SourceFacts {
        SourceFacts::default()
    }

    /// The addresses of the connection over which the server sends.
    fn ends(&self) -> Option<Ends> {
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

    fn ends(&self) -> Option<Ends> {
        Self::ends(self)
    }
}

impl Payload for Box<dyn Incoming + '_> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        self.as_mut().next().await
    }
}
