//! The results of copies, many in one transaction.

use std::sync::Arc;

use catalog::Ending;
use tokio::sync::mpsc::Receiver;

use super::faults::Work;
use super::{Inner, now_ms};
use crate::limits::{CATALOG_PAUSE, ENDINGS_MAX};

/// Writes results until all copies and the service have ended. A result is never lost while the
/// process lives: if the catalog fails, it is tried again.
pub(super) async fn run(inner: Arc<Inner>, mut ended: Receiver<Ending>) {
    let mut stopping = inner.stopping.subscribe();
    loop {
        let mut batch = Vec::new();
        let count = tokio::select! {
            count = ended.recv_many(&mut batch, ENDINGS_MAX) => count,
            _ = stopping.wait_for(|stops| *stops) => return,
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
            if inner.is_stopping() {
                return;
            }
            tokio::time::sleep(CATALOG_PAUSE).await;
        }
        inner.totals().count(&batch);
        inner.wake.notify_one();
    }
}
