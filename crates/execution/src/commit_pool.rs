//! The threads on which files are made durable.
//!
//! With a slow disk hundreds of uploads wait for their flushes at the same time. On threads of
//! their own they hold none of those that look names up.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::limits::COMMIT_THREADS_MAX;

use crate::shared::Shared;

/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Starts threads as they are needed. Clones share them.
#[derive(Clone)]
pub(crate) struct CommitPool(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    news: Condvar,
    /// How nice they are.
    shared: Shared,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl Default for CommitPool {
    fn default() -> Self {
        Self(Arc::new(Inner {
            state: Mutex::default(),
            news: Condvar::new(),
            shared: Shared::current(),
        }))
    }
}

impl CommitPool {
    /// Runs a job on one of the threads, as soon as one is free. Without any thread the job is
    /// dropped.
    pub(crate) fn run(&self, job: Job) {
        let mut state = self.0.lock();
        state.jobs.push_back(job);
        if state.idle < state.jobs.len() && state.threads < COMMIT_THREADS_MAX {
            let shared = Arc::clone(&self.0);
            let builder = std::thread::Builder::new().name("commit".to_owned());
            match builder.spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => state.jobs.clear(),
                // Those that run take it.
                Err(_) => {}
            }
        }
        drop(state);
        self.0.news.notify_one();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        // Short requests go before those who wait for a disk.
        self.shared.give_way();
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // The caller of a job that panics sees that its answer does not come.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.news.wait_timeout(state, IDLE);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use types::limits::STEADY_NICENESS;

    use super::*;
    use crate::background::tests::started;
    use crate::niceness::of_this_thread;

    #[test]
    fn each_thread_gives_way() {
        started();
        let pool = CommitPool::default();
        let (sender, results) = mpsc::channel();
        for _ in 0..4 {
            let sender = sender.clone();
            pool.run(Box::new(move || sender.send(of_this_thread()).unwrap()));
        }
        drop(sender);
        let nicer = (of_this_thread() + STEADY_NICENESS).min(19);
        assert_eq!(results.iter().collect::<Vec<_>>(), [nicer; 4]);
    }
}
