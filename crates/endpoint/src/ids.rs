//! Identifiers of requests, transfers and traces, as they appear in logs and at peers.

use std::cell::Cell;

use net::random::random;

use crate::limits::{FOREIGN_ID_BYTES_MAX, TRACED_ID_BYTES};

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
    /// The state of this thread's sequence of identifiers.
    static SEQUENCE: Cell<u64> = Cell::new(u64::from_ne_bytes(random()));
}

/// Random bytes that must be unique but may be guessable, for identifiers in logs. Every request
/// takes some, and the secure generator showed up in profiles. This is SplitMix64 (Steele, Lea,
/// Flood 2014) from a secure seed.
fn unique<const COUNT: usize>() -> [u8; COUNT] {
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

/// A new identifier for a request or a transfer.
#[must_use]
pub fn fresh_id() -> String {
    hex(&unique::<12>())
}

/// An identifier that another server has made, if it can be one: it goes into the log as it is.
#[must_use]
pub fn foreign_id(text: &str) -> Option<String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_plain && (1..=FOREIGN_ID_BYTES_MAX).contains(&text.len())).then(|| text.to_owned())
}

/// Whether a log can be asked about a text: an identifier of a request, transfer, job or trace.
/// Words and names of people are none.
#[must_use]
pub fn is_traced_id(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_plain && TRACED_ID_BYTES.contains(&text.len())
}

/// The trace context of the work for a request (W3C Trace Context §3.2): a child of the client's,
/// or a new one that is not sampled.
#[must_use]
pub fn child_trace(parent: Option<&str>) -> String {
    const TRACE_BYTES: usize = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".len();
    let mut parts = parent.unwrap_or_default().split('-').skip(1);
    let known = parts.next().zip(parts.nth(1));
    let mut text = String::with_capacity(TRACE_BYTES);
    text.push_str("00-");
    match known {
        Some((trace, _)) => text.push_str(trace),
        None => push_hex(&mut text, &unique::<16>()),
    }
    text.push('-');
    push_hex(&mut text, &unique::<8>());
    text.push('-');
    text.push_str(known.map_or("00", |(_, flags)| flags));
    text
}

/// The same trace context, with the flag that says that its spans are exported.
#[must_use]
pub fn sampled_trace(mut traceparent: String) -> String {
    const FLAGS: &str = "01";
    traceparent.truncate(traceparent.len().saturating_sub(FLAGS.len()));
    traceparent.push_str(FLAGS);
    traceparent
}

/// The identifier of a new span.
#[must_use]
pub fn fresh_span() -> u64 {
    // 0 is no span.
    u64::from_be_bytes(unique()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_do_not_repeat_between_threads_or_in_one() {
        let fresh = || (0..1000).map(|_| fresh_id()).collect::<Vec<_>>();
        let others = std::thread::spawn(fresh).join().unwrap();
        let all: std::collections::HashSet<_> = fresh().into_iter().chain(others).collect();
        assert_eq!(all.len(), 2000);
        assert!(all.iter().all(|id| id.len() == 24));
    }

    #[test]
    fn a_log_is_asked_about_identifiers_only() {
        let good = [&fresh_id(), "0af76519-16cd-43dd-8448-eb211c80319c", "65f2a1c0"];
        assert!(good.iter().all(|id| is_traced_id(id)));
        for bad in [
            "",
            "65f2a1c",
            "anonymous",
            "crossload",
            "../../metrics",
            &"a".repeat(65),
        ] {
            assert!(!is_traced_id(bad), "{bad}");
        }
    }

    #[test]
    fn a_trace_continues_under_another_span() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let child = child_trace(Some(parent));
        assert_eq!(child.len(), parent.len());
        assert!(child.starts_with(&parent[..36]) && child.ends_with("-01") && child != parent);
        let fresh = child_trace(None);
        assert_eq!(fresh.len(), parent.len());
        assert_ne!(fresh[3..35], child_trace(None)[3..35]);
        assert!(fresh.ends_with("-00"), "{fresh}");
        let sampled = sampled_trace(fresh.clone());
        assert!(sampled.ends_with("-01") && sampled[..53] == fresh[..53], "{sampled}");
    }
}
