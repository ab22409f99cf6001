//! What the links did on one day, as bytes.

use std::collections::BTreeMap;

use super::bytes::{Reader, Torn, Writer};
use crate::model::{Cell, Outcome};

/// Steps of the logarithm of a time: 0.4 % each.
const LOGARITHM_STEPS: f64 = 256.0;

/// What one link did on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkDay {
    /// Copies that were tried.
    pub tried: u64,
    /// Copies that failed.
    pub failed: u64,
    /// Bytes that arrived whole.
    pub bytes: u64,
    /// Cells that have passed and whose time is known.
    timed: u64,
    /// The sum of the logarithms of their times, in steps.
    logarithms: u64,
}

impl LinkDay {
    /// Adds a cell. What was not tried changes nothing.
    pub(super) fn add(&mut self, cell: &Cell) {
        match &cell.outcome {
            Outcome::Skipped { .. } | Outcome::NotApplicable { .. } => return,
            Outcome::Passed if cell.copy_ms > 0 => {
                self.timed += 1;
                self.logarithms += ((cell.copy_ms as f64).ln() * LOGARITHM_STEPS).round() as u64;
            }
            _ => {}
        }
        let copies = cell.copies.max(1);
        let failed = match cell.outcome.failure() {
            Some(_) => cell.copies_failed.max(1),
            None => cell.copies_failed,
        };
        // A run that is imported may say anything.
        self.tried = self.tried.saturating_add(copies);
        self.failed = self.failed.saturating_add(failed);
        self.bytes = self.bytes.saturating_add(cell.bytes);
    }

    /// Takes a cell out again.
    pub(super) fn take(&mut self, cell: &Cell) {
        let mut one = Self::default();
        one.add(cell);
        for (sum, part) in [
            (&mut self.tried, one.tried),
            (&mut self.failed, one.failed),
            (&mut self.bytes, one.bytes),
            (&mut self.timed, one.timed),
            (&mut self.logarithms, one.logarithms),
        ] {
            *sum = sum.saturating_sub(part);
        }
    }

    /// The share of copies that failed; `None` when nothing was tried.
    #[must_use]
    pub fn failed_share(&self) -> Option<f64> {
        (self.tried > 0).then(|| self.failed as f64 / self.tried as f64)
    }

    /// The typical time of a copy, in milliseconds: the geometric mean, which one slow copy hardly
    /// moves. `None` when none has passed.
    #[must_use]
    pub fn typical_ms(&self) -> Option<f64> {
        (self.timed > 0).then(|| (self.logarithms as f64 / self.timed as f64 / LOGARITHM_STEPS).exp())
    }
}

/// A day as bytes: links by the differences of their numbers.
pub(super) fn encode(links: &BTreeMap<u64, LinkDay>) -> Vec<u8> {
    let mut out = Writer::default();
    let mut before = 0;
    for (link, day) in links {
        out.number(link - before);
        before = *link;
        for number in [day.tried, day.failed, day.bytes, day.timed, day.logarithms] {
            out.number(number);
        }
    }
    out.0
}

/// The day that bytes are, by the numbers of links, in their order.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<(u64, LinkDay)>, Torn> {
    let mut input = Reader(bytes);
    let mut links = Vec::new();
    let mut link: u64 = 0;
    while !input.0.is_empty() {
        link = link.checked_add(input.number()?).ok_or(Torn)?;
        let day = LinkDay {
            tried: input.number()?,
            failed: input.number()?,
            bytes: input.number()?,
            timed: input.number()?,
            logarithms: input.number()?,
        };
        links.push((link, day));
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Mesh;
    use types::Side;

    /// Runs are imported as others have written them.
    #[test]
    fn no_figure_is_too_large() {
        let run = Mesh::full(3).run(0, |_| None);
        let most = Cell {
            copies: u64::MAX,
            copies_failed: u64::MAX,
            copy_ms: u64::MAX,
            bytes: u64::MAX,
            ..run.cells[0].clone()
        };
        let mut day = LinkDay::default();
        for _ in 0..2 {
            day.add(&most);
        }
        assert_eq!((day.tried, day.failed, day.bytes), (u64::MAX, u64::MAX, u64::MAX));
        assert_eq!(decode(&encode(&BTreeMap::from([(1, day)]))).unwrap(), [(1, day)]);
    }

    #[test]
    fn a_day_adds_up() {
        let run = Mesh::full(3).run(0, |link| (link.source == "site-01").then_some(Side::Source));
        let mut day = LinkDay::default();
        for (cell, copy_ms) in run
            .cells
            .iter()
            .filter(|cell| cell.outcome.has_passed())
            .zip([10, 1_000])
        {
            day.add(&Cell {
                copy_ms,
                ..cell.clone()
            });
        }
        // 100 is the geometric mean of 10 and 1 000.
        assert!((day.typical_ms().unwrap() - 100.0).abs() < 1.0, "{day:?}");
        day.add(run.cells.iter().find(|cell| !cell.outcome.has_passed()).unwrap());
        let why = String::new();
        day.add(&Cell::untried(run.cells[0].link.clone(), Outcome::Skipped { why }));
        assert_eq!((day.tried, day.failed, day.bytes), (3, 1, 2 << 20));
        assert_eq!(day.failed_share(), Some(1.0 / 3.0));
        let links = BTreeMap::from([(3, day), (900, LinkDay::default())]);
        let bytes = encode(&links);
        assert_eq!(decode(&bytes).unwrap(), links.into_iter().collect::<Vec<_>>());
        assert_eq!(decode(&bytes[..bytes.len() - 1]), Err(Torn));
    }
}
