//! Single threads, and the blocking pool of the current runtime.

use std::io;

use tokio::task::JoinError;

/// Starts a thread for one job that lasts, or that nobody waits for.
///
/// # Errors
/// The system gives no more threads.
pub fn start_thread(name: &str, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(job).map(drop)
}

/// Runs what blocks or calculates for long on the blocking pool of the current runtime. It runs to its end even when the
/// future is dropped.
///
/// # Errors
/// When it panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(work).await
}
