//! The time of day, and times as the catalog has them: in milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A time in milliseconds; one that is too long is so long that it can still be added to the time
/// of day.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 2)
}
