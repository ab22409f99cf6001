//! What is left of a copy that was ended from outside: by an interrupt or a time limit.

use std::sync::Arc;

use types::Error;

use crate::engine::{Sink, Source, remains};
use crate::progress::Progress;

/// Removes what the copy left at the sink, if it is proven ours. A server that still writes shows
/// by the growth of its file. Returns the error, with a word about a part that may be left.
///
/// `was_absent`: the destination reported before the copy that it had no such file. The copy must
/// have ended: its future is dropped.
pub async fn remove_stopped(
    source: &Arc<dyn Source>,
    sink: &dyn Sink,
    was_absent: bool,
    progress: &Progress,
    error: Error,
) -> Error {
    let left = remains::remove_ended(sink, source, progress, was_absent, &error).await;
    left.told(error, sink.location())
}
