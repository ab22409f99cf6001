//! The 24 bytes in front of every request, and what follows them.

use types::{ErrorCode, LogicalPath};

use crate::bytes::field;
use crate::codes::Opcode;
use crate::ids::{FileHandle, StreamId};
use crate::limits::{
    ATTRIBUTES_PAYLOAD_BYTES_MAX, LIST_PAYLOAD_BYTES_MAX, PAGE_CHECKSUM_BYTES, PATH_PAYLOAD_BYTES_MAX,
    REQUEST_HEADER_BYTES,
};
use crate::path::Argument;
use crate::refusal::{Refusal, malformed};

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// To be echoed in each answer.
    pub stream: StreamId,
    /// The number of what is asked; see [`Opcode`].
    pub opcode: u16,
    /// The parameters; their meaning depends on the opcode.
    pub block: [u8; 16],
    /// Bytes that follow, as announced; may be negative, which is an error.
    pub length: i32,
}

/// What follows a request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// So many bytes that belong to the request and are to be handed to
    /// [`Request::parse`](super::Request::parse).
    Buffered(usize),
    /// So many bytes of file data; the request is parsed with an empty payload.
    Streamed(usize),
    /// A list of so many bytes that is to be handed to the parser, then the data that the list
    /// describes.
    ListThenData(usize),
    /// An embedded header of so many bytes to be handed to the parser, then the payload of that
    /// one.
    Embedded(usize),
}

impl Payload {
    /// Bytes to have in memory before the request is parsed.
    #[must_use]
    pub fn buffered_bytes(self) -> usize {
        match self {
            Self::Buffered(bytes) | Self::ListThenData(bytes) | Self::Embedded(bytes) => bytes,
            Self::Streamed(_) => 0,
        }
    }
}

impl RequestHeader {
    /// Reads a header. Any bytes are one.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_HEADER_BYTES]) -> Self {
        let mut block = [0; 16];
        block.copy_from_slice(&bytes[4..20]);
        Self {
            stream: StreamId([bytes[0], bytes[1]]),
            opcode: u16::from_be_bytes([bytes[2], bytes[3]]),
            block,
            length: i32::from_be_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]),
        }
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.stream.0);
        bytes[2..4].copy_from_slice(&self.opcode.to_be_bytes());
        bytes[4..20].copy_from_slice(&self.block);
        bytes[20..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// What is asked; `None` for a number without a meaning.
    #[must_use]
    pub fn known_opcode(&self) -> Option<Opcode> {
        Opcode::from_number(self.opcode)
    }

    /// The open file that a request is about which changes one; `None` for other requests, and for
    /// a vector write, whose list names the files.
    #[must_use]
    pub fn changed_file(&self) -> Option<FileHandle> {
        match self.known_opcode()? {
            Opcode::Write | Opcode::PageWrite | Opcode::Truncate | Opcode::Checkpoint | Opcode::Clone => {
                Some(self.handle(0))
            }
            _ => None,
        }
    }

    /// The file that a request changes by its name, if its payload names one.
    #[must_use]
    pub fn changed_path(&self, payload: &[u8]) -> Option<LogicalPath> {
        match self.known_opcode()? {
            Opcode::Truncate if !payload.is_empty() => Argument::new(payload).path().ok().map(|named| named.path),
            _ => None,
        }
    }

    /// What follows the header.
    ///
    /// # Errors
    /// A refusal that closes the connection, for a negative length and for a payload that is too
    /// large to be gathered: it stays unread, so that the rest of the connection cannot be parsed.
    pub fn payload(&self) -> Result<Payload, Refusal> {
        let Ok(length) = usize::try_from(self.length) else {
            return Err(malformed("the announced length is negative").closing());
        };
        let opcode = self.known_opcode();
        let (payload, bytes_max) = match opcode {
            Some(Opcode::Write) => return Ok(Payload::Streamed(length)),
            Some(Opcode::PageWrite) if length <= PAGE_CHECKSUM_BYTES => {
                return Err(malformed("a page write needs a checksum and data").closing());
            }
            Some(Opcode::PageWrite) => return Ok(Payload::Streamed(length)),
            Some(Opcode::WriteVector) => (Payload::ListThenData(length), PATH_PAYLOAD_BYTES_MAX),
            Some(Opcode::Checkpoint) if length == REQUEST_HEADER_BYTES => return Ok(Payload::Embedded(length)),
            Some(Opcode::FileAttributes) => (Payload::Buffered(length), ATTRIBUTES_PAYLOAD_BYTES_MAX),
            Some(Opcode::Prepare | Opcode::StatMany) => (Payload::Buffered(length), LIST_PAYLOAD_BYTES_MAX),
            _ => (Payload::Buffered(length), PATH_PAYLOAD_BYTES_MAX),
        };
        if length > bytes_max {
            return Err(Refusal::new(ErrorCode::BodyTooLarge, "the payload is too long")
                .closing()
                .numbered(crate::ErrorNumber::ARGUMENT_TOO_LONG));
        }
        Ok(payload)
    }

    /// The stream that the payload comes on: not the one of the request where a client writes
    /// through a further stream of its session. 0 for the session's own.
    #[must_use]
    pub fn payload_path(&self) -> u8 {
        match self.known_opcode() {
            Some(Opcode::Write | Opcode::PageWrite) => self.block[12],
            _ => 0,
        }
    }

    pub(crate) fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        field(&self.block, at)
    }

    pub(crate) fn handle(&self, at: usize) -> FileHandle {
        FileHandle(self.field(at))
    }

    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.field(at))
    }

    pub(crate) fn i32(&self, at: usize) -> i32 {
        i32::from_be_bytes(self.field(at))
    }

    pub(crate) fn i64(&self, at: usize) -> i64 {
        i64::from_be_bytes(self.field(at))
    }
}
