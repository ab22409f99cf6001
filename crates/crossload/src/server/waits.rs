//! How long requests waited lately, without a lock: two windows of counters, of which the older one
//! is emptied when it is its turn again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Length of a window. The current one and the one before count.
const WINDOW_S: u64 = 5;
/// Counters for each doubling of the time.
const STEPS: u64 = 4;
/// Counters of a window: up to more than an hour.
const BUCKETS: usize = 130;

/// Waiting times of the last seconds.
#[derive(Debug)]
pub(crate) struct Waits {
    began: Instant,
    windows: [Window; 2],
}

#[derive(Debug)]
struct Window {
    /// Which window of the process this is, counted from 1; 0: not used yet.
    number: AtomicU64,
    counts: [AtomicU32; BUCKETS],
}

impl Default for Window {
    fn default() -> Self {
        Self {
            number: AtomicU64::new(0),
            counts: [const { AtomicU32::new(0) }; BUCKETS],
        }
    }
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            windows: Default::default(),
        }
    }
}

impl Waits {
    /// Counts a request that waited for so long.
    pub(crate) fn note(&self, wait_us: u64) {
        self.note_in(self.window_now(), wait_us);
    }

    /// The time below which 9 of 10 requests of the last 5 to 10 seconds waited; exact to a
    /// quarter. Zero if there were none.
    pub(crate) fn ninth_decile(&self) -> Duration {
        self.ninth_decile_in(self.window_now())
    }

    fn window_now(&self) -> u64 {
        self.began.elapsed().as_secs() / WINDOW_S + 1
    }

    fn note_in(&self, now: u64, wait_us: u64) {
        let window = &self.windows[(now % 2) as usize];
        let held = window.number.load(Ordering::Relaxed);
        // One of the requests that notice it empties the window; the count of another
        // can be lost.
        let is_old = held != now;
        if is_old
            && window
                .number
                .compare_exchange(held, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            window.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        window.counts[bucket_of(wait_us)].fetch_add(1, Ordering::Relaxed);
    }

    fn ninth_decile_in(&self, now: u64) -> Duration {
        let is_recent = |window: &&Window| {
            let number = window.number.load(Ordering::Relaxed);
            number != 0 && number + 1 >= now
        };
        let mut sums = [0_u64; BUCKETS];
        for window in self.windows.iter().filter(is_recent) {
            for (sum, count) in sums.iter_mut().zip(&window.counts) {
                *sum += u64::from(count.load(Ordering::Relaxed));
            }
        }
        let all: u64 = sums.iter().sum();
        let mut below = 0;
        for (bucket, count) in sums.iter().enumerate() {
            below += count;
            if below > 0 && below * 10 >= all * 9 {
                return Duration::from_micros(upper_bound_us(bucket));
            }
        }
        Duration::ZERO
    }
}

/// The counter for a time: linear up to [`STEPS`], then [`STEPS`] for each doubling.
fn bucket_of(wait_us: u64) -> usize {
    if wait_us < STEPS {
        return wait_us as usize;
    }
    let doublings = u64::from(wait_us.ilog2()) - u64::from(STEPS.ilog2());
    let step = (wait_us >> doublings) - STEPS;
    usize::try_from((doublings + 1) * STEPS + step).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// The longest time that a counter stands for.
fn upper_bound_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (doublings, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_counted_within_a_quarter() {
        for wait_us in [0, 1, 3, 4, 5, 7, 8, 100, 999, 1_000, 65_536, 1_000_000, 3_600_000_000] {
            let bound = upper_bound_us(bucket_of(wait_us));
            assert!(
                bound >= wait_us && bound <= wait_us + wait_us / STEPS,
                "{wait_us}: {bound}"
            );
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(upper_bound_us(bucket)), bucket);
        }
    }

    #[test]
    fn one_slow_request_of_twenty_does_not_count_and_three_do() {
        let waits = Waits::default();
        assert_eq!(waits.ninth_decile_in(1), Duration::ZERO);
        (0..19).for_each(|_| waits.note_in(1, 100));
        waits.note_in(1, 500_000);
        let quick = waits.ninth_decile_in(1);
        assert!(quick < Duration::from_micros(130), "{quick:?}");
        (0..2).for_each(|_| waits.note_in(1, 500_000));
        assert!(waits.ninth_decile_in(1) >= Duration::from_millis(500));
    }

    #[test]
    fn what_was_two_windows_ago_is_forgotten() {
        let waits = Waits::default();
        waits.note_in(1, 500_000);
        assert!(waits.ninth_decile_in(2) >= Duration::from_millis(500));
        assert_eq!(waits.ninth_decile_in(3), Duration::ZERO);
        waits.note_in(3, 1);
        assert_eq!(waits.ninth_decile_in(3), Duration::from_micros(1));
        assert_eq!(waits.ninth_decile_in(4), Duration::from_micros(1));
    }
}
