//! What a history knows about one of its runs.

use super::{LinkRun, LinkSeries, Store, StoreError};
use crate::model::Run;
use crate::standing::{Hysteresis, Ongoing, Standing, ongoing, standings};

/// What a history knows about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// What is wrong in it, and since when.
    pub faults: Vec<Ongoing>,
    /// How its endpoints stand after it.
    pub standings: Vec<Standing>,
    /// What links did in the newest runs, this one included.
    pub links: Vec<LinkSeries<LinkRun>>,
}

impl Store {
    /// What is known about a run; of its links, in the newest `link_runs_max` runs.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn past(&self, run: &Run, link_runs_max: u64) -> Result<Past, StoreError> {
        let mut verdicts = self.verdicts(run.instrument, &run.title, 0)?;
        verdicts.retain(|verdict| verdict.started_ms <= run.started_ms);
        let mut links = self.link_runs(run.instrument, &run.title, link_runs_max)?;
        for link in &mut links {
            link.points.retain(|(started_ms, _)| *started_ms <= run.started_ms);
        }
        Ok(Past {
            faults: ongoing(&verdicts),
            standings: standings(&verdicts, Hysteresis::default()),
            links,
        })
    }
}
