//! The names of one node, as a filter: it says "no" with certainty, and "maybe" else.
//!
//! It is a Bloom filter whose seven bits of a name lie in the same 64 bytes (Putze, Sanders and
//! Singler, "Cache-, hash- and space-efficient Bloom filters", 2007), so that a redirector with a
//! thousand nodes touches one cache line for each. Names are hashed with a key that changes with
//! each build (the generation), so that clients cannot choose names that every filter contains.
//! Bits are only added: names that are removed stay until the next build.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use types::LogicalPath;

use super::limits::{FILTER_BITS, FILTER_NAMES_MIN, FILTER_SPARE};

/// Bits of each name.
const PROBES: u32 = 7;
const BLOCK_BITS: u32 = 512;
const BLOCK_WORDS: usize = 8;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = 64;
/// Makes the second half of a key; any odd constant will do.
const KEY_MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// A name, hashed for one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameHash(pub u64);

/// Names one build of a filter, and is the key of its hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Generation(pub u64);

impl Generation {
    /// The hash of a name in this generation.
    #[must_use]
    pub fn hash(self, path: &LogicalPath) -> NameHash {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.0.rotate_left(32).wrapping_mul(KEY_MIX));
        hasher.write(path.as_str().as_bytes());
        NameHash(hasher.finish())
    }
}

/// A hash that is the same everywhere, for names of subjects.
pub(super) fn fixed_hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// A set of names that may contain more than it should, and never less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    generation: Generation,
    blocks: Vec<[u64; BLOCK_WORDS]>,
}

impl Filter {
    /// An empty filter of so many blocks, at least one.
    #[must_use]
    pub fn of_blocks(generation: Generation, blocks: usize) -> Self {
        Self {
            generation,
            blocks: vec![[0; BLOCK_WORDS]; blocks.max(1)],
        }
    }

    /// An empty filter with room for so many names, and some more.
    #[must_use]
    pub fn for_names(generation: Generation, names: usize) -> Self {
        let capacity = Self::capacity_for(names);
        Self::of_blocks(generation, (capacity * FILTER_BITS).div_ceil(BLOCK_BITS as usize))
    }

    /// Names that a filter for so many names has room for.
    #[must_use]
    pub fn capacity_for(names: usize) -> usize {
        let spare = (names as f64 * FILTER_SPARE) as usize;
        (names + spare).max(FILTER_NAMES_MIN)
    }

    /// Which build it is.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Its blocks of [`BLOCK_BYTES`] bytes.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Adds a name.
    pub fn add(&mut self, name: NameHash) {
        let block = self.block_of(name);
        for place in places(name) {
            self.blocks[block][place.word] |= place.bit;
        }
    }

    /// Whether it may contain a name. "No" is certain.
    #[must_use]
    pub fn may_contain(&self, name: NameHash) -> bool {
        let block = &self.blocks[self.block_of(name)];
        places(name).all(|place| block[place.word] & place.bit != 0)
    }

    fn block_of(&self, name: NameHash) -> usize {
        // The high bits choose the block (Lemire's multiplication instead of a division).
        ((u128::from(name.0) * self.blocks.len() as u128) >> 64) as usize
    }

    /// Bytes of some blocks, in little-endian order. Blocks that do not exist are left out.
    #[must_use]
    pub fn piece(&self, first: usize, count: usize) -> Vec<u8> {
        let end = first.saturating_add(count).min(self.blocks.len());
        let blocks = self.blocks.get(first..end).unwrap_or_default();
        blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Adds the bits of a piece at this block. Answers whether it lies within the filter.
    pub fn merge(&mut self, first: usize, piece: &[u8]) -> bool {
        let count = piece.len() / BLOCK_BYTES;
        let target = self.blocks.get_mut(first..first.saturating_add(count));
        let (Some(blocks), true) = (target, piece.len().is_multiple_of(BLOCK_BYTES)) else {
            return false;
        };
        let words = piece.chunks_exact(size_of::<u64>());
        for (word, bytes) in blocks.iter_mut().flatten().zip(words) {
            let mut value = [0; size_of::<u64>()];
            value.copy_from_slice(bytes);
            *word |= u64::from_le_bytes(value);
        }
        true
    }
}

struct Place {
    word: usize,
    bit: u64,
}

/// The bits of a name in its block. They come from other bits than the block does.
fn places(name: NameHash) -> impl Iterator<Item = Place> {
    // The last step of splitmix64.
    let mut mixed = name.0.wrapping_add(KEY_MIX);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (0..PROBES).map(move |probe| {
        let bit = (mixed >> (9 * probe)) & u64::from(BLOCK_BITS - 1);
        Place {
            word: (bit / 64) as usize,
            bit: 1 << (bit % 64),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> LogicalPath {
        LogicalPath::parse(&format!("/data/run/{number}/file.root")).unwrap()
    }

    fn filled(generation: Generation, names: usize) -> Filter {
        let mut filter = Filter::for_names(generation, names);
        (0..names).for_each(|number| filter.add(generation.hash(&name(number))));
        filter
    }

    #[test]
    fn it_never_denies_a_name_and_seldom_claims_another() {
        let generation = Generation(17);
        let names = 30_000;
        let filter = filled(generation, names);
        assert!((0..names).all(|number| filter.may_contain(generation.hash(&name(number)))));
        let tried = 30_000;
        let wrong = (names..names + tried).filter(|number| filter.may_contain(generation.hash(&name(*number))));
        let share = wrong.count() as f64 / tried as f64;
        assert!(share < 0.01, "{share}");
        assert!(filter.bytes() as f64 / names as f64 <= 1.6);
    }

    #[test]
    fn a_full_filter_is_still_useful() {
        let generation = Generation(3);
        let mut filter = Filter::for_names(generation, 40_000);
        let capacity = Filter::capacity_for(40_000);
        (0..capacity).for_each(|number| filter.add(generation.hash(&name(number))));
        let wrong = (capacity..2 * capacity).filter(|number| filter.may_contain(generation.hash(&name(*number))));
        assert!(wrong.count() as f64 / (capacity as f64) < 0.02);
    }

    #[test]
    fn generations_have_nothing_in_common() {
        let (one, other) = (Generation(1), Generation(2));
        let claimed: Vec<usize> = {
            let filter = filled(one, 10_000);
            let is_claimed = |number: &usize| filter.may_contain(one.hash(&name(*number)));
            (10_000..100_000).filter(is_claimed).collect()
        };
        let filter = filled(other, 10_000);
        let again = claimed
            .iter()
            .filter(|number| filter.may_contain(other.hash(&name(**number))));
        assert!(again.count() * 10 < claimed.len().max(10));
    }

    #[test]
    fn pieces_make_the_same_filter() {
        let generation = Generation(5);
        let filter = filled(generation, 30_000);
        let mut copy = Filter::of_blocks(generation, filter.block_count());
        for first in (0..filter.block_count()).step_by(100) {
            assert!(copy.merge(first, &filter.piece(first, 100)));
        }
        assert_eq!(copy, filter);
        assert!(!copy.merge(filter.block_count(), &[0; BLOCK_BYTES]));
        assert!(!copy.merge(0, &[0; BLOCK_BYTES + 1]));
        assert!(filter.piece(filter.block_count() + 7, 100).is_empty());
    }
}
