//! Posts events to one webhook.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remote::{Access, Client, Resource, ServiceCall, ServiceMethod, WebhookHeaders};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use types::{Location, Result, Secret, Side};

use super::{Webhook, WebhookLog, WebhookSecret, WebhookState, Webhooks, reader};
use crate::clock::now_ms;
use crate::events::{Happening, happenings_after};
use crate::limits::{
    CATALOG_PAUSE, WEBHOOK_ANSWER_BYTES_MAX, WEBHOOK_ANSWER_TIMEOUT, WEBHOOK_BATCH_EVENTS_MAX, WEBHOOK_FAILING_MAX,
    WEBHOOK_GATHERING, WEBHOOK_LEASE, WEBHOOK_LEASE_RENEWAL, WEBHOOK_PAUSE_MAX, WEBHOOK_PAUSE_MIN,
};
use crate::urls::Concealed;

const JSON: &str = "application/json";
/// The receiver wants no more (Standard Webhooks; RFC 9110 §15.5.11).
const GONE: u16 = 410;

/// What posts to one webhook.
pub(super) struct Sender {
    hooks: Webhooks,
    hook: Webhook,
    client: Client,
    worker: String,
    log: Arc<dyn WebhookLog>,
}

/// Events that are posted together. An attempt that is repeated has the same id.
struct Message {
    id: String,
    body: Secret,
}

/// Why a message was not taken.
struct Refusal {
    error: String,
    /// When the receiver asks to be tried again.
    after: Option<Duration>,
    is_final: bool,
}

/// What ends the work under one lease.
enum End {
    /// Another process posts now, or the webhook is gone.
    LeaseLost,
    Disabled,
    Catalog,
}

impl From<types::Error> for End {
    fn from(_error: types::Error) -> Self {
        Self::Catalog
    }
}

impl Sender {
    pub(super) fn new(hooks: Webhooks, hook: Webhook, client: Client, worker: &str, log: Arc<dyn WebhookLog>) -> Self {
        Self {
            hooks,
            hook,
            client,
            worker: worker.to_owned(),
            log,
        }
    }

    /// Posts until the webhook is disabled or gone.
    pub(super) async fn run(self) {
        loop {
            match self.post_under_lease().await {
                Err(End::Disabled) => return,
                Err(End::LeaseLost) => sleep(WEBHOOK_LEASE_RENEWAL).await,
                Err(End::Catalog) => sleep(CATALOG_PAUSE).await,
                Ok(never) => match never {},
            }
        }
    }

    async fn post_under_lease(&self) -> std::result::Result<std::convert::Infallible, End> {
        let catalog = &self.hooks.catalog;
        // One that was removed or is paused leaves no reader behind.
        let is_allowed = self.hook.is_allowed(&self.hooks.grants().await?);
        if !is_allowed || !self.hooks.hooks().await?.contains(&self.hook) {
            return Err(End::LeaseLost);
        }
        let mut state = self.hooks.state(&self.hook.id).await?;
        if state.disabled_ms.is_some() {
            return Err(End::Disabled);
        }
        // Before the place is read: what happens from here on wakes us.
        let mut changes = catalog.changes();
        let name = reader(&self.hook.id);
        let taken = catalog.take_reader(&name, &self.worker, now_ms(), lease_ms());
        let mut place = taken.await?.ok_or(End::LeaseLost)?;
        let secret = self.hooks.secret(&self.hook.id).await?;
        let mut renewed = Instant::now();
        loop {
            let page = happenings_after(catalog, place, WEBHOOK_BATCH_EVENTS_MAX).await?;
            let has_more = page.len() == WEBHOOK_BATCH_EVENTS_MAX;
            let last = page.last().map_or(place, |event| event.sequence);
            let wanted: Vec<Happening> = page.into_iter().filter(|event| self.wants(event)).collect();
            if !wanted.is_empty() {
                let message = self.message(&wanted);
                self.deliver(&secret, &message, place, &mut state).await?;
            }
            if last != place || renewed.elapsed() >= WEBHOOK_LEASE_RENEWAL {
                place = last;
                self.move_to(place).await?;
                renewed = Instant::now();
            }
            if !has_more {
                tokio::select! {
                    () = changes.wait() => sleep(WEBHOOK_GATHERING).await,
                    () = sleep(WEBHOOK_LEASE_RENEWAL) => {}
                }
            }
        }
    }

    fn wants(&self, event: &Happening) -> bool {
        let kinds = &self.hook.kinds;
        let is_of_vo = match (&self.hook.vo, &event.vo) {
            (Some(wanted), Some(vo)) => wanted == vo,
            _ => true,
        };
        is_of_vo && (kinds.is_empty() || kinds.iter().any(|kind| kind == event.kind))
    }

    fn message(&self, events: &[Happening]) -> Message {
        let first = events.first().map_or(0, |event| event.sequence);
        let last = events.last().map_or(0, |event| event.sequence);
        let shown: Vec<Value> = events
            .iter()
            .map(|event| json!({"id": event.sequence, "event": event.kind, "data": event.message}))
            .collect();
        let body = json!({"type": "queue.events", "data": {"events": shown}});
        Message {
            // Signatures separate the id by dots, so it has none.
            id: format!("msg_{}_{first}_{last}", self.hook.id),
            body: Secret::new(body.to_string()),
        }
    }

    /// Posts a message until the receiver takes it.
    async fn deliver(
        &self,
        secret: &WebhookSecret,
        message: &Message,
        place: i64,
        state: &mut WebhookState,
    ) -> std::result::Result<(), End> {
        let mut pause = WEBHOOK_PAUSE_MIN;
        loop {
            let Err(refusal) = self.post(secret, message).await else {
                if *state != WebhookState::default() {
                    *state = WebhookState::default();
                    self.hooks.put_state(&self.hook.id, state, now_ms()).await?;
                    self.log.recovered(&self.hook);
                }
                return Ok(());
            };
            let now_ms = now_ms();
            let since_ms = *state.failing_since_ms.get_or_insert(now_ms);
            state.failures = state.failures.saturating_add(1);
            state.error = Some(refusal.error.clone());
            let failing_max_ms = i64::try_from(WEBHOOK_FAILING_MAX.as_millis()).unwrap_or(i64::MAX);
            if refusal.is_final || now_ms.saturating_sub(since_ms) >= failing_max_ms {
                return self.disable(state, &refusal.error).await;
            }
            self.hooks.put_state(&self.hook.id, state, now_ms).await?;
            let wait = refusal
                .after
                .unwrap_or(pause)
                .clamp(WEBHOOK_PAUSE_MIN, WEBHOOK_PAUSE_MAX);
            self.log.failed(&self.hook, &refusal.error, wait);
            self.wait(wait, place).await?;
            pause = (pause * 2).min(WEBHOOK_PAUSE_MAX);
        }
    }

    /// Posts nothing any more, and holds no events back.
    async fn disable(&self, state: &mut WebhookState, error: &str) -> std::result::Result<(), End> {
        state.disabled_ms = Some(now_ms());
        self.hooks.put_state(&self.hook.id, state, now_ms()).await?;
        self.hooks.catalog.forget_reader(&reader(&self.hook.id)).await?;
        self.log.disabled(&self.hook, error);
        Err(End::Disabled)
    }

    async fn post(&self, secret: &WebhookSecret, message: &Message) -> std::result::Result<(), Refusal> {
        let timestamp_s = now_ms().div_euclid(1000);
        let signature = secret.sign(&message.id, timestamp_s, message.body.expose());
        let refused = |error: String, after, is_final| Refusal { error, after, is_final };
        let url = self.hook.whole_url(&self.hooks.vault);
        let url = url.map_err(|error| refused(error.public(), None, false))?;
        let place = place(&url).map_err(|error| refused(error.public(), None, false))?;
        let call = ServiceCall {
            method: ServiceMethod::Post,
            content_type: JSON,
            body: &message.body,
            login: None,
            webhook: Some(WebhookHeaders {
                id: &message.id,
                timestamp_s,
                signature: &signature,
            }),
            answer_bytes_max: WEBHOOK_ANSWER_BYTES_MAX,
        };
        match timeout(WEBHOOK_ANSWER_TIMEOUT, self.client.call(&place, &call)).await {
            Ok(Ok(answer)) if answer.is_success() => Ok(()),
            Ok(Ok(answer)) => Err(refused(
                format!("status {}", answer.status),
                answer.retry_after_s.map(Duration::from_secs),
                answer.status == GONE,
            )),
            Ok(Err(error)) => {
                // Some services keep their secret in the path.
                let error = error.with_subject(place.location.authority());
                let error = Concealed::of_webhook(&url, &place.location).hide(error.public());
                Err(refused(error, None, false))
            }
            Err(_) => Err(refused("no answer".to_owned(), None, false)),
        }
    }

    /// Waits, and keeps the lease.
    async fn wait(&self, pause: Duration, place: i64) -> std::result::Result<(), End> {
        let end = Instant::now() + pause;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(WEBHOOK_LEASE_RENEWAL)).await;
            self.move_to(place).await?;
        }
    }

    /// The receiver has all events up to here.
    async fn move_to(&self, place: i64) -> std::result::Result<(), End> {
        let (catalog, name) = (&self.hooks.catalog, reader(&self.hook.id));
        match catalog.move_reader(&name, &self.worker, place, lease_ms()).await? {
            true => Ok(()),
            false => Err(End::LeaseLost),
        }
    }
}

fn place(url: &Secret) -> Result<Resource> {
    Ok(Resource {
        location: Location::parse(url.expose())?,
        access: Access::default(),
        // The receiver: it is none of a copy's sides, and not the queue.
        side: Side::Active,
    })
}

fn lease_ms() -> i64 {
    now_ms().saturating_add(i64::try_from(WEBHOOK_LEASE.as_millis()).unwrap_or(i64::MAX))
}
