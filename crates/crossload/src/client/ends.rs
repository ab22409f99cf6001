//! `head` and `tail`.

use std::io::SeekFrom;

use remote::Ranges;
use storage::local::fault;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use types::{ByteRange, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::each::{Finished, each_place};
use super::place::Place;
use super::session::ClientContext;
use crate::command_line::EndOptions;
use crate::failure::Failure;
use crate::limits::{END_PIECE_BYTES_MAX, END_PIECE_BYTES_MIN};
use crate::output;

/// Which end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

/// Prints the beginning or the end of each file.
pub(crate) async fn run(session: &ClientContext, options: &EndOptions, end: End) -> std::result::Result<u8, Failure> {
    let command = match end {
        End::Head => "head",
        End::Tail => "tail",
    };
    let mut gap = "";
    each_place(
        command,
        &options.places,
        async |text| -> std::result::Result<Finished, Failure> {
            let place = session.place(text).await?;
            let mut content = Content::open(session, &place).await?;
            if !options.places.is_one() {
                output::line(&format!("{gap}==> {} <==", output::name(text)));
                gap = "\n";
            }
            if let Err(error) = content.print_end(options, end).await {
                return Err(why_not_read(session, &place, error).await);
            }
            content.close().await;
            Ok(Finished::Whole)
        },
    )
    .await
}

/// The failure of a read. Over HTTP a directory can look like a file until it is read.
async fn why_not_read(session: &ClientContext, place: &Place, error: Error) -> Failure {
    if error.code() != ErrorCode::PeerUnsupported {
        return error.into();
    }
    match session.stat(place, place.side()).await {
        Ok(found) if found.is_directory => {
            let error = Error::new(ErrorCode::IsDirectory, place.side(), Phase::Open);
            error.with_subject(place).into()
        }
        _ => Failure::advised(&error, "Use cat."),
    }
}

/// A file that is read in pieces.
struct Content {
    origin: Origin,
    size_bytes: u64,
    /// The size of the next piece. It grows, so that a few lines cost little and many take few
    /// round trips.
    step_bytes: u64,
}

enum Origin {
    Server(Ranges),
    Machine(File, LogicalPath),
}

impl Content {
    async fn open(session: &ClientContext, place: &Place) -> std::result::Result<Self, Failure> {
        let side = place.side();
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
                    return Err(error.with_subject(place).into());
                }
                (Origin::Machine(file, path.clone()), Some(found.len()))
            }
            Place::Stdio => {
                let error = Error::new(ErrorCode::NotImplemented, side, Phase::Open);
                return Err(Failure::advised(&error, "Use the system's command for standard input."));
            }
        };
        let unknown = || {
            let error = Error::new(ErrorCode::PeerUnsupported, side, Phase::Open).with_subject(place);
            let error = error.with_detail("the server does not say how long the file is");
            Failure::advised(&error, "Use cat.")
        };
        Ok(Self {
            origin,
            size_bytes: size_bytes.ok_or_else(unknown)?,
            step_bytes: END_PIECE_BYTES_MIN,
        })
    }

    async fn close(self) {
        if let Origin::Server(ranges) = self.origin {
            ranges.close().await;
        }
    }

    /// The size of the next piece.
    fn step(&mut self) -> u64 {
        let step_bytes = self.step_bytes;
        self.step_bytes = (4 * step_bytes).min(END_PIECE_BYTES_MAX);
        step_bytes
    }

    async fn read(&mut self, range: ByteRange) -> Result<Vec<u8>> {
        match &mut self.origin {
            Origin::Server(ranges) => Ok(ranges.read(&[range]).await?.pop().unwrap_or_default()),
            Origin::Machine(file, path) => {
                let failed = |cause| fault(&cause, Phase::Transfer, &*path).at_side(Side::Client);
                file.seek(SeekFrom::Start(range.start)).await.map_err(failed)?;
                let mut piece = vec![0; range.len() as usize];
                file.read_exact(&mut piece).await.map_err(failed)?;
                Ok(piece)
            }
        }
    }

    /// Prints what the options ask for.
    async fn print_end(&mut self, options: &EndOptions, end: End) -> Result<()> {
        match (end, options.bytes, options.lines) {
            (End::Head, Some(bytes), _) => self.print(0, bytes.count).await,
            (End::Head, None, lines) => self.print_lines(lines.count).await,
            (End::Tail, Some(bytes), _) => {
                let start = match bytes.is_start {
                    true => bytes.count.saturating_sub(1),
                    false => self.size_bytes.saturating_sub(bytes.count),
                };
                self.print(start, u64::MAX).await
            }
            (End::Tail, None, lines) if lines.is_start => self.print_behind(lines.count.saturating_sub(1)).await,
            (End::Tail, None, lines) => {
                let start = self.start_of_last_lines(lines.count).await?;
                self.print(start, u64::MAX).await
            }
        }
    }

    /// Prints up to so many bytes from `start`.
    async fn print(&mut self, start: u64, bytes_max: u64) -> Result<()> {
        let mut rest = ByteRange::new(start, start.saturating_add(bytes_max).min(self.size_bytes));
        while !rest.is_empty() {
            let range = rest.take_front(self.step());
            output::write_out(&self.read(range).await?);
        }
        Ok(())
    }

    /// Prints the first lines.
    async fn print_lines(&mut self, mut lines: u64) -> Result<()> {
        let mut rest = ByteRange::whole(self.size_bytes);
        while !rest.is_empty() && lines > 0 {
            let range = rest.take_front(self.step());
            let piece = self.read(range).await?;
            output::write_out(&piece[..end_of_lines(&piece, &mut lines)]);
        }
        Ok(())
    }

    /// Prints what follows the first lines.
    async fn print_behind(&mut self, mut lines: u64) -> Result<()> {
        let mut rest = ByteRange::whole(self.size_bytes);
        while !rest.is_empty() {
            let range = rest.take_front(self.step());
            let piece = self.read(range).await?;
            output::write_out(&piece[end_of_lines(&piece, &mut lines)..]);
        }
        Ok(())
    }

    /// Where the last lines begin.
    async fn start_of_last_lines(&mut self, mut lines: u64) -> Result<u64> {
        let mut end = self.size_bytes;
        if lines == 0 {
            return Ok(end);
        }
        while end > 0 {
            let range = ByteRange::new(end.saturating_sub(self.step()), end);
            let piece = self.read(range).await?;
            for (at, _) in piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let behind = range.start + at as u64 + 1;
                // The end of the last line begins none.
                if behind == self.size_bytes {
                    continue;
                }
                lines -= 1;
                if lines == 0 {
                    return Ok(behind);
                }
            }
            end = range.start;
        }
        Ok(0)
    }
}

/// Where so many lines end, or the end of the piece. Takes those that end in it from `lines`.
fn end_of_lines(piece: &[u8], lines: &mut u64) -> usize {
    if *lines == 0 {
        return 0;
    }
    for (at, _) in piece.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        *lines -= 1;
        if *lines == 0 {
            return at + 1;
        }
    }
    piece.len()
}
