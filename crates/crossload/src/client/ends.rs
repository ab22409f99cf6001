//! `head` and `tail`.

use types::{ByteRange, Error, ErrorCode, Phase, Result};

use super::each::{Finished, each_place};
use super::piece_reader::PieceReader;
use super::place::Place;
use super::session::ClientContext;
use crate::command_line::EndOptions;
use crate::failure::Failure;
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
            let mut content = open(session, &place).await?;
            if !options.places.is_one() {
                output::line(&format!("{gap}==> {} <==", output::name(text)));
                gap = "\n";
            }
            if let Err(error) = content.print_end(options, end).await {
                return Err(why_not_read(session, &place, error).await);
            }
            content.0.close().await;
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

/// As [`PieceReader::open`].
async fn open(session: &ClientContext, place: &Place) -> std::result::Result<Content, Failure> {
    let opened = PieceReader::open(session, place, place.side()).await;
    opened.map(Content).map_err(|error| match error.code() {
        ErrorCode::PeerUnsupported => Failure::advised(&error, "Use cat."),
        ErrorCode::NotImplemented => Failure::advised(&error, "Use the system's command for standard input."),
        _ => error.into(),
    })
}

/// A file whose head or tail is printed.
struct Content(PieceReader);

impl Content {
    /// Prints what the options ask for.
    async fn print_end(&mut self, options: &EndOptions, end: End) -> Result<()> {
        match (end, options.bytes, options.lines) {
            (End::Head, Some(bytes), _) => self.print(0, bytes.count).await,
            (End::Head, None, lines) => self.print_lines(lines.count).await,
            (End::Tail, Some(bytes), _) => {
                let start = match bytes.is_start {
                    true => bytes.count.saturating_sub(1),
                    false => self.0.size_bytes().saturating_sub(bytes.count),
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
        let mut rest = ByteRange::new(start, start.saturating_add(bytes_max).min(self.0.size_bytes()));
        while !rest.is_empty() {
            let range = rest.take_front(self.0.step());
            output::write_out(&self.0.read(range).await?);
        }
        Ok(())
    }

    /// Prints the first lines.
    async fn print_lines(&mut self, mut lines: u64) -> Result<()> {
        let mut rest = ByteRange::whole(self.0.size_bytes());
        while !rest.is_empty() && lines > 0 {
            let range = rest.take_front(self.0.step());
            let piece = self.0.read(range).await?;
            output::write_out(&piece[..end_of_lines(&piece, &mut lines)]);
        }
        Ok(())
    }

    /// Prints what follows the first lines.
    async fn print_behind(&mut self, mut lines: u64) -> Result<()> {
        let mut rest = ByteRange::whole(self.0.size_bytes());
        while !rest.is_empty() {
            let range = rest.take_front(self.0.step());
            let piece = self.0.read(range).await?;
            output::write_out(&piece[end_of_lines(&piece, &mut lines)..]);
        }
        Ok(())
    }

    /// Where the last lines begin.
    async fn start_of_last_lines(&mut self, mut lines: u64) -> Result<u64> {
        let mut end = self.0.size_bytes();
        if lines == 0 {
            return Ok(end);
        }
        while end > 0 {
            let range = ByteRange::new(end.saturating_sub(self.0.step()), end);
            let piece = self.0.read(range).await?;
            for (at, _) in piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let behind = range.start + at as u64 + 1;
                // The end of the last line begins none.
                if behind == self.0.size_bytes() {
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
