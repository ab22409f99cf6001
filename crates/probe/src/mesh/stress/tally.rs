//! What came of the copies of one link.

use std::time::Duration;

use history::{Cell, CountedFailure, Link, Outcome, RatePoint};

use crate::mesh::step::milliseconds;

/// Points of the rate over time.
const RATE_POINTS: u64 = 120;

/// The copies of a link so far.
pub(super) struct Tally {
    cell: Cell,
    /// When the first copy began and the last one was made, since the begin of the run: a clock
    /// that is set meanwhile changes no time.
    from: Duration,
    until: Duration,
    /// The length of the time that a point of the rate stands for, in milliseconds.
    interval_ms: u64,
    /// Bytes that arrived, by interval.
    bytes: Vec<u64>,
}

impl Tally {
    /// No copies; the run takes about `duration`.
    pub(super) fn new(link: Link, duration: Duration) -> Self {
        Self {
            cell: Cell::untried(link, Outcome::Passed),
            from: Duration::MAX,
            until: Duration::ZERO,
            interval_ms: (milliseconds(duration) / RATE_POINTS).max(1_000),
            bytes: Vec::new(),
        }
    }

    /// A copy has begun and ended at these times since the begin of the run.
    pub(super) fn add(&mut self, copy: Cell, begun: Duration, at: Duration) {
        let sum = &mut self.cell;
        if begun < self.from {
            (self.from, sum.started_ms) = (begun, copy.started_ms);
        }
        self.until = self.until.max(begun + Duration::from_millis(copy.copy_ms));
        sum.copy_ms = milliseconds(self.until.saturating_sub(self.from));
        sum.copies += 1;
        sum.copies_failed += copy.copies_failed;
        sum.bytes += copy.bytes;
        let interval = usize::try_from(milliseconds(at) / self.interval_ms).unwrap_or(usize::MAX);
        if copy.bytes > 0 {
            if self.bytes.len() <= interval {
                self.bytes.resize(interval + 1, 0);
            }
            self.bytes[interval] += copy.bytes;
        }
        let Outcome::Failed(failure) = &copy.outcome else {
            return;
        };
        let is_same = |known: &&mut CountedFailure| {
            let known = &known.failure;
            (known.side, known.phase, &known.code) == (failure.side, failure.phase, &failure.code)
        };
        match sum.failures.iter_mut().find(is_same) {
            Some(known) => known.count += 1,
            None => sum.failures.push(CountedFailure {
                failure: (**failure).clone(),
                count: 1,
            }),
        }
        if sum.outcome.has_passed() {
            sum.outcome = copy.outcome;
        }
    }

    /// The cell. If no copy was made, `why` says for what reason.
    pub(super) fn cell(&self, why: Option<&str>) -> Cell {
        let mut cell = self.cell.clone();
        if cell.copies == 0 {
            cell.outcome = Outcome::Skipped {
                why: why.unwrap_or("no copy was begun").to_owned(),
            };
        }
        let point = |(interval, bytes): (usize, &u64)| RatePoint {
            at_ms: (interval as u64 + 1) * self.interval_ms,
            bytes: *bytes,
        };
        cell.rates = self.bytes.iter().enumerate().map(point).collect();
        cell
    }
}

#[cfg(test)]
mod tests {
    use history::{Failure, Mode};
    use types::{Phase, Side};

    use super::*;

    fn copy(started_ms: u64, copy_ms: u64, failure: Option<&str>) -> Cell {
        let link = Link {
            source: "A".to_owned(),
            destination: "B".to_owned(),
            source_protocol: "https".to_owned(),
            destination_protocol: "https".to_owned(),
            mode: Mode::Pull,
            credential: "token".to_owned(),
        };
        let outcome = failure.map_or(Outcome::Passed, |code| {
            Outcome::Failed(Box::new(Failure {
                side: Side::Source,
                phase: Phase::Open,
                code: code.to_owned(),
                says: "no".to_owned(),
                server_status: None,
                server_words: None,
                reproduce: Vec::new(),
            }))
        });
        Cell {
            outcome,
            started_ms,
            copy_ms,
            bytes: if failure.is_none() { 1_000_000 } else { 0 },
            copies: 1,
            copies_failed: u64::from(failure.is_some()),
            ..Cell::untried(link, Outcome::Passed)
        }
    }

    #[test]
    fn copies_are_counted_with_their_bytes_failures_and_rate() {
        let first = copy(10_000, 2_000, None);
        let mut tally = Tally::new(first.link.clone(), Duration::from_secs(120));
        assert!(matches!(tally.cell(Some("no room")).outcome, Outcome::Skipped { why } if why == "no room"));
        let at = Duration::from_millis;
        tally.add(first, at(50), at(2_100));
        // The clock is set to an hour later, and back.
        tally.add(copy(3_611_000, 3_000, None), at(1_050), at(4_100));
        tally.add(copy(12_000, 100, Some("peer_forbidden")), at(2_050), at(4_200));
        tally.add(copy(1_000, 100, Some("peer_failed")), at(3_050), at(4_300));
        tally.add(copy(14_000, 100, Some("peer_forbidden")), at(4_050), at(4_400));
        let cell = tally.cell(None);
        assert_eq!((cell.copies, cell.copies_failed, cell.bytes), (5, 3, 2_000_000));
        assert_eq!((cell.started_ms, cell.copy_ms), (10_000, 4_100));
        let counts: Vec<(&str, u64)> = cell
            .failures
            .iter()
            .map(|known| (known.failure.code.as_str(), known.count))
            .collect();
        assert_eq!(counts, [("peer_forbidden", 2), ("peer_failed", 1)]);
        assert_eq!(
            cell.outcome.failure().map(|failure| failure.code.as_str()),
            Some("peer_forbidden")
        );
        let rates: Vec<(u64, u64)> = cell.rates.iter().map(|point| (point.at_ms, point.bytes)).collect();
        assert_eq!(
            rates,
            [
                (1_000, 0),
                (2_000, 0),
                (3_000, 1_000_000),
                (4_000, 0),
                (5_000, 1_000_000)
            ]
        );
    }
}
