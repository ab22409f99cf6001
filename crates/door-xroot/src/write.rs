//! Writing to open files, and what belongs to it: sync, truncate, close.

use std::time::Instant;

use endpoint::{Change, Changing, Ending, Moved, refusal};
use policy::Operation;
use transfer::Progress;
use types::{ByteRange, Error, ErrorCode, LogicalPath, Phase, Side};
use xroot_wire::request::{Close, PageWrite, SyncFile, Truncate, TruncateTarget, Write, WriteVector};
use xroot_wire::response::{BadPages, PageStatus, respond};
use xroot_wire::{Argument, ErrorNumber, FileHandle, StreamId};

use crate::connection::{Connection, Next};
use crate::exchange::{Exchange, is_torn};
use crate::failure::Result;
use crate::files::{Content, OpenFile};
use crate::third_party::destination;
use crate::turns::Update;
use crate::writing::{Writing, check_end};

impl Connection {
    /// Answers a write, whose data follow. They are read in any case, since something follows them.
    pub(crate) async fn write(&mut self, stream: StreamId, request: &Write, began: Instant) -> types::Result<Next> {
        let length = request.data_bytes as u64;
        let range = (request.handle, request.offset, length);
        let stored = self.take_in(range, None, ("write", began)).await?;
        Ok(match stored {
            Ok(_) => {
                self.queue(|out| respond::ok(out, stream, &[]));
                Next::Request
            }
            Err(failure) => self.fail(stream, "write", began, failure),
        })
    }

    /// Answers a write of pages, and says which of them arrived damaged.
    pub(crate) async fn page_write(
        &mut self,
        stream: StreamId,
        request: &PageWrite,
        began: Instant,
    ) -> types::Result<Next> {
        let wire_bytes = request.encoded_bytes;
        let data = xroot_wire::pages::data_bytes(request.offset, wire_bytes).unwrap_or(wire_bytes) as u64;
        let range = (request.handle, request.offset, data);
        let stored = self.take_in(range, Some(wire_bytes), ("page_write", began)).await?;
        let noted = stored.and_then(|damaged| {
            let writing = self.files()?.file(request.handle)?.writing()?;
            writing.note_repaired(ByteRange::new(request.offset, request.offset + data));
            writing.note_damaged(&damaged)?;
            Ok(bad_pages(&damaged))
        });
        Ok(match noted {
            Ok(bad_pages) => {
                let answer = PageStatus::page_write(stream, request.offset, bad_pages.as_ref());
                self.queue(|out| out.extend_from_slice(&answer));
                Next::Request
            }
            Err(failure) => self.fail(stream, "page_write", began, failure),
        })
    }

    /// Answers a write of many ranges, whose data follow in order.
    pub(crate) async fn write_vector(
        &mut self,
        stream: StreamId,
        request: &WriteVector<'_>,
        began: Instant,
    ) -> types::Result<Next> {
        let mut left = request.data_bytes();
        let mut outcome = Ok(());
        for item in request.items() {
            let range = (item.handle, item.offset, u64::from(item.length));
            outcome = self.take_in(range, None, ("write_vector", began)).await?.map(drop);
            left -= u64::from(item.length);
            if outcome.is_err() {
                self.frames.skip(left).await?;
                break;
            }
        }
        if let (Err(_), Some(session)) = (&outcome, &mut self.session) {
            // Nothing of the ranges behind it was stored, in whichever files those are.
            request
                .items()
                .for_each(|item| session.files.refuse_change(item.handle));
        }
        if outcome.is_ok() && request.syncs() {
            outcome = self.sync_all(request).await;
        }
        Ok(match outcome {
            Ok(()) => {
                self.queue(|out| respond::ok(out, stream, &[]));
                Next::Request
            }
            Err(failure) => self.fail(stream, "write_vector", began, failure),
        })
    }

    async fn sync_all(&mut self, request: &WriteVector<'_>) -> Result<()> {
        let mut handles: Vec<FileHandle> = request.items().map(|item| item.handle).collect();
        handles.sort_unstable();
        handles.dedup();
        for handle in handles {
            self.files()?.file(handle)?.writing()?.sync().await?;
        }
        Ok(())
    }

    /// Takes in the payload of one range, as pages when `wire_bytes` says how long those are. The outer
    /// error is the connection's; in any other case all of the payload has been read.
    async fn take_in(
        &mut self,
        (handle, offset, length): (FileHandle, u64, u64),
        wire_bytes: Option<usize>,
        (method, began): (&'static str, Instant),
    ) -> types::Result<Result<Vec<ByteRange>>> {
        // Before the payload is waited for.
        self.flush_unless_buffered(length).await?;
        let progress = Progress::new();
        let mut payload = self.frames.payload(wire_bytes.map_or(length, |bytes| bytes as u64));
        let file = match &mut self.session {
            Some(session) => session.files.file(handle),
            None => Err(not_logged_in().into()),
        };
        let (traffic, stored) = match file {
            Err(failure) => (None, Err(failure)),
            Ok(file) => {
                let traffic = file.traffic.clone();
                (
                    Some(traffic),
                    store(file, offset, length, wire_bytes, &mut payload, &progress).await,
                )
            }
        };
        match stored.as_ref().err() {
            Some(failure) if is_torn(&failure.error) => return stored.map(Ok).map_err(Error::from),
            Some(_) => payload.skip().await?,
            None => {}
        }
        let moved = progress.moved_bytes();
        if let Some(traffic) = traffic {
            traffic.add_in(moved);
        }
        self.door.tell_moved(&Moved {
            method,
            bytes_in: moved,
            bytes_out: 0,
            took: began.elapsed(),
            ending: if stored.is_ok() { Ending::Answered } else { Ending::Told },
        });
        Ok(stored)
    }
}

async fn store(
    file: &mut OpenFile,
    offset: u64,
    length: u64,
    wire_bytes: Option<usize>,
    payload: &mut net::frames::Payload<'_>,
    progress: &Progress,
) -> Result<Vec<ByteRange>> {
    check_permit(file).await?;
    let writing = file.writing()?;
    writing.check(offset, length)?;
    Ok(match wire_bytes {
        Some(wire_bytes) => writing.receive_pages(offset, wire_bytes, payload, progress).await?,
        None => {
            writing.receive(offset, payload, progress).await?;
            Vec::new()
        }
    })
}

/// Whether a file that is changed where it lies may still be: rules may have been loaded since it was
/// opened, and what is written to it shows at once. Nobody has locked it. Anything else is asked when it takes its name.
async fn check_permit(file: &mut OpenFile) -> Result<()> {
    let (Content::Writing(writing), Some(permit)) = (&mut file.content, &file.permit) else {
        return Ok(());
    };
    if writing.holds_old_content()
        && permit.may_have_changed()
        && let Err(error) = permit.check(&file.spot.store, &file.spot.path).await
    {
        writing.refuse();
        return Err(error.into());
    }
    Ok(())
}

fn not_logged_in() -> Error {
    Error::new(ErrorCode::OutOfSequence, Side::Client, Phase::Open)
}

/// The damaged pages for the client, which is to send each of them again.
fn bad_pages(damaged: &[ByteRange]) -> Option<BadPages> {
    // A page has at most 4096 bytes.
    let length = |page: &ByteRange| page.len() as u16;
    let (first, last) = (damaged.first()?, damaged.last()?);
    Some(BadPages {
        first_bytes: length(first),
        last_bytes: length(last),
        offsets: damaged.iter().map(|page| page.start).collect(),
    })
}

/// Makes a file durable.
pub(crate) async fn sync(exchange: &mut Exchange<'_>, request: &SyncFile) -> Result<Next> {
    match &mut exchange.file(request.handle)?.content {
        Content::Writing(writing) => writing.sync().await?,
        Content::Copying(_) => return destination::sync(exchange, request.handle).await,
        Content::Reading(_) => {}
    }
    exchange.ok(&[]);
    Ok(Next::Request)
}

/// Cuts or extends an open file, or a named one.
pub(crate) async fn truncate(exchange: &mut Exchange<'_>, request: &Truncate<'_>) -> Result<()> {
    match &request.target {
        TruncateTarget::Handle(handle) => {
            let file = exchange.file(*handle)?;
            set_length(file, request.size_bytes).await?;
        }
        TruncateTarget::Path(argument) => truncate_path(exchange, argument, request.size_bytes).await?,
    }
    exchange.ok(&[]);
    Ok(())
}

async fn set_length(file: &mut OpenFile, size_bytes: u64) -> Result<()> {
    check_permit(file).await?;
    let writing = file.writing();
    let writing = writing.map_err(|failure| failure.numbered(ErrorNumber::ARGUMENT_INVALID))?;
    Ok(writing.set_length(size_bytes).await?)
}

/// Cuts or extends a file by its name. A client that has the file open for writing means what it has open: POSIX has one
/// file of a name, and xrootdfs truncates by name what it has just opened.
async fn truncate_path(exchange: &mut Exchange<'_>, argument: &Argument<'_>, size_bytes: u64) -> Result<()> {
    let named = exchange.path(argument).await?;
    let path = &named.path;
    let own = exchange.connection.files()?.newest_written(path);
    let is_uploaded = own.is_some_and(|file| !file.holds_old_content());
    if let Some(file) = exchange
        .connection
        .files()?
        .newest_written(path)
        .filter(|_| is_uploaded)
    {
        return set_length(file, size_bytes).await;
    }
    exchange.settle(path).await?;
    let writer = exchange.writer(path)?;
    let update = exchange.connection.door.turns.update(&writer);
    let changed = truncate_in_place(exchange, path, size_bytes, update.as_ref()).await;
    if changed.is_err() {
        refuse_written(exchange, path, update.as_ref());
    }
    changed
}

/// A change of a file by its name was refused before anything was made of it.
pub(crate) fn refuse_named(exchange: &mut Exchange<'_>, path: &LogicalPath) {
    // Before the login nothing is open.
    if let Ok(writer) = exchange.writer(path) {
        let update = exchange.connection.door.turns.update(&writer);
        refuse_written(exchange, path, update.as_ref());
    }
}

/// What its client has open under that name can never be closed well: it may do so without having read the refusal.
fn refuse_written(exchange: &mut Exchange<'_>, path: &LogicalPath, update: Option<&Update>) {
    if let Ok(files) = exchange.connection.files()
        && let Some(Content::Writing(writing)) = files.newest_written(path).map(|file| &mut file.content)
    {
        writing.refuse();
    }
    if let Some(update) = update {
        update.refuse();
    }
}

/// Changes a file where it lies: over the handle that the client has for it, on whichever session, or like opening it for
/// update.
async fn truncate_in_place(
    exchange: &mut Exchange<'_>,
    path: &LogicalPath,
    size_bytes: u64,
    update: Option<&Update>,
) -> Result<()> {
    let spot = exchange.spot(path, ErrorCode::IsDirectory)?;
    let found = exchange.look(&spot, path).await;
    let granted = exchange.authorize(Operation::Overwrite, path, Some(size_bytes))?;
    let permit = exchange.permit(path);
    let changing = exchange.begin_change(&spot, path, Change::Update).await?;
    if let Some(file) = exchange.connection.files()?.newest_written(path) {
        return set_length(file, size_bytes).await;
    }
    if let Some(upload) = update.and_then(Update::upload) {
        check_end(size_bytes, granted.max_upload_bytes)?;
        let _changing = permit.check(&spot.store, &spot.path).await?;
        return Ok(spot.store.during(&changing).set_length(&upload, size_bytes).await?);
    }
    let turn = exchange
        .connection
        .door
        .turns
        .take(path, true, exchange.connection.peer.ip());
    let turn = turn.ok_or_else(|| refusal(ErrorCode::Busy, path).with_detail("somebody else is writing it"))?;
    let present = found.into_file(path)?;
    present.ok_or_else(|| refusal(ErrorCode::NotFound, path))?;
    let update = spot.store.open_update(&spot.path).await;
    let update = update.map_err(|error| error.with_subject(path))?;
    // Rules may have been loaded since, and the change shows at once.
    let _changing = permit.check(&spot.store, &spot.path).await?;
    let mut writing = Writing::in_place(&spot.store.during(&changing), update, granted.max_upload_bytes, turn);
    writing.set_length(size_bytes).await?;
    writing.commit(&exchange.client()).await?;
    Ok(())
}

/// Closes a file; one that was uploaded takes its name now.
pub(crate) async fn close(exchange: &mut Exchange<'_>, request: &Close) -> Result<()> {
    let file = exchange.session()?.files.take(request.handle)?;
    exchange.note_file(&file);
    if let Content::Copying(copying) = &file.content {
        destination::close(exchange, copying);
    }
    if let Content::Writing(writing) = file.content {
        let changing = match &file.permit {
            Some(permit) => permit.check(&file.spot.store, &file.spot.path).await?,
            None => Changing::default(),
        };
        let stored = writing.during(&changing).commit(&exchange.client()).await;
        let stat = stored.map_err(|error| error.with_subject(&file.path))?;
        if let Some(pending) = file.pending {
            pending.end();
        }
        exchange.exports.note_upload(exchange.asker(), &file.path, &stat);
        exchange.record.committed_us = Some(exchange.elapsed_us());
    }
    exchange.ok(&[]);
    Ok(())
}
