//! A cached file on the disk. All calls block.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;
use net::Outgoing;
use storage::Stat;
use types::ByteRange;

use crate::key::{DRAFT, Key, shelf};
use crate::layout::{ENTRY_BYTES, Entry, HEADER_BYTES_MAX, Header, Places, decode_entry, encode_entry};
use crate::limits::{BLOCK_BYTES, PAGE_BYTES, PAGES};

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The bytes, at this place of the buffer; checked.
    Data(Range<usize>),
    /// The block is not stored.
    Absent,
    /// A checksum is wrong.
    Damaged,
}

/// A cached file.
#[derive(Debug)]
pub(crate) struct BlockFile {
    file: File,
    pub(crate) header: Header,
    pub(crate) places: Places,
}

impl BlockFile {
    /// Opens a cached file; `None` if its header is damaged.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Self::of(file)
    }

    /// The same, without the right to change it.
    pub(crate) fn open_to_read(path: &Path) -> io::Result<Option<Self>> {
        Self::of(File::open(path)?)
    }

    fn of(file: File) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; 1024];
        let count = read_up_to(&file, &mut bytes, 0)?;
        bytes.truncate(count);
        let mut header = Header::decode(&bytes);
        if header.is_none() && count == 1024 {
            bytes.resize(HEADER_BYTES_MAX, 0);
            let count = read_up_to(&file, &mut bytes, 0)?;
            header = Header::decode(&bytes[..count]);
        }
        Ok(header.map(|header| Self {
            file,
            places: header.places(),
            header,
        }))
    }

    /// Creates a cached file without blocks, in place of an older one. `None` if the names are too
    /// long for the header.
    pub(crate) fn create(directory: &Path, key: Key, header: Header) -> io::Result<Option<Self>> {
        let Some(bytes) = header.encode() else {
            return Ok(None);
        };
        let shelf = shelf(directory, key.shelf());
        let draft = shelf.join(format!("{DRAFT}{:016x}", header.random));
        let create = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600).open(&draft)
        };
        let file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&shelf)?;
                create()?
            }
            created => created?,
        };
        let written = file
            .write_all_at(&bytes, 0)
            .and_then(|()| std::fs::rename(&draft, key.file(directory)));
        if let Err(error) = written {
            // The error of the write counts; a draft that stays is removed at the next start.
            let _ = std::fs::remove_file(&draft);
            return Err(error);
        }
        Ok(Some(Self {
            file,
            places: header.places(),
            header,
        }))
    }

    /// Whether it holds this version of this file.
    pub(crate) fn is_of(&self, origin: &str, path: &str, version: &Stat) -> bool {
        self.header.origin == origin && self.header.path == path && self.header.version.same_content(version)
    }

    /// Whether it still has a name: another program may have evicted it.
    pub(crate) fn has_name(&self) -> bool {
        self.file.metadata().is_ok_and(|facts| facts.nlink() > 0)
    }

    /// Bytes that it takes on the disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |facts| facts.blocks() * 512)
    }

    /// Notes on the disk that it was used, for eviction after a restart.
    pub(crate) fn note_use(&self) {
        // It is only a hint.
        let _ = self
            .file
            .set_times(std::fs::FileTimes::new().set_accessed(SystemTime::now()));
    }

    /// What the table says of a block.
    pub(crate) fn entry(&self, block: u64) -> io::Result<Entry> {
        let mut bytes = [0; ENTRY_BYTES];
        // Behind the end of the file nothing was written yet, which means zeros.
        read_up_to(&self.file, &mut bytes, self.places.entry(block))?;
        Ok(decode_entry(self.header.random, block, &bytes))
    }

    /// Counts the stored blocks.
    pub(crate) fn count_stored(&self) -> io::Result<u64> {
        let mut count = 0;
        self.each_stored(|_| count += 1)?;
        Ok(count)
    }

    /// The bytes of the stored blocks.
    pub(crate) fn stored_bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        self.each_stored(|block| bytes += self.places.block_bytes(block))?;
        Ok(bytes)
    }

    /// Whether all of these blocks are stored.
    pub(crate) fn has_all(&self, blocks: Range<u64>) -> io::Result<bool> {
        let missing = |_, is_stored| match is_stored {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        Ok(self.each_block(blocks, missing)?.is_continue())
    }

    fn each_stored(&self, mut seen: impl FnMut(u64)) -> io::Result<()> {
        let stored = |block, is_stored| {
            if is_stored {
                seen(block);
            }
            ControlFlow::Continue(())
        };
        self.each_block(0..self.places.blocks(), stored).map(drop)
    }

    /// Reads the entries of these blocks until `seen` has enough: it gets each block, and whether
    /// it is stored.
    fn each_block(
        &self,
        blocks: Range<u64>,
        mut seen: impl FnMut(u64, bool) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        const ENTRIES: usize = 1024;
        let mut bytes = vec![0; ENTRY_BYTES * ENTRIES.min((blocks.end - blocks.start) as usize)];
        for first in blocks.clone().step_by(ENTRIES) {
            let count = ENTRIES.min((blocks.end - first) as usize);
            let bytes = &mut bytes[..count * ENTRY_BYTES];
            bytes.fill(0);
            read_up_to(&self.file, bytes, self.places.entry(first))?;
            for (block, entry) in (first..).zip(bytes.chunks_exact(ENTRY_BYTES)) {
                let entry = entry.try_into().unwrap_or(&[0; ENTRY_BYTES]);
                let entry = decode_entry(self.header.random, block, entry);
                if seen(block, matches!(entry, Entry::Stored(_))).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads the beginning of a non-empty range: at most to the end of its block, and as many whole
    /// pages as the buffer can hold.
    pub(crate) fn read(&self, range: ByteRange, buffer: &mut [u8]) -> io::Result<Found> {
        let block = range.start / BLOCK_BYTES;
        let sums = match self.entry(block)? {
            Entry::Stored(sums) => sums,
            Entry::Absent => return Ok(Found::Absent),
            Entry::Damaged => return Ok(Found::Damaged),
        };
        let block_start = block * BLOCK_BYTES;
        let block_bytes = self.places.block_bytes(block) as usize;
        let from = (range.start - block_start) as usize;
        let to = block_bytes.min((range.end - block_start) as usize);
        let first = from / PAGE_BYTES;
        let fitting = buffer.len() / PAGE_BYTES;
        let last = to.div_ceil(PAGE_BYTES).min(first + fitting);
        let (start, end) = (first * PAGE_BYTES, block_bytes.min(last * PAGE_BYTES));
        let pages = &mut buffer[..end - start];
        if read_up_to(&self.file, pages, self.places.byte(block_start + start as u64))? < pages.len() {
            return Ok(Found::Damaged);
        }
        let is_whole = pages
            .chunks(PAGE_BYTES)
            .zip(&sums[first..])
            .all(|(page, sum)| crc_fast::crc32_iscsi(page) == *sum);
        match is_whole {
            true => Ok(Found::Data(from - start..to.min(end) - start)),
            false => Ok(Found::Damaged),
        }
    }

    /// Reads whole pages from the beginning of a range into the room, so that they are copied once
    /// only. Returns how many bytes; 0 if they have to be read in another way: the range begins
    /// within a page, or they are missing or damaged.
    pub(crate) fn read_into(&self, range: ByteRange, room: &mut Outgoing) -> io::Result<usize> {
        let block = range.start / BLOCK_BYTES;
        let block_start = block * BLOCK_BYTES;
        let block_end = block_start + self.places.block_bytes(block);
        let mut end = range.end.min(block_end).min(range.start + room.capacity() as u64);
        if end < block_end {
            end -= end % PAGE_BYTES as u64;
        }
        if !range.start.is_multiple_of(PAGE_BYTES as u64) || end <= range.start {
            return Ok(0);
        }
        let Entry::Stored(sums) = self.entry(block)? else {
            return Ok(0);
        };
        let sums = &sums[(range.start - block_start) as usize / PAGE_BYTES..];
        let at = self.places.byte(range.start);
        let wanted = (end - range.start) as usize;
        room.fill_slots(wanted, |slots| {
            let is_whole = fill_slots(&self.file, slots, at)? && has_sums(slots, sums);
            Ok(if is_whole { wanted } else { 0 })
        })
    }

    /// Stores a block, given in parts of whole pages. The entry is written last.
    pub(crate) fn put(&self, block: u64, parts: &[Arc<Vec<u8>>]) -> io::Result<()> {
        let mut sums = [0; PAGES];
        let pages = parts.iter().flat_map(|part| part.chunks(PAGE_BYTES));
        for (sum, page) in sums.iter_mut().zip(pages) {
            *sum = crc_fast::crc32_iscsi(page);
        }
        let mut at = self.places.byte(block * BLOCK_BYTES);
        for part in parts {
            self.file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        let entry = encode_entry(self.header.random, block, &sums);
        self.file.write_all_at(&entry, self.places.entry(block))
    }

    /// Forgets a block.
    pub(crate) fn clear(&self, block: u64) -> io::Result<()> {
        self.file.write_all_at(&[0; ENTRY_BYTES], self.places.entry(block))
    }
}

/// Fills the slots from `at` on; returns whether the file is that long.
fn fill_slots(file: &File, slots: &mut [IoSliceMut<'_>], mut at: u64) -> io::Result<bool> {
    let mut left: Vec<_> = slots.iter_mut().map(|slot| IoSliceMut::new(slot)).collect();
    let mut left = left.as_mut_slice();
    while !left.is_empty() {
        match rustix::io::preadv(file, left, at) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                at += count as u64;
                IoSliceMut::advance_slices(&mut left, count);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(true)
}

/// Whether the pages in the slots, one after another, have these checksums.
fn has_sums(slots: &[IoSliceMut<'_>], sums: &[u32]) -> bool {
    let mut sums = sums.iter();
    let (mut digest, mut left) = (Digest::new(Crc32Iscsi), PAGE_BYTES);
    for slot in slots {
        let mut rest = &**slot;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(left.min(rest.len()));
            digest.update(piece);
            (rest, left) = (behind, left - piece.len());
            if left == 0 {
                if sums.next().copied().map(u64::from) != Some(digest.finalize()) {
                    return false;
                }
                (digest, left) = (Digest::new(Crc32Iscsi), PAGE_BYTES);
            }
        }
    }
    left == PAGE_BYTES || sums.next().copied().map(u64::from) == Some(digest.finalize())
}

/// Reads until the buffer is full or the file ends; returns the number of bytes.
fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_checked_across_slots_of_any_size() {
        let mut content: Vec<u8> = (0..150_000_u32)
            .map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let sums: Vec<u32> = content.chunks(PAGE_BYTES).map(crc_fast::crc32_iscsi).collect();
        let mut check = |slot_bytes: usize, flipped: Option<usize>| {
            if let Some(at) = flipped {
                content[at] ^= 1;
            }
            let slots: Vec<_> = content.chunks_mut(slot_bytes).map(IoSliceMut::new).collect();
            let is_whole = has_sums(&slots, &sums);
            if let Some(at) = flipped {
                content[at] ^= 1;
            }
            is_whole
        };
        for slot_bytes in [10_000, 16_384, PAGE_BYTES, 70_000, 150_000] {
            assert!(check(slot_bytes, None), "{slot_bytes}");
            for flipped in [0, PAGE_BYTES - 1, PAGE_BYTES, 149_999] {
                assert!(!check(slot_bytes, Some(flipped)), "{flipped} in slots of {slot_bytes}");
            }
        }
    }
}
