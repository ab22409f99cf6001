//! How long and how slowly a copy may run, whatever its job and its storages say.

use std::time::Duration;

/// The least that a copy has to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastRate {
    /// Mean bytes per second over each window.
    pub bytes_s: u64,
    /// Length of a window.
    pub window: Duration,
}

impl LeastRate {
    /// Bytes of one window.
    pub(crate) fn window_bytes(self) -> u64 {
        self.bytes_s.saturating_mul(self.window.as_secs())
    }
}

/// What holds for every copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyBounds {
    /// The longest time of a copy, also if its job or the size of its source allow more.
    pub time_max: Option<Duration>,
    /// A copy that moves less is ended.
    pub least_rate: Option<LeastRate>,
}
