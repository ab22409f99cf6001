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

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use catalog::{Audit, Catalog, NO_ACTOR, Operation, SealedSecret, SecretKind, SettingKind, UserRight};
use net::random::random;
use remote::Client;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use types::{Error, ErrorCode, Location, Phase, Result, Secret, Side};

use crate::Vault;
use crate::clock::now_ms;
use crate::limits::{WEBHOOK_LOOK_PAUSE, WEBHOOK_URL_BYTES_MAX, WEBHOOKS_MAX};
use crate::urls::hidden_query;
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
    /// Where events are posted: an `https` URL, with the values of its parameters hidden.
    pub url: String,
    /// The query of the URL, sealed; `None` if nothing is hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Events of these kinds; empty: of all.
    pub kinds: Vec<String>,
    /// Events of this virtual organisation, and those that concern all; `None`: of all.
    pub vo: Option<String>,
    /// Who made it, or enabled it the last time.
    pub by: String,
    /// The name by which this user has rights; empty: not known.
    #[serde(default)]
    pub name: String,
    /// Rights that this user had by grants alone. Without them nothing is posted.
    #[serde(default)]
    pub granted: Vec<Operation>,
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
    /// Whether its maker has lost the right to it: nothing is posted.
    pub is_paused: bool,
}

/// Who makes or enables a webhook.
#[derive(Clone, Debug, Default)]
pub struct Maker {
    /// As [`Webhook::by`].
    pub user: String,
    /// As [`Webhook::name`].
    pub name: String,
    /// As [`Webhook::granted`].
    pub granted: Vec<Operation>,
}

/// What a new webhook is made from.
#[derive(Clone, Debug, Default)]
pub struct NewWebhook {
    /// The whole URL, as [`Webhook::url`].
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

impl Webhook {
    /// Whether its maker still has the rights that the webhook needs.
    fn is_allowed(&self, grants: &[UserRight]) -> bool {
        let has = |operation: &Operation| {
            let mut of_maker = grants.iter().filter(|grant| grant.user == self.name);
            of_maker.any(|grant| grant.operation == *operation)
        };
        self.granted.iter().all(has)
    }

    /// What its sealed query belongs to.
    fn bound(&self) -> String {
        format!("webhook {} {}", self.id, self.url)
    }

    /// Hides the query of its URL, and seals it.
    fn hide_query(&mut self, vault: &Vault) -> Result<()> {
        let Some(shown) = hidden_query(&self.url) else {
            return Ok(());
        };
        let whole = std::mem::replace(&mut self.url, shown);
        let (_, query) = whole.split_once('?').unwrap_or_default();
        let sealed = vault.seal_query(&self.bound(), query.as_bytes())?;
        self.query = Some(BASE64.encode(sealed));
        Ok(())
    }

    /// The whole URL.
    fn whole_url(&self, vault: &Vault) -> Result<Secret> {
        let Some(sealed) = &self.query else {
            return Ok(Secret::new(self.url.clone()));
        };
        // What is no base64 does not open.
        let bytes = BASE64.decode(sealed).unwrap_or_default();
        let query = vault.open_query(&self.bound(), &bytes)?;
        let (before, _) = self.url.split_once('?').unwrap_or((&self.url, ""));
        Ok(Secret::new(format!("{before}?{}", String::from_utf8_lossy(&query))))
    }
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

    async fn grants(&self) -> Result<Vec<UserRight>> {
        let stored = self.catalog.settings(SettingKind::UserRight).await?;
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
            return self
                .catalog
                .delete_setting(kind, &name, NO_ACTOR, now_ms)
                .await
                .map(drop);
        }
        self.catalog.put_setting(kind, &name, state, NO_ACTOR, now_ms).await
    }

    /// All webhooks with their states.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn list(&self) -> Result<Vec<KnownWebhook>> {
        let last = self.catalog.last_event().await?;
        let grants = self.grants().await?;
        let mut known = Vec::new();
        for hook in self.hooks().await? {
            let place = self.catalog.reader_place(&reader(&hook.id)).await?;
            let state = self.state(&hook.id).await?;
            // Its place is forgotten just after it is disabled.
            let place = place.filter(|_| state.disabled_ms.is_none());
            known.push(KnownWebhook {
                pending: place.map(|place| last.saturating_sub(place).max(0)),
                is_paused: !hook.is_allowed(&grants),
                state,
                hook,
            });
        }
        Ok(known)
    }

    /// Makes a webhook, which gets the events from now on. Returns it with its secret. The entry of
    /// the audit list gets its name.
    ///
    /// # Errors
    /// `overloaded` if there are [`WEBHOOKS_MAX`]; those of the catalog.
    pub async fn add(&self, new: NewWebhook, maker: &Maker, entry: Audit) -> Result<(Webhook, WebhookSecret)> {
        let (number, now_ms): ([u8; 8], i64) = (random(), entry.at_ms);
        let mut hook = Webhook {
            id: number.iter().map(|byte| format!("{byte:02x}")).collect(),
            url: new.url,
            query: None,
            kinds: new.kinds,
            vo: new.vo,
            by: maker.user.clone(),
            name: maker.name.clone(),
            granted: maker.granted.clone(),
            since_ms: now_ms,
        };
        hook.hide_query(&self.vault)?;
        let secret = new.secret.unwrap_or_else(WebhookSecret::random);
        let plain = secret.text().expose().as_bytes();
        let sealed = SealedSecret {
            kind: SecretKind::Webhook,
            sealed: self.vault.seal(SecretKind::Webhook, &hook.id, plain)?,
            name: hook.id.clone(),
            expires_ms: None,
            owner: maker.user.clone(),
            renews_ms: None,
            lease_ms: None,
            renewed_by: None,
        };
        self.catalog.put_secret(sealed, now_ms).await?;
        self.begin(&hook.id).await?;
        let made = hook.clone();
        let change = move |all: &mut BTreeMap<String, Webhook>| {
            if all.len() >= WEBHOOKS_MAX {
                let error = Error::new(ErrorCode::Overloaded, Side::Queue, Phase::Queued);
                return Err(error.with_detail(format!("webhooks: {WEBHOOKS_MAX}")));
            }
            all.insert(made.id.clone(), made.clone());
            let detail = made.id.clone();
            Ok(vec![Audit {
                detail,
                ..entry.clone()
            }])
        };
        let kind = SettingKind::Webhook;
        if let Err(refused) = self.catalog.change_settings(kind, now_ms, change).await? {
            self.catalog.delete_secret(SecretKind::Webhook, &hook.id).await?;
            self.catalog.forget_reader(&reader(&hook.id)).await?;
            return Err(refused);
        }
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

    /// A webhook.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn find(&self, id: &str) -> Result<Option<Webhook>> {
        self.catalog.setting(SettingKind::Webhook, id).await
    }

    /// Posts again to a webhook that was disabled, from now on. It is its enabler's from here.
    /// Returns whether there is one of this name.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn enable(&self, id: &str, maker: &Maker, entry: Audit) -> Result<bool> {
        let (kind, now_ms) = (SettingKind::Webhook, entry.at_ms);
        if self.find(id).await?.is_none() {
            return Ok(false);
        }
        self.put_state(id, &WebhookState::default(), now_ms).await?;
        self.begin(id).await?;
        let (id, maker) = (id.to_owned(), maker.clone());
        let change = move |all: &mut BTreeMap<String, Webhook>| {
            let hook = all.get_mut(&id).ok_or(())?;
            hook.since_ms = now_ms;
            hook.by.clone_from(&maker.user);
            hook.name.clone_from(&maker.name);
            hook.granted.clone_from(&maker.granted);
            Ok::<_, ()>(vec![entry.clone()])
        };
        Ok(self.catalog.change_settings(kind, now_ms, change).await?.is_ok())
    }

    /// Removes a webhook; whether there was one.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn remove(&self, id: &str, entry: Audit) -> Result<bool> {
        let (kind, now_ms, name) = (SettingKind::Webhook, entry.at_ms, id.to_owned());
        let change = move |all: &mut BTreeMap<String, Webhook>| {
            let known = all.remove(&name).map(drop);
            known.map(|()| vec![entry.clone()]).ok_or(())
        };
        let known = self.catalog.change_settings(kind, now_ms, change).await?.is_ok();
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
                && let Ok(grants) = self.grants().await
            {
                version = now;
                let (hooks, paused): (Vec<_>, Vec<_>) = hooks.into_iter().partition(|hook| hook.is_allowed(&grants));
                running.retain(|_, (hook, task)| {
                    let stays = hooks.contains(hook);
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for hook in paused {
                    // It holds no events back, and gets none of this time later. If this fails, it
                    // is repeated with the next change.
                    let _ = self.catalog.forget_reader(&reader(&hook.id)).await;
                }
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
