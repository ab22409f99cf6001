//! Figures as people read them.

use std::time::Duration;

use time::OffsetDateTime;
use time::macros::format_description;
use types::binary_size;

const DAY_S: i64 = 24 * 3600;

/// A date such as 2026-01-31.
pub(crate) fn date(unix_s: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(unix_s);
    time.map_or_else(|_| "an impossible date".to_owned(), |time| time.date().to_string())
}

/// A moment such as 2026-01-31 12:00:05 UTC.
pub(crate) fn moment(unix_s: i64) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    let time = OffsetDateTime::from_unix_timestamp(unix_s).ok();
    let text = time.and_then(|time| time.format(format).ok());
    text.unwrap_or_else(|| "an impossible time".to_owned())
}

/// The same of milliseconds since 1970.
pub(crate) fn moment_ms(unix_ms: i64) -> String {
    moment(unix_ms.div_euclid(1000))
}

/// The time from one moment to another, both in milliseconds since 1970; none if a clock went back.
pub(crate) fn passed(from_ms: i64, to_ms: i64) -> String {
    let passed_ms = u64::try_from(to_ms.saturating_sub(from_ms)).unwrap_or_default();
    age(Duration::from_millis(passed_ms))
}

/// Whole days from one moment to another; negative if that has passed.
pub(crate) fn days(from_s: i64, to_s: i64) -> i64 {
    to_s.saturating_sub(from_s).div_euclid(DAY_S)
}

/// The rest of a term in words.
pub(crate) fn days_left(days: i64) -> String {
    match days {
        1 => "1 day left".to_owned(),
        0.. => format!("{days} days left"),
        -1 => "ended within the last day".to_owned(),
        -2 => "ended a day ago".to_owned(),
        _ => format!("ended {} days ago", days.saturating_neg() - 1),
    }
}

/// A rate such as `12.3 MiB/s`.
pub(crate) fn rate(bytes_per_s: u64) -> String {
    format!("{}/s", binary_size(bytes_per_s))
}

/// A time in two units, which changes seldom: `42 s`, `5 min`, `2 h 5 min`, `3 d 1 h`.
pub(crate) fn age(passed: Duration) -> String {
    let seconds = passed.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min"),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_whole_and_may_have_passed() {
        let words = |left_s| days_left(days(1_000_000, 1_000_000 + left_s));
        assert_eq!(words(3 * DAY_S + 5), "3 days left");
        assert_eq!(words(DAY_S), "1 day left");
        assert_eq!(words(5), "0 days left");
        assert_eq!(words(-5), "ended within the last day");
        assert_eq!(words(-DAY_S - 5), "ended a day ago");
        assert_eq!(days(i64::MAX, i64::MIN), i64::MIN.div_euclid(DAY_S));
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(moment(86_401), "1970-01-02 00:00:01 UTC");
        assert_eq!(date(86_401), "1970-01-02");
        assert_eq!(moment(i64::MAX), "an impossible time");
        assert_eq!(moment_ms(-1), "1969-12-31 23:59:59 UTC");
        assert_eq!(
            (passed(1000, 62_000), passed(5, -5)),
            ("1 min".to_owned(), "0 s".to_owned())
        );
    }

    #[test]
    fn a_rate_has_the_unit_of_its_size() {
        assert_eq!(rate(2048), "2.0 KiB/s");
    }

    #[test]
    fn ages_change_seldom() {
        let ages = [0, 59, 60, 3599, 3600, 7500, 90_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(
            ages,
            ["0 s", "59 s", "1 min", "59 min", "1 h 0 min", "2 h 5 min", "1 d 1 h"]
        );
    }
}
