//! The remaining blocks of a file that is fetched over several streams, and their lengths.

use std::time::Duration;

use crate::limits::{STREAM_BLOCK_BYTES, STREAM_BLOCK_BYTES_MAX, STREAM_BLOCK_BYTES_MIN};
use types::ByteRange;

/// Least length of a block, in round trips of data, because each block costs an idle round trip.
const BLOCK_ROUND_TRIPS_MIN: u128 = 4;

/// The ranges that no stream has taken yet.
pub(crate) struct Rest {
    range: ByteRange,
    /// Ranges that added streams gave back, or left between them.
    left: Vec<ByteRange>,
    /// Each block lies within one of these.
    block_bytes: Option<u64>,
    /// The first stream takes everything.
    is_undivided: bool,
    held: Option<Held>,
}

/// What the stream that took everything has still to receive.
struct Held {
    range: ByteRange,
    /// Tails of it that added streams have requested and received nothing of; the last one first.
    /// Until then the stream receives them too.
    claims: Vec<ByteRange>,
}

impl Rest {
    pub(crate) fn new(range: ByteRange) -> Self {
        Self {
            range,
            left: Vec::new(),
            block_bytes: None,
            is_undivided: false,
            held: None,
        }
    }

    /// The same for a stream that takes everything at once, and so waits for one answer only. Added
    /// streams take over its tail ([`Rest::claim`]).
    pub(crate) fn undivided(self) -> Self {
        let is_undivided = self.block_bytes.is_none();
        Self { is_undivided, ..self }
    }

    /// Gives all streams blocks from the beginning.
    pub(crate) fn divide(&mut self) {
        self.is_undivided = false;
    }

    /// The same in blocks of this many bytes, counted from the beginning of the file.
    pub(crate) fn in_blocks(self, block_bytes: Option<u64>) -> Self {
        Self { block_bytes, ..self }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.range.len() + self.left.iter().map(ByteRange::len).sum::<u64>()
    }

    /// How many bytes further streams could take, leaving a block to the one that took everything.
    pub(crate) fn shareable_bytes(&self) -> u64 {
        let held = self.held.as_ref().map_or(0, |held| held.range.len());
        self.bytes() + held.saturating_sub(STREAM_BLOCK_BYTES)
    }

    /// Whether one stream is receiving everything that is left, so that others can only
    /// [`claim`](Self::claim).
    pub(crate) fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.range.is_empty()) && self.bytes() == 0
    }

    /// The next block; empty if there is none. Each is a fraction of the rest: long at first,
    /// because each block costs an idle round trip, and short at the end, down to `least_bytes`, so
    /// that all streams end at about the same time.
    pub(crate) fn take_block(&mut self, sharers: u32, least_bytes: u64) -> ByteRange {
        if let Some(block) = self.left.pop() {
            return block;
        }
        if std::mem::take(&mut self.is_undivided) && !self.range.is_empty() {
            let range = self.range.take_front(u64::MAX);
            self.held = Some(Held {
                range,
                claims: Vec::new(),
            });
            return range;
        }
        if let Some(block_bytes) = self.block_bytes {
            return self.range.take_front(block_bytes - self.range.start % block_bytes);
        }
        let part = block_bytes(self.range.len(), sharers, least_bytes);
        self.range.take_front(part)
    }

    /// A tail of what the stream that took everything has still to receive, for an added stream to
    /// request; empty if that is not worth it. It counts as taken with the first bytes, because the
    /// source may serve one stream only.
    pub(crate) fn claim(&mut self, sharers: u32, least_bytes: u64) -> ByteRange {
        let Some(held) = &mut self.held else {
            return ByteRange::new(0, 0);
        };
        let end = held.claims.last().map_or(held.range.end, |claim| claim.start);
        let free_bytes = end.saturating_sub(held.range.start);
        let part = block_bytes(free_bytes, sharers, least_bytes);
        if part + least_bytes > free_bytes {
            return ByteRange::new(end, end);
        }
        let claim = ByteRange::new(end - part, end);
        held.claims.push(claim);
        claim
    }

    /// A stream has received `bytes` of its block. Returns how many of them it has to store. Added
    /// streams may have taken over the end of `block`, which is then shorter; or one of them has
    /// come too late with its claim.
    pub(crate) fn receive(&mut self, block: &mut ByteRange, bytes: u64, is_added: bool) -> u64 {
        match &mut self.held {
            Some(held) if is_added => {
                if let Some(claim) = held.claims.iter().position(|claim| claim == block) {
                    match held.range.start < block.start {
                        true => self.left.extend(held.cut(claim)),
                        false => *block = held.claims.remove(claim).take_front(0),
                    }
                }
            }
            Some(held) if held.range.start == block.start && !held.range.is_empty() => {
                block.end = held.range.end;
                held.range.take_front(bytes);
            }
            _ => {}
        }
        bytes.min(block.len())
    }

    /// Takes back the rest of a stream's block, if there is any.
    pub(crate) fn take_back(&mut self, block: ByteRange) {
        let claims = self.held.as_mut().map(|held| &mut held.claims);
        let claim = claims.and_then(|claims| Some((claims.iter().position(|claim| *claim == block)?, claims)));
        if let Some((index, claims)) = claim {
            // The stream that took everything receives it.
            claims.remove(index);
            return;
        }
        if !block.is_empty() {
            self.left.push(block);
        }
    }
}

impl Held {
    /// Ends before a claim. Returns what lies behind it and is in no other claim.
    fn cut(&mut self, claim: usize) -> Vec<ByteRange> {
        let (mut end, mut gaps) = (self.range.end, Vec::new());
        for taken in self.claims.drain(..=claim) {
            if taken.end < end {
                gaps.push(ByteRange::new(taken.end, end));
            }
            end = taken.start;
        }
        self.range.end = end;
        gaps
    }
}

/// The length of the next block when `bytes` are left.
fn block_bytes(bytes: u64, sharers: u32, least_bytes: u64) -> u64 {
    (bytes / (u64::from(sharers) + 1)).clamp(least_bytes, STREAM_BLOCK_BYTES_MAX)
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

    /// A stream that took a whole file, and the claims of three others, from its end.
    fn held() -> (Rest, ByteRange, [ByteRange; 3]) {
        let mut rest = Rest::new(ByteRange::new(5, 100 * MEGA)).undivided();
        let first = rest.take_block(4, STREAM_BLOCK_BYTES);
        assert_eq!((first, rest.bytes()), (ByteRange::new(5, 100 * MEGA), 0));
        assert!(rest.is_held() && rest.take_block(4, STREAM_BLOCK_BYTES).is_empty());
        let claims = [(); 3].map(|()| rest.claim(4, STREAM_BLOCK_BYTES));
        let starts = claims.map(|claim| claim.start >> 20);
        assert_eq!((claims[0].end, starts), (first.end, [80, 64, 48]));
        assert_eq!((claims[1].end, claims[2].end), (claims[0].start, claims[1].start));
        (rest, first, claims)
    }

    #[test]
    fn one_stream_takes_everything_until_another_one_is_answered() {
        let (mut rest, mut first, [mut tail, ..]) = held();
        assert_eq!(rest.receive(&mut first, MEGA, false), MEGA);
        assert_eq!(
            (first.end, rest.bytes()),
            (100 * MEGA, 0),
            "nothing came for the others"
        );
        first.take_front(MEGA);
        assert_eq!(rest.receive(&mut tail, 1, true), 1);
        assert_eq!(rest.receive(&mut first, 1, false), 1);
        assert_eq!(first.end, tail.start);
        first.take_front(1);
        let long = first.len() + 7;
        assert_eq!(rest.receive(&mut first, long, false), long - 7);
        assert!(!rest.is_held() && rest.bytes() == 0);
    }

    #[test]
    fn a_refused_claim_leaves_everything_as_it_was() {
        let (mut rest, mut first, claims) = held();
        for claim in claims {
            rest.take_back(claim);
        }
        assert_eq!((rest.receive(&mut first, 0, false), first.end), (0, 100 * MEGA));
        assert_eq!((rest.bytes(), rest.claim(4, STREAM_BLOCK_BYTES)), (0, claims[0]));
    }

    #[test]
    fn what_lies_behind_an_answered_claim_is_left_to_all() {
        let (mut rest, mut first, [last, mut middle, front]) = held();
        rest.take_back(last);
        assert_eq!(rest.receive(&mut middle, 1, true), 1);
        rest.receive(&mut first, 0, false);
        assert_eq!((first.end, rest.bytes()), (middle.start, last.len()));
        assert_eq!(rest.take_block(4, STREAM_BLOCK_BYTES), last);
        // A claim that another one was answered behind is still one.
        rest.take_back(front);
        assert_eq!(
            (rest.receive(&mut first, 0, false), first.end, rest.bytes()),
            (0, middle.start, 0)
        );
        // From now on it is a block like others.
        rest.take_back(middle);
        assert_eq!(rest.bytes(), middle.len());
    }

    #[test]
    fn a_claim_that_is_answered_too_late_is_given_up() {
        let (mut rest, mut first, [last, .., mut front]) = held();
        let bytes = front.start - first.start;
        assert_eq!(rest.receive(&mut first, bytes, false), bytes);
        first.take_front(bytes);
        assert_eq!((rest.receive(&mut front, 9, true), front.is_empty()), (0, true));
        let bytes = first.len();
        assert_eq!(rest.receive(&mut first, bytes, false), bytes);
        rest.take_back(last);
        assert_eq!((first.end, rest.bytes()), (last.end, 0), "nothing is fetched twice");
    }

    #[test]
    fn blocks_of_one_length_are_not_taken_at_once() {
        let mut rest = Rest::new(ByteRange::new(0, 25)).in_blocks(Some(10)).undivided();
        assert_eq!(rest.take_block(1, MEGA), ByteRange::new(0, 10));
        let mut rest = Rest::new(ByteRange::new(0, 25 * MEGA)).undivided();
        rest.divide();
        assert_eq!(rest.take_block(1, MEGA), ByteRange::new(0, 25 * MEGA / 2));
        assert!(rest.claim(1, MEGA).is_empty());
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
