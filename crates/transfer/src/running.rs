//! A third-party copy that this server makes as the active party, from the door's order to the log's
//! last word. The same for all protocols: the door says what to copy, watches its client, and ends it.

use std::sync::Arc;
use std::time::Duration;

use endpoint::{
    ClientId, FairShare, Share, ShareKind, ShareLimits, Spot, TransferOutcome, TransferRecord, TransferStart,
};
use execution::CopyRuntime;
use remote::{Client, Direction, Resource};
use tokio::task::JoinHandle;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::budget::Budget;
use crate::engine::{RemoteSink, RemoteSource, Sink, Source, StoreSink, StoreSource, copy};
use crate::events::TransferEvents;
use crate::options::{Order, Outcome, Verified};
use crate::progress::Progress;

/// How many third-party copies may run at the same time, and where: on the runtime on which the first of the clones was made,
/// regardless of which connection asked for them. Clones share the same places.
#[derive(Clone, Debug)]
pub struct Slots {
    fair_share: FairShare,
    budget: Budget,
    runtime: CopyRuntime,
}

/// A place for one copy; free again when dropped.
#[derive(Debug)]
pub struct Slot {
    #[expect(dead_code, reason = "it is held, not looked at")]
    share: Share,
    budget: Budget,
    runtime: CopyRuntime,
}

impl Slots {
    /// Room for `count` copies, with a fair share and a budget of their own.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let limits = ShareLimits {
            transfers: count,
            ..ShareLimits::default()
        };
        Self::sharing(FairShare::new(&limits, None), Budget::new())
    }

    /// Room for as many as are shared out here, which run on this budget.
    #[must_use]
    pub fn sharing(fair_share: FairShare, budget: Budget) -> Self {
        Self {
            fair_share,
            budget,
            runtime: CopyRuntime::here(),
        }
    }

    /// Takes a place for a client.
    ///
    /// # Errors
    /// `overloaded` when all are taken, `share_used_up` when the client has its share.
    pub fn take(&self, client: &ClientId) -> Result<Slot> {
        Ok(Slot {
            share: self.fair_share.take(ShareKind::Transfers, client)?,
            budget: self.budget.clone(),
            runtime: self.runtime.clone(),
        })
    }

    /// What the copies share with all else that moves bytes here.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// How many copies run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.fair_share.in_use(ShareKind::Transfers)
    }
}

/// All that a copy needs to run on its own.
pub struct CopyJob {
    /// By whom the peer is reached.
    pub client: Client,
    /// The file there.
    pub peer: Resource,
    /// The file here.
    pub spot: Spot,
    /// How it is to be done.
    pub order: Order,
    /// Which way.
    pub direction: Direction,
}

impl CopyJob {
    async fn run(self, budget: Budget, progress: Arc<Progress>) -> Result<Outcome> {
        let path = &self.spot.path;
        let done = match self.ends().await {
            Ok((source, sink)) => copy(&source, sink.as_ref(), &self.order, &budget, &progress).await,
            Err(error) => Err(error),
        };
        // The store knows the path within its export only.
        done.map_err(|error| match error.subject() {
            Some(subject) if subject == path.as_str() => error.with_subject(path.under(&self.spot.export)),
            _ => error,
        })
    }

    /// What is copied, and where to.
    async fn ends(&self) -> Result<(Arc<dyn Source>, Box<dyn Sink>)> {
        let (client, peer, store, path) = (&self.client, &self.peer, &self.spot.store, &self.spot.path);
        match self.direction {
            Direction::Pull => {
                let digests_from = self.order.digests_from.clone();
                let source = RemoteSource::new(client, peer).with_digests_from(digests_from);
                Ok((Arc::new(source), Box::new(StoreSink::new(store, path))))
            }
            Direction::Push => {
                let source = StoreSource::open(store, path).await?;
                Ok((Arc::new(source), Box::new(RemoteSink::new(client, peer))))
            }
        }
    }
}

/// A copy under way. Dropped, it is given up, and that is told: as the end that this server put to it
/// where nothing else was said ([`Running::if_dropped`]).
pub struct Running {
    engine: JoinHandle<Result<Outcome>>,
    events: Arc<dyn TransferEvents>,
    progress: Arc<Progress>,
    start: Option<TransferStart>,
    slot: Option<Slot>,
    if_dropped: TransferOutcome,
}

impl Running {
    /// Begins a copy, and tells so.
    #[must_use]
    pub fn begin(events: Arc<dyn TransferEvents>, start: TransferStart, slot: Slot, job: CopyJob) -> Self {
        let progress = Arc::new(Progress::counted_in(&slot.budget));
        events.transfer_started(&start, &progress);
        Self {
            engine: slot.runtime.spawn(job.run(slot.budget.clone(), progress.clone())),
            events,
            progress,
            start: Some(start),
            slot: Some(slot),
            if_dropped: TransferOutcome::Aborted,
        }
    }

    /// The same, told as this end when it is dropped.
    #[must_use]
    pub fn if_dropped(mut self, outcome: TransferOutcome) -> Self {
        self.if_dropped = outcome;
        self
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Waits for its outcome. To be called until it has told that once.
    ///
    /// # Errors
    /// Why the copy failed; the destination is then as it was before.
    pub async fn outcome(&mut self) -> Result<Outcome> {
        let lost = |broken| Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private(&broken);
        (&mut self.engine).await.unwrap_or_else(|broken| Err(lost(broken)))
    }

    /// Waits until nothing of it is left, its clean-up included, and tells its end.
    pub async fn end(mut self, outcome: TransferOutcome, result: Result<&Outcome, &Error>) {
        self.engine.abort();
        if !self.engine.is_finished() {
            let _ = (&mut self.engine).await;
        }
        self.slot = None;
        self.tell(outcome, result);
    }

    fn tell(&mut self, outcome: TransferOutcome, result: Result<&Outcome, &Error>) {
        if let Some(start) = self.start.take() {
            self.events.transfer(&record(start, &self.progress, outcome, result));
        }
    }
}

/// The door was closed under it.
impl Drop for Running {
    fn drop(&mut self) {
        self.engine.abort();
        let outcome = self.if_dropped;
        let error = match outcome {
            TransferOutcome::ClientGone => Error::new(ErrorCode::ClientGone, Side::Client, self.progress.phase()),
            _ => Error::new(ErrorCode::Cancelled, Side::Active, self.progress.phase()),
        };
        self.tell(outcome, Err(&error));
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Running({} bytes)", self.progress.moved_bytes())
    }
}

fn record(
    start: TransferStart,
    progress: &Progress,
    outcome: TransferOutcome,
    result: Result<&Outcome, &Error>,
) -> TransferRecord {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let done = result.ok();
    TransferRecord {
        start,
        outcome,
        error: result.err().map(Into::into),
        bytes: progress.moved_bytes(),
        total_bytes: progress.total_bytes(),
        streams: done.map_or(0, |done| done.streams),
        resumed: progress.resumed(),
        verified: done.and_then(|done| match &done.verified {
            Verified::Agreed(checksum) => Some(checksum.to_string()),
            Verified::SizeOnly => None,
        }),
        phases_us: progress
            .marks()
            .iter()
            .map(|(phase, at)| (phase.name(), micros(*at)))
            .collect(),
        total_us: micros(progress.elapsed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: fn(CopyJob, Budget, Arc<Progress>) -> F) -> usize {
        size_of::<F>()
    }

    /// Each transfer holds this to its end; it grows by a whole request with each that is awaited in place.
    #[test]
    fn a_transfer_takes_little_memory_of_its_own() {
        let bytes = size_of_future(CopyJob::run);
        assert!(bytes < 6 * 1024, "{bytes} bytes");
    }
}
