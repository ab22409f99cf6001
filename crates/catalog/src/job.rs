//! What is known about a job and its files.
//!
//! Times are milliseconds since 1970, in UTC. A storage is named `scheme://host:port`, in lower
//! case and always with the port; FTS's API shows it without the port.

use schedule::{FileId, FileState, JobId, JobKind, JobState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hop::Hop;

/// How a client proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Login {
    /// A certificate or proxy. FTS's name: `certificate`.
    Certificate,
    /// A bearer token. FTS's name: `oauth2`.
    Token,
    /// None: the queue admits clients without credentials (for tests).
    Anonymous,
}

/// Whose job it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The one-line name of the end-entity certificate, or the subject of the token.
    pub user: String,
    /// Where the user's delegated proxy is kept: FTS's `cred_id`.
    pub delegation_id: String,
    /// The virtual organisation.
    pub vo: String,
    /// How the client logged in.
    pub login: Login,
}

impl Owner {
    /// A text that no other user has.
    #[must_use]
    pub fn unique_name(&self) -> String {
        match self.login {
            Login::Certificate | Login::Anonymous => self.user.clone(),
            // Users of two issuers may have the same subject; the delegation stands for one.
            Login::Token => format!("{} {}", self.delegation_id, self.user),
        }
    }
}

/// Which checksums must agree (`verify_checksum`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChecksumMode {
    /// None.
    #[default]
    None,
    /// The source's with the given one.
    Source,
    /// The destination's with the given one.
    Target,
    /// Both sides' with the given one, or with each other.
    Both,
}

impl ChecksumMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::None, Self::Source, Self::Target, Self::Both];

    /// The letter in FTS's API.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::None => "n",
            Self::Source => "s",
            Self::Target => "t",
            Self::Both => "b",
        }
    }
}

/// What may be overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overwrite {
    /// Nothing.
    #[default]
    Never,
    /// Each destination.
    Always,
    /// What an earlier attempt of the same file has left.
    OnRetry,
    /// Destinations of hops, except for the last.
    Hops,
    /// Destinations that are on disk and not on tape.
    OnlyOnDisk,
    /// `Hops` and `OnlyOnDisk`.
    HopsAndOnlyOnDisk,
}

impl Overwrite {
    /// The letter in FTS's API; `None` for never.
    #[must_use]
    pub fn letter(self) -> Option<&'static str> {
        match self {
            Self::Never => None,
            Self::Always => Some("Y"),
            Self::OnRetry => Some("R"),
            Self::Hops => Some("M"),
            Self::OnlyOnDisk => Some("D"),
            Self::HopsAndOnlyOnDisk => Some("Q"),
        }
    }
}

/// Which replica of a file with several sources comes first (`selection_strategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// As the queues are: the shortest first.
    #[default]
    Auto,
    /// As listed.
    Orderly,
    /// The highest rate of success.
    Success,
    /// The highest throughput.
    Throughput,
    /// The highest throughput per file.
    FileThroughput,
    /// The least data ahead.
    PendingData,
    /// The shortest wait.
    WaitingTime,
    /// The shortest wait, with failures counted.
    WaitingTimeWithError,
    /// The shortest copies.
    Duration,
}

/// The only way that a copy may take (`?copy_mode=` in its source).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyMode {
    /// The destination fetches.
    Pull,
    /// The source sends.
    Push,
    /// Through the queue's machine.
    Streamed,
}

/// What holds for all files of a job. Absent means the default of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobOptions {
    /// Seconds that tape may take to bring a file online.
    pub bring_online_s: Option<u32>,
    /// Seconds for which a file from tape stays on disk.
    pub pin_lifetime_s: Option<u32>,
    /// Seconds that the destination may take to write the file to tape.
    pub archive_timeout_s: Option<u32>,
    /// Which checksums must agree.
    pub checksum_mode: ChecksumMode,
    /// What may be overwritten.
    pub overwrite: Overwrite,
    /// Report the existing file when the destination exists (`dst_file_report`).
    pub reports_destination: bool,
    /// Space token of the sources.
    pub source_space_token: String,
    /// Space token of the destinations.
    pub destination_space_token: String,
    /// Attempts after the first that failed for a passing reason; `None`: the queue's default.
    pub retries: Option<u16>,
    /// Seconds between attempts; `None`: the queue's default.
    pub retry_delay_s: Option<u32>,
    /// S3 URLs with the bucket in the path.
    pub s3_alternate: bool,
    /// Streams of each copy.
    pub streams: Option<u16>,
    /// Seconds that a copy may take; `None`: by its size.
    pub timeout_s: Option<u32>,
    /// Buffer of each TCP connection, in bytes. Kept for FTS's API only.
    pub tcp_buffer_bytes: Option<u32>,
    /// Copy only: no look at either side before and after (`strict_copy`).
    pub is_strict_copy: bool,
    /// Leave what a failed copy has written.
    pub keeps_failed: bool,
    /// Only IPv4.
    pub ipv4_only: bool,
    /// Only IPv6.
    pub ipv6_only: bool,
    /// The tokens are used as they are: never exchanged, never refreshed.
    pub unmanaged_tokens: bool,
    /// Quality of service of the destination. Kept for FTS's API only.
    pub target_qos: Option<String>,
    /// Hosts through which a file may go if its storages share no protocol, in order.
    pub hops: Vec<String>,
    /// The name of the owner's delegated proxy among the secrets; `None`: the job needs none.
    pub proxy: Option<String>,
    /// The trace of the submission (W3C Trace Context), if the client exports it; `None`: the job
    /// is a trace of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// What belongs to one file only, and is not searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileOptions {
    /// The checksum as the client gave it: `ADLER32:1a2b3c4d`, or `ADLER32` alone.
    pub checksum: Option<String>,
    /// Which replica comes first.
    pub selection: Selection,
    /// The only way that the copy may take.
    pub copy_mode: Option<CopyMode>,
    /// The client's data about the file.
    pub metadata: Option<Value>,
    /// Data for the tape system of the source.
    pub staging_metadata: Option<Value>,
    /// Data for the tape system of the destination.
    pub archive_metadata: Option<Value>,
    /// The flow label: experiment and activity.
    pub scitag: Option<u16>,
    /// The name of the stored token for the source.
    pub source_token: Option<String>,
    /// The name of the stored token for the destination.
    pub destination_token: Option<String>,
    /// The query of the source's URL, sealed, in base64; the URL then hides its secrets. Removed
    /// when the file goes into the history.
    pub source_query: Option<String>,
    /// The same for the destination.
    pub destination_query: Option<String>,
}

/// A file that is submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFile {
    /// Files of one index are replicas of each other; the hops of a chain count from 0.
    pub index: u32,
    /// URL of the source, without `copy_mode`.
    pub source: String,
    /// URL of the destination.
    pub destination: String,
    /// The source's storage.
    pub source_storage: String,
    /// The destination's storage.
    pub destination_storage: String,
    /// The state that it begins in.
    pub state: FileState,
    /// The size as the client gave it, in bytes.
    pub size_bytes: Option<u64>,
    /// The activity: what it is for.
    pub activity: String,
    /// The rest.
    pub options: FileOptions,
}

/// A job that is submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// Its identifier.
    pub id: JobId,
    /// How its files belong together.
    pub kind: JobKind,
    /// Whose it is.
    pub owner: Owner,
    /// When it was submitted.
    pub submitted_ms: i64,
    /// From 1 to 5; higher goes first.
    pub priority: u8,
    /// When a file that still waits is given up (`max_time_in_queue`).
    pub expires_ms: Option<i64>,
    /// What holds for all of its files.
    pub options: JobOptions,
    /// The client's data about the job.
    pub metadata: Option<Value>,
    /// The files, in order.
    pub files: Vec<NewFile>,
}

/// A job as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its identifier.
    pub id: JobId,
    /// How its files belong together.
    pub kind: JobKind,
    /// Its state.
    pub state: JobState,
    /// Whose it is.
    pub owner: Owner,
    /// When it was submitted.
    pub submitted_ms: i64,
    /// When it reached its last state.
    pub finished_ms: Option<i64>,
    /// From 1 to 5; higher goes first.
    pub priority: u8,
    /// When a file that still waits is given up.
    pub expires_ms: Option<i64>,
    /// Whether its end was requested.
    pub is_canceled: bool,
    /// Why it ended so; `None` as long as it runs or when all went well.
    pub reason: Option<String>,
    /// The source's storage, if all files have the same.
    pub source_storage: Option<String>,
    /// The destination's storage, if all files have the same. Of a chain: that of the last hop.
    pub destination_storage: Option<String>,
    /// What holds for all of its files.
    pub options: JobOptions,
    /// The client's data about the job.
    pub metadata: Option<Value>,
    /// Number of files, replicas and hops included.
    pub files: u32,
}

/// Why a file failed, or failed last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Our stable code, as in `docs/errors.md`.
    pub code: String,
    /// The side at fault.
    pub side: String,
    /// The phase in which it happened.
    pub phase: String,
    /// The whole reason as FTS says it: `SOURCE [2] …`, with our sentence and the peer's words.
    pub reason: String,
    /// Whether a later attempt may succeed.
    pub is_recoverable: bool,
}

/// When what happened to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The tape system was asked.
    pub staging_started_ms: Option<i64>,
    /// The file was on disk.
    pub staging_finished_ms: Option<i64>,
    /// The copy began.
    pub started_ms: Option<i64>,
    /// It reached its last state.
    pub finished_ms: Option<i64>,
    /// The wait for tape at the destination began.
    pub archiving_started_ms: Option<i64>,
    /// It was on tape.
    pub archiving_finished_ms: Option<i64>,
    /// A retry is due.
    pub retry_ms: Option<i64>,
}

/// A file as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its identifier.
    pub id: FileId,
    /// Its job.
    pub job: JobId,
    /// Files of one index are replicas of each other; the hops of a chain count from 0.
    pub index: u32,
    /// Its state.
    pub state: FileState,
    /// The state that it began in.
    pub initial_state: FileState,
    /// URL of the source.
    pub source: String,
    /// URL of the destination.
    pub destination: String,
    /// The source's storage: while the file goes by a hop, of the present part of the way.
    pub source_storage: String,
    /// The destination's storage, likewise.
    pub destination_storage: String,
    /// The virtual organisation.
    pub vo: String,
    /// The activity.
    pub activity: String,
    /// Whose turn it takes, by [`Owner::unique_name`]; empty for files of a release that knew no
    /// turns of users.
    #[serde(default)]
    pub user: String,
    /// From 1 to 5; higher goes first.
    pub priority: u8,
    /// The size as the client gave it, in bytes.
    pub given_size_bytes: Option<u64>,
    /// The size as the source gives it, in bytes.
    pub size_bytes: Option<u64>,
    /// Bytes copied.
    pub moved_bytes: u64,
    /// Failed attempts so far.
    pub attempts: u16,
    /// Why it failed, or failed last.
    pub problem: Option<Problem>,
    /// When what happened.
    pub times: Times,
    /// The worker that has or had it.
    pub worker: Option<String>,
    /// The way that the copy took, as in FTS's messages: `3rd pull`, `3rd push`, `streamed`.
    pub way: Option<String>,
    /// What the destination has instead (`dst_file`), if the job asks for it.
    pub destination_report: Option<Value>,
    /// An earlier attempt was begun by a worker that was lost before it stored how it ended. So
    /// the destination may have the file, or a part of it. For a file that goes by a hop, the end
    /// of the present part of its way.
    #[serde(default)]
    pub is_interrupted: bool,
    /// How often the destination was found to have what such an attempt may have left.
    #[serde(default)]
    pub lost_part_looks: u16,
    /// The storage between source and destination, if the queue has chosen one.
    #[serde(default)]
    pub hop: Option<Hop>,
    /// The rest.
    pub options: FileOptions,
}

impl FileRecord {
    /// The storages of its two URLs, the source's first, also while it goes by a hop.
    #[must_use]
    pub fn storages(&self) -> [&str; 2] {
        match &self.hop {
            Some(hop) => [&hop.source_storage, &hop.destination_storage],
            None => [&self.source_storage, &self.destination_storage],
        }
    }
}
