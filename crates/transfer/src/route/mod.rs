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

pub use end::{Ability, End, EndKind, Evidence, ProxyUse};
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
    /// The destination fetches from the source as the client, with a proxy that the client has
    /// signed for it (TPC Lite of the XRootD protocol).
    DelegatedPull,
    /// The destination fetches from the source. In the XRootD protocol the client registers a key
    /// for it there (rendezvous).
    Pull,
    /// The source sends to the destination.
    Push,
    /// From server to server through this machine.
    Stream,
    /// The server that has both files copies one to the other.
    Within,
}

impl Way {
    /// Its name in messages and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Download => "download",
            Self::Upload => "upload",
            Self::DelegatedPull => "delegated pull",
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Stream => "stream",
            Self::Within => "within the server",
        }
    }

    /// The server that moves the data; `None` if this machine does.
    #[must_use]
    pub fn active_server(self) -> Option<Side> {
        match self {
            Self::DelegatedPull | Self::Pull => Some(Side::Destination),
            Self::Push => Some(Side::Source),
            Self::Local | Self::Download | Self::Upload | Self::Stream | Self::Within => None,
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
    /// Only a pull with a delegated proxy.
    DelegatedPull,
    /// Only a pull, delegated or not.
    Pull,
    /// Only a push.
    Push,
    /// Only through this machine.
    Stream,
    /// Only by one of the two servers, not through this machine.
    Direct,
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

/// A way between servers, with what is known of its active server.
#[derive(Clone, Copy)]
struct Candidate {
    way: Way,
    ability: Ability,
    evidence: Option<Evidence>,
}

impl Candidate {
    /// The evidence goes with a reason that states an ability.
    fn choice(self, reason: Reason) -> Choice {
        Choice {
            way: self.way,
            reason,
            evidence: self.evidence.filter(|_| reason.states_ability()),
        }
    }

    fn is_wanted(self, preference: Preference) -> bool {
        match preference {
            Preference::Any => true,
            Preference::DelegatedPull => self.way == Way::DelegatedPull,
            Preference::Pull => matches!(self.way, Way::DelegatedPull | Way::Pull),
            Preference::Push => self.way == Way::Push,
            Preference::Stream => self.way == Way::Stream,
            Preference::Direct => self.way != Way::Stream,
        }
    }

    /// Why it is taken if nothing else is known.
    fn reason_for(self) -> Reason {
        let is_able = self.ability == Ability::Yes;
        match self.way {
            Way::DelegatedPull if is_able => Reason::DestinationTakesProxy,
            Way::DelegatedPull => Reason::DestinationMayTakeProxy,
            Way::Pull if is_able => Reason::DestinationPulls,
            Way::Pull => Reason::DestinationMayPull,
            Way::Push if is_able => Reason::SourcePushes,
            Way::Push => Reason::SourceMayPush,
            _ => Reason::Through,
        }
    }

    /// Why it is ruled out.
    fn reason_against(self) -> Reason {
        match self.way {
            Way::DelegatedPull => Reason::DestinationTakesNoProxy,
            Way::Pull => Reason::DestinationCannotPull,
            _ => Reason::SourceCannotPush,
        }
    }
}

/// The ways between two servers, in order. Pull first, as gfal does: only pulls have several
/// streams and resume, and a destination that cannot pull says so at once. A source that is known
/// to push does not change that. If the client delegates a proxy, the pull with it comes before the
/// rendezvous, as with `xrdcp --tpc delegate`.
fn candidates(source: &End, destination: &End) -> [Candidate; 4] {
    let no_proxy = |evidence| ProxyUse {
        ability: Ability::No,
        evidence,
    };
    let proxy = match (destination.pulls, destination.proxy) {
        // A destination that fetches from no such server does not do so with a proxy, either.
        (Ability::No, Some(_)) => no_proxy(destination.evidence),
        (_, proxy) => proxy.unwrap_or_else(|| no_proxy(None)),
    };
    [
        (Way::DelegatedPull, proxy.ability, proxy.evidence),
        (Way::Pull, destination.pulls, destination.evidence),
        (Way::Push, source.pushes, source.evidence),
        (Way::Stream, Ability::Yes, None),
    ]
    .map(|(way, ability, evidence)| Candidate { way, ability, evidence })
}

fn between_servers(preference: Preference, source: &End, destination: &End) -> Result<Plan> {
    let mut wanted: Vec<Candidate> = candidates(source, destination).to_vec();
    // A client that delegates nothing does not hear of it.
    let is_delegated = destination.proxy.is_some() || preference == Preference::DelegatedPull;
    wanted.retain(|candidate| candidate.is_wanted(preference) && (is_delegated || candidate.way != Way::DelegatedPull));
    // A server's word may be wrong, so it does not rule out the last way.
    let has_others = wanted.iter().any(|candidate| candidate.ability != Ability::No);
    let mut plan = Vec::new();
    let mut passed_over = Vec::new();
    for candidate in wanted {
        let is_told = candidate.evidence == Some(Evidence::Told);
        if candidate.ability == Ability::No && (has_others || !is_told) {
            passed_over.push(candidate.choice(candidate.reason_against()));
        } else if matches!(preference, Preference::Any | Preference::Direct) {
            plan.push(candidate.choice(candidate.reason_for()));
        } else {
            plan.push(candidate.choice(Reason::Ordered));
        }
    }
    Plan::new(plan, passed_over.clone()).ok_or_else(|| impossible(&passed_over))
}

/// The error if what was ordered is impossible. A refused rendezvous says more than a proxy that is
/// not taken.
fn impossible(passed_over: &[Choice]) -> Error {
    let (side, why) = match passed_over {
        [.., choice] => (choice.way.active_server().unwrap_or(Side::Client), choice.reason),
        [] => (Side::Client, Reason::Ordered),
    };
    Error::new(ErrorCode::PeerUnsupported, side, Phase::Open).with_detail(why.words())
}
