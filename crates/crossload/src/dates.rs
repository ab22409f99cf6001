//! Dates as people read them.

/// A date such as 2026-01-31.
pub(crate) fn date(unix_s: i64) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp(unix_s);
    time.map_or_else(|_| "an impossible date".to_owned(), |time| time.date().to_string())
}
