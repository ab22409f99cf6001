//! When a failed file is tried again, and which storages are left alone until they answer.

use serde::{Deserialize, Serialize};

use crate::id::FileId;
use crate::limits::{BREAKER_FAILURES, BREAKER_PAUSE_MAX_MS, BREAKER_PAUSE_MS, RETRY_DELAY_MAX_MS, RETRY_JITTER};

/// The delay before an attempt, in milliseconds: `delay_ms` doubled for each failed attempt after
/// the first, up to [`RETRY_DELAY_MAX_MS`], less a random part of up to a quarter. The part depends
/// only on `seed`, the file and the attempt, so that files that failed together come back apart.
#[must_use]
pub fn retry_delay_ms(delay_ms: i64, failed_attempts: u16, file: FileId, seed: u64) -> i64 {
    let doublings = u32::from(failed_attempts.saturating_sub(1)).min(20);
    let delay_ms = delay_ms.clamp(0, RETRY_DELAY_MAX_MS).saturating_mul(1 << doublings);
    let delay_ms = delay_ms.min(RETRY_DELAY_MAX_MS);
    let number = mix(seed ^ mix(file.0.cast_unsigned()) ^ u64::from(failed_attempts));
    let part = (number >> 11) as f64 / (1_u64 << 53) as f64;
    delay_ms - (delay_ms as f64 * RETRY_JITTER * part) as i64
}

/// Spreads the bits of a number evenly (the finaliser of SplitMix64, in the public domain).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Stops attempts at a storage that is down, but for a probe from time to time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitBreaker {
    failures: u32,
    pause_ms: i64,
    state: BreakerState,
}

/// The state of a [`CircuitBreaker`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum BreakerState {
    /// The storage is used.
    #[default]
    Closed,
    /// It is not used.
    Open {
        /// Until then, in milliseconds since 1970.
        until_ms: i64,
    },
    /// One file is tried.
    HalfOpen {
        /// Without an answer until then another one is tried, in milliseconds since 1970.
        until_ms: i64,
    },
}

impl CircuitBreaker {
    /// Its state.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Whether a copy may use the storage now. If it was down, that copy is the probe: others wait
    /// until it has ended, or for the last pause again if its end stays unknown.
    pub fn admit(&mut self, now_ms: i64) -> bool {
        match self.state {
            BreakerState::Closed => true,
            BreakerState::Open { until_ms } | BreakerState::HalfOpen { until_ms } if now_ms < until_ms => false,
            _ => {
                let until_ms = now_ms.saturating_add(self.pause_ms);
                self.state = BreakerState::HalfOpen { until_ms };
                true
            }
        }
    }

    /// The storage answered, even if it refused a file.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// The storage could not be reached. It counts as down after [`BREAKER_FAILURES`] in
    /// succession; each failed probe doubles the pause.
    pub fn failed(&mut self, now_ms: i64) {
        self.failures = self.failures.saturating_add(1);
        match self.state {
            BreakerState::Closed if self.failures >= BREAKER_FAILURES => self.pause_ms = BREAKER_PAUSE_MS,
            BreakerState::HalfOpen { .. } => self.pause_ms = (self.pause_ms * 2).min(BREAKER_PAUSE_MAX_MS),
            // A copy that began before it was down.
            BreakerState::Closed | BreakerState::Open { .. } => return,
        }
        let until_ms = now_ms.saturating_add(self.pause_ms);
        self.state = BreakerState::Open { until_ms };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_files_come_back_apart() {
        let delay = |attempts, file| retry_delay_ms(120_000, attempts, FileId(file), 7);
        for (attempts, most) in [(1, 120_000), (2, 240_000), (3, 480_000), (40, RETRY_DELAY_MAX_MS)] {
            for file in 0..200 {
                assert!((most * 3 / 4..=most).contains(&delay(attempts, file)));
            }
        }
        let mut delays: Vec<i64> = (0..200).map(|file| delay(1, file)).collect();
        assert_eq!(delays[3], delay(1, 3), "repeatable");
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 190 && delays[delays.len() - 1] - delays[0] > 25_000);
        assert_eq!(retry_delay_ms(i64::MIN, 0, FileId(-1), 0), 0);
        assert!(retry_delay_ms(i64::MAX, u16::MAX, FileId(1), 0) <= RETRY_DELAY_MAX_MS);
    }

    #[test]
    fn a_storage_that_is_down_is_probed_by_one_copy_at_a_time() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..BREAKER_FAILURES {
            assert!(breaker.admit(0));
            breaker.failed(0);
        }
        assert!(!breaker.admit(BREAKER_PAUSE_MS - 1));
        breaker.failed(5);
        assert_eq!(
            breaker.state(),
            BreakerState::Open {
                until_ms: BREAKER_PAUSE_MS
            },
            "late failures change nothing"
        );
        assert!(breaker.admit(BREAKER_PAUSE_MS));
        assert!(!breaker.admit(BREAKER_PAUSE_MS + 1), "one probe at a time");
        breaker.failed(BREAKER_PAUSE_MS + 2);
        assert!(!breaker.admit(3 * BREAKER_PAUSE_MS + 1), "twice the pause");
        assert!(breaker.admit(3 * BREAKER_PAUSE_MS + 2));
        assert!(breaker.admit(5 * BREAKER_PAUSE_MS + 2), "a lost probe is repeated");
        breaker.answered();
        assert!(breaker.admit(5 * BREAKER_PAUSE_MS + 3) && breaker.state() == BreakerState::Closed);
    }

    #[test]
    fn pauses_have_a_limit() {
        let mut breaker = CircuitBreaker::default();
        let mut now_ms = 0;
        for _ in 0..40 {
            breaker.failed(now_ms);
            if let BreakerState::Open { until_ms } = breaker.state() {
                assert!(until_ms - now_ms <= BREAKER_PAUSE_MAX_MS);
                now_ms = until_ms;
                assert!(breaker.admit(now_ms));
            }
        }
        assert!(now_ms > 20 * BREAKER_PAUSE_MS);
    }
}
