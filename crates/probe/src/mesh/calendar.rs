//! Downtimes from a calendar file (iCalendar, RFC 5545): of each event the begin, the end and the
//! summary.
//!
//! Times without a zone are UTC. Events that repeat are refused rather than taken for one event.

use std::borrow::Cow;

use history::Downtime;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Zoned};

use crate::limits::DOWNTIMES_MAX;

/// The downtimes of a calendar, in the order of the file. Canceled events are left out.
///
/// # Errors
/// The line and the property that cannot be read.
pub(super) fn read(text: &str) -> Result<Vec<Downtime>, String> {
    // Some programs begin a text with the mark of its byte order, which it does not have.
    let lines = unfolded(text.strip_prefix('\u{feff}').unwrap_or(text));
    if lines.first().is_none_or(|line| !line.is("BEGIN", "VCALENDAR")) {
        return Err("line 1: not a calendar: it does not begin with BEGIN:VCALENDAR".to_owned());
    }
    let mut events = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut event = Event::default();
    for line in &lines {
        let faulty = |words: String| format!("line {}: {}: {words}", line.number, line.name);
        match line.name.as_str() {
            "BEGIN" => {
                open.push(line.value());
                if line.is("BEGIN", "VEVENT") {
                    event = Event::default();
                }
            }
            "END" => {
                if open.pop() != Some(line.value()) {
                    return Err(faulty(format!("{} was not begun", line.value())));
                }
                if line.is("END", "VEVENT") {
                    event.refuse_repeats()?;
                    events.extend(event.take().map_err(faulty)?);
                }
            }
            // Alarms within an event have properties of the same names.
            _ if open.last().is_some_and(|open| open.eq_ignore_ascii_case("VEVENT")) => {
                event.set(line).map_err(faulty)?;
            }
            _ => {}
        }
        if events.len() > DOWNTIMES_MAX {
            return Err(faulty(format!("more than {DOWNTIMES_MAX} events")));
        }
    }
    match open.last() {
        Some(open) => Err(format!("it ends within {open}")),
        None => Ok(events),
    }
}

/// A content line: `NAME;PARAMETER=VALUE:VALUE`.
struct Line<'a> {
    number: usize,
    name: String,
    parameters: Vec<(String, String)>,
    /// All of it.
    text: Cow<'a, str>,
    /// Where the value begins in the text.
    value: usize,
}

impl<'a> Line<'a> {
    /// `None` without a colon.
    fn new(number: usize, text: Cow<'a, str>) -> Option<Self> {
        let colon = colon_of(&text)?;
        let mut head = text[..colon].split(';');
        let name = head.next().unwrap_or_default().to_ascii_uppercase();
        let parameters = head
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(name, value)| (name.to_ascii_uppercase(), value.trim_matches('"').to_owned()))
            .collect();
        Some(Self {
            number,
            name,
            parameters,
            value: colon + 1,
            text,
        })
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.name == name && self.value().eq_ignore_ascii_case(value)
    }

    fn value(&self) -> &str {
        &self.text[self.value..]
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The lines, with those joined that were folded (section 3.1: a line that begins with a space or
/// tab continues the one before, wherever it was cut).
fn unfolded(text: &str) -> Vec<Line<'_>> {
    let mut whole: Vec<(usize, Cow<'_, str>)> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        match (raw.strip_prefix([' ', '\t']), whole.last_mut()) {
            (Some(more), Some((_, last))) => last.to_mut().push_str(more),
            (Some(_), None) => {}
            (None, _) => whole.push((index + 1, Cow::Borrowed(raw))),
        }
    }
    let lines = whole.into_iter().filter_map(|(number, text)| Line::new(number, text));
    lines.collect()
}

/// The colon before the value: the first one that is not within quotation marks.
fn colon_of(line: &str) -> Option<usize> {
    let mut is_quoted = false;
    line.char_indices().find_map(|(at, character)| {
        is_quoted ^= character == '"';
        (character == ':' && !is_quoted).then_some(at)
    })
}

/// An event while it is read.
#[derive(Default)]
struct Event {
    start: Option<Zoned>,
    end: Option<Zoned>,
    duration: Option<Span>,
    is_whole_days: bool,
    is_canceled: bool,
    /// The line that has it repeat, in words.
    repeats: Option<String>,
    summary: String,
}

impl Event {
    fn set(&mut self, line: &Line<'_>) -> Result<(), String> {
        match line.name.as_str() {
            "DTSTART" => {
                self.is_whole_days = line.parameter("VALUE") == Some("DATE");
                self.start = Some(time(line)?);
            }
            "DTEND" => self.end = Some(time(line)?),
            "DURATION" => {
                let span = line.value().parse::<Span>();
                self.duration = Some(span.map_err(|_| format!("{:?} is not a duration such as PT2H", line.value()))?);
            }
            "SUMMARY" => self.summary = unescaped(line.value()),
            "STATUS" => self.is_canceled = line.is("STATUS", "CANCELLED"),
            "RRULE" | "RDATE" => self.repeats = Some(format!("line {}: {}", line.number, line.name)),
            _ => {}
        }
        Ok(())
    }

    /// At the end of the event, since it may be canceled below.
    fn refuse_repeats(&self) -> Result<(), String> {
        match self.repeats.as_deref().filter(|_| !self.is_canceled) {
            Some(place) => Err(format!(
                "{place}: events that repeat are not supported; list each of them"
            )),
            None => Ok(()),
        }
    }

    /// The downtime, at the end of the event. Without an end, a date lasts that day, and a time no
    /// time at all (section 3.6.1).
    fn take(&mut self) -> Result<Option<Downtime>, String> {
        let event = std::mem::take(self);
        if event.is_canceled {
            return Ok(None);
        }
        let start = event.start.ok_or("the event has no DTSTART")?;
        let span = match (event.duration, event.is_whole_days) {
            (Some(span), _) => span,
            (None, true) => Span::new().days(1),
            (None, false) => Span::new(),
        };
        let end = match event.end {
            Some(end) => end,
            None => start.checked_add(span).map_err(|_| "the event ends too late")?,
        };
        if end < start {
            return Err("the event ends before it begins".to_owned());
        }
        Ok(Some(Downtime {
            from_ms: since_1970(&start)?,
            until_ms: since_1970(&end)?,
            reason: event.summary,
        }))
    }
}

/// Milliseconds since 1970.
fn since_1970(time: &Zoned) -> Result<u64, String> {
    u64::try_from(time.timestamp().as_millisecond()).map_err(|_| "the event is before 1970".to_owned())
}

/// A date, a time in UTC, or a time in a named zone (section 3.3.5).
fn time(line: &Line<'_>) -> Result<Zoned, String> {
    let text = line.value();
    let wrong = || format!("{text:?} is not a time such as 20261201T080000Z");
    let (civil, is_utc) = match text.strip_suffix('Z') {
        Some(civil) => (civil, true),
        None => (text, false),
    };
    let civil = match civil.contains('T') {
        true => DateTime::strptime("%Y%m%dT%H%M%S", civil).map_err(|_| wrong())?,
        false => Date::strptime("%Y%m%d", civil)
            .map_err(|_| wrong())?
            .to_datetime(jiff::civil::Time::MIN),
    };
    let zone = match line.parameter("TZID").filter(|_| !is_utc) {
        Some(name) => TimeZone::get(name)
            .map_err(|_| format!("this machine does not know the time zone {name:?}; give the time in UTC"))?,
        None => TimeZone::UTC,
    };
    civil.to_zoned(zone).map_err(|_| wrong())
}

/// A text without its escapes (section 3.3.11).
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n' | 'N') => ' ',
                Some(escaped) => escaped,
                None => '\\',
            },
            character => character,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(lines: &str) -> String {
        let all = format!("BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\n{lines}\nEND:VEVENT\nEND:VCALENDAR\n");
        all.replace('\n', "\r\n")
    }

    fn one(lines: &str) -> Downtime {
        read(&calendar(lines)).unwrap().remove(0)
    }

    #[test]
    fn an_event_is_a_downtime() {
        let read = one(
            "UID:1\nDTSTART:20261201T080000Z\nDTEND:20261201T100000Z\nSUMMARY:Upgrade\\, disks\n  and network\n\
             BEGIN:VALARM\nSUMMARY:wake up\nDURATION:PT15M\nEND:VALARM",
        );
        assert_eq!(read.from_ms, 1_796_112_000_000);
        assert_eq!(read.until_ms - read.from_ms, 2 * 3_600_000);
        assert_eq!(read.reason, "Upgrade, disks and network");
    }

    #[test]
    fn lines_are_folded_anywhere() {
        let text = calendar("DTSTART;TZID=Etc/UTC:20261201T080000\nDTEND:20261201T100000Z\nSUMMARY:disks");
        let expected = read(&text).unwrap();
        assert_eq!(expected.len(), 1);
        let is_between = |at: &usize| text.is_char_boundary(*at) && !text[..*at].ends_with('\r');
        for at in (1..text.len() - 1).filter(is_between) {
            for fold in ["\r\n ", "\n\t"] {
                let folded = format!("{}{fold}{}", &text[..at], &text[at..]);
                // In front of a line it continues the one before, which has ended.
                if !text[..at].ends_with('\n') {
                    assert_eq!(read(&folded).as_ref(), Ok(&expected), "{folded:?}");
                }
            }
        }
    }

    #[test]
    fn times_without_a_zone_are_utc_and_dates_are_whole_days() {
        let hour = 3_600_000;
        let utc = one("DTSTART:20261201T080000\nDURATION:PT1H");
        assert_eq!(
            (utc.from_ms, utc.until_ms),
            (1_796_112_000_000, 1_796_112_000_000 + hour)
        );
        let day = one("DTSTART;VALUE=DATE:20261201");
        assert_eq!(day.until_ms - day.from_ms, 24 * hour);
        let named = one("DTSTART;TZID=\"Etc/GMT-1\":20261201T080000\nDTEND:20261201T080000Z");
        assert_eq!(named.until_ms - named.from_ms, hour);
    }

    #[test]
    fn canceled_events_are_left_out() {
        for lines in [
            "DTSTART:20261201T080000Z\nSTATUS:CANCELLED",
            "DTSTART:20261201T080000Z\nRRULE:FREQ=DAILY\nSTATUS:CANCELLED",
            "STATUS:CANCELLED\nRDATE:20261202T080000Z",
        ] {
            assert_eq!(read(&calendar(lines)), Ok(Vec::new()), "{lines}");
        }
    }

    #[test]
    fn a_mark_of_the_byte_order_is_left_out() {
        let text = calendar("DTSTART:20261201T080000Z");
        assert_eq!(read(&format!("\u{feff}{text}")), read(&text));
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (lines, words) in [
            ("DTSTART:tomorrow", "line 4: DTSTART: \"tomorrow\" is not a time"),
            ("SUMMARY:x", "line 5: END: the event has no DTSTART"),
            (
                "DTSTART:20261201T080000Z\nRRULE:FREQ=DAILY",
                "line 5: RRULE: events that repeat",
            ),
            (
                "DTSTART;TZID=Moon/Crater:20261201T080000",
                "the time zone \"Moon/Crater\"",
            ),
            (
                "DTSTART:20261201T080000Z\nDTEND:20261101T080000Z",
                "line 6: END: the event ends before",
            ),
        ] {
            let told = read(&calendar(lines)).unwrap_err();
            assert!(told.contains(words), "{lines}: {told}");
        }
        assert!(read("<html>").unwrap_err().contains("not a calendar"));
        assert!(read("BEGIN:VCALENDAR\n").unwrap_err().contains("within VCALENDAR"));
    }
}
