//! Where a blocking call runs.
//!
//! A cached operation takes microseconds; handing it to another thread and back costs more than
//! itself, so it runs where the task is. But a slow disk must not hold the runtime's few workers,
//! on which all other connections wait. A lane therefore measures: slow calls send the following
//! ones to the blocking pool for a while, longer each time the disk stays slow.
//!
//! A call may also be slow because its thread lost the processor, which on a busy machine happens
//! all the time and would not be better in the pool. The kernel tells the two apart, but asking it
//! costs as much as a small call. So the first slow call only makes the lane look closer at the
//! next ones.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::commit_gauge::CommitGauge;
use crate::commit_pool::CommitPool;
use crate::threads::blocking;

/// A call that takes longer does not belong on a worker.
const SLOW: Duration = Duration::from_millis(2);
/// Calls that are looked at more closely behind a slow one.
const CLOSE_LOOKS: u32 = 16;
/// Fast calls that the pool must see before calls come back, after the first slow one.
const DETOUR_CALLS: u32 = 16;
/// The longest such row.
const DETOUR_CALLS_MAX: u32 = 1024;

/// Decides for one store (or one file) where its calls run. Clones share what was measured.
#[derive(Clone, Default)]
pub struct Lane {
    gauge: Arc<Gauge>,
    commit_gauge: Arc<CommitGauge>,
    commit_pool: CommitPool,
}

#[derive(Default)]
struct Gauge {
    /// Fast calls still to be seen in the pool; 0: calls run on the task.
    detour_left: AtomicU32,
    /// Length of the latest detour.
    detour_length: AtomicU32,
    /// Calls that are still to be looked at more closely.
    close_looks_left: AtomicU32,
    /// Calls seen so far that waited long.
    slow_calls: AtomicU64,
}

/// What is known of a slow call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Not checked.
    Unknown,
    /// It waited for something, such as a disk.
    Waited,
    /// It only lost the processor.
    Displaced,
}

impl Gauge {
    fn note(&self, took: Duration, cause: Cause) {
        match (took > SLOW, cause) {
            (true, Cause::Unknown) => self.close_looks_left.store(CLOSE_LOOKS, Ordering::Relaxed),
            (true, Cause::Waited) => self.note_slow(),
            (true, Cause::Displaced) => {}
            (false, _) => self.note_fast(),
        }
    }

    fn note_slow(&self) {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        let length = self.detour_length.load(Ordering::Relaxed);
        let longer = length.saturating_mul(2).clamp(DETOUR_CALLS, DETOUR_CALLS_MAX);
        self.detour_length.store(longer, Ordering::Relaxed);
        self.detour_left.store(longer, Ordering::Relaxed);
        // The first calls that come back are looked at as well.
        self.close_looks_left.store(CLOSE_LOOKS, Ordering::Relaxed);
    }

    fn note_fast(&self) {
        let left = self.detour_left.load(Ordering::Relaxed);
        if left > 0 {
            self.detour_left.store(left - 1, Ordering::Relaxed);
            return;
        }
        let looks = self.close_looks_left.load(Ordering::Relaxed);
        if looks > 0 {
            self.close_looks_left.store(looks - 1, Ordering::Relaxed);
        }
        if self.detour_length.load(Ordering::Relaxed) > 0 {
            // Fast on the task itself: forgiven a step at a time.
            self.detour_length
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |length| Some(length / 2))
                .ok();
        }
    }

    fn measured<T>(&self, call: impl FnOnce() -> T) -> T {
        let looks_closely = self.close_looks_left.load(Ordering::Relaxed) > 0;
        let waits_before = looks_closely.then(waits_of_this_thread).flatten();
        let started = Instant::now();
        let result = call();
        let took = started.elapsed();
        let cause = match (waits_before, took > SLOW) {
            (Some(before), true) if waits_of_this_thread() == Some(before) => Cause::Displaced,
            (Some(_), _) => Cause::Waited,
            (None, _) => Cause::Unknown,
        };
        self.note(took, cause);
        result
    }
}

/// How often this thread has given up the processor by itself, to wait for something.
pub(crate) fn waits_of_this_thread() -> Option<i64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    Some(usage.voluntary_context_switches())
}

/// A call in the queue of the pool, and its caller. Either may take it; dropping one of them drops
/// the call, unless it has begun.
struct Waiting<C>(Arc<Mutex<Option<C>>>);

impl<C> Waiting<C> {
    fn take(&self) -> Option<C> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<C> Drop for Waiting<C> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The call did not end: it panicked, or there was no thread for it.
fn lost() -> Error {
    Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer)
}

impl Lane {
    /// A lane that has seen nothing yet: its calls run on the task.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether calls currently go to the blocking pool.
    #[must_use]
    pub fn is_detoured(&self) -> bool {
        self.gauge.detour_left.load(Ordering::Relaxed) > 0
    }

    /// How many slow calls were seen.
    #[must_use]
    pub fn slow_calls(&self) -> u64 {
        self.gauge.slow_calls.load(Ordering::Relaxed)
    }

    /// Runs a call that is fast when its data are cached.
    ///
    /// # Errors
    /// Those of the call; `internal` when it panicked in the pool.
    pub async fn run<T: Send + 'static>(&self, call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        if self.is_detoured() {
            let gauge = Arc::clone(&self.gauge);
            return self.run_while_wanted(move || gauge.measured(call)).await;
        }
        self.gauge.measured(call)
    }

    /// Runs a call that may wait for the disk, in the pool. If its caller is gone before the call
    /// has begun, it never runs, and what it holds (a buffer, an open file) is given back at once:
    /// a slow disk could otherwise keep all of it for clients that have left.
    ///
    /// # Errors
    /// As [`Lane::run`].
    pub async fn run_while_wanted<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let waiting = Waiting(Arc::new(Mutex::new(Some(call))));
        let begun = Waiting(waiting.0.clone());
        let done = blocking(move || begun.take().map(|call| call())).await;
        match done {
            Ok(Some(result)) => result,
            Ok(None) => Err(lost()),
            Err(failure) => Err(lost().with_private(failure)),
        }
    }

    /// Runs a call that makes a small file durable: here while such calls are quick and come one at
    /// a time, else as [`Lane::run_commit`].
    ///
    /// # Errors
    /// As [`Lane::run`].
    pub async fn run_small_commit<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let commit = self.commit_gauge.begin();
        match commit.runs_here {
            true => commit.measured(call),
            false => self.run_commit(move || commit.measured(call)).await,
        }
    }

    /// Runs a call that makes something durable, on the threads for that: however many such calls
    /// wait for a slow disk, no other call waits for them.
    ///
    /// # Errors
    /// As [`Lane::run`].
    pub async fn run_commit<T: Send + 'static>(&self, call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let (answer, result) = tokio::sync::oneshot::channel();
        self.commit_pool.run(Box::new(move || {
            // Its caller may have gone.
            let _ = answer.send(call());
        }));
        match result.await {
            Ok(result) => result,
            Err(failure) => Err(lost().with_private(failure)),
        }
    }

    /// Runs a call that takes long by its nature, always in the pool.
    ///
    /// # Errors
    /// As [`Lane::run`].
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match blocking(call).await {
            Ok(result) => result,
            Err(failure) => Err(lost().with_private(failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn runs_here(lane: &Lane) -> bool {
        let here = std::thread::current().id();
        lane.run(move || Ok(std::thread::current().id() == here)).await.unwrap()
    }

    #[tokio::test]
    async fn slow_calls_leave_the_task_and_fast_ones_bring_them_back() {
        let lane = Lane::new();
        assert!(runs_here(&lane).await);
        lane.gauge.note(SLOW * 2, Cause::Waited);
        for _ in 0..DETOUR_CALLS {
            assert!(lane.is_detoured());
            // The pool's own hand-over is not part of what is measured; the call itself is fast.
            lane.gauge.note(Duration::ZERO, Cause::Unknown);
        }
        assert!(runs_here(&lane).await);
        lane.gauge.note(SLOW * 2, Cause::Waited);
        assert!(!runs_here(&lane).await);
        assert_eq!(lane.gauge.detour_length.load(Ordering::Relaxed), DETOUR_CALLS);
        lane.gauge.note(SLOW * 2, Cause::Waited);
        assert_eq!(
            lane.gauge.detour_left.load(Ordering::Relaxed),
            DETOUR_CALLS * 2,
            "it stays away longer"
        );
    }

    #[tokio::test]
    async fn the_second_of_two_slow_calls_counts_and_only_if_it_waited() {
        let waits = || std::thread::sleep(SLOW * 2);
        let works = || {
            let started = Instant::now();
            while started.elapsed() < SLOW * 2 {
                std::hint::black_box(0);
            }
        };
        let lane = Lane::new();
        lane.gauge.measured(waits);
        assert!(!lane.is_detoured(), "once may be chance");
        lane.gauge.measured(works);
        assert!(!lane.is_detoured(), "it never waited");
        lane.gauge.measured(waits);
        assert!(lane.is_detoured());
        assert_eq!(lane.slow_calls(), 1);
    }

    #[tokio::test]
    async fn small_commits_come_back_to_the_task_while_they_are_quick() {
        let lane = Lane::new();
        let runs_here = async || {
            let here = std::thread::current().id();
            let commit = lane.run_small_commit(move || Ok(std::thread::current().id() == here));
            commit.await.unwrap()
        };
        assert!(!runs_here().await, "nothing is known of the disk");
        // On a busy machine some may wait for long.
        while !runs_here().await {}
        let slow = || {
            std::thread::sleep(SLOW);
            Ok(())
        };
        lane.run_small_commit(slow).await.unwrap();
        assert!(!runs_here().await);
    }

    #[test]
    fn a_call_that_has_not_begun_ends_with_its_caller() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, stuck) = std::sync::mpsc::channel::<()>();
            let slow = blocking(move || stuck.recv().is_ok());
            let lane = Lane::new();
            lane.gauge.note(SLOW * 2, Cause::Waited);
            let held = Arc::new(());
            for is_detour in [false, true] {
                let kept = held.clone();
                let read = move || -> Result<()> { unreachable!("its caller has gone: {kept:?}") };
                tokio::select! {
                    biased;
                    _ = lane.run_while_wanted(read.clone()), if !is_detour => panic!("there is no thread for it"),
                    _ = lane.run(read), if is_detour => panic!("there is no thread for it"),
                    () = std::future::ready(()) => {}
                }
                assert_eq!(Arc::strong_count(&held), 1, "given back while the disk is stuck");
            }
            release.send(()).unwrap();
            assert!(slow.await.unwrap());
            assert_eq!(lane.run_while_wanted(|| Ok(1)).await.unwrap(), 1);
        });
    }

    #[tokio::test]
    async fn a_panic_in_the_pool_is_an_error() {
        let failed = Lane::new()
            .run_blocking(|| -> Result<()> { panic!("on purpose") })
            .await;
        assert_eq!(failed.unwrap_err().code(), ErrorCode::Internal);
    }
}
