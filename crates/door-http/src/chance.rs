//! The clock and the random numbers of the door: everything below is handed its time and its chance
//! by whoever calls it, and this is who calls it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time, in seconds since 1970.
pub(crate) fn now_s() -> i64 {
    unix_s(SystemTime::now())
}

/// A time in seconds since 1970; negative before.
pub(crate) fn unix_s(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
    }
}

/// Fresh random bytes.
pub(crate) fn random<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    // The generator fails only when the system has no randomness at all; names that are not unique
    // are then the smaller evil.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// A name for a request or a transfer.
pub(crate) fn fresh_id() -> String {
    hex(&random::<12>())
}

/// The trace of what is done for a request (W3C Trace Context §3.2): a child of the client's, or a
/// new one that nobody samples.
pub(crate) fn child_trace(parent: Option<&str>) -> String {
    let span = hex(&random::<8>());
    let mut parts = parent.unwrap_or_default().split('-').skip(1);
    match (parts.next(), parts.nth(1)) {
        (Some(trace), Some(flags)) => format!("00-{trace}-{span}-{flags}"),
        _ => format!("00-{}-{span}-00", hex(&random::<16>())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
