//! Dates in headers (RFC 9110 §5.6.7) as seconds since the epoch.

use std::time::UNIX_EPOCH;

use crate::number::push_digits;

/// The last second of the year 9999, the last that the format can write.
const LATEST_S: i64 = 253_402_300_799;
/// From the first day of 1970 on.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A date as it is sent, such as `Sat, 21 Nov 2026 19:01:24 GMT`. Times outside of 1970 to 9999 become
/// the nearest one inside.
#[must_use]
pub fn format_date(unix_s: i64) -> String {
    text_of(unix_s, push_date)
}

/// The same, behind what is there: every answer has two of them, and a listing one for each file.
pub(crate) fn push_date(out: &mut Vec<u8>, unix_s: i64) {
    let (days, second) = day_and_second(unix_s);
    let (year, month, day) = civil_from_days(days);
    out.extend_from_slice(WEEKDAYS[(days % 7) as usize].as_bytes());
    out.extend_from_slice(b", ");
    push_digits::<2>(out, day);
    out.push(b' ');
    out.extend_from_slice(MONTHS[(month - 1) as usize].as_bytes());
    out.push(b' ');
    push_digits::<4>(out, year);
    out.push(b' ');
    push_time(out, second);
    out.extend_from_slice(b" GMT");
}

fn push_time(out: &mut Vec<u8>, second_of_day: i64) {
    push_digits::<2>(out, second_of_day / 3600);
    out.push(b':');
    push_digits::<2>(out, second_of_day / 60 % 60);
    out.push(b':');
    push_digits::<2>(out, second_of_day % 60);
}

fn day_and_second(unix_s: i64) -> (i64, i64) {
    let seconds = unix_s.clamp(0, LATEST_S);
    (seconds / 86_400, seconds % 86_400)
}

fn text_of(unix_s: i64, push: impl Fn(&mut Vec<u8>, i64)) -> String {
    let mut text = Vec::with_capacity(29);
    push(&mut text, unix_s);
    // Only ASCII was pushed.
    String::from_utf8(text).unwrap_or_default()
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
    text_of(unix_s, push_iso_date)
}

/// The same, behind what is there.
pub(crate) fn push_iso_date(out: &mut Vec<u8>, unix_s: i64) {
    let (days, second) = day_and_second(unix_s);
    let (year, month, day) = civil_from_days(days);
    push_digits::<4>(out, year);
    out.push(b'-');
    push_digits::<2>(out, month);
    out.push(b'-');
    push_digits::<2>(out, day);
    out.push(b'T');
    push_time(out, second);
    out.push(b'Z');
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
        for day in 0..4000 {
            let time = day * 86_400 * 7 / 3 + day;
            let theirs = httpdate::fmt_http_date(UNIX_EPOCH + std::time::Duration::from_secs(time as u64));
            assert_eq!(format_date(time), theirs);
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
