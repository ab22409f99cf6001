//! Limits of this crate. They are fixed: no configuration key overrides them.

use std::time::Duration;

/// Body of a submission, in bytes: room for the most files with metadata of usual length.
pub const SUBMISSION_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Files of one job.
pub const JOB_FILES_MAX: usize = 100_000;
/// Sources, destinations or tokens of one file. Rucio sends four at most.
pub const REPLICAS_MAX: usize = 64;
/// Hops that a job may name.
pub const HOPS_MAX: usize = 8;
/// All parameters of a job together, in bytes of JSON, the job's metadata included.
pub const PARAMETERS_BYTES_MAX: usize = 64 * 1024;
/// The client's data about a job, in bytes of JSON. FTS takes 1024, or what its configuration says;
/// the one that it is delivered with says 2048.
pub const JOB_METADATA_BYTES_MAX: usize = 2048;
/// The client's data about a file, in bytes of JSON; as FTS.
pub const FILE_METADATA_BYTES_MAX: usize = 4096;
/// Data for the tape system of the source, in bytes of JSON; as FTS.
pub const STAGING_METADATA_BYTES_MAX: usize = 1024;
/// Data for the tape system of the destination, in bytes of JSON; as FTS.
pub const ARCHIVE_METADATA_BYTES_MAX: usize = 1024;
/// A URL, in bytes.
pub const URL_BYTES_MAX: usize = 4096;
/// A checksum with its algorithm, in bytes; as FTS.
pub const CHECKSUM_BYTES_MAX: usize = 100;
/// An activity, a space token, a client's name of a job, in bytes; as FTS.
pub const NAME_BYTES_MAX: usize = 255;
/// A token for a storage, in bytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The longest time that a file may wait, in seconds: a year.
pub const QUEUE_TIME_S_MAX: i64 = 366 * 24 * 3600;
/// Body of an operator's request, in bytes.
pub const OPERATION_BYTES_MAX: usize = 1024 * 1024;
/// The longest time window of a list, in hours: a year.
pub const TIME_WINDOW_HOURS_MAX: i64 = 366 * 24;
/// Jobs that one request may name. Rucio names a hundred; more do not fit into a request line.
pub const JOBS_PER_REQUEST_MAX: usize = 1000;
/// Entries on a page of our own API, if the client says nothing.
pub const PAGE_DEFAULT: usize = 100;
/// Entries on a page of our own API.
pub const PAGE_MAX: usize = 1000;
/// A client's key of a submission, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;
/// Files that one request to cancel may name.
pub const CANCELED_FILES_MAX: usize = 1000;
/// Shares that one request may set.
pub const SHARES_MAX: usize = 1000;
/// Streams of events that are open.
pub const EVENT_STREAMS_MAX: usize = 256;
/// Streams of events that one user has open.
pub const EVENT_STREAMS_PER_USER_MAX: usize = 8;
/// Events that are kept for streams. A client that is farther behind is dropped.
pub const EVENTS_KEPT_MAX: usize = 4096;
/// Events that are read from the queue at once.
pub const EVENTS_READ_MAX: usize = 1000;
/// Events that a stream reads at once of those that its client has missed.
pub const EVENTS_MISSED_MAX: usize = 100;
/// Time without an event after which a stream sends a comment.
pub const EVENT_HEARTBEAT: Duration = Duration::from_secs(15);
/// Jobs in a list; as FTS.
pub const LISTED_JOBS_MAX: usize = 500;
/// Files in a list; as FTS.
pub const LISTED_FILES_MAX: usize = 1000;
/// Changes of operators in a list; as FTS.
pub const AUDIT_ENTRIES_MAX: usize = 100;
/// Decisions of the optimizer in a list; as FTS.
pub const DECISIONS_MAX: usize = 50;
/// Bans of storages, or of users.
pub const BANS_MAX: usize = 10_000;
/// How long a delegated proxy must be valid for a submission, in milliseconds; as FTS.
pub const PROXY_LEFT_MS_MIN: i64 = 3600 * 1000;
