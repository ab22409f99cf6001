//! Jobs that have ended move to the history, and are forgotten at last.

use schedule::FileId;
use types::Result;

use super::long_change::{LongChange, LongChangeKind, note};
use super::page::{read_summary, select_summary};
use super::read::{SELECT_FILE, read_file};
use crate::Catalog;
use crate::limits::RETIRED_FILES_MAX;
use crate::store::{Transaction, Value};

impl Catalog {
    /// Moves jobs that ended before a time to the history: at most `limit`, and no further one
    /// after [`RETIRED_FILES_MAX`] files. They are still read and listed as before. Large jobs move
    /// in several transactions. Returns how many.
    ///
    /// # Errors
    /// Those of the database. A large job may move later then.
    pub async fn retire(&self, before_ms: i64, limit: usize) -> Result<usize> {
        let (jobs, large) = self
            .write(move |transaction| Box::pin(retire(transaction, before_ms, limit)))
            .await?;
        for change in large {
            self.complete(change, before_ms).await?;
            let kind = LongChangeKind::Removal;
            self.complete(LongChange { kind, ..change }, before_ms).await?;
        }
        Ok(jobs)
    }

    /// Forgets jobs of the history that ended before a time, at most so many. Returns how many.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn prune_history(&self, before_ms: i64, limit: usize) -> Result<usize> {
        self.write(move |transaction| {
            Box::pin(async move {
                let sql = "SELECT id FROM job_history WHERE finished_ms < $1 \
                    ORDER BY finished_ms, id LIMIT $2 {lock_free}";
                let parameters = [before_ms.into(), Value::from(limit as i64)];
                let mut rows = transaction.query(sql, &parameters).await?;
                let mut jobs: Vec<Vec<Value>> = Vec::with_capacity(rows.len());
                for row in &mut rows {
                    jobs.push(vec![row.integer()?.into()]);
                }
                for sql in [
                    "DELETE FROM attempt WHERE file IN (SELECT id FROM file_history WHERE job = $1)",
                    "DELETE FROM file_history WHERE job = $1",
                    "DELETE FROM submission_key WHERE job = (SELECT uuid FROM job_history WHERE id = $1)",
                    "DELETE FROM job_history WHERE id = $1",
                ] {
                    transaction.execute_each(sql, &jobs).await?;
                }
                Ok(jobs.len())
            })
        })
        .await
    }
}

/// Returns how many jobs move, and those that have only begun to.
async fn retire(transaction: &mut dyn Transaction, before_ms: i64, limit: usize) -> Result<(usize, Vec<LongChange>)> {
    let sql = "SELECT id, files FROM job WHERE state > 4 AND finished_ms < $1 \
        AND NOT EXISTS (SELECT 1 FROM long_change c WHERE c.job = job.id) \
        ORDER BY finished_ms, id LIMIT $2 {lock_free}";
    let parameters = [before_ms.into(), Value::from(limit as i64)];
    let mut rows = transaction.query(sql, &parameters).await?;
    let (mut jobs, mut files, mut large) = (0, 0, Vec::new());
    for row in &mut rows {
        if files >= RETIRED_FILES_MAX {
            break;
        }
        let (job, count) = (row.integer()?, row.integer()?);
        jobs += 1;
        if count > RETIRED_FILES_MAX {
            let kind = LongChangeKind::Retirement;
            note(transaction, LongChange { job, kind }, "", before_ms).await?;
            large.push(LongChange { job, kind });
            break;
        }
        retire_files(transaction, job, FileId(0), usize::MAX).await?;
        retire_job(transaction, job).await?;
        remove_files(transaction, job, i64::MAX).await?;
        files += count;
    }
    Ok((jobs, large))
}

/// Copies files of a job to the history, those after one. Returns the last of them if there may be
/// more.
pub(super) async fn retire_files(
    transaction: &mut dyn Transaction,
    job: i64,
    after: FileId,
    limit: usize,
) -> Result<Option<FileId>> {
    let sql = format!("{SELECT_FILE} WHERE f.job = $1 AND f.id > $2 ORDER BY f.id LIMIT $3");
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = transaction
        .query(&sql, &[job.into(), after.into(), most.into()])
        .await?;
    let mut last = None;
    let mut records = Vec::with_capacity(rows.len());
    for row in &mut rows {
        let mut record = read_file(row)?.record;
        // No copy needs it any more.
        record.options.source_query = None;
        record.options.destination_query = None;
        last = Some(record.id);
        records.push(vec![record.id.into(), Value::json(&record)?]);
    }
    let sql = "INSERT INTO file_history (id, job, state, queue, record) \
        SELECT id, job, state, queue, CAST($2 AS TEXT) FROM file WHERE id = $1 ON CONFLICT (id) DO NOTHING";
    transaction.execute_each(sql, &records).await?;
    Ok(last.filter(|_| records.len() == limit))
}

/// Moves a job to the history, where its files are. From here on they are read there.
pub(super) async fn retire_job(transaction: &mut dyn Transaction, number: i64) -> Result<()> {
    let id = [number.into()];
    let sql = format!("{} WHERE j.id = $1", select_summary());
    let mut rows = transaction.query(&sql, &id).await?;
    for row in &mut rows {
        let record = Value::json(&read_summary(row)?.summary)?;
        let sql = "INSERT INTO job_history (id, uuid, state, user_name, delegation, vo, source, destination, \
            submitted_ms, finished_ms, record) SELECT id, uuid, state, user_name, delegation, vo, source, \
            destination, submitted_ms, finished_ms, CAST($2 AS TEXT) FROM job WHERE id = $1";
        transaction.execute(sql, &[number.into(), record]).await?;
    }
    for sql in ["DELETE FROM job_body WHERE job = $1", "DELETE FROM job WHERE id = $1"] {
        transaction.execute(sql, &id).await?;
    }
    Ok(())
}

/// Removes the first files of a job that has no row any more. Returns how many rows.
pub(super) async fn remove_files(transaction: &mut dyn Transaction, job: i64, limit: i64) -> Result<u64> {
    let mut removed = 0;
    for sql in [
        "DELETE FROM file_body WHERE file IN (SELECT id FROM file WHERE job = $1 ORDER BY id LIMIT $2)",
        "DELETE FROM file WHERE id IN (SELECT id FROM file WHERE job = $1 ORDER BY id LIMIT $2)",
    ] {
        removed += transaction.execute(sql, &[job.into(), limit.into()]).await?;
    }
    Ok(removed)
}
