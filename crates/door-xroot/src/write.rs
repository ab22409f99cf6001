//! Writing to open files.

use std::time::Instant;

use endpoint::{Ending, Moved};
use transfer::Progress;
use types::{ByteRange, Error, ErrorCode, Phase, Side};
use xroot_wire::request::{PageWrite, Write, WriteVector};
use xroot_wire::response::{BadPages, PageStatus, respond};
use xroot_wire::{FileHandle, StreamId};

use crate::answer::fail;
use crate::connection::{Connection, Next};
use crate::failure::{Result, is_torn};
use crate::files::OpenFile;

/// Answers a write. Its data are read even if it is refused, since other requests follow them.
pub(crate) async fn write(
    connection: &mut Connection,
    stream: StreamId,
    request: &Write,
    began: Instant,
) -> types::Result<Next> {
    let length = request.data_bytes as u64;
    let payload = WritePayload::plain(request.handle, request.offset, length);
    let stored = take_in(connection, payload, "write", began).await?;
    Ok(match stored {
        Ok(_) => {
            connection.queue(|out| respond::ok(out, stream, &[]));
            Next::Request
        }
        Err(failure) => fail(connection, stream, "write", began, failure),
    })
}

/// Answers a write of pages, and lists the damaged ones.
pub(crate) async fn page_write(
    connection: &mut Connection,
    stream: StreamId,
    request: &PageWrite,
    began: Instant,
) -> types::Result<Next> {
    let wire_bytes = request.encoded_bytes;
    let data = xroot_wire::pages::data_bytes(request.offset, wire_bytes).unwrap_or(wire_bytes) as u64;
    let payload = WritePayload {
        wire_bytes: Some(wire_bytes),
        ..WritePayload::plain(request.handle, request.offset, data)
    };
    let stored = take_in(connection, payload, "page_write", began).await?;
    let noted = stored.and_then(|damaged| {
        let writing = connection.files()?.file(request.handle)?.writing()?;
        writing.note_repaired(ByteRange::new(request.offset, request.offset + data));
        writing.note_damaged(&damaged)?;
        Ok(bad_pages(&damaged))
    });
    Ok(match noted {
        Ok(bad_pages) => {
            let answer = PageStatus::page_write(stream, request.offset, bad_pages.as_ref());
            connection.queue(|out| out.extend_from_slice(&answer));
            Next::Request
        }
        Err(failure) => fail(connection, stream, "page_write", began, failure),
    })
}

/// Answers a write of many ranges, whose data follow in order.
pub(crate) async fn write_vector(
    connection: &mut Connection,
    stream: StreamId,
    request: &WriteVector<'_>,
    began: Instant,
) -> types::Result<Next> {
    let mut left = request.data_bytes();
    let mut outcome = Ok(());
    for item in request.items() {
        let payload = WritePayload::plain(item.handle, item.offset, u64::from(item.length));
        let stored = take_in(connection, payload, "write_vector", began).await?;
        outcome = stored.map(drop);
        left -= u64::from(item.length);
        if outcome.is_err() {
            connection.frames.skip(left).await?;
            break;
        }
    }
    if let (Err(_), Some(session)) = (&outcome, &mut connection.session) {
        // None of the later ranges was stored, in any file.
        request
            .items()
            .for_each(|item| session.files.refuse_change(item.handle));
    }
    if outcome.is_ok() && request.syncs() {
        outcome = sync_all(connection, request).await;
    }
    Ok(match outcome {
        Ok(()) => {
            connection.queue(|out| respond::ok(out, stream, &[]));
            Next::Request
        }
        Err(failure) => fail(connection, stream, "write_vector", began, failure),
    })
}

async fn sync_all(connection: &mut Connection, request: &WriteVector<'_>) -> Result<()> {
    let mut handles: Vec<FileHandle> = request.items().map(|item| item.handle).collect();
    handles.sort_unstable();
    handles.dedup();
    for handle in handles {
        connection.files()?.file(handle)?.writing()?.sync().await?;
    }
    Ok(())
}

/// The payload that follows a write, and where it belongs.
#[derive(Clone, Copy)]
struct WritePayload {
    handle: FileHandle,
    offset: u64,
    /// Bytes of the file.
    length: u64,
    /// The payload comes as pages, of this length with their checksums.
    wire_bytes: Option<usize>,
}

impl WritePayload {
    fn plain(handle: FileHandle, offset: u64, length: u64) -> Self {
        Self {
            handle,
            offset,
            length,
            wire_bytes: None,
        }
    }
}

/// Receives the payload of one range. The outer error is the connection's; otherwise the whole
/// payload has been read.
async fn take_in(
    connection: &mut Connection,
    announced: WritePayload,
    method: &'static str,
    began: Instant,
) -> types::Result<Result<Vec<ByteRange>>> {
    let WritePayload { length, wire_bytes, .. } = announced;
    // Answers must not wait for the payload.
    connection.flush_unless_buffered(length).await?;
    let progress = Progress::new();
    let mut payload = connection
        .frames
        .payload(wire_bytes.map_or(length, |bytes| bytes as u64));
    let file = match &mut connection.session {
        Some(session) => session.files.file(announced.handle),
        None => Err(not_logged_in().into()),
    };
    let (traffic, stored) = match file {
        Err(failure) => (None, Err(failure)),
        Ok(file) => {
            let traffic = file.traffic.clone();
            (Some(traffic), store(file, announced, &mut payload, &progress).await)
        }
    };
    match stored.as_ref().err() {
        Some(failure) if is_torn(&failure.error) => return stored.map(Ok).map_err(Error::from),
        Some(_) => payload.skip().await?,
        None => {}
    }
    let moved = progress.moved_bytes();
    if let Some(traffic) = traffic {
        traffic.written(moved, &connection.frames.stream);
    }
    connection.door.settings.site.report_moved(&Moved {
        method,
        bytes_in: moved,
        bytes_out: 0,
        took: began.elapsed(),
        ending: if stored.is_ok() { Ending::Answered } else { Ending::Told },
    });
    Ok(stored)
}

async fn store(
    file: &mut OpenFile,
    announced: WritePayload,
    payload: &mut net::frames::Payload<'_>,
    progress: &Progress,
) -> Result<Vec<ByteRange>> {
    file.check_permit().await?;
    let writing = file.writing()?;
    let offset = announced.offset;
    writing.check(offset, announced.length)?;
    Ok(match announced.wire_bytes {
        Some(wire_bytes) => writing.receive_pages(offset, wire_bytes, payload, progress).await?,
        None => {
            writing.receive(offset, payload, progress).await?;
            Vec::new()
        }
    })
}

fn not_logged_in() -> Error {
    Error::new(ErrorCode::OutOfSequence, Side::Client, Phase::Open)
}

/// The damaged pages, which the client must send again.
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
