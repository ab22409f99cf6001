//! Reads of one range, with page checksums or without.

use std::time::Instant;

use xroot_wire::request::{PageRead, Read};
use xroot_wire::{FileHandle, StreamId};

use crate::answer::fail;
use crate::connection::{Connection, Next};
use crate::failure::Result;
use crate::send::Task;
use crate::sessions::{Errand, no_such_stream};

/// Answers a read.
pub(crate) async fn read(
    connection: &mut Connection,
    stream: StreamId,
    request: &Read,
    began: Instant,
) -> types::Result<Next> {
    let task = task(connection, request.handle, request.offset, request.length).await;
    let task = task.map(|task| Task { stream, began, ..task });
    hand_on(connection, task, request.path, stream, "read", began).await
}

/// Answers a read of pages.
pub(crate) async fn page_read(
    connection: &mut Connection,
    stream: StreamId,
    request: &PageRead,
    began: Instant,
) -> types::Result<Next> {
    let task = task(connection, request.handle, request.offset, request.length).await;
    let task = task.map(|task| Task {
        stream,
        paged: true,
        began,
        ..task
    });
    hand_on(connection, task, request.path, stream, "page_read", began).await
}

/// A range of the file. Another server may let us look at a file and not read it: that is known
/// before the first bytes of the file are announced.
async fn task(connection: &mut Connection, handle: FileHandle, offset: u64, length: u32) -> Result<Task> {
    let file = connection.files()?.file(handle)?;
    let task = Task {
        stream: StreamId::ZERO,
        paged: false,
        reader: file.reader().await?,
        offset,
        length,
        traffic: file.traffic.clone(),
        began: Instant::now(),
    };
    if task.reader.as_file().is_none() && file.traffic.totals().1 == 0 {
        let begun = task.reader.begin(task.range()).await;
        begun.map_err(|error| error.with_subject(&file.path))?;
    }
    Ok(task)
}

/// Sends a range on the stream that the client chose.
async fn hand_on(
    connection: &mut Connection,
    task: Result<Task>,
    path: Option<u8>,
    stream: StreamId,
    method: &'static str,
    began: Instant,
) -> types::Result<Next> {
    let handed = match (task, path.unwrap_or(0)) {
        (Ok(task), 0) => {
            task.send(&mut connection.frames.stream, &connection.door.settings.site)
                .await?;
            return Ok(Next::Request);
        }
        (Ok(task), path) => hand_to(connection, path, task).await,
        (Err(failure), _) => Err(failure),
    };
    match handed {
        Ok(()) => Ok(Next::Request),
        Err(failure) => Ok(fail(connection, stream, method, began, failure)),
    }
}

/// Queues a range on a further stream, which answers in its own time.
async fn hand_to(connection: &mut Connection, path: u8, task: Task) -> Result<()> {
    let session = connection.session.as_ref();
    let way = session.and_then(|session| session.registration.stream(path));
    // What is queued here must not wait for the other stream.
    connection.flush().await?;
    let sent = match way {
        Some(way) => way.send(Errand::Send(task)).await.is_ok(),
        None => false,
    };
    if sent {
        return Ok(());
    }
    Err(no_such_stream())
}
