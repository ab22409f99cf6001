//! Listings of jobs and files.

use std::sync::Arc;

use schedule::storage::{authority, host};
use schedule::{FileState, JobState};
use types::Result;

use super::read::{SELECT_FILE, SELECT_JOB, read_file, read_job};
use crate::Catalog;
use crate::job::{FileRecord, JobRecord};
use crate::limits::LISTED_MAX;
use crate::store::{Row, Transaction, Value};

/// Which jobs are listed: those for which all given parts hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Jobs of this user.
    pub user: Option<String>,
    /// Jobs with this delegated credential.
    pub delegation_id: Option<String>,
    /// Jobs of this virtual organisation.
    pub vo: Option<String>,
    /// Jobs in one of these states; empty: in any.
    pub states: Vec<JobState>,
    /// Jobs whose files come from this storage, under any scheme, with or without port.
    pub source_storage: Option<String>,
    /// Jobs whose files go to this storage, under any scheme, with or without port.
    pub destination_storage: Option<String>,
    /// Jobs that live, or ended later than this.
    pub since_ms: Option<i64>,
    /// So many at most, the newest first. Bounded by [`LISTED_MAX`].
    pub limit: usize,
}

/// Which files are listed: those for which all given parts hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFilter {
    /// Files of this virtual organisation.
    pub vo: Option<String>,
    /// Files in one of these states; empty: in any.
    pub states: Vec<FileState>,
    /// Files from this storage, under any scheme, with or without port.
    pub source_storage: Option<String>,
    /// Files to this storage, under any scheme, with or without port.
    pub destination_storage: Option<String>,
    /// Files with this destination.
    pub destination: Option<String>,
    /// Files that live, or ended later than this.
    pub since_ms: Option<i64>,
    /// So many at most, the newest first. Bounded by [`LISTED_MAX`].
    pub limit: usize,
}

impl Catalog {
    /// Jobs, the newest first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn list_jobs(&self, filter: &JobFilter) -> Result<Vec<JobRecord>> {
        let filter = Arc::new(filter.clone());
        self.read_list(move |transaction| {
            let filter = Arc::clone(&filter);
            Box::pin(async move { list_jobs(transaction, &filter).await })
        })
        .await
    }

    /// Files, the newest first. Of files in the history, only the storages and the state are
    /// indexed: give `since_ms`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn list_files(&self, filter: &FileFilter) -> Result<Vec<FileRecord>> {
        let filter = Arc::new(filter.clone());
        self.read_list(move |transaction| {
            let filter = Arc::clone(&filter);
            Box::pin(async move { list_files(transaction, &filter).await })
        })
        .await
    }
}

/// Conditions that are joined by `AND`.
#[derive(Default)]
pub(super) struct Conditions {
    texts: Vec<String>,
    pub(super) parameters: Vec<Value>,
}

impl Conditions {
    /// Adds a parameter; returns its mark.
    pub(super) fn parameter(&mut self, value: impl Into<Value>) -> String {
        self.parameters.push(value.into());
        format!("${}", self.parameters.len())
    }

    pub(super) fn add(&mut self, text: String) {
        self.texts.push(text);
    }

    /// The column has the number of this word.
    pub(super) fn word(&mut self, column: &str, word: Option<&str>) {
        if let Some(word) = word {
            let mark = self.parameter(word);
            self.add(format!("{column} = (SELECT id FROM word WHERE text = {mark})"));
        }
    }

    /// The column has the number of this storage, named with or without port.
    pub(super) fn storage(&mut self, column: &str, storage: Option<&str>) {
        if let Some(storage) = storage {
            self.storages(&[column], storage);
        }
    }

    /// One of the columns has the number of this storage, under any scheme; without port: of the
    /// host, whatever the port.
    pub(super) fn storages(&mut self, columns: &[&str], storage: &str) {
        let named = authority(storage);
        let escaped = named.replace('!', "!!").replace('%', "!%").replace('_', "!_");
        let pattern = match named == host(storage) {
            true => format!("%://{escaped}:%"),
            false => format!("%://{escaped}"),
        };
        let (name, pattern) = (self.parameter(storage), self.parameter(pattern));
        let words = format!("(SELECT id FROM word WHERE text = {name} OR text LIKE {pattern} ESCAPE '!')");
        let any: Vec<String> = columns.iter().map(|column| format!("{column} IN {words}")).collect();
        self.add(format!("({})", any.join(" OR ")));
    }

    pub(super) fn states(&mut self, column: &str, numbers: impl Iterator<Item = i16>) {
        let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
        if !numbers.is_empty() {
            self.add(format!("{column} IN ({})", numbers.join(", ")));
        }
    }

    pub(super) fn clause(&self) -> String {
        match self.texts.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", self.texts.join(" AND ")),
        }
    }
}

pub(super) fn job_conditions(filter: &JobFilter, alias: &str) -> Conditions {
    let mut conditions = Conditions::default();
    let column = |name: &str| format!("{alias}.{name}");
    conditions.word(&column("user_name"), filter.user.as_deref());
    conditions.word(&column("delegation"), filter.delegation_id.as_deref());
    conditions.word(&column("vo"), filter.vo.as_deref());
    conditions.states(&column("state"), filter.states.iter().map(|state| state.number()));
    conditions.storage(&column("source"), filter.source_storage.as_deref());
    conditions.storage(&column("destination"), filter.destination_storage.as_deref());
    if let Some(since_ms) = filter.since_ms {
        let mark = conditions.parameter(since_ms);
        let finished = column("finished_ms");
        conditions.add(format!("({finished} IS NULL OR {finished} > {mark})"));
    }
    conditions
}

async fn list_jobs(transaction: &mut dyn Transaction, filter: &JobFilter) -> Result<Vec<JobRecord>> {
    let limit = filter.limit.min(LISTED_MAX);
    let mut conditions = job_conditions(filter, "j");
    let clause = conditions.clause();
    let mark = conditions.parameter(limit as i64);
    let sql = format!("{SELECT_JOB}{clause} ORDER BY j.id DESC LIMIT {mark}");
    let mut rows = transaction.query(&sql, &conditions.parameters).await?;
    let mut jobs = Vec::with_capacity(rows.len());
    for row in &mut rows {
        jobs.push(read_job(row)?.record);
    }
    let wants_past = filter.states.is_empty() || filter.states.iter().any(|state| state.is_terminal());
    if wants_past && jobs.len() < limit {
        let mut conditions = job_conditions(filter, "h");
        let clause = conditions.clause();
        let mark = conditions.parameter((limit - jobs.len()) as i64);
        let sql = format!("SELECT h.record FROM job_history h{clause} ORDER BY h.id DESC LIMIT {mark}");
        let mut rows = transaction.query(&sql, &conditions.parameters).await?;
        for row in &mut rows {
            jobs.push(row.json()?);
        }
    }
    Ok(jobs)
}

fn file_conditions(filter: &FileFilter, alias: &str) -> Conditions {
    let mut conditions = Conditions::default();
    conditions.states(
        &format!("{alias}.state"),
        filter.states.iter().map(|state| state.number()),
    );
    conditions.word("q.vo", filter.vo.as_deref());
    conditions.storage("q.source", filter.source_storage.as_deref());
    conditions.storage("q.destination", filter.destination_storage.as_deref());
    conditions
}

/// The statement that finds files that live, and its parameters.
fn live_files(filter: &FileFilter, limit: usize) -> (String, Vec<Value>) {
    let mut conditions = file_conditions(filter, "f");
    if let Some(destination) = &filter.destination {
        let mark = conditions.parameter(destination.as_str());
        conditions.add(format!("b.destination = {mark}"));
    }
    if let Some(since_ms) = filter.since_ms {
        let mark = conditions.parameter(since_ms);
        conditions.add(format!("(f.finished_ms IS NULL OR f.finished_ms > {mark})"));
    }
    let clause = conditions.clause();
    let mark = conditions.parameter(limit as i64);
    let sql = format!("{SELECT_FILE}{clause} ORDER BY f.id DESC LIMIT {mark}");
    (sql, conditions.parameters)
}

async fn list_files(transaction: &mut dyn Transaction, filter: &FileFilter) -> Result<Vec<FileRecord>> {
    let limit = filter.limit.min(LISTED_MAX);
    let (sql, parameters) = live_files(filter, limit);
    let mut rows = transaction.query(&sql, &parameters).await?;
    let mut files = Vec::with_capacity(rows.len());
    for row in &mut rows {
        files.push(read_file(row)?.record);
    }
    let wants_past = filter.states.is_empty() || filter.states.iter().any(|state| state.is_terminal());
    if wants_past && files.len() < limit {
        files.extend(list_past_files(transaction, filter, limit - files.len()).await?);
    }
    Ok(files)
}

async fn list_past_files(
    transaction: &mut dyn Transaction,
    filter: &FileFilter,
    limit: usize,
) -> Result<Vec<FileRecord>> {
    let mut conditions = file_conditions(filter, "h");
    if let Some(since_ms) = filter.since_ms {
        let mark = conditions.parameter(since_ms);
        conditions.add(format!("j.finished_ms > {mark}"));
    }
    let clause = conditions.clause();
    let mark = conditions.parameter(LISTED_MAX as i64);
    let sql = format!(
        "SELECT h.record FROM file_history h JOIN queue q ON q.id = h.queue JOIN job_history j ON j.id = h.job\
        {clause} ORDER BY h.id DESC LIMIT {mark}"
    );
    let mut rows = transaction.query(&sql, &conditions.parameters).await?;
    let files: Vec<FileRecord> = rows.iter_mut().map(Row::json).collect::<Result<_>>()?;
    let is_listed = |file: &FileRecord| {
        filter.destination.as_ref().is_none_or(|url| file.destination == *url)
            && filter
                .since_ms
                .is_none_or(|since| file.times.finished_ms.is_none_or(|end| end > since))
    };
    Ok(files.into_iter().filter(is_listed).take(limit).collect())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::limits::LISTINGS_MAX;

    #[tokio::test]
    async fn a_destination_is_found_by_its_index() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("queue.db");
        let catalog = Catalog::open_sqlite(&path).await.unwrap();
        let filter = FileFilter {
            vo: Some("atlas".to_owned()),
            states: vec![FileState::Submitted, FileState::Active],
            destination: Some("davs://b.example/x".to_owned()),
            since_ms: Some(1),
            ..FileFilter::default()
        };
        let (sql, _) = live_files(&filter, 10);
        let connection = rusqlite::Connection::open(&path).unwrap();
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = statement.raw_query();
        let mut plan = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            plan.push(row.get::<_, String>("detail").unwrap());
        }
        let is_found = plan
            .iter()
            .any(|step| step.starts_with("SEARCH b USING INDEX file_body_destination"));
        assert!(
            is_found && !plan.iter().any(|step| step.starts_with("SCAN")),
            "{plan:?}"
        );
        catalog.close().await;
    }

    #[tokio::test]
    async fn lists_leave_room_for_what_is_quick() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        let taken = catalog.listings.acquire_many(LISTINGS_MAX as u32).await.unwrap();
        let (files, jobs) = (FileFilter::default(), JobFilter::default());
        let lists = async { tokio::join!(catalog.list_files(&files), catalog.list_jobs(&jobs)) };
        let mut lists = pin!(lists);
        let waits = poll_fn(|context| Poll::Ready(lists.as_mut().poll(context).is_pending()));
        assert!(waits.await);
        assert_eq!(catalog.summary(schedule::JobId([1; 16])).await.unwrap(), None);
        drop(taken);
        let (files, jobs) = lists.await;
        assert!(files.unwrap().is_empty() && jobs.unwrap().is_empty());
    }
}
