//! Changes of files, and what follows from them, within one transaction.
//!
//! An operation locks the files that it changes, decides, and calls [`Work::change`]. Then
//! [`Work::settle`] writes the files, the tallies and states of their jobs, the counters of their
//! queues and the events. Locks are taken in one order: files, jobs, queues, events.

use std::collections::{BTreeMap, VecDeque};

use schedule::{Consequence, Entry, FileEvent, FileId, FileState, JobId, JobKind, JobState, JobTally};
use types::Result;

use crate::attempt::AttemptEnd;
use crate::hop::{Hop, HopPart};
use crate::job::Problem;
use crate::limits::{FIRST_ATTEMPTS_KEPT, LAST_ATTEMPTS_KEPT};
use crate::store::{Row, Transaction, Value, damaged};

/// Columns of [`FileRow`].
pub(crate) const FILE_ROW: &str = "id, job, state, queue, priority, due_ms, attempts, worker, home";

/// What decisions about a file need.
#[derive(Clone, Debug)]
pub(crate) struct FileRow {
    pub(crate) id: FileId,
    pub(crate) job: i64,
    pub(crate) state: FileState,
    pub(crate) queue: i64,
    pub(crate) priority: i64,
    pub(crate) due_ms: Option<i64>,
    pub(crate) attempts: i64,
    pub(crate) worker: Option<i64>,
    /// The queue in which it was submitted, if it went by a hop.
    pub(crate) home: Option<i64>,
}

impl FileRow {
    pub(crate) fn read(row: &mut Row) -> Result<Self> {
        Ok(Self {
            id: FileId(row.integer()?),
            job: row.integer()?,
            state: file_state(row)?,
            queue: row.integer()?,
            priority: row.integer()?,
            due_ms: row.optional_integer()?,
            attempts: row.integer()?,
            worker: row.optional_integer()?,
            home: row.optional_integer()?,
        })
    }
}

/// The state of a file in the next column.
pub(crate) fn file_state(row: &mut Row) -> Result<FileState> {
    let number = row.number()?;
    FileState::of_number(number).ok_or_else(|| damaged(&format!("no state of a file: {number}")))
}

/// The state of a job in the next column.
pub(crate) fn job_state(row: &mut Row) -> Result<JobState> {
    let number = row.number()?;
    JobState::of_number(number).ok_or_else(|| damaged(&format!("no state of a job: {number}")))
}

/// The kind of a job in the next column.
pub(crate) fn job_kind(row: &mut Row) -> Result<JobKind> {
    let letter = row.text()?;
    JobKind::of_letter(&letter).ok_or_else(|| damaged(&format!("no kind of a job: {letter}")))
}

/// What changes with the state of a file. Absent: it stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// Not before this time; absent: at once.
    pub(crate) due_ms: Option<i64>,
    pub(crate) worker: Option<i64>,
    pub(crate) counts_attempt: bool,
    /// An attempt that does not count: why the storage takes no work. The last one is kept until an
    /// attempt counts.
    pub(crate) held: Option<Problem>,
    pub(crate) problem: Option<Problem>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) moved_bytes: Option<u64>,
    pub(crate) way: Option<String>,
    pub(crate) report: Option<serde_json::Value>,
    pub(crate) request: Option<String>,
    /// Its worker was lost while it copied: 1, and 1 more for each later look that found what that
    /// may have left.
    pub(crate) interruption: Option<i64>,
    /// The attempt that ends with this change.
    pub(crate) ended: Option<AttemptEnd>,
    /// Where the file goes on its way by a hop.
    pub(crate) hop: Option<HopMove>,
}

/// A file goes to the queue of another link.
#[derive(Clone, Debug)]
pub(crate) struct HopMove {
    pub(crate) queue: i64,
    /// The queue in which it was submitted.
    pub(crate) home: i64,
    pub(crate) record: Hop,
}

/// How many files of a queue and priority are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) waiting: i64,
    pub(crate) delayed: i64,
    pub(crate) held: i64,
    pub(crate) active: i64,
}

impl Counts {
    fn add(&mut self, state: FileState, due_ms: Option<i64>, number: i64) {
        match state {
            FileState::Submitted if due_ms.is_none() => self.waiting += number,
            FileState::Submitted => self.delayed += number,
            FileState::OnHold => self.held += number,
            FileState::Ready | FileState::Active => self.active += number,
            _ => {}
        }
    }
}

/// A file that went from one state to another.
#[derive(Debug)]
struct Move {
    file: FileId,
    from: FileState,
    to: FileState,
    /// The attempt that has ended, as JSON.
    ended: Value,
}

/// What an event says of a file.
#[derive(Clone, Debug)]
pub(crate) struct NewState {
    id: FileId,
    state: FileState,
    ended: Value,
}

/// What happens to one job.
#[derive(Debug, Default)]
struct JobChange {
    moves: VecDeque<Move>,
    is_canceled: bool,
    reason: Option<String>,
}

struct JobRow {
    id: i64,
    uuid: JobId,
    kind: JobKind,
    state: JobState,
    vo: i64,
    tally: JobTally,
}

impl JobRow {
    const COLUMNS: &str =
        "id, uuid, kind, state, vo, staging, waiting, unused, running, archiving, finished, failed, canceled";

    fn read(row: &mut Row) -> Result<Self> {
        Ok(Self {
            id: row.integer()?,
            uuid: row.job_id()?,
            kind: job_kind(row)?,
            state: job_state(row)?,
            vo: row.integer()?,
            tally: read_tally(row)?,
        })
    }
}

/// The next columns of a row as a tally, in the order of the table.
pub(crate) fn read_tally(row: &mut Row) -> Result<JobTally> {
    Ok(JobTally {
        staging: row.number()?,
        waiting: row.number()?,
        unused: row.number()?,
        running: row.number()?,
        archiving: row.number()?,
        finished: row.number()?,
        failed: row.number()?,
        canceled: row.number()?,
    })
}

/// The columns of a tally, in the order of the table.
pub(crate) fn tally_columns(tally: &JobTally) -> [Value; 8] {
    [
        tally.staging,
        tally.waiting,
        tally.unused,
        tally.running,
        tally.archiving,
        tally.finished,
        tally.failed,
        tally.canceled,
    ]
    .map(Value::from)
}

/// A transaction with what is still to be written.
pub(crate) struct Work<'t> {
    pub(crate) transaction: &'t mut dyn Transaction,
    pub(crate) now_ms: i64,
    updates: Vec<Vec<Value>>,
    attempts: Vec<Vec<Value>>,
    /// Attempts that are no longer kept.
    past_attempts: Vec<Vec<Value>>,
    jobs: BTreeMap<i64, JobChange>,
    counts: BTreeMap<(i64, i64), Counts>,
    events: Vec<Vec<Value>>,
    /// Files at hops that are written from now on.
    hop_files: Vec<Vec<Value>>,
    /// Files that need nothing at a hop any more.
    past_hops: Vec<Vec<Value>>,
}

impl<'t> Work<'t> {
    pub(crate) fn new(transaction: &'t mut dyn Transaction, now_ms: i64) -> Self {
        Self {
            transaction,
            now_ms,
            updates: Vec::new(),
            attempts: Vec::new(),
            past_attempts: Vec::new(),
            jobs: BTreeMap::new(),
            counts: BTreeMap::new(),
            events: Vec::new(),
            hop_files: Vec::new(),
            past_hops: Vec::new(),
        }
    }

    /// Locks these files. The result has the order of the identifiers.
    pub(crate) async fn lock_files(&mut self, ids: &[FileId]) -> Result<Vec<Option<FileRow>>> {
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|index| ids[*index]);
        let sets: Vec<Vec<Value>> = order.iter().map(|index| vec![ids[*index].into()]).collect();
        let sql = format!("SELECT {FILE_ROW} FROM file WHERE id = $1 {{lock}}");
        let found = self.transaction.query_each(&sql, &sets).await?;
        let mut files = vec![None; ids.len()];
        for (mut rows, index) in found.into_iter().zip(order) {
            files[index] = rows.first_mut().map(FileRow::read).transpose()?;
        }
        Ok(files)
    }

    /// Locks the files that a condition selects.
    pub(crate) async fn select_files(&mut self, condition: &str, parameters: &[Value]) -> Result<Vec<FileRow>> {
        let sql = format!("SELECT {FILE_ROW} FROM file WHERE {condition}");
        let mut rows = self.transaction.query(&sql, parameters).await?;
        rows.iter_mut().map(FileRow::read).collect()
    }

    /// A file goes to another state. The file is locked, and not changed twice in one work.
    pub(crate) fn change(&mut self, file: &FileRow, to: FileState, change: Change) -> Result<()> {
        let attempts = file.attempts + i64::from(change.counts_attempt);
        let counted = change.problem.as_ref().filter(|_| change.counts_attempt);
        if let Some(problem) = change.held.as_ref().or(counted) {
            let number = file.attempts + 1;
            self.attempts.push(vec![
                file.id.into(),
                number.into(),
                self.now_ms.into(),
                file.worker.into(),
                Value::json(problem)?,
            ]);
            if number > FIRST_ATTEMPTS_KEPT + LAST_ATTEMPTS_KEPT {
                self.past_attempts
                    .push(vec![file.id.into(), (number - LAST_ATTEMPTS_KEPT).into()]);
            }
        }
        let job = self.jobs.entry(file.job).or_default();
        if to == FileState::Failed {
            job.reason = change.problem.as_ref().map(|problem| problem.reason.clone());
        }
        job.moves.push_back(Move {
            file: file.id,
            from: file.state,
            to,
            ended: Value::optional_json(ended_by(file, to, &change).as_ref())?,
        });
        let queue = queue_after(file, to, &change);
        self.count_at(file.queue, file.priority, file.state, file.due_ms, -1);
        self.count_at(queue.unwrap_or(file.queue), file.priority, to, change.due_ms, 1);
        self.note_hop(file, to, change.hop.as_ref());
        let mut row = update(file, to, attempts, &change, self.now_ms)?;
        row.extend([
            queue.into(),
            change.hop.as_ref().map(|hop| hop.home).into(),
            Value::optional_json(change.hop.as_ref().map(|hop| &hop.record))?,
        ]);
        self.updates.push(row);
        Ok(())
    }

    /// Remembers what the file has, or leaves, at a hop.
    fn note_hop(&mut self, file: &FileRow, to: FileState, hop: Option<&HopMove>) {
        match hop.map(|hop| &hop.record) {
            Some(hop) if hop.part == HopPart::Incoming => {
                self.hop_files
                    .push(vec![hop.incoming.url.as_str().into(), file.id.into()]);
            }
            Some(hop) if hop.part == HopPart::Outgoing => {}
            Some(_) => self.past_hops.push(vec![file.id.into(), self.now_ms.into()]),
            None if to.is_terminal() && file.home.is_some() => {
                self.past_hops.push(vec![file.id.into(), self.now_ms.into()]);
            }
            None => {}
        }
    }

    /// The whole job is canceled: each of its files that lives is changed by the caller.
    pub(crate) fn cancel_job(&mut self, job: i64, reason: &str) {
        let job = self.jobs.entry(job).or_default();
        job.is_canceled = true;
        job.reason = Some(reason.to_owned());
    }

    /// Counts files of a queue in or out.
    pub(crate) fn count_at(&mut self, queue: i64, priority: i64, state: FileState, due_ms: Option<i64>, number: i64) {
        let counts = self.counts.entry((queue, priority)).or_default();
        counts.add(state, due_ms, number);
    }

    /// An event; without file: of the job.
    pub(crate) fn event(&mut self, job: JobId, vo: i64, job_state: JobState, file: Option<NewState>) {
        self.events.push(vec![
            self.now_ms.into(),
            job.into(),
            file.as_ref().map(|file| file.id).into(),
            file.as_ref().map(|file| file.state.number()).into(),
            job_state.number().into(),
            vo.into(),
            file.map_or(Value::Null, |file| file.ended),
        ]);
    }

    /// Writes all changes, and what follows from them.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        self.write_files().await?;
        let jobs = std::mem::take(&mut self.jobs);
        let sets: Vec<Vec<Value>> = jobs.keys().map(|id| vec![(*id).into()]).collect();
        let sql = format!("SELECT {} FROM job WHERE id = $1 {{lock}}", JobRow::COLUMNS);
        let found = self.transaction.query_each(&sql, &sets).await?;
        let mut updates = Vec::new();
        for (mut rows, change) in found.into_iter().zip(jobs.into_values()) {
            let row = rows.first_mut().ok_or_else(|| damaged("a file has no job"))?;
            let job = JobRow::read(row)?;
            updates.push(self.settle_job(job, change).await?);
        }
        self.write_files().await?;
        let sql = "UPDATE job SET state = $2, finished_ms = COALESCE($3, finished_ms), \
            reason = COALESCE($4, reason), is_canceled = CASE WHEN $5 = 1 THEN 1 ELSE is_canceled END, \
            staging = $6, waiting = $7, unused = $8, running = $9, archiving = $10, finished = $11, failed = $12, \
            canceled = $13 WHERE id = $1";
        self.transaction.execute_each(sql, &updates).await?;
        self.write_counts().await?;
        self.write_events().await
    }

    /// Applies the moves of one job's files. Returns the parameters of its update.
    async fn settle_job(&mut self, mut job: JobRow, mut change: JobChange) -> Result<Vec<Value>> {
        let mut moved = Vec::new();
        while let Some(step) = change.moves.pop_front() {
            job.tally.move_file(step.from, step.to);
            let consequence = match change.is_canceled {
                true => Consequence::Nothing,
                false => Consequence::of(job.kind, step.from, step.to, &job.tally),
            };
            self.follow(&job, consequence).await?;
            // What follows goes through the same queue.
            if let Some(follows) = self.jobs.remove(&job.id) {
                // The next consequence must not find the same files.
                self.write_files().await?;
                change.moves.extend(follows.moves);
            }
            if step.from != step.to {
                moved.push(NewState {
                    id: step.file,
                    state: step.to,
                    ended: step.ended,
                });
            }
        }
        let state = job.tally.state(job.kind);
        for file in moved {
            self.event(job.uuid, job.vo, state, Some(file));
        }
        let mut finished_ms = None;
        if state != job.state {
            self.event(job.uuid, job.vo, state, None);
        }
        if state.is_terminal() {
            finished_ms = Some(self.now_ms);
            let parameters = [job.id.into()];
            let sql = "DELETE FROM secret_use WHERE job = $1";
            self.transaction.execute(sql, &parameters).await?;
        }
        let mut parameters = vec![
            job.id.into(),
            state.number().into(),
            finished_ms.into(),
            change.reason.into(),
            change.is_canceled.into(),
        ];
        parameters.extend(tally_columns(&job.tally));
        Ok(parameters)
    }

    async fn follow(&mut self, job: &JobRow, consequence: Consequence) -> Result<()> {
        let parameters = [job.id.into()];
        match consequence {
            Consequence::Nothing => {}
            Consequence::ActivateNextReplica | Consequence::ActivateNextHop => {
                let next = "job = $1 AND state = 7 ORDER BY place, id LIMIT 1 {lock}";
                for file in self.select_files(next, &parameters).await? {
                    let event = FileEvent::Activated(self.entry(job).await?);
                    self.step(&file, event, Change::default())?;
                }
            }
            Consequence::CancelUnused(unused) => {
                let all = "job = $1 AND state = 7 ORDER BY id {lock}";
                for file in self.select_files(all, &parameters).await? {
                    let change = Change {
                        problem: Some(canceled(unused.words())),
                        ..Change::default()
                    };
                    self.step(&file, FileEvent::Unused, change)?;
                }
            }
        }
        Ok(())
    }

    /// Where a file enters that is used now: as the first of its job did. Only the first hop of a
    /// chain is on tape.
    async fn entry(&mut self, job: &JobRow) -> Result<Entry> {
        let sql = "SELECT initial_state FROM file WHERE job = $1 AND initial_state <> 7 ORDER BY id LIMIT 1";
        let mut rows = self.transaction.query(sql, &[job.id.into()]).await?;
        let first = rows.first_mut().map(file_state).transpose()?;
        Ok(match first {
            Some(FileState::TokenPreparation) => Entry::Tokens,
            Some(FileState::Staging | FileState::OnHoldStaging) if job.kind == JobKind::MultiSource => Entry::Tape,
            _ => Entry::Copy,
        })
    }

    /// Applies an event that is possible in the file's state.
    pub(crate) fn step(&mut self, file: &FileRow, event: FileEvent, change: Change) -> Result<FileState> {
        let to = file.state.after(event).map_err(|error| damaged(&error.to_string()))?;
        self.change(file, to, change)?;
        Ok(to)
    }

    async fn write_files(&mut self) -> Result<()> {
        let updates = std::mem::take(&mut self.updates);
        let changed = self.transaction.execute_each(UPDATE, &updates).await?;
        if changed.iter().any(|count| *count != 1) {
            return Err(damaged("a locked file has changed"));
        }
        let attempts = std::mem::take(&mut self.attempts);
        let sql = "INSERT INTO attempt (file, number, at_ms, worker, problem) VALUES ($1, $2, $3, $4, $5) \
            ON CONFLICT (file, number) DO UPDATE SET at_ms = excluded.at_ms, worker = excluded.worker, \
            problem = excluded.problem";
        self.transaction.execute_each(sql, &attempts).await?;
        let past = std::mem::take(&mut self.past_attempts);
        let sql = "DELETE FROM attempt WHERE file = $1 AND number = $2";
        self.transaction.execute_each(sql, &past).await?;
        let written = std::mem::take(&mut self.hop_files);
        let sql = "INSERT INTO hop_file (url, file, tries) VALUES ($1, $2, 0) ON CONFLICT (url) DO UPDATE SET \
            due_ms = NULL, tries = 0";
        self.transaction.execute_each(sql, &written).await?;
        let past = std::mem::take(&mut self.past_hops);
        let sql = "UPDATE hop_file SET due_ms = $2 WHERE file = $1";
        self.transaction.execute_each(sql, &past).await?;
        Ok(())
    }

    async fn write_counts(&mut self) -> Result<()> {
        let counts = std::mem::take(&mut self.counts);
        let changed = counts.into_iter().filter(|(_, counts)| *counts != Counts::default());
        let sets: Vec<Vec<Value>> = changed
            .map(|((queue, priority), counts)| {
                let numbers = [counts.waiting, counts.delayed, counts.held, counts.active];
                [queue, priority].into_iter().chain(numbers).map(Value::from).collect()
            })
            .collect();
        let sql = "INSERT INTO queue_count (queue, priority, waiting, delayed, held, active) \
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (queue, priority) DO UPDATE SET \
            waiting = queue_count.waiting + excluded.waiting, delayed = queue_count.delayed + excluded.delayed, \
            held = queue_count.held + excluded.held, active = queue_count.active + excluded.active";
        self.transaction.execute_each(sql, &sets).await?;
        Ok(())
    }

    async fn write_events(&mut self) -> Result<()> {
        let events = std::mem::take(&mut self.events);
        if events.is_empty() {
            return Ok(());
        }
        self.transaction.order_events().await?;
        let sql = "INSERT INTO event (at_ms, job, file, file_state, job_state, vo, detail) \
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        self.transaction.execute_each(sql, &events).await?;
        Ok(())
    }
}

/// The attempt that ends with a change. That of a canceled copy has no end of its own.
fn ended_by(file: &FileRow, to: FileState, change: &Change) -> Option<AttemptEnd> {
    let is_cut_off = file.state == FileState::Active && to == FileState::Canceled;
    let cut_off = || AttemptEnd {
        retry: file.attempts.try_into().unwrap_or(u16::MAX),
        problem: change.problem.clone(),
        ..AttemptEnd::default()
    };
    change.ended.clone().or_else(|| is_cut_off.then(cut_off))
}

const UPDATE: &str = "UPDATE file SET state = $2, due_ms = $3, worker = COALESCE($4, worker), attempts = $5, \
    problem = COALESCE($6, problem), size = COALESCE($7, size), moved = COALESCE($8, moved), \
    way = COALESCE($9, way), report = COALESCE($10, report), request = COALESCE($11, request), \
    staging_started_ms = COALESCE($12, staging_started_ms), \
    staging_finished_ms = COALESCE($13, staging_finished_ms), started_ms = COALESCE($14, started_ms), \
    finished_ms = COALESCE($15, finished_ms), archiving_started_ms = COALESCE($16, archiving_started_ms), \
    archiving_finished_ms = COALESCE($17, archiving_finished_ms), interrupted = COALESCE($19, interrupted), \
    queue = COALESCE($20, queue), home = COALESCE($21, home), hop = COALESCE($22, hop) \
    WHERE id = $1 AND state = $18";

/// Whether a lost worker may have written at the end of the link; `None`: as before.
fn interrupted(change: &Change) -> Option<i64> {
    match &change.hop {
        Some(hop) => Some(hop.record.is_interrupted().into()),
        None => change.interruption,
    }
}

/// The queue of a file from now on, if it is another: what has ended is listed by the link in which
/// it was submitted.
fn queue_after(file: &FileRow, to: FileState, change: &Change) -> Option<i64> {
    let moved = change.hop.as_ref().map(|hop| hop.queue);
    moved.or(file.home.filter(|_| to.is_terminal()))
}

/// The parameters of [`UPDATE`], without those about the queue.
fn update(file: &FileRow, to: FileState, attempts: i64, change: &Change, now_ms: i64) -> Result<Vec<Value>> {
    let from = file.state;
    let was_staged = matches!(from, FileState::Staging | FileState::StagingStarted)
        && matches!(to, FileState::Submitted | FileState::Finished);
    let now_if = |happened: bool| happened.then_some(now_ms).into();
    Ok(vec![
        file.id.into(),
        to.number().into(),
        change.due_ms.into(),
        change.worker.into(),
        attempts.into(),
        Value::optional_json(change.problem.as_ref())?,
        change.size_bytes.into(),
        change.moved_bytes.into(),
        change.way.as_deref().into(),
        Value::optional_json(change.report.as_ref())?,
        change.request.as_deref().into(),
        now_if(to == FileState::StagingStarted),
        now_if(was_staged),
        now_if(to == FileState::Active),
        now_if(to.is_terminal()),
        now_if(to == FileState::Archiving),
        now_if(from == FileState::Archiving && to == FileState::Finished),
        from.number().into(),
        interrupted(change).into(),
    ])
}

/// Why a file was canceled.
pub(crate) fn canceled(reason: &str) -> Problem {
    Problem {
        code: types::ErrorCode::Cancelled.name().to_owned(),
        side: types::Side::Queue.name().to_owned(),
        phase: types::Phase::Queued.name().to_owned(),
        reason: reason.to_owned(),
        is_recoverable: false,
    }
}
