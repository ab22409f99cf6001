//! A run of the simulated queue under one of the two rules.

use schedule::optimizer::{Decision, LinkBounds, Optimizer};

use super::fts::Fts;
use super::network::{Network, STEP_MS};

/// Time between samples.
const SAMPLE_MS: i64 = 5_000;

/// Who decides.
pub(crate) enum Rule {
    Ours(Box<Optimizer>),
    Fts(Fts),
}

/// What happened, by samples of 5 s.
#[derive(Default)]
pub(crate) struct Report {
    /// Goodput of each link in bytes/s.
    pub(crate) goodput: Vec<Vec<f64>>,
    /// Target of each link.
    pub(crate) targets: Vec<Vec<u32>>,
    pub(crate) attempts: u64,
    pub(crate) wasted: u64,
    pub(crate) decisions: Vec<Decision>,
}

impl Rule {
    pub(crate) fn ours(network: &Network, max: u32) -> Self {
        let mut optimizer = Optimizer::default();
        for path in 0..network.paths.len() {
            let bounds = LinkBounds {
                max,
                ..LinkBounds::default()
            };
            optimizer.set_link_bounds(&network.link(path), bounds);
        }
        Self::Ours(Box::new(optimizer))
    }

    fn target(&self, network: &Network, path: usize) -> u32 {
        match self {
            Self::Ours(optimizer) => optimizer.target(&network.link(path)),
            Self::Fts(fts) => fts.target(path),
        }
    }
}

/// Runs `network` for a time.
pub(crate) fn run(mut network: Network, mut rule: Rule, length_ms: i64) -> Report {
    let mut report = Report::default();
    let mut before = network.moved.clone();
    let mut now_ms = 0;
    while now_ms < length_ms {
        for path in 0..network.paths.len() {
            let target = rule.target(&network, path) as usize;
            let active = network.active(path);
            if network.waiting(path, now_ms) > 0 {
                (active..target).for_each(|_| network.start(path, now_ms));
            }
        }
        if now_ms % SAMPLE_MS == 0 {
            sample(&network, &mut rule, &mut report, now_ms, &before);
            before.clone_from(&network.moved);
        }
        for end in network.step(now_ms) {
            match &mut rule {
                Rule::Ours(optimizer) => {
                    let link = network.link(end.path);
                    let decisions = optimizer.ended(now_ms, &link, end.outcome);
                    report.decisions.extend(decisions);
                }
                Rule::Fts(fts) => fts.ended(now_ms, &end),
            }
        }
        now_ms += STEP_MS;
    }
    report.attempts = network.attempts;
    report.wasted = network.wasted;
    report
}

fn sample(network: &Network, rule: &mut Rule, report: &mut Report, now_ms: i64, before: &[f64]) {
    let samples = network.samples(now_ms, before);
    match rule {
        Rule::Ours(optimizer) => report.decisions.extend(optimizer.sample(now_ms, &samples)),
        Rule::Fts(fts) => {
            let waiting: Vec<u32> = samples.iter().map(|sample| sample.waiting).collect();
            fts.tick(now_ms, &waiting);
        }
    }
    let targets = (0..network.paths.len()).map(|path| rule.target(network, path));
    report.targets.push(targets.collect());
    if now_ms > 0 {
        let rates = samples
            .iter()
            .map(|sample| sample.bytes_moved as f64 * 1e3 / SAMPLE_MS as f64);
        report.goodput.push(rates.collect());
    }
}

impl Report {
    /// Summed goodput of the sample that ends at `index` + 1 intervals.
    pub(crate) fn sum(&self, index: usize) -> f64 {
        self.goodput[index].iter().sum()
    }

    /// Mean summed goodput between two times, in bytes/s.
    pub(crate) fn mean(&self, from_ms: i64, to_ms: i64) -> f64 {
        let range = (from_ms / SAMPLE_MS) as usize..((to_ms / SAMPLE_MS) as usize).min(self.goodput.len());
        let count = range.len().max(1) as f64;
        range.map(|index| self.sum(index)).sum::<f64>() / count
    }

    /// Seconds after `from_ms` until goodput first reached `goal`; `None`: never.
    pub(crate) fn reached_s(&self, from_ms: i64, goal: f64) -> Option<i64> {
        let first = (from_ms / SAMPLE_MS) as usize;
        (first..self.goodput.len())
            .find(|index| self.sum(*index) >= goal)
            .map(|index| (index - first + 1) as i64 * SAMPLE_MS / 1000)
    }

    /// Jain's index of the links' bytes between two times: 1 is perfectly fair.
    pub(crate) fn jain(&self, links: &[usize], from_ms: i64, to_ms: i64) -> f64 {
        let range = (from_ms / SAMPLE_MS) as usize..((to_ms / SAMPLE_MS) as usize).min(self.goodput.len());
        let bytes: Vec<f64> = links
            .iter()
            .map(|link| range.clone().map(|index| self.goodput[index][*link]).sum())
            .collect();
        let sum: f64 = bytes.iter().sum();
        let squares: f64 = bytes.iter().map(|bytes| bytes * bytes).sum();
        sum * sum / (bytes.len() as f64 * squares)
    }

    /// Wasted attempts as a part of all.
    pub(crate) fn waste(&self) -> f64 {
        self.wasted as f64 / self.attempts.max(1) as f64
    }
}
