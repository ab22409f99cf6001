//! What a server tells as a node of a cluster, and what it can be ordered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use endpoint::Requester;
use policy::Drain;
use types::Result;

/// An order that is being followed.
pub type OrderFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// The server as a node of a cluster.
pub trait Node: Send + Sync + 'static {
    /// Whether this client may see the status and changed names.
    fn may_look(&self, requester: Requester<'_>) -> bool;

    /// Whether this client may also order what the node is used for.
    fn may_order(&self, requester: Requester<'_>) -> bool;

    /// Whether this server sends clients to others. Everybody may know.
    fn is_redirector(&self) -> bool;

    /// What the node tells of itself now, as a JSON object. It must answer at once.
    fn announcement(&self) -> Arc<str>;

    /// Follows an order; `orderer` is for the log.
    ///
    /// # Errors
    /// The order could not be stored; nothing has changed then.
    fn order<'a>(&'a self, drain: Drain, orderer: &'a str) -> OrderFuture<'a>;
}
