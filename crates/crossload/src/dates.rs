//! Dates as people read them.

/// A date such as 2026-01-31.
pub(crate) fn date(unix_s: i64) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp(unix_s);
    time.map_or_else(|_| "an impossible date".to_owned(), |time| time.date().to_string())
}

/// A time such as 2026-01-31T12:00:00Z, from milliseconds since 1970.
pub(crate) fn instant(unix_ms: i64) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp(unix_ms.div_euclid(1000)).ok();
    let text = time.and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok());
    text.unwrap_or_else(|| "an impossible time".to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_utc_and_say_so() {
        assert_eq!(super::instant(86_401_999), "1970-01-02T00:00:01Z");
        assert_eq!(super::instant(i64::MAX), "an impossible time");
    }
}
