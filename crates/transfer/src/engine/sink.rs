//! Where the data of a copy goes.

use std::net::SocketAddr;
use std::sync::Arc;

use net::Batch;
use remote::{Outlet, Stored};
use storage::{Answer, Hasher};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Side};

use crate::options::Order;
use crate::progress::Progress;

/// A name under which a copy stores its file. Errors name the side and the phase.
pub trait Sink: Send + Sync {
    /// What the engine may do with it.
    fn abilities(&self) -> SinkAbilities;

    /// Whether there is a file of that name; `None` when the sink does not say.
    ///
    /// # Errors
    /// That the file may not be stored: it exists and may not be replaced, or the name is that of a directory.
    fn existed<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<bool>>;

    /// Begins to store the file: of the kind that [`SinkAbilities::any_order`] says.
    ///
    /// # Errors
    /// The refusal, before the first byte.
    fn begin<'a>(&'a self, options: &'a BeginOptions<'a>) -> Answer<'a, Begun>;

    /// Asks what is stored there now ([`SinkAbilities::is_remote`]).
    ///
    /// # Errors
    /// The refusal to tell, or that there is no such file.
    fn look<'a>(&'a self, _wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SinkFacts> {
        Box::pin(async {
            Err(Error::new(
                ErrorCode::PeerUnsupported,
                Side::Destination,
                Phase::Checksum,
            ))
        })
    }

    /// Removes what a failed copy left under the name.
    ///
    /// # Errors
    /// That it may still be there.
    fn remove(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// What can be done with a sink.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinkAbilities {
    /// Data can be written in any order, and over several streams: [`Sink::begin`] gives [`Begun::Part`].
    pub any_order: bool,
    /// Somebody else stores the file, so what is stored there is compared at the end.
    pub is_remote: bool,
    /// An interrupted upload may be left under the name, so the engine removes it.
    pub leaves_remains: bool,
}

/// How a file is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct BeginOptions<'a> {
    /// The order of the copy.
    pub order: &'a Order,
    /// Size of the file in bytes, if known.
    pub size_bytes: Option<u64>,
    /// Checksums of what will come, for the sink to verify.
    pub declared: &'a [Checksum],
    /// [`Sink::existed`] has just said that there is no such file.
    pub is_absent: bool,
}

/// A file that was begun. Dropped before its end, it does not take its name.
pub enum Begun {
    /// Takes data in any order.
    Part(Arc<dyn PartFile>),
    /// Takes data from front to back.
    Stream(Box<dyn UploadStream>),
}

/// What a sink says of a stored file.
#[derive(Clone, Debug, Default)]
pub struct SinkFacts {
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Checksums of the whole file.
    pub checksums: Vec<Checksum>,
}

/// A file that takes data in any order.
pub trait PartFile: Send + Sync {
    /// Writes a batch where it belongs.
    ///
    /// # Errors
    /// That it cannot be stored.
    fn write_at(&self, batch: Batch, offset: u64) -> Answer<'_, ()>;

    /// Takes up what an interrupted copy left of the same content, which `mark` identifies: how many bytes are there, from the
    /// front on. Called before anything is written.
    ///
    /// # Errors
    /// That it cannot be told.
    fn resume<'a>(&'a self, _mark: &'a str) -> Answer<'a, u64> {
        Box::pin(async { Ok(0) })
    }

    /// From now on writes come in any order, and only the first `bytes` bytes have no gaps: [`PartFile::resume`] may count no
    /// more than these.
    fn keep_front(&self, _bytes: u64) {}

    /// Shows the first `bytes` bytes to a hasher.
    ///
    /// # Errors
    /// That they cannot be read back.
    fn reread_front(&self, bytes: u64, hasher: Hasher) -> Answer<'_, Hasher>;

    /// Computes checksums of all that was written.
    ///
    /// # Errors
    /// That it cannot be read back.
    fn reread<'a>(&'a self, algorithms: &'a [ChecksumAlgorithm]) -> Answer<'a, Vec<Checksum>>;

    /// Gives the file its name. `checksums` were computed of the data.
    ///
    /// # Errors
    /// That it may not have it, or cannot be stored. An old file is then still there.
    fn commit(&self, size_bytes: u64, checksums: Vec<Checksum>) -> Answer<'_, Stored>;
}

/// A file that takes data from front to back.
pub trait UploadStream: Send {
    /// Sends the next bytes, and counts what was taken.
    ///
    /// # Errors
    /// The refusal, or a lost connection.
    fn append<'a>(&'a mut self, batch: Batch, progress: &'a Progress) -> Answer<'a, ()>;

    /// The connection to a peer, where the data can go over it without this trait in between.
    fn outlet(&mut self) -> Option<&mut Outlet> {
        None
    }

    /// The address of the server that stores.
    fn peer_address(&self) -> Option<SocketAddr> {
        None
    }

    /// Ends the data and waits until the file is stored.
    ///
    /// # Errors
    /// The refusal, or that not all of it came.
    fn finish(self: Box<Self>) -> Answer<'static, Stored>;
}
