//! Six faults and a slow link in a mesh of twelve endpoints, in arrangements by seed: as the
//! campaign of meshes has them with real servers, where most copies of some kinds fail.

use fastrand::Rng;
use types::{Phase, Side};

use super::*;
use crate::made_up::{seen, tried};
use crate::model::{Cell, Failure, Instrument, Link, Mode, Outcome, Run};

const SEEDS: u64 = 40;

/// A fault of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    /// A destination that fetches from it gets too little.
    Truncates,
    /// It has no room, and is no source.
    Full,
    /// Its certificate has expired: nothing reaches it over TLS, which only it has.
    Expired,
    /// It reports no checksums over HTTP.
    NoChecksums,
    /// It forbids deletion over HTTP.
    Keeps,
    /// It is in downtime.
    Rests,
}

const PLANTS: [Plant; 6] = [
    Plant::Truncates,
    Plant::Full,
    Plant::Expired,
    Plant::NoChecksums,
    Plant::Keeps,
    Plant::Rests,
];

/// Ten servers that copy by themselves over both protocols, and two that are only copied from and
/// to, over HTTP.
struct Twelve {
    names: Vec<String>,
    plants: Vec<Option<Plant>>,
    slow: (usize, usize),
    how_slow: Slow,
}

/// What comes of copies over the slow link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slow {
    /// They are given up.
    Stalls,
    /// They arrive late.
    Passes,
}

const PASSIVE: usize = 10;

impl Twelve {
    fn new(random: &mut Rng, how_slow: Slow) -> Self {
        let names = (0..12).map(|at| format!("site-{at:02}")).collect();
        let ends = random.choose_multiple(0..PASSIVE, 2);
        let mut plants = vec![None; 12];
        for plant in PLANTS {
            let fits = |at: &usize| match plant {
                Plant::Full => *at < PASSIVE,
                _ => true,
            };
            let free = (0..12).filter(|at| plants[*at].is_none() && !ends.contains(at) && fits(at));
            let at = random.choice(free.collect::<Vec<_>>()).unwrap();
            plants[at] = Some(plant);
        }
        Self {
            names,
            plants,
            slow: (ends[0], ends[1]),
            how_slow,
        }
    }

    fn scheme(&self, at: usize, mode: Mode) -> &'static str {
        match (mode == Mode::Rendezvous, self.plants[at] == Some(Plant::Expired)) {
            (true, true) => "roots",
            (true, false) => "root",
            (false, true) => "https",
            (false, false) => "http",
        }
    }

    fn link(&self, from: usize, to: usize, mode: Mode) -> Link {
        Link {
            source: self.names[from].clone(),
            destination: self.names[to].clone(),
            source_protocol: self.scheme(from, mode).to_owned(),
            destination_protocol: self.scheme(to, mode).to_owned(),
            mode,
            credential: "anonymous".to_owned(),
        }
    }

    /// The first thing that goes wrong with a copy.
    fn failure(&self, from: usize, to: usize, mode: Mode) -> Option<Failure> {
        let (source, destination) = (self.plants[from], self.plants[to]);
        let is_http = mode != Mode::Rendezvous;
        let failure = |side, phase, code: &str| {
            Some(Failure {
                side,
                phase,
                code: code.to_owned(),
                ..crate::made_up::failure(side)
            })
        };
        if source == Some(Plant::Expired) {
            return failure(Side::Source, Phase::Tls, "peer_tls_failed");
        }
        if destination == Some(Plant::Expired) {
            return failure(Side::Destination, Phase::Tls, "peer_tls_failed");
        }
        if destination == Some(Plant::Full) {
            return failure(Side::Destination, Phase::Transfer, "peer_no_space");
        }
        if source == Some(Plant::Truncates) && mode == Mode::Pull {
            return failure(Side::Source, Phase::Transfer, "peer_truncated");
        }
        if self.slow == (from, to) && self.how_slow == Slow::Stalls {
            return failure(Side::Active, Phase::Transfer, "peer_stalled");
        }
        match destination {
            Some(Plant::NoChecksums) if is_http => failure(Side::Destination, Phase::Checksum, "checksum_unavailable"),
            Some(Plant::Keeps) if is_http => failure(Side::Destination, Phase::Cleanup, "peer_forbidden"),
            _ => None,
        }
    }

    fn cells(&self, random: &mut Rng) -> Vec<Cell> {
        let mut cells = Vec::new();
        for from in 0..12 {
            for to in (0..12).filter(|to| *to != from) {
                for mode in [Mode::Pull, Mode::Push, Mode::Rendezvous] {
                    let is_active = match mode {
                        Mode::Pull => to < PASSIVE,
                        Mode::Push => from < PASSIVE,
                        _ => from < PASSIVE && to < PASSIVE,
                    };
                    let rests = [from, to].iter().any(|at| self.plants[*at] == Some(Plant::Rests));
                    if !is_active || rests || self.plants[from] == Some(Plant::Full) {
                        continue;
                    }
                    let outcome = self
                        .failure(from, to, mode)
                        .map_or(Outcome::Passed, |failure| Outcome::Failed(Box::new(failure)));
                    let mut cell = tried(self.link(from, to, mode), outcome, 0);
                    if cell.bytes > 0 {
                        cell.copy_ms = self.copy_ms(from, to, random);
                    }
                    cells.push(cell);
                }
            }
        }
        cells
    }

    /// Times on a machine that is busy now and then: spread over an order of magnitude, and some
    /// are far longer.
    fn copy_ms(&self, from: usize, to: usize, random: &mut Rng) -> u64 {
        let own = 20 * (1 + from as u64 % 3) * (1 + to as u64 % 2);
        let busy = random.u64(50..500) * if random.u32(..30) == 0 { 10 } else { 1 };
        own + busy + if self.slow == (from, to) { 5_000 } else { 0 }
    }

    fn run(&self, random: &mut Rng) -> Run {
        Run {
            instrument: Instrument::Mesh,
            title: "twelve".to_owned(),
            started_ms: 0,
            ended_ms: 60_000,
            program: "crossload 0.1.0".to_owned(),
            is_complete: true,
            ended_by: None,
            endpoints: self.names.iter().map(|name| seen(name)).collect(),
            cells: self.cells(random),
            figures: Vec::new(),
        }
    }

    /// What is wrong with the findings.
    fn violations(&self, blame: &Blame) -> Vec<String> {
        let mut named = [false; 12];
        let mut is_link_named = false;
        let mut violations = Vec::new();
        for finding in &blame.findings {
            let planted = |name: &str| self.names.iter().position(|own| own == name);
            let is_right = finding.verdict == Verdict::Named
                && match &finding.subject {
                    Subject::Endpoint { name, role, .. } => planted(name).is_some_and(|at| {
                        named[at] = true;
                        match self.plants[at] {
                            Some(Plant::Truncates) => *role == Role::Source,
                            Some(Plant::NoChecksums | Plant::Keeps) => *role == Role::Destination,
                            Some(Plant::Full) => *role != Role::Source,
                            Some(Plant::Expired) => *role == Role::Both,
                            Some(Plant::Rests) | None => false,
                        }
                    }),
                    Subject::Link {
                        source, destination, ..
                    } => {
                        is_link_named |= finding.slow.is_some() == (self.how_slow == Slow::Passes);
                        (planted(source), planted(destination)) == (Some(self.slow.0), Some(self.slow.1))
                    }
                    _ => false,
                };
            if !is_right {
                violations.push(finding.to_string());
            }
        }
        for (at, plant) in self.plants.iter().enumerate() {
            if plant.is_some_and(|plant| plant != Plant::Rests) && !named[at] {
                violations.push(format!("{} {plant:?} is not named", self.names[at]));
            }
        }
        if !is_link_named {
            violations.push("the slow link is not named".to_owned());
        }
        violations
    }
}

fn check(how_slow: Slow) {
    let mut wrong = Vec::new();
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let twelve = Twelve::new(&mut random, how_slow);
        let violations = twelve.violations(&Blame::of(&twelve.run(&mut random)));
        if !violations.is_empty() {
            wrong.push(format!("seed {seed}: {:?} {violations:#?}", twelve.plants));
        }
    }
    let first = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {SEEDS} wrong:\n{first}", wrong.len());
}

#[test]
fn each_of_six_faults_and_a_link_that_stalls_is_named() {
    check(Slow::Stalls);
}

#[test]
fn each_of_six_faults_and_a_slow_link_is_named() {
    check(Slow::Passes);
}
