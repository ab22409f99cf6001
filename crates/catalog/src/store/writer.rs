//! The thread that writes to SQLite.
//!
//! Operations that wait go into one transaction, each in a savepoint of its own, and are answered
//! when the transaction is on disk: one flush for many.

use std::fs::File;
use std::sync::Mutex;
use std::time::Instant;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};
use types::{Error, ErrorCode, Result};

use super::sqlite::{SqliteTransaction, batch, run};
use super::{Operation, failure, stopped};
use crate::limits::{COMMIT_OPERATIONS_MAX, COMMIT_TIME_MAX, WRITE_QUEUE_MAX};

/// Hands operations to the thread.
pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Queued>>>>,
    has_ended: watch::Receiver<bool>,
}

/// An operation in the queue, and its caller.
trait Queued: Send {
    /// Runs the operation, and keeps its result.
    fn run(&mut self, transaction: &mut SqliteTransaction<'_>) -> Result<()>;
    /// Tells the caller: the result, or why the transaction failed.
    fn answer(self: Box<Self>, committed: Result<()>);
}

struct Entry<T, O> {
    operation: O,
    result: Option<Result<T>>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T: Send, O: Operation<T>> Queued for Entry<T, O> {
    fn run(&mut self, transaction: &mut SqliteTransaction<'_>) -> Result<()> {
        let result = run(&self.operation, transaction);
        let outcome = result.as_ref().map(|_| ()).map_err(Error::clone);
        self.result = Some(result);
        outcome
    }

    fn answer(self: Box<Self>, committed: Result<()>) {
        let result = match (committed, self.result) {
            // Its own error says more than that of the transaction.
            (_, Some(Err(error))) | (Err(error), _) => Err(error),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(failure(ErrorCode::Internal)),
        };
        // The caller may have gone.
        let _ = self.caller.send(result);
    }
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(connection: Connection, lock: File, changes: watch::Sender<u64>) -> Result<Self> {
        let (queue, operations) = mpsc::channel(WRITE_QUEUE_MAX);
        let (ended, has_ended) = watch::channel(false);
        let work = move || {
            write_all(connection, operations, &changes);
            drop(lock);
            ended.send_replace(true);
        };
        execution::start_thread("catalog", work)
            .map_err(|error| failure(ErrorCode::CatalogUnavailable).with_private(error))?;
        Ok(Self {
            queue: Mutex::new(Some(queue)),
            has_ended,
        })
    }

    fn queue(&self) -> Option<mpsc::Sender<Box<dyn Queued>>> {
        self.queue.lock().ok().and_then(|queue| queue.clone())
    }

    pub(super) async fn run<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T> {
        let queue = self.queue().ok_or_else(stopped)?;
        let (caller, result) = oneshot::channel();
        let entry = Box::new(Entry {
            operation,
            result: None,
            caller,
        });
        queue.send(entry).await.map_err(|_| stopped())?;
        drop(queue);
        result.await.map_err(|_| stopped())?
    }

    /// Lets the thread end after what is queued, and waits for it.
    pub(super) async fn close(&self) {
        if let Ok(mut queue) = self.queue.lock() {
            queue.take();
        }
        let mut has_ended = self.has_ended.clone();
        // An error: the thread has ended without a word.
        let _ = has_ended.wait_for(|ended| *ended).await;
    }
}

fn write_all(
    mut connection: Connection,
    mut operations: mpsc::Receiver<Box<dyn Queued>>,
    changes: &watch::Sender<u64>,
) {
    while let Some(first) = operations.blocking_recv() {
        let mut entries = Vec::new();
        let outcome = write_together(&mut connection, first, &mut operations, &mut entries);
        if outcome.is_err() && !connection.is_autocommit() {
            // It fails only if the transaction has ended already.
            let _ = batch(&connection, "ROLLBACK");
        }
        if matches!(outcome, Ok(true)) {
            changes.send_modify(|count| *count = count.wrapping_add(1));
        }
        for entry in entries {
            entry.answer(outcome.as_ref().map(|_| ()).map_err(Error::clone));
        }
    }
}

/// One transaction. Returns whether it has news for others.
fn write_together(
    connection: &mut Connection,
    first: Box<dyn Queued>,
    operations: &mut mpsc::Receiver<Box<dyn Queued>>,
    entries: &mut Vec<Box<dyn Queued>>,
) -> Result<bool> {
    let started = Instant::now();
    let mut has_news = false;
    let mut next = Some(first);
    let begun = batch(connection, "BEGIN IMMEDIATE");
    while let Some(entry) = next.take() {
        entries.push(entry);
        if let Some(entry) = entries.last_mut().filter(|_| begun.is_ok()) {
            has_news |= write_one(connection, entry.as_mut())?;
        }
        if entries.len() < COMMIT_OPERATIONS_MAX && started.elapsed() < COMMIT_TIME_MAX {
            next = operations.try_recv().ok();
        }
    }
    begun?;
    batch(connection, "COMMIT")?;
    Ok(has_news)
}

/// One operation within the transaction. It fails only if the whole transaction does.
fn write_one(connection: &mut Connection, entry: &mut dyn Queued) -> Result<bool> {
    batch(connection, "SAVEPOINT operation")?;
    let mut transaction = SqliteTransaction::new(connection);
    let outcome = entry.run(&mut transaction);
    let has_news = transaction.has_news && outcome.is_ok();
    match outcome {
        Ok(()) => batch(connection, "RELEASE operation")?,
        // With a full disk SQLite itself may roll all back.
        Err(error) if connection.is_autocommit() => return Err(error),
        Err(_) => batch(connection, "ROLLBACK TO operation; RELEASE operation")?,
    }
    Ok(has_news)
}
