//! What the messages about links report beside the optimizer's decision: the copies that ended
//! since the last one.

use std::collections::HashMap;

use schedule::optimizer::{Decision, Link, Outcome};

use crate::limits::LINK_FIGURES_MAX;
use crate::messages::LinkFacts;

/// Weight of the newest goodput in the moving average, as in FTS.
const SMOOTHING: f64 = 0.1;

/// Figures of all links.
#[derive(Default)]
pub(super) struct Figures(HashMap<Link, LinkFigures>);

#[derive(Clone, Copy, Default)]
struct LinkFigures {
    /// Goodput at the decisions, in bytes per second.
    average: Option<f64>,
    /// Copies that ended since the last decision.
    ended: Ended,
    /// Copies that succeeded and failed since the start.
    copied_total: u64,
    failed_total: u64,
}

/// Copies of a link that ended in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnds {
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// Copies that succeeded.
    pub copied: u64,
    /// Attempts that failed.
    pub failed: u64,
}

#[derive(Clone, Copy, Default)]
struct Ended {
    copied: u32,
    failed: u32,
    duration_ms: u64,
    size_bytes: f64,
    size_squares: f64,
}

impl Figures {
    /// A copy of a link has ended.
    pub(super) fn count(&mut self, link: &Link, outcome: &Outcome, duration_ms: u64) {
        if self.0.len() >= LINK_FIGURES_MAX && !self.0.contains_key(link) {
            self.0.clear();
        }
        let figures = self.0.entry(link.clone()).or_default();
        match outcome {
            Outcome::Copied { .. } => figures.copied_total += 1,
            Outcome::Failed { .. } => figures.failed_total += 1,
        }
        let ended = &mut figures.ended;
        match outcome {
            Outcome::Copied { size_bytes } => {
                let size = *size_bytes as f64;
                ended.copied += 1;
                ended.duration_ms += duration_ms;
                ended.size_bytes += size;
                ended.size_squares += size * size;
            }
            Outcome::Failed { .. } => ended.failed += 1,
        }
    }

    /// What ended on each link.
    pub(super) fn ends(&self) -> impl Iterator<Item = LinkEnds> {
        self.0.iter().map(|(link, figures)| LinkEnds {
            source: link.source.clone(),
            destination: link.destination.clone(),
            copied: figures.copied_total,
            failed: figures.failed_total,
        })
    }

    /// A decision with its figures; the next ones begin from zero.
    pub(super) fn report(&mut self, decision: &Decision) -> LinkFacts {
        let goodput = decision.inputs.goodput;
        let figures = self.0.entry(decision.link.clone()).or_default();
        let average = figures.average.map_or(goodput, |old| old + SMOOTHING * (goodput - old));
        figures.average = Some(average);
        let ended = std::mem::take(&mut figures.ended);
        let all = ended.copied + ended.failed;
        let mean = |sum: f64| sum / f64::from(ended.copied.max(1));
        let size = mean(ended.size_bytes);
        LinkFacts {
            source_storage: decision.link.source.clone(),
            destination_storage: decision.link.destination.clone(),
            bytes_per_s: goodput,
            average_bytes_per_s: average,
            duration_s: ended.duration_ms / 1000 / u64::from(ended.copied.max(1)),
            size_bytes: size,
            size_deviation_bytes: (mean(ended.size_squares) - size * size).max(0.0).sqrt(),
            // Without any end nothing has failed.
            success: if all == 0 {
                1.0
            } else {
                f64::from(ended.copied) / f64::from(all)
            },
            retries: ended.failed,
            active: decision.inputs.active,
            waiting: decision.inputs.waiting.into(),
            limit: decision.to,
            change: i32::try_from(i64::from(decision.to) - i64::from(decision.from)).unwrap_or_default(),
            rationale: decision.rationale.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use schedule::optimizer::{FailureClass, Inputs};

    use super::*;

    #[test]
    fn a_report_has_the_copies_since_the_last_one() {
        let link = Link {
            source: "davs://a:443".into(),
            destination: "davs://b:443".into(),
        };
        let mut figures = Figures::default();
        for size_bytes in [100, 300] {
            figures.count(&link, &Outcome::Copied { size_bytes }, 2000);
        }
        let failed = Outcome::Failed {
            class: FailureClass::File,
            end: None,
            retry_after_ms: None,
        };
        figures.count(&link, &failed, 50_000);
        figures.count(&link, &failed, 50_000);
        let decision = |goodput| Decision {
            at_ms: 1,
            link: link.clone(),
            from: 5,
            to: 3,
            rationale: "fewer".into(),
            inputs: Inputs {
                goodput,
                ..Inputs::default()
            },
        };
        let first = figures.report(&decision(100.0));
        assert_eq!((first.size_bytes, first.size_deviation_bytes), (200.0, 100.0));
        assert_eq!((first.success, first.retries, first.duration_s), (0.5, 2, 2));
        assert_eq!((first.limit, first.change), (3, -2));
        let ends: Vec<LinkEnds> = figures.ends().collect();
        assert_eq!((ends[0].copied, ends[0].failed), (2, 2));
        let second = figures.report(&decision(200.0));
        assert_eq!(
            (second.average_bytes_per_s, second.success, second.retries),
            (110.0, 1.0, 0)
        );
    }
}
