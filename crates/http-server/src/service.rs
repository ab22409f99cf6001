//! What a door provides: the answer to each request.

use std::future::Future;

use http_wire::RequestHead;
use types::Result;

use crate::exchange::{Exchange, Fate};
use crate::server::Server;

/// A door, as its connections see it.
pub trait Service: Send + Sync + 'static {
    /// What the door remembers of a connection from one request to the next. Each idle connection
    /// holds one.
    type Memory: Default + Send;

    /// Whether paths of requests name files, and must be such as a file can have.
    const NAMES_FILES: bool = true;

    /// What all connections share.
    fn server(&self) -> &Server;

    /// Whether this request runs in the background, behind others.
    fn gives_way(&self, _head: &RequestHead) -> bool {
        false
    }

    /// Answers one request, or the error that its head is, and ends with [`Exchange::finish`].
    fn answer(
        &self,
        exchange: &mut Exchange<'_>,
        head: Result<RequestHead>,
        memory: &mut Self::Memory,
    ) -> impl Future<Output = Fate> + Send;
}
