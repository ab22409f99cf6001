//! The content of a file that the program writes, as a source of the copy engine.

use std::future::ready;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use net::{Batch, Buffer};
use remote::GetOptions;
use storage::Answer;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use transfer::{Incoming, Progress, Source, SourceAbilities, SourceFacts};
use types::{ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

/// Pieces that wait to be sent to the server.
const PIECES_QUEUED_MAX: usize = 1;
/// After so long, the engine learns that it waits for the program: it would blame the server.
const WAIT_TOLD_AFTER: Duration = Duration::from_secs(1);

/// What the program does with a file.
pub(super) enum Piece {
    Bytes(HeldBytes),
    /// The file is complete. Without it, the end of the pieces is an error.
    End,
}

/// Bytes in memory, with their share of what all files may hold.
#[derive(Default)]
pub(super) struct HeldBytes {
    pub(super) bytes: Vec<u8>,
    pub(super) _share: Option<OwnedSemaphorePermit>,
}

/// The content of a file. It can be read once.
pub(super) struct Content {
    size_bytes: Option<u64>,
    pieces: Mutex<Option<mpsc::Receiver<Piece>>>,
    progress: Progress,
}

impl Content {
    /// The content of a file of this size, and where its pieces come from.
    pub(super) fn new(size_bytes: Option<u64>, progress: &Progress) -> (Self, mpsc::Sender<Piece>) {
        let (sender, pieces) = mpsc::channel(PIECES_QUEUED_MAX);
        let content = Self {
            size_bytes,
            pieces: Mutex::new(Some(pieces)),
            progress: progress.clone(),
        };
        (content, sender)
    }
}

/// What the error of a file says that the program gave up.
pub(super) const GIVEN_UP: &str = "the file was not committed";

fn given_up() -> Error {
    Error::new(ErrorCode::Cancelled, Side::Client, Phase::Transfer).with_detail(GIVEN_UP)
}

impl Source for Content {
    fn abilities(&self) -> SourceAbilities {
        SourceAbilities::default()
    }

    fn ask<'a>(&'a self, _wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SourceFacts> {
        Box::pin(ready(Ok(facts(self.size_bytes))))
    }

    fn read<'a>(&'a self, _options: &'a GetOptions) -> Answer<'a, Box<dyn Incoming>> {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).take();
        let arriving = pieces.map(|pieces| Arriving {
            size_bytes: self.size_bytes,
            pieces,
            current: HeldBytes::default(),
            at: 0,
            is_complete: false,
            progress: self.progress.clone(),
        });
        let incoming = arriving.map(|arriving| Box::new(arriving) as Box<dyn Incoming>);
        Box::pin(ready(incoming.ok_or_else(given_up)))
    }
}

fn facts(size_bytes: Option<u64>) -> SourceFacts {
    SourceFacts {
        size_bytes,
        ..SourceFacts::default()
    }
}

struct Arriving {
    size_bytes: Option<u64>,
    pieces: mpsc::Receiver<Piece>,
    current: HeldBytes,
    /// How much of the current piece has been taken.
    at: usize,
    is_complete: bool,
    progress: Progress,
}

impl Arriving {
    async fn piece(&mut self) -> Option<Piece> {
        loop {
            match timeout(WAIT_TOLD_AFTER, self.pieces.recv()).await {
                Ok(piece) => return piece,
                Err(_) => self.progress.add_paced(WAIT_TOLD_AFTER),
            }
        }
    }

    async fn batch(&mut self) -> Result<Option<Batch>> {
        while self.current.bytes.is_empty() && !self.is_complete {
            match self.piece().await {
                Some(Piece::Bytes(held)) => (self.current, self.at) = (held, 0),
                Some(Piece::End) => self.is_complete = true,
                None => return Err(given_up()),
            }
        }
        let rest = &self.current.bytes[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let mut buffer = Buffer::large();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        if self.at == self.current.bytes.len() {
            // The program may pause now, and other files need the memory.
            (self.current, self.at) = (HeldBytes::default(), 0);
        }
        Ok(Some(Batch::new(buffer, std::iter::once(0..count))))
    }
}

impl Incoming for Arriving {
    fn next(&mut self) -> Answer<'_, Option<Batch>> {
        Box::pin(self.batch())
    }

    fn facts(&self) -> SourceFacts {
        facts(self.size_bytes)
    }
}
