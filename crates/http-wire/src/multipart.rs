//! Reading a `multipart/byteranges` body (RFC 9110 §14.6): which bytes of the file each piece of it
//! holds.
//!
//! The length of a part is in its `Content-Range`, so its bytes are counted off and never searched
//! for the boundary.

use crate::limits::{MULTIPART_LINE_BYTES_MAX, MULTIPART_LINES_MAX};
use types::{ByteRange, Error};

use crate::fault::misbehaved;
use crate::names::CONTENT_RANGE;
use crate::range::ContentRange;

/// What a piece of the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultipartPiece<'a> {
    /// A part begins, with these bytes of the file.
    Part(ByteRange),
    /// The next bytes of the part.
    Data(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In front of a boundary: what stands there before the first one has no meaning (RFC 2046
    /// §5.1.1).
    Between,
    /// In the header lines of a part.
    Head(Option<ContentRange>),
    /// In a part; this many bytes of it are still to come.
    Data(u64),
    /// Behind the last boundary, where nothing has a meaning.
    Done,
}

/// Tells the parts of a body from what stands around them, step by step.
#[derive(Clone, Debug)]
pub struct MultipartDecoder {
    delimiter: Vec<u8>,
    state: State,
    /// The beginning of a line that was cut by the end of the input.
    line: Vec<u8>,
    /// Lines since the last byte of a part.
    lines: usize,
}

impl MultipartDecoder {
    /// A decoder at the start of a body whose parts are divided by `boundary`, as
    /// [`ResponseHead::multipart_boundary`](crate::ResponseHead::multipart_boundary) tells it.
    #[must_use]
    pub fn new(boundary: &str) -> Self {
        Self {
            delimiter: format!("--{boundary}").into_bytes(),
            state: State::Between,
            line: Vec::new(),
            lines: 0,
        }
    }

    /// The next piece, taken off the front of `input`; `None` when all of it has been taken.
    ///
    /// # Errors
    /// `peer_misbehaved` for a part that does not say which bytes it holds, something else than a
    /// boundary behind a part, and lines that are too long ([`MULTIPART_LINE_BYTES_MAX`]) or too
    /// many ([`MULTIPART_LINES_MAX`]).
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<MultipartPiece<'a>>, Error> {
        while !input.is_empty() {
            match self.state {
                State::Done => *input = &[],
                State::Data(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    let (data, rest) = input.split_at(taken);
                    *input = rest;
                    self.state = match left - taken as u64 {
                        0 => State::Between,
                        left => State::Data(left),
                    };
                    return Ok(Some(MultipartPiece::Data(data)));
                }
                State::Between | State::Head(_) => {
                    if self.take_line(input)?
                        && let Some(range) = self.end_line()?
                    {
                        return Ok(Some(MultipartPiece::Part(range)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Whether the last boundary has come, behind which there are no parts.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Moves bytes from the input to the line; returns whether it is whole.
    fn take_line(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        let end = memchr::memchr(b'\n', input);
        let (piece, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        if self.line.len() + piece.len() > MULTIPART_LINE_BYTES_MAX {
            return Err(misbehaved("a line between the parts of the answer is too long"));
        }
        self.line.extend_from_slice(piece);
        *input = rest;
        Ok(end.is_some())
    }

    /// Understands the line; returns what part begins behind it.
    fn end_line(&mut self) -> Result<Option<ByteRange>, Error> {
        self.lines += 1;
        if self.lines > MULTIPART_LINES_MAX {
            return Err(misbehaved("too many lines between the parts of the answer"));
        }
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii_end();
        match self.state {
            State::Between => match line.strip_prefix(self.delimiter.as_slice()) {
                Some(b"") => self.state = State::Head(None),
                Some(b"--") => self.state = State::Done,
                _ => {}
            },
            State::Head(Some(part)) if line.is_empty() => return self.begin_part(part).map(Some),
            State::Head(None) if line.is_empty() => {
                return Err(misbehaved("a part of the answer does not say which bytes it holds"));
            }
            State::Head(_) => {
                if let Some(part) = content_range(line) {
                    self.state = State::Head(Some(part));
                }
            }
            State::Data(_) | State::Done => {}
        }
        Ok(None)
    }

    fn begin_part(&mut self, part: ContentRange) -> Result<ByteRange, Error> {
        let Some(range) = part.range else {
            return Err(misbehaved("a part of the answer holds no bytes"));
        };
        self.lines = 0;
        self.state = State::Data(range.len());
        Ok(range)
    }
}

/// What a header line says when it is the one that counts.
fn content_range(line: &[u8]) -> Option<ContentRange> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    let is_it = name.trim().eq_ignore_ascii_case(CONTENT_RANGE);
    ContentRange::parse(value).filter(|_| is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Multipart;

    type Part = (ByteRange, Vec<u8>);

    /// The parts of a body that comes in pieces of this size.
    fn decoded(body: &[u8], piece_bytes: usize) -> Result<(Vec<Part>, bool), Error> {
        let mut decoder = MultipartDecoder::new("xyz");
        let mut parts: Vec<Part> = Vec::new();
        for mut piece in body.chunks(piece_bytes) {
            while let Some(found) = decoder.next(&mut piece)? {
                match found {
                    MultipartPiece::Part(range) => parts.push((range, Vec::new())),
                    MultipartPiece::Data(data) => parts.last_mut().unwrap().1.extend_from_slice(data),
                }
            }
            assert!(piece.is_empty());
        }
        Ok((parts, decoder.is_done()))
    }

    #[test]
    fn what_we_send_is_read_however_it_is_cut() {
        let multipart = Multipart::new("xyz", 1000);
        let ranges = [ByteRange::new(3, 9), ByteRange::new(500, 531)];
        let mut body = Vec::new();
        let mut expected = Vec::new();
        for range in ranges {
            // Content that looks like what stands around it.
            let mut data = b"\r\n--xyz--\r\n--xyz\r\n\r\n\r\nContent-Range".to_vec();
            data.truncate(range.len() as usize);
            body.extend(multipart.part_head(range).into_bytes());
            body.extend(&data);
            expected.push((range, data));
        }
        body.extend(multipart.end().into_bytes());
        for piece_bytes in [1, 2, 7, body.len()] {
            assert_eq!(decoded(&body, piece_bytes).unwrap(), (expected.clone(), true));
        }
        let (parts, is_done) = decoded(&body[..body.len() - 5], 4).unwrap();
        assert_eq!((parts.len(), is_done), (2, false), "the end is missing");
    }

    #[test]
    fn the_layouts_of_others_are_read() {
        let body = b"a preamble\r\n--xyz \ncontent-range:bytes 1-2/*\nX-Other: y\n\nAB\n--xyz--\nan epilogue";
        let expected = vec![(ByteRange::new(1, 3), b"AB".to_vec())];
        assert_eq!(decoded(body, 5).unwrap(), (expected, true));
    }

    #[test]
    fn parts_that_cannot_be_placed_are_refused() {
        let long = format!("--xyz\r\nX: {}", "y".repeat(MULTIPART_LINE_BYTES_MAX));
        let many = "\r\n".repeat(MULTIPART_LINES_MAX + 1);
        for body in [
            "--xyz\r\nContent-Type: text/plain\r\n\r\nAB\r\n--xyz--\r\n",
            "--xyz\r\nContent-Range: bytes */10\r\n\r\n",
            &long,
            &many,
        ] {
            assert!(decoded(body.as_bytes(), 16).is_err(), "{body}");
        }
    }
}
