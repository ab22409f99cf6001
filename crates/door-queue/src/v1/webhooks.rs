//! `/v1/webhooks`: receivers to which events are posted. Only operators name them, because the
//! queue opens connections to their URLs.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http_server::control::Client;
use queue::events::KINDS;
use queue::limits::WEBHOOKS_MAX;
use queue::webhooks::{KnownWebhook, NewWebhook, WebhookSecret, is_webhook_url};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Answered, ErrorAnswer, Json, bad, missing, written};
use super::request::{self, List, Name};
use crate::limits::{NAME_BYTES_MAX, OPERATION_BYTES_MAX};
use crate::respond::nothing;
use crate::rest::note;
use crate::rights::Caller;
use crate::settings::{Settings, Shared, now_ms};

/// How it goes with a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum WebhookStatus {
    /// Events are posted.
    Active,
    /// The last attempt failed; another follows.
    Failing,
    /// Attempts have failed for a day, or the receiver answered 410: nothing is posted until an
    /// operator enables it.
    Disabled,
}

/// A receiver of events.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Webhook {
    /// Its name.
    id: String,
    /// Where events are posted.
    url: String,
    /// Events of these kinds; none: of all.
    kinds: Vec<String>,
    /// Events of this virtual organisation; `null`: of all.
    vo: Option<String>,
    /// Who made it.
    by: String,
    /// When it was made, or enabled the last time, in milliseconds since 1970.
    since_ms: i64,
    /// How it goes.
    status: WebhookStatus,
    /// Events that it has not got yet; `null` while nothing is posted.
    pending: Option<i64>,
    /// Since when all attempts fail, in milliseconds since 1970.
    failing_since_ms: Option<i64>,
    /// Attempts that have failed since then.
    failures: u32,
    /// Why the last attempt failed.
    error: Option<String>,
    /// Since when it is disabled, in milliseconds since 1970.
    disabled_ms: Option<i64>,
}

impl From<KnownWebhook> for Webhook {
    fn from(known: KnownWebhook) -> Self {
        let KnownWebhook { hook, state, pending } = known;
        Self {
            id: hook.id,
            url: hook.url,
            kinds: hook.kinds,
            vo: hook.vo,
            by: hook.by,
            since_ms: hook.since_ms,
            status: match (state.disabled_ms, state.failing_since_ms) {
                (Some(_), _) => WebhookStatus::Disabled,
                (None, Some(_)) => WebhookStatus::Failing,
                (None, None) => WebhookStatus::Active,
            },
            pending,
            failing_since_ms: state.failing_since_ms,
            failures: state.failures,
            error: state.error,
            disabled_ms: state.disabled_ms,
        }
    }
}

/// A receiver to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with the member url")]
pub(super) struct AddedWebhook {
    /// Where events are posted: `https` only.
    #[schema(
        example = "https://monitor.example.org/crossload",
        pattern = "^https://",
        max_length = 2048
    )]
    url: String,
    /// Events of these kinds: `state`, `optimizer`. Default: all.
    #[serde(default)]
    kinds: Vec<String>,
    /// Only events of this virtual organisation, and those that concern all.
    #[serde(default)]
    #[schema(max_length = 255)]
    vo: Option<String>,
    /// The secret that signs messages: `whsec_` and base64 of 24 to 64 bytes. Default: the queue
    /// makes one.
    #[serde(default)]
    #[schema(max_length = 128)]
    secret: Option<String>,
}

/// A receiver that was added.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeWebhook {
    /// Its name.
    id: String,
    /// The secret that signs messages. It is not shown again.
    secret: String,
}

/// An operator.
fn operator(settings: &Settings, client: &Client) -> Answered<Caller> {
    let caller = settings.caller(client)?;
    caller.may_configure(None)?;
    Ok(caller)
}

/// List webhooks
///
/// For operators.
#[utoipa::path(
    get, path = "/webhooks", tag = "events", operation_id = "list_webhooks",
    responses((status = 200, body = List<Webhook>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn list(State(settings): Shared, client: Client) -> Answered<Json<List<Webhook>>> {
    operator(&settings, &client)?;
    let known = settings.webhooks.list().await?;
    Ok(Json(List::whole(known.into_iter().map(Webhook::from).collect())))
}

/// Add a webhook
///
/// For operators. Events from now on are posted to it, at least once and in order, signed as
/// <https://www.standardwebhooks.com> says.
#[utoipa::path(
    post, path = "/webhooks", tag = "events", operation_id = "add_webhook", request_body = AddedWebhook,
    responses((status = 201, body = MadeWebhook), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn add(State(settings): Shared, client: Client, body: Body) -> Answered<Response> {
    let caller = operator(&settings, &client)?;
    let asked: AddedWebhook = request::body(body, OPERATION_BYTES_MAX).await?;
    if !is_webhook_url(&asked.url) {
        return Err(bad("url is an https URL without a user"));
    }
    let is_kind = |kind: &String| KINDS.contains(&kind.as_str());
    if asked.kinds.len() > KINDS.len() || !asked.kinds.iter().all(is_kind) {
        return Err(bad(format!("kinds are some of {}", KINDS.join(", "))));
    }
    if asked
        .vo
        .as_ref()
        .is_some_and(|vo| !(1..=NAME_BYTES_MAX).contains(&vo.len()))
    {
        return Err(bad(format!("vo is a name of at most {NAME_BYTES_MAX} bytes")));
    }
    let secret = match &asked.secret {
        Some(text) => {
            Some(WebhookSecret::parse(text).ok_or_else(|| bad("secret is whsec_ and base64 of 24 to 64 bytes"))?)
        }
        None => None,
    };
    if settings.webhooks.list().await?.len() >= WEBHOOKS_MAX {
        return Err(bad(format!("there are {WEBHOOKS_MAX} webhooks already")));
    }
    let new = NewWebhook {
        url: asked.url,
        kinds: asked.kinds,
        vo: asked.vo,
        secret,
    };
    let (hook, secret) = settings.webhooks.add(new, &caller.owner.user, now_ms()).await?;
    note(&settings, &caller, "webhook-add", hook.id.clone()).await?;
    let made = MadeWebhook {
        id: hook.id,
        secret: secret.text().expose().to_owned(),
    };
    Ok(written(201, &made))
}

/// Remove a webhook
///
/// For operators.
#[utoipa::path(
    delete, path = "/webhooks/{webhook}", tag = "events", operation_id = "remove_webhook",
    params(("webhook" = String, Path, description = "Its name.")),
    responses((status = 204, description = "It is gone."), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn remove(State(settings): Shared, client: Client, Name(id): Name) -> Answered<Response> {
    let caller = operator(&settings, &client)?;
    if !settings.webhooks.remove(&id, &caller.owner.user, now_ms()).await? {
        return Err(missing("no such webhook"));
    }
    note(&settings, &caller, "webhook-remove", id).await?;
    Ok(nothing())
}

/// Enable a webhook
///
/// For operators. One that was disabled gets the events from now on; one that fails is tried at
/// once.
#[utoipa::path(
    post, path = "/webhooks/{webhook}/enable", tag = "events", operation_id = "enable_webhook",
    params(("webhook" = String, Path, description = "Its name.")),
    responses((status = 204, description = "Events are posted to it."), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn enable(State(settings): Shared, client: Client, Name(id): Name) -> Answered<Response> {
    let caller = operator(&settings, &client)?;
    let known = settings.webhooks.enable(&id, &caller.owner.user, now_ms()).await?;
    known.ok_or_else(|| missing("no such webhook"))?;
    note(&settings, &caller, "webhook-enable", id).await?;
    Ok(nothing())
}
