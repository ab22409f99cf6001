//! The queue as this door sees it. The service implements it; tests have a small one in memory.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use catalog::{
    Audit, Ban, FileRecord, JobRecord, JobSummary, LinkSettings, NewJob, Owner, Page, PastSubmission, StorageSettings,
    SubmissionKey, UserRight, VoSettings,
};
use queue::Capability;
use queue::owners::{is_named, is_same_user};
use schedule::{FileId, FileState, JobId, JobState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use types::{Result, Secret};

pub use crate::attempt::Attempt;
use crate::fts_error::FtsError;

/// What a call gives later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A change of settings, which gets all of a kind by name as they are at this moment, and gives the
/// entries of the audit list. It may run several times. With an error, all stays as it was.
pub type Change<T> = Box<dyn Fn(&mut BTreeMap<String, T>) -> Refusable<Vec<Audit>> + Send + Sync>;

/// The result of what the door itself may refuse while the settings are locked.
pub type Refusable<T> = std::result::Result<T, FtsError>;

/// All settings of a kind after a change.
pub type Changed<T> = Refusable<BTreeMap<String, T>>;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenUse {
    /// Reading the source.
    Source,
    /// Writing the destination.
    Destination,
}

/// A token that came with a job.
#[derive(Clone, Debug)]
pub struct GivenToken {
    /// The name by which files refer to it: 16 hexadecimal digits of its SHA-1 digest.
    pub name: String,
    /// The token.
    pub token: Secret,
    /// What its first file uses it for.
    pub purpose: TokenUse,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is stored. Sentences say how it was adjusted to limits.
    New(Vec<String>),
    /// The client has used the key of the submission before; nothing was stored.
    Past(PastSubmission),
    /// A job with this identifier exists already; nothing was stored.
    Known,
}

/// Whose jobs a client may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Its own.
    Own(Owner),
    /// Its own and those of its virtual organisation.
    Vo(Owner),
    /// All.
    All,
}

impl Scope {
    /// Whether it includes the jobs of `owner`.
    #[must_use]
    pub fn includes(&self, owner: &Owner) -> bool {
        match self {
            Self::All => true,
            Self::Vo(own) => own.vo == owner.vo || is_same_user(own, owner),
            Self::Own(own) => is_same_user(own, owner),
        }
    }
}

/// Which jobs or files to list. Absent means any.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Whose.
    pub scope: Scope,
    /// Of this user.
    pub user: Option<String>,
    /// Of this virtual organisation.
    pub vo: Option<String>,
    /// From this storage, with or without port.
    pub source_storage: Option<String>,
    /// To this storage, with or without port.
    pub destination_storage: Option<String>,
    /// With this destination; for files.
    pub destination: Option<String>,
    /// Ended at this time or later, in milliseconds since 1970.
    pub ended_since_ms: Option<i64>,
    /// Not more than this.
    pub limit: usize,
}

/// A user whose requests are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserBan {
    /// The user: the name of a certificate, or `subject@issuer` of a token.
    pub user: String,
    /// Whether it is FTS's `user_dn`: the subjects of tokens of all issuers have that name, too.
    /// Bans of earlier releases are so.
    #[serde(default = "yes")]
    pub at_any_issuer: bool,
    /// Why.
    pub message: String,
    /// Who banned it.
    pub by: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
}

fn yes() -> bool {
    true
}

impl UserBan {
    /// Whether it is of the owner of these jobs.
    #[must_use]
    pub fn includes(&self, owner: &Owner) -> bool {
        is_named(owner, &self.user) || self.at_any_issuer && self.user == owner.user
    }
}

/// A process that runs copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerState {
    /// Its name.
    pub name: String,
    /// When it was last heard of, in milliseconds since 1970.
    pub seen_ms: i64,
    /// Copies that it runs.
    pub active: u32,
    /// Whether it takes no new work.
    pub is_draining: bool,
    /// Whether it has been silent for longer than its lease: its files go to others.
    pub is_lost: bool,
}

/// A link as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// The virtual organisation.
    pub vo: String,
    /// Copies that run.
    pub active: u64,
    /// Files that wait for their turn.
    pub waiting: u64,
    /// Files that wait for a retry, or for a storage.
    pub delayed: u64,
    /// Files that a ban holds.
    pub banned: u64,
    /// Copies that may run at once.
    pub limit: Option<u32>,
    /// Bytes per second, all copies together.
    pub goodput_bytes_s: f64,
    /// Whether operators have paused it.
    pub is_paused: bool,
    /// Why it stands still, if it does.
    pub held: Option<HeldState>,
    /// Why the optimizer has set this limit.
    pub rationale: Option<String>,
}

/// Why a link stands still.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldState {
    /// Until when, in milliseconds since 1970.
    pub until_ms: i64,
    /// What the storage cannot do, without the names of files.
    pub reason: String,
    /// The same with the storage's words and the file's URL: only for those who may read all jobs.
    pub detail: String,
}

/// A decision of the optimizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// Copies that may run at once from now on.
    pub limit: u32,
    /// The change.
    pub difference: i32,
    /// Bytes per second, all copies together.
    pub goodput_bytes_s: f64,
    /// Of 100 attempts.
    pub success_percent: f64,
    /// Files that waited.
    pub submitted: u64,
    /// Why, in words.
    pub rationale: String,
}

/// The subjects of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A job or file has changed its state.
    State,
    /// The optimizer has decided.
    Optimizer,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::State, Self::Optimizer];

    /// The word for it in server-sent events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Optimizer => "optimizer",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place in the sequence of all events; increasing, perhaps with gaps.
    pub sequence: i64,
    /// What it is about.
    pub kind: EventKind,
    /// The job, if it is about one.
    pub job: Option<JobId>,
    /// Whose job it is; `None` for what concerns all.
    pub owner: Option<Owner>,
    /// The message: a JSON object.
    pub message: Arc<str>,
}

/// What a copy outside of the queue has shown of a storage.
#[derive(Clone, Debug)]
pub struct SeenCapability {
    /// The storage.
    pub storage: String,
    /// What it can do, or cannot.
    pub capability: Capability,
}

/// The queue.
///
/// Errors are those of the database, and `overloaded`. What a client may not see is decided by the
/// door; lists are narrowed by [`Filter::scope`].
pub trait Queue: Send + Sync + 'static {
    /// Stores a job with its tokens and the client's key for it.
    fn submit(&self, job: NewJob, tokens: Vec<GivenToken>, key: Option<SubmissionKey>) -> Later<'_, Stored>;
    /// What a client has submitted with a key.
    fn past_submission(&self, owner: Owner, key: String) -> Later<'_, Option<PastSubmission>>;
    /// The jobs of these that exist, in any order; finished ones too, as long as they are kept.
    fn jobs(&self, ids: Vec<JobId>) -> Later<'_, Vec<JobRecord>>;
    /// The first `limit` files of each of these jobs: those of a job together, in the order of
    /// their submission.
    fn files(&self, jobs: Vec<JobId>, limit: usize) -> Later<'_, Vec<FileRecord>>;
    /// A file.
    fn file(&self, id: FileId) -> Later<'_, Option<FileRecord>>;
    /// Jobs in one of these states, the newest first.
    fn list_jobs(&self, states: Vec<JobState>, filter: Filter) -> Later<'_, Vec<JobRecord>>;
    /// Files in one of these states, the newest first.
    fn list_files(&self, states: Vec<FileState>, filter: Filter) -> Later<'_, Vec<FileRecord>>;
    /// A page of jobs in one of these states (none: in any), the newest first. `before` is where
    /// the page before ended.
    fn page_jobs(&self, states: Vec<JobState>, filter: Filter, before: Option<i64>) -> Later<'_, Page<JobSummary>>;
    /// A job with the number of its files by state.
    fn summary(&self, id: JobId) -> Later<'_, Option<JobSummary>>;
    /// A page of a job's files, in the order of their submission.
    fn page_files(&self, job: JobId, after: Option<i64>, limit: usize) -> Later<'_, Page<FileRecord>>;
    /// The attempts of a file that failed, in order.
    fn attempts(&self, file: FileId) -> Later<'_, Vec<Attempt>>;
    /// The log of a file, as text; `None` if there is none.
    fn log(&self, file: FileId) -> Later<'_, Option<String>>;
    /// Cancels a job, or some of its files, with this reason. What has ended stays as it is.
    fn cancel(&self, job: JobId, files: Option<Vec<FileId>>, reason: String) -> Later<'_, ()>;
    /// Changes the priority of a job and of its files that wait.
    fn set_priority(&self, job: JobId, priority: u8) -> Later<'_, ()>;

    /// Why a file waits, or did not go well.
    fn why_file(&self, file: FileId) -> Later<'_, Option<Value>>;
    /// The same for a page of the files of a job: those that have not ended, or if all have, all.
    fn why_job(&self, job: JobId, after: Option<i64>, limit: usize) -> Later<'_, Page<Value>>;
    /// What to warn of after a submission: a credential that may end before the copies begin.
    fn warnings(&self, job: JobId) -> Later<'_, Vec<String>>;
    /// What a link does, and who can play which part in its copies.
    fn why_link(&self, source: String, destination: String) -> Later<'_, Option<Value>>;
    /// Learns what storages can do. The entry goes into the list of changes.
    fn note_capabilities(&self, seen: Vec<SeenCapability>, entry: Audit) -> Later<'_, ()>;
    /// Links with work.
    fn links(&self) -> Later<'_, Vec<LinkState>>;
    /// The latest decisions of the optimizer, the newest first.
    fn decisions(&self, limit: usize) -> Later<'_, Vec<Decision>>;
    /// Workers.
    fn workers(&self) -> Later<'_, Vec<WorkerState>>;
    /// Lets a worker take no new work, or take it again; whether there is one of this name. Here
    /// and below, the entry goes into the list of changes in the same transaction, if something
    /// has changed.
    fn drain(&self, worker: String, drains: bool, entry: Audit) -> Later<'_, bool>;

    /// All bans of storages. Asked at each submission: kept in memory.
    fn bans(&self) -> Later<'_, Arc<Vec<Ban>>>;
    /// Bans a storage; the jobs that it concerns.
    fn ban(&self, ban: Ban, entry: Audit) -> Later<'_, Vec<JobId>>;
    /// Ends a ban; whether there was one.
    fn unban(&self, storage: String, vo: String, entry: Audit) -> Later<'_, bool>;
    /// All bans of users. Asked at each submission: kept in memory.
    fn user_bans(&self) -> Later<'_, Arc<Vec<UserBan>>>;
    /// Bans a user; the jobs that it concerns.
    fn ban_user(&self, ban: UserBan, entry: Audit) -> Later<'_, Vec<JobId>>;
    /// Ends a ban; whether there was one.
    fn unban_user(&self, user: String, entry: Audit) -> Later<'_, bool>;

    /// What operators have granted to users. Asked at each request: kept in memory.
    fn grants(&self) -> Arc<Vec<UserRight>>;
    /// Gives rights, or takes them back. They are known by operation and user.
    fn change_grants(&self, change: Change<UserRight>) -> Later<'_, Changed<UserRight>>;

    /// The settings of storages, by name.
    fn storage_settings(&self) -> Later<'_, BTreeMap<String, StorageSettings>>;
    /// Changes them.
    fn change_storages(&self, change: Change<StorageSettings>) -> Later<'_, Changed<StorageSettings>>;
    /// The settings of links.
    fn link_settings(&self) -> Later<'_, Vec<LinkSettings>>;
    /// Changes them. They are known by their names.
    fn change_links(&self, change: Change<LinkSettings>) -> Later<'_, Changed<LinkSettings>>;
    /// The settings of virtual organisations, by name.
    fn vo_settings(&self) -> Later<'_, BTreeMap<String, VoSettings>>;
    /// Changes them.
    fn change_vos(&self, change: Change<VoSettings>) -> Later<'_, Changed<VoSettings>>;
    /// The latest changes, or those of a user; the newest first.
    fn audit(&self, user: Option<String>, limit: usize) -> Later<'_, Vec<Audit>>;

    /// At most `limit` events after this place, in order.
    fn events_after(&self, sequence: i64, limit: usize) -> Later<'_, Vec<Event>>;
    /// The place of the latest event, with its changes.
    fn latest_event(&self) -> watch::Receiver<i64>;
}

#[cfg(test)]
mod tests {
    use queue::owners::delegation_id;

    use super::*;

    #[test]
    fn a_ban_that_names_an_issuer_is_of_its_users_only() {
        let token = |issuer: &str| Owner {
            user: "jane".to_owned(),
            delegation_id: delegation_id([issuer, "jane"]),
            vo: "atlas".to_owned(),
            login: catalog::Login::Token,
        };
        let ban = |user: &str, at_any_issuer| UserBan {
            user: user.to_owned(),
            at_any_issuer,
            message: String::new(),
            by: String::new(),
            since_ms: 0,
        };
        let (here, there) = (token("https://a/"), token("https://b/"));
        let exact = ban("jane@https://a/", false);
        assert!(exact.includes(&here) && !exact.includes(&there));
        assert!(!ban("jane", false).includes(&here), "a certificate's name");
        let of_fts = ban("jane", true);
        assert!(of_fts.includes(&here) && of_fts.includes(&there));
        let stored = r#"{"user": "jane", "message": "", "by": "x", "since_ms": 1}"#;
        let old: UserBan = serde_json::from_str(stored).unwrap();
        assert!(old.includes(&there), "bans of earlier releases stay as they are");
    }
}
