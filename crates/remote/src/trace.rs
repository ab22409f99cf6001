//! A trace of requests and their answers, without credentials.

use std::fmt;
use std::sync::Arc;

/// What is done with a line.
type Hear = dyn Fn(&str) + Send + Sync;

/// Hears each request and each answer, as lines. By default nothing does.
#[derive(Clone, Default)]
pub struct Trace(Option<Arc<Hear>>);

impl Trace {
    /// `hear` gets each line, and must return at once.
    #[must_use]
    pub fn new(hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    /// Passes on the lines, which are made only if they are heard.
    pub(crate) fn tell(&self, lines: impl FnOnce() -> Vec<String>) {
        if let Some(hear) = &self.0 {
            lines().iter().for_each(|line| hear(line));
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Trace" } else { "no Trace" })
    }
}
