//! Pauses between attempts to reach a manager.

use std::time::Duration;

use super::limits::{PAUSE_MAX, PAUSE_MIN};

/// Doubles from attempt to attempt.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    attempts: u32,
}

impl Pauses {
    /// The next pause. `draw` (0 to 1) shifts it by up to a quarter either way, so that the servers
    /// of a cluster do not return to a restarted manager at the same moment.
    pub(super) fn next(&mut self, draw: f64) -> Duration {
        let whole = PAUSE_MIN.saturating_mul(1 << self.attempts.min(16)).min(PAUSE_MAX);
        self.attempts = self.attempts.saturating_add(1);
        spread(whole, draw)
    }

    /// Begins again with the first.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// The pause, shifted by up to a quarter either way.
pub(super) fn spread(whole: Duration, draw: f64) -> Duration {
    whole.mul_f64(0.75 + draw.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit_and_begin_again() {
        let mut pauses = Pauses::default();
        let given: Vec<Duration> = (0..100).map(|_| pauses.next(0.5)).collect();
        assert_eq!(given[..3], [PAUSE_MIN, PAUSE_MIN * 2, PAUSE_MIN * 4]);
        assert_eq!(given[99], PAUSE_MAX);
        pauses.reset();
        assert_eq!(pauses.next(0.0), PAUSE_MIN.mul_f64(0.75));
        assert_eq!(pauses.next(1.0), (PAUSE_MIN * 2).mul_f64(1.25));
    }
}
