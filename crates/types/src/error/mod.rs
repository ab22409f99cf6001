//! The project's error type: a stable code, the side and phase, whether a retry or another way can
//! help, and what the peer said. The table of codes has the rest.

mod code;
mod fts;
mod peer;
mod row;
mod rows;
mod s3;
mod stored;

pub use code::ErrorCode;
pub use fts::{Fts, Scope};
pub use peer::PeerStatus;
pub use row::{AnotherWay, Retry, Row};
pub use rows::{FAMILIES, Family};
pub use s3::S3;

use std::fmt;
use std::time::Duration;

/// A result with the project's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a server of ours adds to a refused upload if a file that it would have replaced is not what
/// it was any more, because the server behind it writes over files as the data comes.
pub const REPLACED_IS_LOST: &str = "the file that was there before is lost";

/// The party at fault, or where the fault was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The server that runs the transfer or answers the request.
    Active,
    /// The client that sent the request, or this program itself.
    Client,
    /// The server that the bytes go to.
    Destination,
    /// The service that queues transfers.
    Queue,
    /// The server that the bytes come from.
    Source,
    /// The server behind this one that has the files of an export.
    Upstream,
}

impl Side {
    /// All sides.
    pub const ALL: [Self; 6] = [
        Self::Active,
        Self::Client,
        Self::Destination,
        Self::Queue,
        Self::Source,
        Self::Upstream,
    ];

    /// The word used in messages and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "server",
            Self::Client => "client",
            Self::Destination => "destination",
            Self::Queue => "queue",
            Self::Source => "source",
            Self::Upstream => "upstream",
        }
    }
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Phase {
    Queued,
    Staging,
    Connect,
    Tls,
    Authenticate,
    Authorize,
    Open,
    Transfer,
    Checksum,
    Commit,
    Cleanup,
    Archiving,
}

impl Phase {
    /// All phases, in the order of a transfer.
    pub const ALL: [Self; 12] = [
        Self::Queued,
        Self::Staging,
        Self::Connect,
        Self::Tls,
        Self::Authenticate,
        Self::Authorize,
        Self::Open,
        Self::Transfer,
        Self::Checksum,
        Self::Commit,
        Self::Cleanup,
        Self::Archiving,
    ];

    /// The word used in messages and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Staging => "staging",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Authenticate => "authenticate",
            Self::Authorize => "authorize",
            Self::Open => "open",
            Self::Transfer => "transfer",
            Self::Checksum => "checksum",
            Self::Commit => "commit",
            Self::Cleanup => "cleanup",
            Self::Archiving => "archiving",
        }
    }
}

/// An error, cheap to pass on. Build it with [`Error::new`] and the `with_` methods.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: ErrorCode,
    side: Side,
    phase: Phase,
    detail: Option<String>,
    subject: Option<String>,
    peer_status: Option<PeerStatus>,
    peer_words: Option<String>,
    private: Option<String>,
    retry_after: Option<Duration>,
    reporter: Option<Side>,
}

impl Error {
    /// An error with the code's own sentence.
    #[must_use]
    pub fn new(code: ErrorCode, side: Side, phase: Phase) -> Self {
        Self(Box::new(Inner {
            code,
            side,
            phase,
            detail: None,
            subject: None,
            peer_status: None,
            peer_words: None,
            private: None,
            retry_after: None,
            reporter: None,
        }))
    }

    /// Adds a detail for the reader of the message. It must contain no secret and no local file
    /// name.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(one_line(&detail.into()));
        self
    }

    /// Names what the error is about: a logical path, or a URL without its query.
    #[must_use]
    pub fn with_subject(mut self, subject: impl fmt::Display) -> Self {
        self.0.subject = Some(one_line(&subject.to_string()));
        self
    }

    /// Records the peer's answer: its status and the beginning of its text. Tokens in URLs that it
    /// quotes are removed.
    #[must_use]
    pub fn with_peer(mut self, status: Option<PeerStatus>, words: &str) -> Self {
        self.0.peer_status = status;
        let words = without_tokens(&one_line(words));
        self.0.peer_words = (!words.is_empty()).then(|| clip(words, crate::limits::PEER_WORDS_BYTES_MAX));
        self
    }

    /// Records a detail for the server's log only, such as a local path or a system error.
    #[must_use]
    pub fn with_private(mut self, private: impl fmt::Display) -> Self {
        self.0.private = Some(one_line(&private.to_string()));
        self
    }

    /// Records when the peer wants to be asked again.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.0.retry_after = retry_after;
        self
    }

    /// Records which server reported the failure of a copy that it made. What it says of the other
    /// side, or of its connection to it, is known by its words only.
    #[must_use]
    pub fn with_reporter(mut self, reporter: Option<Side>) -> Self {
        self.0.reporter = reporter;
        self
    }

    /// The same error, with the fault at `side`.
    #[must_use]
    pub fn at_side(mut self, side: Side) -> Self {
        self.0.side = side;
        self
    }

    /// The same error in another phase.
    #[must_use]
    pub fn in_phase(mut self, phase: Phase) -> Self {
        self.0.phase = phase;
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The side at fault.
    #[must_use]
    pub fn side(&self) -> Side {
        self.0.side
    }

    /// The phase in which it happened.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.0.phase
    }

    /// The status of the peer's answer, if it answered.
    #[must_use]
    pub fn peer_status(&self) -> Option<PeerStatus> {
        self.0.peer_status
    }

    /// The peer's own text, on one line, truncated.
    #[must_use]
    pub fn peer_words(&self) -> Option<&str> {
        self.0.peer_words.as_deref()
    }

    /// The detail beyond the code's meaning.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// What the error is about.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// The detail for the server's own log.
    #[must_use]
    pub fn private(&self) -> Option<&str> {
        self.0.private.as_deref()
    }

    /// When the peer wants to be asked again, if it says so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The server that reported the failure of its copy; `None`: the failure was noticed here.
    #[must_use]
    pub fn reporter(&self) -> Option<Side> {
        self.0.reporter
    }

    /// Whether the peer has too much to do now: 429, or 503 with the time of the next attempt
    /// (RFC 6585 §4, RFC 9110 §15.6.4).
    #[must_use]
    pub fn asks_to_wait(&self) -> bool {
        self.peer_status() == Some(PeerStatus::Http(429)) || self.0.retry_after.is_some()
    }

    /// Whether the same attempt may succeed a little later.
    #[must_use]
    pub fn retry(&self) -> bool {
        match self.code().retry() {
            Retry::Yes => true,
            Retry::No => false,
            Retry::PeerDecides => self.peer_status().is_none_or(PeerStatus::may_pass),
        }
    }

    /// Whether the file may arrive another way.
    #[must_use]
    pub fn another_way(&self) -> bool {
        match self.code().another_way() {
            AnotherWay::Yes => true,
            AnotherWay::No => false,
            AnotherWay::PeerDecides => !self.peer_status().is_some_and(PeerStatus::is_conflict),
        }
    }

    /// The whole message on one line, without the private detail.
    #[must_use]
    pub fn public(&self) -> String {
        let inner = &self.0;
        let mut text = format!("{} {}: {}", inner.side.name(), inner.phase.name(), inner.code.meaning());
        if let Some(detail) = &inner.detail {
            text.push_str(&format!(" ({detail})"));
        }
        if let Some(subject) = &inner.subject {
            text.push_str(&format!(", {subject}"));
        }
        match (inner.peer_status, &inner.peer_words) {
            (Some(status), Some(words)) => text.push_str(&format!("; the peer answered {status}: \"{words}\"")),
            (Some(status), None) => text.push_str(&format!("; the peer answered {status}")),
            (None, Some(words)) => text.push_str(&format!("; the peer said: \"{words}\"")),
            (None, None) => {}
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.public())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{}] {}", self.code().name(), self.public())?;
        match self.private() {
            Some(private) => write!(formatter, " {{{private}}}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Messages go into one-line records and marker streams, so line ends and other control characters
/// become spaces.
fn one_line(text: &str) -> String {
    let flat: String = text
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    flat.trim().to_owned()
}

/// What stands before a secret in the query of a URL: a token, or a signature of S3, Google
/// (`X-Amz-Signature`, `Signature`) or Azure.
const SECRET_MARKS: [&str; 5] = ["authz=", "capability=", "signature=", "security-token=", "sig="];

/// Replaces the values behind the marks: servers like to quote the URL that they refuse.
fn without_tokens(text: &str) -> String {
    SECRET_MARKS
        .iter()
        .fold(text.to_owned(), |text, mark| without_values(&text, mark))
}

fn without_values(text: &str, mark: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut plain = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = lower[at..].find(mark) {
        let start = at + found + mark.len();
        let value = &text[start..];
        let scheme = value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("bearer "));
        let token = scheme.map_or(0, str::len);
        let end = value[token..].find(|end: char| end.is_whitespace() || "&\"'<>#".contains(end));
        plain.push_str(&text[at..start]);
        plain.push('…');
        at = end.map_or(text.len(), |end| start + token + end);
    }
    plain.push_str(&text[at..]);
    plain
}

fn clip(mut text: String, limit_bytes: usize) -> String {
    if text.len() > limit_bytes {
        let mut cut = limit_bytes;
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        text.truncate(cut);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_side_phase_subject_and_the_peers_words() {
        let error = Error::new(ErrorCode::PeerNotFound, Side::Source, Phase::Open)
            .with_subject("https://a/f")
            .with_peer(Some(PeerStatus::Http(404)), "Unable to open\n/f;  no such file ")
            .with_private("/srv/data");
        let text = error.public();
        assert!(text.starts_with("source open: No such file or directory"), "{text}");
        assert!(
            text.contains("https://a/f") && text.contains("404") && text.contains("Unable to open /f"),
            "{text}"
        );
        assert!(!text.contains('\n') && !text.contains("/srv"), "{text}");
    }

    #[test]
    fn a_peers_status_decides_about_another_attempt() {
        let failed = Error::new(ErrorCode::PeerFailed, Side::Source, Phase::Open);
        let answered = |status| failed.clone().with_peer(Some(PeerStatus::Http(status)), "");
        assert!(answered(503).retry() && answered(429).retry() && answered(423).retry());
        assert!(!answered(507).retry() && !answered(400).retry() && !answered(501).retry());
        let answered = |number| failed.clone().with_peer(Some(PeerStatus::Xrootd(number)), "");
        assert!(answered(3024).retry() && !answered(3005).retry() && !answered(3013).retry());
        assert!(!Error::new(ErrorCode::NotFound, Side::Source, Phase::Open).retry());
    }

    #[test]
    fn tokens_in_urls_that_a_peer_quotes_are_blotted_out() {
        let words = "no /f?authz=Bearer%20abc.def&x=1 nor <a href=\"/g?AUTHZ=ghi\">g</a> authz=bearer jkl no";
        let error =
            Error::new(ErrorCode::PeerFailed, Side::Source, Phase::Open).with_peer(Some(PeerStatus::Http(500)), words);
        assert_eq!(
            error.peer_words(),
            Some("no /f?authz=…&x=1 nor <a href=\"/g?AUTHZ=…\">g</a> authz=… no")
        );
    }

    #[test]
    fn long_words_of_a_peer_are_clipped_on_a_character() {
        let error = Error::new(ErrorCode::PeerFailed, Side::Source, Phase::Open).with_peer(None, &"ä".repeat(5000));
        assert!(error.peer_words().unwrap().len() <= crate::limits::PEER_WORDS_BYTES_MAX + 4);
    }
}
