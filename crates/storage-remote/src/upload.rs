//! A file on its way to the server.
//!
//! The server gets the bytes in their order, as they come; what comes a little before its turn
//! waits. The last piece is held back until the commit: a server stores a file as soon as it is
//! complete, and an upload that the client gives up must never be. The commit waits for the
//! server's answer, and compares size and checksum with ours. A file that differs, also when it is
//! read back, is removed. One that cannot be read back stays.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use credentials::Activities;
use net::Batch;
use net::buffer::{LARGE_BYTES, SMALL_BYTES};
use remote::{CreatedFile, Facts, GetOptions, Outlet, PutOptions, Resource, Stored, Validator};
use storage::{Answer, CommitFacts, Hasher, Held, HoldMemory, Kind, Overwrite, Stat, UploadOptions, WriteHandle};
use tokio::sync::Mutex;
use tokio::time::sleep;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::fault::fault;
use crate::limits::{
    AGE_SLACK_S, BEGIN_SLACK_S, EARLY_BATCHES_MAX, EARLY_BYTES_MAX, EARLY_STEP_BYTES, READ_BACK_PAUSES,
};
use crate::minter::{CHANGE, CREATE, DELETE, LOOK, READ, REPLACE};
use crate::stat::{FILE_MODE, stat};
use crate::upstream::Upstream;

/// An upload. If it is dropped before its end, the connection is closed before the last byte.
pub(crate) struct RemoteUpload {
    upstream: Upstream,
    path: LogicalPath,
    put: PutOptions,
    way: Mutex<Way>,
    /// Counts what came before its turn.
    memory: OnceLock<Arc<dyn HoldMemory>>,
    end_bytes: AtomicU64,
    began: SystemTime,
    /// The same, by a clock that never steps.
    began_at: Instant,
    /// A new object: it must not replace one that is stored meanwhile.
    is_guarded: bool,
}

/// How far the upload has come.
#[derive(Default)]
struct Way {
    /// `None` before the first byte of an empty file, after a failure, and after the commit.
    outlet: Option<Outlet>,
    /// What comes next and was not sent.
    held_back: Option<Batch>,
    /// Where the next byte belongs.
    next: u64,
    /// What came before its turn, by its offset.
    early: BTreeMap<u64, Batch>,
    early_bytes: u64,
    /// The memory that it takes now.
    buffer_bytes: u64,
    /// The memory that was counted for it, until all of it was sent.
    memory: Vec<Held>,
    counted_bytes: u64,
    /// Computes the Adler-32 that is kept beside an object, where the caller does not.
    hasher: Option<Hasher>,
}

impl RemoteUpload {
    /// Begins an upload. The server refuses it before a byte is sent.
    pub(crate) async fn begin(upstream: &Upstream, path: &LogicalPath, options: &UploadOptions) -> Result<Self> {
        let are_objects = upstream.is_object_store();
        if are_objects {
            upstream.check_parents(path).await?;
        }
        let is_guarded = are_objects && options.overwrite == Overwrite::Refuse;
        let replaces_silently = is_guarded && upstream.replaces_silently().await?;
        if is_guarded {
            upstream.check_absent(path).await?;
        }
        let put = PutOptions {
            size_bytes: options.size_bytes,
            overwrite: options.overwrite == Overwrite::Allow || replaces_silently,
            is_absent: is_guarded,
            declared: Vec::new(),
            modified: None,
        };
        let this = Self {
            upstream: upstream.clone(),
            path: path.clone(),
            put,
            way: Mutex::new(Way::default()),
            memory: OnceLock::new(),
            end_bytes: AtomicU64::new(0),
            began: SystemTime::now(),
            began_at: Instant::now(),
            is_guarded,
        };
        if are_objects && !options.checksums.contains(&ChecksumAlgorithm::Adler32) {
            this.way.lock().await.hasher = Some(Hasher::new(&[ChecksumAlgorithm::Adler32]));
        }
        // An empty file would be stored at once.
        if this.put.size_bytes != Some(0) {
            this.way.lock().await.outlet = Some(this.ask().await?);
        }
        Ok(this)
    }

    async fn ask(&self) -> Result<Outlet> {
        let needed = if self.put.overwrite { REPLACE } else { CREATE };
        let (client, file) = (&self.upstream.client, self.resource(needed));
        // What was created is removed if the upload is given up, unlike what was replaced.
        if self.put.overwrite && file.location.is_xrootd() {
            let new = PutOptions {
                overwrite: false,
                ..self.put.clone()
            };
            match client.put(&file, &new).await {
                Err(error) if error.code() == ErrorCode::PeerExists => {}
                asked => return asked.map_err(|error| self.blame(&error)),
            }
        }
        let asked = client.put(&file, &self.put).await;
        asked.map_err(|error| self.blame(&error))
    }

    /// The file with a credential for a request that needs these rights. Reading it back and
    /// removing it are requests of ours: the client gets nothing of them, and may have no such
    /// right.
    fn resource(&self, needed: Activities) -> Resource {
        self.upstream.resource_for(&self.path, needed)
    }

    fn blame(&self, error: &Error) -> Error {
        self.upstream.blame(error, &self.path)
    }

    fn fault(&self, code: ErrorCode, phase: Phase, words: &str) -> Error {
        fault(code, phase, self.upstream.root(), words).with_subject(&self.path)
    }

    async fn take(&self, batch: Batch, offset: u64) -> Result<()> {
        let end = offset.saturating_add(batch.len() as u64);
        if self.put.size_bytes.is_some_and(|size| end > size) {
            return Err(Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Transfer));
        }
        let mut way = self.way.lock().await;
        if offset != way.next {
            self.keep(&mut way, batch, offset)?;
        } else {
            self.send(&mut way, batch).await?;
            while let Some(batch) = way.take_early() {
                self.send(&mut way, batch).await?;
            }
        }
        self.end_bytes.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps what came before its turn.
    fn keep(&self, way: &mut Way, batch: Batch, offset: u64) -> Result<()> {
        let bytes = way.early_bytes + batch.len() as u64;
        if offset < way.next || way.early.contains_key(&offset) {
            let words = "it takes files from front to back, and what was sent is not changed";
            return Err(self.fault(ErrorCode::NotImplemented, Phase::Transfer, words));
        }
        if bytes > EARLY_BYTES_MAX || way.early.len() >= EARLY_BATCHES_MAX {
            let words = format!(
                "it takes files from front to back: at most {} MiB may come before their turn",
                EARLY_BYTES_MAX >> 20
            );
            return Err(self.fault(ErrorCode::NotImplemented, Phase::Transfer, &words));
        }
        let buffer_bytes = way.buffer_bytes + buffer_bytes(&batch);
        self.count(way, buffer_bytes)?;
        (way.early_bytes, way.buffer_bytes) = (bytes, buffer_bytes);
        way.early.insert(offset, in_own_buffer(batch));
        Ok(())
    }

    /// Counts so many bytes of memory for what came before their turn.
    fn count(&self, way: &mut Way, bytes: u64) -> Result<()> {
        let Some(memory) = self.memory.get().filter(|_| bytes > way.counted_bytes) else {
            return Ok(());
        };
        let counted_bytes = bytes.next_multiple_of(EARLY_STEP_BYTES);
        let held = memory.hold(counted_bytes - way.counted_bytes);
        way.memory.push(held.map_err(|error| error.with_subject(&self.path))?);
        way.counted_bytes = counted_bytes;
        Ok(())
    }

    /// Sends what was held back, and holds this back.
    async fn send(&self, way: &mut Way, batch: Batch) -> Result<()> {
        way.next += batch.len() as u64;
        if let Some(hasher) = &mut way.hasher {
            batch.slices().for_each(|slice| hasher.update(slice));
        }
        let counts = self.upstream.counts();
        counts.sent_bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let before = way.held_back.replace(batch);
        way.send(before).await.map_err(|error| self.blame(&error))
    }

    async fn store(&self, facts: &CommitFacts) -> Result<Stat> {
        let mut way = self.way.lock().await;
        if let Some((offset, _)) = way.early.first_key_value() {
            let words = format!("the bytes {} to {offset} are missing", way.next);
            return Err(Error::new(ErrorCode::BodyIncomplete, Side::Client, Phase::Commit).with_detail(words));
        }
        if way.next != facts.size_bytes || self.put.size_bytes.is_some_and(|size| size != way.next) {
            return Err(Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Commit));
        }
        let creating = match self.is_guarded {
            true => Some(self.upstream.creating(&self.path).lock().await),
            false => None,
        };
        if creating.is_some() {
            self.upstream.check_absent(&self.path).await?;
        }
        if self.put.size_bytes == Some(0) {
            way.outlet = Some(self.ask().await?);
        }
        let last = way.held_back.take();
        way.send(last).await.map_err(|error| self.blame(&error))?;
        let outlet = way.outlet.take().ok_or_else(|| self.broken())?;
        let created = outlet.created();
        let stored = outlet.finish().await.map_err(|error| self.blame(&error))?;
        drop(creating);
        if let Some(Validator::Tag(etag)) = &stored.version {
            let own = way.hasher.take().map(Hasher::finish).unwrap_or_default();
            let sums: Vec<Checksum> = facts.checksums.iter().cloned().chain(own).collect();
            self.upstream.keep(&self.resource(CHANGE), Some(etag), &sums).await;
        }
        self.confirm(facts, &stored, created.as_ref()).await
    }

    /// The server must have what was sent.
    async fn confirm(&self, facts: &CommitFacts, stored: &Stored, created: Option<&CreatedFile>) -> Result<Stat> {
        let since = Instant::now();
        let mut theirs = stored.checksums.clone();
        if stored.is_pending || first_common(&facts.checksums, &theirs).is_none() {
            let algorithms: Vec<ChecksumAlgorithm> = facts.checksums.iter().map(Checksum::algorithm).collect();
            match self.upstream.client.head(&self.resource(LOOK), &algorithms).await {
                Ok(now) => {
                    if now.size_bytes.is_some_and(|size| size != facts.size_bytes) {
                        let words = format!("{} bytes were sent, and it has another number", facts.size_bytes);
                        let remains = self.remove(stored, created, since).await;
                        let words = format!("{words}; {remains}");
                        return Err(self.fault(ErrorCode::PeerSizeDiffers, Phase::Checksum, &words));
                    }
                    theirs = now.checksums;
                }
                // A credential for storing may not be one for looking.
                Err(error) if says_nothing(&error) && !stored.is_pending => theirs = Vec::new(),
                Err(error) => return Err(self.blame(&error).in_phase(Phase::Checksum)),
            }
        }
        if let Some((ours, theirs)) = first_common(&facts.checksums, &theirs)
            && ours != theirs
        {
            self.compare_content(facts, ours, theirs, stored, created, since)
                .await?;
        }
        // The file is stored, whatever comes now.
        match self.upstream.client.stat(&self.resource(LOOK)).await {
            Ok(entry) if !entry.is_directory => Ok(stat(&entry)),
            _ => Ok(self.known()),
        }
    }

    /// Decides by the content about a file whose checksum (ours, theirs) is said to differ. XRootD
    /// tells the checksum of the old file for a new one that was stored in the same second (it
    /// compares the times of both). Without an answer the file stays: the old one is gone already.
    async fn compare_content(
        &self,
        facts: &CommitFacts,
        ours: &Checksum,
        theirs: &Checksum,
        stored: &Stored,
        created: Option<&CreatedFile>,
        since: Instant,
    ) -> Result<()> {
        match self.read_back(ours.algorithm()).await {
            Ok((size_bytes, found)) if size_bytes == facts.size_bytes && found.as_ref() == Some(ours) => {
                self.upstream.stale.note(&self.path, theirs);
                Ok(())
            }
            Ok(_) => {
                let remains = self.remove(stored, created, since).await;
                let words = format!("{ours} was sent, and it has {theirs}; {remains}");
                Err(self.fault(ErrorCode::ChecksumMismatch, Phase::Checksum, &words))
            }
            Err(error) => {
                let words = format!(
                    "{ours} was sent, and the server reports {theirs}, which may be that of the file before; \
                     reading the file back failed ({}), so it was kept: compare it",
                    error.code().row().meaning
                );
                Err(self.fault(ErrorCode::OutcomeUnknown, Phase::Checksum, &words))
            }
        }
    }

    /// The length and the checksum of the file as it is read now; asked again when reading breaks
    /// off.
    async fn read_back(&self, algorithm: ChecksumAlgorithm) -> Result<(u64, Option<Checksum>)> {
        let mut pauses = READ_BACK_PAUSES.iter();
        loop {
            let read = async {
                let mut hasher = Hasher::new(&[algorithm]);
                let file = self.resource(READ);
                let mut download = self.upstream.client.get(&file, &GetOptions::default()).await?;
                while let Some(batch) = download.next().await? {
                    batch.slices().for_each(|slice| hasher.update(slice));
                }
                Ok::<_, Error>((hasher.length_bytes(), hasher.finish().into_iter().next()))
            };
            match (read.await, pauses.next()) {
                (Err(error), Some(pause)) if error.retry() => sleep(*pause).await,
                (read, _) => return read,
            }
        }
    }

    /// Removes a file that is not what was sent, if it is ours: another client may have replaced
    /// it. Returns what became of it, for the error of the upload.
    async fn remove(&self, stored: &Stored, created: Option<&CreatedFile>, since: Instant) -> &'static str {
        let removed = async {
            let now = self.upstream.client.head(&self.resource(LOOK), &[]).await?;
            match is_ours(&now, stored, created, self.began_at, since) {
                false => Ok(false),
                true => {
                    let version = now.validator();
                    let file = self.resource(DELETE);
                    let deleted = self.upstream.client.delete_version(&file, version.as_ref());
                    deleted.await.map(|()| true)
                }
            }
        };
        match removed.await {
            Ok(true) => "it was removed",
            Ok(false) => "it may be another client's, so it was not removed",
            Err(_) => "it could not be removed",
        }
    }

    fn broken(&self) -> Error {
        let error = Error::new(ErrorCode::BodyIncomplete, Side::Active, Phase::Transfer);
        error.with_subject(&self.path)
    }

    /// What is known of the file here.
    fn known(&self) -> Stat {
        Stat {
            kind: Kind::File,
            size_bytes: self.end_bytes.load(Ordering::Relaxed),
            modified: self.began,
            mode: FILE_MODE,
            inode: 1,
        }
    }
}

impl Way {
    /// What came early, and whose turn it is now.
    fn take_early(&mut self) -> Option<Batch> {
        let batch = self.early.remove(&self.next)?;
        self.early_bytes -= batch.len() as u64;
        self.buffer_bytes -= buffer_bytes(&batch);
        if self.early.is_empty() {
            self.memory.clear();
            self.counted_bytes = 0;
        }
        Some(batch)
    }

    async fn send(&mut self, batch: Option<Batch>) -> Result<()> {
        let Some(mut batch) = batch else { return Ok(()) };
        // After a failure, or if the caller leaves meanwhile, the server must not get the rest.
        let broken = || Error::new(ErrorCode::BodyIncomplete, Side::Active, Phase::Transfer);
        let mut outlet = self.outlet.take().ok_or_else(broken)?;
        while !batch.is_empty() {
            let mut room = outlet.outgoing().await?;
            let filled = room.fill_from(&mut batch);
            outlet.send(room, filled).await?;
        }
        self.outlet = Some(outlet);
        Ok(())
    }
}

/// The memory of a batch: few bytes are in a small buffer.
fn buffer_bytes(batch: &Batch) -> u64 {
    match batch.len() <= SMALL_BYTES {
        true => SMALL_BYTES as u64,
        false => LARGE_BYTES as u64,
    }
}

/// The same bytes; few of them in a small buffer, whatever they came in.
fn in_own_buffer(batch: Batch) -> Batch {
    if batch.len() > SMALL_BYTES {
        return batch;
    }
    let mut bytes = Vec::with_capacity(batch.len());
    batch.append_to(&mut bytes);
    Batch::copied(&bytes)
}

/// The first pair of the same algorithm.
fn first_common<'a>(ours: &'a [Checksum], theirs: &'a [Checksum]) -> Option<(&'a Checksum, &'a Checksum)> {
    ours.iter().find_map(|own| {
        let same = theirs.iter().find(|other| other.algorithm() == own.algorithm())?;
        Some((own, same))
    })
}

/// Whether the server has stored the file and does not say more of it.
fn says_nothing(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PeerDenied | ErrorCode::PeerForbidden | ErrorCode::PeerUnsupported
    )
}

/// Whether the file that is there now is the one that the server said it stored: by its version, by
/// its identity, or by the time of its last change, which is between the beginning of the upload
/// and the answer of `since`.
fn is_ours(now: &Facts, stored: &Stored, created: Option<&CreatedFile>, began: Instant, since: Instant) -> bool {
    if let Some(version) = &stored.version {
        return now.validator().as_ref() == Some(version);
    }
    let named = created.zip(now.identity.as_ref());
    if let Some(is_same) = named.and_then(|(created, now)| created.identity.is_same(now)) {
        return is_same;
    }
    let (upload_s, waited_s) = (began.elapsed().as_secs(), since.elapsed().as_secs());
    let age_s = now.age_s.and_then(|age_s| u64::try_from(age_s).ok());
    age_s.is_some_and(|age_s| {
        age_s.saturating_add(AGE_SLACK_S) >= waited_s && age_s <= upload_s.saturating_add(BEGIN_SLACK_S)
    })
}

impl WriteHandle for RemoteUpload {
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        Box::pin(self.take(batch, offset))
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.known())
    }

    fn commit(&self, facts: CommitFacts, held: Option<Held>) -> Answer<'_, Stat> {
        Box::pin(async move {
            let stored = self.store(&facts).await;
            drop(held);
            stored
        })
    }

    fn count_memory(&self, memory: Arc<dyn HoldMemory>) {
        // A second call would count the same bytes again.
        let _ = self.memory.set(memory);
    }

    fn set_length(&self, size_bytes: u64, _held: Option<Held>) -> Answer<'_, ()> {
        Box::pin(async move {
            match size_bytes == self.end_bytes.load(Ordering::Relaxed) {
                true => Ok(()),
                false => {
                    let words = "it takes files from front to back, so their length is not changed";
                    Err(self.fault(ErrorCode::NotImplemented, Phase::Transfer, words))
                }
            }
        })
    }
}
