//! Handles for files whose calls block. A read first runs on the calling thread and gets only what
//! is in memory; if it needs the disk, it runs again on the blocking pool. Nothing above this file
//! knows [`Patience`], except where the kernel moves the data ([`SystemFile::run`]).

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

use execution::Lane;
use net::buffer::LARGE_BYTES;
use net::{Batch, Buffer, Outgoing};
use types::{ByteRange, Error, ErrorCode, Phase, Result};

use crate::api::{CommitFacts, FileReader, Patience, Stat, Upload, check_unchanged};
use crate::fault::fault;
use crate::handle::{ReadHandle, RoomPart, WriteHandle};
use crate::hash::{HashSlice, Hasher, read_slice};
use crate::limits::SMALL_COMMIT_BYTES;
use crate::residency::{Residency, touch, touch_byte};
use crate::store::{Answer, Held};

/// Ranges up to this length are in memory if their last byte is: Linux reads this far ahead unless
/// configured otherwise.
const SHORT_BYTES: u64 = 128 * 1024;

/// A call that holds `held` until it ends.
pub(crate) fn keeping<T>(
    held: Option<Held>,
    call: impl FnOnce() -> T + Send + 'static,
) -> impl FnOnce() -> T + Send + 'static {
    move || {
        let _until_done = held;
        call()
    }
}

fn failed(cause: io::Error) -> Error {
    fault(ErrorCode::StorageFailed, Phase::Transfer).with_private(cause)
}

/// A handle for a file whose reads block.
pub struct BlockingReader {
    reader: Arc<dyn FileReader>,
    lane: Arc<Lane>,
    residency: Residency,
}

impl BlockingReader {
    /// A handle with a lane of its own.
    #[must_use]
    pub fn new(reader: Arc<dyn FileReader>) -> Self {
        Self::on(&Arc::default(), reader)
    }

    /// A handle whose calls share a lane with others.
    pub(crate) fn on(lane: &Arc<Lane>, reader: Arc<dyn FileReader>) -> Self {
        Self {
            reader,
            lane: lane.clone(),
            residency: Residency::default(),
        }
    }

    /// Runs a read: first on this thread with what is in memory, and after `WouldBlock` again on
    /// the blocking pool, where it may wait. `state` is lent to the call.
    async fn patiently<T, R>(&self, state: T, call: impl PatientCall<T, R>) -> Result<(T, io::Result<R>)>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        let tried = bound(self.reader.clone(), state, Patience::CachedOnly, call.clone());
        let (state, done) = self.lane.run(tried).await?;
        match done {
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                let waits = bound(self.reader.clone(), state, Patience::Wait, call);
                self.lane.run_while_wanted(waits).await
            }
            done => Ok((state, done)),
        }
    }
}

/// A call that can be repeated.
trait PatientCall<T, R>: Fn(&dyn FileReader, &mut T, Patience) -> io::Result<R> + Clone + Send + 'static {}

impl<T, R, F> PatientCall<T, R> for F where
    F: Fn(&dyn FileReader, &mut T, Patience) -> io::Result<R> + Clone + Send + 'static
{
}

fn bound<T: Send + 'static, R>(
    reader: Arc<dyn FileReader>,
    mut state: T,
    patience: Patience,
    call: impl PatientCall<T, R>,
) -> impl FnOnce() -> Result<(T, io::Result<R>)> + Send + 'static {
    move || {
        let done = call(reader.as_ref(), &mut state, patience);
        Ok((state, done))
    }
}

impl ReadHandle for BlockingReader {
    fn stat(&self) -> &Stat {
        self.reader.stat()
    }

    fn read_batch(&self, range: ByteRange) -> Answer<'_, Batch> {
        let want = usize::try_from(range.len()).unwrap_or(usize::MAX).min(LARGE_BYTES);
        Box::pin(async move {
            let read = move |reader: &dyn FileReader, buffer: &mut Buffer, patience: Patience| {
                reader.read_vectored_at(&mut [IoSliceMut::new(&mut buffer[..want])], range.start, patience)
            };
            let (buffer, count) = self.patiently(Buffer::large(), read).await?;
            Ok(Batch::new(buffer, std::iter::once(0..count.map_err(failed)?)))
        })
    }

    fn read(&self, room: Outgoing, want: usize, offset: u64) -> Answer<'_, (Outgoing, usize)> {
        Box::pin(async move {
            let read = move |reader: &dyn FileReader, room: &mut Outgoing, patience: Patience| {
                room.fill_slots(want, |slots| reader.read_vectored_at(slots, offset, patience))
            };
            let (room, count) = self.patiently(room, read).await?;
            Ok((room, count.map_err(failed)?))
        })
    }

    fn read_parts(&self, room: Outgoing, parts: Vec<RoomPart>) -> Answer<'_, (Outgoing, usize)> {
        let filling = Filling { room, parts, filled: 0 };
        Box::pin(async move {
            let read =
                |reader: &dyn FileReader, filling: &mut Filling, patience: Patience| filling.read(reader, patience);
            let (filling, done) = self.patiently(filling, read).await?;
            done.map_err(failed)?;
            Ok((filling.room, filling.filled))
        })
    }

    fn hash(&self, slice: HashSlice) -> Answer<'_, (Hasher, bool)> {
        let reader = self.reader.clone();
        Box::pin(self.lane.run_while_wanted(move || read_slice(reader.as_ref(), slice)))
    }

    fn check_unchanged(&self) -> Answer<'_, ()> {
        let reader = self.reader.clone();
        Box::pin(self.lane.run(move || check_unchanged(reader.as_ref())))
    }

    fn advise_sequential(&self, range: ByteRange) {
        self.reader.advise_sequential(range);
    }

    fn as_file(&self) -> Option<SystemFile<'_>> {
        let file = self.reader.as_file()?;
        Some(SystemFile { file, handle: self })
    }
}

/// Ranges of a file that are being read into a room.
struct Filling {
    room: Outgoing,
    parts: Vec<RoomPart>,
    /// Bytes read so far.
    filled: usize,
}

impl Filling {
    /// Reads until everything is there or the file ends.
    fn read(&mut self, reader: &dyn FileReader, patience: Patience) -> io::Result<()> {
        let Self { room, parts, filled } = self;
        let end = parts.last().map_or(0, |part| part.at.saturating_add(length(part)));
        room.fill_slots(end, |slots| {
            let (mut rest, mut at, mut skip) = (slots, 0, *filled);
            for part in parts {
                let mut done = skip.min(length(part));
                skip -= done;
                IoSliceMut::advance_slices(&mut rest, part.at + done - at);
                at = part.at + done;
                while done < length(part) {
                    let (offset, left) = (part.range.start + done as u64, length(part) - done);
                    let count = read_front(reader, rest, left, offset, patience)?;
                    if count == 0 {
                        return Ok(());
                    }
                    IoSliceMut::advance_slices(&mut rest, count);
                    (at, done, *filled) = (at + count, done + count, *filled + count);
                }
            }
            Ok(())
        })
    }
}

fn length(part: &RoomPart) -> usize {
    usize::try_from(part.range.len()).unwrap_or(usize::MAX)
}

/// Reads into the first `most` bytes of the slots.
fn read_front(
    reader: &dyn FileReader,
    slots: &mut [IoSliceMut<'_>],
    most: usize,
    offset: u64,
    patience: Patience,
) -> io::Result<usize> {
    let (mut whole, mut left) = (0, most);
    while let Some(slot) = slots.get(whole).filter(|slot| slot.len() <= left) {
        left -= slot.len();
        whole += 1;
    }
    if left == 0 || whole == slots.len() {
        return reader.read_vectored_at(&mut slots[..whole], offset, patience);
    }
    if whole == 0 {
        return reader.read_vectored_at(&mut [IoSliceMut::new(&mut slots[0][..left])], offset, patience);
    }
    let (front, behind) = slots.split_at_mut(whole);
    let mut target: Vec<_> = front.iter_mut().map(|slot| IoSliceMut::new(slot)).collect();
    target.push(IoSliceMut::new(&mut behind[0][..left]));
    reader.read_vectored_at(&mut target, offset, patience)
}

/// A file that the kernel can send itself. The kernel waits for pages that are not in memory, so
/// they are fetched first.
#[derive(Clone, Copy)]
pub struct SystemFile<'a> {
    file: &'a File,
    handle: &'a BlockingReader,
}

impl<'a> SystemFile<'a> {
    /// The file.
    #[must_use]
    pub fn file(self) -> &'a File {
        self.file
    }

    /// Whether a range is in memory, judging by its ends. For a short range the last byte is
    /// enough: the system reads ahead from the first byte that it has to fetch. If the system
    /// cannot say, the lane notices how long the call takes.
    ///
    /// # Errors
    /// The system's error.
    pub fn is_cached(self, range: ByteRange) -> io::Result<bool> {
        let reader = self.handle.reader.as_ref();
        if range.is_empty() || !reader.tells_what_is_cached() {
            return Ok(true);
        }
        let touched = match range.len() <= SHORT_BYTES {
            true => Ok(()),
            false => touch_byte(reader, range.start, Patience::CachedOnly),
        };
        match touched.and_then(|()| touch_byte(reader, range.end - 1, Patience::CachedOnly)) {
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Ok(false),
            touched => touched.map(|()| true),
        }
    }

    /// Makes sure that a non-empty range is in memory. What follows it may then be sent without
    /// another check for a moment.
    ///
    /// # Errors
    /// `storage_failed` when it cannot be read.
    pub async fn make_resident(self, range: ByteRange) -> Result<()> {
        if self.handle.reader.is_in_memory() || self.handle.residency.covers(range) {
            return Ok(());
        }
        let look = move |reader: &dyn FileReader, (): &mut (), patience: Patience| {
            if patience == Patience::Wait {
                reader.advise_sequential(range);
            }
            match touch(reader, range, patience) {
                // The call that sends the file reports the error.
                Err(cause) if patience == Patience::CachedOnly && cause.kind() != io::ErrorKind::WouldBlock => {
                    Ok(range)
                }
                touched => touched,
            }
        };
        let ((), touched) = self.handle.patiently((), look).await?;
        self.handle.residency.note(touched.map_err(failed)?);
        Ok(())
    }

    /// Runs a call in which the kernel reads files of this store: first on this thread with what is
    /// in memory, and after `WouldBlock` again on the blocking pool. `state` is lent to the call.
    ///
    /// # Errors
    /// `internal` when the call panicked.
    pub async fn run<T: Send + 'static, R: Send + 'static>(
        self,
        state: T,
        call: impl Fn(&mut T, Patience) -> io::Result<R> + Clone + Send + 'static,
    ) -> Result<(T, io::Result<R>)> {
        let call = move |_: &dyn FileReader, state: &mut T, patience: Patience| call(state, patience);
        self.handle.patiently(state, call).await
    }
}

/// A handle for an upload whose calls block.
pub struct BlockingWriter {
    upload: Arc<dyn Upload>,
    lane: Arc<Lane>,
}

impl BlockingWriter {
    /// A handle with a lane of its own.
    #[must_use]
    pub fn new(upload: Arc<dyn Upload>) -> Self {
        Self::on(&Arc::default(), upload)
    }

    /// A handle whose calls share a lane with others.
    pub(crate) fn on(lane: &Arc<Lane>, upload: Arc<dyn Upload>) -> Self {
        Self {
            upload,
            lane: lane.clone(),
        }
    }
}

impl WriteHandle for BlockingWriter {
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        let upload = self.upload.clone();
        let write = move || upload.write_vectored_at(&batch.io_slices(), offset);
        Box::pin(self.lane.run(write))
    }

    fn stat(&self) -> Result<Stat> {
        self.upload.stat()
    }

    fn commit(&self, facts: CommitFacts, held: Option<Held>) -> Answer<'_, Stat> {
        let (upload, is_small) = (self.upload.clone(), facts.size_bytes <= SMALL_COMMIT_BYTES);
        let commit = keeping(held, move || upload.commit(&facts));
        match is_small {
            true => Box::pin(self.lane.run_small_commit(commit)),
            false => Box::pin(self.lane.run_commit(commit)),
        }
    }

    fn reader(&self) -> Answer<'_, Arc<dyn ReadHandle>> {
        let upload = self.upload.clone();
        Box::pin(async move {
            let reader = self.lane.run(move || upload.reader()).await?;
            Ok(Arc::new(BlockingReader::on(&self.lane, reader)) as Arc<dyn ReadHandle>)
        })
    }

    fn copy_system_file<'a>(&'a self, source: &'a Arc<dyn ReadHandle>) -> Answer<'a, bool> {
        let reader = source.as_file().map(|file| file.handle.reader.clone());
        Box::pin(async move {
            let Some(reader) = reader else { return Ok(false) };
            let upload = self.upload.clone();
            let copy = move || upload.copy_from(reader.as_ref()).map(|_| true);
            self.lane.run_commit(copy).await
        })
    }

    fn resume<'a>(&'a self, mark: &'a str) -> Answer<'a, u64> {
        let (upload, mark) = (self.upload.clone(), mark.to_owned());
        Box::pin(self.lane.run(move || Ok(upload.resume(&mark))))
    }

    fn limit_resume(&self, bytes: u64) {
        self.upload.limit_resume(bytes);
    }

    fn set_length(&self, size_bytes: u64, held: Option<Held>) -> Answer<'_, ()> {
        let upload = self.upload.clone();
        Box::pin(self.lane.run(keeping(held, move || upload.set_length(size_bytes))))
    }

    fn sync(&self, held: Option<Held>) -> Answer<'_, ()> {
        let upload = self.upload.clone();
        Box::pin(self.lane.run_commit(keeping(held, move || upload.sync())))
    }
}
