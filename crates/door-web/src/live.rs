//! Events of open pages: one ticker for all of them.
//!
//! A view is looked at once in each tick, however many pages show it, and not at all while none
//! does. Pages get what has changed since the tick before; one that missed a tick, because it reads
//! slowly, gets the whole table instead. Nothing is queued for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tokio::sync::watch;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::copies::RunningCopies;
use crate::limits::{TICK_INTERVAL, VIEWS_OPEN_MAX};
use crate::rows::Table;
use crate::view::{Selection, View};

/// What a page shows at one tick.
pub(crate) struct Frame {
    number: u64,
    table: Table,
    /// What has changed since the frame before.
    change: String,
    whole: OnceLock<String>,
}

impl Frame {
    /// What a page is sent that has seen the frame with this number.
    pub(crate) fn after(&self, seen: Option<u64>) -> &str {
        match seen {
            Some(seen) if seen + 1 == self.number => &self.change,
            _ => self.whole.get_or_init(|| self.table.whole()),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

/// The views of open pages. Clones are the same.
#[derive(Clone)]
pub(crate) struct Live {
    copies: RunningCopies,
    views: Arc<Mutex<HashMap<View, watch::Sender<Arc<Frame>>>>>,
}

impl Live {
    pub(crate) fn new(copies: RunningCopies) -> Self {
        Self {
            copies,
            views: Arc::default(),
        }
    }

    /// Ticks as long as the server runs.
    pub(crate) async fn keep(self) {
        let mut clock = tokio::time::interval(TICK_INTERVAL);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            self.tick(Instant::now());
        }
    }

    /// Looks at the copies, and tells pages what has changed.
    pub(crate) fn tick(&self, now: Instant) {
        self.copies.sample(now);
        self.lock().retain(|view, pages| {
            if pages.receiver_count() == 0 {
                return false;
            }
            let last = pages.borrow().clone();
            let table = self.table(view);
            if let Some(change) = table.change_since(&last.table) {
                pages.send_replace(Arc::new(Frame {
                    number: last.number + 1,
                    table,
                    change,
                    whole: OnceLock::new(),
                }));
            }
            true
        });
    }

    /// Follows a view, from the table as it is now.
    ///
    /// # Errors
    /// `overloaded` if pages show too many different views.
    pub(crate) fn follow(&self, view: View) -> Result<watch::Receiver<Arc<Frame>>> {
        let mut views = self.lock();
        if let Some(pages) = views.get(&view) {
            return Ok(pages.subscribe());
        }
        if views.len() >= VIEWS_OPEN_MAX {
            let error = Error::new(ErrorCode::Overloaded, Side::Active, Phase::Open);
            return Err(error.with_detail("too many pages are open"));
        }
        let first = Frame {
            number: 0,
            table: self.table(&view),
            change: String::new(),
            whole: OnceLock::new(),
        };
        let (sender, receiver) = watch::channel(Arc::new(first));
        views.insert(view, sender);
        Ok(receiver)
    }

    fn table(&self, view: &View) -> Table {
        Table::of(&Selection::of(&self.copies, view))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<View, watch::Sender<Arc<Frame>>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use transfer::Progress;

    use super::*;
    use crate::copies::tests::start;

    #[test]
    fn a_page_gets_changes_and_a_slow_one_the_whole() {
        let (copies, progress) = (RunningCopies::default(), Arc::new(Progress::new()));
        copies.begin(&start("1", "/a"), &progress);
        let live = Live::new(copies);
        let mut page = live.follow(View::default()).unwrap();
        let first = page.borrow_and_update().clone();
        assert!(first.after(None).contains("<tr"));
        live.tick(Instant::now());
        assert!(!page.has_changed().unwrap(), "nothing has changed");
        progress.add_moved(5000);
        live.tick(Instant::now());
        let second = page.borrow_and_update().clone();
        assert!(!second.after(Some(first.number())).contains("<tr"));
        progress.add_moved(5000);
        live.tick(Instant::now());
        progress.add_moved(5000);
        live.tick(Instant::now());
        let fourth = page.borrow_and_update().clone();
        assert!(fourth.after(Some(second.number())).contains("<tr"), "it has missed one");
    }

    #[test]
    fn views_are_shared_bounded_and_forgotten() {
        let live = Live::new(RunningCopies::default());
        let view = |number: usize| View::read(Some(&format!("q={number}")));
        let pages: Vec<_> = (0..VIEWS_OPEN_MAX)
            .map(|number| live.follow(view(number)).unwrap())
            .collect();
        assert!(live.follow(view(0)).is_ok(), "it is open already");
        let refused = live.follow(view(VIEWS_OPEN_MAX)).err().unwrap();
        assert_eq!(refused.code(), ErrorCode::Overloaded);
        drop(pages);
        live.tick(Instant::now());
        assert!(live.follow(view(VIEWS_OPEN_MAX)).is_ok());
        assert_eq!(live.lock().len(), 1);
    }
}
