//! The sparse fit: which faults explain the failures best.

use super::hypothesis::{About, Candidate, Evidence};

/// Shares of copies that a fault makes fail, from which the best is taken. The first two are sharp:
/// everything fails, but for a copy that found its way around.
const RATES: [f64; 6] = [0.98, 0.9, 0.7, 0.5, 0.35, 0.2];
/// How many of them are sharp.
const SHARP: usize = 2;
/// What it costs a hypothesis not to be sharp: something that fails now and then can be made up for
/// any failures.
const PARTIAL_COST: f64 = 3.0;
/// Where the estimate of noise begins besides its lower end, and its ends: no mesh is so good that
/// the first failure proves a fault, and in one with more failures by chance nothing can be found.
const NOISE: f64 = 0.02;
const NOISE_MIN: f64 = 0.001;
const NOISE_MAX: f64 = 0.1;
/// Rounds of the estimate; it hardly moves after the second.
const ROUNDS: usize = 4;
/// Most faults that are searched for.
const FAULTS_MAX: usize = 64;

/// A fault that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fault {
    /// Which candidate it is.
    pub(super) candidate: usize,
    /// The share of copies that it makes fail.
    rate: f64,
}

/// The faults that explain the failures best.
pub(super) struct Fit {
    pub(super) faults: Vec<Fault>,
    /// The chance that a copy fails without any of them.
    pub(super) noise: f64,
}

impl Fit {
    /// Where half of all copies fail, "everything" explains more than any one endpoint. It is found
    /// first then, and leaves nothing for the endpoints to explain. Many endpoints together may
    /// explain more at a smaller cost, so the search is repeated without it.
    pub(super) fn of(evidence: &Evidence<'_>) -> Self {
        let mut best = Search::among(evidence, Whom::All);
        if best.blames_everything() {
            let apart = Search::among(evidence, Whom::NotEverything);
            best = best.or_better(apart);
        }
        Self {
            faults: best.faults,
            noise: best.noise,
        }
    }
}

/// Which hypotheses are searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    All,
    NotEverything,
}

/// A set of faults under a given noise.
#[derive(Clone)]
struct Search<'e, 'a> {
    evidence: &'e Evidence<'a>,
    whom: Whom,
    faults: Vec<Fault>,
    noise: f64,
    /// What the faults explain, less what they cost, in nats.
    score: f64,
}

/// What an added fault is worth.
#[derive(Clone, Copy)]
struct Worth {
    /// What it explains, less what it costs, in nats.
    nats: f64,
    rate: f64,
}

impl<'e, 'a> Search<'e, 'a> {
    /// Faults and noise explain each other: a link that failed twice is bad in a mesh without other
    /// failures, and bad luck in one with many. So the estimate begins at little and at much noise,
    /// and the better end of both is taken.
    fn among(evidence: &'e Evidence<'a>, whom: Whom) -> Self {
        let [quiet, noisy] = [NOISE_MIN, NOISE].map(|noise| Self::settle(evidence, whom, noise));
        quiet.or_better(noisy)
    }

    /// Estimates faults and noise in turn, from a first noise. They need not come to rest, so the
    /// best of them is remembered.
    fn settle(evidence: &'e Evidence<'a>, whom: Whom, noise: f64) -> Self {
        let mut last = Self::new(evidence, whom, noise);
        let mut best = last.clone();
        for _ in 0..ROUNDS {
            let noise = last.noise();
            if (noise - last.noise).abs() < NOISE_MIN / 10.0 {
                break;
            }
            best = best.or_better(last.under(noise));
            last = Self::new(evidence, whom, noise);
            best = best.or_better(last.clone());
        }
        best
    }

    /// The same faults under another noise.
    fn under(&self, noise: f64) -> Self {
        let mut other = Self { noise, ..self.clone() };
        other.score = other.total();
        other
    }

    /// The one of two that explains more.
    fn or_better(self, other: Self) -> Self {
        match other.likelihood() > self.likelihood() {
            true => other,
            false => self,
        }
    }

    fn blames_everything(&self) -> bool {
        self.faults
            .iter()
            .any(|fault| is_everything(&self.evidence.candidates[fault.candidate]))
    }

    /// The logarithm of the likelihood of everything, less what the faults cost.
    fn likelihood(&self) -> f64 {
        let by_chance = self.evidence.observations.iter().map(|observation| {
            let failed = observation.failed;
            failed * self.noise.ln() + (1.0 - failed) * (1.0 - self.noise).ln()
        });
        by_chance.sum::<f64>() + self.score
    }

    /// Searches one fault after the other, the best first. That alone may take a vague fault for
    /// several sharp ones, or several sharp ones for a vague one; so both orders are tried.
    fn new(evidence: &'e Evidence<'a>, whom: Whom, noise: f64) -> Self {
        let mut sharp_first = Self::empty(evidence, whom, noise);
        sharp_first.extend(&RATES[..SHARP]);
        sharp_first.improve();
        let mut at_once = Self::empty(evidence, whom, noise);
        at_once.improve();
        match at_once.score > sharp_first.score {
            true => at_once,
            false => sharp_first,
        }
    }

    /// Adds faults and removes them in turn: one that was taken too early may have become needless,
    /// and hides others.
    fn improve(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.faults.clone();
            self.extend(&RATES);
            self.prune();
            if self.faults == before {
                return;
            }
        }
    }

    /// Adds faults as long as one explains more than it costs.
    fn extend(&mut self, rates: &[f64]) {
        while self.faults.len() < FAULTS_MAX {
            let classes = self.classes(None);
            let suspects = (0..self.evidence.candidates.len()).filter(|candidate| self.suspects(*candidate));
            let worths = suspects.map(|candidate| {
                let worth = self.worth(candidate, &classes, rates);
                (candidate, worth)
            });
            // The first of equal ones: candidates are sorted.
            let best = worths.reduce(|best, next| if next.1.nats > best.1.nats { next } else { best });
            match best {
                Some((candidate, worth)) if worth.nats > 0.0 => {
                    self.score += worth.nats;
                    self.faults.push(Fault {
                        candidate,
                        rate: worth.rate,
                    });
                }
                _ => return,
            }
        }
    }

    fn suspects(&self, candidate: usize) -> bool {
        self.whom == Whom::All || !is_everything(&self.evidence.candidates[candidate])
    }

    /// Removes faults that others explain as well, and fits the rates anew.
    fn prune(&mut self) {
        let mut at = 0;
        while at < self.faults.len() {
            let classes = self.classes(Some(at));
            let worth = self.worth(self.faults[at].candidate, &classes, &RATES);
            match worth.nats > 0.0 {
                true => {
                    self.faults[at].rate = worth.rate;
                    at += 1;
                }
                false => drop(self.faults.remove(at)),
            }
        }
        self.score = self.total();
    }

    /// The score from nothing.
    fn total(&self) -> f64 {
        let mut grown = Self::empty(self.evidence, self.whom, self.noise);
        for fault in &self.faults {
            let classes = grown.classes(None);
            grown.score += grown.worth(fault.candidate, &classes, &[fault.rate]).nats;
            grown.faults.push(*fault);
        }
        grown.score
    }

    fn empty(evidence: &'e Evidence<'a>, whom: Whom, noise: f64) -> Self {
        Self {
            evidence,
            whom,
            faults: Vec::new(),
            noise,
            score: 0.0,
        }
    }

    /// The predicted chances of failure, each once, and which one each observation has. `without`:
    /// the fault that is left out.
    fn classes(&self, without: Option<usize>) -> Classes {
        let mut passes = vec![1.0 - self.noise; self.evidence.observations.len()];
        for (at, fault) in self.faults.iter().enumerate() {
            if Some(at) != without {
                for place in &self.evidence.candidates[fault.candidate].places {
                    passes[*place] *= 1.0 - fault.rate;
                }
            }
        }
        let mut chances: Vec<f64> = passes.iter().map(|passes| 1.0 - passes).collect();
        let of_each = chances.clone();
        chances.sort_by(f64::total_cmp);
        chances.dedup();
        let place_of = |chance: &f64| chances.partition_point(|known| known < chance);
        Classes {
            of_each: of_each.iter().map(place_of).collect(),
            chances,
        }
    }

    /// What a candidate would be worth as a further fault, at the best of these rates.
    fn worth(&self, candidate: usize, classes: &Classes, rates: &[f64]) -> Worth {
        let candidate = &self.evidence.candidates[candidate];
        let mut tallies = vec![Tally::default(); classes.chances.len()];
        for place in &candidate.places {
            let observation = &self.evidence.observations[*place];
            let tally = &mut tallies[classes.of_each[*place]];
            tally.failed += observation.failed;
            tally.passed += 1.0 - observation.failed;
            if observation.has_failed() {
                tally.side += observation.failed * candidate.hypothesis.side_nats(observation);
            }
        }
        let cost = candidate.hypothesis.cost();
        let is_everything = is_everything(candidate);
        let mut best = Worth {
            nats: f64::NEG_INFINITY,
            rate: RATES[0],
        };
        for (at, rate) in rates.iter().copied().enumerate() {
            // A common cause that is not common explains nothing.
            if is_everything && rate < RATES[SHARP - 1] {
                continue;
            }
            let is_partial = rate < RATES[SHARP - 1];
            let explained: f64 = tallies
                .iter()
                .zip(&classes.chances)
                .map(|(tally, chance)| tally.nats(*chance, rate))
                .sum();
            let nats = explained - cost - if is_partial { PARTIAL_COST } else { 0.0 };
            if at == 0 || nats > best.nats {
                best = Worth { nats, rate };
            }
        }
        best
    }

    /// The share of failures among what no fault explains, with half a failure more: a mesh in
    /// which nothing has failed yet is not free of chance.
    fn noise(&self) -> f64 {
        let mut is_explained = vec![false; self.evidence.observations.len()];
        for fault in &self.faults {
            for place in &self.evidence.candidates[fault.candidate].places {
                is_explained[*place] = true;
            }
        }
        let left = self.evidence.observations.iter().zip(is_explained);
        let left: Vec<f64> = left
            .filter(|(_, is_explained)| !is_explained)
            .map(|(observation, _)| observation.failed)
            .collect();
        let share = (left.iter().sum::<f64>() + 0.5) / (left.len() as f64 + 1.0);
        share.clamp(NOISE_MIN, NOISE_MAX)
    }
}

fn is_everything(candidate: &Candidate<'_>) -> bool {
    candidate.hypothesis.about == About::Everything
}

/// Predicted chances of failure.
struct Classes {
    /// Each once, sorted.
    chances: Vec<f64>,
    /// The place of each observation's in `chances`.
    of_each: Vec<usize>,
}

/// Observations with the same predicted chance of failure.
#[derive(Clone, Default)]
struct Tally {
    failed: f64,
    passed: f64,
    /// What the sides of the errors say for the candidate, in nats.
    side: f64,
}

impl Tally {
    /// What a further fault of this rate explains where failure has this chance without it.
    fn nats(&self, chance: f64, rate: f64) -> f64 {
        if self.failed == 0.0 && self.passed == 0.0 {
            return 0.0;
        }
        let with = 1.0 - (1.0 - chance) * (1.0 - rate);
        // A pass under two certain faults is impossible but for rounding.
        let passes = (1.0 - rate).max(f64::MIN_POSITIVE);
        // Only what the new fault adds counts for the sides.
        let share = (with - chance) / with;
        self.failed * (with / chance).ln() + self.passed * passes.ln() + self.side * share
    }
}
