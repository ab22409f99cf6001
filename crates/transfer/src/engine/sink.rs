//! The trait of destinations of a copy.

use std::sync::Arc;

use net::{Batch, Ends};
use remote::{CreatedFile, FileIdentity, Outlet, Stored, Validator};
use storage::Answer;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Side};

use super::source::Incoming;
use crate::options::Order;
use crate::part_file::PartFile;
use crate::progress::{Progress, Replaced};

/// A destination of a copy: a file name. Errors have a side and a phase.
pub trait Sink: Send + Sync {
    /// What the engine can do with it.
    fn abilities(&self) -> SinkAbilities;

    /// Whether a file of this name exists; `None` if the sink does not report it.
    ///
    /// # Errors
    /// The file exists and must not be replaced, or is a directory; other refusals.
    fn existed<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<bool>>;

    /// The version of the file that a copy replaces, as [`Sink::existed`] found it, if the server
    /// names versions.
    fn replaced(&self) -> Option<Replaced> {
        None
    }

    /// Begins to store the file; [`SinkAbilities::any_order`] determines the kind of [`Begun`].
    ///
    /// # Errors
    /// The refusal, before the first byte.
    fn begin<'a>(&'a self, options: &'a BeginOptions<'a>) -> Answer<'a, Begun>;

    /// Asks what is stored there now ([`SinkAbilities::is_remote`]).
    ///
    /// # Errors
    /// The refusal to report, or a missing file.
    fn look<'a>(&'a self, _wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SinkFacts> {
        Box::pin(async {
            Err(Error::new(
                ErrorCode::PeerUnsupported,
                Side::Destination,
                Phase::Checksum,
            ))
        })
    }

    /// Reads the first `count` bytes of what is stored there now, to recognise it.
    ///
    /// # Errors
    /// The refusal to read.
    fn read_back(&self, _count: u64) -> Answer<'_, Box<dyn Incoming>> {
        Box::pin(async {
            Err(Error::new(
                ErrorCode::PeerUnsupported,
                Side::Destination,
                Phase::Cleanup,
            ))
        })
    }

    /// Removes what is stored there: only this version of it, where the protocol has such a
    /// condition. Only `remains::remove` calls it.
    ///
    /// # Errors
    /// It may still be there.
    fn remove<'a>(&'a self, _version: Option<&'a Validator>) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Its location, if it is on another server.
    fn location(&self) -> Option<&Location> {
        None
    }
}

/// Abilities of a sink.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinkAbilities {
    /// Data can be written in any order and over several streams: [`Sink::begin`] returns
    /// [`Begun::Part`].
    pub any_order: bool,
    /// Another server stores the file, so it is verified at the end.
    pub is_remote: bool,
    /// A file above this many bytes can be stored in parts: [`Sink::begin`] returns [`Begun::Part`]
    /// if asked to.
    pub stores_parts_above: Option<u64>,
    /// Of a file that is not stored in parts, the server reports the MD5.
    pub reports_md5: bool,
    /// An interrupted upload may stay under the name, so the engine removes it.
    pub leaves_remains: bool,
}

/// Options of [`Sink::begin`].
#[derive(Clone, Copy, Debug)]
pub struct BeginOptions<'a> {
    /// The order of the copy.
    pub order: &'a Order,
    /// Size of the file in bytes, if known.
    pub size_bytes: Option<u64>,
    /// Checksums of the data, for the sink to verify.
    pub declared: &'a [Checksum],
    /// Others are computed while the data moves, and declared at the end
    /// ([`UploadStream::declare`]).
    pub declares_behind: bool,
    /// The progress of the copy: it knows what flows belong to.
    pub progress: &'a Progress,
    /// [`Sink::existed`] has just returned that there is no such file.
    pub is_absent: bool,
    /// The file may be stored in parts: data come part by part, over several streams, and the
    /// checksums of it are put together.
    pub in_parts: bool,
}

/// A file that is being stored. If dropped before its end, it never appears under its name.
pub enum Begun {
    /// Takes data in any order.
    Part(Arc<dyn PartFile>),
    /// Takes data in order.
    Stream(Box<dyn UploadStream>),
}

/// What a sink reports about a stored file.
#[derive(Clone, Debug, Default)]
pub struct SinkFacts {
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Checksums of the whole file.
    pub checksums: Vec<Checksum>,
    /// Identifies this version of the file.
    pub version: Option<Validator>,
    /// How long ago it was written to, in seconds by the clock of its server, if that tells both
    /// times; off by less than one.
    pub age_s: Option<i64>,
    /// Identifies the file itself.
    pub identity: Option<FileIdentity>,
}

/// A file that takes data in order.
pub trait UploadStream: Send {
    /// Sends the next bytes, and counts those that were accepted.
    ///
    /// # Errors
    /// The refusal, or a lost connection.
    fn append<'a>(&'a mut self, batch: Batch, progress: &'a Progress) -> Answer<'a, ()>;

    /// The connection to a peer, if data can be sent over it without this trait.
    fn outlet(&mut self) -> Option<&mut Outlet> {
        None
    }

    /// The file that it writes to, to recognise it after a failure.
    fn created(&self) -> Option<CreatedFile> {
        None
    }

    /// The addresses of the connection to the server that stores.
    fn ends(&self) -> Option<Ends> {
        None
    }

    /// Checksums of all data, computed on the way, for a sink that compares them before it replaces
    /// a file.
    fn declare(&mut self, _computed: &[Checksum]) {}

    /// Ends the data, and waits until the file is stored.
    ///
    /// # Errors
    /// The refusal, or incomplete data.
    fn finish(self: Box<Self>) -> Answer<'static, Stored>;
}
