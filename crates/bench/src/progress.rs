//! The progress of a run, for the person who waits.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Reports of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A measurement begins.
    Began {
        /// What is measured.
        label: String,
    },
    /// A measurement ended.
    Ended {
        /// What was measured.
        label: String,
        /// What it came to, such as `11.8 Gbit/s`, or why it failed.
        words: String,
    },
    /// What is done beside measuring, such as making files.
    Aside {
        /// What it is.
        words: String,
    },
}

/// How far a run is when something happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Measurements that have ended.
    pub done: usize,
    /// All known measurements.
    pub planned: usize,
    /// Time since the first began.
    pub elapsed: Duration,
    /// Time that the rest will take if it goes on like this; `None` before the first has ended.
    pub left: Option<Duration>,
}

#[derive(Debug, Default)]
struct Count {
    done: usize,
    planned: usize,
    began: Option<Instant>,
    label: String,
}

type Observer = Box<dyn Fn(&Event, &Standing) + Send + Sync>;

/// Tells an observer how far a run is. Loads say what they plan and what they do.
pub struct RunProgress {
    count: Mutex<Count>,
    observe: Observer,
}

impl RunProgress {
    /// A run that reports to `observe`.
    pub fn new(observe: impl Fn(&Event, &Standing) + Send + Sync + 'static) -> Self {
        Self {
            count: Mutex::default(),
            observe: Box::new(observe),
        }
    }

    /// A silent run.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_, _| {})
    }

    /// Adds measurements to those that are planned. A load calls it once, before the first.
    pub fn plan(&self, measurements: usize) {
        self.lock().planned += measurements;
    }

    /// A measurement begins: one sample of one row.
    pub fn begin(&self, label: impl Into<String>) {
        let label = label.into();
        let mut count = self.lock();
        count.began.get_or_insert_with(Instant::now);
        count.label.clone_from(&label);
        self.tell(count, Event::Began { label });
    }

    /// The measurement that began last has ended, well or badly: `words` say how.
    pub fn end(&self, words: impl Into<String>) {
        let mut count = self.lock();
        count.done += 1;
        let event = Event::Ended {
            label: count.label.clone(),
            words: words.into(),
        };
        self.tell(count, event);
    }

    /// Measurements that were planned and will not be made, because others before them failed.
    pub fn skip(&self, measurements: usize) {
        let mut count = self.lock();
        count.planned = count.planned.saturating_sub(measurements).max(count.done);
    }

    /// Something is done beside measuring.
    pub fn aside(&self, words: impl Into<String>) {
        self.tell(self.lock(), Event::Aside { words: words.into() });
    }

    fn tell(&self, count: MutexGuard<'_, Count>, event: Event) {
        let elapsed = count.began.map_or(Duration::ZERO, |began| began.elapsed());
        let to_do = count.planned.saturating_sub(count.done);
        let each = u32::try_from(count.done)
            .ok()
            .and_then(|done| elapsed.checked_div(done));
        let standing = Standing {
            done: count.done,
            planned: count.planned,
            elapsed,
            left: each.map(|each| each.saturating_mul(u32::try_from(to_do).unwrap_or(u32::MAX))),
        };
        // The observer may take its time, and must be able to ask nothing of us.
        drop(count);
        (self.observe)(&event, &standing);
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for RunProgress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.lock();
        write!(formatter, "RunProgress({} of {})", count.done, count.planned)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_observer_hears_what_is_done_and_how_much_is_left() {
        let heard: Arc<Mutex<Vec<(Event, Standing)>>> = Arc::default();
        let notes = Arc::clone(&heard);
        let progress = RunProgress::new(move |event, standing| notes.lock().unwrap().push((event.clone(), *standing)));
        progress.plan(4);
        progress.begin("GET");
        progress.end("1 Gbit/s");
        progress.skip(2);
        progress.begin("PUT");
        let heard = heard.lock().unwrap();
        let (event, standing) = &heard[1];
        let label = "GET".to_owned();
        let words = "1 Gbit/s".to_owned();
        assert_eq!(*event, Event::Ended { label, words });
        assert_eq!((standing.done, standing.planned), (1, 4));
        assert_eq!(standing.left, Some(standing.elapsed * 3));
        assert_eq!((heard[2].1.done, heard[2].1.planned), (1, 2));
        assert_eq!(heard[0].1.left, None);
    }
}
