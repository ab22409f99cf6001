//! What was tried over one link, and what came of it.

use serde::{Deserialize, Serialize};
use types::{Phase, Side};

/// How a copy is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Requests to one endpoint; nothing is copied to another.
    Probe,
    /// HTTP: the destination fetches (COPY with `Source`).
    Pull,
    /// HTTP: the source sends (COPY with `Destination`).
    Push,
    /// XRootD: the destination fetches, and the client keeps both files open.
    Rendezvous,
    /// XRootD: the destination fetches with a credential that the client delegates (TPC Lite).
    Lite,
    /// The bytes go through the instrument.
    Streamed,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 6] = [
        Self::Probe,
        Self::Pull,
        Self::Push,
        Self::Rendezvous,
        Self::Lite,
        Self::Streamed,
    ];

    /// The word on the command line, in tables and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Rendezvous => "rendezvous",
            Self::Lite => "lite",
            Self::Streamed => "streamed",
        }
    }

    /// A mode, by its word.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == word)
    }
}

/// What a cell is about. No two cells of a run have the same link.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// The name of the endpoint that has the file.
    pub source: String,
    /// The name of the endpoint that gets it; the same name for [`Mode::Probe`].
    pub destination: String,
    /// The scheme of URLs at the source: `https`, `roots`, `s3`, ….
    pub source_protocol: String,
    /// The scheme of URLs at the destination.
    pub destination_protocol: String,
    /// How it is copied.
    pub mode: Mode,
    /// The kind of credential, by its word in `crossload smoke`: `token`, `x509`, ….
    pub credential: String,
}

/// How a cell or a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Outcome {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed(Box<Failure>),
    /// It was not tried this time.
    Skipped {
        /// For what reason, in one sentence.
        why: String,
    },
    /// It can never be tried here: an endpoint does not have that role, protocol or mode.
    NotApplicable {
        /// For what reason, in one sentence.
        why: String,
    },
}

impl Outcome {
    /// Whether it ended as it should.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        matches!(self, Self::Passed)
    }

    /// Why it failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// The word in tables and in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::Skipped { .. } => "skipped",
            Self::NotApplicable { .. } => "not_applicable",
        }
    }
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The side that the error names.
    pub side: Side,
    /// The phase in which it happened.
    pub phase: Phase,
    /// The stable code, as in docs/errors.md; of a queue that is not ours, its own.
    pub code: String,
    /// What was wrong, in one sentence without secrets.
    pub says: String,
    /// The server's status, of HTTP or of the XRootD protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_status: Option<u32>,
    /// The server's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_words: Option<String>,
    /// Lines for a shell that show it again; secrets stand in them as variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reproduce: Vec<String>,
}

/// One step of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What was done, in a few words: `seed`, `copy`, `size`, `checksum`, `remove`, or the name of
    /// a probe.
    pub name: String,
    /// How long it took.
    pub took_ms: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// Failures of one kind in a cell of many copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedFailure {
    /// The first of them.
    pub failure: Failure,
    /// How many there were.
    pub count: u64,
}

/// How much was copied until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatePoint {
    /// Milliseconds since the begin of the run.
    pub at_ms: u64,
    /// Bytes that arrived since the point before.
    pub bytes: u64,
}

/// What was tried over one link, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What it is about.
    pub link: Link,
    /// How it ended; with many copies, as the first of them that failed.
    pub outcome: Outcome,
    /// Its steps in order; without those of single copies where there are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Begin, in milliseconds since 1970; 0 when nothing was tried.
    pub started_ms: u64,
    /// The time of the copy, or of all of them from the first to the last.
    pub copy_ms: u64,
    /// Bytes that arrived whole.
    pub bytes: u64,
    /// Copies that were tried: 1 in a mesh.
    pub copies: u64,
    /// Copies that failed.
    pub copies_failed: u64,
    /// All failures by kind, where there are many copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<CountedFailure>,
    /// The rate over time, where there are many copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RatePoint>,
    /// The page of the queue's job that made the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_url: Option<String>,
}

impl Cell {
    /// A cell that was not tried.
    #[must_use]
    pub fn untried(link: Link, outcome: Outcome) -> Self {
        Self {
            link,
            outcome,
            steps: Vec::new(),
            started_ms: 0,
            copy_ms: 0,
            bytes: 0,
            copies: 0,
            copies_failed: 0,
            failures: Vec::new(),
            rates: Vec::new(),
            job_url: None,
        }
    }

    /// Megabits per second of what arrived; `None` when nothing did, or in no time.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn rate_mbps(&self) -> Option<f64> {
        (self.bytes > 0 && self.copy_ms > 0).then(|| self.bytes as f64 * 8.0 / (self.copy_ms as f64 * 1000.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        Link {
            source: "A".to_owned(),
            destination: "B".to_owned(),
            source_protocol: "https".to_owned(),
            destination_protocol: "https".to_owned(),
            mode: Mode::Pull,
            credential: "token".to_owned(),
        }
    }

    #[test]
    fn a_cell_is_the_same_after_json() {
        let failure = Failure {
            side: Side::Source,
            phase: Phase::Transfer,
            code: "peer_truncated".to_owned(),
            says: "the server sent less than it announced".to_owned(),
            server_status: Some(200),
            server_words: None,
            reproduce: vec!["crossload copy …".to_owned()],
        };
        let cell = Cell::untried(link(), Outcome::Failed(Box::new(failure)));
        let text = serde_json::to_string(&cell).unwrap();
        assert!(
            text.contains(r#""is":"failed","side":"source","phase":"transfer""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Cell>(&text).unwrap(), cell);
        let wrong = text.replace(r#""side":"source""#, r#""side":"moon""#);
        assert!(
            serde_json::from_str::<Cell>(&wrong)
                .unwrap_err()
                .to_string()
                .contains("moon")
        );
    }

    #[test]
    fn a_rate_needs_bytes_and_time() {
        let cell = Cell::untried(link(), Outcome::Passed);
        assert_eq!(cell.rate_mbps(), None);
        let cell = Cell {
            bytes: 1_000_000,
            copy_ms: 1_000,
            ..cell
        };
        assert_eq!(cell.rate_mbps(), Some(8.0));
    }
}
