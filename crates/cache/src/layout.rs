//! The bytes of a cached file, without any input or output.
//!
//! A cached file is one sparse file:
//!
//! | bytes | what |
//! |---|---|
//! | header | the origin, path and version of the file; a random number; the CRC-32C of the header |
//! | table | one entry per block: the CRC-32C of each of its pages, and the CRC-32C of the entry |
//! | from the next page of 4 KiB on | the blocks, each at its offset |
//!
//! The table is the journal: an entry is written after its block, in place, and zeros mean that
//! the block is absent. Nothing has to be in order on the disk. An entry that was written in part
//! fails its own checksum, which covers the random number and the number of the block; a block that
//! was written in part fails the checksums of its pages.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use storage::{Kind, Stat};

use crate::limits::{BLOCK_BYTES, FILE_BYTES_MAX, PAGES};

const MAGIC: &[u8; 8] = b"CrossBl1";
/// Magic, length, random number, size, seconds, nanoseconds, identity, mode, two lengths.
const FIXED_BYTES: usize = 8 + 4 + 8 + 8 + 8 + 4 + 8 + 4 + 2 + 2;
const SUM_BYTES: usize = 4;
const ALIGNMENT: u64 = 4096;

/// Longest name of an origin, in bytes.
pub const ORIGIN_BYTES_MAX: usize = 8 * 1024;
/// Longest header, in bytes.
pub const HEADER_BYTES_MAX: usize = FIXED_BYTES + ORIGIN_BYTES_MAX + types::limits::PATH_BYTES_MAX + SUM_BYTES;
/// An entry of the table, in bytes.
pub const ENTRY_BYTES: usize = PAGES * SUM_BYTES + SUM_BYTES;

/// What a cached file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Made up for each cached file, so that an entry of another one is recognised.
    pub random: u64,
    /// The name of the origin.
    pub origin: String,
    /// The path at the origin, exactly as it is there.
    pub path: String,
    /// The version at the origin: size, modification time and identity.
    pub version: Stat,
}

impl Header {
    /// The bytes; `None` if the names are too long.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let (origin, path) = (self.origin.as_bytes(), self.path.as_bytes());
        if origin.len() > ORIGIN_BYTES_MAX || path.len() > types::limits::PATH_BYTES_MAX {
            return None;
        }
        let length = FIXED_BYTES + origin.len() + path.len() + SUM_BYTES;
        let (seconds, nanoseconds) = since_epoch(self.version.modified)?;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        bytes.extend_from_slice(&self.random.to_le_bytes());
        bytes.extend_from_slice(&self.version.size_bytes.to_le_bytes());
        bytes.extend_from_slice(&seconds.to_le_bytes());
        bytes.extend_from_slice(&nanoseconds.to_le_bytes());
        bytes.extend_from_slice(&self.version.inode.to_le_bytes());
        bytes.extend_from_slice(&self.version.mode.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(origin.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(path.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(origin);
        bytes.extend_from_slice(path);
        let sum = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Some(bytes)
    }

    /// Reads the header at the beginning of `bytes`; `None` if it is not whole and valid.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Fields(bytes);
        if rest.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let length = usize::try_from(rest.u32()?).ok()?;
        let whole = bytes.get(..length)?;
        let (counted, sum) = whole.split_at_checked(length.checked_sub(SUM_BYTES)?)?;
        if crc_fast::crc32_iscsi(counted).to_le_bytes() != sum {
            return None;
        }
        let (random, size_bytes) = (rest.u64()?, rest.u64()?);
        let (seconds, nanoseconds) = (rest.u64()?.cast_signed(), rest.u32()?);
        let (inode, mode) = (rest.u64()?, rest.u32()?);
        let (origin, path) = (usize::from(rest.u16()?), usize::from(rest.u16()?));
        if FIXED_BYTES + origin + path + SUM_BYTES != length || size_bytes > FILE_BYTES_MAX {
            return None;
        }
        Some(Self {
            random,
            origin: String::from_utf8(rest.take(origin)?.to_vec()).ok()?,
            path: String::from_utf8(rest.take(path)?.to_vec()).ok()?,
            version: Stat {
                kind: Kind::File,
                size_bytes,
                modified: time_of(seconds, nanoseconds)?,
                mode,
                inode,
            },
        })
    }

    /// Where table and blocks are.
    #[must_use]
    pub fn places(&self) -> Places {
        let header = FIXED_BYTES + self.origin.len() + self.path.len() + SUM_BYTES;
        let blocks = self.version.size_bytes.div_ceil(BLOCK_BYTES);
        let table = header as u64;
        Places {
            table,
            data: (table + blocks * ENTRY_BYTES as u64).next_multiple_of(ALIGNMENT),
            size_bytes: self.version.size_bytes,
        }
    }
}

/// Where the parts of a cached file are, in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    table: u64,
    data: u64,
    size_bytes: u64,
}

impl Places {
    /// How many blocks the whole file has.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes.div_ceil(BLOCK_BYTES)
    }

    /// The length of a block: only the last block can be shorter.
    #[must_use]
    pub fn block_bytes(&self, block: u64) -> u64 {
        BLOCK_BYTES.min(self.size_bytes.saturating_sub(block * BLOCK_BYTES))
    }

    /// Where the entry of a block is.
    #[must_use]
    pub fn entry(&self, block: u64) -> u64 {
        self.table + block * ENTRY_BYTES as u64
    }

    /// Where a byte of the file is.
    #[must_use]
    pub fn byte(&self, offset: u64) -> u64 {
        self.data + offset
    }
}

/// What the table says of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is not stored.
    Absent,
    /// It is stored, and its pages have these CRC-32C; those behind the end of the file are 0.
    Stored([u32; PAGES]),
    /// The entry is damaged.
    Damaged,
}

/// The bytes of the entry of a stored block.
#[must_use]
pub fn encode_entry(random: u64, block: u64, sums: &[u32; PAGES]) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    for (place, sum) in bytes.chunks_exact_mut(SUM_BYTES).zip(sums) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    let own = entry_sum(random, block, &bytes[..PAGES * SUM_BYTES]);
    bytes[PAGES * SUM_BYTES..].copy_from_slice(&own.to_le_bytes());
    bytes
}

/// Reads the entry of a block.
#[must_use]
pub fn decode_entry(random: u64, block: u64, bytes: &[u8; ENTRY_BYTES]) -> Entry {
    if bytes.iter().all(|byte| *byte == 0) {
        return Entry::Absent;
    }
    let (pages, own) = bytes.split_at(PAGES * SUM_BYTES);
    if entry_sum(random, block, pages).to_le_bytes() != own {
        return Entry::Damaged;
    }
    let mut sums = [0; PAGES];
    for (sum, bytes) in sums.iter_mut().zip(pages.chunks_exact(SUM_BYTES)) {
        *sum = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    Entry::Stored(sums)
}

fn entry_sum(random: u64, block: u64, pages: &[u8]) -> u32 {
    let mut bytes = [0; 16 + PAGES * SUM_BYTES];
    bytes[..8].copy_from_slice(&random.to_le_bytes());
    bytes[8..16].copy_from_slice(&block.to_le_bytes());
    bytes[16..].copy_from_slice(pages);
    crc_fast::crc32_iscsi(&bytes)
}

/// Seconds since the epoch, rounded down, and nanoseconds after that.
fn since_epoch(time: SystemTime) -> Option<(i64, u32)> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Some((i64::try_from(after.as_secs()).ok()?, after.subsec_nanos())),
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).ok()?.checked_neg()?;
            match before.subsec_nanos() {
                0 => Some((seconds, 0)),
                nanoseconds => Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds)),
            }
        }
    }
}

fn time_of(seconds: i64, nanoseconds: u32) -> Option<SystemTime> {
    if nanoseconds >= 1_000_000_000 {
        return None;
    }
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds >= 0 {
        true => UNIX_EPOCH.checked_add(whole)?,
        false => UNIX_EPOCH.checked_sub(whole)?,
    };
    second.checked_add(Duration::from_nanos(nanoseconds.into()))
}

/// Bytes that are read from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            random: 0x1234_5678_9abc_def0,
            origin: "/srv/data".to_owned(),
            path: "/Atlas/f\u{e9}".to_owned(),
            version: Stat {
                kind: Kind::File,
                size_bytes: 3 * BLOCK_BYTES + 1,
                modified: UNIX_EPOCH - Duration::from_nanos(1),
                mode: 0o640,
                inode: 7,
            },
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_each_flipped_bit_is_noticed() {
        let header = header();
        let bytes = header.encode().unwrap();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        assert_eq!(Header::decode(&bytes[..bytes.len() - 1]), None);
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&broken), None, "bit {bit}");
        }
    }

    #[test]
    fn an_entry_counts_only_for_its_file_and_its_block() {
        let sums = std::array::from_fn(|page| page as u32 * 77);
        let bytes = encode_entry(5, 9, &sums);
        assert_eq!(decode_entry(5, 9, &bytes), Entry::Stored(sums));
        assert_eq!(decode_entry(6, 9, &bytes), Entry::Damaged);
        assert_eq!(decode_entry(5, 8, &bytes), Entry::Damaged);
        assert_eq!(decode_entry(5, 9, &[0; ENTRY_BYTES]), Entry::Absent);
        for cut in 0..ENTRY_BYTES {
            let mut torn = bytes;
            torn[cut..].fill(0);
            assert_ne!(decode_entry(5, 9, &torn), Entry::Stored(sums), "cut at {cut}");
        }
    }

    #[test]
    fn blocks_lie_behind_the_table_and_the_last_one_is_short() {
        let places = header().places();
        assert_eq!(places.blocks(), 4);
        assert_eq!([places.block_bytes(0), places.block_bytes(3)], [BLOCK_BYTES, 1]);
        assert!(places.entry(4) <= places.byte(0));
        assert_eq!(places.byte(0) % ALIGNMENT, 0);
        assert_eq!(places.byte(BLOCK_BYTES) - places.byte(0), BLOCK_BYTES);
    }
}
