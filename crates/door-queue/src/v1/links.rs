//! Links: what they do, and their pause.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use catalog::LinkSettings;
use http_server::control::Client;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::answer::{Answered, ApiError, ErrorAnswer, Json, bad, missing};
use super::model::{Decision, Link};
use super::request::{self, List, PageQuery, limit};
use crate::limits::OPERATION_BYTES_MAX;
use crate::link;
use crate::queue::{LinkState, Scope};
use crate::respond::nothing;
use crate::rest::entry;
use crate::settings::{Settings, Shared};
use crate::storage_name::storage_name;

/// A storage that a request names.
///
/// # Errors
/// 400 for what is none.
pub(super) fn storage(text: &str) -> Result<String, ApiError> {
    storage_name(text).ok_or_else(|| {
        bad(format!(
            "{} is no storage: it is named by scheme and host, such as https://host:443",
            text.chars().take(64).collect::<String>()
        ))
    })
}

/// List links with files that have not ended
///
/// In the order of their storages.
#[utoipa::path(
    get, path = "/links", tag = "links", operation_id = "list_links", params(PageQuery),
    responses((status = 200, body = List<Link>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn list(State(settings): Shared, client: Client, uri: Uri) -> Answered<Json<List<Link>>> {
    let sees_all = settings.caller(&client)?.scope() == Scope::All;
    let query: PageQuery = request::query(&uri)?;
    let (after, limit) = (query.after.unwrap_or_default(), limit(query.limit)?);
    let mut links = settings.queue.links().await?;
    links.retain(|link| mark(link) > after);
    links.sort_by_cached_key(mark);
    let next = (links.len() > limit).then(|| mark(&links[limit - 1]));
    links.truncate(limit);
    Ok(Json(List {
        items: links.into_iter().map(|link| Link::of(link, sees_all)).collect(),
        next,
    }))
}

/// Where a link is in the list. Storages have no spaces.
fn mark(link: &LinkState) -> String {
    format!("{} {} {}", link.source, link.destination, link.vo)
}

/// Which link.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LinkQuery {
    /// The source's storage; without a port, that of its scheme.
    #[param(example = "https://host:443")]
    source: String,
    /// The destination's storage; without a port, that of its scheme.
    #[param(example = "root://host:1094")]
    destination: String,
}

/// Why a link moves files as it does
///
/// The link for each virtual organisation, its shares, holds and bans, and what both storages can
/// do in copies.
#[utoipa::path(
    get, path = "/links/why", tag = "links", operation_id = "why_link", params(LinkQuery),
    responses((status = 200, body = Value), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn why(State(settings): Shared, client: Client, uri: Uri) -> Answered<Json<Value>> {
    settings.caller(&client)?;
    let query: LinkQuery = request::query(&uri)?;
    let (source, destination) = (storage(&query.source)?, storage(&query.destination)?);
    let why = settings.queue.why_link(source, destination).await?;
    Ok(Json(why.ok_or_else(|| missing("the link has no files"))?))
}

/// A link.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a JSON object with the members source and destination"
)]
pub(super) struct NamedLink {
    /// The source's storage; `*` for any.
    #[schema(example = "https://host:443", pattern = r"^(\*|[A-Za-z][A-Za-z0-9+.-]*://.+)$")]
    source: String,
    /// The destination's storage; `*` for any.
    #[schema(pattern = r"^(\*|[A-Za-z][A-Za-z0-9+.-]*://.+)$")]
    destination: String,
}

/// Pause a link
///
/// Copies that run go on; no other begins until the link is resumed. For operators.
#[utoipa::path(
    post, path = "/links/pause", tag = "links", operation_id = "pause_link", request_body = NamedLink,
    responses((status = 204, description = "It is paused."), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn pause(State(settings): Shared, client: Client, body: Body) -> Answered<Response> {
    set_pause(&settings, &client, body, true).await
}

/// Resume a link
///
/// For operators.
#[utoipa::path(
    post, path = "/links/resume", tag = "links", operation_id = "resume_link", request_body = NamedLink,
    responses((status = 204, description = "It is not paused."), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn resume(State(settings): Shared, client: Client, body: Body) -> Answered<Response> {
    set_pause(&settings, &client, body, false).await
}

async fn set_pause(settings: &Settings, client: &Client, body: Body, is_paused: bool) -> Answered<Response> {
    let caller = settings.caller(client)?;
    caller.may_configure(None)?;
    let asked: NamedLink = request::body(body, OPERATION_BYTES_MAX).await?;
    let (source, destination) = (storage(&asked.source)?, storage(&asked.destination)?);
    let action = if is_paused { "link-pause" } else { "link-resume" };
    let entry = entry(&caller, action, format!("{source} to {destination}"));
    let change = move |own: &mut LinkSettings| {
        own.is_paused = is_paused;
        Ok(vec![entry.clone()])
    };
    link::change(settings, &source, &destination, change).await?;
    Ok(nothing())
}

/// How many decisions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DecisionsQuery {
    /// At most this many; default: 100.
    #[serde(default, deserialize_with = "request::number")]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<i64>,
}

/// List what the optimizer has decided
///
/// The latest decisions of this process, the newest first, with their reasons.
#[utoipa::path(
    get, path = "/decisions", tag = "links", operation_id = "list_decisions", params(DecisionsQuery),
    responses((status = 200, body = List<Decision>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn decisions(State(settings): Shared, client: Client, uri: Uri) -> Answered<Json<List<Decision>>> {
    settings.caller(&client)?;
    let query: DecisionsQuery = request::query(&uri)?;
    let decisions = settings.queue.decisions(limit(query.limit)?).await?;
    Ok(Json(List::whole(decisions.into_iter().map(Decision::from).collect())))
}
