//! Small changes to inputs, repeatable from a seed: what `cargo test` has in place of libFuzzer.
//!
//! There is no coverage to guide it, so it stays close to the corpus and uses each target's own
//! words. It finds what a few edits away from a known input breaks; the deep search is libFuzzer's.

/// Longest input that is made, in bytes: longer than any decoder's line, short enough for many
/// tries.
const INPUT_BYTES_MAX: usize = 16 * 1024;
/// Most edits made to one input.
const EDITS_MAX: u64 = 6;
/// Bytes at which decoders change their mind.
const TELLING_BYTES: [u8; 16] = [
    0, 1, b'\t', b'\n', b'\r', b' ', b'"', b'%', b'/', b'0', b'9', b':', b';', 0x7F, 0x80, 0xFF,
];

/// A source of inputs.
#[derive(Debug)]
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    words: &'a [&'a str],
    state: u64,
}

impl<'a> Mutator<'a> {
    /// A source that makes the same inputs for the same seed, corpus and words.
    #[must_use]
    pub fn new(seed: u64, corpus: &'a [Vec<u8>], words: &'a [&'a str]) -> Self {
        Self {
            corpus,
            words,
            state: seed,
        }
    }

    /// The next input: an entry of the corpus with a few edits.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.entry().to_vec();
        for _ in 0..=self.below(EDITS_MAX) {
            self.edit(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn edit(&mut self, input: &mut Vec<u8>) {
        let position = self.below(input.len() as u64 + 1) as usize;
        let length = self.below((input.len() - position) as u64 + 1).min(self.below(64)) as usize;
        let range = position..position + length;
        match self.below(8) {
            0 if position < input.len() => input[position] ^= 1 << self.below(8),
            1 if position < input.len() => input[position] = self.telling_byte(),
            2 => input.insert(position, self.telling_byte()),
            3 => drop(input.drain(range)),
            4 => {
                let copy = input[range].to_vec();
                input.splice(position..position, copy);
            }
            5 => {
                let other = self.entry();
                let from = self.below(other.len() as u64 + 1) as usize;
                input.truncate(position);
                input.extend_from_slice(&other[from..]);
            }
            6 => input.truncate(position),
            _ => {
                let word = self.word();
                input.splice(position..position, word.bytes());
            }
        }
    }

    fn entry(&mut self) -> &'a [u8] {
        let corpus = self.corpus;
        match self.below(corpus.len() as u64) {
            _ if corpus.is_empty() => &[],
            index => &corpus[index as usize],
        }
    }

    fn word(&mut self) -> &'a str {
        let words = self.words;
        match self.below(words.len() as u64) {
            _ if words.is_empty() => "",
            index => words[index as usize],
        }
    }

    fn telling_byte(&mut self) -> u8 {
        let index = self.below(TELLING_BYTES.len() as u64 + 4) as usize;
        TELLING_BYTES
            .get(index)
            .copied()
            .unwrap_or((self.random() & 0xFF) as u8)
    }

    /// A number below `limit`; 0 when the limit is 0.
    fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.random() % limit }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to choose edits.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(seed: u64) -> Vec<Vec<u8>> {
        let corpus = vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()];
        let mut mutator = Mutator::new(seed, &corpus, &["Host: a\r\n"]);
        (0..200).map(|_| mutator.next_input()).collect()
    }

    #[test]
    fn a_seed_repeats_and_another_does_not() {
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
    }

    #[test]
    fn inputs_differ_from_each_other_and_stay_short() {
        let made = inputs(3);
        let distinct: std::collections::HashSet<_> = made.iter().collect();
        assert!(distinct.len() > 150, "{} of {}", distinct.len(), made.len());
        assert!(made.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
    }

    #[test]
    fn an_empty_corpus_still_gives_inputs() {
        let mut mutator = Mutator::new(1, &[], &[]);
        assert!((0..100).any(|_| !mutator.next_input().is_empty()));
    }
}
