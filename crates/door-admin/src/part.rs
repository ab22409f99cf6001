//! A part of the process with figures and checks of its own, such as the transfer queue.

use std::future::Future;
use std::pin::Pin;

use crate::ready::Check;

/// What a part says later.
pub type PartFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A part of the process that monitoring asks.
pub trait Part: Send + Sync {
    /// Its metrics as OpenMetrics 1.0 text, without the mark of the end.
    fn metrics(&self) -> PartFuture<'_, String>;
    /// Whether it can do its work.
    fn checks(&self) -> PartFuture<'_, Vec<Check>>;
}
