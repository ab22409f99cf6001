//! What storages can do, as others than the queue have seen it.

use serde::Serialize;
use serde_json::json;

use super::service::Queue;
use crate::client::session::ClientContext;
use crate::failure::Failure;

/// Capabilities in one request, as many as a queue takes.
const AT_ONCE: usize = 2000;

/// What a storage has shown that it can do, or cannot, in the words of the queue's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::client) struct SeenCapability {
    pub(in crate::client) storage: String,
    pub(in crate::client) operation: &'static str,
    pub(in crate::client) part: &'static str,
    pub(in crate::client) peer: &'static str,
    pub(in crate::client) credential: &'static str,
    pub(in crate::client) can: bool,
    pub(in crate::client) at_ms: u64,
}

/// Reports them to the queue at `url`. Its operators may do so.
///
/// # Errors
/// `peer_unsupported` for an FTS; the queue's refusal, or no answer.
pub(in crate::client) async fn report_capabilities(
    session: &ClientContext,
    url: &str,
    seen: &[SeenCapability],
) -> Result<(), Failure> {
    let queue = Queue::new(session, url)?;
    queue.demand_ours("capabilities").await?;
    for items in seen.chunks(AT_ONCE) {
        queue.post("/v1/capabilities", &json!({"items": items})).await?;
    }
    Ok(())
}
