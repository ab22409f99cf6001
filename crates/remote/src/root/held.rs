//! Files that are open for as long as a copy between two servers runs, and how they are closed.

use tokio::time::timeout;
use types::Result;
use xroot_wire::request::Close;
use xroot_wire::{FileHandle, Request, StreamId};

use super::ask::Client;
use super::route::Route;
use super::session::ServerSession;
use crate::limits::COPY_CLOSE_WAIT;

/// A file that is open for as long as a copy runs.
pub(super) struct Held {
    pub(super) session: ServerSession,
    pub(super) route: Route,
    pub(super) handle: FileHandle,
}

impl Held {
    /// The request that closes it.
    pub(super) fn close(&self) -> Request<'static> {
        Request::Close(Close { handle: self.handle })
    }

    /// Closes it and waits for the answer, and before that for one that is still to come.
    async fn close_and_wait(&mut self, awaited: Option<StreamId>) -> Result<()> {
        let closing = self.session.send(&self.close()).await?;
        if let Some(awaited) = awaited {
            self.session.answer(awaited).await?;
        }
        self.session.answer(closing).await.map(drop)
    }
}

impl Client {
    /// Closes the destination of a copy that is not made, and waits for the answer, for
    /// [`COPY_CLOSE_WAIT`] at most: the next way may open the file in another session, and XRootD
    /// lets one writer in at a time. `awaited` is a request whose answer is still to come.
    pub(super) async fn give_back(&self, mut held: Held, awaited: Option<StreamId>) {
        let closed = timeout(COPY_CLOSE_WAIT, held.close_and_wait(awaited)).await;
        if matches!(closed, Ok(Ok(()))) {
            self.keep(&held.route, held.session);
        }
    }

    /// Closes a file without waiting for the answer.
    pub(super) async fn leave(&self, mut held: Held) {
        let close = held.close();
        if held.session.send_unheard(&close).await.is_ok() {
            self.keep(&held.route, held.session);
        }
    }
}
