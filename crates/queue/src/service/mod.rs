//! The service: one process that decides and copies, beside others on the same catalog.
//!
//! Seven loops share the catalog and the table of running copies:
//!
//! - `decide` hands out places and claims files, whenever something has changed;
//! - `endings` writes the results of copies, many in one transaction;
//! - `renew` keeps the lease of this worker's files, and stops copies that were canceled, on a
//!   thread of its own (`lease`); `liveness` stops all before the lease ends, if it cannot;
//! - `tuning` finds out how many copies each link can use;
//! - `sweep` wakes retries, gives up what has waited too long, takes back files of dead workers,
//!   and lets files go on whose tokens are renewed;
//! - `tidy` moves finished jobs into the history, which may take long, and goes on with changes of
//!   large jobs whose processes have ended;
//! - `hops` removes what copies have left at storages on the way.
//!
//! Several processes decide at the same time: a claim is atomic, so no file is given out twice, and
//! the counters of the catalog include the copies of all.

mod adjust;
mod bounds;
mod counters;
mod course;
mod decide;
mod drain;
mod endings;
mod faults;
mod figures;
mod hops;
mod hour;
mod lease;
mod link;
mod link_why;
mod liveness;
mod look;
mod notice;
mod outlook;
mod pace;
mod public;
mod quotas;
mod rates;
mod renew;
mod room;
mod rules;
mod running;
mod sweep;
mod tidy;
mod totals;
mod tuning;
mod why;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use catalog::{Canceled, Catalog, Claimed, Ending, Hop, NewJob, Problem, RunningFile, Swept, ThirdPartyRole};
use schedule::optimizer::{End, FailureClass, Outcome};
use schedule::scheduler::{Queue, Scheduler, ShareUnit};
use schedule::{CredentialEnd, FileId, JobId};
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use transfer::{Progress, RateLimit};
use types::Result;

use crate::clock::{milliseconds, now_ms};
use crate::hop::HopSite;
use crate::limits::{ENDINGS_QUEUED_MAX, RESTART_GRACE, STOP_TIME};
pub use bounds::{CopyBounds, LeastRate};
use counters::{CounterCache, Counters};
pub use faults::{Faults, Work};
pub use figures::LinkEnds;
use hour::Hour;
pub use hour::{CountedProblem, LastHour, LinkHour};
pub use link_why::{ActivityWhy, FileCounts, LinkKey, LinkWhy, VoWhy};
pub use look::{HoldView, LinkView};
use outlook::Outlook;
use pace::Paces;
use quotas::Quotas;
use running::Running;
pub use totals::{FailureKind, Totals};
pub use tuning::Judged;
use tuning::Tuning;
pub use why::Why;

/// How this process works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, which no other process has and no later start of it.
    pub worker: String,
    /// Copies that it runs at once.
    pub copies: u32,
    /// Copies into or out of a storage at once, where operators have set no other limit.
    pub storage_copies: u32,
    /// Copies on a link at once, where operators have set no other limit.
    pub link_copies: u32,
    /// Copies on a link that the optimizer keeps at least.
    pub link_copies_minimum: u32,
    /// What shares of virtual organisations and activities are counted in.
    pub share_unit: ShareUnit,
    /// Attempts after the first, for jobs that give no number.
    pub retries: u16,
    /// Pause before the first retry, for jobs that give none.
    pub retry_delay: Duration,
    /// How long and how slowly a copy may run.
    pub bounds: CopyBounds,
    /// How long finished jobs are kept.
    pub history: Duration,
    /// How long other workers leave this one's files alone after its last sign of life.
    pub lease: Duration,
    /// Storages between two that share no protocol, in order of preference.
    pub hops: Vec<HopSite>,
    /// What storages can do in third-party copies, by name, where operators have set nothing else.
    pub roles: Vec<(String, ThirdPartyRole)>,
}

impl Settings {
    fn lease_ms(&self) -> i64 {
        milliseconds(self.lease)
    }
}

/// How the copy of one file ended.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyResult {
    /// It is complete.
    Finished {
        /// Its size.
        size_bytes: u64,
        /// The way, as in FTS's messages.
        way: Option<String>,
    },
    /// The destination has it whole from an earlier attempt, so nothing was copied.
    Found {
        /// Its size.
        size_bytes: u64,
        /// How it was found, for its record.
        note: Problem,
    },
    /// It failed.
    Failed {
        /// Why.
        problem: Problem,
        /// What the destination has instead, if the job asks for it.
        report: Option<Value>,
        /// What the failure says of the storages.
        failure: Failure,
    },
    /// A storage cannot take or give any file now: the link waits, and the attempt does not count.
    Hold {
        /// Why.
        problem: Problem,
        /// When the storage asks to be tried again.
        after: Option<Duration>,
        /// What the failure says of the storages.
        failure: Failure,
    },
    /// The file waits, and neither its attempt nor its link is concerned.
    Wait {
        /// Why.
        problem: Problem,
        /// Until when, in milliseconds since 1970.
        until_ms: i64,
    },
    /// The destination has what an attempt may have left whose worker was lost: the file waits for
    /// its removal by the storage, and the attempt does not count.
    Remains {
        /// What is there.
        problem: Problem,
        /// Until when, in milliseconds since 1970.
        until_ms: i64,
        /// How often it was found so far.
        looks: u16,
    },
    /// The file goes on at another link, on its way by a hop.
    Hop {
        /// The next part of the way.
        hop: Box<Hop>,
        /// The size of what was copied to the hop; `None`: nothing was copied.
        copied_bytes: Option<u64>,
    },
}

/// What a failure says of the storages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its class.
    pub class: FailureClass,
    /// The end at fault; `None`: unknown.
    pub end: Option<End>,
}

impl Failure {
    fn for_optimizer(self, after: Option<Duration>) -> Outcome {
        Outcome::Failed {
            class: self.class,
            end: self.end,
            retry_after_ms: after.and_then(|after| after.as_millis().try_into().ok()),
        }
    }
}

impl CopyResult {
    /// `None` if nothing was learned of the link.
    fn for_optimizer(&self) -> Option<Outcome> {
        match self {
            Self::Finished { size_bytes, .. } => Some(Outcome::Copied {
                size_bytes: *size_bytes,
            }),
            Self::Found { .. } | Self::Wait { .. } | Self::Remains { .. } => None,
            Self::Failed { failure, .. } => Some(failure.for_optimizer(None)),
            Self::Hold { failure, after, .. } => Some(failure.for_optimizer(*after)),
            // Without a copy nothing is wrong with the link.
            Self::Hop { copied_bytes, .. } => copied_bytes.map(|size_bytes| Outcome::Copied { size_bytes }),
        }
    }
}

/// The future of a copy.
pub type CopyTime<'a> = Pin<Box<dyn Future<Output = CopyResult> + Send + 'a>>;

/// The credential that ends first.
pub type ExpiryLookup<'a> = Pin<Box<dyn Future<Output = Option<CredentialEnd>> + Send + 'a>>;

/// The future of a look at the tokens of a file.
pub type TokenGaps<'a> = Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;

/// The future of a removal after a copy was stopped.
pub type CleanUp<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The future of a removal at a hop.
pub type HopRemoval<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// What operators say of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// What the source can do in third-party copies.
    pub source: ThirdPartyRole,
    /// What the destination can do.
    pub destination: ThirdPartyRole,
    /// `overwrite_when_only_on_disk` replaces nothing at the destination.
    pub refuses_disk_overwrite: bool,
    /// What holds for the virtual organisation.
    pub limits: CopyLimits,
    /// Streams of the copy, if its job gives no number.
    pub streams: Option<u16>,
    /// The active server gets no delegated proxy.
    pub never_delegates: bool,
    /// Rate limits of both storages, where the data go through this process.
    pub rates: Vec<RateLimit>,
    /// The hop that the file may take if neither storage can be the active side.
    pub hop: Option<Box<Hop>>,
}

/// What operators say of the copies of a virtual organisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyLimits {
    /// Time in which a copy must end, if its job gives none.
    pub time: Option<Duration>,
    /// Without `time`: the part of it for each MiB.
    pub time_per_mib: Option<Duration>,
    /// No copy goes through the queue's machine.
    pub never_streams: bool,
    /// What holds for every copy.
    pub bounds: CopyBounds,
}

/// Executes copies.
pub trait Copier: Send + Sync + 'static {
    /// Copies one file. Dropping the future ends the copy.
    fn copy<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CopyTime<'a>;

    /// Removes what a copy that was stopped left at its destination, if it is proven ours. Without
    /// a default, so that no copier around another one forgets it.
    fn clean_up<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CleanUp<'a>;

    /// The credential of a file's copy that ends first; `None`: not known, or none ends.
    fn credential_end<'a>(&'a self, _claimed: &'a Claimed) -> ExpiryLookup<'a> {
        Box::pin(std::future::ready(None))
    }

    /// Sentences about its tokens whose scopes may not be enough for the file.
    fn token_gaps<'a>(&'a self, _claimed: &'a Claimed) -> TokenGaps<'a> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Removes what a file has left at a hop. `peer_not_found`: there is nothing.
    fn remove_hop<'a>(&'a self, _claimed: &'a Claimed, _url: &'a str) -> HopRemoval<'a> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The queue. Clones are the same.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    settings: Settings,
    catalog: Catalog,
    copier: Arc<dyn Copier>,
    running: Mutex<Running>,
    outlook: Mutex<Outlook>,
    tuning: Mutex<Tuning>,
    scheduler: Mutex<Scheduler>,
    paces: Mutex<Paces>,
    quotas: Mutex<Quotas>,
    totals: Mutex<Totals>,
    hour: Mutex<Hour>,
    counters: CounterCache,
    /// Something has changed that the catalog does not tell: a copy has ended, a setting is new.
    wake: Notify,
    endings: mpsc::Sender<Ending>,
    faults: watch::Sender<Faults>,
    stopping: watch::Sender<bool>,
    /// All copies have ended after the service was stopped, and so have their results.
    copies_have_ended: watch::Sender<bool>,
    /// The loop that writes results.
    writing: Mutex<Option<JoinHandle<()>>>,
    /// The time of this worker's last sign of life in the catalog.
    last_sign: watch::Sender<Instant>,
    /// When the threads of the service last did something.
    last_turn: watch::Sender<Instant>,
    /// The thread that gives signs of life has ended.
    lease_has_ended: watch::Sender<bool>,
    /// Whether this worker takes no new work.
    is_draining: AtomicBool,
    /// Orders to drain, or not, that came through this process.
    drain_orders: AtomicU64,
}

impl Service {
    /// Starts the loops on the current runtime.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn start(settings: Settings, catalog: Catalog, copier: Arc<dyn Copier>) -> Result<Self> {
        let outlook = Outlook::read(&catalog, &settings).await?;
        let (endings, ended) = mpsc::channel(ENDINGS_QUEUED_MAX);
        let inner = Arc::new(Inner {
            settings,
            catalog,
            copier,
            running: Mutex::default(),
            outlook: Mutex::new(outlook),
            tuning: Mutex::default(),
            scheduler: Mutex::default(),
            paces: Mutex::default(),
            quotas: Mutex::default(),
            totals: Mutex::default(),
            hour: Mutex::new(Hour::new(now_ms())),
            counters: CounterCache::default(),
            wake: Notify::new(),
            endings,
            faults: watch::Sender::default(),
            stopping: watch::Sender::new(false),
            copies_have_ended: watch::Sender::new(false),
            writing: Mutex::default(),
            last_sign: watch::Sender::new(Instant::now()),
            last_turn: watch::Sender::new(Instant::now()),
            lease_has_ended: watch::Sender::new(false),
            is_draining: AtomicBool::new(false),
            drain_orders: AtomicU64::new(0),
        });
        let writing = tokio::spawn(endings::run(inner.clone(), ended));
        *inner.writing() = Some(writing);
        tokio::spawn(until_stopped(inner.clone(), decide::run(inner.clone())));
        let signs = lease::start(&inner).await?;
        tokio::spawn(until_stopped(inner.clone(), renew::obey_all(inner.clone(), signs)));
        tokio::spawn(until_stopped(inner.clone(), sweep::run(inner.clone())));
        tokio::spawn(until_stopped(inner.clone(), tidy::run(inner.clone())));
        tokio::spawn(until_stopped(inner.clone(), tidy::resume_changes(inner.clone())));
        tokio::spawn(until_stopped(inner.clone(), hops::run(inner.clone())));
        tokio::spawn(until_stopped(inner.clone(), tuning::run(inner.clone())));
        Ok(Self(inner))
    }

    /// The catalog, for what only reads or stores.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// Cancels jobs, and stops their copies.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn cancel_jobs(&self, jobs: &[JobId], reason: &str) -> Result<Canceled> {
        let canceled = self.0.catalog.cancel_jobs(jobs, reason, now_ms()).await?;
        self.0.stop_canceled(&canceled.running);
        Ok(canceled)
    }

    /// Cancels files of a job, and stops their copies.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn cancel_files(&self, job: JobId, files: &[FileId], reason: &str) -> Result<Canceled> {
        let canceled = self.0.catalog.cancel_files(job, files, reason, now_ms()).await?;
        self.0.stop_canceled(&canceled.running);
        Ok(canceled)
    }

    /// Cancels the files of a storage, and stops their copies.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn cancel_storage(&self, storage: &str, vo: Option<&str>, reason: &str) -> Result<Swept> {
        let swept = self.0.catalog.cancel_storage(storage, vo, reason, now_ms()).await?;
        self.0.stop_canceled(&swept.running);
        Ok(swept)
    }

    /// Completes a new job with what operators say of its virtual organisation.
    pub fn fill_in(&self, job: &mut NewJob) {
        self.0.outlook().fill_in(job);
    }

    /// Reads the settings of operators again, after a change.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn take_settings(&self) -> Result<()> {
        let fresh = Outlook::read(&self.0.catalog, &self.0.settings).await?;
        self.0.outlook().replace_settings(fresh);
        self.0.wake.notify_one();
        Ok(())
    }

    /// The latest decisions of the optimizer, the newest first.
    #[must_use]
    pub fn decisions(&self, limit: usize) -> Vec<Judged> {
        self.0.tuning().decisions().take(limit).cloned().collect()
    }

    /// Copies that run in this process.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.0.running().len()
    }

    /// Copies that may run in this process at once.
    #[must_use]
    pub fn copies_maximum(&self) -> u32 {
        self.0.settings.copies
    }

    /// What fails at the database, with its changes.
    #[must_use]
    pub fn faults(&self) -> watch::Receiver<Faults> {
        self.0.faults.subscribe()
    }

    /// What this process has done since it started.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.0.totals().clone()
    }

    /// Copies of this process that ended, by link. At most [`LINK_FIGURES_MAX`] links.
    ///
    /// [`LINK_FIGURES_MAX`]: crate::limits::LINK_FIGURES_MAX
    #[must_use]
    pub fn link_ends(&self) -> Vec<LinkEnds> {
        self.0.tuning().ends()
    }

    /// Ends the loops and the copies of this process, and writes the results of those that have
    /// one. The files of the others are copied again by other processes, or after the next start,
    /// once the storages have had [`RESTART_GRACE`] to end their copies.
    pub async fn stop(&self) {
        self.0.stopping.send_replace(true);
        let stopped = self.0.running().stop_all();
        let writing = self.0.writing().take();
        let results = async {
            for copy in stopped {
                let _ = copy.await;
            }
            self.0.copies_have_ended.send_replace(true);
            if let Some(writing) = writing {
                let _ = writing.await;
            }
        };
        // If the catalog cannot be reached, the files wait for the end of the lease.
        if timeout(STOP_TIME, results).await.is_ok() {
            let leaving = async {
                // A later sign of life would keep others waiting.
                let mut ended = self.0.lease_has_ended.subscribe();
                let _ = ended.wait_for(|has_ended| *has_ended).await;
                self.0.forget_drain().await;
                let (worker, now_ms) = (&self.0.settings.worker, now_ms());
                // Until storages have noticed that their copies lost the client, a new copy would
                // meet its own part at the destination.
                let lease_ms = now_ms.saturating_add(milliseconds(RESTART_GRACE));
                self.0.catalog.renew(worker, &[], now_ms, lease_ms).await?;
                self.0.catalog.leave(worker).await
            };
            let _ = timeout(STOP_TIME, leaving).await;
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Service({})", self.0.settings.worker)
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tuning(&self) -> MutexGuard<'_, Tuning> {
        self.tuning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paces(&self) -> MutexGuard<'_, Paces> {
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quotas(&self) -> MutexGuard<'_, Quotas> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters of the queues, at most this old.
    async fn counters(&self, age: Duration) -> Result<Arc<Counters>> {
        self.counters.get(&self.catalog, age).await
    }

    /// The queues as the scheduler sees them. Sizes are needed for shares by bytes only.
    fn queues<'a>(&self, counters: &'a Counters) -> Vec<Queue<'a>> {
        match self.settings.share_unit {
            ShareUnit::SlotTime => counters.queues(|_| None),
            ShareUnit::Bytes => {
                let paces = self.paces();
                counters.queues(|flow| paces.mean_bytes(flow))
            }
        }
    }

    /// Copies that may begin here now: none while this worker drains.
    fn places(&self) -> u32 {
        if self.is_draining() {
            return 0;
        }
        let free = (self.settings.copies as usize).saturating_sub(self.running().len());
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outlook(&self) -> MutexGuard<'_, Outlook> {
        self.outlook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the copies of this process that were canceled. Other processes learn of theirs when
    /// they renew.
    fn stop_canceled(&self, canceled: &[RunningFile]) {
        let mut running = self.running();
        let ours = canceled.iter().filter(|file| file.worker == self.settings.worker);
        ours.for_each(|file| running.stop(file.file));
    }

    /// What a loop did at the database, and whether that went well.
    fn note<T>(&self, work: Work, outcome: &Result<T>) {
        self.faults
            .send_if_modified(|faults| faults::note(faults, work, outcome));
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}

/// Runs a loop until the service stops.
async fn until_stopped(inner: Arc<Inner>, work: impl Future<Output = ()>) {
    let mut stopping = inner.stopping.subscribe();
    tokio::select! {
        () = work => {}
        _ = stopping.wait_for(|stops| *stops) => {}
    }
}
