//! Adler-32 (RFC 1950 §8.2) with AVX-512 VNNI, twice as fast as with AVX2; `simd-adler32` on other
//! processors.
//!
//! Every stored byte passes through here: with AVX2, Adler-32 was a tenth of the cost of an upload
//! in clear text.
//!
//! This module can go once `simd-adler32` has AVX-512 for stable compilers: its own version
//! (0.3.10) needs nightly features.

use std::fmt;

/// The checksum of the bytes so far.
#[derive(Clone)]
pub struct Adler32(State);

#[derive(Clone)]
enum State {
    /// On a processor that `wide` supports.
    #[cfg(target_arch = "x86_64")]
    Wide(u32),
    Portable(simd_adler32::Adler32),
}

impl Adler32 {
    /// The checksum of no bytes.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        if wide::is_supported() {
            return Self(State::Wide(1));
        }
        Self::portable()
    }

    fn portable() -> Self {
        Self(State::Portable(simd_adler32::Adler32::new()))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            #[cfg(target_arch = "x86_64")]
            State::Wide(sum) => *sum = wide::updated(*sum, bytes),
            State::Portable(sum) => sum.write(bytes),
        }
    }

    /// The value.
    #[must_use]
    pub fn finish(&self) -> u32 {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            State::Wide(sum) => *sum,
            State::Portable(sum) => sum.finish(),
        }
    }
}

impl Default for Adler32 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Adler32 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Adler32({:08x})", self.finish())
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi32, _mm512_add_epi64, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_reduce_add_epi32,
        _mm512_reduce_add_epi64, _mm512_sad_epu8, _mm512_setzero_si512, _mm512_slli_epi64,
    };

    /// The largest prime below 2^16.
    const MODULUS: u64 = 65_521;
    /// Bytes per register.
    const BLOCK_BYTES: usize = 64;
    /// Blocks processed together, so that their sums do not depend on each other.
    const BLOCKS: usize = 4;
    /// Bytes between two reductions: the largest weighted sum of 2^16 bytes is 1024 * 255 * (64 +
    /// 63 + ... + 1), 543 million, which fits in the 31 bits of a vector element.
    const ROUND_BYTES: usize = 1 << 16;
    /// How often each byte of a block counts in the second sum at the end of the block.
    static WEIGHTS: [u8; BLOCK_BYTES] = {
        let mut weights = [0; BLOCK_BYTES];
        let mut index = 0;
        while index < BLOCK_BYTES {
            weights[index] = (BLOCK_BYTES - index) as u8;
            index += 1;
        }
        weights
    };

    pub(super) fn is_supported() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni")
    }

    /// `sum` extended by `bytes`, on a supported processor.
    #[allow(unsafe_code, reason = "instructions that not every processor has")]
    pub(super) fn updated(sum: u32, bytes: &[u8]) -> u32 {
        debug_assert!(is_supported());
        let (mut first, mut second) = (u64::from(sum & 0xffff), u64::from(sum >> 16));
        let whole_bytes = bytes.len() / BLOCK_BYTES * BLOCK_BYTES;
        let (whole, rest) = bytes.split_at(whole_bytes);
        for round in whole.chunks(ROUND_BYTES) {
            // SAFETY: `State::Wide`, the only caller, is created only after `is_supported` returned
            // true.
            let sums = unsafe { sums_of_blocks(round) };
            second += first * round.len() as u64 + sums.before * BLOCK_BYTES as u64 + sums.weighted;
            first = (first + sums.plain) % MODULUS;
            second %= MODULUS;
        }
        for &byte in rest {
            first += u64::from(byte);
            second += first;
        }
        // Both are below 2^16.
        (((second % MODULUS) << 16) | (first % MODULUS)) as u32
    }

    /// Sums over whole blocks.
    struct Sums {
        /// The sum of all bytes.
        plain: u64,
        /// For each block, the sum of all bytes before it.
        before: u64,
        /// The sum of all bytes, each weighted by its position in its own block.
        weighted: u64,
    }

    /// For at most [`ROUND_BYTES`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn sums_of_blocks(bytes: &[u8]) -> Sums {
        let (blocks, _) = bytes.as_chunks::<BLOCK_BYTES>();
        let (groups, last) = blocks.as_chunks::<BLOCKS>();
        let (zero, weights) = (_mm512_setzero_si512(), load(&WEIGHTS));
        let (mut plain, mut before) = (zero, zero);
        let mut weighted = [zero; BLOCKS];
        for group in groups {
            let mut sums = [zero; BLOCKS];
            for (index, block) in group.iter().enumerate() {
                let block = load(block);
                sums[index] = _mm512_sad_epu8(block, zero);
                weighted[index] = _mm512_dpbusd_epi32(weighted[index], block, weights);
            }
            // Before the four blocks come: all bytes so far, four times; the first block, three
            // times; the second, twice; the third.
            let pair = _mm512_add_epi64(sums[0], sums[1]);
            let within = _mm512_add_epi64(_mm512_slli_epi64::<1>(pair), _mm512_add_epi64(sums[0], sums[2]));
            before = _mm512_add_epi64(before, _mm512_add_epi64(_mm512_slli_epi64::<2>(plain), within));
            plain = _mm512_add_epi64(plain, _mm512_add_epi64(pair, _mm512_add_epi64(sums[2], sums[3])));
        }
        for block in last {
            let block = load(block);
            before = _mm512_add_epi64(before, plain);
            plain = _mm512_add_epi64(plain, _mm512_sad_epu8(block, zero));
            weighted[0] = _mm512_dpbusd_epi32(weighted[0], block, weights);
        }
        let weighted = _mm512_add_epi32(
            _mm512_add_epi32(weighted[0], weighted[1]),
            _mm512_add_epi32(weighted[2], weighted[3]),
        );
        // None of them is negative.
        Sums {
            plain: _mm512_reduce_add_epi64(plain) as u64,
            before: _mm512_reduce_add_epi64(before) as u64,
            weighted: _mm512_reduce_add_epi32(weighted) as u64,
        }
    }

    #[allow(unsafe_code, reason = "a register is loaded by address")]
    #[target_feature(enable = "avx512f")]
    fn load(block: &[u8; BLOCK_BYTES]) -> __m512i {
        // SAFETY: reads exactly one register's bytes; any alignment is allowed.
        unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As defined in RFC 1950.
    fn by_the_book(bytes: &[u8]) -> u32 {
        let (mut first, mut second) = (1, 0);
        for byte in bytes {
            first = (first + u32::from(*byte)) % 65_521;
            second = (second + first) % 65_521;
        }
        (second << 16) | first
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn of(mut sum: Adler32, parts: &[&[u8]]) -> u32 {
        parts.iter().for_each(|part| sum.update(part));
        sum.finish()
    }

    #[test]
    fn the_sum_matches_the_rfc_for_every_length_and_split() {
        let bytes = noise((1 << 17) + 777);
        let lengths = (0..600).chain([65_535, 65_536, 65_537, 65_600, 65_792, 1 << 17, bytes.len()]);
        for length in lengths {
            let bytes = &bytes[..length];
            let expected = by_the_book(bytes);
            let (front, back) = bytes.split_at(length / 3);
            for sum in [Adler32::new, Adler32::portable] {
                assert_eq!(of(sum(), &[bytes]), expected, "{length} bytes");
                assert_eq!(of(sum(), &[front, back]), expected, "{length} bytes in two parts");
            }
        }
    }

    #[test]
    fn the_largest_sums_do_not_overflow() {
        let bytes = vec![0xff; (1 << 18) + 63];
        // Both sums are large after such bytes, in one part and in a second one.
        for parts in [&[&bytes[..]][..], &[&bytes[..], &bytes[..]]] {
            let expected = by_the_book(&parts.concat());
            assert_eq!(of(Adler32::new(), parts), expected);
            assert_eq!(of(Adler32::portable(), parts), expected);
        }
    }

    #[test]
    fn debug_shows_the_value() {
        let mut sum = Adler32::default();
        sum.update(b"Wikipedia");
        assert_eq!(format!("{sum:?}"), "Adler32(11e60398)");
    }
}
