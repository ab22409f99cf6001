//! Dates in headers (RFC 9110 §5.6.7) as seconds since the epoch.

use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999, the last that the format can write.
const LATEST_S: i64 = 253_402_300_799;

/// A date as it is sent, such as `Sat, 21 Nov 2026 19:01:24 GMT`. Times outside of 1970 to 9999 become
/// the nearest one inside.
#[must_use]
pub fn format_date(unix_s: i64) -> String {
    let seconds = unix_s.clamp(0, LATEST_S).unsigned_abs();
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Reads a date in any of the three formats that HTTP has known; `None` for anything else.
#[must_use]
pub fn parse_date(text: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(text.trim()).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// A date as WebDAV's `creationdate` has it (RFC 4918 §15.1, RFC 3339), such as `2026-11-21T19:01:24Z`.
#[must_use]
pub fn format_iso_date(unix_s: i64) -> String {
    let seconds = unix_s.clamp(0, LATEST_S);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Year, month and day of the day that comes `days` after 1970-01-01, in the Gregorian calendar.
/// Counted in years that begin in March, so that the leap day is the last of its year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let from_year_0 = days + 719_468;
    let era = from_year_0 / 146_097;
    let day_of_era = from_year_0 % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip_and_odd_times_do_no_harm() {
        assert_eq!(format_date(1_795_287_684), "Sat, 21 Nov 2026 19:01:24 GMT");
        for time in [0, 1, 951_782_400, 1_795_287_684, LATEST_S] {
            assert_eq!(parse_date(&format_date(time)), Some(time));
        }
        assert_eq!(format_date(-5), format_date(0));
        assert_eq!(format_date(i64::MAX), format_date(LATEST_S));
        assert_eq!(parse_date("yesterday"), None);
    }

    #[test]
    fn iso_dates_name_the_same_day() {
        assert_eq!(format_iso_date(1_795_287_684), "2026-11-21T19:01:24Z");
        assert_eq!(format_iso_date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(format_iso_date(LATEST_S), "9999-12-31T23:59:59Z");
        assert_eq!(format_iso_date(-1), "1970-01-01T00:00:00Z");
    }
}
