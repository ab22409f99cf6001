//! Keeps capabilities beyond the life of a process, and learns what others have learned.

use std::sync::Arc;

use catalog::{CapabilityRecord, Catalog};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use types::Result;

use super::{Capabilities, Capability, Cell, Known};
use crate::clock::{milliseconds, now_ms};
use crate::limits::{
    CAPABILITIES_FORGET_PERIOD, CAPABILITIES_KEPT, CAPABILITIES_OVERLAP, CAPABILITIES_PERIOD, CAPABILITIES_READ_MAX,
    CAPABILITIES_STORE_PAUSE, CAPABILITIES_STORED_MAX,
};

/// Capabilities that the catalog keeps. When it is dropped, they are not kept any longer.
pub struct KeptCapabilities {
    capabilities: Arc<Capabilities>,
    catalog: Catalog,
    task: JoinHandle<()>,
}

impl KeptCapabilities {
    /// Takes what was stored, and from then on exchanges with the catalog what is learned. What
    /// fails is repeated: no copy depends on it.
    #[must_use]
    pub fn start(capabilities: Arc<Capabilities>, catalog: Catalog) -> Self {
        let task = tokio::spawn(capabilities.clone().keep(catalog.clone()));
        Self {
            capabilities,
            catalog,
            task,
        }
    }

    /// Stores what was learned last.
    pub async fn stop(self) {
        self.task.abort();
        // The next process learns again what could not be stored.
        let _ = self.capabilities.store(&self.catalog).await;
    }
}

impl std::fmt::Debug for KeptCapabilities {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("KeptCapabilities")
    }
}

impl Drop for KeptCapabilities {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Capabilities {
    async fn keep(self: Arc<Self>, catalog: Catalog) {
        let mut since_ms = 0;
        let mut forgets_ms = 0;
        loop {
            let begun_ms = now_ms();
            let oldest_ms = begun_ms.saturating_sub(milliseconds(CAPABILITIES_KEPT));
            if begun_ms >= forgets_ms && self.forget(&catalog, oldest_ms).await.is_ok() {
                forgets_ms = begun_ms.saturating_add(milliseconds(CAPABILITIES_FORGET_PERIOD));
            }
            if self.exchange(&catalog, since_ms.max(oldest_ms)).await.is_ok() {
                // Clocks of workers differ.
                since_ms = begun_ms.saturating_sub(milliseconds(CAPABILITIES_OVERLAP));
            }
            self.store_news(&catalog, Instant::now() + CAPABILITIES_PERIOD).await;
        }
    }

    /// Stores what is learned until a time, at once: a process that is killed loses next to
    /// nothing. What fails is repeated with the next exchange.
    async fn store_news(&self, catalog: &Catalog, until: Instant) {
        while timeout_at(until, self.news.notified()).await.is_ok() {
            let _ = self.store(catalog).await;
            tokio::time::sleep(CAPABILITIES_STORE_PAUSE).await;
        }
    }

    /// Forgets what nothing has shown again since a time, here and in the catalog.
    ///
    /// # Errors
    /// Those of the catalog.
    async fn forget(&self, catalog: &Catalog, before_ms: i64) -> Result<()> {
        self.lock().retain(|_, cells| {
            cells.retain(|_, entry| entry.known.at_ms >= before_ms);
            !cells.is_empty()
        });
        catalog.forget_capabilities(before_ms, CAPABILITIES_STORED_MAX).await
    }

    /// Stores what is new here, and takes what is new there.
    ///
    /// # Errors
    /// Those of the catalog: what is new here stays so.
    async fn exchange(&self, catalog: &Catalog, since_ms: i64) -> Result<()> {
        self.store(catalog).await?;
        for record in catalog.capabilities(since_ms, CAPABILITIES_READ_MAX).await? {
            if let Some(one) = capability(&record) {
                self.learn(&record.storage, one);
            }
        }
        Ok(())
    }

    /// Stores what is new here.
    ///
    /// # Errors
    /// Those of the catalog: what is new here stays so.
    async fn store(&self, catalog: &Catalog) -> Result<()> {
        let fresh = self.take_fresh();
        let records = fresh
            .iter()
            .filter_map(|(storage, one)| record(storage, *one))
            .collect();
        let stored = catalog.store_capabilities(records).await;
        if stored.is_err() {
            self.put_back(fresh);
        }
        stored
    }
}

fn record(storage: &str, one: Capability) -> Option<CapabilityRecord> {
    Some(CapabilityRecord {
        storage: storage.to_owned(),
        cell: words(&one.cell)?,
        can: one.known.can,
        evidence: words(&one.known.evidence)?,
        at_ms: one.known.at_ms,
    })
}

/// What a later release has stored in other words is left alone.
fn capability(record: &CapabilityRecord) -> Option<Capability> {
    let cell: Cell = value(&record.cell)?;
    let known = Known {
        can: record.can,
        evidence: value(&record.evidence)?,
        at_ms: record.at_ms,
    };
    Some(Capability { cell, known })
}

fn words(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

fn value<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use transfer::route::Evidence;

    use super::super::{Credential, Operation, Part, Peer};
    use super::*;

    const STORAGE: &str = "https://a:443";

    fn one(can: bool, at_ms: i64) -> Capability {
        Capability {
            cell: Cell {
                operation: Operation::Write,
                part: Part::Active,
                peer: Peer::Http,
                credential: Credential::Macaroon,
            },
            known: Known {
                can,
                evidence: Evidence::Attempt,
                at_ms,
            },
        }
    }

    #[tokio::test]
    async fn what_is_learned_is_stored_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        let (other, known) = (Capabilities::default(), Arc::<Capabilities>::default());
        other.note("https://other:443", one(true, now_ms()).cell, one(true, now_ms()).known);
        other.store(&catalog).await.unwrap();
        let kept = KeptCapabilities::start(known.clone(), catalog.clone());
        let pause = || tokio::time::sleep(std::time::Duration::from_millis(2));
        // After this exchange the next one is far.
        while known.of("https://other:443").is_empty() {
            pause().await;
        }
        for can in [true, false] {
            let (begun, learned) = (Instant::now(), one(can, now_ms()));
            known.note(STORAGE, learned.cell, learned.known);
            let is_stored = |stored: &CapabilityRecord| stored.storage == STORAGE && stored.can == can;
            while !catalog.capabilities(0, 9).await.unwrap().iter().any(is_stored) {
                pause().await;
            }
            assert!(begun.elapsed() < CAPABILITIES_PERIOD / 4, "{:?}", begun.elapsed());
        }
        drop(kept);
    }

    #[tokio::test]
    async fn what_one_process_learns_another_knows_and_the_latest_counts() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        let (first, second) = (Capabilities::default(), Capabilities::default());
        let note = |all: &Capabilities, one: Capability| all.note(STORAGE, one.cell, one.known);
        note(&first, one(false, 5));
        first.exchange(&catalog, 0).await.unwrap();
        second.exchange(&catalog, 0).await.unwrap();
        assert_eq!(second.of(STORAGE), [one(false, 5)]);
        note(&second, one(true, 9));
        second.exchange(&catalog, 0).await.unwrap();
        // An older finding changes nothing.
        note(&first, one(false, 6));
        first.exchange(&catalog, 0).await.unwrap();
        assert_eq!(first.of(STORAGE), [one(true, 9)]);
        let restarted = Capabilities::default();
        restarted.exchange(&catalog, 0).await.unwrap();
        assert_eq!(restarted.of(STORAGE), [one(true, 9)]);
        // What was read is not written again, nor what says the same a moment later.
        assert!(restarted.take_fresh().is_empty());
        note(&restarted, one(true, 10));
        assert!(restarted.take_fresh().is_empty());
        note(&restarted, one(false, 11));
        assert_eq!(restarted.take_fresh(), [(STORAGE.to_owned(), one(false, 11))]);
        first.forget(&catalog, 10).await.unwrap();
        assert!(first.of(STORAGE).is_empty() && catalog.capabilities(0, 9).await.unwrap().is_empty());
    }
}
