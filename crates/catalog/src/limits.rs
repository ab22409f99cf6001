//! Limits of this crate.

use std::time::Duration;

/// Operations that wait for the writer of SQLite. Further callers wait before the queue.
pub const WRITE_QUEUE_MAX: usize = 1024;
/// Operations that one transaction of SQLite makes durable together.
pub const COMMIT_OPERATIONS_MAX: usize = 256;
/// A transaction of SQLite takes no further operation after this time.
pub const COMMIT_TIME_MAX: Duration = Duration::from_millis(20);
/// Threads that read from SQLite beside the writer, each with a connection.
pub const READERS_MAX: usize = 4;
/// Lists of jobs or files that are read at once. Some read much of a large queue to find little,
/// and the other threads, or connections, are for what is quick.
pub const LISTINGS_MAX: usize = 2;
/// Operations that wait for one of them; further callers wait for room here.
pub const READ_QUEUE_MAX: usize = 1_024;
/// Prepared statements that each connection keeps.
pub const STATEMENTS_MAX: usize = 256;
/// Connections to PostgreSQL.
pub const CONNECTIONS_MAX: usize = 8;
/// Further ones, for signs of life.
pub const APART_CONNECTIONS_MAX: usize = 2;
/// A connection to PostgreSQL must be there in this time.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Within this time PostgreSQL must have done an operation. Each is of a bounded size.
pub const OPERATION_TIME_MAX: Duration = Duration::from_secs(60);
/// The same for the move of all tables to a later version.
pub const MIGRATION_TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// A connection to PostgreSQL whose peer does not acknowledge anything for this time is given up at
/// both ends, as is a transaction in which its client says nothing.
pub const SILENCE_MAX: Duration = Duration::from_secs(16);
/// Statements that are under way on one connection to PostgreSQL.
pub const PIPELINE_MAX: usize = 256;
/// Attempts of an operation that PostgreSQL refuses because of another one at the same time.
pub const ATTEMPTS_MAX: u32 = 8;
/// A wait for changes ends after this time without news from PostgreSQL: notices can be lost.
pub const POLL_TIME: Duration = Duration::from_secs(2);
/// Files of one job.
pub const JOB_FILES_MAX: usize = 100_000;
/// Jobs and files that one listing returns.
pub const LISTED_MAX: usize = 10_000;
/// Files of large jobs that one transaction stores, cancels, moves or gives another priority. It
/// takes some tens of milliseconds, and with SQLite all others wait for it.
pub const CHANGED_FILES_MAX: usize = 500;
/// Changes of large jobs that one look finds whose processes have ended.
pub const STALLED_CHANGES_MAX: usize = 100;
/// Failed attempts of a file that are kept: so many of the first ones,
pub const FIRST_ATTEMPTS_KEPT: i64 = 5;
/// and so many of the last ones. Each takes some kB.
pub const LAST_ATTEMPTS_KEPT: i64 = 15;
/// Files that one operation of a sweep changes: due retries, lost workers, holds.
pub const SWEEP_FILES_MAX: usize = 2_000;
/// Files that one operation moves into the history, and those of one more job: others wait for it.
pub const RETIRED_FILES_MAX: i64 = 1_000;
/// Files ahead that [`crate::Catalog::position`] counts. With more, it estimates.
pub const COUNTED_AHEAD_MAX: u64 = 10_000;
/// Readers of all events that are kept: brokers and durable subscriptions.
pub const READERS_KEPT_MAX: i64 = 256;
/// Settings of one kind.
pub const SETTINGS_MAX: usize = 10_000;
/// Entries of the audit list.
pub const AUDIT_MAX: i64 = 10_000;
/// How long an entry of the audit list is kept, in milliseconds: two years.
pub const AUDIT_KEPT_MS: i64 = 2 * 366 * 24 * 3600 * 1000;
/// Grants of one owner that renew tokens of live jobs.
pub const OWNER_GRANTS_MAX: usize = 10_000;
/// Requests at tape systems that are open at the same time, of all storages together.
pub const STAGE_REQUESTS_MAX: usize = 400;
