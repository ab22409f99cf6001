//! The queue itself: its workers, and who the client is to it.

use axum::body::Body;
use axum::extract::State;
use http_server::control::Client;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Answered, ErrorAnswer, Json, missing};
use super::request::{self, List, Name};
use crate::limits::OPERATION_BYTES_MAX;
use crate::queue::WorkerState;
use crate::rest::entry;
use crate::rights::Level;
use crate::settings::Shared;

/// A process that runs copies.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Worker {
    /// Its name.
    name: String,
    /// When it was last heard of, in milliseconds since 1970.
    seen_ms: i64,
    /// Copies that it runs.
    active: u32,
    /// Whether it takes no new work.
    is_draining: bool,
    /// Whether it has been silent for longer than its lease: its files go to others.
    is_lost: bool,
}

impl From<WorkerState> for Worker {
    fn from(worker: WorkerState) -> Self {
        Self {
            name: worker.name,
            seen_ms: worker.seen_ms,
            active: worker.active,
            is_draining: worker.is_draining,
            is_lost: worker.is_lost,
        }
    }
}

/// List workers
#[utoipa::path(
    get, path = "/workers", tag = "service", operation_id = "list_workers",
    responses((status = 200, body = List<Worker>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn workers(State(settings): Shared, client: Client) -> Answered<Json<List<Worker>>> {
    settings.caller(&client)?;
    let workers = settings.queue.workers().await?;
    Ok(Json(List::whole(workers.into_iter().map(Worker::from).collect())))
}

/// Whether a worker takes new work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with the member drain")]
pub(super) struct Drain {
    /// `true`: it takes no new work, and ends what it has begun.
    drain: bool,
}

/// Let a worker take no new work, or take it again
///
/// For operators.
#[utoipa::path(
    post, path = "/workers/{worker}/drain", tag = "service", operation_id = "drain_worker", request_body = Drain,
    params(("worker" = String, Path, description = "The worker's full name, or the configured part of it.")),
    responses((status = 200, body = Worker), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn drain(
    State(settings): Shared,
    client: Client,
    Name(name): Name,
    body: Body,
) -> Answered<Json<Worker>> {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let Drain { drain } = request::body(body, OPERATION_BYTES_MAX).await?;
    let missing = || missing("no such worker");
    let entry = entry(&caller, "drain", format!("Worker {name}: drain {drain}"));
    if !settings.queue.drain(name.clone(), drain, entry).await? {
        return Err(missing());
    }
    let workers = settings.queue.workers().await?;
    let is_meant = |full: &str| {
        full.strip_prefix(&name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let found = workers.into_iter().find(|worker| is_meant(&worker.name));
    Ok(Json(found.ok_or_else(missing)?.into()))
}

/// Who the client is to the queue.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WhoAmI {
    /// The name of the certificate, or the subject of the token.
    name: String,
    /// The name that makes it an operator in the configuration: of a token `subject@issuer`.
    operator_name: String,
    /// Its virtual organisations. Its jobs belong to the first.
    vos: Vec<String>,
    /// Whether it sees the jobs of others and changes settings.
    is_operator: bool,
    /// The name of its delegated proxy.
    delegation_id: String,
    /// When its delegated proxy ends, in milliseconds since 1970; `null`: there is none.
    delegated_until_ms: Option<i64>,
}

/// Show who you are to the queue
#[utoipa::path(
    get, path = "/whoami", tag = "service", operation_id = "whoami",
    responses((status = 200, body = WhoAmI), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn whoami(State(settings): Shared, client: Client) -> Answered<Json<WhoAmI>> {
    let caller = settings.caller(&client)?;
    let delegated_until_ms = match caller.delegator.as_ref().zip(settings.proxies.as_ref()) {
        Some((delegator, proxies)) => proxies.expires_ms(delegator).await?,
        None => None,
    };
    Ok(Json(WhoAmI {
        is_operator: caller.levels.transfer == Level::All && caller.levels.config == Level::All,
        name: caller.owner.user,
        operator_name: caller.name,
        vos: caller.vos,
        delegation_id: caller.owner.delegation_id,
        delegated_until_ms,
    }))
}
