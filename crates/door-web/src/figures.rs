//! Figures as people read them.

use time::OffsetDateTime;
use time::macros::format_description;

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
    }
}
