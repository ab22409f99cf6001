//! Lists in pages: each job once, also while jobs move to the history.

use std::collections::BTreeSet;
use std::sync::Arc;

use schedule::{JobId, JobTally};
use serde::{Deserialize, Serialize};
use types::Result;

use super::list::{JobFilter, job_conditions};
use super::read::{SELECT_FILE, SELECT_JOB, read_file, read_job};
use crate::Catalog;
use crate::job::{FileRecord, JobRecord};
use crate::limits::LISTED_MAX;
use crate::store::{Row, Transaction, Value};
use crate::work::read_tally;

/// A job with the number of its files by state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The job.
    #[serde(flatten)]
    pub record: JobRecord,
    /// Its files.
    #[serde(default)]
    pub tally: JobTally,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The entries, in order.
    pub items: Vec<T>,
    /// Where the next page begins; `None`: this was the last.
    pub next: Option<i64>,
}

impl Catalog {
    /// A page of jobs, the newest first. `before` is the end of the page before.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn page_jobs(&self, filter: &JobFilter, before: Option<i64>) -> Result<Page<JobSummary>> {
        let filter = Arc::new(filter.clone());
        self.read_list(move |transaction| {
            let filter = Arc::clone(&filter);
            Box::pin(async move { page_jobs(transaction, &filter, before).await })
        })
        .await
    }

    /// A page of the files of a job, in the order of submission; empty if it does not exist.
    /// `after` is the end of the page before.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn page_files(&self, job: JobId, after: Option<i64>, limit: usize) -> Result<Page<FileRecord>> {
        self.read(move |transaction| Box::pin(page_files(transaction, job, after, limit)))
            .await
    }

    /// A job with the number of its files by state.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn summary(&self, job: JobId) -> Result<Option<JobSummary>> {
        self.read(move |transaction| {
            Box::pin(async move {
                let sql = format!("{} WHERE j.uuid = $1", select_summary());
                let mut rows = transaction.query(&sql, &[job.into()]).await?;
                if let Some(row) = rows.first_mut() {
                    return read_summary(row).map(|found| Some(found.summary));
                }
                let sql = "SELECT record FROM job_history WHERE uuid = $1";
                let mut rows = transaction.query(sql, &[job.into()]).await?;
                rows.first_mut().map(Row::json).transpose()
            })
        })
        .await
    }
}

/// A summary with the number of its row.
pub(super) struct Numbered {
    number: i64,
    pub(super) summary: JobSummary,
}

/// The columns of [`SELECT_JOB`], and those of the tally.
pub(super) fn select_summary() -> String {
    let tally = ", j.staging, j.waiting, j.unused, j.running, j.archiving, j.finished, j.failed, j.canceled FROM job j";
    SELECT_JOB.replacen(" FROM job j", tally, 1)
}

pub(super) fn read_summary(row: &mut Row) -> Result<Numbered> {
    let job = read_job(row)?;
    let tally = read_tally(row)?;
    Ok(Numbered {
        number: job.number,
        summary: JobSummary {
            record: job.record,
            tally,
        },
    })
}

async fn page_jobs(
    transaction: &mut dyn Transaction,
    filter: &JobFilter,
    before: Option<i64>,
) -> Result<Page<JobSummary>> {
    let limit = filter.limit.min(LISTED_MAX);
    let before = before.unwrap_or(i64::MAX);
    let tail = |alias: &str| {
        let mut conditions = job_conditions(filter, alias);
        let mark = conditions.parameter(before);
        conditions.add(format!("{alias}.id < {mark}"));
        let clause = conditions.clause();
        let mark = conditions.parameter(limit as i64 + 1);
        let text = format!("{clause} ORDER BY {alias}.id DESC LIMIT {mark}");
        (text, conditions.parameters)
    };
    // First the table that jobs leave: one that moves meanwhile is seen twice, never missed.
    let (text, parameters) = tail("j");
    let sql = format!("{}{text}", select_summary());
    let mut found = Vec::new();
    for row in &mut transaction.query(&sql, &parameters).await? {
        found.push(read_summary(row)?);
    }
    let wants_past = filter.states.is_empty() || filter.states.iter().any(|state| state.is_terminal());
    if wants_past {
        let seen: BTreeSet<i64> = found.iter().map(|job| job.number).collect();
        let (text, parameters) = tail("h");
        let sql = format!("SELECT h.id, h.record FROM job_history h{text}");
        for row in &mut transaction.query(&sql, &parameters).await? {
            let number = row.integer()?;
            if !seen.contains(&number) {
                let summary = row.json()?;
                found.push(Numbered { number, summary });
            }
        }
    }
    found.sort_by_key(|job| std::cmp::Reverse(job.number));
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|job| job.number);
    let items = found.into_iter().map(|job| job.summary).collect();
    Ok(Page { items, next })
}

async fn page_files(
    transaction: &mut dyn Transaction,
    job: JobId,
    after: Option<i64>,
    limit: usize,
) -> Result<Page<FileRecord>> {
    let limit = limit.min(LISTED_MAX);
    let parameters = [
        job.into(),
        Value::from(after.unwrap_or(i64::MIN)),
        Value::from(limit as i64 + 1),
    ];
    let sql = format!("{SELECT_FILE} WHERE j.uuid = $1 AND f.id > $2 ORDER BY f.id LIMIT $3");
    let mut rows = transaction.query(&sql, &parameters).await?;
    let files = rows.iter_mut().map(|row| read_file(row).map(|file| file.record));
    let mut items: Vec<FileRecord> = files.collect::<Result<_>>()?;
    if items.is_empty() {
        // The job is in the history with all of its files, or this was the last page.
        let sql = "SELECT f.record FROM job_history j JOIN file_history f ON f.job = j.id \
            WHERE j.uuid = $1 AND f.id > $2 ORDER BY f.id LIMIT $3";
        let mut rows = transaction.query(sql, &parameters).await?;
        items = rows.iter_mut().map(Row::json).collect::<Result<_>>()?;
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|file| file.id.0);
    Ok(Page { items, next })
}
