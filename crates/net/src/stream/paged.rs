//! Payload on its way out as pages with checksums: the file is read, or payload copied, straight
//! into the gaps between the checksums, which are computed while the data are in the cache.
//!
//! The layout is that of page reads and writes of the XRootD protocol: before each unit of data its
//! CRC-32C; units end at file offsets that are multiples of 4096.

use xroot_wire::limits::PAGE_CHECKSUM_BYTES;
use xroot_wire::pages::{bytes_to_border, checksum_on, encoded_bytes, unit_lengths};

use super::Outgoing;

/// Data bytes of a whole page, and the bytes that it takes on the wire.
const PAGE_BYTES: usize = xroot_wire::limits::PAGE_BYTES;
const PAGE_WIRE_BYTES: usize = PAGE_BYTES + PAGE_CHECKSUM_BYTES;

/// How pages lie in the room of an [`Outgoing`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Paging {
    /// Where the data belong in the file.
    offset: u64,
    /// Kept free in front of the first checksum.
    head_bytes: usize,
}

impl Paging {
    /// Data that fit into `room_bytes`, up to the last border of a page.
    pub(super) fn capacity(&self, room_bytes: usize) -> usize {
        let room = room_bytes.saturating_sub(self.head_bytes);
        let first = bytes_to_border(self.offset);
        match room.checked_sub(first + PAGE_CHECKSUM_BYTES) {
            Some(behind) => first + behind / PAGE_WIRE_BYTES * PAGE_BYTES,
            None => room.saturating_sub(PAGE_CHECKSUM_BYTES),
        }
    }

    /// What `data_bytes` of data take in the room, with the head.
    pub(super) fn wire_bytes(&self, data_bytes: usize) -> usize {
        self.head_bytes + encoded_bytes(self.offset, data_bytes)
    }

    /// Where `data_bytes` of data go in `room`.
    pub(super) fn gaps<'a>(&self, room: Vec<&'a mut [u8]>, data_bytes: usize) -> Vec<&'a mut [u8]> {
        let mut cursor = Cursor::new(room);
        let mut between = Vec::new();
        let mut gaps = Vec::with_capacity(data_bytes / PAGE_BYTES + 20);
        cursor.take(self.head_bytes, &mut between);
        for length in unit_lengths(self.offset, data_bytes) {
            between.clear();
            cursor.take(PAGE_CHECKSUM_BYTES, &mut between);
            cursor.take(length, &mut gaps);
        }
        gaps
    }

    /// Writes head and checksums to where they belong.
    fn complete(&self, room: Vec<&mut [u8]>, data_bytes: usize, head: &[u8]) {
        let mut cursor = Cursor::new(room);
        let (mut word, mut data) = (Vec::new(), Vec::new());
        cursor.take(self.head_bytes, &mut word);
        scatter(head, &mut word);
        for length in unit_lengths(self.offset, data_bytes) {
            word.clear();
            data.clear();
            cursor.take(PAGE_CHECKSUM_BYTES, &mut word);
            cursor.take(length, &mut data);
            let sum = data.iter().fold(0, |sum, part| checksum_on(sum, part));
            scatter(&sum.to_be_bytes(), &mut word);
        }
    }
}

impl Outgoing {
    /// Lays the room out for pages with checksums of data that belong at `offset` of a file, with
    /// `head_bytes` free in front of them (0 where they continue a message).
    ///
    /// Capacity, slots and filling are then about the data alone; the capacity ends at the border
    /// of a page. Before it is sent, [`Outgoing::close_pages`] completes it.
    #[must_use]
    pub fn paged(mut self, offset: u64, head_bytes: usize) -> Self {
        self.paging = Some(Paging { offset, head_bytes });
        self
    }

    /// Puts `head` in front of the first `filled` bytes of data and their checksums among them.
    /// Returns the total number of bytes, for [`Stream::send`](super::Stream::send). `head` has the
    /// length given to [`Outgoing::paged`].
    ///
    /// Without pages only the number of bytes is returned.
    ///
    /// # Panics
    /// With a head of another length: its place would keep what an earlier transfer left there.
    pub fn close_pages(&mut self, filled: usize, head: &[u8]) -> usize {
        let Some(paging) = self.paging.take() else {
            return filled;
        };
        assert_eq!(
            head.len(),
            paging.head_bytes,
            "the head has another length than its place"
        );
        let length = paging.wire_bytes(filled);
        paging.complete(self.room(length), filled, head);
        length
    }
}

/// Takes a room that lies in several slots apart, from front to back.
struct Cursor<'a> {
    rest: &'a mut [u8],
    slots: std::vec::IntoIter<&'a mut [u8]>,
}

impl<'a> Cursor<'a> {
    fn new(slots: Vec<&'a mut [u8]>) -> Self {
        Self {
            rest: &mut [],
            slots: slots.into_iter(),
        }
    }

    /// Appends the next `count` bytes to `parts`, as few parts as there are.
    fn take(&mut self, mut count: usize, parts: &mut Vec<&'a mut [u8]>) {
        while count > 0 {
            if self.rest.is_empty() {
                match self.slots.next() {
                    Some(slot) => self.rest = slot,
                    None => return,
                }
            }
            let step = count.min(self.rest.len());
            let (part, rest) = std::mem::take(&mut self.rest).split_at_mut(step);
            self.rest = rest;
            count -= step;
            parts.push(part);
        }
    }
}

fn scatter(bytes: &[u8], parts: &mut [&mut [u8]]) {
    let mut left = bytes;
    for part in parts {
        let (front, rest) = left.split_at(part.len().min(left.len()));
        part[..front.len()].copy_from_slice(front);
        left = rest;
    }
}
