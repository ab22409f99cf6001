//! Files of workers that give no sign of life.

use std::sync::Arc;
use std::time::Duration;

use schedule::{FileEvent, FileId, FileState};
use types::Result;

use crate::Catalog;
use crate::limits::SWEEP_FILES_MAX;
use crate::store::{Row, Transaction, Value};
use crate::work::{Change, Work};

/// A worker's last sign of life.
///
/// Clocks of different machines differ, and any may jump. So compare what you see now with what you
/// saw before, by a clock that does not jump, and never with the time of day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The worker.
    pub worker: String,
    /// Until when its files are its own, by its own clock.
    pub lease_ms: i64,
    /// How long that was when it gave the sign. 0: it has left.
    pub length: Duration,
}

/// What lost workers have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Files that can be claimed again: their copy had not begun.
    pub requeued: usize,
    /// Files whose copy had begun. They are still `Active`: [`Catalog::advance`] them with
    /// [`FileEvent::WorkerLost`].
    pub files: Vec<LostFile>,
}

/// A file whose worker was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFile {
    /// The file.
    pub file: FileId,
    /// The worker that had it.
    pub worker: String,
}

impl Catalog {
    /// Requeues or reports the files of workers that have given no sign of life since these leases
    /// were read. A worker that has is left alone.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn lose_workers(&self, silent: Vec<Lease>, now_ms: i64) -> Result<Lost> {
        let silent = Arc::new(silent);
        self.write(move |transaction| {
            let silent = Arc::clone(&silent);
            Box::pin(async move { lose_workers(transaction, &silent, now_ms).await })
        })
        .await
    }
}

pub(super) async fn leases(transaction: &mut dyn Transaction) -> Result<Vec<Lease>> {
    let sql = "SELECT n.text, w.lease_ms, w.lease_ms - w.beat_ms FROM worker w JOIN word n ON n.id = w.name \
        WHERE EXISTS (SELECT 1 FROM file f WHERE f.worker = w.name AND f.state IN (8, 9)) ORDER BY n.text";
    let mut rows = transaction.query(sql, &[]).await?;
    let read = |row: &mut Row| {
        Ok(Lease {
            worker: row.text()?,
            lease_ms: row.integer()?,
            length: Duration::from_millis(u64::try_from(row.integer()?).unwrap_or(0)),
        })
    };
    rows.iter_mut().map(read).collect()
}

async fn lose_workers(transaction: &mut dyn Transaction, silent: &[Lease], now_ms: i64) -> Result<Lost> {
    let mut lost = Lost::default();
    let mut work = Work::new(transaction, now_ms);
    for lease in silent {
        let sql = "SELECT name FROM worker WHERE name = (SELECT id FROM word WHERE text = $1) \
            AND lease_ms = $2 {lock}";
        let parameters = [Value::from(lease.worker.as_str()), lease.lease_ms.into()];
        let mut rows = work.transaction.query(sql, &parameters).await?;
        let Some(row) = rows.first_mut() else { continue };
        let number = row.integer()?;
        let files = "worker = $1 AND state IN (8, 9) ORDER BY id LIMIT $2 {lock}";
        let parameters = [number.into(), Value::from(SWEEP_FILES_MAX as i64)];
        for file in work.select_files(files, &parameters).await? {
            if file.state == FileState::Ready {
                work.step(&file, FileEvent::WorkerLost, Change::default())?;
                lost.requeued += 1;
                continue;
            }
            lost.files.push(LostFile {
                file: file.id,
                worker: lease.worker.clone(),
            });
        }
    }
    if lost.requeued > 0 {
        work.transaction.order_events().await?;
    }
    work.settle().await?;
    Ok(lost)
}
