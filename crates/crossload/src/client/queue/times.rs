//! Times for people, beside the milliseconds since 1970 of our API.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// How far a time is from now, such as `in 3 min` or `2 h 5 min ago`.
pub(super) fn until(time_ms: i64, now_ms: i64) -> String {
    let seconds = time_ms.abs_diff(now_ms).div_ceil(1000);
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    let length = match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours @ ..48, minutes) => format!("{hours} h {minutes} min"),
        (hours, _) => format!("{} d", hours / 24),
    };
    match time_ms >= now_ms {
        true => format!("in {length}"),
        false => format!("{length} ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_for_people() {
        assert_eq!(until(500, 0), "in 1 s");
        assert_eq!(until(0, 90_000), "1 min ago");
        assert_eq!(until(7_500_000, 0), "in 2 h 5 min");
        assert_eq!(until(86_400_000 * 3, 0), "in 3 d");
    }
}
