//! The body of a third-party copy's answer: performance markers and the line that says how it ended
//! (WLCG HTTP-TPC).
//!
//! Clients judge a copy by its last line alone, and davix reads lines into 1024 bytes.

use std::net::SocketAddr;

use crate::limits::{MARKER_LINE_BYTES_MAX, MARKER_STRIPES_MAX};

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The data is complete and the file closed.
    Success,
    /// It failed; the text says why.
    Failure(String),
    /// The server cancelled it; the text says why.
    Aborted(String),
}

impl Outcome {
    /// The last line of the body, with its LF; never longer than [`MARKER_LINE_BYTES_MAX`].
    #[must_use]
    pub fn to_line(&self) -> String {
        let (word, text) = match self {
            Self::Success => ("success", "Created"),
            Self::Failure(text) => ("failure", text.as_str()),
            Self::Aborted(text) => ("aborted", text.as_str()),
        };
        let flat: String = text
            .chars()
            .map(|character| if character.is_control() { ' ' } else { character })
            .collect();
        let mut line = format!("{word}: {}", flat.trim());
        let mut end = line.len().min(MARKER_LINE_BYTES_MAX - 1);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('\n');
        line
    }
}

/// One progress marker (`Perf Marker`), of one stripe that stands for the whole transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// When it is sent, in seconds since the epoch.
    pub timestamp_s: u64,
    /// Bytes moved so far.
    pub bytes: u64,
    /// The other ends of the data connections; may be empty.
    pub connections: Vec<SocketAddr>,
}

impl Marker {
    /// The marker as it is sent, one line per fact. Connections that would make the line too long
    /// are left out; clients use the first one.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "Perf Marker\nTimestamp: {}\nStripe Index: 0\nStripe Bytes Transferred: {}\nTotal Stripe Count: 1\n",
            self.timestamp_s, self.bytes
        );
        let mut line = String::new();
        for address in &self.connections {
            let separator = if line.is_empty() { "RemoteConnections: " } else { "," };
            let next = format!("{separator}tcp:{}", without_scope(*address));
            if line.len() + next.len() >= MARKER_LINE_BYTES_MAX {
                break;
            }
            line.push_str(&next);
        }
        if !line.is_empty() {
            line.push('\n');
            text.push_str(&line);
        }
        text.push_str("End\n");
        text
    }
}

/// The scope of a link-local address means nothing to anybody else.
fn without_scope(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// What a client has learned of a transfer so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Bytes moved, all stripes together.
    pub bytes: u64,
    /// When the server wrote the last marker, in seconds since the epoch, if it said so.
    pub timestamp_s: Option<u64>,
    /// The other ends of the data connections, as the server wrote them (`tcp:192.0.2.1:443`).
    pub connections: Vec<String>,
    /// How many markers have come.
    pub markers: u64,
}

impl CopyProgress {
    /// The addresses among the connections, without what is no address.
    pub fn peers(&self) -> impl Iterator<Item = SocketAddr> {
        let addresses = self.connections.iter().filter_map(|place| place.split_once(':'));
        addresses.filter_map(|(_, address)| address.trim().parse().ok())
    }
}

/// Reads markers as they come, tolerantly: indented lines, unknown keys, keys and words in any
/// case, several stripes, a last line without its end. Of over-long lines only the part that fits
/// is read.
#[derive(Clone, Debug, Default)]
pub struct MarkerParser {
    line: Vec<u8>,
    stripe: u32,
    stripes: Vec<(u32, u64)>,
    progress: CopyProgress,
    outcome: Option<Outcome>,
}

impl MarkerParser {
    /// A parser at the start of a body.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the body; returns whether a marker or the outcome was completed.
    /// Bytes behind the outcome are passed over.
    pub fn feed(&mut self, bytes: &[u8]) -> bool {
        let before = (self.progress.markers, self.outcome.is_some());
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MARKER_LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
        before != (self.progress.markers, self.outcome.is_some())
    }

    /// What is known so far.
    #[must_use]
    pub fn progress(&self) -> &CopyProgress {
        &self.progress
    }

    /// How the transfer ended, once the line has come.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// To be called when the body has ended: reads a last line that has no end. `None` means that
    /// the server never said how the transfer ended.
    #[must_use]
    pub fn finish(mut self) -> Option<Outcome> {
        self.end_line();
        self.outcome
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.line);
        if self.outcome.is_none() {
            self.handle_line(String::from_utf8_lossy(&bytes).trim());
        }
    }

    fn handle_line(&mut self, line: &str) {
        let value_of = |key: &str| {
            let start = line.get(..key.len())?;
            start
                .eq_ignore_ascii_case(key)
                .then(|| line[key.len()..].trim_start_matches([':', ' ', '\t']))
        };
        let number = |text: &str| -> Option<u64> {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            text[..digits].parse().ok()
        };
        if value_of("Perf Marker").is_some() {
            self.stripe = 0;
        } else if let Some(value) = value_of("Timestamp:") {
            self.progress.timestamp_s = number(value);
        } else if let Some(value) = value_of("Stripe Index:") {
            self.stripe = number(value).and_then(|index| u32::try_from(index).ok()).unwrap_or(0);
        } else if let Some(value) = value_of("Stripe Bytes Transferred:") {
            self.set_stripe(number(value).unwrap_or(0));
        } else if let Some(value) = value_of("RemoteConnections:") {
            let list = value.split(',').map(str::trim).filter(|item| !item.is_empty());
            self.progress.connections = list.take(MARKER_STRIPES_MAX).map(str::to_owned).collect();
        } else if line.eq_ignore_ascii_case("End") {
            self.progress.markers += 1;
            self.progress.bytes = self
                .stripes
                .iter()
                .fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        } else if value_of("success").is_some() {
            self.outcome = Some(Outcome::Success);
        } else if let Some(text) = value_of("aborted") {
            self.outcome = Some(Outcome::Aborted(text.to_owned()));
        } else if let Some(text) = value_of("failure").or_else(|| value_of("failed")) {
            self.outcome = Some(Outcome::Failure(text.to_owned()));
        }
    }

    fn set_stripe(&mut self, bytes: u64) {
        if let Some((_, known)) = self.stripes.iter_mut().find(|(index, _)| *index == self.stripe) {
            *known = bytes;
        } else if self.stripes.len() < MARKER_STRIPES_MAX {
            self.stripes.push((self.stripe, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_marker_is_written_to_the_byte() {
        let marker = Marker {
            timestamp_s: 1_795_286_673,
            bytes: 238_745,
            connections: vec![address("129.93.3.4:1234"), address("[2600:900:6:1301::1]:2345")],
        };
        let text = "Perf Marker\nTimestamp: 1795286673\nStripe Index: 0\nStripe Bytes Transferred: 238745\nTotal Stripe Count: 1\n\
                    RemoteConnections: tcp:129.93.3.4:1234,tcp:[2600:900:6:1301::1]:2345\nEnd\n";
        assert_eq!(marker.to_text(), text);
        assert!(
            !Marker {
                connections: vec![],
                ..marker
            }
            .to_text()
            .contains("Remote")
        );
    }

    #[test]
    fn lines_stay_short_whatever_goes_in() {
        let marker = Marker {
            timestamp_s: 0,
            bytes: 0,
            connections: vec![address("[2600:900:6:1301::1]:2345"); 100],
        };
        let longest = marker.to_text().lines().map(str::len).max().unwrap();
        assert!((900..MARKER_LINE_BYTES_MAX).contains(&longest), "{longest}");
        let line = Outcome::Failure("ä\n".repeat(2000)).to_line();
        assert!(line.len() <= MARKER_LINE_BYTES_MAX && line.ends_with('\n') && line.matches('\n').count() == 1);
        assert_eq!(Outcome::Success.to_line(), "success: Created\n");
    }

    #[test]
    fn markers_of_every_server_are_read_however_they_are_cut() {
        let dcache = "Perf Marker\n    Timestamp: 5\n    State: Running\n    Stripe Index: 0\n    Stripe Bytes Transferred: 10\n    \
                      Total Stripe Count: 2\nEnd\nPerf Marker\n\tStripe Index: 1\r\n\tStripe Bytes Transferred: 7\nEnd\nSuccess: x";
        for size in [1, 2, 7, 1000] {
            let mut parser = MarkerParser::new();
            for piece in dcache.as_bytes().chunks(size) {
                parser.feed(piece);
            }
            assert_eq!(
                (
                    parser.progress().bytes,
                    parser.progress().timestamp_s,
                    parser.progress().markers
                ),
                (17, Some(5), 2)
            );
            assert_eq!(parser.outcome(), None);
            assert_eq!(parser.finish(), Some(Outcome::Success));
        }
    }

    #[test]
    fn the_first_outcome_counts_and_silence_is_none() {
        let read = |text: &str| {
            let mut parser = MarkerParser::new();
            parser.feed(text.as_bytes());
            parser.finish()
        };
        assert_eq!(
            read("failure: a\nsuccess: Created\n"),
            Some(Outcome::Failure("a".into()))
        );
        assert_eq!(read("failed: b"), Some(Outcome::Failure("b".into())));
        assert_eq!(read("aborted: c"), Some(Outcome::Aborted("c".into())));
        assert_eq!(read("Perf Marker\nEnd\n"), None);
        assert_eq!(read(&format!("{}\nsuccess", "x".repeat(5000))), Some(Outcome::Success));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let marker = Marker {
            timestamp_s: 9,
            bytes: u64::MAX,
            connections: vec![address("127.0.0.1:8444")],
        };
        let mut parser = MarkerParser::new();
        assert!(parser.feed(marker.to_text().as_bytes()));
        assert_eq!(parser.progress().bytes, u64::MAX);
        assert_eq!(parser.progress().connections, ["tcp:127.0.0.1:8444"]);
        assert_eq!(
            parser.progress().peers().collect::<Vec<_>>(),
            [address("127.0.0.1:8444")]
        );
        assert!(parser.feed(Outcome::Failure("no space".into()).to_line().as_bytes()));
        assert_eq!(parser.outcome(), Some(&Outcome::Failure("no space".into())));
    }
}
