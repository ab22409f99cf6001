//! The queue's database: jobs, files, settings, credentials and events.
#![forbid(unsafe_code)]

mod attempt;
mod catalog;
mod copies;
mod hop;
mod job;
pub mod limits;
mod operation;
mod schema;
mod settings;
mod store;
mod work;

pub use attempt::{AttemptEnd, CopyFacts, Span};
pub use catalog::{Catalog, Changes};
pub use copies::{copy_of_file, kept_copy, prepare_restored_file, version_in_file};
pub use hop::{Hop, HopFile, HopPart};
pub use job::{
    ChecksumMode, CopyMode, FileOptions, FileRecord, JobOptions, JobRecord, Login, NewFile, NewJob, Overwrite, Owner,
    Problem, Selection, Times,
};
pub use operation::{
    Advance, Attempt, Audit, CancelOutcome, Canceled, CapabilityRecord, Changed, Claimed, Due, Ended, Ending, Event,
    ExpiredFile, FileFilter, FileNews, Grant, JobFilter, JobSecrets, JobSummary, Lease, LogEntry, LongChange, Lost,
    LostFile, Moved, NO_ACTOR, Named, News, NewsList, Outcome, Page, PastHop, PastSubmission, QueueCount, QueueKey,
    Renewed, RunningFile, SealedSecret, SecretCount, SecretKind, SettingKind, StageMember, StageRequest, StorageUser,
    Subject, SubmissionKey, Submitted, Swept, WaitingFile, WorkerRecord, key_mark_in_file, key_mark_in_postgres,
};
pub use schema::{TABLES_VERSION, version_in_postgres};
pub use settings::{
    Ban, BanEffect, CloudStorage, LinkSettings, Operation, STORAGE_BANNED, StorageSettings, ThirdPartyRole, UserRight,
    VoSettings,
};
