//! Chooses the way of a copy, and the next one after a failure.
//!
//! A decision is data: it can be printed, stored and continued. This module asks no server; it
//! works with what is known about the two ends.

mod end;
mod learned;
mod plan;
#[cfg(test)]
mod tests;

use remote::{Client, Direction};
use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode, Location, Phase, Result, Side};

pub use end::{Ability, End, EndKind, Evidence};
pub use learned::LearnedAbilities;
pub use plan::{Attempted, Choice, Failed, Plan, Reason};

/// A way from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Within the file system of this machine.
    Local,
    /// From a server to this machine.
    Download,
    /// From this machine to a server.
    Upload,
    /// The destination fetches from the source.
    Pull,
    /// The source sends to the destination.
    Push,
    /// From server to server through this machine.
    Stream,
}

impl Way {
    /// Its name in messages and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Download => "download",
            Self::Upload => "upload",
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Stream => "stream",
        }
    }

    /// The server that moves the data; `None` if this machine does.
    #[must_use]
    pub fn active_server(self) -> Option<Side> {
        match self {
            Self::Pull => Some(Side::Destination),
            Self::Push => Some(Side::Source),
            Self::Local | Self::Download | Self::Upload | Self::Stream => None,
        }
    }
}

/// The preferred way between two servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// The first way that works.
    #[default]
    Any,
    /// Only a pull.
    Pull,
    /// Only a push.
    Push,
    /// Only through this machine.
    Stream,
}

/// Chooses the way of a copy, and the alternatives after a failure. The preference is for copies
/// between servers; if one of the ends is this machine there is only one way.
///
/// # Errors
/// `not_implemented` if both ends are on this machine and one is a stream; `peer_unsupported` if an
/// end cannot do what the preferred way needs.
pub fn route(preference: Preference, source: &End, destination: &End) -> Result<Plan> {
    match (source.kind, destination.kind) {
        (EndKind::File, EndKind::File) => Ok(Plan::only(Way::Local, Reason::BothHere)),
        (EndKind::Stream, EndKind::File | EndKind::Stream) | (EndKind::File, EndKind::Stream) => {
            let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
            Err(error.with_detail("use cat and the shell's redirection between - and local files"))
        }
        (EndKind::File | EndKind::Stream, _) => Ok(Plan::only(Way::Upload, Reason::SourceHere)),
        (_, EndKind::File | EndKind::Stream) => Ok(Plan::only(Way::Download, Reason::DestinationHere)),
        (EndKind::Server, EndKind::Server) => between_servers(preference, source, destination),
    }
}

/// Whether this server, as the active side, can make a copy from or to the server of `peer`: the
/// question of a door before it begins one.
///
/// # Errors
/// `bad_url` if no protocol of `client` speaks to it; else as [`route`].
pub fn check_peer(client: &Client, direction: Direction, peer: &Location) -> Result<()> {
    let (ours, theirs) = (End::OURS, End::at(client, peer)?);
    let plan = match direction {
        Direction::Pull => route(Preference::Pull, &theirs, &ours),
        Direction::Push => route(Preference::Push, &ours, &theirs),
    };
    plan.map(drop)
}

/// A way between servers that may be taken, with what is known of its active server.
struct Candidate {
    way: Way,
    ability: Ability,
    evidence: Option<Evidence>,
}

impl Candidate {
    fn new(way: Way, ability: Ability, end: &End) -> Self {
        Self {
            way,
            ability,
            evidence: end.evidence,
        }
    }

    /// The evidence goes with a reason that states an ability.
    fn choice(&self, reason: Reason) -> Choice {
        Choice {
            way: self.way,
            reason,
            evidence: self.evidence.filter(|_| reason.states_ability()),
        }
    }
}

/// Pull first, as gfal does: only pulls have several streams and resume, and a destination that
/// cannot pull says so at once. A source that is known to push does not change that.
fn between_servers(preference: Preference, source: &End, destination: &End) -> Result<Plan> {
    let pull = Candidate::new(Way::Pull, destination.pulls, destination);
    let push = Candidate::new(Way::Push, source.pushes, source);
    let stream = Candidate {
        way: Way::Stream,
        ability: Ability::Yes,
        evidence: None,
    };
    let wanted = |way| match preference {
        Preference::Any => true,
        Preference::Pull => way == Way::Pull,
        Preference::Push => way == Way::Push,
        Preference::Stream => way == Way::Stream,
    };
    // A server's word may be wrong, so it does not stand against the user's.
    let is_ordered = preference != Preference::Any;
    let mut plan = Vec::new();
    let mut passed_over = Vec::new();
    for candidate in [pull, push, stream] {
        let reason = match (candidate.way, candidate.ability) {
            (way, _) if !wanted(way) => continue,
            (way, Ability::No) if !is_ordered || candidate.evidence != Some(Evidence::Told) => {
                passed_over.push(candidate.choice(match way {
                    Way::Pull => Reason::DestinationCannotPull,
                    _ => Reason::SourceCannotPush,
                }));
                continue;
            }
            _ if is_ordered => Reason::Ordered,
            (Way::Pull, Ability::Yes) => Reason::DestinationPulls,
            (Way::Push, Ability::Yes) => Reason::SourcePushes,
            (Way::Pull, _) => Reason::DestinationMayPull,
            (Way::Push, _) => Reason::SourceMayPush,
            _ => Reason::Through,
        };
        plan.push(candidate.choice(reason));
    }
    Plan::new(plan, passed_over.clone()).ok_or_else(|| impossible(&passed_over))
}

/// The error if the only way that was ordered is impossible.
fn impossible(passed_over: &[Choice]) -> Error {
    let (side, why) = match passed_over {
        [choice, ..] => (choice.way.active_server().unwrap_or(Side::Client), choice.reason),
        [] => (Side::Client, Reason::Ordered),
    };
    Error::new(ErrorCode::PeerUnsupported, side, Phase::Open).with_detail(why.words())
}
