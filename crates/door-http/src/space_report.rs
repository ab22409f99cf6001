//! A report about the space of this server, at a path of its own.

use std::future::Future;
use std::pin::Pin;

use endpoint::Requester;
use types::{LogicalPath, Result};

/// A document that is being made.
pub type DocumentFuture<'a> = Pin<Box<dyn Future<Output = Result<String>> + Send + 'a>>;

/// What knows how much space there is.
pub trait SpaceReport: Send + Sync + 'static {
    /// Whether the report is at this path now.
    fn is_at(&self, path: &LogicalPath) -> bool;

    /// Whether this client may read it.
    fn may_read(&self, requester: Requester<'_>) -> bool;

    /// The document, as JSON.
    ///
    /// Errors: those of storage that cannot say how much space it has.
    fn document(&self) -> DocumentFuture<'_>;
}
