//! Ends copies that take too long, or move too little.
//!
//! The size that a source names gives its copy time, and a server may report a byte now and then:
//! neither may hold a slot without end.

use std::future::{Future, pending};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use transfer::Progress;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::Attempt;
use crate::limits::{COPY_RATE_LOOKS, COPY_TIME_BASE, COPY_TIME_PER_MIB};
use crate::service::{CopyLimits, LeastRate};

impl Attempt<'_> {
    /// The result of a copy that keeps its time limit and the least rate.
    ///
    /// # Errors
    /// Why it was ended.
    pub(super) async fn in_bounds<T>(&self, limit: Duration, copying: impl Future<Output = T>) -> Result<T> {
        // The time that the job gives is kept, whatever holds the copy up.
        let paced = self.claimed.job.options.timeout_s.is_none().then_some(self.progress);
        let words = tokio::select! {
            copied = within(limit, paced, copying) => match copied {
                Some(copied) => return Ok(copied),
                None => format!("the copy took longer than {} s", limit.as_secs()),
            },
            words = below_rate(self.roles.limits.bounds.least_rate, self.progress) => words,
        };
        let error = Error::new(ErrorCode::PeerStalled, Side::Active, self.progress.phase());
        Err(error.with_detail(words).with_subject(&self.destination.location))
    }
}

/// The time in which a copy of this size must end: what the job says, else the settings of its
/// virtual organisation, else by the size; but no longer than any copy may take.
pub(crate) fn time_limit(timeout_s: Option<u32>, size_bytes: Option<u64>, limits: &CopyLimits) -> Duration {
    let by_size = || {
        let mib = size_bytes.unwrap_or(0).div_ceil(1024 * 1024);
        let per_mib = limits.time_per_mib.unwrap_or(COPY_TIME_PER_MIB);
        COPY_TIME_BASE.saturating_add(per_mib.saturating_mul(u32::try_from(mib).unwrap_or(u32::MAX)))
    };
    let limit = match timeout_s.filter(|seconds| *seconds > 0) {
        Some(seconds) => Duration::from_secs(seconds.into()),
        None => limits.time.unwrap_or_else(by_size),
    };
    limits.bounds.time_max.map_or(limit, |longest| limit.min(longest))
}

/// The result of a copy in time, or `None`. Time for which it waited for our own rate limits is
/// added, if `paced` counts it.
async fn within<T>(limit: Duration, paced: Option<&Progress>, copying: impl Future<Output = T>) -> Option<T> {
    let mut copying = std::pin::pin!(copying);
    let (mut rest, mut added) = (limit, Duration::ZERO);
    loop {
        if let Ok(copied) = timeout(rest, &mut copying).await {
            return Some(copied);
        }
        let waited = paced.map(Progress::paced).unwrap_or_default();
        rest = waited.saturating_sub(added);
        if rest.is_zero() {
            return None;
        }
        added = waited;
    }
}

/// How far a copy was at a moment.
struct Sample {
    at: Instant,
    moved_bytes: u64,
    paced: Duration,
    /// When the copy began that moves the data; another way begins anew.
    begun: Option<std::time::Instant>,
    /// Whether data are moved. With all bytes there, servers compute checksums.
    is_moving: bool,
}

impl Sample {
    fn of(progress: &Progress) -> Self {
        let moved_bytes = progress.moved_bytes();
        let is_whole = progress.total_bytes().is_some_and(|total| moved_bytes >= total);
        Self {
            at: Instant::now(),
            moved_bytes,
            paced: progress.paced(),
            begun: progress.begun(),
            is_moving: progress.phase() == Phase::Transfer && !is_whole,
        }
    }

    /// Time in which data could be moved since an earlier sample: without the wait for our own rate
    /// limits.
    fn time_since(&self, earlier: &Self) -> Duration {
        let waited = self.paced.saturating_sub(earlier.paced);
        self.at.duration_since(earlier.at).saturating_sub(waited)
    }
}

/// Returns once a copy has moved too little in a whole window, with words for that.
async fn below_rate(least: Option<LeastRate>, progress: &Progress) -> String {
    let Some(least) = least else { return pending().await };
    let mut from = Sample::of(progress);
    loop {
        sleep(least.window / COPY_RATE_LOOKS).await;
        let now = Sample::of(progress);
        let is_same = from.is_moving && now.is_moving && now.begun == from.begun;
        if is_same && now.time_since(&from) < least.window {
            continue;
        }
        let moved_bytes = now.moved_bytes.saturating_sub(from.moved_bytes);
        if is_same && moved_bytes < least.window_bytes() {
            let (bytes_s, seconds) = (least.bytes_s, least.window.as_secs());
            return format!(
                "the copy moved {moved_bytes} bytes in {seconds} s, less than {bytes_s} a second \
                 (queue.copy_rate_minimum)"
            );
        }
        from = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::CopyBounds;

    const LEAST: LeastRate = LeastRate {
        bytes_s: 10,
        window: Duration::from_secs(100),
    };

    /// A copy that moves so many bytes each second, for some seconds.
    async fn moving(progress: &Progress, phase: Phase, bytes_s: u64, seconds: u64) {
        progress.enter(phase);
        for _ in 0..seconds {
            sleep(Duration::from_secs(1)).await;
            progress.add_moved(bytes_s);
        }
    }

    /// The words of the end of a copy that is too slow; `None`: it was not ended.
    async fn ended(progress: &Progress, copying: impl Future<Output = ()>) -> Option<String> {
        tokio::select! {
            () = copying => None,
            words = below_rate(Some(LEAST), progress) => Some(words),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_moves_too_little_is_ended() {
        let began = Instant::now();
        let slow = Progress::new();
        // A server may claim any size.
        slow.set_total(1 << 50);
        let words = ended(&slow, moving(&slow, Phase::Transfer, 9, 10_000)).await;
        let words = words.expect("it is too slow");
        assert!(words.contains("bytes in 100 s, less than 10 a second"), "{words}");
        assert!(began.elapsed() < LEAST.window * 2, "{:?}", began.elapsed());
        let fast = Progress::new();
        assert_eq!(ended(&fast, moving(&fast, Phase::Transfer, 11, 10_000)).await, None);
        // A count that goes back is no progress.
        let back = Progress::new();
        let copying = async {
            moving(&back, Phase::Transfer, 20, 150).await;
            back.set_moved(0);
            moving(&back, Phase::Transfer, 5, 10_000).await;
        };
        assert!(ended(&back, copying).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_time_in_which_data_move_counts() {
        let computing = Progress::new();
        assert_eq!(
            ended(&computing, moving(&computing, Phase::Checksum, 0, 1000)).await,
            None
        );
        let whole = Progress::new();
        whole.set_total(1);
        whole.set_moved(1);
        assert_eq!(ended(&whole, moving(&whole, Phase::Transfer, 0, 1000)).await, None);
        // Our own rate limit holds it up for half of the time.
        let paced = Progress::new();
        let copying = async {
            for _ in 0..500 {
                paced.add_paced(Duration::from_secs(1));
                moving(&paced, Phase::Transfer, 6, 1).await;
                moving(&paced, Phase::Transfer, 6, 1).await;
            }
        };
        assert_eq!(ended(&paced, copying).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_our_own_limit_is_no_time_of_the_copy() {
        let seconds = Duration::from_secs;
        let progress = Progress::new();
        let copy = async || {
            for _ in 0..10 {
                tokio::time::sleep(seconds(1)).await;
                progress.add_paced(seconds(1));
            }
        };
        assert_eq!(within(seconds(2), Some(&progress), copy()).await, Some(()));
        assert_eq!(within(seconds(2), None, copy()).await, None);
        let slow = tokio::time::sleep(seconds(60));
        assert_eq!(within(seconds(2), Some(&Progress::new()), slow).await, None);
    }

    #[test]
    fn the_time_limit_follows_the_size() {
        let none = CopyLimits::default();
        assert_eq!(time_limit(Some(5), Some(1 << 30), &none).as_secs(), 5);
        assert_eq!(time_limit(None, Some(1 << 30), &none).as_secs(), 600 + 2048);
        assert_eq!(time_limit(Some(0), None, &none).as_secs(), 600);
        let slow = CopyLimits {
            time_per_mib: Some(Duration::from_millis(500)),
            ..none
        };
        assert_eq!(time_limit(None, Some(1 << 30), &slow).as_secs(), 600 + 512);
        let fixed = CopyLimits {
            time: Some(Duration::from_secs(90)),
            ..slow
        };
        assert_eq!(time_limit(None, Some(1 << 30), &fixed).as_secs(), 90);
        assert_eq!(time_limit(Some(5), Some(1 << 30), &fixed).as_secs(), 5);
        // Whatever the source claims, and the job allows.
        let bounded = CopyLimits {
            bounds: CopyBounds {
                time_max: Some(Duration::from_secs(1000)),
                ..CopyBounds::default()
            },
            ..none
        };
        assert_eq!(time_limit(None, Some(1 << 50), &bounded).as_secs(), 1000);
        assert_eq!(time_limit(Some(u32::MAX), None, &bounded).as_secs(), 1000);
        assert_eq!(time_limit(Some(5), None, &bounded).as_secs(), 5);
    }
}
