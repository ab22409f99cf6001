//! What the pages of a queue show; the queue gathers it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schedule::{FileId, FileState, JobId, JobState};
use serde::Serialize;
use types::Result;

use crate::words::Words;

/// A look at the queue.
pub type QueueFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A transfer queue. Errors are those of its database.
pub trait Queue: Send + Sync + 'static {
    /// What it does now.
    fn now(&self) -> QueueFuture<'_, QueueNow>;
    /// How its copies ended within the last hour.
    fn last_hour(&self) -> QueueFuture<'_, Arc<LastHour>>;
    /// Jobs, the newest first.
    fn jobs(&self, filter: JobFilter) -> QueueFuture<'_, Listed<Job>>;
    /// A job.
    fn job(&self, id: JobId) -> QueueFuture<'_, Option<Job>>;
    /// At most `limit` files of a job, in the order of their submission. `after` is where the page
    /// before ended.
    fn files(&self, job: JobId, after: Option<i64>, limit: usize) -> QueueFuture<'_, Listed<File>>;
    /// A file.
    fn file(&self, id: FileId) -> QueueFuture<'_, Option<FileStory>>;
    /// Cancels a job by order of an operator. What has ended stays as it is.
    fn cancel(&self, job: JobId) -> QueueFuture<'_, ()>;
    /// Lets a worker take no new work, or take it again, by order of `who`; whether there is one of
    /// this name.
    fn drain(&self, worker: String, drains: bool, who: String) -> QueueFuture<'_, bool>;
}

/// How copies ended within the last hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LastHour {
    /// When counting began, in milliseconds since 1970: an hour ago, or when the process started.
    pub from_ms: i64,
    /// When these facts were gathered, likewise.
    pub to_ms: i64,
    /// The links with copies that ended.
    pub links: Vec<LinkHour>,
    /// Ends of copies on further links, which are not listed.
    pub unlisted: u64,
    /// Who is at fault for what failed, the gravest first.
    pub faults: Vec<Fault>,
}

/// How copies of a link ended within the last hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkHour {
    /// The source's storage.
    pub source: Words,
    /// The destination's storage.
    pub destination: Words,
    /// Copies that succeeded.
    pub copied: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Bytes of copies that succeeded.
    pub bytes: u64,
    /// What failed, most frequent first.
    pub failures: Vec<FailureCount>,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// The stable code, as in `docs/errors.md`.
    pub code: Words,
    /// The side at fault; empty: several.
    pub side: Words,
    /// The phase; empty: several.
    pub phase: Words,
    /// How many there were.
    pub count: u64,
}

/// Something that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What, in a sentence without a full stop.
    pub says: Words,
    /// Whether it is the only explanation.
    pub is_certain: bool,
    /// What is at fault, or could be.
    pub suspects: Vec<Suspect>,
}

/// What can be at fault on links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspect {
    /// A storage, whatever it does.
    Storage(Words),
    /// A storage as the source.
    Source(Words),
    /// A storage as the destination.
    Destination(Words),
    /// What is between two storages.
    Link {
        /// The source's storage.
        source: Words,
        /// The destination's storage.
        destination: Words,
    },
    /// Nothing that a single storage or link has.
    Everything,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed<T> {
    /// The entries, in order.
    pub items: Vec<T>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<i64>,
}

/// Which jobs to list. Absent means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<JobState>,
    /// From this storage, with or without scheme and port.
    pub source: Option<String>,
    /// To this storage, likewise.
    pub destination: Option<String>,
    /// Of this virtual organisation.
    pub vo: Option<String>,
    /// Of this user.
    pub user: Option<String>,
    /// Where the page before ended.
    pub before: Option<i64>,
    /// Not more than this.
    pub limit: usize,
}

/// What a queue does now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueNow {
    /// Copies that this process runs.
    pub copies: usize,
    /// Copies that it may run at once.
    pub copies_maximum: u32,
    /// Links with files that have not ended.
    pub links: Vec<Link>,
    /// The processes that run copies.
    pub workers: Vec<Worker>,
}

/// The work of one virtual organisation on a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Link {
    /// The source's storage.
    pub source: Words,
    /// The destination's storage.
    pub destination: Words,
    /// The virtual organisation.
    pub vo: Words,
    /// Copies that run.
    pub active: u64,
    /// Files that wait for their turn.
    pub waiting: u64,
    /// When the job of the first of them was submitted, in milliseconds since 1970.
    pub oldest_ms: Option<i64>,
    /// Files that wait for a retry, or for a storage.
    pub delayed: u64,
    /// Files that a ban holds.
    pub banned: u64,
    /// Copies that may run on the link at once; `None`: it has no limit yet.
    pub limit: Option<u32>,
    /// Why it has this limit.
    pub rationale: Option<Words>,
    /// Bytes per second, all copies of this process on the link together.
    pub bytes_per_s: u64,
    /// Whether operators have paused it.
    pub is_paused: bool,
    /// Why it stands still for a time.
    pub held: Option<Held>,
    /// Why no more of its files are copied now, in sentences without full stops.
    pub reasons: Vec<Words>,
}

/// Why a link stands still for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Until when, in milliseconds since 1970.
    pub until_ms: i64,
    /// Why.
    pub detail: Words,
}

/// A process that runs copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// Its name.
    pub name: Words,
    /// When it was last heard of, in milliseconds since 1970.
    pub seen_ms: i64,
    /// Copies that it runs.
    pub active: u32,
    /// Whether it takes no new work.
    pub is_draining: bool,
    /// Whether it has been silent for longer than its lease.
    pub is_lost: bool,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Its identifier.
    pub job_id: JobId,
    /// Its state.
    pub state: JobState,
    /// How its files belong together, in a word.
    pub kind: &'static str,
    /// Who submitted it.
    pub user: Words,
    /// The virtual organisation.
    pub vo: Words,
    /// From 1 to 5; higher goes first.
    pub priority: u8,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted_ms: i64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
    /// When files that still wait are given up, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
    /// Why it ended so.
    pub reason: Option<Words>,
    /// The source's storage, if all files have the same.
    pub source: Option<Words>,
    /// The destination's storage, if all files have the same.
    pub destination: Option<Words>,
    /// How many files are in which state.
    pub files: FileCounts,
}

/// How many files of a job are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileCounts {
    /// All, replicas and hops included.
    pub total: u32,
    /// Wait for tape before the copy.
    pub staging: u32,
    /// Wait for tokens, their turn, a retry, or the end of a ban.
    pub waiting: u32,
    /// Spare replicas and later hops.
    pub unused: u32,
    /// Being copied.
    pub active: u32,
    /// Wait for tape after the copy.
    pub archiving: u32,
    /// Done.
    pub finished: u32,
    /// Given up.
    pub failed: u32,
    /// Canceled.
    pub canceled: u32,
}

/// A file of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct File {
    /// Its identifier.
    pub file_id: FileId,
    /// Its job.
    pub job_id: JobId,
    /// Its state.
    pub state: FileState,
    /// URL of the source, without secrets.
    pub source: Words,
    /// URL of the destination, without secrets.
    pub destination: Words,
    /// The storage that it passes on its way.
    pub hop: Option<Words>,
    /// The size: what the source says, else the client.
    pub size_bytes: Option<u64>,
    /// Bytes copied.
    pub moved_bytes: u64,
    /// Attempts that failed.
    pub failed_attempts: u16,
    /// When the copy began, in milliseconds since 1970.
    pub started_ms: Option<i64>,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
    /// When it is tried again, in milliseconds since 1970.
    pub retry_ms: Option<i64>,
    /// Why it failed, or failed last.
    pub reason: Option<Words>,
    /// The stable code of that failure.
    pub code: Option<Words>,
    /// The way that the copy took.
    pub way: Option<Words>,
    /// The worker that has or had it.
    pub worker: Option<Words>,
    /// What it is for.
    pub activity: Words,
    /// The checksum as the client gave it.
    pub checksum: Option<Words>,
}

/// A file with all that is known about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileStory {
    /// The file.
    #[serde(flatten)]
    pub file: File,
    /// Why it is where it is.
    pub why: Option<Why>,
    /// The attempts that failed, in order.
    pub attempts: Vec<Attempt>,
    /// The lines of its log.
    pub log: Vec<Words>,
}

/// Why a file is where it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Why {
    /// The reasons, the binding one first.
    pub reasons: Vec<Words>,
    /// Files ahead of it in its queue.
    pub ahead: Option<u64>,
    /// Who has the slots that it waits for, most copies first.
    pub contenders: Vec<Contender>,
    /// When it may start, in milliseconds since 1970.
    pub start_ms: Option<i64>,
    /// When it may end, likewise.
    pub end_ms: Option<i64>,
    /// When its credential expires, likewise.
    pub credential_expires_ms: Option<i64>,
}

/// Files that use the same slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contender {
    /// The source's storage.
    pub source: Words,
    /// The destination's storage.
    pub destination: Words,
    /// The virtual organisation.
    pub vo: Words,
    /// The activity.
    pub activity: Words,
    /// Copies that run, or are about to begin.
    pub active: u64,
    /// Files that wait.
    pub waiting: u64,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u16,
    /// When it failed, in milliseconds since 1970.
    pub failed_ms: i64,
    /// Why.
    pub reason: Words,
    /// The stable code.
    pub code: Words,
    /// The worker that made it.
    pub worker: Option<Words>,
}
