//! The threads that read from SQLite, each with a connection of its own.
//!
//! They are few and belong to the database. On the pool for blocking work a read would wait behind
//! whatever else blocks there, such as look-ups of names, and each of its many threads would keep
//! the memory of the largest result that it ever had.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::{mpsc, oneshot};
use types::{ErrorCode, Result};

use super::sqlite::{SqliteTransaction, batch, connect, run};
use super::{Operation, failure, stopped};
use crate::limits::{READ_QUEUE_MAX, READERS_MAX};

type Job = Box<dyn FnOnce(&mut Reader) + Send>;

/// Hands operations to the threads.
pub(super) struct Readers(mpsc::Sender<Job>);

/// A connection, opened when it is first needed, and again after a failure or a panic.
struct Reader {
    path: PathBuf,
    connection: Option<Connection>,
}

impl Readers {
    /// Starts the threads. They end with this, after what is queued.
    pub(super) fn start(path: &Path) -> Result<Self> {
        let (queue, jobs) = mpsc::channel::<Job>(READ_QUEUE_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 0..READERS_MAX {
            let jobs = Arc::clone(&jobs);
            let reader = Reader {
                path: path.to_owned(),
                connection: None,
            };
            execution::start_thread(&format!("catalog-read-{number}"), move || serve(reader, &jobs))
                .map_err(|error| failure(ErrorCode::CatalogUnavailable).with_private(error))?;
        }
        Ok(Self(queue))
    }

    /// Runs an operation that only reads, when a thread is free.
    pub(super) async fn run<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        let (caller, result) = oneshot::channel();
        let job: Job = Box::new(move |reader: &mut Reader| {
            // The caller may have gone; then nothing is read for it.
            if !caller.is_closed() {
                let _ = caller.send(reader.read(&operation));
            }
        });
        self.0.send(job).await.map_err(|_| stopped())?;
        result.await.map_err(|_| stopped())?
    }
}

/// One thread waits for the next job, and the others for it.
fn serve(mut reader: Reader, jobs: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(job) = job else { return };
        // A panic drops the connection, which is in the middle of a transaction then.
        let _ = catch_unwind(AssertUnwindSafe(|| job(&mut reader)));
    }
}

impl Reader {
    /// Reads in a transaction. A connection that cannot begin or end one is not used again.
    fn read<T>(&mut self, operation: &impl Operation<T>) -> Result<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(
                &self.path,
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?,
        };
        batch(&connection, "BEGIN")?;
        let result = run(operation, &mut SqliteTransaction::new(&mut connection));
        batch(&connection, "COMMIT")?;
        self.connection = Some(connection);
        result
    }
}
