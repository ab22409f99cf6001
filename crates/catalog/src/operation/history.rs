//! Jobs that have ended move to the history, and are forgotten at last.

use schedule::FileId;
use types::Result;

use super::page::{read_summary, select_summary};
use super::read::{SELECT_FILE, read_file};
use crate::Catalog;
use crate::limits::RETIRED_FILES_MAX;
use crate::store::{Transaction, Value};

impl Catalog {
    /// Moves jobs that ended before a time to the history: at most `limit`, and no further one
    /// after [`RETIRED_FILES_MAX`] files. They are still read and listed as before. Returns how
    /// many.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn retire(&self, before_ms: i64, limit: usize) -> Result<usize> {
        self.write(move |transaction| {
            Box::pin(async move {
                let sql = "SELECT id, files FROM job WHERE state > 4 AND finished_ms < $1 \
                    ORDER BY finished_ms, id LIMIT $2 {lock_free}";
                let parameters = [before_ms.into(), Value::from(limit as i64)];
                let mut rows = transaction.query(sql, &parameters).await?;
                let (mut jobs, mut files) = (0, 0);
                for row in &mut rows {
                    if files >= RETIRED_FILES_MAX {
                        break;
                    }
                    retire(transaction, row.integer()?).await?;
                    files += row.integer()?;
                    jobs += 1;
                }
                Ok(jobs)
            })
        })
        .await
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

async fn retire(transaction: &mut dyn Transaction, number: i64) -> Result<()> {
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
    let sql = format!("{SELECT_FILE} WHERE f.job = $1");
    let mut rows = transaction.query(&sql, &id).await?;
    let mut records = Vec::with_capacity(rows.len());
    let mut files: Vec<Vec<Value>> = Vec::with_capacity(rows.len());
    for row in &mut rows {
        let mut record = read_file(row)?.record;
        // No copy needs it any more.
        record.options.source_query = None;
        record.options.destination_query = None;
        let FileId(file) = record.id;
        files.push(vec![file.into()]);
        records.push(vec![file.into(), Value::json(&record)?]);
    }
    let sql = "INSERT INTO file_history (id, job, state, queue, record) \
        SELECT id, job, state, queue, CAST($2 AS TEXT) FROM file WHERE id = $1";
    transaction.execute_each(sql, &records).await?;
    let sql = "DELETE FROM file_body WHERE file = $1";
    transaction.execute_each(sql, &files).await?;
    for sql in [
        "DELETE FROM file WHERE job = $1",
        "DELETE FROM job_body WHERE job = $1",
        "DELETE FROM job WHERE id = $1",
    ] {
        transaction.execute(sql, &id).await?;
    }
    Ok(())
}
