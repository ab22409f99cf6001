//! Answers about extended attributes.

use types::Error;

use crate::bytes::{Reader, length_i32};
use crate::error_number::ErrorNumber;
use crate::limits::{ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX};
use crate::refusal::misbehaved;

/// What became of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeStatus {
    /// Its name.
    pub name: Vec<u8>,
    /// Why it failed; `None` = it did not.
    pub error: Option<ErrorNumber>,
}

/// What became of one attribute that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeEntry {
    /// Its name and whether it failed.
    pub status: AttributeStatus,
    /// Its value; empty when it failed.
    pub value: Vec<u8>,
}

/// The answer to setting, removing or reading attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeAnswer {
    /// What became of each that was set or removed.
    Changed(Vec<AttributeStatus>),
    /// What became of each that was asked for.
    Values(Vec<AttributeEntry>),
}

impl AttributeAnswer {
    /// The body.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let statuses: Vec<&AttributeStatus> = match self {
            Self::Changed(statuses) => statuses.iter().collect(),
            Self::Values(entries) => entries.iter().map(|entry| &entry.status).collect(),
        };
        let failed = statuses.iter().filter(|status| status.error.is_some()).count();
        // Never more than `ATTRIBUTES_MAX`, as in the request.
        let mut body = vec![failed as u8, statuses.len() as u8];
        for status in statuses {
            let number = status
                .error
                .map_or(0, |number| u16::try_from(number.0).unwrap_or(u16::MAX));
            body.extend_from_slice(&number.to_be_bytes());
            body.extend_from_slice(&status.name);
            body.push(0);
        }
        if let Self::Values(entries) = self {
            for entry in entries {
                body.extend_from_slice(&length_i32(entry.value.len()).to_be_bytes());
                body.extend_from_slice(&entry.value);
            }
        }
        body
    }

    /// Reads the answer to setting or removing.
    ///
    /// # Errors
    /// `peer_misbehaved` when it is cut off or has more than was asked for.
    pub fn parse_changed(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let statuses = statuses(&mut reader)?;
        if !reader.is_empty() {
            return Err(misbehaved("the answer about attributes is too long"));
        }
        Ok(Self::Changed(statuses))
    }

    /// Reads the answer to reading.
    ///
    /// # Errors
    /// `peer_misbehaved` when it is cut off or has more than was asked for.
    pub fn parse_values(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut entries = Vec::new();
        for status in statuses(&mut reader)? {
            let value = value(&mut reader)?;
            entries.push(AttributeEntry { status, value });
        }
        if !reader.is_empty() {
            return Err(misbehaved("the answer about attributes is too long"));
        }
        Ok(Self::Values(entries))
    }
}

fn statuses(reader: &mut Reader<'_>) -> Result<Vec<AttributeStatus>, Error> {
    let cut = || misbehaved("the answer about attributes is cut off");
    let (_failed, count) = reader.u8().zip(reader.u8()).ok_or_else(cut)?;
    if usize::from(count) > ATTRIBUTES_MAX {
        return Err(misbehaved("the answer about attributes has too many of them"));
    }
    let mut statuses = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let number = reader.u16().ok_or_else(cut)?;
        let name = reader.until_nul().ok_or_else(cut)?;
        statuses.push(AttributeStatus {
            name: name.to_vec(),
            error: (number != 0).then_some(ErrorNumber(u32::from(number))),
        });
    }
    Ok(statuses)
}

fn value(reader: &mut Reader<'_>) -> Result<Vec<u8>, Error> {
    let cut = || misbehaved("the value of an attribute is cut off");
    let length = reader
        .i32()
        .and_then(|length| usize::try_from(length).ok())
        .ok_or_else(cut)?;
    if length > ATTRIBUTE_VALUE_BYTES_MAX {
        return Err(misbehaved("the value of an attribute is too long"));
    }
    Ok(reader.bytes(length).ok_or_else(cut)?.to_vec())
}

/// The attributes that a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeList {
    /// Their names.
    Names(Vec<Vec<u8>>),
    /// Their names and values.
    Values(Vec<(Vec<u8>, Vec<u8>)>),
}

impl AttributeList {
    /// The body. It must be sent whole: clients read only the last part of a divided one.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::Names(names) => {
                for name in names {
                    body.extend_from_slice(name);
                    body.push(0);
                }
            }
            Self::Values(values) => {
                for (name, value) in values {
                    body.extend_from_slice(name);
                    body.push(0);
                    body.extend_from_slice(&length_i32(value.len()).to_be_bytes());
                    body.extend_from_slice(value);
                }
            }
        }
        body
    }

    /// Reads the body, with values if those were asked for.
    ///
    /// # Errors
    /// `peer_misbehaved` when it is cut off.
    pub fn parse(body: &[u8], with_values: bool) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut names = Vec::new();
        let mut values = Vec::new();
        while !reader.is_empty() {
            let name = reader.until_nul();
            let name = name
                .ok_or_else(|| misbehaved("the list of attributes is cut off"))?
                .to_vec();
            if with_values {
                values.push((name, value(&mut reader)?));
            } else {
                names.push(name);
            }
        }
        Ok(if with_values {
            Self::Values(values)
        } else {
            Self::Names(names)
        })
    }
}
