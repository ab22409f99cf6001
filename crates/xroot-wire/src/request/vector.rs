//! Requests with lists of ranges.

use types::ErrorCode;

use super::{Request, RequestHeader};
use crate::bytes::Reader;
use crate::codes::Opcode;
use crate::error_number::ErrorNumber;
use crate::ids::FileHandle;
use crate::limits::{
    CLONE_ITEM_BYTES, CLONE_ITEMS_MAX, READV_ITEM_BYTES_MAX, READV_ITEMS_MAX, VECTOR_ITEM_BYTES, WRITEV_ITEMS_MAX,
};
use crate::refusal::{Refusal, argument_missing, malformed};

/// A range of an open file in a vector; the answer to a vector read has the same sixteen bytes in
/// front of each range's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorItem {
    /// The open file.
    pub handle: FileHandle,
    /// Bytes of the range.
    pub length: u32,
    /// Where it begins.
    pub offset: u64,
}

impl VectorItem {
    /// Reads an item; `None` when its length or offset is negative.
    #[must_use]
    pub fn parse(bytes: &[u8; VECTOR_ITEM_BYTES]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(Self {
            handle: FileHandle(reader.array()?),
            length: u32::try_from(reader.i32()?).ok()?,
            offset: u64::try_from(reader.i64()?).ok()?,
        })
    }

    /// The bytes of the item.
    #[must_use]
    pub fn encode(&self) -> [u8; VECTOR_ITEM_BYTES] {
        let mut bytes = [0; VECTOR_ITEM_BYTES];
        bytes[..4].copy_from_slice(&self.handle.0);
        bytes[4..8].copy_from_slice(&self.length.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }
}

/// A list whose bytes were checked: whole items, none negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Items<'a>(&'a [u8]);

impl<'a> Items<'a> {
    fn iter(self) -> impl Iterator<Item = VectorItem> + use<'a> {
        self.0
            .as_chunks::<VECTOR_ITEM_BYTES>()
            .0
            .iter()
            .filter_map(VectorItem::parse)
    }

    fn len(self) -> usize {
        self.0.len() / VECTOR_ITEM_BYTES
    }

    fn check(list: &'a [u8], items_max: usize) -> Result<Self, Refusal> {
        if list.is_empty() {
            return Err(argument_missing());
        }
        let (items, rest) = list.as_chunks::<VECTOR_ITEM_BYTES>();
        if !rest.is_empty() {
            return Err(malformed("the vector does not consist of whole items"));
        }
        if items.len() > items_max {
            return Err(Refusal::new(ErrorCode::BodyTooLarge, "the vector has too many items")
                .numbered(ErrorNumber::ARGUMENT_TOO_LONG));
        }
        if items.iter().any(|item| VectorItem::parse(item).is_none()) {
            return Err(malformed("a length or offset in the vector is negative"));
        }
        Ok(Self(list))
    }
}

/// Reads many ranges (`kXR_readv`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadVector<'a> {
    /// The stream to answer on; servers ignore it and use the session's own.
    pub path: u8,
    items: Items<'a>,
}

impl<'a> ReadVector<'a> {
    /// A request for the items that [`VectorItem::encode`] wrote into `list`.
    ///
    /// # Errors
    /// Like those of parsing: no items, too many, too large ones.
    pub fn new(path: u8, list: &'a [u8]) -> Result<Self, Refusal> {
        let items = Items::check(list, READV_ITEMS_MAX)?;
        if items.iter().any(|item| item.length as usize > READV_ITEM_BYTES_MAX) {
            return Err(
                Refusal::new(ErrorCode::BodyTooLarge, "an item of the vector is too large")
                    .numbered(ErrorNumber::NO_MEMORY),
            );
        }
        Ok(Self { path, items })
    }

    /// The ranges in order.
    pub fn items(&self) -> impl Iterator<Item = VectorItem> + use<'a> {
        self.items.iter()
    }

    /// How many ranges there are; at least one, at most [`READV_ITEMS_MAX`].
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Bytes of the whole answer's body: heads and data.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        self.items()
            .map(|item| VECTOR_ITEM_BYTES as u64 + u64::from(item.length))
            .sum()
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[15] = self.path;
        out.extend_from_slice(self.items.0);
    }
}

/// Writes many ranges (`kXR_writev`); the data of all follow in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteVector<'a> {
    /// 1 = make them durable.
    pub options: u8,
    items: Items<'a>,
}

impl<'a> WriteVector<'a> {
    /// A request for the items that [`VectorItem::encode`] wrote into `list`.
    ///
    /// # Errors
    /// Like those of parsing: no items, too many. They close the connection, because the amount of
    /// data behind is unknown.
    pub fn new(options: u8, list: &'a [u8]) -> Result<Self, Refusal> {
        let items = Items::check(list, WRITEV_ITEMS_MAX).map_err(Refusal::closing)?;
        Ok(Self { options, items })
    }

    /// Whether the files are to be made durable afterwards.
    #[must_use]
    pub fn syncs(&self) -> bool {
        self.options & 1 != 0
    }

    /// The ranges in order.
    pub fn items(&self) -> impl Iterator<Item = VectorItem> + use<'a> {
        self.items.iter()
    }

    /// How many ranges there are.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Bytes of data that follow.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.items().map(|item| u64::from(item.length)).sum()
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[0] = self.options;
        out.extend_from_slice(self.items.0);
    }
}

/// A range to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneItem {
    /// The open file that it is in.
    pub source: FileHandle,
    /// Where it begins there.
    pub source_offset: u64,
    /// Its length.
    pub length: u64,
    /// Where it is to appear in the destination.
    pub destination_offset: u64,
}

impl CloneItem {
    fn parse(bytes: &[u8; CLONE_ITEM_BYTES]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let source = FileHandle(reader.array()?);
        let _reserved = reader.u32()?;
        let mut number = || reader.i64().and_then(|value| u64::try_from(value).ok());
        Some(Self {
            source,
            source_offset: number()?,
            length: number()?,
            destination_offset: number()?,
        })
    }
}

/// Shares ranges of files by reference (`kXR_clone`, since version 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneRanges<'a> {
    /// The open file that gets them.
    pub destination: FileHandle,
    list: &'a [u8],
}

impl<'a> CloneRanges<'a> {
    /// The ranges in order.
    pub fn items(&self) -> impl Iterator<Item = CloneItem> + use<'a> {
        self.list
            .as_chunks::<CLONE_ITEM_BYTES>()
            .0
            .iter()
            .filter_map(CloneItem::parse)
    }

    fn parse(header: &RequestHeader, list: &'a [u8]) -> Result<Self, Refusal> {
        if list.is_empty() {
            return Err(argument_missing());
        }
        let (items, rest) = list.as_chunks::<CLONE_ITEM_BYTES>();
        if items.len() > CLONE_ITEMS_MAX {
            return Err(Refusal::new(ErrorCode::BodyTooLarge, "the list has too many items")
                .numbered(ErrorNumber::ARGUMENT_TOO_LONG));
        }
        if !rest.is_empty() || items.iter().any(|item| CloneItem::parse(item).is_none()) {
            return Err(malformed("the list of ranges is malformed"));
        }
        Ok(Self {
            destination: header.handle(0),
            list,
        })
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[..4].copy_from_slice(&self.destination.0);
        out.extend_from_slice(self.list);
    }
}

/// Reads one of the requests of this file.
pub(super) fn parse<'a>(opcode: Opcode, header: &RequestHeader, payload: &'a [u8]) -> Result<Request<'a>, Refusal> {
    match opcode {
        Opcode::ReadVector => ReadVector::new(header.block[15], payload).map(Request::ReadVector),
        Opcode::WriteVector => WriteVector::new(header.block[0], payload).map(Request::WriteVector),
        _ => CloneRanges::parse(header, payload).map(Request::Clone),
    }
}
