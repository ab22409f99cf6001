//! Dates in headers (RFC 9110 §5.6.7) as seconds since the epoch.

use std::time::UNIX_EPOCH;

use crate::number::put_digits;

/// The last second of the year 9999, the last that the format can write.
const LATEST_S: i64 = 253_402_300_799;
/// From the first day of 1970 on.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The first date, and as WebDAV has it. All others are as long.
const EPOCH: [u8; 29] = *b"Thu, 01 Jan 1970 00:00:00 GMT";
const EPOCH_ISO: [u8; 20] = *b"1970-01-01T00:00:00Z";
/// Where the time of day begins in the two.
const DATE_TIME_AT: usize = 17;
const ISO_TIME_AT: usize = 11;

/// A date as it is sent, such as `Sat, 21 Nov 2026 19:01:24 GMT`. Times outside of 1970 to 9999
/// become the nearest one inside.
#[must_use]
pub fn format_date(unix_s: i64) -> String {
    text_of(unix_s, push_date)
}

/// The same, behind what is there: every answer has two of them.
pub(crate) fn push_date(out: &mut Vec<u8>, unix_s: i64) {
    let (day, second) = day_and_second(unix_s);
    let mut text = first_second_of(day);
    put_time(&mut text[DATE_TIME_AT..], second);
    out.extend_from_slice(&text);
}

/// A date of [`push_date`] at midnight.
fn first_second_of(days: i64) -> [u8; 29] {
    let mut text = EPOCH;
    let (year, month, day) = civil_from_days(days);
    text[..3].copy_from_slice(WEEKDAYS[(days % 7) as usize].as_bytes());
    put_digits(&mut text[5..7], day);
    text[8..11].copy_from_slice(MONTHS[(month - 1) as usize].as_bytes());
    put_digits(&mut text[12..16], year);
    text
}

/// Writes a time of day over the first eight bytes.
fn put_time(text: &mut [u8], second_of_day: i64) {
    put_digits(&mut text[..2], second_of_day / 3600);
    put_digits(&mut text[3..5], second_of_day / 60 % 60);
    put_digits(&mut text[6..8], second_of_day % 60);
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

/// A date as WebDAV's `creationdate` has it (RFC 4918 §15.1, RFC 3339), such as
/// `2026-11-21T19:01:24Z`.
#[must_use]
pub fn format_iso_date(unix_s: i64) -> String {
    text_of(unix_s, push_iso_date)
}

/// The same, behind what is there.
fn push_iso_date(out: &mut Vec<u8>, unix_s: i64) {
    let (day, second) = day_and_second(unix_s);
    let mut text = first_iso_second_of(day);
    put_time(&mut text[ISO_TIME_AT..], second);
    out.extend_from_slice(&text);
}

/// A date of [`push_iso_date`] at midnight.
fn first_iso_second_of(days: i64) -> [u8; 20] {
    let mut text = EPOCH_ISO;
    let (year, month, day) = civil_from_days(days);
    put_digits(&mut text[..4], year);
    put_digits(&mut text[5..7], month);
    put_digits(&mut text[8..10], day);
    text
}

/// Writes the dates of one file after another, in both formats. What lies in one directory is often
/// of the same second and mostly of the same day, so the text of the last date is kept and only
/// what differs is written anew.
#[derive(Clone, Debug)]
pub(crate) struct DateWriter {
    day: i64,
    second: i64,
    text: [u8; 29],
    iso_text: [u8; 20],
}

impl DateWriter {
    /// One that has written the first second of 1970.
    pub(crate) fn new() -> Self {
        Self {
            day: 0,
            second: 0,
            text: EPOCH,
            iso_text: EPOCH_ISO,
        }
    }

    /// Appends what [`format_date`] makes of a time.
    pub(crate) fn push_date(&mut self, out: &mut Vec<u8>, unix_s: i64) {
        self.turn_to(unix_s);
        out.extend_from_slice(&self.text);
    }

    /// Appends what [`format_iso_date`] makes of a time.
    pub(crate) fn push_iso_date(&mut self, out: &mut Vec<u8>, unix_s: i64) {
        self.turn_to(unix_s);
        out.extend_from_slice(&self.iso_text);
    }

    fn turn_to(&mut self, unix_s: i64) {
        let (day, second) = day_and_second(unix_s);
        if day != self.day {
            self.text = first_second_of(day);
            self.iso_text = first_iso_second_of(day);
            (self.day, self.second) = (day, 0);
        }
        if second != self.second {
            put_time(&mut self.text[DATE_TIME_AT..], second);
            put_time(&mut self.iso_text[ISO_TIME_AT..], second);
            self.second = second;
        }
    }
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

    #[test]
    fn a_writer_of_dates_forgets_what_it_wrote_before() {
        let noon = 1_795_262_400;
        let times = [
            0,
            1,
            0,
            -1,
            noon,
            noon,
            noon + 1,
            noon + 59,
            noon + 60,
            noon,
            noon + 3600,
            noon - 86_400,
            noon,
            // Midnight from both sides, and the same second of other days.
            noon + 43_199,
            noon + 43_200,
            noon + 43_199,
            86_400,
            0,
            951_782_400,
            i64::MAX,
            LATEST_S,
            i64::MIN,
            7,
        ];
        let mut writer = DateWriter::new();
        for time in times {
            let (mut date, mut iso_date) = (Vec::new(), Vec::new());
            writer.push_date(&mut date, time);
            writer.push_iso_date(&mut iso_date, time);
            assert_eq!(date, format_date(time).into_bytes());
            assert_eq!(iso_date, format_iso_date(time).into_bytes());
        }
        // The two formats need not follow each other.
        for (time, other) in times.into_iter().zip(times.into_iter().rev()) {
            let (mut date, mut iso_date) = (Vec::new(), Vec::new());
            writer.push_date(&mut date, time);
            writer.push_iso_date(&mut iso_date, other);
            assert_eq!(date, format_date(time).into_bytes());
            assert_eq!(iso_date, format_iso_date(other).into_bytes());
        }
    }
}
