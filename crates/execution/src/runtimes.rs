//! The runtimes of a server and of the commands.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::background::Background;
use crate::shared::Shared;
use crate::workers::{Rota, Workers};

/// Least number of threads that serve connections: one that waits for a disk must not stop all
/// others.
const WORKER_THREADS_MIN: usize = 2;

/// All threads of a server.
#[derive(Debug)]
pub struct ServerThreads {
    copies: Runtime,
    background: Background,
    workers: Workers,
}

impl ServerThreads {
    /// Starts, for this thread to block on, `workers` threads for connections (0: one for each
    /// processor, but at least two), as many for copies and for the background, and in each of the
    /// three at most `blocking` that wait for disks. Threads of long transfers are by `niceness`
    /// steps of nice(1) nicer than the process.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn start(workers: usize, blocking: usize, niceness: i32) -> io::Result<Self> {
        let (workers, blocking) = (or_processors(workers), blocking.max(1));
        let background = Background::start(workers, blocking, niceness)?;
        let shared = background.shared().clone();
        let copies = Builder::new_multi_thread()
            .worker_threads(workers)
            .max_blocking_threads(blocking)
            .thread_name("copies")
            .on_thread_start(move || shared.enter())
            .enable_all()
            .build()?;
        Ok(Self {
            copies,
            workers: Workers::start(workers, blocking, background.shared())?,
            background,
        })
    }

    /// Gives each connection its thread.
    #[must_use]
    pub fn rota(&self) -> Rota {
        self.workers.rota()
    }

    /// Counts the tasks on all of them.
    #[must_use]
    pub fn task_count(&self) -> TaskCount {
        let others = [self.copies.handle().clone(), self.background.handle()];
        let workers = self.workers.handles();
        TaskCount(others.into_iter().chain(workers).collect())
    }

    /// Runs a future on this thread; what it spawns runs on the threads for copies.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.copies.block_on(future)
    }

    /// Drops all tasks that are left, those of connections first, and waits for their clean-up, but
    /// no longer than this.
    pub fn shut_down(self, limit: Duration) {
        let end = Instant::now() + limit;
        let left = || end.saturating_duration_since(Instant::now());
        self.workers.shut_down(left());
        self.background.shut_down(left());
        self.copies.shutdown_timeout(left());
    }
}

fn or_processors(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism()
            .map_or(WORKER_THREADS_MIN, usize::from)
            .max(WORKER_THREADS_MIN),
        wanted => wanted,
    }
}

/// How many tasks a server has: one for each connection, each third-party copy, and each step that
/// runs beside its request.
#[derive(Clone, Debug)]
pub struct TaskCount(Arc<[Handle]>);

impl TaskCount {
    /// The tasks that have not ended. A long transfer counts twice while it runs in the background.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.iter().map(|runtime| runtime.metrics().num_alive_tasks()).sum()
    }
}

/// Where third-party copies run: the runtime on which this was made, whichever thread asks for a
/// copy later.
#[derive(Clone, Debug)]
pub struct CopyRuntime(Option<Handle>);

impl CopyRuntime {
    /// The current runtime; outside of one, that of the caller.
    #[must_use]
    pub fn here() -> Self {
        Self(Handle::try_current().ok())
    }

    /// Starts a copy there.
    ///
    /// # Panics
    /// When neither this was made nor is called on a runtime.
    pub fn spawn<F>(&self, copy: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        match &self.0 {
            Some(runtime) => runtime.spawn(copy),
            None => tokio::spawn(copy),
        }
    }
}

/// A runtime for a command that moves files: a thread for each processor.
///
/// # Errors
/// The system gives no more threads.
pub fn worker_runtime() -> io::Result<Runtime> {
    let shared = Shared::current();
    let entering = move || shared.enter();
    Builder::new_multi_thread()
        .on_thread_start(entering)
        .enable_all()
        .build()
}

/// A runtime for a command that only asks: it uses the thread that blocks on it.
///
/// # Errors
/// The system refuses what a runtime waits with.
pub fn single_thread_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_all_runtimes_are_counted_until_they_end() {
        let threads = ServerThreads::start(2, 2, 0).unwrap();
        let count = threads.task_count();
        let before = count.now();
        let rota = threads.rota();
        let waiting: Vec<JoinHandle<()>> = rota
            .runtimes()
            .map(|(_, runtime)| runtime.clone())
            .chain([threads.copies.handle().clone(), threads.background.handle()])
            .map(|runtime| runtime.spawn(std::future::pending()))
            .collect();
        assert_eq!((waiting.len(), count.now()), (4, before + 4));
        for task in waiting {
            task.abort();
            assert!(threads.block_on(task).unwrap_err().is_cancelled());
        }
        assert_eq!(count.now(), before);
        threads.shut_down(Duration::from_secs(1));
    }
}
