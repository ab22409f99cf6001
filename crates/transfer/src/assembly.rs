//! Assembles a file from blocks in any order, as protocols with write requests send them. Checksums
//! are computed from the blocks where possible, otherwise by reading the file again.

use std::sync::Arc;

use crate::limits::{HASHED_RANGES_MAX, HASHED_RUNS_MAX};
use endpoint::{ClientId, Store};
use net::Batch;
use net::pages::Pages;
use storage::{Hasher, RangeSums, WriteHandle};
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use crate::mover::Payload;
use crate::progress::Progress;

/// A file that is stored block by block.
///
/// Dropping it, even within a block, leaves the upload uncommitted.
pub struct Assembly {
    store: Store,
    upload: Arc<dyn WriteHandle>,
    tally: Tally,
}

impl Assembly {
    /// An empty file. Checksums that can be combined are computed for any order of blocks, the
    /// others only while blocks arrive in order.
    #[must_use]
    pub fn new(store: &Store, upload: Arc<dyn WriteHandle>, algorithms: &[ChecksumAlgorithm]) -> Self {
        Self {
            store: store.clone(),
            upload,
            tally: Tally::new(algorithms),
        }
    }

    /// The upload, to commit, abort or reread it.
    #[must_use]
    pub fn upload(&self) -> &Arc<dyn WriteHandle> {
        &self.upload
    }

    /// The end of the last byte written.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.tally.end
    }

    /// Stores a payload at `offset`. Returns its size in bytes.
    ///
    /// # Errors
    /// Those of the payload and of the store. The caller must then skip the rest of the payload.
    pub async fn receive(&mut self, payload: &mut impl Payload, offset: u64, progress: &Progress) -> Result<u64> {
        let mut at = offset;
        while let Some(batch) = payload.next().await? {
            let length = batch.len() as u64;
            self.write(batch, at).await?;
            at += length;
            progress.add_moved(length);
        }
        Ok(at - offset)
    }

    /// Stores a payload of pages with checksums, `wire_bytes` in all, at `offset`. Returns the
    /// offsets of pages with wrong checksums, as [`Pages::damaged`] does. These are stored too: by
    /// the protocol the sender writes them again.
    ///
    /// # Errors
    /// As [`Assembly::receive`]; `bad_request` before reading anything if `wire_bytes` cannot be
    /// whole pages.
    pub async fn receive_pages(
        &mut self,
        payload: &mut impl Payload,
        offset: u64,
        wire_bytes: usize,
        progress: &Progress,
    ) -> Result<Vec<ByteRange>> {
        let Some(mut pages) = Pages::new(offset, wire_bytes) else {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Transfer);
            return Err(error.with_detail("the last page has no data"));
        };
        let mut at = offset;
        while let Some(mut batch) = payload.next().await? {
            pages.strip(&mut batch);
            let length = batch.len() as u64;
            self.write(batch, at).await?;
            at += length;
            progress.add_moved(length);
        }
        Ok(pages.into_damaged())
    }

    /// Writes a batch at `offset`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn write(&mut self, batch: Batch, offset: u64) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        // Hashed here, while the bytes are in the processor's cache.
        self.tally.take(offset, batch.len() as u64, batch.slices());
        // If the write is cancelled, it is unknown what reached the file.
        let was_spoiled = std::mem::replace(&mut self.tally.is_spoiled, true);
        self.upload.write(batch, offset).await?;
        self.tally.is_spoiled = was_spoiled;
        Ok(())
    }

    /// Truncates the file to this length, or extends it with zeros.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn set_length(&mut self, size_bytes: u64) -> Result<()> {
        self.tally.set_length(size_bytes);
        self.store.set_length(&self.upload, size_bytes).await
    }

    /// The checksums of the file up to [`Assembly::end_bytes`], in the order of
    /// [`ChecksumAlgorithm`]. Those that are not known from the blocks are computed by reading the
    /// file, queued fairly among clients, if the store can read it. Later writes are not included.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn checksums(&mut self, client: &ClientId) -> Result<Vec<Checksum>> {
        let tally = std::mem::replace(&mut self.tally, Tally::new(&[]));
        self.tally.end = tally.end;
        let (mut checksums, missing) = tally.finish();
        // Of an upload that cannot be read, those that are known must do.
        if !missing.is_empty() && (self.upload.is_readable() || checksums.is_empty()) {
            checksums.extend(self.store.reread(&self.upload, &missing, client).await?);
        }
        checksums.sort_by_key(Checksum::algorithm);
        Ok(checksums)
    }
}

impl std::fmt::Debug for Assembly {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Assembly({} bytes)", self.tally.end)
    }
}

/// Checksums of a file while its blocks arrive.
struct Tally {
    algorithms: Vec<ChecksumAlgorithm>,
    /// Checksums that cannot be combined, over the part of the file that arrived in order.
    in_order: Hasher,
    /// Checksums that can be combined, of finished ranges.
    sums: RangeSums,
    /// Growing ranges, at whose ends the next blocks are expected; the last one used is at the
    /// back.
    runs: Vec<Run>,
    end: u64,
    /// Some bytes were written twice, or perhaps not at all. The file must be read.
    is_spoiled: bool,
}

struct Run {
    start: u64,
    hasher: Hasher,
}

impl Run {
    fn range(&self) -> ByteRange {
        ByteRange::new(self.start, self.start + self.hasher.length_bytes())
    }
}

impl Tally {
    fn new(algorithms: &[ChecksumAlgorithm]) -> Self {
        let mut algorithms = algorithms.to_vec();
        algorithms.sort_unstable();
        algorithms.dedup();
        let (combining, others): (Vec<_>, Vec<_>) = algorithms.iter().partition(|algorithm| algorithm.combines());
        Self {
            algorithms,
            in_order: Hasher::new(&others),
            sums: RangeSums::new(&combining),
            runs: Vec::new(),
            end: 0,
            is_spoiled: false,
        }
    }

    /// Adds a block of `length` bytes at `offset`.
    fn take<'a>(&mut self, offset: u64, length: u64, slices: impl Iterator<Item = &'a [u8]>) {
        let block = ByteRange::new(offset, offset.saturating_add(length));
        self.end = self.end.max(block.end);
        if self.algorithms.is_empty() || self.is_spoiled {
            return;
        }
        if self.overlaps(block) {
            self.spoil();
            return;
        }
        let continues = self.runs.iter().rposition(|run| run.range().end == offset);
        let mut run = match continues {
            Some(index) => self.runs.remove(index),
            None => Run {
                start: offset,
                hasher: self.sums.range_hasher(),
            },
        };
        let is_in_order = self.in_order.length_bytes() == offset;
        for slice in slices {
            run.hasher.update(slice);
            if is_in_order {
                self.in_order.update(slice);
            }
        }
        self.runs.push(run);
        if self.runs.len() > HASHED_RUNS_MAX {
            let idle = self.runs.remove(0);
            self.sums.add(idle.start, idle.hasher);
        }
        if self.sums.range_count() > HASHED_RANGES_MAX {
            self.spoil();
        }
    }

    fn overlaps(&self, block: ByteRange) -> bool {
        let with_run = |run: &Run| run.range().start < block.end && block.start < run.range().end;
        self.runs.iter().any(with_run) || self.sums.overlaps(block)
    }

    fn spoil(&mut self) {
        self.is_spoiled = true;
        self.runs = Vec::new();
        self.sums = RangeSums::new(&[]);
    }

    fn set_length(&mut self, size_bytes: u64) {
        if size_bytes == 0 {
            *self = Self::new(&self.algorithms);
        } else if size_bytes < self.end {
            self.spoil();
        }
        self.end = size_bytes;
    }

    /// The known checksums, and the algorithms for which the file must be read.
    fn finish(mut self) -> (Vec<Checksum>, Vec<ChecksumAlgorithm>) {
        if self.is_spoiled {
            return (Vec::new(), self.algorithms);
        }
        for run in self.runs {
            self.sums.add(run.start, run.hasher);
        }
        let mut known = self.sums.finish(self.end).unwrap_or_default();
        if self.in_order.length_bytes() == self.end {
            known.extend(self.in_order.finish());
        }
        let is_known = |algorithm: &ChecksumAlgorithm| known.iter().any(|sum| sum.algorithm() == *algorithm);
        let missing = self
            .algorithms
            .iter()
            .copied()
            .filter(|algorithm| !is_known(algorithm))
            .collect();
        (known, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALGORITHMS: [ChecksumAlgorithm; 3] = [
        ChecksumAlgorithm::Adler32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Md5,
    ];

    fn pattern(length: usize) -> Vec<u8> {
        (0..length)
            .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
            .collect()
    }

    fn expected(bytes: &[u8], algorithms: &[ChecksumAlgorithm]) -> Vec<Checksum> {
        let mut hasher = Hasher::new(algorithms);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Adds blocks of 1000 bytes of a pattern in this order.
    fn tally(order: &[usize]) -> Tally {
        let bytes = pattern(1000 * (order.iter().max().unwrap() + 1));
        let mut tally = Tally::new(&ALGORITHMS);
        for &block in order {
            let data = &bytes[block * 1000..][..1000];
            // Each block comes in several pieces.
            tally.take(block as u64 * 1000, 300, std::iter::once(&data[..300]));
            tally.take(
                block as u64 * 1000 + 300,
                700,
                [&data[300..500], &data[500..]].into_iter(),
            );
        }
        tally
    }

    #[test]
    fn blocks_in_order_give_everything() {
        let (known, missing) = tally(&[0, 1, 2, 3]).finish();
        assert_eq!((known, missing), (expected(&pattern(4000), &ALGORITHMS), Vec::new()));
    }

    #[test]
    fn blocks_out_of_order_give_what_can_be_combined() {
        for order in [&[3, 2, 1, 0][..], &[0, 2, 1, 3], &[1, 3, 0, 2], &[2, 3, 0, 1]] {
            let (known, missing) = tally(order).finish();
            assert_eq!(known, expected(&pattern(4000), &ALGORITHMS[..2]), "{order:?}");
            assert_eq!(missing, [ChecksumAlgorithm::Md5], "{order:?}");
        }
    }

    #[test]
    fn a_gap_or_a_block_written_twice_leaves_only_reading() {
        for order in [&[0, 2][..], &[1, 2], &[0, 1, 2, 1], &[0, 0]] {
            let (known, missing) = tally(order).finish();
            assert_eq!((known.len(), missing.len()), (0, 3), "{order:?}");
        }
    }

    #[test]
    fn many_places_at_once_are_put_together_all_the_same() {
        // Every third block first, so that no two of them touch.
        let count = HASHED_RUNS_MAX * 9;
        let order: Vec<_> = (0..3).flat_map(|first| (first..count).step_by(3)).collect();
        let tally = tally(&order);
        assert!(tally.runs.len() <= HASHED_RUNS_MAX);
        let (known, _) = tally.finish();
        assert_eq!(known, expected(&pattern(1000 * count), &ALGORITHMS[..2]));
    }

    #[test]
    fn gaps_without_end_are_not_remembered() {
        let mut tally = Tally::new(&ALGORITHMS);
        for block in 0..=(HASHED_RANGES_MAX + HASHED_RUNS_MAX) as u64 {
            tally.take(2 * block, 1, std::iter::once(&b"x"[..]));
        }
        assert!(tally.is_spoiled && tally.runs.is_empty());
        assert_eq!(tally.finish().1.len(), 3);
    }

    #[test]
    fn changes_of_length_are_heeded() {
        let mut longer = tally(&[0, 1]);
        longer.set_length(2001);
        assert_eq!((longer.end, longer.finish().1.len()), (2001, 3));
        let mut shorter = tally(&[0, 1]);
        shorter.set_length(1999);
        assert_eq!((shorter.end, shorter.finish().1.len()), (1999, 3));
        let mut same = tally(&[0, 1]);
        same.set_length(2000);
        assert_eq!(same.finish().1, []);
        let mut again = tally(&[0, 0]);
        again.set_length(0);
        again.take(0, 1000, std::iter::once(&pattern(1000)[..]));
        assert_eq!(again.finish().0, expected(&pattern(1000), &ALGORITHMS));
    }
}
