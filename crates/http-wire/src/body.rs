//! Body framing: which of the received bytes are payload, and how chunks are written
//! (RFC 9112 §6, §7.1).
//!
//! The decoder never copies payload: it says where it lies, so that the bytes can go from the
//! receive buffer straight to where they belong.

use std::ops::Range;

use crate::limits::{CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};
use types::{Error, ErrorCode, Phase, Side};

use crate::head::Framing;
use crate::headers::{Headers, is_token};

/// What one step of [`BodyDecoder::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// How many bytes of the input are done with, from its start.
    pub consumed: usize,
    /// Which of the consumed bytes are payload; may be empty.
    pub payload: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Done,
    Length(u64),
    UntilClose,
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
}

/// Tells payload from framing, step by step.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: State,
    /// The beginning of a framing line that was cut by the end of the input.
    line: Vec<u8>,
    trailers: Headers,
    trailer_bytes: usize,
    of_response: bool,
}

impl BodyDecoder {
    /// A decoder for the body of a request: errors are the client's.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkSize,
            Framing::UntilClose => State::UntilClose,
        };
        Self {
            state,
            line: Vec::new(),
            trailers: Headers::new(),
            trailer_bytes: 0,
            of_response: false,
        }
    }

    /// A decoder for the body of an answer: errors are the peer's, whose side the caller sets.
    #[must_use]
    pub fn for_response(framing: Framing) -> Self {
        Self {
            of_response: true,
            ..Self::new(framing)
        }
    }

    /// One step over `input`: how many bytes were consumed, and which of them (one contiguous
    /// range) are payload. Call again with what is left until the decoder is done or consumes
    /// nothing; bytes behind the body's end are not consumed. No byte of a payload is looked at.
    ///
    /// # Errors
    /// `bad_request` (request) or `peer_misbehaved` (answer) for a malformed chunk: a size that is
    /// not 1 to 16 hexadecimal digits, a bare LF, a line or trailer section over its limit.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, Error> {
        let mut at = 0;
        let mut payload = 0..0;
        while at < input.len() {
            let available = (input.len() - at) as u64;
            match self.state {
                State::Done => break,
                State::UntilClose | State::Length(_) | State::ChunkData(_) if !payload.is_empty() => break,
                State::UntilClose => {
                    payload = at..input.len();
                    at = input.len();
                }
                State::Length(rest) | State::ChunkData(rest) => {
                    let taken = rest.min(available);
                    payload = at..at + taken as usize;
                    at += taken as usize;
                    self.state = match (self.state, rest - taken) {
                        (State::Length(_), 0) => State::Done,
                        (State::Length(_), left) => State::Length(left),
                        (_, 0) => State::ChunkEnd,
                        (_, left) => State::ChunkData(left),
                    };
                }
                State::ChunkSize | State::ChunkEnd | State::Trailers => at += self.take_line(&input[at..])?,
            }
        }
        Ok(Decoded { consumed: at, payload })
    }

    /// Whether the whole body has come. Never true for a body that the connection's end delimits.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Payload bytes still to come, where the framing says so in advance.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Done => Some(0),
            State::Length(rest) => Some(rest),
            _ => None,
        }
    }

    /// Payload bytes that certainly come next, without framing between them: the rest of the body
    /// or of the current chunk. 0 when framing comes next or nothing is known.
    #[must_use]
    pub fn contiguous(&self) -> u64 {
        match self.state {
            State::Length(rest) | State::ChunkData(rest) => rest,
            _ => 0,
        }
    }

    /// To be asked when the connection has ended.
    ///
    /// # Errors
    /// `body_incomplete` (request) or `peer_closed` (answer) when more should have come.
    pub fn finish_at_eof(&self) -> Result<(), Error> {
        match self.state {
            State::Done | State::UntilClose => Ok(()),
            _ if self.of_response => Err(Error::new(ErrorCode::PeerClosed, Side::Source, Phase::Transfer)),
            _ => Err(Error::new(ErrorCode::BodyIncomplete, Side::Client, Phase::Transfer)),
        }
    }

    /// The trailer fields (RFC 9112 §7.1.2); complete when the body is done. Fields that would
    /// change framing, routing or rights are not among them (RFC 9110 §6.5.1).
    #[must_use]
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }

    /// Takes framing bytes up to and including a line's end, and acts on a complete line.
    fn take_line(&mut self, input: &[u8]) -> Result<usize, Error> {
        let limit = match self.state {
            State::Trailers => TRAILER_BYTES_MAX - self.trailer_bytes,
            State::ChunkEnd => CHUNK_END.len(),
            _ => CHUNK_LINE_BYTES_MAX,
        };
        let found = memchr::memchr(b'\n', input);
        let taken = found.map_or(input.len(), |line_feed| line_feed + 1);
        if self.line.len() + taken > limit {
            return Err(self.malformed("a chunk line or trailer section is too long"));
        }
        self.line.extend_from_slice(&input[..taken]);
        if found.is_some() {
            let line = std::mem::take(&mut self.line);
            let content = line
                .strip_suffix(b"\r\n")
                .ok_or_else(|| self.malformed("a chunk line does not end in CR LF"))?;
            self.handle_line(content)?;
            // Keeps the allocation for the next line.
            self.line = line;
            self.line.clear();
        }
        Ok(taken)
    }

    fn handle_line(&mut self, line: &[u8]) -> Result<(), Error> {
        if line.contains(&b'\r') {
            return Err(self.malformed("a CR inside a chunk line"));
        }
        self.state = match self.state {
            State::ChunkSize => match chunk_size(line) {
                Some(0) => State::Trailers,
                Some(size) => State::ChunkData(size),
                None => return Err(self.malformed("a malformed chunk size")),
            },
            State::ChunkEnd if line.is_empty() => State::ChunkSize,
            State::ChunkEnd => return Err(self.malformed("a chunk is longer than its size")),
            State::Trailers if line.is_empty() => State::Done,
            State::Trailers => {
                self.trailer_bytes += line.len() + 2;
                self.keep_trailer(line)?;
                State::Trailers
            }
            state => state,
        };
        Ok(())
    }

    fn keep_trailer(&mut self, line: &[u8]) -> Result<(), Error> {
        let text = String::from_utf8_lossy(line);
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| self.malformed("a malformed trailer field"))?;
        if !is_token(name) {
            return Err(self.malformed("a malformed trailer name"));
        }
        if !FORBIDDEN_TRAILERS
            .iter()
            .any(|forbidden| forbidden.eq_ignore_ascii_case(name))
        {
            self.trailers.append(name, value);
        }
        Ok(())
    }

    fn malformed(&self, detail: &str) -> Error {
        let (code, side) = if self.of_response {
            (ErrorCode::PeerMisbehaved, Side::Source)
        } else {
            (ErrorCode::BadRequest, Side::Client)
        };
        Error::new(code, side, Phase::Transfer).with_detail(detail)
    }
}

/// Fields that a trailer may not carry: message framing, routing, authentication, request
/// modifiers and content format (RFC 9110 §6.5.1).
const FORBIDDEN_TRAILERS: &[&str] = &[
    "Authorization",
    "Cache-Control",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Expect",
    "Host",
    "If-Match",
    "If-None-Match",
    "If-Range",
    "Keep-Alive",
    "Location",
    "Max-Forwards",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Range",
    "Set-Cookie",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "WWW-Authenticate",
];

/// The size in front of the extensions, which mean nothing here (RFC 9112 §7.1.1).
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let rest = line[digits..].trim_ascii_start();
    if !(1..=16).contains(&digits) || !(rest.is_empty() || rest[0] == b';') {
        return None;
    }
    let blank_then_nothing = rest.is_empty() && digits != line.len();
    if blank_then_nothing || rest.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()
}

/// What stands behind the payload of every chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// What ends a chunked body that has no trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The line in front of a chunk's payload, kept without allocation.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHead {
    bytes: [u8; 18],
    start: u8,
}

impl ChunkHead {
    /// The bytes to send.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

impl AsRef<[u8]> for ChunkHead {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// The line in front of a chunk of `length` bytes. A length of 0 would end the body: send no chunk.
#[must_use]
pub fn chunk_head(length: usize) -> ChunkHead {
    let mut head = ChunkHead {
        bytes: [0; 18],
        start: 16,
    };
    head.bytes[16..].copy_from_slice(CHUNK_END);
    let mut rest = length as u64;
    loop {
        head.start -= 1;
        head.bytes[usize::from(head.start)] = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            return head;
        }
    }
}

/// What ends a chunked body, with trailer fields (RFC 9112 §7.1.2).
#[must_use]
pub fn last_chunk_with_trailers(trailers: &Headers) -> Vec<u8> {
    let mut out = String::from("0\r\n");
    for (name, value) in trailers.iter() {
        out.push_str(name);
        out.push_str(": ");
        out.push_str(value);
        out.push_str("\r\n");
    }
    out.push_str("\r\n");
    out.into_bytes()
}
