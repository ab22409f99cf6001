//! Signs of life: the lease of this worker's files, how far their copies are, and what operators
//! have ordered through other processes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{Advance, Catalog, Moved, Renewed};
use schedule::{FileEvent, FileId};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::faults::Work;
use super::liveness::{Orphans, answer_time};
use super::running::Moving;
use super::{Inner, Service};
use crate::clock::now_ms;
use crate::limits::{LEASES_WHILE_BUSY_MAX, RENEWAL_PERIOD};

/// The database does not answer.
pub(super) fn silent() -> Error {
    Error::new(ErrorCode::CatalogUnavailable, Side::Queue, Phase::Queued)
}

/// What a sign of life has brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Signed {
    renewed: Renewed,
    /// Orders to drain that had come before the catalog was asked.
    drain_orders: u64,
}

/// Renews the lease, and stops copies whose files are no longer ours. Until the fence they go on
/// without the catalog: their results are written when it answers again.
pub(super) async fn run(inner: &Inner, catalog: &Catalog, signs: &watch::Sender<Signed>) {
    // Progress that the catalog has.
    let mut stored = HashMap::new();
    let time = answer_time(inner.settings.lease);
    loop {
        let idle = inner.last_turn.borrow().elapsed();
        if idle < inner.settings.lease * LEASES_WHILE_BUSY_MAX {
            let signed = timeout(time, renew(inner, catalog, &mut stored)).await;
            let signed = signed.unwrap_or_else(|_| Err(silent()));
            inner.note(Work::Renew, &signed);
            if let Ok(signed) = signed {
                signs.send_replace(signed);
            }
        }
        tokio::time::sleep(RENEWAL_PERIOD).await;
    }
}

async fn renew(inner: &Inner, catalog: &Catalog, stored: &mut HashMap<FileId, u64>) -> Result<Signed> {
    let drain_orders = inner.drain_orders();
    let moving = inner.running().moving();
    let moved = news(&moving, stored);
    let began = Instant::now();
    let (worker, now_ms) = (&inner.settings.worker, now_ms());
    let lease_ms = now_ms + inner.settings.lease_ms();
    let renewed = catalog.renew(worker, &moved, now_ms, lease_ms).await?;
    // Others see the lease of this moment or a later one.
    inner.has_signed(began);
    let ours: HashSet<FileId> = renewed.files.iter().copied().collect();
    let mut running = inner.running();
    let lost = moving.iter().filter(|copy| !ours.contains(&copy.file));
    lost.for_each(|copy| running.stop(copy.file));
    *stored = moving.iter().map(|copy| (copy.file, copy.moved_bytes)).collect();
    Ok(Signed { renewed, drain_orders })
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

/// What is known of earlier signs of life.
#[derive(Default)]
struct Memory {
    settings_version: Option<i64>,
    orphans: Orphans,
}

/// Does on the service's own threads what the signs of life say.
pub(super) async fn obey_all(inner: Arc<Inner>, mut signs: watch::Receiver<Signed>) {
    let mut memory = Memory::default();
    let time = answer_time(inner.settings.lease);
    loop {
        let signed = timeout(RENEWAL_PERIOD, signs.changed()).await;
        inner.last_turn.send_replace(Instant::now());
        match signed {
            Ok(Ok(())) => {
                let signed = signs.borrow_and_update().clone();
                // The next sign says again what the catalog could not do now.
                let _ = timeout(time, obey(&inner, &mut memory, &signed)).await;
            }
            Ok(Err(_)) => return,
            Err(_) => {}
        }
    }
}

/// Takes what operators have changed through another process, and gives files back that are not
/// copied here.
async fn obey(inner: &Arc<Inner>, memory: &mut Memory, signed: &Signed) -> Result<()> {
    let renewed = &signed.renewed;
    if signed.drain_orders == inner.drain_orders() {
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
