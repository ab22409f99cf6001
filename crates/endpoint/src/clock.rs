//! The clock: pure crates take the time as an argument, and the doors read it here.

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_before_1970_are_negative() {
        assert_eq!(unix_s(UNIX_EPOCH + Duration::from_millis(1500)), 1);
        assert_eq!(unix_s(UNIX_EPOCH - Duration::from_secs(3)), -3);
        assert!(now_s() > 1_700_000_000);
    }
}
