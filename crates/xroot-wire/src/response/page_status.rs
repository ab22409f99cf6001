//! The answer to page reads and writes (`kXR_status`): it has a checksum of its own, and data
//! behind it.

use types::Error;

use crate::bytes::Reader;
use crate::codes::{Opcode, Status};
use crate::ids::StreamId;
use crate::limits::{BAD_PAGES_MAX, STATUS_HEAD_BYTES};
use crate::pages::checksum;
use crate::refusal::misbehaved;
use crate::response::ResponseHeader;

/// Bytes of the body that the header announces: checksum, common part, file offset.
const BODY_BYTES: usize = STATUS_HEAD_BYTES - crate::limits::RESPONSE_HEADER_BYTES;

/// Whether more follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStatusKind {
    /// The last part.
    Final,
    /// A part; more follow.
    Partial,
    /// A sign of life without data.
    Progress,
}

/// The head of an answer to a page read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStatus {
    /// The request that it answers.
    pub stream: StreamId,
    /// [`Opcode::PageRead`] or [`Opcode::PageWrite`].
    pub opcode: Opcode,
    /// Whether more follows.
    pub kind: PageStatusKind,
    /// Where the data of a read begin in the file; for a write, the offset of the request.
    pub offset: u64,
    /// Bytes behind the head: units for a read, [`BadPages`] for a write.
    pub data_bytes: usize,
}

impl PageStatus {
    /// The head of a part of a page read's answer; `encoded_bytes` are those of data and checksums.
    #[must_use]
    pub fn page_read(stream: StreamId, kind: PageStatusKind, offset: u64, encoded_bytes: usize) -> Self {
        Self {
            stream,
            opcode: Opcode::PageRead,
            kind,
            offset,
            data_bytes: encoded_bytes,
        }
    }

    /// The whole answer to a page write: `bad_pages` lists what arrived damaged, if anything did.
    #[must_use]
    pub fn page_write(stream: StreamId, offset: u64, bad_pages: Option<&BadPages>) -> Vec<u8> {
        let list = bad_pages.map(BadPages::encode).unwrap_or_default();
        let head = Self {
            stream,
            opcode: Opcode::PageWrite,
            kind: PageStatusKind::Final,
            offset,
            data_bytes: list.len(),
        };
        let mut bytes = head.encode().to_vec();
        bytes.extend_from_slice(&list);
        bytes
    }

    /// The bytes of the head.
    #[must_use]
    pub fn encode(&self) -> [u8; STATUS_HEAD_BYTES] {
        let mut bytes = [0; STATUS_HEAD_BYTES];
        let header = ResponseHeader::new(self.stream, Status::Pages, BODY_BYTES);
        bytes[..8].copy_from_slice(&header.encode());
        bytes[12..14].copy_from_slice(&self.stream.0);
        // Opcodes begin at 3000, and there are far fewer than 256.
        bytes[14] = (self.opcode.number() - 3000) as u8;
        bytes[15] = match self.kind {
            PageStatusKind::Final => 0,
            PageStatusKind::Partial => 1,
            PageStatusKind::Progress => 2,
        };
        bytes[20..24].copy_from_slice(&crate::bytes::length_i32(self.data_bytes).to_be_bytes());
        bytes[24..].copy_from_slice(&self.offset.to_be_bytes());
        let sum = checksum(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Reads the body that the header announces.
    pub(crate) fn parse(header: &ResponseHeader, body: &[u8]) -> Result<Self, Error> {
        let short = || misbehaved("a page answer is too short");
        let mut reader = Reader(body);
        let sum = reader.u32().ok_or_else(short)?;
        if checksum(reader.0) != sum {
            return Err(misbehaved("the checksum of a page answer is wrong"));
        }
        let stream = StreamId(reader.array().ok_or_else(short)?);
        if stream != header.stream {
            return Err(misbehaved("a page answer is for two requests"));
        }
        let opcode = match reader.u8().ok_or_else(short)? {
            30 => Opcode::PageRead,
            26 => Opcode::PageWrite,
            _ => return Err(misbehaved("a page answer is for another request")),
        };
        let kind = match reader.u8().ok_or_else(short)? {
            0 => PageStatusKind::Final,
            1 => PageStatusKind::Partial,
            2 => PageStatusKind::Progress,
            _ => return Err(misbehaved("the kind of a page answer is not known")),
        };
        let _reserved = reader.u32().ok_or_else(short)?;
        let data = reader.i32().and_then(|bytes| usize::try_from(bytes).ok());
        let data_bytes = data.ok_or_else(|| misbehaved("the length of a page answer is wrong"))?;
        let offset = reader.i64().and_then(|offset| u64::try_from(offset).ok());
        let offset = offset.ok_or_else(|| misbehaved("a page answer has no offset"))?;
        Ok(Self {
            stream,
            opcode,
            kind,
            offset,
            data_bytes,
        })
    }
}

/// The pages of a write that arrived damaged. They were written all the same; the client sends each
/// again, alone and marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPages {
    /// Data length of the first of them, in bytes.
    pub first_bytes: u16,
    /// Data length of the last of them, in bytes.
    pub last_bytes: u16,
    /// File offsets at which they begin; at most [`BAD_PAGES_MAX`].
    pub offsets: Vec<u64>,
}

impl BadPages {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&self.first_bytes.to_be_bytes());
        bytes.extend_from_slice(&self.last_bytes.to_be_bytes());
        for offset in &self.offsets {
            bytes.extend_from_slice(&offset.to_be_bytes());
        }
        let sum = checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Reads the list behind the head of a page write's answer; `None` when it is empty: nothing
    /// was damaged.
    ///
    /// # Errors
    /// `peer_misbehaved` when its checksum is wrong, or it does not consist of whole offsets.
    pub fn parse(data: &[u8]) -> Result<Option<Self>, Error> {
        if data.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader(data);
        let sum = reader
            .u32()
            .ok_or_else(|| misbehaved("the list of damaged pages is too short"))?;
        if checksum(reader.0) != sum {
            return Err(misbehaved("the checksum of the list of damaged pages is wrong"));
        }
        let lengths = reader.u16().zip(reader.u16());
        let (first_bytes, last_bytes) = lengths.ok_or_else(|| misbehaved("the list of damaged pages is too short"))?;
        let (offsets, rest) = reader.0.as_chunks::<8>();
        if !rest.is_empty() || offsets.is_empty() || offsets.len() > BAD_PAGES_MAX {
            return Err(misbehaved("the list of damaged pages has a wrong length"));
        }
        let offsets = offsets.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect();
        Ok(Some(Self {
            first_bytes,
            last_bytes,
            offsets,
        }))
    }
}
