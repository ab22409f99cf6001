//! The decision: the way that is taken, the ones that are left, and what came of those that were tried.

use std::fmt;

use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode, Phase, Side};

use super::Way;

/// Why a way is taken, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The order asks for this way and no other.
    Ordered,
    /// Both files are on this machine.
    BothHere,
    /// The source is on this machine.
    SourceHere,
    /// The destination is on this machine.
    DestinationHere,
    /// The destination is known to fetch.
    DestinationPulls,
    /// The destination may be able to fetch.
    DestinationMayPull,
    /// The source is known to send.
    SourcePushes,
    /// The source may be able to send.
    SourceMayPush,
    /// It needs nothing of either server but reading and writing.
    Through,
    /// Passed over: the destination cannot fetch.
    DestinationCannotPull,
    /// Passed over: the source cannot send.
    SourceCannotPush,
}

impl Reason {
    /// The reason for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Ordered => "as ordered",
            Self::BothHere => "both files are on this machine",
            Self::SourceHere => "the source is on this machine",
            Self::DestinationHere => "the destination is on this machine",
            Self::DestinationPulls => "the destination fetches directly from the source",
            Self::DestinationMayPull => "the destination fetches directly from the source, if it can",
            Self::SourcePushes => "the source sends directly to the destination",
            Self::SourceMayPush => "the source sends directly to the destination, if it can",
            Self::Through => "the data go through this machine",
            Self::DestinationCannotPull => "the destination cannot fetch from other servers",
            Self::SourceCannotPush => "the source cannot send to other servers",
        }
    }
}

/// A way with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// Why it is there.
    pub reason: Reason,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The code.
    pub code: ErrorCode,
    /// The side at fault.
    pub side: Side,
    /// What was being done.
    pub phase: Phase,
    /// The message, without any secret.
    pub message: String,
    /// Whether the same attempt may succeed later.
    pub retry: bool,
}

impl From<&Error> for Failed {
    fn from(error: &Error) -> Self {
        Self {
            code: error.code(),
            side: error.side(),
            phase: error.phase(),
            message: error.public(),
            retry: error.retry(),
        }
    }
}

/// A way that was tried, and failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempted {
    /// The way.
    pub way: Way,
    /// What it failed at.
    pub error: Failed,
}

/// How one file travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    chosen: Choice,
    left: Vec<Choice>,
    passed_over: Vec<Choice>,
    attempted: Vec<Attempted>,
}

impl Plan {
    /// A plan of these ways in their order; `None` where there is none.
    pub(super) fn new(ways: Vec<Choice>, passed_over: Vec<Choice>) -> Option<Self> {
        let mut ways = ways.into_iter();
        Some(Self {
            chosen: ways.next()?,
            left: ways.collect(),
            passed_over,
            attempted: Vec::new(),
        })
    }

    /// A plan with one way.
    pub(super) fn only(way: Way, reason: Reason) -> Self {
        Self {
            chosen: Choice { way, reason },
            left: Vec::new(),
            passed_over: Vec::new(),
            attempted: Vec::new(),
        }
    }

    /// The way to take now.
    #[must_use]
    pub fn way(&self) -> Way {
        self.chosen.way
    }

    /// The way to take now, with its reason.
    #[must_use]
    pub fn chosen(&self) -> Choice {
        self.chosen
    }

    /// The ways that are left for a failure, in their order.
    #[must_use]
    pub fn left(&self) -> &[Choice] {
        &self.left
    }

    /// The ways that cannot be taken.
    #[must_use]
    pub fn passed_over(&self) -> &[Choice] {
        &self.passed_over
    }

    /// What was tried, in order.
    #[must_use]
    pub fn attempted(&self) -> &[Attempted] {
        &self.attempted
    }

    /// The chosen way failed with `error`: notes it, and chooses the next way where that may help. Whether it may is
    /// the table's `another_way`.
    pub fn after(&mut self, error: &Error) -> Option<Way> {
        self.attempted.push(Attempted {
            way: self.chosen.way,
            error: Failed::from(error),
        });
        if !error.another_way() || self.left.is_empty() {
            return None;
        }
        self.chosen = self.left.remove(0);
        Some(self.chosen.way)
    }
}

/// `pull (the destination fetches directly from the source, if it can); if that fails, push, then stream`.
impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.chosen.way.name(), self.chosen.reason.words())?;
        let left: Vec<&str> = self.left.iter().map(|choice| choice.way.name()).collect();
        if !left.is_empty() {
            write!(out, "; if that fails, {}", left.join(", then "))?;
        }
        for Choice { way, reason } in &self.passed_over {
            write!(out, "; no {}: {}", way.name(), reason.words())?;
        }
        Ok(())
    }
}
