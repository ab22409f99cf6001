//! The time of day, and times as the catalog has them: in milliseconds.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::limits::CLOCK_STEP_MIN;

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A time in milliseconds; one that is too long is so long that it can still be added to the time
/// of day.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 2)
}

/// Whether a wait until `at_ms` is over. If the wait that is left is longer than any such wait, the
/// clock was set back since it began.
pub(crate) fn has_come(at_ms: i64, now_ms: i64, longest: Duration) -> bool {
    at_ms <= now_ms || at_ms.saturating_sub(now_ms) > milliseconds(longest)
}

/// Notices by the monotonic clock that the time of day was set back. Times that were noted before
/// lie further away then, by as much.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    looked: Instant,
    looked_ms: i64,
}

impl ClockWatch {
    /// Begins at this moment, and at this time of day.
    pub(crate) fn new(now: Instant, now_ms: i64) -> Self {
        Self {
            looked: now,
            looked_ms: now_ms,
        }
    }

    /// Whether the clock was set back since the last look, by [`CLOCK_STEP_MIN`] or more.
    pub(crate) fn was_set_back(&mut self, now: Instant, now_ms: i64) -> bool {
        let expected_ms = self.looked_ms.saturating_add(milliseconds(now - self.looked));
        *self = Self::new(now, now_ms);
        expected_ms.saturating_sub(now_ms) >= milliseconds(CLOCK_STEP_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_was_set_back_is_noticed() {
        let (start, second, hour_ms) = (Instant::now(), Duration::from_secs(1), 3_600_000);
        let mut watch = ClockWatch::new(start, hour_ms);
        let mut look = |seconds, now_ms| watch.was_set_back(start + second * seconds, now_ms);
        assert!(!look(1, hour_ms + 1000));
        // Set forward; and a thread that had no turn for an hour.
        assert!(!look(2, 3 * hour_ms));
        assert!(!look(3602, 4 * hour_ms));
        // Set a little, as clocks are that were off.
        assert!(!look(3603, 4 * hour_ms - 1000));
        assert!(look(3604, 2 * hour_ms));
        assert!(!look(3605, 2 * hour_ms + 1000), "once");
    }

    #[test]
    fn a_wait_that_is_too_long_is_over() {
        let minute = Duration::from_secs(60);
        assert!(has_come(0, 0, minute) && has_come(0, 5, minute) && has_come(60_001, 0, minute));
        assert!(!has_come(1, 0, minute) && !has_come(60_000, 0, minute));
    }
}
