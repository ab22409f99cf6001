//! Retries of interrupted transfers.

use std::time::Duration;

use types::{Error, Result};

/// Counts the attempts without progress. The pause between them doubles.
pub(crate) struct Patience {
    attempts_left: u32,
    attempts: u32,
    pause: Duration,
}

impl Patience {
    const FIRST_PAUSE: Duration = Duration::from_millis(200);
    const LONGEST_PAUSE: Duration = Duration::from_secs(10);

    pub(crate) fn new(attempts: u32) -> Self {
        Self {
            attempts_left: attempts.saturating_sub(1),
            attempts,
            pause: Self::FIRST_PAUSE,
        }
    }

    /// Pauses before the next attempt. Returns the error if no attempts are left.
    pub(crate) async fn wait(&mut self, error: Error, progressed: bool) -> Result<()> {
        if progressed {
            *self = Self::new(self.attempts);
            self.attempts_left = self.attempts_left.max(1).min(self.attempts);
        }
        if self.attempts_left == 0 {
            return Err(error);
        }
        self.attempts_left -= 1;
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Self::LONGEST_PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{ErrorCode, Phase, Side};

    #[tokio::test(start_paused = true)]
    async fn attempts_without_progress_are_counted_and_progress_gives_new_ones() {
        let error = || Error::new(ErrorCode::PeerClosed, Side::Source, Phase::Transfer);
        let mut patience = Patience::new(3);
        assert!(patience.wait(error(), false).await.is_ok());
        assert!(patience.wait(error(), false).await.is_ok());
        assert!(patience.wait(error(), true).await.is_ok());
        assert!(patience.wait(error(), false).await.is_ok());
        assert!(patience.wait(error(), false).await.is_err());
    }
}
