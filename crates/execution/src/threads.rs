//! Single threads, and the blocking pool of the current runtime.

use std::io;

use tokio::task::JoinHandle;
use types::{Error, ErrorCode, Phase, Result, Side};

/// Starts a thread for one long job, or one without a waiting caller.
///
/// # Errors
/// The system gives no more threads.
pub fn start_thread(name: &str, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(job).map(drop)
}

/// Runs what blocks or calculates for long on the blocking pool of the current runtime, to its end
/// even when the handle is dropped. The handle gives an error when the work panicked.
///
/// # Panics
/// When this is not called on a runtime.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}

/// The same for work that can fail; work that panicked is an `internal` error of that side and
/// phase.
///
/// # Errors
/// Those of the work; `internal`.
///
/// # Panics
/// When this is not called on a runtime.
pub async fn blocking_try<T: Send + 'static>(
    side: Side,
    phase: Phase,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = blocking(work).await;
    done.unwrap_or_else(|cause| Err(Error::new(ErrorCode::Internal, side, phase).with_private(cause)))
}
