//! Times for people.

use time::OffsetDateTime;
use time::macros::format_description;

/// A time such as `2026-11-29 03:00 UTC`, from milliseconds since 1970.
#[must_use]
pub fn minute(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let text = time.and_then(|time| time.format(&format).ok());
    text.unwrap_or_else(|| "an impossible time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::minute;

    #[test]
    fn a_time_is_utc_and_says_so() {
        assert_eq!(minute(1_795_921_200_000), "2026-11-29 03:00 UTC");
        assert_eq!(minute(u64::MAX), "an impossible time");
    }
}
