//! Why a file waits, or did not go well.

use schedule::{FileId, FileState, JobId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use types::{Error, ErrorCode, Phase, Side};
use utoipa::ToSchema;

use crate::v1::answer::ApiError;
use crate::v1::words::file_state;

/// Why a file is where it is.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(in crate::v1) struct Why {
    /// The file.
    #[schema(value_type = i64)]
    file_id: FileId,
    /// Its job.
    #[schema(value_type = String, format = "uuid")]
    job_id: JobId,
    /// Its state.
    #[schema(schema_with = file_state)]
    state: FileState,
    /// The reasons, the binding one first. A file that waits has at least one.
    reasons: Vec<Reason>,
    /// Files ahead of it in its queue.
    #[serde(default)]
    ahead: Option<u64>,
    /// Who has the slots that it waits for, most copies first.
    #[serde(default)]
    contenders: Vec<Contender>,
    /// When it may start and end; `null` while there is nothing to base it on.
    #[serde(default)]
    estimate: Option<Estimate>,
    /// When its credential expires, in milliseconds since 1970.
    #[serde(default)]
    credential_expires_ms: Option<i64>,
}

/// A reason, with data that depend on its code.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct Reason {
    /// Its stable code.
    code: String,
    /// One sentence.
    words: String,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    data: Map<String, Value>,
}

/// Files that use the same slots.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct Contender {
    /// The source's storage.
    source: String,
    /// The destination's storage.
    destination: String,
    /// The virtual organisation.
    vo: String,
    /// The activity.
    activity: String,
    /// Copies that run, or are about to begin.
    active: u64,
    /// Files that wait.
    waiting: u64,
}

/// When a file may start and end.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct Estimate {
    /// The start, in milliseconds since 1970.
    start_ms: i64,
    /// The end, in milliseconds since 1970.
    end_ms: Option<i64>,
    /// What it is based on.
    #[schema(value_type = Value)]
    basis: Value,
}

impl Why {
    /// What the queue says.
    ///
    /// # Errors
    /// `internal` if it is not of this form.
    pub(in crate::v1) fn read(value: Value) -> Result<Self, ApiError> {
        serde_json::from_value(value).map_err(|cause| {
            let error = Error::new(ErrorCode::Internal, Side::Queue, Phase::Queued);
            error.with_private(cause).into()
        })
    }
}
