//! `/v1/webhooks`: receivers to which events are posted. Only operators name them, because the
//! queue opens connections to their URLs.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http_server::control::Client;
use queue::events::KINDS;
use queue::hidden_query;
use queue::limits::WEBHOOKS_MAX;
use queue::webhooks::{KnownWebhook, Maker, NewWebhook, WebhookSecret, is_webhook_url};
use serde::{Deserialize, Serialize};
use types::ErrorCode;
use utoipa::ToSchema;

use super::answer::{Answered, ErrorAnswer, Json, bad, missing, written};
use super::request::{self, List, Name};
use crate::limits::{NAME_BYTES_MAX, OPERATION_BYTES_MAX};
use crate::respond::nothing;
use crate::rest::entry;
use crate::rights::Caller;
use crate::settings::{Settings, Shared};

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
    /// The user who made it has lost the right: nothing is posted until the user has it again, or
    /// another enables it.
    Paused,
}

/// A receiver of events.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Webhook {
    /// Its name.
    id: String,
    /// Where events are posted; `hidden` stands for the values of parameters.
    url: String,
    /// Events of these kinds; none: of all.
    kinds: Vec<String>,
    /// Events of this virtual organisation; `null`: of all.
    vo: Option<String>,
    /// Who made it, or enabled it the last time. It is posted to while this user has the rights to
    /// change settings and to see the jobs.
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
        let KnownWebhook {
            hook,
            state,
            pending,
            is_paused,
        } = known;
        Self {
            id: hook.id,
            // Those of earlier releases are stored whole.
            url: hidden_query(&hook.url).unwrap_or(hook.url),
            kinds: hook.kinds,
            vo: hook.vo,
            by: hook.by,
            since_ms: hook.since_ms,
            status: match (is_paused, state.disabled_ms, state.failing_since_ms) {
                (_, Some(_), _) => WebhookStatus::Disabled,
                (true, None, _) => WebhookStatus::Paused,
                (false, None, Some(_)) => WebhookStatus::Failing,
                (false, None, None) => WebhookStatus::Active,
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

fn maker(caller: &Caller) -> Maker {
    Maker {
        // With its issuer: subjects of two issuers may be the same.
        user: caller.name.clone(),
        name: caller.name.clone(),
        granted: caller.granted.clone(),
    }
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
/// For operators who may see the jobs whose events it gets. Events from now on are posted to it, at
/// least once and in order, signed as <https://www.standardwebhooks.com> says.
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
    caller.may_send_events(asked.vo.as_deref())?;
    let secret = match &asked.secret {
        Some(text) => {
            Some(WebhookSecret::parse(text).ok_or_else(|| bad("secret is whsec_ and base64 of 24 to 64 bytes"))?)
        }
        None => None,
    };
    let new = NewWebhook {
        url: asked.url,
        kinds: asked.kinds,
        vo: asked.vo,
        secret,
    };
    let entry = entry(&caller, "webhook-add", String::new());
    let added = settings.webhooks.add(new, &maker(&caller), entry).await;
    let (hook, secret) = added.map_err(|error| match error.code() {
        ErrorCode::Overloaded => bad(format!("there are {WEBHOOKS_MAX} webhooks already")),
        _ => error.into(),
    })?;
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
    let entry = entry(&caller, "webhook-remove", id.clone());
    if !settings.webhooks.remove(&id, entry).await? {
        return Err(missing("no such webhook"));
    }
    Ok(nothing())
}

/// Enable a webhook
///
/// For operators who may see the jobs whose events it gets: it is theirs from then on. One that was
/// disabled gets the events from now on; one that fails is tried at once.
#[utoipa::path(
    post, path = "/webhooks/{webhook}/enable", tag = "events", operation_id = "enable_webhook",
    params(("webhook" = String, Path, description = "Its name.")),
    responses((status = 204, description = "Events are posted to it."), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn enable(State(settings): Shared, client: Client, Name(id): Name) -> Answered<Response> {
    let caller = operator(&settings, &client)?;
    let known = settings.webhooks.find(&id).await?;
    let hook = known.ok_or_else(|| missing("no such webhook"))?;
    caller.may_send_events(hook.vo.as_deref())?;
    let entry = entry(&caller, "webhook-enable", id.clone());
    match settings.webhooks.enable(&id, &maker(&caller), entry).await? {
        true => Ok(nothing()),
        false => Err(missing("no such webhook")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maker_of_a_webhook_is_named_with_its_issuer() {
        let caller = Caller::with_token("jane", "https://issuer.example");
        assert_eq!(maker(&caller).user, "jane@https://issuer.example");
    }
}
