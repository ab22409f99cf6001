//! Who is to blame: tells bad endpoints from bad links, by what failed and what did not.
//!
//! # The model
//! A copy fails because its source is bad, because its destination is, because the link between
//! them is, or by chance. The causes are independent, so the chances to *survive* them multiply,
//! and their logarithms add up:
//!
//! ```text
//! ln P(passed) = ln(1 - noise) + ln(1 - source) + ln(1 - destination) + ln(1 - link)
//! ```
//!
//! This is the additive model of rows, columns and residues, on the scale on which it is additive:
//! a cell between two dead endpoints fails once, not twice. Median polish of the failures
//! themselves, the usual robust fit, has three weaknesses here. It finds nothing in an endpoint
//! that fails for fewer than half of its partners, it cannot say that only one protocol is
//! affected, and it has no answer where there is no row to take a median of (rings, stars). So the
//! effects are searched among hypotheses instead: everything, an endpoint in both roles or one of
//! them, a link; each for all copies or for one protocol, mode or credential. Few things break at
//! a time, so a hypothesis must explain more than it costs: the negative logarithm of how likely
//! such a fault is before one has looked. The costs stand for the L1 penalty of a sparse fit; the
//! noise is estimated with it, so that links that fail by chance are not called bad.
//!
//! # What the side of an error is worth
//! An error names a side. That is evidence and no proof: a server that gets too little data may
//! complain about itself. A matching side adds half a nat for each failed copy, a contradicting one
//! takes it away; a failed copy is worth about four.
//!
//! # What stays undecided
//! An endpoint is blamed for what it did with at least two partners that do well with others, or in
//! a single probe, which needs no partner. In a star, the centre as a source and all others as
//! destinations look the same, and in a ring each link has two ends that nothing else tests. Then
//! the verdict is [`Verdict::Undecided`], with all suspects.
//!
//! # What is slow
//! The times of copies that passed are fitted by rows and columns too: a link or an endpoint that
//! is far slower than the others is named with its rate, although nothing fails.
//!
//! What was skipped, does not apply or touches an endpoint in downtime is no evidence.

mod fit;
mod hypothesis;
mod identify;
mod slow;
mod subject;

use serde::{Deserialize, Serialize};

pub use subject::{Role, Scope, Subject};

use crate::model::{Failure, Run};
use fit::Fit;
use hypothesis::Evidence;
use types::{Phase, Side};

/// What fails surely for more than this share is said to fail always.
const ALWAYS_RATE_MIN: f64 = 0.5;

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The subject is at fault.
    Named,
    /// The subject or one of the suspects is at fault: nothing that was tried tells them apart.
    Undecided,
    /// Too few failures to distinguish them from chance.
    Isolated,
}

/// A code that says only that something failed.
const UNSPECIFIC: &str = "peer_failed";
/// One failure in so many with a code that says why explains those that only say that they failed.
const SPECIFIC_SHARE: u64 = 5;

/// The rate of something slow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowness {
    /// The median rate of its copies, in megabits per second.
    pub rate_mbps: f64,
    /// The rate that other links of the same endpoints, or other endpoints, let expect.
    pub expected_mbps: f64,
}

/// The commonest failure among those of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symptom {
    /// The side that the errors name.
    pub side: Side,
    /// The phase.
    pub phase: Phase,
    /// The code, as in docs/errors.md.
    pub code: String,
    /// How many cells failed so.
    pub count: u64,
}

/// Something that fails, and how well that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What fails.
    pub subject: Subject,
    /// How certain that is.
    pub verdict: Verdict,
    /// What else explains the failures; empty with [`Verdict::Named`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<Subject>,
    /// Cells that were tried and that no other finding explains.
    pub tried: u64,
    /// How many of them failed, entirely or in part.
    pub failed: u64,
    /// Independent observations: of an endpoint, its partners that do well with others, and
    /// probes; of a link, its cells.
    pub observations: u64,
    /// The lower end of the share of independent observations that fail (95 % interval).
    pub rate_low: f64,
    /// The upper end.
    pub rate_high: f64,
    /// The commonest failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symptom: Option<Symptom>,
    /// It does not fail, and is far slower than others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slowness>,
}

/// What fails in a run, or in several runs of one title.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// What fails, the gravest first.
    pub findings: Vec<Finding>,
    /// Cells that were tried, those of endpoints in downtime left out.
    pub tried: u64,
    /// How many of them failed.
    pub failed: u64,
    /// The estimated chance that a copy fails without a reason that repeats.
    pub noise: f64,
}

impl Blame {
    /// What fails in one run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self::over(&[run])
    }

    /// What fails in several runs of one title, taken together. More runs tell a bad link from
    /// chance.
    #[must_use]
    pub fn over(runs: &[&Run]) -> Self {
        let evidence = Evidence::of(runs);
        let fit = Fit::of(&evidence);
        let mut findings = identify::findings(&evidence, &fit);
        findings.extend(slow::findings(&evidence));
        // A stable sort: those that fail come first.
        findings.sort_by_key(|finding| finding.verdict);
        Self {
            findings,
            tried: evidence.observations.len() as u64,
            failed: evidence.observations.iter().filter(|one| one.has_failed()).count() as u64,
            noise: fit.noise,
        }
    }

    /// The findings that name who is at fault.
    pub fn named(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.verdict == Verdict::Named)
    }

    /// The findings that are about who is at fault, and not about chance.
    pub fn faults(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.verdict != Verdict::Isolated)
    }

    /// What is known about an endpoint: the gravest verdict of a finding that is about it or
    /// suspects it, links left out. A slow endpoint is a good one.
    #[must_use]
    pub fn about(&self, endpoint: &str) -> Option<Verdict> {
        let concerns = |finding: &&Finding| {
            if finding.slow.is_some() {
                return false;
            }
            let mut subjects = std::iter::once(&finding.subject).chain(&finding.suspects);
            subjects.any(|subject| subject.is_endpoint(endpoint))
        };
        let verdicts = self.findings.iter().filter(concerns).map(|finding| finding.verdict);
        verdicts.min()
    }
}

impl std::fmt::Display for Finding {
    /// One sentence without a full stop, such as `B fails as a source for everyone (11 of 11
    /// copies)`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(slow) = &self.slow {
            return write!(
                formatter,
                "{} is slow ({} copies): {} Mb/s, where {} are usual",
                self.subject, self.tried, slow.rate_mbps, slow.expected_mbps
            );
        }
        let counts = format!("{} of {} copies", self.failed, self.tried);
        match self.verdict {
            Verdict::Named => {
                let is_always = self.failed == self.tried || self.rate_low > ALWAYS_RATE_MIN;
                let share = match is_always {
                    true => String::new(),
                    false => format!(", {:.0} to {:.0} %", self.rate_low * 100.0, self.rate_high * 100.0),
                };
                let who = self.subject.accusation(is_always);
                write!(formatter, "{who} ({counts}{share})")?;
            }
            Verdict::Undecided => {
                let all: Vec<String> = std::iter::once(&self.subject)
                    .chain(&self.suspects)
                    .map(ToString::to_string)
                    .collect();
                write!(formatter, "undecided: {} ({counts})", one_of(&all))?;
            }
            Verdict::Isolated => write!(formatter, "{} failed without a pattern ({counts})", self.subject)?,
        }
        match &self.symptom {
            Some(symptom) => write!(formatter, ": {} in {}", symptom.code, symptom.phase.name()),
            None => Ok(()),
        }
    }
}

/// `a, b or c`.
fn one_of(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The commonest of failures by side, phase and code. Of one fault, some servers say what is wrong
/// and others only that something is; so a code that says more is preferred, if it is no rarity.
fn commonest<'a>(failures: impl Iterator<Item = &'a Failure>) -> Option<Symptom> {
    let mut found: Vec<Symptom> = Vec::new();
    for failure in failures {
        let is_like = |known: &&mut Symptom| {
            known.side == failure.side && known.phase == failure.phase && known.code == failure.code
        };
        match found.iter_mut().find(is_like) {
            Some(known) => known.count += 1,
            None => found.push(Symptom {
                side: failure.side,
                phase: failure.phase,
                code: failure.code.clone(),
                count: 1,
            }),
        }
    }
    let all: u64 = found.iter().map(|symptom| symptom.count).sum();
    let says_more = |symptom: &Symptom| symptom.code != UNSPECIFIC && symptom.count * SPECIFIC_SHARE >= all;
    // The first of equal ones, so that the order of the cells decides.
    let grade = |symptom: &Symptom| (says_more(symptom), symptom.count);
    found.into_iter().rev().max_by_key(grade)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod twelve;
