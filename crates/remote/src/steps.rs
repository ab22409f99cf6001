//! The steps of a connection, for traces.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::limits::STEPS_KEPT_MAX;

/// A step of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its name: `resolve`, `connect` or `tls`.
    pub name: &'static str,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
}

/// Notes the steps of the connections that a resource and its clones need: the first ones. By
/// default nothing is noted.
#[derive(Clone, Debug, Default)]
pub struct Steps(Option<Arc<Mutex<Vec<Step>>>>);

impl Steps {
    /// Steps that are kept.
    #[must_use]
    pub fn kept() -> Self {
        Self(Some(Arc::default()))
    }

    /// All so far.
    #[must_use]
    pub fn all(&self) -> Vec<Step> {
        let kept = self.0.as_ref();
        kept.map(|steps| steps.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default()
    }

    pub(crate) fn note(&self, name: &'static str, began: Instant, ended: Instant) {
        let Some(steps) = &self.0 else { return };
        let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() < STEPS_KEPT_MAX {
            steps.push(Step { name, began, ended });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_steps_are_kept_where_that_is_asked_for() {
        let (quiet, kept, now) = (Steps::default(), Steps::kept(), Instant::now());
        for _ in 0..2 * STEPS_KEPT_MAX {
            quiet.note("tls", now, now);
            kept.clone().note("tls", now, now);
        }
        assert!(quiet.all().is_empty());
        assert_eq!(kept.all().len(), STEPS_KEPT_MAX);
    }
}
