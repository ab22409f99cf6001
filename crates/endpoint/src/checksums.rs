//! Computes checksums that are not stored: one read per file for all clients that ask, in slices.
//!
//! Only a few files are read at the same time, at most one per client, and after each slice the
//! next client gets its turn. A large file therefore never blocks other clients. A computation ends
//! when the last client stops waiting, or when the name no longer refers to the file.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::limits::{
    CHECKSUM_LINGER_TIME, CHECKSUM_READERS_MAX, CHECKSUM_SLICE_BYTES, REREADS_MAX, REREADS_OF_CLIENT_MAX,
};
use storage::{ClientCredential, HashSlice, Hasher, ReadHandle, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::fair_share::{ClientId, FairShare, Share, ShareKind};

/// The checksum to compute, and the user with whose rights the file is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) user: Option<Arc<str>>,
    /// What another server was shown of the client: what one gets there is not for others.
    pub(crate) client: Option<Arc<ClientCredential>>,
    pub(crate) path: LogicalPath,
    pub(crate) algorithm: ChecksumAlgorithm,
}

type Outcome = Option<Result<Checksum>>;

/// How many slices may be read for one client.
struct ClientSlots {
    /// For checksums that it asked for.
    computing: Arc<Semaphore>,
    /// For reading back its uploads.
    rereading: Arc<Semaphore>,
}

impl Default for ClientSlots {
    fn default() -> Self {
        Self {
            computing: Arc::new(Semaphore::new(1)),
            rereading: Arc::new(Semaphore::new(REREADS_OF_CLIENT_MAX)),
        }
    }
}

/// The slots of one client and those of the store. A holder waits only for its own slice, so a copy
/// may wait for a slot whatever else it holds.
#[derive(Clone)]
pub(crate) struct ReadSlots {
    /// Keeps the client's slots while one of them is waited for.
    _client: Arc<ClientSlots>,
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl ReadSlots {
    /// Waits for the next slot.
    pub(crate) async fn take(&self) -> Result<ReadSlot> {
        let closed = |_| Error::new(ErrorCode::Internal, Side::Active, Phase::Checksum);
        let own = self.own.clone().acquire_owned().await.map_err(closed)?;
        let all = self.all.clone().acquire_owned().await.map_err(closed)?;
        Ok((own, all))
    }
}

/// The checksums of one store that are being computed. Clones share them.
#[derive(Clone)]
pub(crate) struct Checksums(Arc<Inner>);

struct Inner {
    running: Mutex<HashMap<Subject, RunningChecksum>>,
    /// Slots for slices that are read at the same time.
    computing: Arc<Semaphore>,
    /// The same for uploads that are read back.
    rereading: Arc<Semaphore>,
    clients: Mutex<HashMap<ClientId, Weak<ClientSlots>>>,
    fair_share: FairShare,
}

struct RunningChecksum {
    requesters: usize,
    outcome: watch::Receiver<Outcome>,
    task: AbortHandle,
    /// Stops the current slice when dropped.
    _wanted: Wanted,
}

/// A client that asked for a checksum and waits for it.
pub struct ChecksumRequester {
    checksums: Checksums,
    subject: Subject,
    outcome: watch::Receiver<Outcome>,
    _share: Share,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checksums {
    pub(crate) fn new(fair_share: FairShare) -> Self {
        Self(Arc::new(Inner {
            running: Mutex::default(),
            computing: Arc::new(Semaphore::new(CHECKSUM_READERS_MAX)),
            rereading: Arc::new(Semaphore::new(REREADS_MAX)),
            clients: Mutex::default(),
            fair_share,
        }))
    }

    /// Starts a computation, or joins one that is running.
    ///
    /// # Errors
    /// `overloaded` and `share_used_up`.
    pub(crate) fn ask(&self, store: &Arc<dyn Store>, subject: Subject, client: &ClientId) -> Result<ChecksumRequester> {
        let share = self.0.fair_share.take(ShareKind::Checksums, client)?;
        let mut running = lock(&self.0.running);
        let outcome = match running
            .get_mut(&subject)
            .filter(|known| known.outcome.has_changed().is_ok())
        {
            Some(known) => {
                known.requesters += 1;
                known.outcome.clone()
            }
            None => {
                let known = self.begin(store, &subject, client);
                let outcome = known.outcome.clone();
                running.insert(subject.clone(), known);
                outcome
            }
        };
        drop(running);
        Ok(ChecksumRequester {
            checksums: self.clone(),
            subject,
            outcome,
            _share: share,
        })
    }

    fn begin(&self, store: &Arc<dyn Store>, subject: &Subject, client: &ClientId) -> RunningChecksum {
        let (sender, outcome) = watch::channel(None);
        let wanted = Wanted::default();
        let own = self.slots_of(client);
        let slots = ReadSlots {
            own: own.computing.clone(),
            all: self.0.computing.clone(),
            _client: own,
        };
        let work = compute(store.clone(), subject.clone(), slots, wanted.0.clone());
        let task = tokio::spawn(async move {
            let result = work.await;
            sender.send_replace(Some(result));
        });
        RunningChecksum {
            requesters: 1,
            outcome,
            task: task.abort_handle(),
            _wanted: wanted,
        }
    }

    /// The slots for reading back a client's uploads.
    pub(crate) fn rereading(&self, client: &ClientId) -> ReadSlots {
        let own = self.slots_of(client);
        ReadSlots {
            own: own.rereading.clone(),
            all: self.0.rereading.clone(),
            _client: own,
        }
    }

    fn slots_of(&self, client: &ClientId) -> Arc<ClientSlots> {
        let mut clients = lock(&self.0.clients);
        if let Some(slots) = clients.get(client).and_then(Weak::upgrade) {
            return slots;
        }
        clients.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::default();
        clients.insert(client.clone(), Arc::downgrade(&slots));
        slots
    }
}

impl ChecksumRequester {
    /// Waits for the checksum. May be dropped and called again.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn wait(&mut self) -> Result<Checksum> {
        let lost = || Error::new(ErrorCode::Internal, Side::Active, Phase::Checksum);
        match self.outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or_else(|| Err(lost())),
            Err(_) => Err(lost()),
        }
    }

    /// Continues for a while although no client waits, because the client was asked to try again.
    pub fn linger(self) {
        tokio::spawn(async move {
            let mut this = self;
            let _ = tokio::time::timeout(CHECKSUM_LINGER_TIME, this.wait()).await;
        });
    }

    /// Waits this long at most. After that the client must ask again, and the computation continues
    /// for a while.
    ///
    /// # Errors
    /// `checksum_pending`, or why there is none.
    pub async fn wait_for(mut self, limit: Duration) -> Result<Checksum> {
        if let Ok(result) = tokio::time::timeout(limit, self.wait()).await {
            return result;
        }
        let error = Error::new(ErrorCode::ChecksumPending, Side::Active, Phase::Checksum);
        let error = error.with_subject(&self.subject.path);
        self.linger();
        Err(error)
    }
}

impl Drop for ChecksumRequester {
    fn drop(&mut self) {
        let mut running = lock(&self.checksums.0.running);
        let Some(known) = running.get_mut(&self.subject) else {
            return;
        };
        // After the end, later clients have started a new computation.
        if !known.outcome.same_channel(&self.outcome) {
            return;
        }
        known.requesters -= 1;
        if known.requesters == 0 {
            known.task.abort();
            running.remove(&self.subject);
        }
    }
}

/// A file that has been read in part.
struct HashedPart {
    reader: Arc<dyn ReadHandle>,
    hasher: Hasher,
}

/// Held by the thread that reads a slice until it is done, even if no client waits any longer.
pub(crate) type ReadSlot = (OwnedSemaphorePermit, OwnedSemaphorePermit);

async fn compute(
    store: Arc<dyn Store>,
    subject: Subject,
    slots: ReadSlots,
    is_left: Arc<AtomicBool>,
) -> Result<Checksum> {
    if let Ok(Some(known)) = store.origin_checksum(&subject.path, subject.algorithm).await {
        return Ok(known);
    }
    let mut progress = None;
    loop {
        let held = slots.take().await?;
        let HashedPart { reader, hasher } = begun(store.as_ref(), &subject, progress).await?;
        let (hasher, is_all) = reader.hash(slice(hasher, None, &is_left, held)).await?;
        if is_all {
            let none = || Error::new(ErrorCode::Internal, Side::Active, Phase::Checksum);
            let checksum = hasher.finish().pop().ok_or_else(none)?;
            let kept = std::slice::from_ref(&checksum);
            // The client gets it even if it cannot be stored.
            let _ = store.store_checksums(&subject.path, reader.stat(), kept).await;
            return Ok(checksum);
        }
        progress = Some(HashedPart { reader, hasher });
    }
}

/// The file, newly opened, or checked again: its name must still refer to it.
async fn begun(store: &dyn Store, subject: &Subject, progress: Option<HashedPart>) -> Result<HashedPart> {
    let Some(progress) = progress else {
        return Ok(HashedPart {
            reader: store.open(&subject.path).await?,
            hasher: Hasher::new(&[subject.algorithm]),
        });
    };
    let now = store.stat(&subject.path).await?;
    match now.same_content(progress.reader.stat()) {
        true => Ok(progress),
        false => Err(Error::new(ErrorCode::SourceChanged, Side::Source, Phase::Checksum)),
    }
}

/// The next slice; reading it holds the slot.
pub(crate) fn slice(hasher: Hasher, front_bytes: Option<u64>, is_left: &Arc<AtomicBool>, held: ReadSlot) -> HashSlice {
    HashSlice {
        end: hasher.length_bytes().saturating_add(CHECKSUM_SLICE_BYTES),
        hasher,
        front_bytes,
        is_given_up: is_left.clone(),
        held: Arc::new(held),
    }
}

/// Set on drop, when no client waits for the computation any longer.
#[derive(Default)]
pub(crate) struct Wanted(pub(crate) Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
