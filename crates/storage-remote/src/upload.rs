//! A file on its way to the server.
//!
//! A server of the XRootD protocol that drops what is not closed gets the bytes as they come. An S3
//! storage gets them part by part, if they come so. Any other server gets them in the order of the
//! file; what comes a little before its turn waits. The last piece is held back until the commit
//! then: such a server stores a file as soon as it is complete, and an upload that the client gives
//! up must never be. The commit waits for the server's answer, and compares what it has
//! ([`crate::confirm`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use credentials::Activities;
use net::Batch;
use net::buffer::{LARGE_BYTES, SMALL_BYTES};
use remote::{CreatedFile, Outlet, PartsWriter, PutOptions, Resource, Stored, Validator};
use storage::{
    Answer, CommitFacts, Hasher, Held, HoldMemory, Kind, Overwrite, RangeSums, Stat, UploadOptions, WriteHandle,
    WriteOrder,
};
use tokio::sync::Mutex;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, LogicalPath, Phase, Result, Side};

use crate::fault::fault;
use crate::limits::{EARLY_BATCHES_MAX, EARLY_BYTES_MAX, EARLY_STEP_BYTES, SENT_RANGES_MAX};
use crate::minter::{CHANGE, CREATE, LOOK, REPLACE};
use crate::stat::FILE_MODE;
use crate::upstream::Upstream;

/// An upload. If it is dropped before its end, the connection is closed before the last byte.
pub(crate) struct RemoteUpload {
    pub(crate) upstream: Upstream,
    pub(crate) path: LogicalPath,
    put: PutOptions,
    /// The file in parts, if it is sent so.
    parts: Option<PartsWriter>,
    way: Mutex<Way>,
    /// The server takes bytes in any order.
    is_any_order: bool,
    /// Counts what came before its turn.
    memory: OnceLock<Arc<dyn HoldMemory>>,
    end_bytes: AtomicU64,
    began: SystemTime,
    /// The same, by a clock that never steps.
    pub(crate) began_at: Instant,
    /// A new object: it must not replace one that is stored meanwhile.
    is_guarded: bool,
}

/// How far the upload has come.
struct Way {
    /// `None` before the first byte of an empty file, after a failure, and after the commit.
    outlet: Option<Outlet>,
    /// What comes next and was not sent.
    held_back: Option<Batch>,
    /// Where the next byte belongs, if they are sent in their order.
    next: u64,
    /// What was sent, if it is sent in any order.
    sent: RangeSums,
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
            compares_trailers_at: compares_trailers_at(upstream, path, options).await,
            modified: None,
        };
        let mut this = Self {
            upstream: upstream.clone(),
            path: path.clone(),
            put,
            parts: None,
            way: Mutex::new(Way::new()),
            is_any_order: false,
            memory: OnceLock::new(),
            end_bytes: AtomicU64::new(0),
            began: SystemTime::now(),
            began_at: Instant::now(),
            is_guarded,
        };
        let keeps_adler32 = options.checksums.contains(&ChecksumAlgorithm::Adler32);
        if options.in_blocks && keeps_adler32 {
            this.parts = this.begin_parts().await?;
        }
        // An empty file would be stored at once.
        if this.put.size_bytes != Some(0) && this.parts.is_none() {
            let outlet = this.ask().await?;
            this.is_any_order = outlet.takes_any_order();
            this.way.get_mut().outlet = Some(outlet);
        }
        if !keeps_adler32 && (are_objects || this.put.compares_trailers_at.is_some()) {
            this.way.get_mut().hasher = Some(Hasher::new(&[ChecksumAlgorithm::Adler32]));
        }
        Ok(this)
    }

    /// Begins to store a file in parts, if it is large enough for more than one.
    async fn begin_parts(&self) -> Result<Option<PartsWriter>> {
        let least = self.upstream.abilities().stores_parts_above;
        let Some(size) = self
            .put
            .size_bytes
            .filter(|size| least.is_some_and(|least| *size > least))
        else {
            return Ok(None);
        };
        let file = self.resource(if self.put.overwrite { REPLACE } else { CREATE });
        let parts = self.upstream.client.put_in_parts(&file, size, &self.put).await;
        let parts = parts.map_err(|error| self.blame(&error))?;
        Ok(Some(PartsWriter::new(parts, size)))
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
    pub(crate) fn resource(&self, needed: Activities) -> Resource {
        self.upstream.resource_for(&self.path, needed)
    }

    pub(crate) fn blame(&self, error: &Error) -> Error {
        self.upstream.blame(error, &self.path)
    }

    pub(crate) fn fault(&self, code: ErrorCode, phase: Phase, words: &str) -> Error {
        fault(code, phase, self.upstream.root(), words).with_subject(&self.path)
    }

    async fn take(&self, batch: Batch, offset: u64) -> Result<()> {
        let end = offset.saturating_add(batch.len() as u64);
        if self.put.size_bytes.is_some_and(|size| end > size) {
            return Err(Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Transfer));
        }
        if let Some(parts) = &self.parts {
            self.count_sent(&batch);
            parts
                .write(batch, offset, |_, _| {})
                .await
                .map_err(|error| self.blame(&error))?;
        } else {
            let mut way = self.way.lock().await;
            if self.is_any_order {
                self.send_at(&mut way, batch, offset).await?;
            } else if offset != way.next {
                self.keep(&mut way, batch, offset)?;
            } else {
                self.send(&mut way, batch).await?;
                while let Some(batch) = way.take_early() {
                    self.send(&mut way, batch).await?;
                }
            }
        }
        self.end_bytes.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    fn count_sent(&self, batch: &Batch) {
        let counts = self.upstream.counts();
        counts.sent_bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }

    /// Sends a batch at its offset. What was sent is not changed: no checksum would fit it.
    async fn send_at(&self, way: &mut Way, batch: Batch, offset: u64) -> Result<()> {
        let range = ByteRange::new(offset, offset.saturating_add(batch.len() as u64));
        let refuse = |words| Err(self.fault(ErrorCode::NotImplemented, Phase::Transfer, words));
        if way.sent.overlaps(range) {
            return refuse("what was sent to it is not changed");
        }
        if way.sent.range_count() > SENT_RANGES_MAX {
            return refuse("the file comes in too many pieces");
        }
        let mut seen = way.sent.range_hasher();
        batch.slices().for_each(|slice| seen.update(slice));
        self.count_sent(&batch);
        if let Some(outlet) = &mut way.outlet {
            outlet.go_to(offset);
        }
        way.send(Some(batch)).await.map_err(|error| self.blame(&error))?;
        way.sent.add(offset, seen);
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
        self.count_sent(&batch);
        let before = way.held_back.replace(batch);
        way.send(before).await.map_err(|error| self.blame(&error))
    }

    async fn store(&self, facts: &CommitFacts) -> Result<Stat> {
        let mut way = self.way.lock().await;
        self.check_complete(&way, facts)?;
        let creating = match self.is_guarded {
            true => Some(self.upstream.creating(&self.path).lock().await),
            false => None,
        };
        if creating.is_some() {
            self.upstream.check_absent(&self.path).await?;
        }
        let (stored, created) = match &self.parts {
            Some(parts) => (parts.complete().await, None),
            None => self.end_content(&mut way, facts).await?,
        };
        let stored = stored.map_err(|error| self.blame(&error))?;
        drop(creating);
        if let Some(Validator::Tag(etag)) = &stored.version {
            let sums = way.sums(facts);
            self.upstream.keep(&self.resource(CHANGE), Some(etag), &sums).await;
        }
        self.confirm(facts, &stored, created.as_ref()).await
    }

    /// Whether all of the file has come.
    fn check_complete(&self, way: &Way, facts: &CommitFacts) -> Result<()> {
        let incomplete = |words: String| {
            let error = Error::new(ErrorCode::BodyIncomplete, Side::Client, Phase::Commit);
            Err(error.with_detail(words))
        };
        let end = self.end_bytes.load(Ordering::Relaxed);
        let front_bytes = match (&self.parts, self.is_any_order) {
            // A part that is missing is noticed as they are put together.
            (Some(_), _) => end,
            (None, true) => way.sent.front_bytes(),
            (None, false) => way.next,
        };
        if let Some((offset, _)) = way.early.first_key_value() {
            return incomplete(format!("the bytes {front_bytes} to {offset} are missing"));
        }
        if front_bytes != end {
            return incomplete(format!("bytes behind {front_bytes} are missing"));
        }
        if end != facts.size_bytes || self.put.size_bytes.is_some_and(|size| size != end) {
            return Err(Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Commit));
        }
        Ok(())
    }

    /// Sends what was held back, and waits for the server's answer.
    async fn end_content(&self, way: &mut Way, facts: &CommitFacts) -> Result<(Result<Stored>, Option<CreatedFile>)> {
        if self.put.size_bytes == Some(0) {
            way.outlet = Some(self.ask().await?);
        }
        let last = way.held_back.take();
        way.send(last).await.map_err(|error| self.blame(&error))?;
        let mut outlet = way.outlet.take().ok_or_else(|| self.broken())?;
        if self.put.compares_trailers_at.is_some() {
            outlet.declare(&way.sums(facts));
        }
        let created = outlet.created();
        Ok((outlet.finish().await, created))
    }

    fn broken(&self) -> Error {
        let error = Error::new(ErrorCode::BodyIncomplete, Side::Active, Phase::Transfer);
        error.with_subject(&self.path)
    }

    /// What is known of the file here.
    pub(crate) fn known(&self) -> Stat {
        Stat {
            kind: Kind::File,
            size_bytes: self.end_bytes.load(Ordering::Relaxed),
            modified: self.began,
            mode: FILE_MODE,
            inode: 1,
        }
    }
}

/// The server, if it has a file that the upload replaces and compares a checksum behind the content
/// first, in clear text: what is damaged on the way must not replace a good file. TLS finds damage
/// itself.
async fn compares_trailers_at(upstream: &Upstream, path: &LogicalPath, options: &UploadOptions) -> Option<Location> {
    let root = upstream.root();
    if options.overwrite == Overwrite::Refuse || !root.is_http() || root.is_encrypted() || upstream.is_object_store() {
        return None;
    }
    // Whatever is wrong there, the upload will show.
    let facts = upstream.client.head(&upstream.resource_for(path, LOOK), &[]).await;
    facts
        .ok()
        .filter(|facts| facts.compares_trailers)
        .map(|facts| facts.location)
}

impl Way {
    fn new() -> Self {
        Self {
            outlet: None,
            held_back: None,
            next: 0,
            sent: RangeSums::new(&[]),
            early: BTreeMap::new(),
            early_bytes: 0,
            buffer_bytes: 0,
            memory: Vec::new(),
            counted_bytes: 0,
            hasher: None,
        }
    }

    /// The checksums of all that came, with those that were computed for the server only.
    fn sums(&mut self, facts: &CommitFacts) -> Vec<Checksum> {
        let own = self.hasher.take().map(Hasher::finish).unwrap_or_default();
        facts.checksums.iter().cloned().chain(own).collect()
    }

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

impl WriteHandle for RemoteUpload {
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        Box::pin(self.take(batch, offset))
    }

    fn keeps_replaced(&self) -> bool {
        !self.put.overwrite || self.upstream.is_object_store() || self.put.compares_trailers_at.is_some()
    }

    fn order(&self) -> WriteOrder {
        match &self.parts {
            Some(parts) => WriteOrder::Blocks(parts.part_bytes()),
            None if self.is_any_order => WriteOrder::Any,
            None => WriteOrder::FrontToBack,
        }
    }

    fn discard_block(&self, start: u64) {
        if let Some(parts) = &self.parts {
            parts.discard(start);
        }
    }

    fn is_readable(&self) -> bool {
        false
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
