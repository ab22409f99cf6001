//! Single threads, and the blocking pool of the current runtime.

use std::io;

use tokio::task::JoinHandle;

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
