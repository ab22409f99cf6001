//! Jobs. The job of another client is answered like one that does not exist.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use catalog::{JobRecord, JobSummary};
use http_server::control::Client;
use schedule::{FileId, JobId, JobKind};
use serde::Deserialize;
use types::{Error, ErrorCode, Phase, Side};
use utoipa::{IntoParams, ToSchema};

use super::answer::{Answered, ApiError, ErrorAnswer, Json, bad, missing};
use super::model::{File, Job, Why};
use super::request::{self, List, Name, PageQuery, limit, position};
use super::words::job_states;
use crate::bounded::AtMost;
use crate::limits::{CANCELED_FILES_MAX, NAME_BYTES_MAX, OPERATION_BYTES_MAX};
use crate::queue::Filter;
use crate::settings::{Settings, Shared, now_ms};

/// The reason of what a client has canceled, if it gives none.
const CANCELED: &str = "Job canceled by the user";

/// Which jobs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobsQuery {
    /// In one of these states; several with commas.
    #[param(example = "active,submitted")]
    state: Option<String>,
    /// From this storage.
    #[param(example = "https://host:443")]
    source: Option<String>,
    /// To this storage.
    destination: Option<String>,
    /// Of this virtual organisation.
    vo: Option<String>,
    /// Of this user.
    user: Option<String>,
    /// Entries of a page; default: 100.
    #[serde(default, deserialize_with = "request::number")]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<i64>,
    /// What `next` of the page before says.
    after: Option<String>,
}

/// A job that this client may see and change.
///
/// # Errors
/// 404 if there is none.
async fn job_of(settings: &Settings, client: &Client, id: &str) -> Result<JobSummary, ApiError> {
    let caller = settings.caller(client)?;
    let found = match id.parse::<JobId>() {
        Ok(id) => settings.queue.summary(id).await?,
        Err(_) => None,
    };
    let scope = caller.scope();
    let found = found.filter(|found| scope.includes(&found.record.owner));
    found.ok_or_else(|| missing(format!("no job {}", shown(id))))
}

/// A name as an error repeats it.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

/// List jobs
///
/// Your jobs, the newest first; those of others if you have the right to see them.
#[utoipa::path(
    get, path = "/jobs", tag = "jobs", operation_id = "list_jobs", params(JobsQuery),
    responses((status = 200, body = List<Job>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn list(State(settings): Shared, client: Client, uri: Uri) -> Answered<Json<List<Job>>> {
    let caller = settings.caller(&client)?;
    let query: JobsQuery = request::query(&uri)?;
    let states = job_states(query.state.as_deref())?;
    let before = position(query.after.as_deref())?;
    let filter = Filter {
        scope: caller.scope(),
        user: query.user,
        vo: query.vo,
        source_storage: query.source.map(|storage| storage.to_ascii_lowercase()),
        destination_storage: query.destination.map(|storage| storage.to_ascii_lowercase()),
        destination: None,
        ended_since_ms: None,
        limit: limit(query.limit)?,
    };
    let page = settings.queue.page_jobs(states, filter, before).await?;
    Ok(Json(List::page(page, Job::from)))
}

/// Show a job
#[utoipa::path(
    get, path = "/jobs/{job}", tag = "jobs", operation_id = "show_job",
    params(("job" = String, Path, description = "The job's identifier.")),
    responses((status = 200, body = Job), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn show(State(settings): Shared, client: Client, Name(id): Name) -> Answered<Json<Job>> {
    Ok(Json(job_of(&settings, &client, &id).await?.into()))
}

/// List the files of a job
#[utoipa::path(
    get, path = "/jobs/{job}/files", tag = "jobs", operation_id = "list_files",
    params(("job" = String, Path, description = "The job's identifier."), PageQuery),
    responses((status = 200, body = List<File>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn files(
    State(settings): Shared,
    client: Client,
    Name(id): Name,
    uri: Uri,
) -> Answered<Json<List<File>>> {
    let job = job_of(&settings, &client, &id).await?;
    let query: PageQuery = request::query(&uri)?;
    let (after, limit) = (position(query.after.as_deref())?, limit(query.limit)?);
    let page = settings.queue.page_files(job.record.id, after, limit).await?;
    let now_ms = now_ms();
    Ok(Json(List::page(page, |file| File::of(file, now_ms))))
}

/// Why the files of a job wait
///
/// Those that have not ended; if all have, all, with why they ended so.
#[utoipa::path(
    get, path = "/jobs/{job}/why", tag = "jobs", operation_id = "why_job",
    params(("job" = String, Path, description = "The job's identifier."), PageQuery),
    responses((status = 200, body = List<Why>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn why(
    State(settings): Shared,
    client: Client,
    Name(id): Name,
    uri: Uri,
) -> Answered<Json<List<Why>>> {
    let job = job_of(&settings, &client, &id).await?;
    let query: PageQuery = request::query(&uri)?;
    let (after, limit) = (position(query.after.as_deref())?, limit(query.limit)?);
    let page = settings.queue.why_job(job.record.id, after, limit).await?;
    let items: Vec<Why> = page.items.into_iter().map(Why::read).collect::<Result<_, _>>()?;
    let next = page.next;
    Ok(Json(List::page(catalog::Page { items, next }, |why| why)))
}

/// What to cancel.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub(super) struct Cancel {
    /// Only these files. Default: the whole job.
    #[serde(default)]
    #[schema(value_type = Option<Vec<i64>>, min_items = 1, max_items = 1000)]
    files: Option<AtMost<FileId, CANCELED_FILES_MAX>>,
    /// Why; shown with the files.
    #[serde(default)]
    #[schema(max_length = 255)]
    reason: Option<String>,
}

/// Cancel a job, or some of its files
///
/// What has ended stays as it is. Chains and jobs of a session are canceled as a whole only.
#[utoipa::path(
    post, path = "/jobs/{job}/cancel", tag = "jobs", operation_id = "cancel_job", request_body = Cancel,
    params(("job" = String, Path, description = "The job's identifier.")),
    responses((status = 200, body = Job), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn cancel(State(settings): Shared, client: Client, Name(id): Name, body: Body) -> Answered<Json<Job>> {
    let job = job_of(&settings, &client, &id).await?.record;
    let asked: Cancel = request::body(body, OPERATION_BYTES_MAX).await?;
    let reason = asked.reason.filter(|reason| !reason.is_empty());
    if reason.as_ref().is_some_and(|reason| reason.len() > NAME_BYTES_MAX) {
        return Err(bad(format!("reason has more than {NAME_BYTES_MAX} bytes")));
    }
    if reason.as_ref().is_some_and(|reason| reason.contains(char::is_control)) {
        return Err(bad("reason has control characters"));
    }
    let reason = reason.unwrap_or_else(|| CANCELED.to_owned());
    let files = match asked.files {
        None => None,
        Some(_) if matches!(job.kind, JobKind::Multihop | JobKind::SessionReuse) => {
            return Err(bad("a chain or a session is canceled as a whole only"));
        }
        Some(files) => Some(theirs(&settings, &job, files.0).await?),
    };
    settings.queue.cancel(job.id, files, reason).await?;
    show(State(settings), client, Name(id)).await
}

/// These files. All belong to the job.
async fn theirs(settings: &Settings, job: &JobRecord, files: Vec<FileId>) -> Result<Vec<FileId>, ApiError> {
    for id in &files {
        let found = settings.queue.file(*id).await?;
        if found.is_none_or(|file| file.job != job.id) {
            return Err(missing(format!("the job has no file {id}")));
        }
    }
    match files.is_empty() {
        true => Err(bad("files is empty: leave it out to cancel the whole job")),
        false => Ok(files),
    }
}

/// A new priority.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with the member priority")]
pub(super) struct Priority {
    /// From 1 to 5; higher goes first.
    #[schema(minimum = 1, maximum = 5)]
    priority: u8,
}

/// Change the priority of a job
#[utoipa::path(
    post, path = "/jobs/{job}/priority", tag = "jobs", operation_id = "set_priority", request_body = Priority,
    params(("job" = String, Path, description = "The job's identifier.")),
    responses(
        (status = 200, body = Job),
        (status = "default", body = ErrorAnswer, description = "The request failed; 409 if the job has ended."),
    ),
)]
pub(super) async fn priority(
    State(settings): Shared,
    client: Client,
    Name(id): Name,
    body: Body,
) -> Answered<Json<Job>> {
    let job = job_of(&settings, &client, &id).await?.record;
    let Priority { priority } = request::body(body, OPERATION_BYTES_MAX).await?;
    if !(1..=5).contains(&priority) {
        return Err(bad("priority is a number from 1 to 5"));
    }
    if job.state.is_terminal() {
        return Err(Error::new(ErrorCode::JobTerminal, Side::Client, Phase::Queued).into());
    }
    settings.queue.set_priority(job.id, priority).await?;
    show(State(settings), client, Name(id)).await
}
