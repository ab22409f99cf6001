//! ISO 8601 durations, as a macaroon request gives its `validity`.

/// Longest duration that is taken seriously, in seconds (a hundred years): far above each maximum
/// that a site would set, and safe to add to any time.
const DURATION_S_MAX: u64 = 100 * 365 * 86_400;

/// Reads `PT30M`, `P1DT12H`, `PT90S`, `P1W` or `PT0.5S` and gives whole seconds.
///
/// dCache takes any ISO 8601 duration, XRootD only hours, minutes and seconds. Taken here are
/// weeks, days, hours, minutes and seconds, each at most once and in this order; a fraction (with
/// point or comma) only on the seconds, where it is rounded down so that no token lives longer than
/// asked. Years and months are refused, because their length is not fixed.
///
/// `None` for anything else, including a duration above a hundred years.
#[must_use]
pub fn parse_duration_s(text: &str) -> Option<u64> {
    let rest = text.strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) if !time.is_empty() => (date, time),
        Some(_) => return None,
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let date_s = sum_units(date, &[('W', 7 * 86_400), ('D', 86_400)])?;
    let time_s = sum_units(time, &[('H', 3600), ('M', 60), ('S', 1)])?;
    date_s.checked_add(time_s).filter(|total_s| *total_s <= DURATION_S_MAX)
}

/// A number of seconds in its two largest units: `1 d 3 h`, `25 min`, `12 s`.
#[must_use]
pub fn duration_in_words(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    let first = units.iter().position(|(_, length)| seconds >= *length).unwrap_or(3);
    let (name, length) = units[first];
    let mut words = format!("{} {name}", seconds / length);
    if let Some((name, shorter)) = units.get(first + 1)
        && seconds % length / shorter > 0
    {
        words.push_str(&format!(" {} {name}", seconds % length / shorter));
    }
    words
}

/// Adds up `<number><unit>` items; the units must come in the order of the list.
fn sum_units(mut text: &str, mut units: &[(char, u64)]) -> Option<u64> {
    let mut total_s = 0_u64;
    while !text.is_empty() {
        let end = text.find(|character: char| !character.is_ascii_digit() && !matches!(character, '.' | ','))?;
        let unit = text[end..].chars().next()?;
        let place = units.iter().position(|(name, _)| *name == unit)?;
        let count = parse_count(&text[..end], unit == 'S')?;
        total_s = total_s.checked_add(count.checked_mul(units[place].1)?)?;
        units = &units[place + 1..];
        text = &text[end + unit.len_utf8()..];
    }
    Some(total_s)
}

fn parse_count(text: &str, fraction_allowed: bool) -> Option<u64> {
    let (whole, fraction) = match text.split_once(['.', ',']) {
        Some((whole, fraction)) if fraction_allowed => (whole, fraction),
        Some(_) => return None,
        None => (text, "0"),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    whole.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_that_clients_send() {
        for (text, seconds) in [
            ("PT30M", 1800),
            ("PT1H", 3600),
            ("PT90S", 90),
            ("PT1H30M10S", 5410),
            ("P1D", 86_400),
            ("P1DT12H", 129_600),
            ("P2W", 1_209_600),
            ("PT0.9S", 0),
            ("PT10,5S", 10),
            ("PT0S", 0),
        ] {
            assert_eq!(parse_duration_s(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn durations_in_words() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (7325, "2 h 2 min"),
            (86_400, "1 d"),
            (86_400 + 59 * 60, "1 d"),
            (100_000, "1 d 3 h"),
        ] {
            assert_eq!(duration_in_words(seconds), words);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for bad in [
            "",
            "P",
            "PT",
            "P1",
            "1D",
            "PT1",
            "PT1D",
            "P1H",
            "P1Y",
            "P1M",
            "P1DT",
            "-PT1S",
            "PT-1S",
            "PT1M1H",
            "PT1H1H",
            "pt1h",
            "PT1.5H",
            "PT.5S",
            "PT1.S",
            "PT1.2.3S",
            " PT1H",
            "PT1H ",
            "PT99999999999999999999S",
            "P36501D",
            "PT1é",
        ] {
            assert_eq!(parse_duration_s(bad), None, "{bad}");
        }
    }
}
