//! What differs between two runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::change::median;
use crate::model::{Cell, Failure, Link, Outcome, Run, Wish};

/// What differs between two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Links that fail now and did not.
    pub broken: Vec<Broken>,
    /// Links that failed and do not now.
    pub mended: Vec<Link>,
    /// Links that fail in both.
    pub still_failing: u64,
    /// Links that pass in both.
    pub still_passing: u64,
    /// Links that were tried in one of the runs only.
    pub only_once: u64,
    /// The median of the ratios of times of copies, later to earlier, over the links that pass in
    /// both; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ratio: Option<f64>,
    /// Figures of both runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureChange>,
}

/// A link that fails now and did not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    /// The link.
    pub link: Link,
    /// Why it fails.
    pub failure: Failure,
}

/// A figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureChange {
    /// What was measured.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which values are good.
    pub wish: Wish,
    /// The earlier value.
    pub before: f64,
    /// The later value.
    pub after: f64,
}

impl Comparison {
    /// What differs in the later run.
    #[must_use]
    pub fn of(earlier: &Run, later: &Run) -> Self {
        let mut comparison = Self {
            figures: figures(earlier, later),
            ..Self::default()
        };
        let mut known: BTreeMap<&Link, &Cell> = tried(earlier).map(|cell| (&cell.link, cell)).collect();
        let mut ratios = Vec::new();
        for cell in tried(later) {
            let Some(before) = known.remove(&cell.link) else {
                comparison.only_once += 1;
                continue;
            };
            match (before.outcome.failure(), cell.outcome.failure()) {
                (None, None) => {
                    comparison.still_passing += 1;
                    if before.copy_ms > 0 && cell.copy_ms > 0 {
                        ratios.push(cell.copy_ms as f64 / before.copy_ms as f64);
                    }
                }
                (None, Some(failure)) => comparison.broken.push(Broken {
                    link: cell.link.clone(),
                    failure: failure.clone(),
                }),
                (Some(_), None) => comparison.mended.push(cell.link.clone()),
                (Some(_), Some(_)) => comparison.still_failing += 1,
            }
        }
        comparison.only_once += known.len() as u64;
        comparison.time_ratio = (!ratios.is_empty()).then(|| median(&ratios));
        comparison
    }
}

fn tried(run: &Run) -> impl Iterator<Item = &Cell> {
    run.cells
        .iter()
        .filter(|cell| matches!(cell.outcome, Outcome::Passed | Outcome::Failed(_)))
}

fn figures(earlier: &Run, later: &Run) -> Vec<FigureChange> {
    let both = later.figures.iter().filter_map(|figure| {
        let is_it = |known: &&crate::model::Figure| known.name == figure.name && known.unit == figure.unit;
        let before = earlier.figures.iter().find(is_it)?;
        Some(FigureChange {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            wish: figure.wish,
            before: before.value,
            after: figure.value,
        })
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::Mesh;
    use types::Side;

    #[test]
    fn links_are_compared_one_by_one() {
        let mesh = Mesh::full(4);
        let bad = |name: &'static str| move |link: &Link| (link.source == name).then_some(Side::Source);
        let (mut earlier, mut later) = (mesh.run(0, bad("site-01")), mesh.run(1, bad("site-02")));
        let why = String::new();
        later.cells[0].outcome = Outcome::Skipped { why };
        later.cells.iter_mut().for_each(|cell| cell.copy_ms = 60);
        // The same link fails in both.
        let both = earlier
            .cells
            .iter_mut()
            .find(|cell| cell.link.source == "site-02")
            .unwrap();
        both.outcome = Outcome::Failed(Box::new(crate::made_up::failure(Side::Source)));
        let found = Comparison::of(&earlier, &later);
        assert_eq!((found.broken.len(), found.mended.len()), (5, 6));
        assert_eq!((found.still_failing, found.still_passing, found.only_once), (1, 11, 1));
        assert_eq!(found.time_ratio, Some(1.5));
        assert!(found.broken.iter().all(|broken| broken.link.source == "site-02"));
    }
}
