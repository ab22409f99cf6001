//! What is left of a copy that was ended from outside: by an interrupt or a time limit.

use std::sync::Arc;
use std::time::Instant;

use types::{Error, Phase};

use crate::engine::remains::{self, FailedCopy, Writer};
use crate::engine::{Sink, Source};
use crate::progress::Progress;
use crate::third_party::part_bytes_max;

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
    let whole_bytes = progress.total_bytes();
    let failed = FailedCopy {
        error: &error,
        writer: Writer::Ourselves,
        is_refused: false,
        has_left: false,
        created: progress.created(),
        begun: progress.begun(),
        ended: Instant::now(),
        was_absent,
        part_bytes_max: part_bytes_max(whole_bytes),
        is_longest_known: whole_bytes.is_some(),
        stored: None,
    };
    progress.enter(Phase::Cleanup);
    let left = remains::remove(sink, source, &failed).await;
    left.told(error, sink.location())
}
