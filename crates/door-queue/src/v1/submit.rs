//! `POST /v1/jobs`.

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use catalog::{PastSubmission, SubmissionKey};
use http_server::control::Client;
use http_wire::IDEMPOTENCY_KEY;
use net::random::random;
use queue::owners::is_same_user;
use types::{Error, ErrorCode, Phase, Side};

use super::answer::{Answered, ApiError, ErrorAnswer, Json, bad, written};
use super::model::{NewJob, StoredJob};
use super::request::parsed;
use crate::admission::{self, Delegated};
use crate::fts::submission::{Submitter, hold};
use crate::limits::{IDEMPOTENCY_KEY_BYTES_MAX, SUBMISSION_BYTES_MAX};
use crate::queue::Stored;
use crate::respond::whole;
use crate::rights::Caller;
use crate::settings::{Settings, Shared, now_ms};

/// Submit a job
///
/// With an idempotency key, a repeated request gives the job of the first one. A key belongs to
/// its user, and is kept as long as its job.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs", operation_id = "submit_job", request_body = NewJob,
    params(("Idempotency-Key" = Option<String>, Header, description = "The client's name for this submission: at \
        most 128 printable characters of ASCII.", max_length = 128, pattern = "^[\\x21-\\x7e]+$")),
    responses(
        (status = 201, body = StoredJob, description = "The job is stored."),
        (status = 200, body = StoredJob, description = "The job was stored by an earlier request with this key."),
        (status = "default", body = ErrorAnswer, description = "The request failed; 409 if the key was used for \
            another submission."),
    ),
)]
pub(super) async fn submit(
    State(settings): Shared,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Answered<Response> {
    let caller = settings.caller(&client)?;
    let name = key_of(&headers)?;
    admission::check_user(&settings, &caller).await?;
    let body = whole(body, SUBMISSION_BYTES_MAX).await?;
    let key = name.map(|name| SubmissionKey {
        name,
        digest: digest(&SHA256, &body).as_ref().to_vec(),
    });
    if let Some(key) = &key {
        let past = settings.queue.past_submission(caller.owner.clone(), key.name.clone());
        if let Some(past) = past.await? {
            return again(&settings, &caller, key, &past).await;
        }
    }
    let now_ms = now_ms();
    let from = Submitter {
        owner: &caller.owner,
        now_ms,
        random: random(),
    };
    let new: NewJob = parsed(&body)?;
    drop(body);
    let submission = new.read(&from)?;
    let mut job = submission.job;
    job.options.traceparent = admission::trace_of(&client);
    let refused = |detail: &str| {
        let error = Error::new(ErrorCode::DelegationMissing, Side::Client, Phase::Authenticate);
        ApiError::from(error.with_detail(detail))
    };
    match admission::delegated(&settings, &caller, &mut job).await? {
        Delegated::Enough => {}
        Delegated::None => return Err(refused("delegate a proxy to the queue first")),
        Delegated::TooShort => return Err(refused("your delegated proxy ends within an hour")),
    }
    hold(&mut job, &settings.queue.bans().await?)?;
    let (id, files) = (job.id, job.files.len());
    let checks = admission::Checks::of(&job, &submission.tokens);
    match settings.queue.submit(job, submission.tokens, key.clone()).await? {
        Stored::New(mut warnings) => {
            warnings.extend(checks.warnings(&settings, id).await);
            let stored = StoredJob {
                job_id: id.to_string(),
                files: u32::try_from(files).unwrap_or(u32::MAX),
                warnings,
            };
            Ok(written(201, &stored))
        }
        Stored::Past(past) => match &key {
            Some(key) => again(&settings, &caller, key, &past).await,
            None => Err(conflict(ErrorCode::JobExists)),
        },
        Stored::Known => Err(conflict(ErrorCode::JobExists)),
    }
}

fn conflict(code: ErrorCode) -> ApiError {
    Error::new(code, Side::Client, Phase::Queued).into()
}

/// The client's key.
fn key_of(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    match text.len() {
        1..=IDEMPOTENCY_KEY_BYTES_MAX if is_plain => Ok(Some(text.to_owned())),
        _ => Err(bad(format!(
            "an idempotency key has from 1 to {IDEMPOTENCY_KEY_BYTES_MAX} printable characters of ASCII"
        ))),
    }
}

/// The answer to a submission whose key was used before.
async fn again(settings: &Settings, caller: &Caller, key: &SubmissionKey, past: &PastSubmission) -> Answered<Response> {
    let known = settings.queue.jobs(vec![past.job]).await?;
    // Keys are stored by the name of the delegation, which two users can have.
    let is_own = known.first().is_none_or(|job| is_same_user(&job.owner, &caller.owner));
    if past.digest != key.digest || !is_own {
        return Err(conflict(ErrorCode::IdempotencyKeyReused));
    }
    let stored = StoredJob {
        job_id: past.job.to_string(),
        files: known.first().map_or(0, |job| job.files),
        warnings: Vec::new(),
    };
    Ok(Json(stored).into_response())
}
