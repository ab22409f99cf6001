//! A third-party copy with this server as the active side, from the door's order to the last log
//! line. The same for all protocols: the door gives the order, watches its client, and ends the
//! copy.

use std::sync::Arc;
use std::time::Duration;

use endpoint::clock::now_s;
use endpoint::{
    ClientId, ExportPath, FairShare, Share, ShareKind, ShareLimits, TransferOutcome, TransferRecord, TransferStart,
};
use execution::CopyRuntime;
use remote::{Client, Direction, Resource};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::budget::{Budget, Flow};
use crate::engine::remains;
use crate::engine::{RemoteSink, RemoteSource, Sink, Source, StoreSink, StoreSource, copy};
use crate::events::TransferEvents;
use crate::limits::STOPPED_REMOVAL_TIME;
use crate::options::{Order, Outcome, Verified};
use crate::progress::Progress;

/// The slots for concurrent third-party copies. They run on the runtime where the first clone was
/// made, whatever connection requested them. Clones share the slots.
#[derive(Clone, Debug)]
pub struct Slots {
    fair_share: FairShare,
    budget: Budget,
    runtime: CopyRuntime,
}

/// A slot for one copy, released on drop.
#[derive(Debug)]
pub struct Slot {
    #[expect(dead_code, reason = "it is held, not looked at")]
    share: Share,
    budget: Budget,
    runtime: CopyRuntime,
}

impl Slot {
    /// Where copies run.
    pub(crate) fn runtime(&self) -> &CopyRuntime {
        &self.runtime
    }

    /// The budget of all copies.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Slots {
    /// `count` slots, with a separate fair share and budget.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let limits = ShareLimits {
            transfers: count,
            ..ShareLimits::default()
        };
        Self::sharing(FairShare::new(&limits, None), Budget::new())
    }

    /// The slots of this fair share, for copies on this budget.
    #[must_use]
    pub fn sharing(fair_share: FairShare, budget: Budget) -> Self {
        Self {
            fair_share,
            budget,
            runtime: CopyRuntime::here(),
        }
    }

    /// Takes a slot for a client.
    ///
    /// # Errors
    /// `overloaded` if all are taken, `share_used_up` if the client's share is used up.
    pub fn take(&self, client: &ClientId) -> Result<Slot> {
        Ok(Slot {
            share: self.fair_share.take(ShareKind::Transfers, client)?,
            budget: self.budget.clone(),
            runtime: self.runtime.clone(),
        })
    }

    /// The budget of all copies.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The number of running copies.
    #[must_use]
    pub fn running(&self) -> usize {
        self.fair_share.in_use(ShareKind::Transfers)
    }
}

/// Everything that a copy needs.
pub struct CopyJob {
    /// The client for the peer.
    pub client: Client,
    /// The file there.
    pub peer: Resource,
    /// The file here.
    pub export_path: ExportPath,
    /// The order.
    pub order: Order,
    /// Pull or push.
    pub direction: Direction,
}

impl CopyJob {
    async fn run(self, budget: Budget, progress: Arc<Progress>) -> Result<Outcome> {
        let path = &self.export_path.path;
        let done = match self.ends().await {
            Ok((source, sink)) => copy(&source, sink.as_ref(), &self.order, &budget, &progress).await,
            Err(error) => Err(error),
        };
        // The store knows only the path within its export.
        done.map_err(|error| match error.subject() {
            Some(subject) if subject == path.as_str() => error.with_subject(path.under(&self.export_path.export)),
            _ => explain_expiry(error, &self.peer, now_s()),
        })
    }

    /// Source and sink.
    async fn ends(&self) -> Result<(Arc<dyn Source>, Box<dyn Sink>)> {
        let (client, peer, store, path) = (
            &self.client,
            &self.peer,
            &self.export_path.store,
            &self.export_path.path,
        );
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

/// The other side lets no new connection in after our certificate there has ended, as a delegated
/// proxy can during a copy. Its words say only that it refuses.
fn explain_expiry(error: Error, peer: &Resource, now_s: i64) -> Error {
    let identity = peer.access.identity.as_ref();
    let has_expired = identity.is_some_and(|identity| identity.expires_s() <= now_s);
    let is_refusal =
        error.code().denies_access() || matches!(error.code(), ErrorCode::PeerTlsFailed | ErrorCode::PeerUntrusted);
    if !has_expired || !is_refusal || error.side() != peer.side {
        return error;
    }
    Error::new(ErrorCode::DelegationExpired, error.side(), error.phase())
        .with_peer(error.peer_status(), error.peer_words().unwrap_or_default())
        .with_subject(&peer.location)
        .with_private(error.public())
}

/// The ends of a push.
struct Pushed {
    client: Client,
    peer: Resource,
    export_path: ExportPath,
}

impl Pushed {
    /// Removes what the push created at the other server before it was stopped, if that server
    /// named the file: nothing else proves it ours.
    async fn remove_created(self, progress: Arc<Progress>) {
        if !progress.has_created() {
            return;
        }
        let Ok(source) = StoreSource::open(&self.export_path.store, &self.export_path.path).await else {
            return;
        };
        let source: Arc<dyn Source> = Arc::new(source);
        let sink = RemoteSink::new(&self.client, &self.peer);
        let error = Error::new(ErrorCode::Cancelled, Side::Active, progress.phase());
        let removal = remains::remove_ended(&sink, &source, &progress, false, &error);
        let _ = timeout(STOPPED_REMOVAL_TIME, removal).await;
    }
}

/// A running copy. Dropping it cancels the copy and reports that, by default as ended by this
/// server ([`RunningCopy::if_dropped`]).
pub struct RunningCopy {
    engine: JoinHandle<Result<Outcome>>,
    /// `None` for a pull, whose part is here.
    pushed: Option<Pushed>,
    events: Arc<dyn TransferEvents>,
    progress: Arc<Progress>,
    start: Option<TransferStart>,
    slot: Option<Slot>,
    if_dropped: TransferOutcome,
}

impl RunningCopy {
    /// Begins a copy, and reports its start.
    #[must_use]
    pub fn begin(events: Arc<dyn TransferEvents>, start: TransferStart, slot: Slot, mut job: CopyJob) -> Self {
        let flow = match job.direction {
            Direction::Pull => Flow::In,
            Direction::Push => Flow::Out,
        };
        let pushed = (job.direction == Direction::Push).then(|| Pushed {
            client: job.client.clone(),
            peer: job.peer.clone(),
            export_path: job.export_path.clone(),
        });
        let progress = Arc::new(Progress::counted_in(&slot.budget, flow));
        job.peer.access.steps = progress.steps();
        events.transfer_started(&start, &progress);
        job.peer.access.packets = progress.packets();
        Self {
            engine: slot.runtime.spawn(job.run(slot.budget.clone(), progress.clone())),
            pushed,
            events,
            progress,
            start: Some(start),
            slot: Some(slot),
            if_dropped: TransferOutcome::Aborted,
        }
    }

    /// The same, reported with this outcome on drop.
    #[must_use]
    pub fn if_dropped(mut self, outcome: TransferOutcome) -> Self {
        self.if_dropped = outcome;
        self
    }

    /// Its progress.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Waits for its outcome. Must not be called again after it has returned.
    ///
    /// # Errors
    /// The copy failed, or an operator ended it ([`Progress::stop`]); the destination is then
    /// unchanged.
    pub async fn outcome(&mut self) -> Result<Outcome> {
        let lost = |broken| Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private(&broken);
        tokio::select! {
            biased;
            done = &mut self.engine => done.unwrap_or_else(|broken| Err(lost(broken))),
            () = self.progress.stopped() => {
                Err(Error::new(ErrorCode::EndedByOperator, Side::Active, self.progress.phase()))
            }
        }
    }

    /// Waits until the copy and its clean-up have ended, and reports the end.
    pub async fn end(mut self, outcome: TransferOutcome, result: Result<&Outcome, &Error>) {
        self.engine.abort();
        if !self.engine.is_finished() {
            let stopped = (&mut self.engine).await;
            let pushed = self.pushed.take().filter(|_| stopped.is_err());
            if let (Some(pushed), Some(slot)) = (pushed, &self.slot) {
                let removal = pushed.remove_created(self.progress.clone());
                let _ = slot.runtime.spawn(removal).await;
            }
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

/// Reached when the door closes while the copy runs.
impl Drop for RunningCopy {
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

impl std::fmt::Debug for RunningCopy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RunningCopy({} bytes)", self.progress.moved_bytes())
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
            Verified::SizeOnly(_) => None,
        }),
        phases_us: progress
            .marks()
            .iter()
            .map(|(phase, at)| (phase.name(), micros(*at)))
            .collect(),
        steps: progress.step_times(),
        total_us: micros(progress.elapsed()),
    }
}

#[cfg(test)]
mod tests {
    use net::tls::ClientIdentity;
    use remote::Access;
    use testkit::{Authority, CertificateOptions, Scratch};
    use types::{Location, PeerStatus};

    use super::*;

    #[test]
    fn a_refusal_after_the_end_of_our_proxy_says_that_it_ended() {
        let scratch = Scratch::new("expiry").unwrap();
        let authority = Authority::new(scratch.path()).unwrap();
        let peer = |ends_s| {
            let options = CertificateOptions {
                ends_s,
                ..CertificateOptions::default()
            };
            let user = authority.issue("/O=Crossload test/CN=Jane", &options).unwrap();
            let (chain, key) = (user.chain_pem(), user.key().private_pem());
            Resource {
                location: Location::parse("root://a:1094//f").unwrap(),
                access: Access {
                    identity: Some(ClientIdentity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()),
                    ..Access::default()
                },
                side: Side::Source,
            }
        };
        let refusal = |side| {
            let error = Error::new(ErrorCode::PeerDenied, side, Phase::Authenticate);
            error.with_peer(Some(PeerStatus::Xrootd(3030)), "no valid proxy")
        };
        let lost = Error::new(ErrorCode::PeerUnreachable, Side::Source, Phase::Connect);
        let code = |error: Error, peer: &Resource| explain_expiry(error, peer, now_s()).code();
        let (ended, lasting) = (peer(-60), peer(3600));
        let told = explain_expiry(refusal(Side::Source), &ended, now_s());
        assert_eq!(
            (told.code(), told.side(), told.phase()),
            (ErrorCode::DelegationExpired, Side::Source, Phase::Authenticate)
        );
        assert!(told.public().contains("no valid proxy"), "{told}");
        assert_eq!(code(refusal(Side::Source), &lasting), ErrorCode::PeerDenied);
        assert_eq!(code(refusal(Side::Destination), &ended), ErrorCode::PeerDenied);
        assert_eq!(code(lost, &ended), ErrorCode::PeerUnreachable);
    }

    fn size_of_future<F: Future>(_: fn(CopyJob, Budget, Arc<Progress>) -> F) -> usize {
        size_of::<F>()
    }

    /// Each transfer holds this memory to its end. Each request awaited without a box would add to
    /// it.
    #[test]
    fn a_transfer_takes_little_memory_of_its_own() {
        let bytes = size_of_future(CopyJob::run);
        assert!(bytes < 6 * 1024, "{bytes} bytes");
    }
}
