//! Hand-over: what was authorised over TLS is sent in clear text, by a redirect with a capability (as DPM
//! did it: "HTTPS redirects with a token to HTTP").
//!
//! GET is handed over with 302, PUT with 307, and only when its client waits for our word before it sends
//! the body. HEAD and everything else stays here. A client that says `Secure-Redirection: 1` wants its
//! data encrypted, and is served over TLS.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credentials::SealingKey;
use credentials::capability::{Audience, Capability, CapabilityUse, Holder, Presented, Redeemed, UsedCapabilities};
use endpoint::clock::now_s;
use endpoint::{Granted, Spot, refusal};
use http_wire::{Method, RequestHead};
use net::random::random;
use policy::Operation;
use storage::LinkUse;
use types::{Error, ErrorCode, Location, LogicalPath, Result, Secret};

use crate::exchange::Exchange;

/// How payload is handed over, and honoured when others hand it over to us.
#[derive(Clone, Debug)]
pub struct HandOverSettings {
    /// The key that seals capabilities; endpoints that share it honour each other's.
    pub key: SealingKey,
    /// The endpoint that serves the payload; `None`: this server itself, under the name that the client
    /// used.
    pub target: Option<Location>,
    /// The URL under which other servers hand over to this one.
    pub accept_as: Option<String>,
    /// How long a capability holds.
    pub lifetime: Duration,
    /// Whether it holds for the client's address only.
    pub bind_address: bool,
    /// Smaller files, in bytes, are served at once: a redirect costs more than their encryption.
    pub minimum_bytes: u64,
    /// Whether reading is handed over.
    pub reads: bool,
    /// Whether writing is handed over.
    pub writes: bool,
}

/// The hand-over of a server, with its memory of what was used. It must outlive the doors.
#[derive(Debug)]
pub struct HandOver {
    settings: HandOverSettings,
    /// What each process calls itself, so that nothing of before a restart counts.
    life: Audience,
    started_s: i64,
    used: Arc<Mutex<UsedCapabilities>>,
}

impl HandOver {
    /// A hand-over that begins now.
    #[must_use]
    pub fn new(settings: HandOverSettings) -> Self {
        Self {
            settings,
            life: Audience::life(random()),
            started_s: now_s(),
            used: Arc::default(),
        }
    }

    /// The same hand-over by other settings. What was used up with either is used up with both.
    #[must_use]
    pub fn with_settings(&self, settings: HandOverSettings) -> Self {
        Self {
            settings,
            life: self.life,
            started_s: self.started_s,
            used: self.used.clone(),
        }
    }

    /// What it was made or renewed with.
    #[must_use]
    pub fn settings(&self) -> &HandOverSettings {
        &self.settings
    }

    /// Takes the capability of a request, if it brings one.
    ///
    /// # Errors
    /// `capability_invalid`, `capability_expired`, `capability_used`, `capability_address`; `overloaded`
    /// when too many are remembered.
    fn redeem(&self, exchange: &Exchange<'_>, head: &RequestHead) -> Result<Option<Redeemed>> {
        let Some(text) = head.target.capability() else {
            return Ok(None);
        };
        let usage = match head.method {
            Method::Get | Method::Head => CapabilityUse::Read,
            Method::Put => CapabilityUse::Write,
            _ => return Err(refusal(ErrorCode::CapabilityInvalid, &exchange.path)),
        };
        let presented = Presented {
            usage,
            path: &exchange.path,
            address: exchange.peer.ip(),
            now_s: now_s(),
            life: self.life,
            endpoint: self.settings.accept_as.as_deref().map(Audience::endpoint),
            started_s: self.started_s,
        };
        let about = |error: Error| error.with_subject(&exchange.path);
        let redeemed = Capability::redeem(text.expose(), &self.settings.key, &presented).map_err(about)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.note(&redeemed, presented.now_s).map_err(about)?;
        Ok(Some(redeemed))
    }
}

/// What was decided about a request that may be handed over.
pub(crate) struct Decided<'a> {
    pub(crate) usage: CapabilityUse,
    /// The size of the file, in bytes.
    pub(crate) size_bytes: u64,
    /// Whether a file that stands there may be replaced.
    pub(crate) may_replace: bool,
    /// In whose name.
    pub(crate) granted: &'a Granted,
}

impl Exchange<'_> {
    /// Takes the capability that a request brings; from then on it decides.
    pub(crate) fn take_capability(&mut self, head: &RequestHead) -> Result<()> {
        let Some(hand_over) = self.door.settings.hand_over.clone() else {
            return Ok(());
        };
        self.capability = hand_over.redeem(self, head)?;
        if let Some(redeemed) = &self.capability {
            let holder = &redeemed.capability.holder;
            self.record.credential = "capability";
            self.record.subject = holder.subject.clone();
            self.record.token_id = holder.token_id.clone();
        }
        Ok(())
    }

    /// Sends the client away with a capability, when this is wanted by both sides; true when it has been.
    pub(crate) async fn hand_over(&mut self, head: &RequestHead, decided: &Decided<'_>, spot: &Spot) -> Result<bool> {
        let Some(url) = self.capability_url(head, decided) else {
            return Ok(false);
        };
        let (status, used) = match (decided.usage, decided.may_replace) {
            (CapabilityUse::Read, _) => (302, LinkUse::Read),
            (CapabilityUse::Write, true) => (307, LinkUse::Overwrite),
            (CapabilityUse::Write, false) => (307, LinkUse::Create),
        };
        // The server behind the capability does not check rights again.
        let checked = spot.store.check_links(&spot.path, used).await;
        checked.map_err(|error| error.with_subject(&self.path))?;
        self.whole(status, &[], |head| head.location(url.expose()).no_store())
            .await?;
        Ok(true)
    }

    fn capability_url(&self, head: &RequestHead, decided: &Decided<'_>) -> Option<Secret> {
        let hand_over = self.door.settings.hand_over.as_deref()?;
        let settings = &hand_over.settings;
        let is_wanted = match decided.usage {
            CapabilityUse::Read => settings.reads,
            // A body that is under way already would have to be sent twice.
            CapabilityUse::Write => settings.writes && head.expects_continue(),
        };
        let is_secure = self.connection.stream.is_encrypted();
        if !is_wanted || !is_secure || head.wants_secure_redirection() || decided.size_bytes < settings.minimum_bytes {
            return None;
        }
        let issued_s = now_s();
        let capability = Capability {
            usage: decided.usage,
            address: settings.bind_address.then(|| self.peer.ip().to_canonical()),
            audience: match &settings.target {
                Some(target) => Audience::endpoint(&format!("http://{}:{}", target.host(), target.port())),
                None => hand_over.life,
            },
            issued_s,
            expires_s: issued_s + i64::try_from(settings.lifetime.as_secs()).unwrap_or(0),
            max_bytes: decided.size_bytes,
            may_replace: decided.may_replace,
            holder: self.holder(decided.granted),
        };
        let text = capability.seal(&settings.key, random(), &self.path)?;
        let target = head.target.text_with_capability(&text);
        Some(Secret::new(match &settings.target {
            Some(server) => server.wire_of(target.expose()),
            None => format!("http://{}{}", head.host()?, target.expose()),
        }))
    }

    fn holder(&self, granted: &Granted) -> Holder {
        Holder {
            kind: self.record.credential.to_owned(),
            subject: self.record.subject.clone(),
            token_id: self.record.token_id.clone(),
            user: granted.user.as_deref().map(str::to_owned),
            vo: granted.vo.as_deref().map(str::to_owned),
        }
    }
}

/// What a capability lets do: the one thing that was decided when it was issued, in
/// the name that it was decided for.
pub(crate) fn allow(
    capability: &Capability,
    operation: Operation,
    path: &LogicalPath,
    size_bytes: Option<u64>,
) -> Result<Granted> {
    let granted = |max_upload_bytes| {
        let name = |text: &Option<String>| text.as_deref().map(Arc::from);
        Ok(Granted {
            max_upload_bytes,
            user: name(&capability.holder.user),
            vo: name(&capability.holder.vo),
        })
    };
    let is_read = capability.usage == CapabilityUse::Read;
    let refused = |code, why: &str| Err(refusal(code, path).with_detail(why));
    match operation {
        Operation::Read | Operation::Stat if is_read => granted(None),
        Operation::Overwrite if !is_read && !capability.may_replace => Err(refusal(ErrorCode::Exists, path)),
        Operation::Create | Operation::Overwrite if !is_read => {
            if size_bytes.is_some_and(|size| size > capability.max_bytes) {
                return refused(
                    ErrorCode::CapabilityInvalid,
                    "the file is larger than the one that was announced",
                );
            }
            granted(Some(capability.max_bytes))
        }
        _ => refused(ErrorCode::CapabilityInvalid, "it is for another operation"),
    }
}
