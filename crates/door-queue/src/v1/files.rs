//! Files by their own identifier.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use catalog::FileRecord;
use http_server::control::Client;
use schedule::FileId;

use super::answer::{Answered, ApiError, ErrorAnswer, Json, missing};
use super::model::{Attempt, File, Why};
use super::request::{List, Name};
use crate::settings::{Settings, Shared, now_ms};

/// A file of a job that this client may see.
///
/// # Errors
/// 404 if there is none.
async fn file_of(settings: &Settings, client: &Client, id: &str) -> Result<FileRecord, ApiError> {
    let caller = settings.caller(client)?;
    let missing = || missing("no such file");
    let id = id.parse().map(FileId).map_err(|_| missing())?;
    let file = settings.queue.file(id).await?.ok_or_else(missing)?;
    let jobs = settings.queue.jobs(vec![file.job]).await?;
    let scope = caller.scope();
    let is_visible = jobs.first().is_some_and(|job| scope.includes(&job.owner));
    is_visible.then_some(file).ok_or_else(missing)
}

/// Show a file
#[utoipa::path(
    get, path = "/files/{file}", tag = "files", operation_id = "show_file",
    params(("file" = String, Path, description = "The file's identifier.")),
    responses((status = 200, body = File), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn show(State(settings): Shared, client: Client, Name(id): Name) -> Answered<Json<File>> {
    let file = file_of(&settings, &client, &id).await?;
    Ok(Json(File::of(file, now_ms())))
}

/// Why a file waits, or did not go well
#[utoipa::path(
    get, path = "/files/{file}/why", tag = "files", operation_id = "why_file",
    params(("file" = String, Path, description = "The file's identifier.")),
    responses((status = 200, body = Why), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn why(State(settings): Shared, client: Client, Name(id): Name) -> Answered<Json<Why>> {
    let file = file_of(&settings, &client, &id).await?;
    let why = settings.queue.why_file(file.id).await?;
    Ok(Json(Why::read(why.ok_or_else(|| missing("no such file"))?)?))
}

/// List the attempts of a file that failed
#[utoipa::path(
    get, path = "/files/{file}/attempts", tag = "files", operation_id = "list_attempts",
    params(("file" = String, Path, description = "The file's identifier.")),
    responses((status = 200, body = List<Attempt>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn attempts(State(settings): Shared, client: Client, Name(id): Name) -> Answered<Json<List<Attempt>>> {
    let file = file_of(&settings, &client, &id).await?;
    let attempts = settings.queue.attempts(file.id).await?;
    Ok(Json(List::whole(attempts.into_iter().map(Attempt::from).collect())))
}

/// Show the log of a file
#[utoipa::path(
    get, path = "/files/{file}/log", tag = "files", operation_id = "show_log",
    params(("file" = String, Path, description = "The file's identifier.")),
    responses(
        (status = 200, body = String, content_type = "text/plain; charset=utf-8"),
        (status = "default", body = ErrorAnswer),
    ),
)]
pub(super) async fn log(State(settings): Shared, client: Client, Name(id): Name) -> Answered<Response> {
    let file = file_of(&settings, &client, &id).await?;
    let log = settings.queue.log(file.id).await?;
    Ok(log.ok_or_else(|| missing("the file has no log"))?.into_response())
}
