//! Webhooks: receivers to which all events are posted, each at least once and in order.
//!
//! Operators name them, and no others: the queue opens connections to these URLs. A webhook has a
//! place in the events of the catalog. One process at a time posts for it, under a lease, and moves
//! the place on when the receiver has confirmed a batch; whatever breaks in between, the next
//! attempt begins at the place. Messages are signed as Standard Webhooks says.

mod sender;
mod signature;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, SealedSecret, SecretKind, SettingKind};
use net::random::random;
use remote::Client;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use crate::Vault;
use crate::limits::{WEBHOOK_LOOK_PAUSE, WEBHOOK_URL_BYTES_MAX, WEBHOOKS_MAX};
use sender::Sender;
pub use signature::WebhookSecret;

/// The beginning of the names under which states are kept.
const STATE: &str = "webhook ";

/// The owner of a lease that no process has.
const NO_WORKER: &str = "";

/// A receiver of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// Its name.
    pub id: String,
    /// Where events are posted: an `https` URL.
    pub url: String,
    /// Events of these kinds; empty: of all.
    pub kinds: Vec<String>,
    /// Events of this virtual organisation, and those that concern all; `None`: of all.
    pub vo: Option<String>,
    /// Who made it.
    pub by: String,
    /// When it was made, or enabled the last time, in milliseconds since 1970.
    pub since_ms: i64,
}

/// How it goes with a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookState {
    /// Since when each attempt fails.
    pub failing_since_ms: Option<i64>,
    /// Attempts that have failed since then.
    pub failures: u32,
    /// Why the last of them failed.
    pub error: Option<String>,
    /// Since when nothing is posted any more, because of these failures.
    pub disabled_ms: Option<i64>,
}

/// A webhook with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWebhook {
    /// The webhook.
    pub hook: Webhook,
    /// How it goes.
    pub state: WebhookState,
    /// Events in the log that it has not got yet; `None` before the first attempt, or if it is
    /// disabled.
    pub pending: Option<i64>,
}

/// What a new webhook is made from.
#[derive(Clone, Debug, Default)]
pub struct NewWebhook {
    /// As [`Webhook::url`].
    pub url: String,
    /// As [`Webhook::kinds`].
    pub kinds: Vec<String>,
    /// As [`Webhook::vo`].
    pub vo: Option<String>,
    /// The shared secret; `None`: the queue makes one.
    pub secret: Option<WebhookSecret>,
}

/// Learns how it goes with webhooks. All calls must return at once.
pub trait WebhookLog: Send + Sync + 'static {
    /// Events cannot be posted. The next attempt follows after `pause`.
    fn failed(&self, hook: &Webhook, error: &str, pause: Duration);
    /// They can be posted again.
    fn recovered(&self, hook: &Webhook);
    /// Nothing is posted any more.
    fn disabled(&self, hook: &Webhook, error: &str);
}

/// The webhooks of a catalog. Clones are the same.
#[derive(Clone)]
pub struct Webhooks {
    catalog: Catalog,
    vault: Vault,
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Webhooks")
    }
}

/// Whether events may be posted to a URL: `https`, without a user in it.
#[must_use]
pub fn is_webhook_url(url: &str) -> bool {
    url.len() <= WEBHOOK_URL_BYTES_MAX
        && url.starts_with("https://")
        && !url.contains(['@', '#'])
        && Location::parse(url).is_ok_and(|place| place.is_http() && place.is_encrypted())
}

impl Webhooks {
    /// Webhooks in this catalog.
    #[must_use]
    pub fn new(catalog: Catalog, vault: Vault) -> Self {
        Self { catalog, vault }
    }

    async fn hooks(&self) -> Result<Vec<Webhook>> {
        let stored = self.catalog.settings(SettingKind::Webhook).await?;
        Ok(stored.into_iter().map(|one| one.value).collect())
    }

    async fn state(&self, id: &str) -> Result<WebhookState> {
        let name = format!("{STATE}{id}");
        let known = self.catalog.setting(SettingKind::Internal, &name).await?;
        Ok(known.unwrap_or_default())
    }

    async fn put_state(&self, id: &str, state: &WebhookState, now_ms: i64) -> Result<()> {
        let (kind, name) = (SettingKind::Internal, format!("{STATE}{id}"));
        if *state == WebhookState::default() {
            return self.catalog.delete_setting(kind, &name, id, now_ms).await.map(drop);
        }
        self.catalog.put_setting(kind, &name, state, id, now_ms).await
    }

    /// All webhooks with their states.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn list(&self) -> Result<Vec<KnownWebhook>> {
        let last = self.catalog.last_event().await?;
        let mut known = Vec::new();
        for hook in self.hooks().await? {
            let place = self.catalog.reader_place(&reader(&hook.id)).await?;
            known.push(KnownWebhook {
                state: self.state(&hook.id).await?,
                pending: place.map(|place| last.saturating_sub(place).max(0)),
                hook,
            });
        }
        Ok(known)
    }

    /// Makes a webhook, which gets the events from now on. Returns it with its secret.
    ///
    /// # Errors
    /// `overloaded` if there are [`WEBHOOKS_MAX`]; those of the catalog.
    pub async fn add(&self, new: NewWebhook, by: &str, now_ms: i64) -> Result<(Webhook, WebhookSecret)> {
        if self.hooks().await?.len() >= WEBHOOKS_MAX {
            let error = Error::new(ErrorCode::Overloaded, Side::Queue, Phase::Queued);
            return Err(error.with_detail(format!("webhooks: {WEBHOOKS_MAX}")));
        }
        let number: [u8; 8] = random();
        let hook = Webhook {
            id: number.iter().map(|byte| format!("{byte:02x}")).collect(),
            url: new.url,
            kinds: new.kinds,
            vo: new.vo,
            by: by.to_owned(),
            since_ms: now_ms,
        };
        let secret = new.secret.unwrap_or_else(WebhookSecret::random);
        let plain = secret.text().expose().as_bytes();
        let sealed = SealedSecret {
            kind: SecretKind::Webhook,
            sealed: self.vault.seal(SecretKind::Webhook, &hook.id, plain)?,
            name: hook.id.clone(),
            expires_ms: None,
            owner: by.to_owned(),
            renews_ms: None,
            lease_ms: None,
            renewed_by: None,
        };
        self.catalog.put_secret(sealed, now_ms).await?;
        let kind = SettingKind::Webhook;
        self.begin(&hook.id).await?;
        self.catalog.put_setting(kind, &hook.id, &hook, by, now_ms).await?;
        Ok((hook, secret))
    }

    /// Its place is the latest event, unless it has one. The lease is free at once.
    async fn begin(&self, id: &str) -> Result<()> {
        let (reader, now_ms) = (reader(id), now_ms());
        self.catalog
            .take_reader(&reader, NO_WORKER, now_ms, now_ms)
            .await
            .map(drop)
    }

    /// Posts again to a webhook that was disabled, from now on. `None`: there is none of this name.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn enable(&self, id: &str, by: &str, now_ms: i64) -> Result<Option<Webhook>> {
        let kind = SettingKind::Webhook;
        let Some(mut hook) = self.catalog.setting::<Webhook>(kind, id).await? else {
            return Ok(None);
        };
        hook.since_ms = now_ms;
        self.put_state(id, &WebhookState::default(), now_ms).await?;
        self.begin(id).await?;
        self.catalog.put_setting(kind, id, &hook, by, now_ms).await?;
        Ok(Some(hook))
    }

    /// Removes a webhook; whether there was one.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn remove(&self, id: &str, by: &str, now_ms: i64) -> Result<bool> {
        let known = self
            .catalog
            .delete_setting(SettingKind::Webhook, id, by, now_ms)
            .await?;
        self.put_state(id, &WebhookState::default(), now_ms).await?;
        self.catalog.delete_secret(SecretKind::Webhook, id).await?;
        self.catalog.forget_reader(&reader(id)).await?;
        Ok(known)
    }

    async fn secret(&self, id: &str) -> Result<WebhookSecret> {
        let unusable = || {
            let error = Error::new(ErrorCode::Internal, Side::Queue, Phase::Authenticate);
            error.with_private("the secret of a webhook is gone")
        };
        let stored = self
            .catalog
            .secret(SecretKind::Webhook, id)
            .await?
            .ok_or_else(unusable)?;
        let plain = self.vault.open(SecretKind::Webhook, id, &stored.sealed)?;
        let text = std::str::from_utf8(&plain).ok();
        text.and_then(WebhookSecret::parse).ok_or_else(unusable)
    }

    /// Posts to all webhooks, in the name of `worker`, until `stopping` is true.
    pub async fn run(
        self,
        client: Client,
        worker: String,
        log: Arc<dyn WebhookLog>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let mut running: BTreeMap<String, (Webhook, JoinHandle<()>)> = BTreeMap::new();
        let mut version = -1;
        loop {
            // What cannot be read now is read at the next look.
            if let Ok(now) = self.catalog.settings_version().await
                && now != version
                && let Ok(hooks) = self.hooks().await
            {
                version = now;
                running.retain(|_, (hook, task)| {
                    let stays = hooks.contains(hook);
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for hook in hooks {
                    running.entry(hook.id.clone()).or_insert_with(|| {
                        let sender = Sender::new(self.clone(), hook.clone(), client.clone(), &worker, log.clone());
                        (hook, tokio::spawn(sender.run()))
                    });
                }
            }
            tokio::select! {
                () = tokio::time::sleep(WEBHOOK_LOOK_PAUSE) => {}
                _ = stopping.wait_for(|stops| *stops) => break,
            }
        }
        for (id, (_, task)) in running {
            task.abort();
            // If this fails, the lease ends by itself.
            let _ = self.catalog.leave_reader(&reader(&id), &worker, now_ms()).await;
        }
    }
}

/// The name of a webhook among the readers of events.
fn reader(id: &str) -> String {
    format!("webhook {id}")
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}
