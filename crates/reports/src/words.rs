//! Text of others cut to size, and figures and moments as people read them.

use std::borrow::Cow;

use markup::visible;
use time::OffsetDateTime;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The columns that text takes on a terminal.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Text of at most so many columns; what is cut off is marked by `…`.
#[must_use]
pub fn cut(text: &str, columns_max: usize) -> Cow<'_, str> {
    if columns(text) <= columns_max {
        return Cow::Borrowed(text);
    }
    let (mut kept, mut taken) = (String::new(), 0);
    for character in text.chars() {
        taken += character.width().unwrap_or(0);
        if taken >= columns_max {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    Cow::Owned(kept)
}

/// The first words of a text, in one line of at most `characters_max` characters.
#[must_use]
pub fn first_words(text: &str, characters_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&visible(&line), characters_max).into_owned()
}

/// The answer of a server, as a status and its own words, if it gave any.
#[must_use]
pub fn server_said(status: Option<u32>, words: Option<&str>) -> Option<String> {
    Some(match (status, words) {
        (Some(status), Some(words)) => format!("the server said {status}: \"{words}\""),
        (Some(status), None) => format!("the server said {status}"),
        (None, Some(words)) => format!("the server said: \"{words}\""),
        (None, None) => return None,
    })
}

/// A count with its noun, whose plural ends with `s`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// A moment to the minute, such as `2026-01-31 12:00 UTC`.
#[must_use]
pub fn moment(unix_ms: u64) -> String {
    match at(unix_ms) {
        Some(time) => format!("{} {:02}:{:02} UTC", time.date(), time.hour(), time.minute()),
        None => "an impossible time".to_owned(),
    }
}

/// A moment to the second as ISO 8601 has it, without its zone, which is UTC.
#[must_use]
pub(crate) fn timestamp(unix_ms: u64) -> String {
    match at(unix_ms) {
        Some(time) => format!(
            "{}T{:02}:{:02}:{:02}",
            time.date(),
            time.hour(),
            time.minute(),
            time.second()
        ),
        None => String::new(),
    }
}

fn at(unix_ms: u64) -> Option<OffsetDateTime> {
    let seconds = i64::try_from(unix_ms / 1000).ok()?;
    OffsetDateTime::from_unix_timestamp(seconds).ok()
}

/// A time that something took, such as `83 ms`, `1.2 s` or `12 min`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a time for people")]
pub fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..10_000 => format!("{:.1} s", milliseconds as f64 / 1000.0),
        10_000..120_000 => format!("{} s", milliseconds / 1000),
        120_000..7_200_000 => format!("{} min", milliseconds / 60_000),
        _ => format!("{:.1} h", milliseconds as f64 / 3_600_000.0),
    }
}

/// Megabits per second with as many digits as matter.
#[must_use]
pub fn rate(mbps: f64) -> String {
    match mbps {
        10.0.. => format!("{mbps:.0}"),
        0.1.. => format!("{mbps:.1}"),
        _ => format!("{mbps:.2}"),
    }
}

/// A rate with its unit, in megabits per second while that is a short number. What no network has
/// is no figure: a forecast can be of any load.
#[must_use]
pub fn rate_with_unit(mbps: f64) -> String {
    const THOUSANDS: f64 = 10_000.0;
    let mut rate = mbps;
    for unit in ["Mb/s", "Gb/s", "Tb/s"] {
        if rate < THOUSANDS {
            return format!("{rate:.1} {unit}");
        }
        rate /= 1_000.0;
    }
    format!("more than {THOUSANDS:.0} Tb/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units_of_their_size() {
        for (mbps, words) in [
            (0.0, "0.0 Mb/s"),
            (2_222.22, "2222.2 Mb/s"),
            (25_000.0, "25.0 Gb/s"),
            (9_999_000.0, "9999.0 Gb/s"),
            (10_000_000.0, "10.0 Tb/s"),
            (137_438_953_440_000.0, "more than 10000 Tb/s"),
            (f64::INFINITY, "more than 10000 Tb/s"),
        ] {
            assert_eq!(rate_with_unit(mbps), words);
        }
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        // Each of these takes two columns.
        assert_eq!(cut("日本日本", 5), "日本…");
        assert_eq!(first_words(" a\n\tb  c\u{7}", 100), r"a b c\x07");
    }

    #[test]
    fn moments_and_times_are_short() {
        assert_eq!(moment(86_460_000), "1970-01-02 00:01 UTC");
        assert_eq!(moment(u64::MAX), "an impossible time");
        assert_eq!(timestamp(1_500), "1970-01-01T00:00:01");
        let shown = [999, 1_200, 59_999, 120_000, 9_000_000].map(duration);
        assert_eq!(shown, ["999 ms", "1.2 s", "59 s", "2 min", "2.5 h"]);
        assert_eq!([0.04, 0.5, 123.4].map(rate), ["0.04", "0.5", "123"]);
    }
}
