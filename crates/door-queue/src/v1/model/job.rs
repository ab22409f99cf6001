//! A job.

use catalog::JobSummary;
use schedule::{JobId, JobState, JobTally};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::v1::words::{Kind, job_state};

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::v1) struct Job {
    /// Its identifier.
    #[schema(value_type = String, format = "uuid")]
    job_id: JobId,
    /// Its state.
    #[schema(schema_with = job_state)]
    state: JobState,
    /// How its files belong together.
    kind: Kind,
    /// Who submitted it: the name of the certificate, or the subject of the token.
    user: String,
    /// The virtual organisation.
    vo: String,
    /// From 1 to 5; higher goes first.
    priority: u8,
    /// When it was submitted, in milliseconds since 1970.
    submitted_ms: i64,
    /// When it ended, in milliseconds since 1970.
    ended_ms: Option<i64>,
    /// When files that still wait are given up, in milliseconds since 1970.
    expires_ms: Option<i64>,
    /// Why it ended so.
    reason: Option<String>,
    /// The source's storage, if all files have the same.
    source: Option<String>,
    /// The destination's storage, if all files have the same.
    destination: Option<String>,
    /// The number of its files by state.
    files: FileCounts,
    /// The client's data about it.
    #[schema(value_type = Value)]
    metadata: Option<Value>,
}

/// The number of a job's files by state.
#[derive(Debug, Serialize, ToSchema)]
struct FileCounts {
    /// All, replicas and hops included.
    total: u32,
    /// Wait for tape before the copy.
    staging: u32,
    /// Wait for tokens, their turn, a retry, or the end of a ban.
    waiting: u32,
    /// Spare replicas and later hops.
    unused: u32,
    /// Being copied.
    active: u32,
    /// Wait for tape after the copy.
    archiving: u32,
    /// Done.
    finished: u32,
    /// Given up.
    failed: u32,
    /// Canceled.
    canceled: u32,
}

impl FileCounts {
    fn of(total: u32, tally: &JobTally) -> Self {
        Self {
            total,
            staging: tally.staging,
            waiting: tally.waiting,
            unused: tally.unused,
            active: tally.running,
            archiving: tally.archiving,
            finished: tally.finished,
            failed: tally.failed,
            canceled: tally.canceled,
        }
    }
}

impl From<JobSummary> for Job {
    fn from(summary: JobSummary) -> Self {
        let job = summary.record;
        Self {
            job_id: job.id,
            state: job.state,
            kind: job.kind.into(),
            user: job.owner.user,
            vo: job.owner.vo,
            priority: job.priority,
            submitted_ms: job.submitted_ms,
            ended_ms: job.finished_ms,
            expires_ms: job.expires_ms,
            reason: job.reason,
            source: job.source_storage,
            destination: job.destination_storage,
            files: FileCounts::of(job.files, &summary.tally),
            metadata: job.metadata,
        }
    }
}
