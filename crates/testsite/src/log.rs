//! A log that keeps all records, and waits for those to come.

use std::sync::{Mutex, MutexGuard, PoisonError};

use endpoint::{RequestLog, RequestRecord, TransferRecord};
use tokio::sync::Notify;
use transfer::{Events, TransferEvents};

use crate::soon;

/// Keeps all records.
#[derive(Debug, Default)]
pub struct Log {
    requests: Mutex<Vec<RequestRecord>>,
    transfers: Mutex<Vec<TransferRecord>>,
    news: Notify,
}

impl Events for Log {}

impl RequestLog for Log {
    fn request(&self, record: &RequestRecord) {
        lock(&self.requests).push(record.clone());
        self.news.notify_waiters();
    }
}

impl TransferEvents for Log {
    fn transfer(&self, record: &TransferRecord) {
        lock(&self.transfers).push(record.clone());
        self.news.notify_waiters();
    }
}

impl Log {
    /// All requests so far.
    #[must_use]
    pub fn all(&self) -> Vec<RequestRecord> {
        lock(&self.requests).clone()
    }

    /// The first request of this method, after its end.
    pub async fn request(&self, method: &str) -> RequestRecord {
        self.first(|record| record.method == method).await
    }

    /// The first request of this method about this path, after its end.
    pub async fn named(&self, method: &str, path: &str) -> RequestRecord {
        self.first(|record| record.method == method && record.path == path)
            .await
    }

    /// The first transfer, after its end.
    pub async fn transfer(&self) -> TransferRecord {
        self.wait(|| lock(&self.transfers).first().cloned()).await
    }

    /// The first request that is wanted, after its end.
    pub async fn first(&self, is_wanted: impl Fn(&RequestRecord) -> bool) -> RequestRecord {
        let find = || lock(&self.requests).iter().find(|record| is_wanted(record)).cloned();
        self.wait(find).await
    }

    async fn wait<T>(&self, find: impl Fn() -> Option<T>) -> T {
        soon(async {
            loop {
                let news = self.news.notified();
                if let Some(found) = find() {
                    return found;
                }
                news.await;
            }
        })
        .await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
