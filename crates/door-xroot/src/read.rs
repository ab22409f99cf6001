//! Reading ranges of open files, with page checksums and without.

use std::time::Instant;

use xroot_wire::request::{PageRead, Read};
use xroot_wire::{FileHandle, StreamId};

use crate::bound::{Errand, no_such_stream};
use crate::connection::{Connection, Next};
use crate::failure::Result;
use crate::send::Task;

impl Connection {
    /// Answers a read.
    pub(crate) async fn read(&mut self, stream: StreamId, request: &Read, began: Instant) -> types::Result<Next> {
        let task = self.task(request.handle).map(|task| Task {
            stream,
            offset: request.offset,
            length: request.length,
            began,
            ..task
        });
        self.hand_on(task, request.path, (stream, "read", began)).await
    }

    /// Answers a read of pages.
    pub(crate) async fn page_read(
        &mut self,
        stream: StreamId,
        request: &PageRead,
        began: Instant,
    ) -> types::Result<Next> {
        let task = self.task(request.handle).map(|task| Task {
            stream,
            paged: true,
            offset: request.offset,
            length: request.length,
            began,
            ..task
        });
        self.hand_on(task, request.path, (stream, "page_read", began)).await
    }

    /// Nothing of a file yet.
    fn task(&mut self, handle: FileHandle) -> Result<Task> {
        let file = self.files()?.file(handle)?;
        Ok(Task {
            stream: StreamId::ZERO,
            paged: false,
            store: file.spot.store.clone(),
            reader: file.reader()?,
            offset: 0,
            length: 0,
            traffic: file.traffic.clone(),
            began: Instant::now(),
        })
    }

    /// Sends a range on the stream that the client names.
    async fn hand_on(
        &mut self,
        task: Result<Task>,
        path: Option<u8>,
        (stream, method, began): (StreamId, &'static str, Instant),
    ) -> types::Result<Next> {
        let handed = match (task, path.unwrap_or(0)) {
            (Ok(task), 0) => {
                task.send(&mut self.frames.stream, &self.door).await?;
                return Ok(Next::Request);
            }
            (Ok(task), path) => self.hand_to(path, task).await,
            (Err(failure), _) => Err(failure),
        };
        match handed {
            Ok(()) => Ok(Next::Request),
            Err(failure) => Ok(self.fail(stream, method, began, failure)),
        }
    }

    /// Hands a range to a further stream, which answers in its own time.
    async fn hand_to(&mut self, path: u8, task: Task) -> Result<()> {
        let session = self.session.as_ref();
        let way = session.and_then(|session| session.registration.stream(path));
        // What is queued here must not wait for the other stream.
        self.flush().await?;
        let sent = match way {
            Some(way) => way.send(Errand::Send(task)).await.is_ok(),
            None => false,
        };
        if sent {
            return Ok(());
        }
        Err(no_such_stream())
    }
}
