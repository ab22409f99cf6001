//! The clock and the random numbers of the doors: pure rooms are handed their time and their chance
//! by whoever calls them, and this is where doors take both from.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time, in seconds since 1970.
#[must_use]
pub fn now_s() -> i64 {
    unix_s(SystemTime::now())
}

/// A time in seconds since 1970; negative before.
#[must_use]
pub fn unix_s(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
    }
}

/// Fresh random bytes that nobody can guess, for what grants rights.
#[must_use]
pub fn random<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    // The generator fails only when the system has no randomness at all; names that are not unique
    // are then the smaller evil.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes
}

/// Fills bytes of which keys are made.
///
/// # Panics
/// When the system has no randomness: there is nothing safe to go on with.
pub fn fill(bytes: &mut [u8]) {
    assert!(aws_lc_rs::rand::fill(bytes).is_ok(), "the system has no randomness");
}

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    push_hex(&mut text, bytes);
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

thread_local! {
    /// The state of this thread's sequence of names.
    static SEQUENCE: Cell<u64> = Cell::new(u64::from_ne_bytes(random()));
}

/// Random bytes that only need to be unlike all others, for names in logs: every request takes some,
/// and asking the secure generator each time was seen in profiles. This is the SplitMix64 sequence
/// (Steele, Lea, Flood 2014) from a secure start.
fn unlike_others<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    for piece in bytes.chunks_mut(8) {
        let state = SEQUENCE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        SEQUENCE.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        piece.copy_from_slice(&(mixed ^ (mixed >> 31)).to_be_bytes()[..piece.len()]);
    }
    bytes
}

/// A name for a request or a transfer.
#[must_use]
pub fn fresh_id() -> String {
    hex(&unlike_others::<12>())
}

/// The trace of what is done for a request (W3C Trace Context §3.2): a child of the client's, or a
/// new one that nobody samples.
#[must_use]
pub fn child_trace(parent: Option<&str>) -> String {
    const TRACE_BYTES: usize = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".len();
    let mut parts = parent.unwrap_or_default().split('-').skip(1);
    let known = parts.next().zip(parts.nth(1));
    let mut text = String::with_capacity(TRACE_BYTES);
    text.push_str("00-");
    match known {
        Some((trace, _)) => text.push_str(trace),
        None => push_hex(&mut text, &unlike_others::<16>()),
    }
    text.push('-');
    push_hex(&mut text, &unlike_others::<8>());
    text.push('-');
    text.push_str(known.map_or("00", |(_, flags)| flags));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_repeat_between_threads_or_in_one() {
        let names = || (0..1000).map(|_| fresh_id()).collect::<Vec<_>>();
        let others = std::thread::spawn(names).join().unwrap();
        let all: std::collections::HashSet<_> = names().into_iter().chain(others).collect();
        assert_eq!(all.len(), 2000);
        assert!(all.iter().all(|name| name.len() == 24));
    }

    #[test]
    fn a_trace_goes_on_under_another_span() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let child = child_trace(Some(parent));
        assert_eq!(child.len(), parent.len());
        assert!(child.starts_with(&parent[..36]) && child.ends_with("-01") && child != parent);
        let fresh = child_trace(None);
        assert_eq!(fresh.len(), parent.len());
        assert_ne!(fresh[3..35], child_trace(None)[3..35]);
    }
}
