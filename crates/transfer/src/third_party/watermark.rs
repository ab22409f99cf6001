//! Notices a copy whose count of bytes no longer rises. A server may report the same count forever,
//! or begin again and again.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// The highest count so far, and when it was reached.
pub(super) struct Watermark {
    stall: Option<Duration>,
    total_bytes: Option<u64>,
    highest_bytes: u64,
    since: Instant,
}

impl Watermark {
    /// The watermark of a copy that has just begun.
    pub(super) fn new(stall: Option<Duration>, total_bytes: Option<u64>) -> Self {
        Self {
            stall,
            total_bytes,
            highest_bytes: 0,
            since: Instant::now(),
        }
    }

    /// Notes a count. A lower one, of a copy that began again, is no progress.
    pub(super) fn pass(&mut self, bytes: u64) {
        if bytes > self.highest_bytes {
            (self.highest_bytes, self.since) = (bytes, Instant::now());
        }
    }

    /// The result of `news`; `None` if the count has not risen for too long. With all bytes there,
    /// the server may still compute a checksum or commit, for which this knows no limit.
    pub(super) async fn within<T>(&self, news: impl Future<Output = T>) -> Option<T> {
        let is_whole = self.total_bytes.is_some_and(|total| self.highest_bytes >= total);
        match self.stall.filter(|_| !is_whole) {
            Some(stall) if self.since.elapsed() >= stall => None,
            Some(stall) => timeout_at(self.since + stall, news).await.ok(),
            None => Some(news.await),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const STALL: Duration = Duration::from_secs(10);

    async fn after(seconds: u64) -> bool {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        true
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_new_highest_count_is_progress() {
        let mut mark = Watermark::new(Some(STALL), Some(100));
        mark.pass(50);
        assert_eq!(mark.within(after(6)).await, Some(true));
        mark.pass(20);
        mark.pass(50);
        assert_eq!(mark.within(after(6)).await, None, "it began again and got no further");
        assert_eq!(mark.within(ready(())).await, None);
        mark.pass(51);
        assert_eq!(mark.within(after(9)).await, Some(true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_file_may_take_its_time() {
        let mut mark = Watermark::new(Some(STALL), Some(100));
        mark.pass(100);
        assert_eq!(mark.within(after(600)).await, Some(true));
        let unlimited = Watermark::new(None, None);
        assert_eq!(unlimited.within(after(600)).await, Some(true));
        let mark = Watermark::new(Some(STALL), None);
        assert_eq!(mark.within(pending::<()>()).await, None);
    }
}
