//! Many pieces of a file in one request: vector reads of the XRootD protocol, and ranges of HTTP.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::thread;

use testkit::Result;
use xroot_wire::FileHandle;
use xroot_wire::request::{ReadVector, Request, VectorItem};
use xroot_wire::response::{ReadVectorDecoder, VectorPiece};

use super::session::{XrootSession, failed};
use crate::line::{Door, Line};

/// The shortest and the longest piece.
const PIECE_BYTES: (u64, u64) = (4 << 10, 64 << 10);
/// Of one line of an answer's head.
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Of the buffer that answers pass through.
const BUFFER_BYTES: usize = 256 << 10;
/// What may stand around each piece in an answer of several ranges.
const PART_HEAD_BYTES_MAX: u64 = 512;

/// A piece: where it begins, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// `count` pieces of 4 to 64 KiB in order, spread over a file of `size_bytes`, none touching
/// another. `round` makes them differ from request to request; the same arguments give the same
/// pieces.
pub(crate) fn pieces(size_bytes: u64, count: u64, round: u64) -> Vec<Piece> {
    let slot = size_bytes / count;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ (round << 32) ^ count;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    (0..count)
        .map(|index| {
            let length = PIECE_BYTES.0 + next(PIECE_BYTES.1 - PIECE_BYTES.0 + 1);
            let length = length.min(slot - 1);
            Piece {
                offset: index * slot + next(slot - length),
                length,
            }
        })
        .collect()
}

/// How a server is asked for pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceMethod {
    /// A vector read of the XRootD protocol.
    Vector,
    /// Several ranges in one GET.
    Ranges,
}

/// What is read, and from where.
pub(crate) struct Reading<'a> {
    pub(crate) method: PieceMethod,
    pub(crate) door: Door,
    pub(crate) path: &'a str,
    pub(crate) size_bytes: u64,
    /// Pieces in each request.
    pub(crate) count: u64,
    /// Connections, each with one request under way.
    pub(crate) connections: u64,
    /// Requests on each connection.
    pub(crate) requests: u64,
}

impl Reading<'_> {
    /// Does it. Returns the bytes of all pieces.
    pub(crate) fn run(&self) -> Result<u64> {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.connections)
                .map(|connection| {
                    scope.spawn(move || match self.method {
                        PieceMethod::Vector => self.vectors(connection),
                        PieceMethod::Ranges => self.ranges(connection),
                    })
                })
                .collect();
            // Every thread is waited for, whatever became of the others.
            let ends: Vec<Result<u64>> = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err(failed("a client failed"))))
                .collect();
            ends.into_iter().sum()
        })
    }

    fn lists(&self, connection: u64) -> impl Iterator<Item = Vec<Piece>> + use<'_> {
        (0..self.requests).map(move |index| pieces(self.size_bytes, self.count, connection * self.requests + index))
    }

    fn vectors(&self, connection: u64) -> Result<u64> {
        let mut session = XrootSession::through(&self.door, false)?;
        let handle = session.open_to_read(self.path)?.handle;
        let mut moved = 0;
        for list in self.lists(connection) {
            moved += read_vector(&mut session, handle, &list)?;
        }
        session.close(handle)?;
        Ok(moved)
    }

    fn ranges(&self, connection: u64) -> Result<u64> {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, Line::open(&self.door)?);
        let mut moved = 0;
        for list in self.lists(connection) {
            let request = range_request(self.path, self.door.port, &list);
            input.get_mut().write_all(request.as_bytes())?;
            let wanted = total(&list);
            let length = content_length(&mut input)?;
            if length < wanted || length > wanted + self.count * PART_HEAD_BYTES_MAX {
                return Err(failed(format!("{length} bytes for pieces of {wanted}")));
            }
            pass(&mut input, length)?;
            moved += wanted;
        }
        Ok(moved)
    }
}

fn total(list: &[Piece]) -> u64 {
    list.iter().map(|piece| piece.length).sum()
}

/// Asks for a vector and lets the answer pass. Every piece must be the one that was asked for.
fn read_vector(session: &mut XrootSession, handle: FileHandle, list: &[Piece]) -> Result<u64> {
    let items: Vec<VectorItem> = list
        .iter()
        .map(|piece| VectorItem {
            handle,
            length: u32::try_from(piece.length).unwrap_or(u32::MAX),
            offset: piece.offset,
        })
        .collect();
    let bytes: Vec<u8> = items.iter().flat_map(VectorItem::encode).collect();
    let request = ReadVector::new(0, &bytes).map_err(|refusal| failed(refusal.to_error()))?;
    session.queue(&Request::ReadVector(request));
    session.send()?;
    let mut decoder = ReadVectorDecoder::new();
    let mut moved = 0;
    loop {
        let is_last = session.pass_answer(|mut input| {
            while let Some(found) = decoder.next(&mut input).map_err(failed)? {
                match found {
                    VectorPiece::Head { number, item } if items.get(number) == Some(&item) => {}
                    VectorPiece::Head { item, .. } => {
                        return Err(failed(format!("a piece that is not asked for: {item:?}")));
                    }
                    VectorPiece::Data(data) => moved += data.len() as u64,
                }
            }
            Ok(())
        })?;
        if is_last {
            break;
        }
    }
    if moved != total(list) || decoder.item_count() != items.len() {
        return Err(failed(format!("{moved} bytes in {} pieces", decoder.item_count())));
    }
    Ok(moved)
}

fn range_request(path: &str, port: u16, list: &[Piece]) -> String {
    let mut text = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nRange: bytes=");
    for (index, piece) in list.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        let _ = write!(text, "{separator}{}-{}", piece.offset, piece.offset + piece.length - 1);
    }
    text.push_str("\r\n\r\n");
    text
}

/// Reads the head of an answer, which must be one of several ranges. Returns the length of its
/// body.
fn content_length(input: &mut BufReader<Line>) -> Result<u64> {
    let (mut length, mut is_first) = (None, true);
    loop {
        let mut line = String::new();
        input.take(LINE_BYTES_MAX).read_line(&mut line)?;
        let line = line.trim_end();
        if is_first && !line.starts_with("HTTP/1.1 206 ") {
            return Err(failed(format!("the answer is {line:?}")));
        }
        is_first = false;
        if line.is_empty() {
            return length.ok_or_else(|| failed("the answer has no length"));
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
}

fn pass(input: &mut BufReader<Line>, length: u64) -> Result<()> {
    let mut left = length;
    while left > 0 {
        let buffered = input.fill_buf()?.len() as u64;
        if buffered == 0 {
            return Err(failed("the connection ended within an answer"));
        }
        let taken = buffered.min(left);
        // No more than the buffer holds.
        input.consume(taken as usize);
        left -= taken;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_in_order_within_the_file_and_of_the_right_length() {
        for count in [16, 128, 512] {
            let list = pieces(64 << 20, count, 3);
            assert_eq!(list.len() as u64, count);
            let lengths = PIECE_BYTES.0..=PIECE_BYTES.1;
            assert!(list.iter().all(|piece| lengths.contains(&piece.length)), "{list:?}");
            assert!(list.windows(2).all(|two| two[0].offset + two[0].length < two[1].offset));
            let last = list[list.len() - 1];
            assert!(last.offset + last.length <= 64 << 20);
            assert_eq!(list, pieces(64 << 20, count, 3));
            assert_ne!(list, pieces(64 << 20, count, 4));
        }
    }

    #[test]
    fn ranges_are_written_with_their_last_byte() {
        let list = [Piece { offset: 0, length: 5 }, Piece { offset: 10, length: 1 }];
        assert_eq!(
            range_request("/data/f", 80, &list),
            "GET /data/f HTTP/1.1\r\nHost: localhost:80\r\nRange: bytes=0-4,10-10\r\n\r\n"
        );
    }
}
