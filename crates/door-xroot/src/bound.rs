//! A further connection of a session: it takes no requests, and sends what the session's task hands to it.

use std::sync::Arc;

use net::Stream;

use crate::door::Shared;
use crate::sessions::Binding;

/// Serves a session until it ends or the client closes this connection.
pub(crate) async fn serve(door: &Arc<Shared>, mut stream: Stream, mut binding: Binding) {
    loop {
        let task = tokio::select! {
            task = binding.tasks.recv() => task,
            () = stream.peer_closed() => None,
        };
        let Some(task) = task else { break };
        if task.send(&mut stream, door.settings.events.as_ref()).await.is_err() {
            return;
        }
        if stream.flush().await.is_err() {
            return;
        }
    }
    // The client may be gone already; then there is nobody to say good-bye to.
    let _ = stream.close().await;
}
