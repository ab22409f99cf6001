//! The plan of a copy: the chosen way, the alternatives, and the failed attempts.

use std::fmt;

use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode, Phase, Side};

use super::{Evidence, Way};

/// Why a way is chosen or ruled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The order asks for this way only.
    Ordered,
    /// Both files are on this machine.
    BothHere,
    /// The source is on this machine.
    SourceHere,
    /// The destination is on this machine.
    DestinationHere,
    /// The destination fetches with a proxy of the client.
    DestinationTakesProxy,
    /// The destination may fetch with a proxy of the client.
    DestinationMayTakeProxy,
    /// The destination can pull.
    DestinationPulls,
    /// The destination may be able to pull.
    DestinationMayPull,
    /// The source can push.
    SourcePushes,
    /// The source may be able to push.
    SourceMayPush,
    /// One server has both files, for one account.
    OneServer,
    /// It needs only reading and writing of both servers.
    Through,
    /// Ruled out: the destination does not fetch with a proxy of the client.
    DestinationTakesNoProxy,
    /// Ruled out: the destination cannot pull.
    DestinationCannotPull,
    /// Ruled out: the source cannot push.
    SourceCannotPush,
    /// Ruled out: it has failed between these servers in the same command.
    FailedBefore,
}

impl Reason {
    /// Whether it says of a server that it can or cannot do something.
    pub(super) fn states_ability(self) -> bool {
        matches!(
            self,
            Self::DestinationTakesProxy
                | Self::DestinationPulls
                | Self::SourcePushes
                | Self::DestinationTakesNoProxy
                | Self::DestinationCannotPull
                | Self::SourceCannotPush
        )
    }

    /// The reason in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Ordered => "as ordered",
            Self::BothHere => "both files are on this machine",
            Self::SourceHere => "the source is on this machine",
            Self::DestinationHere => "the destination is on this machine",
            Self::DestinationTakesProxy => "the destination fetches as the user, with a delegated proxy",
            Self::DestinationMayTakeProxy => "the destination fetches as the user, with a delegated proxy, if it can",
            Self::DestinationPulls => "the destination fetches directly from the source",
            Self::DestinationMayPull => "the destination fetches directly from the source, if it can",
            Self::SourcePushes => "the source sends directly to the destination",
            Self::SourceMayPush => "the source sends directly to the destination, if it can",
            Self::OneServer => "one server has both, and copies by itself",
            Self::Through => "the data go through this machine",
            Self::DestinationTakesNoProxy => "the destination does not fetch with delegated proxies",
            Self::DestinationCannotPull => "the destination cannot fetch from other servers",
            Self::SourceCannotPush => "the source cannot send to other servers",
            Self::FailedBefore => "it has failed between these two servers before",
        }
    }
}

/// A way with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// Its reason.
    pub reason: Reason,
    /// How what the reason says of a server is known, where not from its protocol alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

impl Choice {
    /// `the destination cannot fetch from other servers: it says so`.
    fn words(&self) -> String {
        match self.evidence {
            Some(evidence) => format!("{}: {}", self.reason.words(), evidence.words()),
            None => self.reason.words().to_owned(),
        }
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The code.
    pub code: ErrorCode,
    /// The side at fault.
    pub side: Side,
    /// The phase in which it failed.
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

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempted {
    /// The way.
    pub way: Way,
    /// Its error.
    pub error: Failed,
}

/// The plan for one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    chosen: Choice,
    left: Vec<Choice>,
    passed_over: Vec<Choice>,
    attempted: Vec<Attempted>,
}

impl Plan {
    /// A plan with these ways, in order; `None` if there are none.
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
    pub(crate) fn only(way: Way, reason: Reason) -> Self {
        Self {
            chosen: Choice {
                way,
                reason,
                evidence: None,
            },
            left: Vec::new(),
            passed_over: Vec::new(),
            attempted: Vec::new(),
        }
    }

    /// The same plan with a way in front of all others.
    pub(crate) fn with_first(self, way: Way, reason: Reason) -> Self {
        let left = std::iter::once(self.chosen).chain(self.left);
        Self {
            left: left.collect(),
            ..Self {
                passed_over: self.passed_over,
                attempted: self.attempted,
                ..Self::only(way, reason)
            }
        }
    }

    /// The same plan without the ways that fail, as long as another one is left.
    pub(crate) fn without(mut self, fails: impl Fn(Way) -> bool) -> Self {
        let ways = std::iter::once(self.chosen).chain(std::mem::take(&mut self.left));
        let (failing, mut left): (Vec<_>, Vec<_>) = ways.partition(|choice| fails(choice.way));
        if left.is_empty() {
            left = failing;
        } else {
            self.passed_over.extend(failing.into_iter().map(|choice| Choice {
                reason: Reason::FailedBefore,
                evidence: None,
                ..choice
            }));
        }
        self.chosen = left.remove(0);
        self.left = left;
        self
    }

    /// The current way.
    #[must_use]
    pub fn way(&self) -> Way {
        self.chosen.way
    }

    /// The current way with its reason.
    #[must_use]
    pub fn chosen(&self) -> Choice {
        self.chosen
    }

    /// The alternatives, in order.
    #[must_use]
    pub fn left(&self) -> &[Choice] {
        &self.left
    }

    /// The ways that are ruled out.
    #[must_use]
    pub fn passed_over(&self) -> &[Choice] {
        &self.passed_over
    }

    /// The failed attempts, in order.
    #[must_use]
    pub fn attempted(&self) -> &[Attempted] {
        &self.attempted
    }

    /// Records that the current way failed with `error`. Moves to the next way if the error table's
    /// `another_way` allows it, if only the proxy for the current one could not be signed, or if a
    /// pull was denied for want of a credential.
    pub fn after(&mut self, error: &Error) -> Option<Way> {
        let is_about_proxy = self.chosen.way == Way::DelegatedPull
            && (error.side(), error.phase()) == (Side::Client, Phase::Authenticate);
        // The destination's credential at the source, or its own rules for pulls: another way uses
        // the client's.
        let is_denied_pull =
            matches!(self.chosen.way, Way::DelegatedPull | Way::Pull) && error.code() == ErrorCode::PeerDenied;
        self.go_on(error, error.another_way() || is_about_proxy || is_denied_pull)
    }

    /// As [`Plan::after`] for a way in which the active server did not act as the client at the
    /// passive one. A refusal there may be for want of the client's credential, which another way
    /// shows. Many servers do not say so: XRootD answers 403 to everyone.
    pub fn after_unshown(&mut self, error: &Error) -> Option<Way> {
        let passive = match self.chosen.way.active_server() {
            Some(Side::Destination) => Side::Source,
            _ => Side::Destination,
        };
        let is_refusal = matches!(error.code(), ErrorCode::PeerDenied | ErrorCode::PeerForbidden);
        match is_refusal && error.side() == passive {
            true => self.go_on(error, true),
            false => self.after(error),
        }
    }

    fn go_on(&mut self, error: &Error, may_go_on: bool) -> Option<Way> {
        self.attempted.push(Attempted {
            way: self.chosen.way,
            error: Failed::from(error),
        });
        if !may_go_on || self.left.is_empty() {
            return None;
        }
        self.chosen = self.left.remove(0);
        Some(self.chosen.way)
    }
}

/// `pull (the destination fetches directly from the source, if it can); if that fails, push, then
/// stream`.
impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.chosen.way.name(), self.chosen.words())?;
        let left: Vec<&str> = self.left.iter().map(|choice| choice.way.name()).collect();
        if !left.is_empty() {
            write!(out, "; if that fails, {}", left.join(", then "))?;
        }
        for choice in &self.passed_over {
            write!(out, "; no {}: {}", choice.way.name(), choice.words())?;
        }
        Ok(())
    }
}
