//! A file that is open for writing: an upload whose pieces come in any order, or an update in
//! place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use endpoint::{Changing, ClientId, Store};
use net::frames::Payload;
use storage::{CommitFacts, ReadHandle, Stat, WriteHandle};
use transfer::{Assembly, Progress};
use types::{ByteRange, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};
use xroot_wire::limits::{BAD_PAGES_MAX, BAD_PAGES_OPEN_MAX};

use crate::writers::{Update, WriteClaim, Writer};

/// A file that is open for writing. Dropping it before its commit discards it.
pub(crate) struct Writing {
    store: Store,
    assembly: Assembly,
    /// Whether it is an update in place.
    in_place: bool,
    max_bytes: Option<u64>,
    /// The permission bits that the client wants for a new file.
    pub(crate) mode: Option<u32>,
    /// The damaged pages that were not sent again: start and end.
    damaged: BTreeMap<u64, u64>,
    /// Whether a write was refused or failed. Other sessions of the client can set it too.
    is_torn: Arc<AtomicBool>,
    claim: WriteClaim,
}

impl Writing {
    /// An upload. These checksums are computed on the way, and it may have at most `max_bytes`.
    pub(crate) fn upload(
        store: &Store,
        upload: Arc<dyn WriteHandle>,
        algorithms: &[ChecksumAlgorithm],
        max_bytes: Option<u64>,
        claim: WriteClaim,
    ) -> Self {
        Self {
            store: store.clone(),
            assembly: Assembly::new(store, upload, algorithms),
            in_place: false,
            max_bytes,
            mode: None,
            damaged: BTreeMap::new(),
            is_torn: Arc::default(),
            claim,
        }
    }

    /// An update in place; the file may have at most `max_bytes`.
    pub(crate) fn in_place(
        store: &Store,
        update: Arc<dyn WriteHandle>,
        max_bytes: Option<u64>,
        claim: WriteClaim,
    ) -> Self {
        Self {
            in_place: true,
            ..Self::upload(store, update, &[], max_bytes, claim)
        }
    }

    /// Lets other sessions of the client cut or extend a file that is updated in place.
    pub(crate) fn share_with(&self, writer: Writer) {
        self.claim
            .share(writer, Update::new(self.assembly.upload(), &self.is_torn));
    }

    /// Whether it shows the file's old content, not only what its client wrote.
    pub(crate) fn holds_old_content(&self) -> bool {
        self.in_place
    }

    pub(crate) async fn reader(&self) -> Result<Arc<dyn ReadHandle>> {
        self.assembly.upload().reader().await
    }

    pub(crate) fn stat(&self) -> Result<Stat> {
        self.assembly.upload().stat()
    }

    /// A change was refused. The client may close the file without having read the refusal, so the
    /// close must fail.
    pub(crate) fn refuse(&mut self) {
        self.is_torn.store(true, Ordering::Relaxed);
    }

    /// Whether `length` bytes may be written there. If not, the file counts as incomplete.
    pub(crate) fn check(&mut self, offset: u64, length: u64) -> Result<()> {
        let checked = self.check_range(offset, length);
        self.note(checked)
    }

    fn check_range(&self, offset: u64, length: u64) -> Result<()> {
        // A sum that overflows lies beyond any file.
        check_end(offset.saturating_add(length), self.max_bytes)
    }

    /// Stores a payload. After an error the caller skips the rest of it.
    pub(crate) async fn receive(&mut self, offset: u64, payload: &mut Payload<'_>, progress: &Progress) -> Result<()> {
        let done = self.assembly.receive(payload, offset, progress).await;
        self.note(done.map(drop))
    }

    /// Stores a payload of pages with checksums. Returns the damaged ones, which are stored too.
    pub(crate) async fn receive_pages(
        &mut self,
        offset: u64,
        wire_bytes: usize,
        payload: &mut Payload<'_>,
        progress: &Progress,
    ) -> Result<Vec<ByteRange>> {
        let done = self.assembly.receive_pages(payload, offset, wire_bytes, progress).await;
        self.note(done)
    }

    /// Remembers a failure: the file counts as incomplete.
    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        self.is_torn.fetch_or(result.is_err(), Ordering::Relaxed);
        result.map_err(of_client)
    }

    /// Cuts or extends the file.
    pub(crate) async fn set_length(&mut self, size_bytes: u64) -> Result<()> {
        self.check(size_bytes, 0)?;
        let done = self.assembly.set_length(size_bytes).await;
        self.note(done)
    }

    /// Makes written data durable, where the store can do so before the file is closed.
    pub(crate) async fn sync(&mut self) -> Result<()> {
        let done = self.store.sync(self.assembly.upload()).await;
        self.note(done)
    }

    /// Data were lost: the close must fail.
    pub(crate) fn mark_incomplete(&mut self) {
        self.is_torn.store(true, Ordering::Relaxed);
    }

    /// Remembers damaged pages.
    pub(crate) fn note_damaged(&mut self, pages: &[ByteRange]) -> Result<()> {
        self.damaged.extend(pages.iter().map(|page| (page.start, page.end)));
        if pages.len() > BAD_PAGES_MAX || self.damaged.len() > BAD_PAGES_OPEN_MAX {
            self.is_torn.store(true, Ordering::Relaxed);
            return Err(Error::new(ErrorCode::TooManyPageErrors, Side::Client, Phase::Transfer));
        }
        Ok(())
    }

    /// Forgets damaged pages that came again and are correct now.
    pub(crate) fn note_repaired(&mut self, range: ByteRange) {
        self.damaged
            .retain(|start, end| !(range.start <= *start && *end <= range.end));
    }

    /// The same; its commit counts as these changes. An update in place has begun a change of its
    /// own.
    pub(crate) fn during(mut self, changing: &Changing) -> Self {
        if !self.holds_old_content() {
            self.store = self.store.during(changing);
        }
        self
    }

    /// Ends the writing: an upload takes its name, unless a page is still damaged or a write
    /// failed.
    pub(crate) async fn commit(mut self, client: &ClientId) -> Result<Stat> {
        if !self.damaged.is_empty() {
            let error = Error::new(ErrorCode::ChecksumMismatch, Side::Client, Phase::Commit);
            return Err(error.with_detail(format!("uncorrected damaged pages: {}", self.damaged.len())));
        }
        if self.is_torn.load(Ordering::Relaxed) {
            let error = Error::new(ErrorCode::BodyIncomplete, Side::Client, Phase::Commit);
            return Err(error.with_detail("a part of it was refused or could not be stored"));
        }
        let facts = CommitFacts {
            size_bytes: self.assembly.end_bytes(),
            checksums: match self.in_place {
                true => Vec::new(),
                false => self.assembly.checksums(client).await?,
            },
            modified: None,
            mode: self.mode,
        };
        self.store
            .commit(self.assembly.upload(), facts)
            .await
            .map_err(of_client)
    }
}

/// Whether a file may have this length, when its client may store files of at most `max_bytes`.
pub(crate) fn check_end(end: u64, max_bytes: Option<u64>) -> Result<()> {
    let fault = |phase, detail: String| Error::new(ErrorCode::BodyTooLarge, Side::Client, phase).with_detail(detail);
    if i64::try_from(end).is_err() {
        return Err(fault(Phase::Transfer, format!("a file has at most {} bytes", i64::MAX)));
    }
    match max_bytes {
        Some(max) if end > max => Err(fault(
            Phase::Authorize,
            format!("the credential allows uploads of {max} bytes"),
        )),
        _ => Ok(()),
    }
}

/// A store does not know where bytes come from: here they come from the client.
fn of_client(error: Error) -> Error {
    match error.side() {
        Side::Source => error.at_side(Side::Client),
        _ => error,
    }
}
