//! Extended attributes of files (`kXR_fattr`).

use types::ErrorCode;

use super::RequestHeader;
use crate::bytes::{Reader, length_i32};
use crate::error_number::ErrorNumber;
use crate::flags::AttributeOptions;
use crate::ids::FileHandle;
use crate::limits::{ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX};
use crate::path::Argument;
use crate::refusal::{Refusal, argument_missing, malformed};

/// Names of attributes.
pub type AttributeNames<'a> = Vec<&'a [u8]>;
/// Names of attributes and their values.
pub type AttributeValues<'a> = Vec<(&'a [u8], &'a [u8])>;

/// What to do with attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeAction<'a> {
    /// Remove these.
    Delete(AttributeNames<'a>),
    /// Tell the values of these.
    Get(AttributeNames<'a>),
    /// Tell which there are.
    List,
    /// Set these.
    Set(AttributeValues<'a>),
}

/// Reads, writes, lists or removes extended attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileAttributes<'a> {
    /// The open file, where the path is empty.
    pub handle: FileHandle,
    /// The path; `None` for the open file.
    pub path: Option<Argument<'a>>,
    /// How.
    pub options: AttributeOptions,
    /// What to do.
    pub action: AttributeAction<'a>,
}

impl<'a> FileAttributes<'a> {
    pub(super) fn parse(header: &RequestHeader, payload: &'a [u8]) -> Result<Self, Refusal> {
        if payload.is_empty() && header.block[4] != 2 {
            return Err(argument_missing());
        }
        let mut reader = Reader(payload);
        let path = if payload.is_empty() {
            Some(&[][..])
        } else {
            reader.until_nul()
        };
        let path = path.ok_or_else(|| malformed("the path does not end with NUL"))?;
        let count = usize::from(header.block[5]);
        let action = match header.block[4] {
            0 => AttributeAction::Delete(names(&mut reader, count)?),
            1 => AttributeAction::Get(names(&mut reader, count)?),
            2 if count > 0 => return Err(malformed("a list of attributes takes no names")),
            2 => AttributeAction::List,
            3 => AttributeAction::Set(values(&mut reader, count)?),
            _ => return Err(malformed("the action on attributes is not known")),
        };
        if !reader.is_empty() {
            return Err(malformed("there is more than the attributes"));
        }
        Ok(Self {
            handle: header.handle(0),
            path: (!path.is_empty()).then(|| Argument::new(path)),
            options: AttributeOptions::from_bits_retain(header.block[6]),
            action,
        })
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[..4].copy_from_slice(&self.handle.0);
        block[6] = self.options.bits();
        out.extend_from_slice(self.path.map_or(&[][..], |path| path.bytes()));
        out.push(0);
        let (number, count) = match &self.action {
            AttributeAction::Delete(names) => (0, fill_names(out, names.iter().copied())),
            AttributeAction::Get(names) => (1, fill_names(out, names.iter().copied())),
            AttributeAction::List => (2, 0),
            AttributeAction::Set(values) => {
                let count = fill_names(out, values.iter().map(|(name, _)| *name));
                for (_, value) in values {
                    out.extend_from_slice(&length_i32(value.len()).to_be_bytes());
                    out.extend_from_slice(value);
                }
                (3, count)
            }
        };
        block[4] = number;
        block[5] = u8::try_from(count).unwrap_or(u8::MAX);
    }
}

/// Appends names, each behind two zero bytes, and tells how many.
fn fill_names<'n>(out: &mut Vec<u8>, names: impl Iterator<Item = &'n [u8]>) -> usize {
    let mut count = 0;
    for name in names {
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(name);
        out.push(0);
        count += 1;
    }
    count
}

fn names<'a>(reader: &mut Reader<'a>, count: usize) -> Result<AttributeNames<'a>, Refusal> {
    if count == 0 {
        return Err(argument_missing());
    }
    if count > ATTRIBUTES_MAX {
        return Err(too_long("too many attributes at once"));
    }
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.u16().and_then(|_| reader.until_nul());
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| malformed("an attribute has no name"))?;
        if name.len() > ATTRIBUTE_NAME_BYTES_MAX {
            return Err(too_long("the name of an attribute is too long"));
        }
        names.push(name);
    }
    Ok(names)
}

fn values<'a>(reader: &mut Reader<'a>, count: usize) -> Result<AttributeValues<'a>, Refusal> {
    let names = names(reader, count)?;
    let mut values = Vec::with_capacity(count);
    for name in names {
        let length = reader.i32().and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or_else(|| malformed("the length of an attribute is wrong"))?;
        if length > ATTRIBUTE_VALUE_BYTES_MAX {
            return Err(too_long("the value of an attribute is too long"));
        }
        let value = reader.bytes(length);
        values.push((name, value.ok_or_else(|| malformed("an attribute has no value"))?));
    }
    Ok(values)
}

fn too_long(detail: &'static str) -> Refusal {
    Refusal::new(ErrorCode::BodyTooLarge, detail).numbered(ErrorNumber::ARGUMENT_TOO_LONG)
}
