//! Which refused requests are repeated, and after what pause.

use std::time::Duration;

use s3_wire::Place;
use tokio::time::Instant;
use types::{Error, PeerStatus, Result};

use super::client::Client;
use crate::limits::{RETRY_AFTER_TIME, S3_PAUSE, S3_PAUSE_MAX, S3_TRIES_MAX};
use crate::resource::Resource;

/// The retries of one request. The server has stored nothing of it.
pub(super) struct Patience {
    began: Instant,
    pause: Duration,
    tries: u32,
    has_moved: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            pause: S3_PAUSE,
            tries: 1,
            has_moved: false,
        }
    }
}

impl Patience {
    /// Waits until the request can be repeated. An overloaded server (503, `SlowDown`) is waited
    /// for with growing pauses of random length, so that many clients do not come back together;
    /// one that failed is asked a few times.
    ///
    /// # Errors
    /// The refusal, if no repetition helps.
    pub(super) async fn after(&mut self, client: &Client, file: &Resource, place: &Place, error: Error) -> Result<()> {
        if !self.has_moved && may_be_elsewhere(&error) {
            self.has_moved = true;
            if client.learn_region(file, place).await {
                return Ok(());
            }
        }
        let is_overloaded = matches!(error.peer_status(), Some(PeerStatus::Http(429 | 503)));
        let has_failed = matches!(error.peer_status(), Some(PeerStatus::Http(500 | 502 | 504)));
        let is_over = self.began.elapsed() + self.pause > RETRY_AFTER_TIME;
        let may_repeat = is_overloaded || has_failed && self.tries < S3_TRIES_MAX;
        if file.access.returns_delays || is_over || !may_repeat {
            return Err(error);
        }
        self.tries += 1;
        let pause = error.retry_after().unwrap_or(self.pause.mul_f64(0.5 + fastrand::f64()));
        tokio::time::sleep(pause).await;
        self.pause = (self.pause * 2).min(S3_PAUSE_MAX);
        Ok(())
    }
}

/// Whether the bucket may be in another region: a redirect, or a signature for the wrong one. An
/// answer to HEAD has no words.
fn may_be_elsewhere(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default();
    match error.peer_status() {
        Some(PeerStatus::Http(301 | 302 | 307 | 308)) => true,
        Some(PeerStatus::Http(400)) => {
            let codes = [
                "AuthorizationHeaderMalformed",
                "AuthorizationQueryParametersError",
                "Illegal",
            ];
            words.is_empty() || words == "Bad Request" || codes.iter().any(|code| words.starts_with(code))
        }
        _ => false,
    }
}
