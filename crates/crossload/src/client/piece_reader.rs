//! A file anywhere that is read in pieces.

use std::io::SeekFrom;
use std::os::unix::fs::MetadataExt as _;

use remote::Ranges;
use storage::local::fault;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use types::{ByteRange, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::place::Place;
use super::session::ClientContext;
use crate::limits::{PIECE_BYTES_MAX, PIECE_BYTES_MIN};

/// An open file whose size is known.
pub(super) struct PieceReader {
    origin: Origin,
    size_bytes: u64,
    step_bytes: u64,
    side: Side,
}

enum Origin {
    Server(Ranges),
    Machine(File, LogicalPath),
}

impl PieceReader {
    /// Opens a file.
    ///
    /// # Errors
    /// The refusal; `is_directory` on this machine; `peer_unsupported` if the server does not say
    /// how long the file is; `not_implemented` for standard input.
    pub(super) async fn open(session: &ClientContext, place: &Place, side: Side) -> Result<Self> {
        let (origin, size_bytes) = match place {
            Place::Remote(location) => {
                let ranges = session.client.open_ranges(&session.resource(location, side)).await?;
                let size_bytes = ranges.facts().size_bytes;
                (Origin::Server(ranges), size_bytes)
            }
            Place::Local(path) => {
                let failed = |cause| fault(&cause, Phase::Open, path).at_side(side);
                let file = File::open(path.as_str()).await.map_err(failed)?;
                let found = file.metadata().await.map_err(failed)?;
                if found.is_dir() {
                    let error = Error::new(ErrorCode::IsDirectory, side, Phase::Open);
                    return Err(error.with_subject(place));
                }
                (Origin::Machine(file, path.clone()), Some(found.len()))
            }
            Place::Stdio => return Err(Error::new(ErrorCode::NotImplemented, side, Phase::Open)),
        };
        let unknown = || {
            let error = Error::new(ErrorCode::PeerUnsupported, side, Phase::Open).with_subject(place);
            error.with_detail("the server does not say how long the file is")
        };
        Ok(Self {
            origin,
            size_bytes: size_bytes.ok_or_else(unknown)?,
            step_bytes: PIECE_BYTES_MIN,
            side,
        })
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The size of the next piece. It grows, so that a few lines cost little and many take few
    /// round trips.
    pub(super) fn step(&mut self) -> u64 {
        let step_bytes = self.step_bytes;
        self.step_bytes = (4 * step_bytes).min(PIECE_BYTES_MAX);
        step_bytes
    }

    /// Reads a piece within the file, of up to [`PIECE_BYTES_MAX`].
    ///
    /// # Errors
    /// It cannot be read, or the file is shorter now.
    pub(super) async fn read(&mut self, range: ByteRange) -> Result<Vec<u8>> {
        match &mut self.origin {
            Origin::Server(ranges) => Ok(ranges.read(&[range]).await?.pop().unwrap_or_default()),
            Origin::Machine(file, path) => {
                let failed = |cause| fault(&cause, Phase::Transfer, &*path).at_side(self.side);
                file.seek(SeekFrom::Start(range.start)).await.map_err(failed)?;
                let mut piece = vec![0; range.len() as usize];
                file.read_exact(&mut piece).await.map_err(failed)?;
                Ok(piece)
            }
        }
    }

    /// Whether a file of this machine still has the name by which it was opened. Those of servers
    /// must be asked for anew.
    pub(super) async fn is_still_named(&mut self) -> bool {
        let Origin::Machine(file, path) = &self.origin else {
            return true;
        };
        let opened = file.metadata().await;
        let named = tokio::fs::metadata(path.as_str()).await;
        let (Ok(opened), Ok(named)) = (opened, named) else {
            return false;
        };
        (opened.dev(), opened.ino()) == (named.dev(), named.ino())
    }

    pub(super) async fn close(self) {
        if let Origin::Server(ranges) = self.origin {
            ranges.close().await;
        }
    }
}
