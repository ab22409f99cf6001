//! Signs of life: the lease of this worker's files, how far their copies are, and what operators
//! have ordered through other processes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{Advance, Moved, Renewed};
use schedule::{FileEvent, FileId};
use tokio::time::{Instant, timeout};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::faults::Work;
use super::liveness::{Orphans, answer_time};
use super::running::Moving;
use super::{Inner, Service, now_ms};
use crate::limits::RENEWAL_PERIOD;

/// The database does not answer.
pub(super) fn silent() -> Error {
    Error::new(ErrorCode::CatalogUnavailable, Side::Queue, Phase::Queued)
}

/// What one round knows of those before.
#[derive(Default)]
struct Memory {
    /// Progress that the catalog has.
    stored: HashMap<FileId, u64>,
    settings_version: Option<i64>,
    /// Orders to drain that had come before the catalog was asked.
    drain_orders: u64,
    orphans: Orphans,
}

/// Renews the lease, and stops copies whose files are no longer ours. Until the fence they go on
/// without the catalog: their results are written when it answers again.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut memory = Memory::default();
    let time = answer_time(inner.settings.lease);
    loop {
        let renewed = timeout(time, renew(&inner, &mut memory)).await;
        let renewed = renewed.unwrap_or_else(|_| Err(silent()));
        inner.note(Work::Renew, &renewed);
        if let Ok(renewed) = renewed {
            // In bounded time: the next sign of life must not wait for it.
            let _ = timeout(time, obey(&inner, &mut memory, &renewed)).await;
        }
        tokio::time::sleep(RENEWAL_PERIOD).await;
    }
}

async fn renew(inner: &Arc<Inner>, memory: &mut Memory) -> Result<Renewed> {
    memory.drain_orders = inner.drain_orders();
    let moving = inner.running().moving();
    let moved = news(&moving, &memory.stored);
    let began = Instant::now();
    let (worker, now_ms) = (&inner.settings.worker, now_ms());
    let lease_ms = now_ms + inner.settings.lease_ms();
    let renewed = inner.catalog.renew(worker, &moved, now_ms, lease_ms).await?;
    // Others see the lease of this moment or a later one.
    inner.has_signed(began);
    let ours: HashSet<FileId> = renewed.files.iter().copied().collect();
    let mut running = inner.running();
    let lost = moving.iter().filter(|copy| !ours.contains(&copy.file));
    lost.for_each(|copy| running.stop(copy.file));
    memory.stored = moving.iter().map(|copy| (copy.file, copy.moved_bytes)).collect();
    Ok(renewed)
}

/// Progress that the catalog does not have yet.
fn news(moving: &[Moving], stored: &HashMap<FileId, u64>) -> Vec<Moved> {
    let has_moved = |copy: &&Moving| stored.get(&copy.file).copied().unwrap_or(0) != copy.moved_bytes;
    let moved = moving.iter().filter(has_moved).map(|copy| Moved {
        file: copy.file,
        moved_bytes: copy.moved_bytes,
    });
    moved.collect()
}

/// Takes what operators have changed through another process, and gives files back that are not
/// copied here.
async fn obey(inner: &Arc<Inner>, memory: &mut Memory, renewed: &Renewed) -> Result<()> {
    if memory.drain_orders == inner.drain_orders() {
        inner.take_drain(renewed.drains);
    }
    if memory
        .settings_version
        .is_some_and(|known| known != renewed.settings_version)
    {
        Service(inner.clone()).take_settings().await?;
    }
    memory.settings_version = Some(renewed.settings_version);
    inner.outlook().divide_rates(renewed.workers);
    let has = |file| inner.running().has(file);
    let orphans = memory.orphans.found(&renewed.files, has, Instant::now());
    if orphans.is_empty() {
        return Ok(());
    }
    let lost = |file: FileId| Advance {
        worker: Some(inner.settings.worker.clone()),
        ..Advance::new(file, FileEvent::WorkerLost)
    };
    let events = orphans.into_iter().map(lost).collect();
    inner.catalog.advance(events, now_ms()).await?;
    inner.wake.notify_one();
    Ok(())
}
