//! The least pace of a transfer. The connection notices a stall, but a peer that sends a byte now
//! and then never stalls and would hold its slot forever.

use std::future::Future;

use crate::limits::{PACE_BYTES_MIN, PACE_WINDOW};
use tokio::time::sleep;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::progress::Progress;

/// Runs the data phase of a transfer, and aborts it if fewer than [`PACE_BYTES_MIN`] move within
/// [`PACE_WINDOW`]. Time in other phases does not count.
///
/// # Errors
/// Those of `moving`, and `peer_stalled` at `side`.
pub(crate) fn keep_pace<'a, T>(
    progress: &'a Progress,
    side: Side,
    moving: impl Future<Output = Result<T>> + Send + 'a,
) -> impl Future<Output = Result<T>> + Send + 'a
where
    T: 'a,
{
    // Unboxed, the future would take its memory twice: as argument and where it is polled.
    let moving = Box::pin(moving);
    async move {
        tokio::select! {
            biased;
            done = moving => done,
            slow = fallen_behind(progress, side) => Err(slow),
        }
    }
}

/// Returns after a window that was too slow.
async fn fallen_behind(progress: &Progress, side: Side) -> Error {
    loop {
        let (phase, before, paced) = (progress.phase(), progress.moved_bytes(), progress.paced());
        sleep(PACE_WINDOW).await;
        // A transfer that starts over counts from 0 again, which is not slowness.
        let Some(moved) = progress.moved_bytes().checked_sub(before) else {
            continue;
        };
        // It was ourselves who slowed it.
        if progress.paced().saturating_sub(paced) > PACE_WINDOW / 2 {
            continue;
        }
        if phase == Phase::Transfer && progress.phase() == Phase::Transfer && moved < PACE_BYTES_MIN {
            let error = Error::new(ErrorCode::PeerStalled, side, Phase::Transfer);
            return error.with_detail(format!(
                "only {moved} bytes moved in {} seconds, at least {PACE_BYTES_MIN} are required",
                PACE_WINDOW.as_secs()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn drip(progress: &Progress, bytes: u64, times: u64) -> Result<u64> {
        for _ in 0..times {
            sleep(Duration::from_secs(1)).await;
            progress.add_moved(bytes);
        }
        Ok(times)
    }

    #[tokio::test(start_paused = true)]
    async fn a_dripping_peer_is_aborted_and_a_slow_one_is_not() {
        let window = PACE_WINDOW.as_secs();
        let progress = Progress::new();
        progress.enter(Phase::Transfer);
        let enough = PACE_BYTES_MIN / window + 1;
        let done = keep_pace(&progress, Side::Source, drip(&progress, enough, 10 * window)).await;
        assert_eq!(done.unwrap(), 10 * window);
        let began = tokio::time::Instant::now();
        let error = keep_pace(&progress, Side::Source, drip(&progress, 1, 10 * window))
            .await
            .unwrap_err();
        assert_eq!((error.code(), error.side()), (ErrorCode::PeerStalled, Side::Source));
        assert_eq!(began.elapsed(), PACE_WINDOW);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_that_waits_for_our_own_limit_is_not_slow() {
        let progress = Progress::new();
        progress.enter(Phase::Transfer);
        let limit = crate::RateLimit::new(Some(1000));
        let held = async {
            for _ in 0..40 {
                limit.pass(20_000, &progress).await;
                progress.add_moved(20_000);
            }
            Ok(())
        };
        keep_pace(&progress, Side::Source, held).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_checksum_or_a_commit_is_not_slowness() {
        let progress = Progress::new();
        progress.enter(Phase::Commit);
        let wait = async {
            sleep(20 * PACE_WINDOW).await;
            Ok(())
        };
        keep_pace(&progress, Side::Destination, wait).await.unwrap();
    }
}
