//! Checksums of data as it passes, in order or range by range, and of whole files.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crc_fast::CrcAlgorithm::{Crc32Iscsi, Crc64Nvme};
use md5::{Digest as _, Md5};
use sha2::Sha256;
use types::limits::BUFFER_BYTES;
use types::{ByteRange, Checksum, ChecksumAlgorithm, ErrorCode, Phase, Result, combine_adler32};

use crate::adler32::Adler32;
use crate::api::{FileReader, Patience, Stat};
use crate::fault::{fault, from_io};
use crate::store::Held;

enum State {
    Adler32(Adler32),
    Crc32c(crc_fast::Digest),
    Crc64Nvme(crc_fast::Digest),
    Md5(Md5),
    Sha256(Sha256),
}

impl State {
    fn new(algorithm: ChecksumAlgorithm) -> Self {
        match algorithm {
            ChecksumAlgorithm::Adler32 => Self::Adler32(Adler32::new()),
            ChecksumAlgorithm::Crc32c => Self::Crc32c(crc_fast::Digest::new(Crc32Iscsi)),
            ChecksumAlgorithm::Crc64Nvme => Self::Crc64Nvme(crc_fast::Digest::new(Crc64Nvme)),
            ChecksumAlgorithm::Md5 => Self::Md5(Md5::new()),
            ChecksumAlgorithm::Sha256 => Self::Sha256(Sha256::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Adler32(sum) => sum.update(bytes),
            Self::Crc32c(sum) | Self::Crc64Nvme(sum) => sum.update(bytes),
            Self::Md5(sum) => sum.update(bytes),
            Self::Sha256(sum) => sum.update(bytes),
        }
    }

    fn finish(self) -> Option<Checksum> {
        match self {
            Self::Adler32(sum) => Some(Checksum::adler32(sum.finish())),
            // It has 32 bits.
            Self::Crc32c(sum) => Some(Checksum::crc32c(sum.finalize() as u32)),
            Self::Crc64Nvme(sum) => Some(Checksum::crc64nvme(sum.finalize())),
            Self::Md5(sum) => Checksum::new(ChecksumAlgorithm::Md5, &sum.finalize()),
            Self::Sha256(sum) => Checksum::new(ChecksumAlgorithm::Sha256, &sum.finalize()),
        }
    }
}

/// Several checksums over the same bytes, fed from front to back.
pub struct Hasher {
    states: Vec<State>,
    length_bytes: u64,
}

impl Hasher {
    /// A hasher that has seen no bytes; an algorithm named twice counts once.
    #[must_use]
    pub fn new(algorithms: &[ChecksumAlgorithm]) -> Self {
        let mut wanted = algorithms.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        Self {
            states: wanted.into_iter().map(State::new).collect(),
            length_bytes: 0,
        }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        for state in &mut self.states {
            state.update(bytes);
        }
        self.length_bytes += bytes.len() as u64;
    }

    /// How many bytes it has seen.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// The values, in the order of [`ChecksumAlgorithm`].
    #[must_use]
    pub fn finish(self) -> Vec<Checksum> {
        self.states.into_iter().filter_map(State::finish).collect()
    }
}

/// Checksums of a file whose ranges arrive in any order. Adler-32 and CRC-32C of the ranges are
/// combined at the end; the other algorithms need a second pass, see [`RangeSums::missing`].
pub struct RangeSums {
    wanted: Vec<ChecksumAlgorithm>,
    ranges: BTreeMap<u64, (u64, Vec<Checksum>)>,
}

impl RangeSums {
    /// For these algorithms.
    #[must_use]
    pub fn new(wanted: &[ChecksumAlgorithm]) -> Self {
        Self {
            wanted: wanted.to_vec(),
            ranges: BTreeMap::new(),
        }
    }

    /// A hasher for one range, with the algorithms that can be combined.
    #[must_use]
    pub fn range_hasher(&self) -> Hasher {
        let combinable: Vec<_> = self
            .wanted
            .iter()
            .copied()
            .filter(|algorithm| algorithm.combines())
            .collect();
        Hasher::new(&combinable)
    }

    /// Adds the hasher of the range that began at `start`. A range that is added twice counts once,
    /// with its last value. Adjacent ranges are merged, so memory grows with the number of gaps
    /// only.
    pub fn add(&mut self, start: u64, hasher: Hasher) {
        let length = hasher.length_bytes();
        if length == 0 {
            return;
        }
        self.ranges.insert(start, (length, hasher.finish()));
        self.join_at(start);
        if let Some((&before, _)) = self.ranges.range(..start).next_back() {
            self.join_at(before);
        }
    }

    /// Whether part of `range` was added before.
    #[must_use]
    pub fn overlaps(&self, range: ByteRange) -> bool {
        let before = self.ranges.range(..range.end).next_back();
        !range.is_empty() && before.is_some_and(|(start, (length, _))| start + length > range.start)
    }

    /// How many bytes from the start of the file have no gap.
    #[must_use]
    pub fn front_bytes(&self) -> u64 {
        self.ranges.get(&0).map_or(0, |(length, _)| *length)
    }

    /// How many separate ranges there are.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    fn join_at(&mut self, start: u64) {
        let Some((length, sums)) = self.ranges.get(&start) else {
            return;
        };
        let Some((next_length, next)) = self.ranges.get(&(start + length)) else {
            return;
        };
        let joined = sums
            .iter()
            .zip(next)
            .filter_map(|(first, second)| combine(first, second, *next_length))
            .collect();
        let (length, next_length) = (*length, *next_length);
        self.ranges.remove(&(start + length));
        self.ranges.insert(start, (length + next_length, joined));
    }

    /// Algorithms that need a second pass.
    #[must_use]
    pub fn missing(&self) -> Vec<ChecksumAlgorithm> {
        self.wanted
            .iter()
            .copied()
            .filter(|algorithm| !algorithm.combines())
            .collect()
    }

    /// The combined values for a file of `size_bytes`; `None` when the ranges do not cover it
    /// exactly, so that the whole file must be read again.
    #[must_use]
    pub fn finish(self, size_bytes: u64) -> Option<Vec<Checksum>> {
        if size_bytes == 0 && self.ranges.is_empty() {
            return Some(self.range_hasher().finish());
        }
        let mut ranges = self.ranges.into_iter();
        match (ranges.next(), ranges.next()) {
            (Some((0, (length, sums))), None) if length == size_bytes => Some(sums),
            _ => None,
        }
    }
}

fn combine(first: &Checksum, second: &Checksum, second_length_bytes: u64) -> Option<Checksum> {
    if let Some((low, high)) = first.to_u64().zip(second.to_u64()) {
        let both = crc_fast::checksum_combine(Crc64Nvme, low, high, second_length_bytes);
        return Some(Checksum::crc64nvme(both));
    }
    let (low, high) = (first.to_u32()?, second.to_u32()?);
    match first.algorithm() {
        ChecksumAlgorithm::Adler32 => Some(Checksum::adler32(combine_adler32(low, high, second_length_bytes))),
        ChecksumAlgorithm::Crc32c => {
            Some(Checksum::crc32c(
                crc_fast::checksum_combine(Crc32Iscsi, low.into(), high.into(), second_length_bytes) as u32,
            ))
        }
        _ => None,
    }
}

/// A slice of a file to read for its checksums, from where the hasher stopped.
pub struct HashSlice {
    /// Has seen the file up to the slice.
    pub hasher: Hasher,
    /// The offset where this slice ends.
    pub end: u64,
    /// How many bytes from the start are wanted; `None`: the whole file.
    pub front_bytes: Option<u64>,
    /// Set when the checksums are no longer wanted: reading then ends with an error.
    pub is_given_up: Arc<AtomicBool>,
    /// Held until reading has ended, even if its future is dropped.
    pub held: Held,
}

impl HashSlice {
    /// What is still to be read of the slice; `None` at its end.
    #[must_use]
    pub fn left(&self) -> Option<ByteRange> {
        let start = self.hasher.length_bytes();
        let end = self.end.min(self.front_bytes.unwrap_or(u64::MAX));
        (start < end).then(|| ByteRange::new(start, end))
    }

    /// The hasher, and whether it has seen everything that is wanted.
    #[must_use]
    pub fn done(self) -> (Hasher, bool) {
        let is_all = self
            .front_bytes
            .is_some_and(|bytes| self.hasher.length_bytes() >= bytes);
        (self.hasher, is_all)
    }

    /// The same at the end of the file, which was in state `stat` when it was opened.
    ///
    /// # Errors
    /// `source_changed` if its length has changed, `storage_failed` if it ends before the wanted
    /// bytes.
    pub fn at_end_of(self, stat: &Stat) -> Result<(Hasher, bool)> {
        if self.front_bytes.is_some() {
            return Err(fault(ErrorCode::StorageFailed, Phase::Checksum).with_private("the part became shorter"));
        }
        match self.hasher.length_bytes() == stat.size_bytes {
            true => Ok((self.hasher, true)),
            false => Err(fault(ErrorCode::SourceChanged, Phase::Checksum)),
        }
    }
}

/// Reads a slice of a file whose reads block.
pub(crate) fn read_slice(reader: &dyn FileReader, mut slice: HashSlice) -> Result<(Hasher, bool)> {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Some(left) = slice.left() {
        if slice.is_given_up.load(Ordering::Relaxed) {
            return Err(fault(ErrorCode::Cancelled, Phase::Checksum));
        }
        let wanted = usize::try_from(left.len()).unwrap_or(usize::MAX).min(buffer.len());
        let read = reader.read_vectored_at(
            &mut [IoSliceMut::new(&mut buffer[..wanted])],
            left.start,
            Patience::Wait,
        );
        match read.map_err(|error| from_io(&error, Phase::Checksum))? {
            0 => return slice.at_end_of(reader.stat()),
            count => slice.hasher.update(&buffer[..count]),
        }
    }
    Ok(slice.done())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        (0..300_001u32)
            .map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect()
    }

    #[test]
    fn known_values_of_the_standards_check_string() {
        let mut hasher = Hasher::new(&ChecksumAlgorithm::ALL);
        let mut of_objects = Hasher::new(&[ChecksumAlgorithm::Crc64Nvme]);
        of_objects.update(b"123456789");
        assert_eq!(of_objects.finish()[0].to_string(), "crc64nvme:ae8b14860a799888");
        hasher.update(b"12345");
        hasher.update(b"6789");
        let values: Vec<String> = hasher.finish().iter().map(Checksum::to_string).collect();
        assert_eq!(values[0], "adler32:091e01de");
        assert_eq!(values[1], "crc32c:e3069283");
        assert_eq!(values[2], "md5:25f9e794323b453885f5181f1b624d0b");
        assert!(values[3].starts_with("sha-256:15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"));
    }

    #[test]
    fn ranges_in_any_order_give_the_checksums_of_the_whole() {
        let bytes = bytes();
        let algorithms = [
            ChecksumAlgorithm::Adler32,
            ChecksumAlgorithm::Crc32c,
            ChecksumAlgorithm::Crc64Nvme,
            ChecksumAlgorithm::Md5,
        ];
        let mut whole = Hasher::new(&algorithms[..3]);
        whole.update(&bytes);
        let cuts = [(200_000, 300_001), (0, 1), (65_521, 200_000), (1, 65_521)];
        let mut sums = RangeSums::new(&algorithms);
        for (start, end) in cuts {
            let mut hasher = sums.range_hasher();
            hasher.update(&bytes[start..end]);
            sums.add(start as u64, hasher);
        }
        assert_eq!(sums.missing(), [ChecksumAlgorithm::Md5]);
        assert_eq!(sums.ranges.len(), 1, "adjacent ranges are merged");
        assert_eq!(sums.finish(bytes.len() as u64), Some(whole.finish()));
    }

    #[test]
    fn overlaps_are_distinguished_from_neighbours() {
        let mut sums = RangeSums::new(&[ChecksumAlgorithm::Adler32]);
        for start in [10, 40] {
            let mut hasher = sums.range_hasher();
            hasher.update(&[7; 10]);
            sums.add(start, hasher);
        }
        for (start, end, overlaps) in [
            (0, 10, false),
            (0, 11, true),
            (19, 20, true),
            (20, 40, false),
            (20, 41, true),
            (50, 60, false),
            (0, 100, true),
            (15, 15, false),
        ] {
            assert_eq!(sums.overlaps(ByteRange::new(start, end)), overlaps, "{start}..{end}");
        }
        assert_eq!(sums.range_count(), 2);
    }

    #[test]
    fn a_hole_is_noticed() {
        let mut sums = RangeSums::new(&[ChecksumAlgorithm::Adler32]);
        for start in [0, 20] {
            let mut hasher = sums.range_hasher();
            hasher.update(&[7; 10]);
            sums.add(start, hasher);
        }
        assert_eq!(sums.finish(30), None);
        assert!(RangeSums::new(&[ChecksumAlgorithm::Adler32]).finish(0).is_some());
    }
}
