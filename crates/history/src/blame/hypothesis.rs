//! What was observed, and every fault that could explain a failure among it.

use std::collections::{BTreeSet, HashMap};

use types::Side;

use super::subject::{Role, Scope, Subject};
use crate::model::{Cell, Failure, Link, Mode, Outcome, Run};

/// Half a nat: what the side that an error names is worth, against about four for the failure.
const SIDE_NATS: f64 = 0.5;
/// Endpoints that must fail at each end before the endpoints are not at fault themselves.
pub(super) const ENDS_MIN: usize = 3;

/// A cell that was tried.
pub(super) struct Observation<'a> {
    pub(super) link: &'a Link,
    /// The share of its copies that failed. Copies over one link at one time are one observation,
    /// however many they are.
    pub(super) failed: f64,
    pub(super) failure: Option<&'a Failure>,
    /// The time of the copy, in milliseconds.
    pub(super) took_ms: f64,
    /// Megabits per second of what arrived, if anything did.
    pub(super) rate_mbps: Option<f64>,
}

impl Observation<'_> {
    pub(super) fn has_failed(&self) -> bool {
        self.failed > 0.0
    }

    pub(super) fn is_probe(&self) -> bool {
        self.link.mode == Mode::Probe
    }

    /// The end that the error names, if it names one.
    fn named_end(&self) -> Option<Role> {
        match (self.failure?.side, self.link.mode) {
            (Side::Source, _) | (Side::Active, Mode::Push) => Some(Role::Source),
            (Side::Destination, _) | (Side::Active, Mode::Pull | Mode::Rendezvous | Mode::Lite) => {
                Some(Role::Destination)
            }
            _ => None,
        }
    }
}

/// What a hypothesis is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum About<'a> {
    Endpoint { name: &'a str, role: Role },
    Everything,
    Link { source: &'a str, destination: &'a str },
}

/// The schemes at both ends that a hypothesis is restricted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Protocols<'a> {
    pub(super) source: &'a str,
    pub(super) destination: &'a str,
}

/// A fault that would explain failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Hypothesis<'a> {
    pub(super) about: About<'a>,
    pub(super) protocols: Option<Protocols<'a>>,
    pub(super) mode: Option<Mode>,
    pub(super) credential: Option<&'a str>,
}

impl Hypothesis<'_> {
    /// The negative logarithm of its probability before one has looked: of two hundred endpoints
    /// one is bad, of thirty thousand links one, and a fault of some copies only is a third as
    /// likely. Bad links must be rare for another reason too: there are so many, in so many
    /// restrictions, that chance hits some of them three times.
    pub(super) fn cost(&self) -> f64 {
        let restrictions = [self.protocols.is_some(), self.mode.is_some(), self.credential.is_some()];
        let restricted = restrictions.into_iter().filter(|is_set| *is_set).count() as f64;
        match self.about {
            About::Everything => 7.0 + restricted,
            About::Endpoint { role: Role::Both, .. } => 5.0 + restricted,
            About::Endpoint { .. } => 5.5 + restricted,
            About::Link { .. } => 10.5 + 2.5 * restricted,
        }
    }

    pub(super) fn subject(&self) -> Subject {
        let protocol = self.protocols.map(|both| match both.source == both.destination {
            true => both.source.to_owned(),
            false => format!("{} to {}", both.source, both.destination),
        });
        let scope = Scope {
            protocol,
            mode: self.mode,
            credential: self.credential.map(str::to_owned),
        };
        match self.about {
            About::Everything => Subject::Everything { scope },
            About::Endpoint { name, role } => Subject::Endpoint {
                name: name.to_owned(),
                role,
                scope,
            },
            About::Link { source, destination } => Subject::Link {
                source: source.to_owned(),
                destination: destination.to_owned(),
                scope,
            },
        }
    }

    /// What the side that the error names says for it (positive) or against it, in nats.
    pub(super) fn side_nats(&self, observation: &Observation<'_>) -> f64 {
        let About::Endpoint { name, .. } = self.about else {
            return 0.0;
        };
        let own_end = match name == observation.link.source {
            true => Role::Source,
            false => Role::Destination,
        };
        match observation.named_end() {
            Some(end) if end == own_end => SIDE_NATS,
            Some(_) => -SIDE_NATS,
            None => 0.0,
        }
    }
}

/// Which restrictions tell copies apart at all.
struct Dimensions {
    protocols: bool,
    modes: bool,
    credentials: bool,
}

impl Dimensions {
    fn of(observations: &[Observation<'_>]) -> Self {
        let has_several = |key: fn(&Link) -> &str| {
            let values: BTreeSet<&str> = observations.iter().map(|one| key(one.link)).collect();
            values.len() > 1
        };
        Self {
            protocols: has_several(|link| &link.source_protocol) || has_several(|link| &link.destination_protocol),
            modes: has_several(|link| link.mode.name()),
            credentials: has_several(|link| &link.credential),
        }
    }

    /// Every hypothesis that a cell belongs to.
    fn hypotheses<'a>(&self, observation: &Observation<'a>) -> Vec<Hypothesis<'a>> {
        let link = observation.link;
        let both = Protocols {
            source: &link.source_protocol,
            destination: &link.destination_protocol,
        };
        let at = |protocol: &'a str| Protocols {
            source: protocol,
            destination: protocol,
        };
        let endpoint = |name: &'a str, role| About::Endpoint { name, role };
        let mut abouts = vec![
            (About::Everything, both),
            (endpoint(&link.source, Role::Both), at(both.source)),
        ];
        if !observation.is_probe() {
            abouts.extend([
                (endpoint(&link.destination, Role::Both), at(both.destination)),
                (endpoint(&link.source, Role::Source), at(both.source)),
                (endpoint(&link.destination, Role::Destination), at(both.destination)),
            ]);
            let (source, destination) = (link.source.as_str(), link.destination.as_str());
            abouts.push((About::Link { source, destination }, both));
        }
        let mut all = Vec::with_capacity(abouts.len() * 8);
        for (about, protocols) in abouts {
            for protocols in restricted(protocols, self.protocols) {
                for mode in restricted(link.mode, self.modes) {
                    for credential in restricted(link.credential.as_str(), self.credentials) {
                        all.push(Hypothesis {
                            about,
                            protocols,
                            mode,
                            credential,
                        });
                    }
                }
            }
        }
        all
    }
}

/// No restriction, and the one to a value, if that differs.
fn restricted<T>(value: T, differs: bool) -> impl Iterator<Item = Option<T>> {
    std::iter::once(None).chain(differs.then_some(Some(value)))
}

/// A hypothesis and the observations that it is about, by their places.
#[derive(Clone)]
pub(super) struct Candidate<'a> {
    pub(super) hypothesis: Hypothesis<'a>,
    pub(super) places: Vec<usize>,
}

/// All observations of runs, and everything that could explain the failures among them.
pub(super) struct Evidence<'a> {
    pub(super) observations: Vec<Observation<'a>>,
    /// Sorted, so that equal evidence has equal results.
    pub(super) candidates: Vec<Candidate<'a>>,
}

impl<'a> Evidence<'a> {
    pub(super) fn of(runs: &[&'a Run]) -> Self {
        let observations: Vec<Observation<'a>> = runs.iter().flat_map(|run| observed(run)).collect();
        let dimensions = Dimensions::of(&observations);
        let mut places: HashMap<Hypothesis<'a>, Vec<usize>> = HashMap::new();
        let is_common = may_be_common(&observations);
        for failed in observations.iter().filter(|one| one.has_failed()) {
            let hypotheses = dimensions.hypotheses(failed).into_iter();
            for hypothesis in hypotheses.filter(|one| is_common || one.about != About::Everything) {
                places.entry(hypothesis).or_default();
            }
        }
        for (place, observation) in observations.iter().enumerate() {
            for hypothesis in dimensions.hypotheses(observation) {
                if let Some(known) = places.get_mut(&hypothesis) {
                    known.push(place);
                }
            }
        }
        let mut candidates: Vec<Candidate<'a>> = places
            .into_iter()
            .map(|(hypothesis, places)| Candidate { hypothesis, places })
            .collect();
        candidates.sort_by_key(|candidate| candidate.hypothesis);
        Self {
            observations,
            candidates,
        }
    }
}

/// Whether failures may have a common cause. Probes need no partner, so where only one or two
/// endpoints fail in them, these are at fault.
fn may_be_common(observations: &[Observation<'_>]) -> bool {
    let mut failed = observations.iter().filter(|one| one.has_failed());
    let endpoints: BTreeSet<&str> = failed.clone().map(|one| one.link.source.as_str()).collect();
    endpoints.len() >= ENDS_MIN || failed.any(|one| !one.is_probe())
}

/// The cells of a run that are evidence.
fn observed(run: &Run) -> impl Iterator<Item = Observation<'_>> {
    let away: BTreeSet<&str> = run
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.downtime.is_some())
        .map(|endpoint| endpoint.name.as_str())
        .collect();
    let is_there =
        move |cell: &&Cell| !away.contains(cell.link.source.as_str()) && !away.contains(cell.link.destination.as_str());
    run.cells.iter().filter(is_there).filter_map(|cell| {
        let failed = match &cell.outcome {
            Outcome::Skipped { .. } | Outcome::NotApplicable { .. } => return None,
            _ if cell.copies > 1 => cell.copies_failed as f64 / cell.copies as f64,
            Outcome::Passed => 0.0,
            Outcome::Failed(_) => 1.0,
        };
        Some(Observation {
            link: &cell.link,
            failed,
            failure: cell.outcome.failure(),
            took_ms: cell.copy_ms as f64,
            rate_mbps: cell.rate_mbps(),
        })
    })
}
