//! `GET /v1/events`: what happens, as server-sent events.
//!
//! A stream first reads what the client has missed from the queue, and then listens to the hub. It
//! holds one event at a time. A client that does not keep up is dropped: it comes back with
//! `Last-Event-ID` and misses nothing that the queue still has. A stream ends with the credential
//! that opened it, and shows what its client may see at the moment.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use catalog::UserRight;
use credentials::CredentialKind;
use futures_util::stream;
use http_server::control::Client;
use http_wire::LAST_EVENT_ID;
use schedule::JobId;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;

use super::answer::{Answered, ApiError, ErrorAnswer, bad, missing};
use super::hub::{Hub, Place};
use super::request;
use crate::limits::{EVENT_HEARTBEAT, EVENTS_MISSED_MAX};
use crate::queue::{Event, EventKind, Scope};
use crate::settings::{Settings, Shared};
use crate::term::{Term, expired};

/// The event that says why a stream ends.
const ENDED: &str = "ended";
/// The event that says that the queue does not know the client's last event.
const RESET: &str = "reset";

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Of this job.
    #[param(format = "uuid")]
    job: Option<String>,
    /// Of one of these kinds; several with commas: `state` (jobs and files), `optimizer` (its
    /// decisions).
    #[param(example = "state,optimizer")]
    kind: Option<String>,
}

/// Follow events
///
/// Server-sent events: `id` is the number of the event, `event` its kind, `data` a JSON object: of
/// `state` with `job_id`, `file_id` (`null`: of the job only), `job_state`, `file_state`, `vo` and
/// `at_ms`, of `optimizer` as `GET /v1/decisions` shows it.
/// Events of your jobs and those that concern all; those of others if you have the right to see
/// them. A comment comes after 15 s without an event. If this queue does not know the last event,
/// because its database came back from a backup, the first event is `reset`, with the number of the
/// `latest` event as data: ask for the state of your jobs, and go on from there. When your
/// credential expires, the last event is `ended`, with an error as data: follow again with a new
/// one.
#[utoipa::path(
    get, path = "/events", tag = "events", operation_id = "follow_events",
    params(EventsQuery, ("Last-Event-ID" = Option<i64>, Header, description = "Go on after this event. \
        Default: begin with the next one.")),
    responses(
        (status = 200, body = String, content_type = "text/event-stream"),
        (status = "default", body = ErrorAnswer),
    ),
)]
pub(super) async fn follow(
    State(settings): Shared,
    Extension(hub): Extension<Hub>,
    client: Client,
    headers: HeaderMap,
    uri: Uri,
) -> Answered<Response> {
    let caller = settings.caller(&client)?;
    let query: EventsQuery = request::query(&uri)?;
    let wanted = Wanted {
        scope: caller.scope(),
        grants: settings.queue.grants(),
        job: job_of(&settings, &caller.scope(), query.job.as_deref()).await?,
        kinds: kinds(query.kind.as_deref())?,
    };
    let latest = *settings.queue.latest_event().borrow();
    let (after, resets) = match headers.get(LAST_EVENT_ID) {
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.parse::<i64>().ok());
            let number = number.ok_or_else(|| bad("the last event is named by its number"))?;
            // The database may have events of which this process has not learned yet.
            match number > latest && !is_known(&settings, number).await? {
                true => (latest, true),
                false => (number, false),
            }
        }
        None => (latest, false),
    };
    let place = hub.enter(&format!("{:?} {}", caller.owner.login, caller.owner.unique_name()))?;
    let follower = Follower {
        // From here on nothing is missed: what came before is read from the queue.
        live: hub.listen(&settings.queue),
        hub,
        term: client
            .credential()
            .map_or_else(|_| Term::default(), |credential| Term::of(credential)),
        settings,
        client,
        wanted,
        after,
        missed: VecDeque::new(),
        is_live: false,
        has_caught_up: false,
        progress: Progress::New,
        resets,
        _place: place,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Ok(Sse::new(events).into_response())
}

/// Whether there is an event with this number or a later one.
async fn is_known(settings: &Settings, number: i64) -> Result<bool, ApiError> {
    let found = settings.queue.events_after(number.saturating_sub(1), 1).await?;
    Ok(!found.is_empty())
}

/// The job, if this client may see it.
///
/// # Errors
/// 404.
async fn job_of(settings: &Settings, scope: &Scope, id: Option<&str>) -> Result<Option<JobId>, ApiError> {
    let Some(id) = id else { return Ok(None) };
    let missing = || missing("no such job");
    let id = id.parse().map_err(|_| missing())?;
    let jobs = settings.queue.jobs(vec![id]).await?;
    match jobs.first().is_some_and(|job| scope.includes(&job.owner)) {
        true => Ok(Some(id)),
        false => Err(missing()),
    }
}

fn kinds(list: Option<&str>) -> Result<Vec<EventKind>, ApiError> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let kind = |name: &str| {
        let found = EventKind::ALL.into_iter().find(|kind| kind.word() == name.trim());
        found.ok_or_else(|| bad("kind is state, optimizer, or both with a comma"))
    };
    list.split(',').map(kind).collect()
}

/// What a client wants, and may see.
struct Wanted {
    scope: Scope,
    /// What operators had granted when the scope was found.
    grants: Arc<Vec<UserRight>>,
    job: Option<JobId>,
    /// Empty: all.
    kinds: Vec<EventKind>,
}

impl Wanted {
    fn includes(&self, event: &Event) -> bool {
        let is_visible = match (&event.owner, event.job) {
            (Some(owner), _) => self.scope.includes(owner),
            // The job is forgotten: its owner is not known any more.
            (None, Some(_)) => self.scope == Scope::All,
            (None, None) => true,
        };
        is_visible
            && self.job.is_none_or(|job| event.job == Some(job))
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
    }
}

/// A client that follows.
struct Follower {
    live: Receiver<Arc<Event>>,
    hub: Hub,
    settings: Arc<Settings>,
    client: Client,
    /// How long it may follow.
    term: Term,
    wanted: Wanted,
    /// The last event that was looked at.
    after: i64,
    /// A page of what the client has missed.
    missed: VecDeque<Event>,
    is_live: bool,
    /// Whether it has seen an event as it happened.
    has_caught_up: bool,
    progress: Progress,
    /// Whether the client knows events that this queue does not, and is to learn of it.
    resets: bool,
    _place: Place,
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing was said.
    New,
    Following,
    /// The last event was said.
    Over,
}

impl Follower {
    /// The next piece of the stream; `None` ends it.
    async fn next(&mut self) -> Option<sse::Event> {
        match self.progress {
            Progress::New => {
                self.progress = Progress::Following;
                // The client knows at once that it is heard.
                return Some(sse::Event::default().comment("following"));
            }
            Progress::Following if std::mem::take(&mut self.resets) => return Some(self.reset()),
            Progress::Following => {}
            Progress::Over => return None,
        }
        let term = self.term;
        tokio::select! {
            biased;
            () = term.end() => Some(self.farewell()),
            piece = self.following() => piece,
        }
    }

    /// The first event for a client whose last event this queue does not know: its database came
    /// back from a backup, or is another one.
    fn reset(&self) -> sse::Event {
        let data = json!({"latest": self.after}).to_string();
        sse::Event::default().id(self.after.to_string()).event(RESET).data(data)
    }

    /// The last event: the credential has expired.
    fn farewell(&mut self) -> sse::Event {
        self.progress = Progress::Over;
        let kind = self
            .client
            .credential()
            .map_or(CredentialKind::Anonymous, |credential| credential.kind());
        let error = expired(kind).with_detail("follow again with a new one, after the last event that you got");
        sse::Event::default()
            .event(ENDED)
            .data(ApiError::from(error).document())
    }

    /// Whether the client may see an event and wants it.
    fn shows(&mut self, event: &Event) -> bool {
        let grants = self.settings.queue.grants();
        if !Arc::ptr_eq(&grants, &self.wanted.grants) {
            // What an operator takes back counts at once.
            let Ok(caller) = self.settings.caller(&self.client) else {
                return false;
            };
            (self.wanted.scope, self.wanted.grants) = (caller.scope(), grants);
        }
        self.wanted.includes(event)
    }

    /// The next event, or a comment; `None`: the client is too far behind, or the queue fails.
    /// Dropped only at the end of the stream.
    async fn following(&mut self) -> Option<sse::Event> {
        let heartbeat = tokio::time::sleep(EVENT_HEARTBEAT);
        tokio::pin!(heartbeat);
        loop {
            if let Some(event) = self.missed.pop_front() {
                self.after = event.sequence;
                if self.shows(&event) {
                    return Some(written(&event));
                }
                continue;
            }
            if !self.is_live {
                let page = self
                    .settings
                    .queue
                    .events_after(self.after, EVENTS_MISSED_MAX)
                    .await
                    .ok()?;
                self.is_live = page.len() < EVENTS_MISSED_MAX;
                self.missed = page.into();
                continue;
            }
            let hub = self.hub.clone();
            let event = tokio::select! {
                event = self.live.recv() => event,
                () = &mut heartbeat => return Some(sse::Event::default().comment("")),
                () = hub.closing() => return None,
            };
            match event {
                Ok(event) if event.sequence <= self.after => {}
                Ok(event) => {
                    self.after = event.sequence;
                    self.has_caught_up = true;
                    if self.shows(&event) {
                        return Some(written(&event));
                    }
                }
                // Much has happened while it read what it had missed.
                Err(RecvError::Lagged(_)) if !self.has_caught_up => self.is_live = false,
                Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
            }
        }
    }
}

fn written(event: &Event) -> sse::Event {
    // One line: neither an end of line nor NUL stands in the text of JSON.
    sse::Event::default()
        .id(event.sequence.to_string())
        .event(event.kind.word())
        .data(&*event.message)
}
