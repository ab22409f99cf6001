//! What is kept about an attempt that ended, beside its event: the figures that messages report.

use serde::{Deserialize, Serialize};

use crate::job::Problem;

/// A period, in milliseconds since 1970. Both are 0 if it never began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The beginning.
    #[serde(rename = "from")]
    pub from_ms: i64,
    /// The end.
    #[serde(rename = "to")]
    pub to_ms: i64,
}

impl Span {
    /// Its length; 0 where a clock went back.
    #[must_use]
    pub fn length_ms(self) -> i64 {
        (self.to_ms - self.from_ms).max(0)
    }
}

/// The course of one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopyFacts {
    /// The attempt.
    pub whole: Span,
    /// The transfer of data.
    pub transfer: Span,
    /// The request for the source's checksum.
    pub source_checksum: Span,
    /// The request for the destination's checksum.
    pub destination_checksum: Span,
    /// The time limit of the copy, in seconds.
    pub timeout_s: u64,
    /// Attempts after the first that the file may have.
    pub retries_max: u16,
    /// Whether data moved over IPv6; `None`: unknown.
    pub is_ipv6: Option<bool>,
}

/// How an attempt ended, as its event keeps it: the records of the file and its job go on to
/// change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptEnd {
    /// Failed attempts before this one.
    pub retry: u16,
    /// Bytes copied.
    pub moved_bytes: u64,
    /// The size of the file, of a complete copy.
    pub size_bytes: Option<u64>,
    /// The way, as in FTS's messages.
    pub way: Option<String>,
    /// Why it failed.
    pub problem: Option<Problem>,
    /// Its course. Unknown of a copy that was canceled.
    pub facts: CopyFacts,
}
