//! Rate limits that several copies share: each batch of payload waits for its turn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::limits::RATE_PAUSE_MAX;
use crate::progress::Progress;

/// A limit in bytes per second for all copies that hold it. Clones are the same limit.
///
/// It is exact over time and saves nothing up: after a pause, copies do not hurry.
#[derive(Clone, Debug)]
pub struct RateLimit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// 0: no limit.
    bytes_s: AtomicU64,
    /// When the next batch may go.
    next: Mutex<Instant>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self::new(None)
    }
}

/// Two limits are equal if they are the same one.
impl PartialEq for RateLimit {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for RateLimit {}

impl RateLimit {
    /// A limit; `None` or 0: there is none for now.
    #[must_use]
    pub fn new(bytes_s: Option<u64>) -> Self {
        Self(Arc::new(Inner {
            bytes_s: AtomicU64::new(bytes_s.unwrap_or_default()),
            next: Mutex::new(Instant::now()),
        }))
    }

    /// Bytes per second; `None`: any number.
    #[must_use]
    pub fn bytes_s(&self) -> Option<u64> {
        Some(self.0.bytes_s.load(Ordering::Relaxed)).filter(|bytes_s| *bytes_s > 0)
    }

    /// Changes it, for copies that run as well.
    pub fn set(&self, bytes_s: Option<u64>) {
        let bytes_s = bytes_s.unwrap_or_default();
        if self.0.bytes_s.swap(bytes_s, Ordering::Relaxed) == bytes_s {
            return;
        }
        *self.0.next.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether no copy holds it.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Waits until these bytes may go. Copies come in the order in which they ask. The time is
    /// noted, so that it does not count as slowness of a peer.
    pub async fn pass(&self, bytes: u64, progress: &Progress) {
        let Some(mut turn) = self.turn(bytes) else { return };
        loop {
            let now = Instant::now();
            let Some(wait) = turn.checked_duration_since(now).filter(|wait| !wait.is_zero()) else {
                return;
            };
            let pause = wait.min(RATE_PAUSE_MAX);
            sleep_until(now + pause).await;
            progress.add_paced(pause);
            // A limit that was raised, or is gone, holds nothing back any longer.
            turn = turn.min(self.next());
        }
    }

    /// When these bytes may go; `None`: at once.
    fn turn(&self, bytes: u64) -> Option<Instant> {
        let bytes_s = self.bytes_s()?;
        let length = Duration::from_secs_f64(bytes as f64 / bytes_s as f64);
        let mut next = self.0.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*next).max(Instant::now());
        *next = turn.checked_add(length).unwrap_or(turn);
        Some(turn)
    }

    fn next(&self) -> Instant {
        *self.0.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    async fn move_all(limit: RateLimit, batches: u64) -> Progress {
        let progress = Progress::new();
        for _ in 0..batches {
            limit.pass(MIB, &progress).await;
            progress.add_moved(MIB);
        }
        progress
    }

    #[tokio::test(start_paused = true)]
    async fn copies_share_a_limit_and_the_time_is_noted() {
        let limit = RateLimit::new(Some(10 * MIB));
        let began = Instant::now();
        let (one, other) = tokio::join!(move_all(limit.clone(), 50), move_all(limit.clone(), 50));
        let took = began.elapsed().as_secs_f64();
        assert!((9.8..=10.1).contains(&took), "100 MiB at 10 MiB/s took {took} s");
        assert!(one.paced() > Duration::from_secs(8) && other.paced() > Duration::from_secs(8));
        assert!(limit.is_unused());
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_goes_lets_running_copies_go() {
        let limit = RateLimit::new(Some(1));
        let copy = tokio::spawn(move_all(limit.clone(), 4));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!copy.is_finished(), "4 MiB at 1 byte/s");
        let began = Instant::now();
        limit.set(None);
        assert_eq!(copy.await.unwrap().moved_bytes(), 4 * MIB);
        assert!(began.elapsed() <= RATE_PAUSE_MAX);
        let free = RateLimit::default();
        let began = Instant::now();
        move_all(free, 1000).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
