//! The open files of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use credentials::Credential;
use credentials::capability::Redeemed;
use endpoint::{ActiveTransfer, ExportPath, Permit, Share};
use net::Stream;
use storage::{ReadHandle, Stat};
use telemetry::{Ends, Used};
use types::{Error, ErrorCode, LogicalPath, Phase, Side};
use xroot_wire::FileHandle;

use crate::copying::Copying;
use crate::failure::Result;
use crate::interrupted::PendingUpload;
use crate::keys::Registered;
use crate::writing::Writing;

/// An open file.
pub(crate) struct OpenFile {
    /// Its path, as the client gave it.
    pub(crate) path: LogicalPath,
    pub(crate) export_path: ExportPath,
    /// The credential that opened it.
    pub(crate) credential: Arc<Credential>,
    /// The capability that opened it instead.
    pub(crate) capability: Option<Arc<Redeemed>>,
    /// The name of the open's request at the redirector that sent the client here.
    pub(crate) redirect_id: Option<String>,
    /// The trace that the open was part of.
    pub(crate) traceparent: Option<String>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) opened: Instant,
    pub(crate) content: Content,
    /// The rendezvous key that is valid while the file is open.
    pub(crate) _key: Option<Registered>,
    /// Its place in the client's share.
    pub(crate) _share: Option<Share>,
    /// Counts it as an upload or a download.
    pub(crate) _active: Option<ActiveTransfer>,
    /// Set for a new file that has no name yet.
    pub(crate) pending: Option<PendingUpload>,
    /// The right to write it.
    pub(crate) permit: Option<Permit>,
    /// Whether it was opened with a rendezvous key instead of the right to read it.
    pub(crate) is_lent: bool,
    /// Whether old content may be read through it. What its client uploads itself always may.
    pub(crate) may_read: bool,
}

/// What an open file stands for.
pub(crate) enum Content {
    /// A file to read.
    Reading(Arc<dyn ReadHandle>),
    /// A file to write; what was written can be read.
    Writing(Box<Writing>),
    /// A copy that this server makes; it can be neither read nor written.
    Copying(Box<Copying>),
}

fn ends_of(stream: &Stream) -> Option<Ends> {
    let net::Ends { local, peer } = stream.ends()?;
    Some(Ends { local, peer })
}

/// Payload moved for a file, by all streams of the session together.
#[derive(Debug)]
pub(crate) struct Traffic {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    used: Used,
}

impl Traffic {
    /// None yet; `used` hears of all that comes.
    pub(crate) fn new(used: Used) -> Self {
        Self {
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            used,
        }
    }

    /// Payload came over this connection of the session.
    pub(crate) fn written(&self, bytes: u64, stream: &Stream) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
        self.used.written_over(bytes, || ends_of(stream));
    }

    /// Payload went over this connection of the session.
    pub(crate) fn read(&self, bytes: u64, stream: &Stream) {
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
        self.used.read_over(bytes, || ends_of(stream));
    }

    pub(crate) fn read_vector(&self, bytes: u64, segments: u64) {
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
        self.used.read_vector(bytes, segments);
    }

    /// The client went away.
    pub(crate) fn torn(&self) {
        self.used.torn();
    }

    /// Bytes in and bytes out.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (
            self.bytes_in.load(Ordering::Relaxed),
            self.bytes_out.load(Ordering::Relaxed),
        )
    }
}

impl OpenFile {
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.content, Content::Writing(_))
    }

    /// Whether it is updated in place.
    pub(crate) fn holds_old_content(&self) -> bool {
        matches!(&self.content, Content::Writing(writing) if writing.holds_old_content())
    }

    /// Its current stat.
    pub(crate) fn stat(&self) -> types::Result<Stat> {
        match &self.content {
            Content::Reading(reader) => Ok(reader.stat().clone()),
            Content::Writing(writing) => writing.stat(),
            Content::Copying(copying) => Ok(copying.stat()),
        }
    }

    /// A reader of its current content.
    pub(crate) async fn reader(&self) -> types::Result<Arc<dyn ReadHandle>> {
        match &self.content {
            Content::Reading(reader) => Ok(reader.clone()),
            Content::Writing(writing) if writing.holds_old_content() && !self.may_read => {
                let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Transfer);
                Err(error.with_detail(NO_READING).with_subject(&self.path))
            }
            Content::Writing(writing) => writing.reader().await,
            Content::Copying(_) => Err(not_open_for(&self.path, COPY)),
        }
    }

    /// Whether a file that is updated in place may still be: rules may have been loaded since it
    /// was opened, and a write shows at once. Uploads ask when they take their name.
    pub(crate) async fn check_permit(&mut self) -> Result<()> {
        let (Content::Writing(writing), Some(permit)) = (&mut self.content, &self.permit) else {
            return Ok(());
        };
        if writing.holds_old_content()
            && permit.may_have_changed()
            && let Err(error) = permit.check(&self.export_path.store, &self.export_path.path).await
        {
            writing.refuse();
            return Err(error.into());
        }
        Ok(())
    }

    /// The file to write to.
    pub(crate) fn writing(&mut self) -> Result<&mut Writing> {
        match &mut self.content {
            Content::Writing(writing) => Ok(writing),
            Content::Reading(_) => Err(not_open_for(&self.path, "it was opened for reading").into()),
            Content::Copying(_) => Err(not_open_for(&self.path, COPY).into()),
        }
    }
}

/// Why an update in place cannot be read.
const NO_READING: &str = "it was opened with the right to write but not to read";

/// Why the file of a copy can be neither read nor written.
const COPY: &str = "it stands for a third-party copy";

fn not_open_for(path: &LogicalPath, why: &str) -> Error {
    let error = Error::new(ErrorCode::FileNotOpen, Side::Client, Phase::Transfer);
    error.with_detail(why).with_subject(path)
}

/// The open files of one session, by handle.
pub(crate) struct Files {
    slots: Vec<Slot>,
    open: usize,
    max: usize,
}

#[derive(Default)]
struct Slot {
    /// How many files had this slot, so that a closed handle is never reused.
    generation: u16,
    file: Option<OpenFile>,
}

/// A handle holds the slot and its generation.
const PLACE_BITS: u32 = 16;

impl Files {
    /// No files yet, at most `max`.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            slots: Vec::new(),
            open: 0,
            max: max.min(1 << PLACE_BITS),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Whether the next file is the first. Every session may open one, whatever else its client has
    /// open.
    pub(crate) fn next_is_first(&self) -> bool {
        self.open == 0
    }

    /// Whether one more file can be opened.
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.open < self.max {
            return Ok(());
        }
        Err(Error::new(ErrorCode::Overloaded, Side::Client, Phase::Open)
            .with_detail(format!("files that a session may have open: {}", self.max))
            .into())
    }

    pub(crate) fn add(&mut self, file: OpenFile) -> FileHandle {
        let free = self.slots.iter().position(|slot| slot.file.is_none());
        let place = free.unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.open += 1;
        let slot = &mut self.slots[place];
        slot.generation = slot.generation.wrapping_add(1);
        slot.file = Some(file);
        FileHandle::new(u32::from(slot.generation) << PLACE_BITS | place as u32)
    }

    fn slot(&mut self, handle: FileHandle) -> Result<&mut Slot> {
        let number = handle.number();
        let place = (number & ((1 << PLACE_BITS) - 1)) as usize;
        let slot = self.slots.get_mut(place).filter(|slot| slot.file.is_some());
        slot.filter(|slot| u32::from(slot.generation) == number >> PLACE_BITS)
            .ok_or_else(|| Error::new(ErrorCode::FileNotOpen, Side::Client, Phase::Transfer).into())
    }

    pub(crate) fn file(&mut self, handle: FileHandle) -> Result<&mut OpenFile> {
        let slot = self.slot(handle)?;
        slot.file
            .as_mut()
            .ok_or_else(|| Error::new(ErrorCode::FileNotOpen, Side::Client, Phase::Transfer).into())
    }

    /// A change of this file was refused, so an upload cannot take its name.
    pub(crate) fn refuse_change(&mut self, handle: FileHandle) {
        if let Ok(OpenFile {
            content: Content::Writing(writing),
            ..
        }) = self.file(handle)
        {
            writing.refuse();
        }
    }

    /// Removes a file, to close it.
    pub(crate) fn take(&mut self, handle: FileHandle) -> Result<OpenFile> {
        let taken = self.slot(handle)?.file.take();
        self.open -= usize::from(taken.is_some());
        taken.ok_or_else(|| Error::new(ErrorCode::FileNotOpen, Side::Client, Phase::Transfer).into())
    }

    /// Whether a file of this name was opened with a rendezvous key.
    pub(crate) fn lends(&self, path: &LogicalPath) -> bool {
        let mut files = self.slots.iter().filter_map(|slot| slot.file.as_ref());
        files.any(|file| file.is_lent && file.path == *path)
    }

    /// Whether a file of this name is open for writing.
    pub(crate) fn writes(&self, path: &LogicalPath) -> bool {
        let mut files = self.slots.iter().filter_map(|slot| slot.file.as_ref());
        files.any(|file| file.path == *path && !matches!(file.content, Content::Reading(_)))
    }

    /// The file of this name that was opened for writing last.
    pub(crate) fn newest_written(&mut self, path: &LogicalPath) -> Option<&mut OpenFile> {
        let files = self.slots.iter_mut().filter_map(|slot| slot.file.as_mut());
        let written = files.filter(|file| file.is_written() && file.path == *path);
        written.max_by_key(|file| file.opened)
    }

    pub(crate) fn take_all(&mut self) -> Vec<OpenFile> {
        self.open = 0;
        self.slots.drain(..).filter_map(|slot| slot.file).collect()
    }
}
