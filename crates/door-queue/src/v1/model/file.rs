//! A file of a job, and its attempts.

use catalog::{FileRecord, Hop, HopPart};
use schedule::{FileId, FileState, JobId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::fts::submission::source_as_given;
use crate::queue;
use crate::v1::words::file_state;

/// A file of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::v1) struct File {
    /// Its identifier.
    #[schema(value_type = i64)]
    file_id: FileId,
    /// Its job.
    #[schema(value_type = String, format = "uuid")]
    job_id: JobId,
    /// Its place in the job. Replicas have the same; hops count from 0.
    index: u32,
    /// Its state.
    #[schema(schema_with = file_state)]
    state: FileState,
    /// URL of the source.
    source: String,
    /// URL of the destination.
    destination: String,
    /// The size: what the source says, else the client.
    size_bytes: Option<u64>,
    /// Bytes copied.
    moved_bytes: u64,
    /// Bytes per second since the copy began.
    rate_bytes_s: Option<f64>,
    /// The present or last attempt, from 1; 0 before the first.
    attempt: u32,
    /// When the copy began, in milliseconds since 1970.
    started_ms: Option<i64>,
    /// When it ended, in milliseconds since 1970.
    ended_ms: Option<i64>,
    /// When it is tried again, in milliseconds since 1970.
    retry_ms: Option<i64>,
    /// Why it failed, or failed last.
    reason: Option<String>,
    /// The stable code of that failure.
    code: Option<String>,
    /// The way that the copy took: `3rd pull`, `3rd push`, `streamed`.
    way: Option<String>,
    /// The storage that it passes, as neither its source nor its destination can make the copy.
    hop: Option<PassedHop>,
    /// The worker that has or had it.
    worker: Option<String>,
    /// What it is for.
    activity: String,
    /// The checksum as the client gave it.
    checksum: Option<String>,
    /// The client's data about it.
    #[schema(value_type = Value)]
    metadata: Option<Value>,
}

impl File {
    /// The file, as it is at `now_ms`.
    pub(in crate::v1) fn of(record: FileRecord, now_ms: i64) -> Self {
        let problem = record.problem.as_ref();
        // What failed before the copy succeeded is in the list of attempts. A file that was found
        // at its destination says so.
        let was_found = record.is_interrupted && record.way.is_none();
        let problem = problem.filter(|_| record.state != FileState::Finished || was_found);
        Self {
            file_id: record.id,
            job_id: record.job,
            index: record.index,
            state: record.state,
            source: source_as_given(&record.source, record.options.copy_mode),
            size_bytes: record.size_bytes.or(record.given_size_bytes),
            moved_bytes: record.moved_bytes,
            rate_bytes_s: rate_bytes_s(&record, now_ms),
            attempt: attempt(&record),
            started_ms: record.times.started_ms,
            ended_ms: record.times.finished_ms,
            retry_ms: record.times.retry_ms,
            reason: problem.map(|problem| problem.reason.clone()),
            code: problem.map(|problem| problem.code.clone()),
            way: record.way,
            hop: record.hop.map(PassedHop::from),
            worker: record.worker,
            activity: record.activity,
            checksum: record.options.checksum,
            metadata: record.options.metadata,
            destination: record.destination,
        }
    }
}

fn attempt(record: &FileRecord) -> u32 {
    let is_under_way = matches!(
        record.state,
        FileState::Ready | FileState::Active | FileState::Archiving | FileState::Finished
    );
    u32::from(record.attempts) + u32::from(is_under_way)
}

fn rate_bytes_s(record: &FileRecord, now_ms: i64) -> Option<f64> {
    let end_ms = match record.state {
        FileState::Active => now_ms,
        FileState::Archiving => record.times.archiving_started_ms?,
        _ => record.times.finished_ms?,
    };
    let time_ms = end_ms.checked_sub(record.times.started_ms?).filter(|time| *time > 0)?;
    (record.moved_bytes > 0).then_some(record.moved_bytes as f64 * 1000.0 / time_ms as f64)
}

/// The storage that a file passes on its way.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::v1) struct PassedHop {
    /// Its part of the way, in its state: `incoming`, to the hop; `outgoing`, from the hop to the
    /// destination; `given_up`, without the hop after all.
    part: &'static str,
    /// URL of the file at the hop.
    url: String,
    /// The link of that part: from which storage.
    from: String,
    /// To which storage.
    to: String,
    /// Why the file goes without the hop.
    reason: Option<String>,
}

impl From<Hop> for PassedHop {
    fn from(hop: Hop) -> Self {
        let [from, to] = hop.link().map(str::to_owned);
        Self {
            part: match hop.part {
                HopPart::Incoming => "incoming",
                HopPart::Outgoing => "outgoing",
                HopPart::GivenUp => "given_up",
            },
            url: hop.incoming.url,
            reason: hop.given_up_for,
            from,
            to,
        }
    }
}

/// An attempt that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::v1) struct Attempt {
    /// Its number, from 1.
    number: u16,
    /// When it failed, in milliseconds since 1970.
    failed_ms: i64,
    /// Why.
    reason: String,
    /// The stable code.
    code: String,
    /// The worker that made it.
    worker: Option<String>,
}

impl From<queue::Attempt> for Attempt {
    fn from(attempt: queue::Attempt) -> Self {
        Self {
            number: attempt.number,
            failed_ms: attempt.failed_ms,
            reason: attempt.reason,
            code: attempt.code,
            worker: attempt.worker,
        }
    }
}
