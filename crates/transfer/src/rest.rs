//! The remaining blocks of a file that is fetched over several streams, and their lengths.

use std::time::Duration;

use crate::limits::{STREAM_BLOCK_BYTES, STREAM_BLOCK_BYTES_MAX, STREAM_BLOCK_BYTES_MIN};
use types::ByteRange;

/// Least length of a block, in round trips of data, because each block costs an idle round trip.
const BLOCK_ROUND_TRIPS_MIN: u128 = 4;

/// The ranges that no stream has taken yet.
pub(crate) struct Rest {
    range: ByteRange,
    /// Ranges that added streams gave back.
    left: Vec<ByteRange>,
    /// Each block lies within one of these.
    block_bytes: Option<u64>,
}

impl Rest {
    pub(crate) fn new(range: ByteRange) -> Self {
        Self {
            range,
            left: Vec::new(),
            block_bytes: None,
        }
    }

    /// The same in blocks of this many bytes, counted from the beginning of the file.
    pub(crate) fn in_blocks(self, block_bytes: Option<u64>) -> Self {
        Self { block_bytes, ..self }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.range.len() + self.left.iter().map(ByteRange::len).sum::<u64>()
    }

    /// The next block; empty if there is none. Each is a fraction of the rest: long at first,
    /// because each block costs an idle round trip, and short at the end, down to `least_bytes`, so
    /// that all streams end at about the same time.
    pub(crate) fn take_block(&mut self, sharers: u32, least_bytes: u64) -> ByteRange {
        if let Some(block) = self.left.pop() {
            return block;
        }
        if let Some(block_bytes) = self.block_bytes {
            return self.range.take_front(block_bytes - self.range.start % block_bytes);
        }
        let part = self.range.len() / (u64::from(sharers) + 1);
        self.range.take_front(part.clamp(least_bytes, STREAM_BLOCK_BYTES_MAX))
    }

    /// Takes back the rest of a stream's block.
    pub(crate) fn take_back(&mut self, block: ByteRange) {
        self.left.push(block);
    }
}

/// The shortest block that is worth its round trip `rtt`, for a stream that fetched `bytes` in
/// `time`.
pub(crate) fn least_block_bytes(bytes: u64, time: Duration, rtt: Option<Duration>) -> u64 {
    let Some(rtt) = rtt else {
        return STREAM_BLOCK_BYTES;
    };
    let each_round_trip = u128::from(bytes) * rtt.as_micros() / time.as_micros().max(1);
    u64::try_from(each_round_trip * BLOCK_ROUND_TRIPS_MIN)
        .unwrap_or(STREAM_BLOCK_BYTES)
        .clamp(STREAM_BLOCK_BYTES_MIN, STREAM_BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGA: u64 = 1 << 20;

    #[test]
    fn blocks_become_shorter_towards_the_end_and_leave_nothing_out() {
        let whole = ByteRange::new(5, 1024 * MEGA);
        let mut rest = Rest::new(whole);
        let (mut end, mut lengths) = (whole.start, Vec::new());
        loop {
            let block = rest.take_block(2, STREAM_BLOCK_BYTES_MIN);
            if block.is_empty() {
                break;
            }
            assert_eq!(block.start, end);
            end = block.end;
            lengths.push(block.len());
        }
        assert_eq!(end, whole.end);
        assert_eq!(lengths[0], whole.len() / 3);
        assert!(lengths.windows(2).all(|pair| pair[0] >= pair[1]));
        assert!(
            lengths
                .iter()
                .rev()
                .skip(1)
                .all(|length| *length >= STREAM_BLOCK_BYTES_MIN)
        );
        assert!(lengths.len() < 20, "{lengths:?}");
        assert_eq!(rest.bytes(), 0);
    }

    #[test]
    fn blocks_may_have_one_length() {
        let mut rest = Rest::new(ByteRange::new(0, 25)).in_blocks(Some(10));
        let blocks: Vec<_> = (0..4).map(|_| rest.take_block(3, 1)).collect();
        assert_eq!(
            blocks[..3],
            [ByteRange::new(0, 10), ByteRange::new(10, 20), ByteRange::new(20, 25)]
        );
        assert!(blocks[3].is_empty());
    }

    #[test]
    fn what_a_stream_leaves_is_taken_first() {
        let mut rest = Rest::new(ByteRange::new(0, 100 * MEGA));
        let mut block = rest.take_block(1, STREAM_BLOCK_BYTES);
        block.take_front(MEGA);
        rest.take_back(block);
        assert_eq!(rest.bytes(), 99 * MEGA);
        assert_eq!(rest.take_block(1, STREAM_BLOCK_BYTES), block);
    }

    #[test]
    fn a_block_is_worth_its_round_trip() {
        let second = Duration::from_secs(1);
        let least = |bytes, rtt_ms| least_block_bytes(bytes, second, Some(Duration::from_millis(rtt_ms)));
        // 4 MiB per round trip, 1 MiB, and almost nothing.
        assert_eq!(least(40 * MEGA, 100), STREAM_BLOCK_BYTES);
        assert_eq!(least(20 * MEGA, 50), 4 * MEGA);
        assert_eq!(least(600 * MEGA, 0), STREAM_BLOCK_BYTES_MIN);
        assert_eq!(
            least_block_bytes(MEGA, Duration::ZERO, Some(second)),
            STREAM_BLOCK_BYTES
        );
        assert_eq!(least_block_bytes(MEGA, second, None), STREAM_BLOCK_BYTES);
    }
}
