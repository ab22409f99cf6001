//! The answer to a vector read: for each range, its sixteen bytes again and its data.

use types::Error;

use crate::limits::VECTOR_ITEM_BYTES;
use crate::refusal::misbehaved;
use crate::request::VectorItem;

/// What comes next in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorPiece<'a> {
    /// The head of the range with this number in the request.
    Head {
        /// Its number, from 0.
        number: usize,
        /// The head.
        item: VectorItem,
    },
    /// Data of the range whose head came last.
    Data(&'a [u8]),
}

/// Takes the answer apart while it passes in pieces of any size, across the parts that it is sent
/// in.
#[derive(Clone, Debug)]
pub struct ReadVectorDecoder {
    head: [u8; VECTOR_ITEM_BYTES],
    have: usize,
    /// Data that are still to come of the current range.
    missing: usize,
    number: usize,
}

impl Default for ReadVectorDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadVectorDecoder {
    /// At the beginning of an answer.
    #[must_use]
    pub fn new() -> Self {
        Self {
            head: [0; VECTOR_ITEM_BYTES],
            have: 0,
            missing: 0,
            number: 0,
        }
    }

    /// Takes what comes next from the front of `input`, which shrinks accordingly. `None` when it
    /// is used up. The caller compares each head with its request: a server that answers another
    /// range, or less of it, has failed.
    ///
    /// # Errors
    /// `peer_misbehaved` for a head with a negative length or offset.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<VectorPiece<'i>>, Error> {
        if input.is_empty() {
            return Ok(None);
        }
        if self.missing > 0 {
            let (data, rest) = input.split_at(self.missing.min(input.len()));
            *input = rest;
            self.missing -= data.len();
            return Ok(Some(VectorPiece::Data(data)));
        }
        let taken = (VECTOR_ITEM_BYTES - self.have).min(input.len());
        let (front, rest) = input.split_at(taken);
        self.head[self.have..self.have + taken].copy_from_slice(front);
        *input = rest;
        self.have += taken;
        if self.have < VECTOR_ITEM_BYTES {
            return Ok(None);
        }
        let item = VectorItem::parse(&self.head).ok_or_else(|| misbehaved("the head of a range is wrong"))?;
        let number = self.number;
        self.have = 0;
        self.missing = item.length as usize;
        self.number += 1;
        Ok(Some(VectorPiece::Head { number, item }))
    }

    /// How many heads have come.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.number
    }

    /// Whether the answer could end here: no range is incomplete.
    #[must_use]
    pub fn is_between_items(&self) -> bool {
        self.have == 0 && self.missing == 0
    }
}

/// Reads an answer in memory: ranges and their data.
///
/// # Errors
/// `peer_misbehaved` when it is cut off or a head is wrong.
pub fn parse_vector_answer(body: &[u8]) -> Result<Vec<(VectorItem, &[u8])>, Error> {
    let mut items = Vec::new();
    let mut rest = body;
    while let Some((head, behind)) = rest.split_first_chunk::<VECTOR_ITEM_BYTES>() {
        let item = VectorItem::parse(head).ok_or_else(|| misbehaved("the head of a range is wrong"))?;
        let (data, behind) = behind
            .split_at_checked(item.length as usize)
            .ok_or_else(|| misbehaved("the answer to a vector read is cut off"))?;
        items.push((item, data));
        rest = behind;
    }
    if rest.is_empty() {
        Ok(items)
    } else {
        Err(misbehaved("the answer to a vector read is cut off"))
    }
}
