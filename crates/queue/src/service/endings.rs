//! The results of copies, many in one transaction.

use std::sync::Arc;

use catalog::Ending;
use tokio::sync::mpsc::Receiver;

use super::Inner;
use super::faults::Work;
use crate::clock::now_ms;
use crate::limits::{CATALOG_PAUSE, ENDINGS_MAX};

/// Writes results until all copies have ended and the service has stopped. A result is never lost
/// while the process lives: if the catalog fails, it is tried again.
pub(super) async fn run(inner: Arc<Inner>, mut ended: Receiver<Ending>) {
    let mut have_ended = inner.copies_have_ended.subscribe();
    loop {
        let mut batch = Vec::new();
        let count = tokio::select! {
            biased;
            count = ended.recv_many(&mut batch, ENDINGS_MAX) => count,
            _ = have_ended.wait_for(|have_ended| *have_ended) => return,
        };
        if count == 0 {
            return;
        }
        loop {
            let written = inner.catalog.end(&inner.settings.worker, batch.clone(), now_ms()).await;
            inner.note(Work::Results, &written);
            if written.is_ok() {
                break;
            }
            tokio::time::sleep(CATALOG_PAUSE).await;
        }
        inner.running().written(batch.iter().map(|ending| ending.file));
        inner.totals().count(&batch);
        inner.wake.notify_one();
    }
}
