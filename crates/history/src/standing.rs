//! How endpoints stand over many runs: one bad run is no problem yet, one good run no cure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::blame::{Blame, Finding, Subject, Verdict};
use crate::model::{Outcome, Run};
use crate::times::minute;

/// Where the score of an endpoint begins, and its greatest value. The script that mailed the first
/// such reports counted so: one more for a good run, one less for a bad one.
const SCORE_AT_FIRST: u8 = 10;
const SCORE_MAX: u8 = 20;

/// How an endpoint did in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Some of its copies succeeded, and it is not at fault for what failed.
    Good,
    /// It is at fault.
    Bad,
    /// Nothing was tried, nothing succeeded, or it stays undecided.
    Unknown,
    /// It was announced to be out of service.
    InDowntime,
}

/// Copies of an endpoint in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Cells that were tried with it as the source; probes too.
    pub tried_as_source: u64,
    /// How many of them failed.
    pub failed_as_source: u64,
    /// Cells that were tried with it as the destination.
    pub tried_as_destination: u64,
    /// How many of them failed.
    pub failed_as_destination: u64,
}

/// How one endpoint did in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointVerdict {
    /// Its name.
    pub name: String,
    /// How it did.
    pub condition: Condition,
    /// Its copies.
    pub counts: Counts,
}

/// Who was at fault in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// Begin of the run, in milliseconds since 1970.
    pub started_ms: u64,
    /// All endpoints of the run.
    pub endpoints: Vec<EndpointVerdict>,
    /// Its findings, without failures that have no pattern.
    pub findings: Vec<Finding>,
}

impl RunVerdict {
    /// The verdict about a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let blame = Blame::of(run);
        let counts = counts(run);
        let endpoints = run.endpoints.iter().map(|endpoint| {
            let counts = counts.get(endpoint.name.as_str()).copied().unwrap_or_default();
            // A run in which all failed, and that blames none, makes none good.
            let has_passed = counts.tried_as_source > counts.failed_as_source
                || counts.tried_as_destination > counts.failed_as_destination;
            let condition = match blame.about(&endpoint.name) {
                _ if endpoint.downtime.is_some() => Condition::InDowntime,
                Some(Verdict::Named) => Condition::Bad,
                None if has_passed => Condition::Good,
                _ => Condition::Unknown,
            };
            EndpointVerdict {
                name: endpoint.name.clone(),
                condition,
                counts,
            }
        });
        Self {
            started_ms: run.started_ms,
            endpoints: endpoints.collect(),
            findings: blame.faults().cloned().collect(),
        }
    }

    /// How an endpoint did; `None` when it was not in the run.
    #[must_use]
    pub fn condition(&self, endpoint: &str) -> Option<Condition> {
        let found = self.endpoints.iter().find(|one| one.name == endpoint);
        found.map(|one| one.condition)
    }
}

fn counts(run: &Run) -> BTreeMap<&str, Counts> {
    let mut all: BTreeMap<&str, Counts> = BTreeMap::new();
    for cell in &run.cells {
        if matches!(cell.outcome, Outcome::Skipped { .. } | Outcome::NotApplicable { .. }) {
            continue;
        }
        let failed = u64::from(!cell.outcome.has_passed());
        let source = all.entry(&cell.link.source).or_default();
        source.tried_as_source += 1;
        source.failed_as_source += failed;
        if cell.link.source != cell.link.destination {
            let destination = all.entry(&cell.link.destination).or_default();
            destination.tried_as_destination += 1;
            destination.failed_as_destination += failed;
        }
    }
    all
}

/// When an endpoint changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    /// So many bad runs …
    pub bad: usize,
    /// … of so many in a row make it problematic.
    pub of: usize,
    /// So many good runs in a row make it sound again.
    pub good: usize,
}

impl Default for Hysteresis {
    /// Two bad runs of three, and two good ones.
    fn default() -> Self {
        Self { bad: 2, of: 3, good: 2 }
    }
}

/// How an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does what it should.
    Sound,
    /// It fails again and again.
    Problematic,
    /// Too little is known.
    Unknown,
    /// It is announced to be out of service.
    InDowntime,
}

impl State {
    /// The word in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Problematic => "problematic",
            Self::Unknown => "unknown",
            Self::InDowntime => "in downtime",
        }
    }
}

/// How an endpoint stands after all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its name.
    pub endpoint: String,
    /// Its state.
    pub state: State,
    /// The begin of the run with which it got this state, in milliseconds since 1970.
    pub since_ms: u64,
    /// 0 to 20: one more for each good run, one less for each bad one.
    pub score: u8,
    /// The last run in which it was good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good_ms: Option<u64>,
    /// The first bad run after the last good one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bad_ms: Option<u64>,
    /// What is wrong with it in the newest run, and since when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Ongoing>,
}

/// A fault of the newest run, and since when there is no good run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ongoing {
    /// The finding of the newest run.
    pub finding: Finding,
    /// The begin of the first run in a row with this fault.
    pub since_ms: u64,
    /// How many runs there are in this row.
    pub runs: u64,
    /// The last run without the fault, before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good_ms: Option<u64>,
}

impl fmt::Display for Ongoing {
    /// Such as `B fails as a source for everyone (11 of 11 copies): peer_failed in transfer, since
    /// 2026-11-29 03:00 UTC in 4 runs; last good 2026-11-29 02:00 UTC`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, since {}", self.finding, minute(self.since_ms))?;
        if self.runs > 1 {
            write!(formatter, " in {} runs", self.runs)?;
        }
        match self.last_good_ms {
            Some(last_good_ms) => write!(formatter, "; last good {}", minute(last_good_ms)),
            None => formatter.write_str("; no good run is known"),
        }
    }
}

/// The faults of the newest run with their beginnings. `verdicts`: oldest first.
#[must_use]
pub fn ongoing(verdicts: &[RunVerdict]) -> Vec<Ongoing> {
    let Some((newest, earlier)) = verdicts.split_last() else {
        return Vec::new();
    };
    let begin = |finding: &Finding| {
        let mut ongoing = Ongoing {
            finding: finding.clone(),
            since_ms: newest.started_ms,
            runs: 1,
            last_good_ms: None,
        };
        for verdict in earlier.iter().rev() {
            let is_there = |known: &Finding| {
                known.verdict != Verdict::Isolated
                    && known.slow.is_some() == finding.slow.is_some()
                    && known.subject.covers(&finding.subject)
            };
            if verdict.findings.iter().any(is_there) {
                ongoing.since_ms = verdict.started_ms;
                ongoing.runs += 1;
            } else if is_evidence(verdict, &finding.subject) {
                ongoing.last_good_ms = Some(verdict.started_ms);
                break;
            }
        }
        ongoing
    };
    newest.findings.iter().map(begin).collect()
}

/// Whether a run in which a fault was not found says that it was not there: its endpoints were
/// tried.
fn is_evidence(verdict: &RunVerdict, subject: &Subject) -> bool {
    let is_known = |name: &str| matches!(verdict.condition(name), Some(Condition::Good | Condition::Bad));
    match subject {
        Subject::Everything { .. } => verdict.endpoints.iter().any(|one| is_known(&one.name)),
        Subject::Endpoint { name, .. } | Subject::Partners { of: name, .. } => is_known(name),
        Subject::Link {
            source, destination, ..
        } => is_known(source) && is_known(destination),
    }
}

/// How the endpoints of the newest run stand. `verdicts`: oldest first.
#[must_use]
pub fn standings(verdicts: &[RunVerdict], hysteresis: Hysteresis) -> Vec<Standing> {
    let Some(newest) = verdicts.last() else {
        return Vec::new();
    };
    let names: Vec<&str> = newest.endpoints.iter().map(|one| one.name.as_str()).collect();
    let known: BTreeSet<&str> = names.iter().copied().collect();
    let mut machines: BTreeMap<&str, Machine> = BTreeMap::new();
    for verdict in verdicts {
        for one in verdict.endpoints.iter().filter(|one| known.contains(one.name.as_str())) {
            let machine = machines
                .entry(&one.name)
                .or_insert_with(|| Machine::new(hysteresis, verdict.started_ms));
            machine.step(one.condition, verdict.started_ms);
        }
    }
    let faults = ongoing(verdicts);
    let standing = |name: &str| {
        let machine = machines.remove(name)?;
        let own = faults
            .iter()
            .filter(|fault| fault.finding.subject.is_endpoint(name))
            .cloned();
        Some(Standing {
            endpoint: name.to_owned(),
            state: machine.shown,
            since_ms: machine.since_ms,
            score: machine.score,
            last_good_ms: machine.last_good_ms,
            first_bad_ms: machine.first_bad_ms,
            faults: own.collect(),
        })
    };
    names.into_iter().filter_map(standing).collect()
}

/// The state of one endpoint, run by run.
struct Machine {
    hysteresis: Hysteresis,
    /// The state without downtimes.
    state: State,
    /// The state that is shown.
    shown: State,
    since_ms: u64,
    score: u8,
    /// The last runs with evidence: whether they were good.
    recent: VecDeque<bool>,
    /// Runs in a row without evidence.
    unknown: usize,
    last_good_ms: Option<u64>,
    first_bad_ms: Option<u64>,
}

impl Machine {
    fn new(hysteresis: Hysteresis, now_ms: u64) -> Self {
        Self {
            hysteresis,
            state: State::Unknown,
            shown: State::Unknown,
            since_ms: now_ms,
            score: SCORE_AT_FIRST,
            recent: VecDeque::new(),
            unknown: 0,
            last_good_ms: None,
            first_bad_ms: None,
        }
    }

    fn step(&mut self, condition: Condition, now_ms: u64) {
        match condition {
            Condition::Good => {
                self.score = (self.score + 1).min(SCORE_MAX);
                (self.last_good_ms, self.first_bad_ms) = (Some(now_ms), None);
                self.note(true);
            }
            Condition::Bad => {
                self.score = self.score.saturating_sub(1);
                self.first_bad_ms.get_or_insert(now_ms);
                self.note(false);
            }
            Condition::Unknown => {
                self.unknown += 1;
                if self.unknown >= self.hysteresis.of {
                    self.state = State::Unknown;
                    self.recent.clear();
                }
            }
            // What was before a repair says nothing about what is after it.
            Condition::InDowntime => self.recent.clear(),
        }
        let shown = match condition {
            Condition::InDowntime => State::InDowntime,
            _ => self.state,
        };
        if shown != self.shown {
            (self.shown, self.since_ms) = (shown, now_ms);
        }
    }

    fn note(&mut self, is_good: bool) {
        self.unknown = 0;
        self.recent.push_back(is_good);
        let kept = self.hysteresis.of.max(self.hysteresis.good);
        while self.recent.len() > kept {
            self.recent.pop_front();
        }
        let newest = || self.recent.iter().rev();
        let bad = newest().take(self.hysteresis.of).filter(|is_good| !**is_good).count();
        let good = newest().take_while(|is_good| **is_good).count();
        self.state = match self.state {
            State::Problematic if good >= self.hysteresis.good => State::Sound,
            State::Problematic => State::Problematic,
            _ if bad >= self.hysteresis.bad => State::Problematic,
            State::Unknown if !is_good => State::Unknown,
            _ => State::Sound,
        };
    }
}

#[cfg(test)]
mod tests;
