//! Random bytes from the secure generator. Pure crates take a generator as an argument; their
//! callers hand in [`fill`].

/// Random bytes that cannot be guessed, for names that grant rights.
#[must_use]
pub fn random<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    // The generator fails only when the system has no randomness at all; names that are not unique
    // are then the smaller evil.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes
}

/// Fills bytes from which keys are made.
///
/// # Panics
/// When the system has no randomness: no key would be safe.
pub fn fill(bytes: &mut [u8]) {
    assert!(aws_lc_rs::rand::fill(bytes).is_ok(), "the system has no randomness");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_equal() {
        let mut filled = [0; 32];
        fill(&mut filled);
        assert_ne!(filled, random::<32>());
        assert_ne!(random::<32>(), random::<32>());
    }
}
