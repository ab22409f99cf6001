//! What time brings: retries, files that have waited too long, silent workers.

use schedule::{FileId, JobId};
use types::Result;

use super::long_change::NOT_ADMITTED_MS;
use super::lost::{Lease, leases};
use crate::Catalog;
use crate::limits::SWEEP_FILES_MAX;
use crate::store::{Row, Transaction, Value};
use crate::work::{Change, Work};

/// What was due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Files that can be claimed again, because their retry is due.
    pub requeued: usize,
    /// Files that still wait after the end of their time in the queue. They have not changed: give
    /// them up by [`Catalog::advance`] with a reason.
    pub expired: Vec<ExpiredFile>,
    /// The last sign of life of each worker that has files.
    pub leases: Vec<Lease>,
    /// When something is due next; `None`: never, as things are. Not later than now if this call
    /// has reached a limit.
    pub next_ms: Option<i64>,
}

/// A file that has waited too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiredFile {
    /// The file.
    pub file: FileId,
    /// Its job.
    pub job: JobId,
}

impl Catalog {
    /// Requeues what can be claimed again, and reports what the caller must decide. What waits for
    /// a time later than `horizon_ms` is due too: no wait is so long, so the clock was set back.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn due(&self, now_ms: i64, horizon_ms: i64) -> Result<Due> {
        self.write(move |transaction| Box::pin(due(transaction, now_ms, horizon_ms)))
            .await
    }
}

async fn due(transaction: &mut dyn Transaction, now_ms: i64, horizon_ms: i64) -> Result<Due> {
    let mut due = Due::default();
    let mut work = Work::new(transaction, now_ms);
    // Files that are staged are asked for again at their time, without a change here.
    let retries = "due_ms <= $1 AND state = 4 ORDER BY due_ms, id LIMIT $2 {lock_free}";
    let beyond = format!(
        "due_ms > $1 AND due_ms < {NOT_ADMITTED_MS} AND state IN (2, 4) ORDER BY due_ms, id LIMIT $2 {{lock_free}}"
    );
    for (condition, time_ms) in [(retries, now_ms), (beyond.as_str(), horizon_ms)] {
        let limit = SWEEP_FILES_MAX.saturating_sub(due.requeued) as i64;
        for file in work.select_files(condition, &[time_ms.into(), limit.into()]).await? {
            work.change(&file, file.state, Change::default())?;
            due.requeued += 1;
        }
    }
    if due.requeued > 0 {
        // A retry that is due changes no state, but others may claim the file now.
        work.transaction.order_events().await?;
    }
    work.settle().await?;
    due.expired = expired(transaction, now_ms).await?;
    due.leases = leases(transaction).await?;
    let is_full = due.requeued.max(due.expired.len()) >= SWEEP_FILES_MAX;
    due.next_ms = match is_full {
        true => Some(now_ms),
        false => next(transaction, now_ms).await?,
    };
    Ok(due)
}

async fn expired(transaction: &mut dyn Transaction, now_ms: i64) -> Result<Vec<ExpiredFile>> {
    let sql = "SELECT f.id, j.uuid FROM job j JOIN file f ON f.job = j.id WHERE j.expires_ms <= $1 \
        AND j.state <= 4 AND j.waiting + j.staging > 0 AND f.state <= 6 ORDER BY j.expires_ms, f.id LIMIT $2";
    let parameters = [now_ms.into(), Value::from(SWEEP_FILES_MAX as i64)];
    let mut rows = transaction.query(sql, &parameters).await?;
    let read = |row: &mut Row| {
        Ok(ExpiredFile {
            file: FileId(row.integer()?),
            job: row.job_id()?,
        })
    };
    rows.iter_mut().map(read).collect()
}

/// The earliest time at which something is due.
async fn next(transaction: &mut dyn Transaction, now_ms: i64) -> Result<Option<i64>> {
    let sql = "SELECT MIN(due_ms) FROM file WHERE due_ms IS NOT NULL AND state = 4 UNION ALL \
        SELECT MIN(expires_ms) FROM job WHERE expires_ms IS NOT NULL AND state <= 4 AND expires_ms > $1";
    let mut rows = transaction.query(sql, &[now_ms.into()]).await?;
    let times = rows.iter_mut().map(Row::optional_integer).collect::<Result<Vec<_>>>()?;
    Ok(times.into_iter().flatten().min())
}
