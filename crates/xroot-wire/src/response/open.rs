//! The answer to an open.

use types::Error;

use crate::bytes::Reader;
use crate::ids::FileHandle;
use crate::refusal::misbehaved;
use crate::response::StatText;

/// An opened file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReply {
    /// What names the file from now on.
    pub handle: FileHandle,
    /// What it is, if that was asked for.
    pub stat: Option<StatText>,
}

impl OpenReply {
    /// The body. Before a stat text stand eight unused bytes about compression.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.handle.0.to_vec();
        if let Some(stat) = &self.stat {
            body.extend_from_slice(&[0; 8]);
            stat.write(&mut body);
            body.push(0);
        }
        body
    }

    /// Reads the body.
    ///
    /// # Errors
    /// `peer_misbehaved` when it is too short, its stat text cannot be understood, or it says that
    /// the file is compressed.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let handle = reader
            .array()
            .ok_or_else(|| misbehaved("the answer to an open is too short"))?;
        if reader.is_empty() {
            return Ok(Self {
                handle: FileHandle(handle),
                stat: None,
            });
        }
        let compression = reader.i32().zip(reader.array::<4>());
        match compression {
            Some((0, _)) => {}
            Some(_) => return Err(misbehaved("the file is compressed")),
            None => return Err(misbehaved("the answer to an open is cut off")),
        }
        let stat = (!reader.is_empty()).then(|| StatText::parse(reader.0)).transpose()?;
        Ok(Self {
            handle: FileHandle(handle),
            stat,
        })
    }
}
