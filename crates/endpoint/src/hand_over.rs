//! Hand-over: a server that has authorised a request sends its client on with a capability, and the
//! server that gets it does not judge again.
//!
//! Over HTTP, payload goes in clear text so (DPM did it: "HTTPS redirects with a token to HTTP").
//! Redirectors send clients of both protocols to their nodes with one.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credentials::SealingKey;
use credentials::capability::{Audience, Capability, CapabilityUse, Holder, Presented, Redeemed, UsedCapabilities};
use credentials::limits::CAPABILITY_CLOCK_SKEW_S;
use net::random::random;
use policy::Operation;
use types::{Error, ErrorCode, Location, LogicalPath, Result, Secret};

use crate::authorize::Granted;
use crate::clock::now_s;
use crate::elsewhere::Spoken;
use crate::found::refusal;
use crate::record::RequestRecord;

/// How many times as long one for reading at a node is valid, if it is bound to an address.
const READ_LIFETIMES: i64 = 60;

/// How payload is handed over, and accepted when other servers hand it over to us.
#[derive(Clone, Debug)]
pub struct HandOverSettings {
    /// The key that seals capabilities; endpoints that share it accept each other's.
    pub key: SealingKey,
    /// The endpoint that serves the payload; `None`: this server, under the name that the client
    /// used.
    pub target: Option<Location>,
    /// The URL under which other servers hand over to this one.
    pub accept_as: Option<String>,
    /// Lifetime of a capability.
    pub lifetime: Duration,
    /// Whether it is valid for the client's address only.
    pub bind_address: bool,
    /// Smaller files, in bytes, stay on TLS: a redirect costs more than their encryption.
    pub minimum_bytes: u64,
    /// Whether reading is handed over.
    pub reads: bool,
    /// Whether writing is handed over.
    pub writes: bool,
    /// Whether a redirector sends clients to its nodes with a capability. They do not judge again
    /// then.
    pub to_nodes: bool,
}

/// The hand-over of a server, with its memory of used capabilities. It must outlive the doors.
#[derive(Debug)]
pub struct HandOver {
    settings: HandOverSettings,
    /// The audience of this process: capabilities from before a restart are void.
    life: Audience,
    started_s: i64,
    used: Arc<Mutex<UsedCapabilities>>,
}

/// The decision about a request, which the server that gets the client need not make again.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// What the client may do.
    pub usage: CapabilityUse,
    /// The size of the file, or the largest that is allowed, in bytes.
    pub size_bytes: u64,
    /// Whether an existing file may be replaced.
    pub may_replace: bool,
    /// Whether what is there may be read as well, if it is for writing.
    pub may_read: bool,
    /// The user in whose name it is done.
    pub granted: &'a Granted,
}

/// For whom, and where, a capability is good.
#[derive(Clone, Copy, Debug)]
pub struct Recipient<'a> {
    /// What the log says about the client.
    pub record: &'a RequestRecord,
    /// The file, by its name at the server that is to honour it.
    pub path: &'a LogicalPath,
    /// That server.
    pub audience: Audience,
    /// The client's address; `None`: it holds from everywhere.
    pub address: Option<IpAddr>,
}

/// A request that shows a capability.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// What is to be done.
    pub usage: CapabilityUse,
    /// With which file.
    pub path: &'a LogicalPath,
    /// By a client at this address.
    pub address: IpAddr,
    /// At the door for this protocol.
    pub spoken: Spoken,
}

impl HandOver {
    /// A hand-over without used capabilities, of a server that starts now.
    #[must_use]
    pub fn new(settings: HandOverSettings) -> Self {
        Self::started_at(settings, now_s())
    }

    /// The same for a server that started at this time, in seconds since 1970.
    #[must_use]
    pub fn started_at(settings: HandOverSettings, started_s: i64) -> Self {
        Self {
            settings,
            life: Audience::life(random()),
            started_s,
            used: Arc::default(),
        }
    }

    /// The same hand-over with other settings. Both share the memory of used capabilities.
    #[must_use]
    pub fn with_settings(&self, settings: HandOverSettings) -> Self {
        Self {
            settings,
            life: self.life,
            started_s: self.started_s,
            used: self.used.clone(),
        }
    }

    /// The current settings.
    #[must_use]
    pub fn settings(&self) -> &HandOverSettings {
        &self.settings
    }

    /// The audience of this process.
    #[must_use]
    pub fn life(&self) -> Audience {
        self.life
    }

    /// A capability for the outcome of a decision; `None` only if the cryptographic library fails.
    #[must_use]
    pub fn issue(&self, decided: &Decided<'_>, recipient: &Recipient<'_>) -> Option<Secret> {
        let issued_s = now_s();
        let lifetime_s = i64::try_from(self.settings.lifetime.as_secs()).unwrap_or(0);
        // Clients keep a redirect as long as they read; from their address that does no harm.
        let is_kept = self.settings.to_nodes && decided.usage.is_harmless() && recipient.address.is_some();
        let lifetimes = if is_kept { READ_LIFETIMES } else { 1 };
        let (record, granted) = (recipient.record, decided.granted);
        let name = |name: &Option<Arc<str>>| name.as_deref().map(str::to_owned);
        let capability = Capability {
            usage: decided.usage,
            address: recipient.address.map(|address| address.to_canonical()),
            audience: recipient.audience,
            issued_s,
            expires_s: issued_s.saturating_add(lifetime_s.saturating_mul(lifetimes)),
            max_bytes: decided.size_bytes,
            may_replace: decided.may_replace,
            may_read: decided.may_read,
            holder: Holder {
                kind: record.credential.to_owned(),
                subject: record.subject.clone(),
                token_id: record.token_id.clone(),
                user: name(&granted.user),
                vo: name(&granted.vo),
            },
        };
        capability.seal(&self.settings.key, random(), recipient.path)
    }

    /// Whether other servers send clients here.
    #[must_use]
    pub fn accepts_others(&self) -> bool {
        self.settings.accept_as.is_some()
    }

    /// Whether it still refuses capabilities of other servers that change something, as it does for
    /// some seconds after its start: see [`Audience`].
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.accepts_others() && now_s() <= self.started_s.saturating_add(CAPABILITY_CLOCK_SKEW_S)
    }

    /// Redeems a capability.
    ///
    /// # Errors
    /// `capability_invalid`, `capability_expired`, `capability_used`, `capability_address`;
    /// `just_started`; `overloaded` when too many used ones are remembered.
    pub fn redeem(&self, text: &Secret, shown: &Shown<'_>) -> Result<Redeemed> {
        let Shown {
            usage,
            path,
            address,
            spoken,
        } = *shown;
        let endpoint = self.settings.accept_as.as_deref();
        let endpoint = endpoint.and_then(|url| match spoken {
            Spoken::Http => Some(Audience::endpoint(url)),
            Spoken::Xrootd => Location::parse(url).ok().as_ref().map(xrootd_door_of),
        });
        let life = match (spoken, endpoint) {
            (Spoken::Http, _) => self.life,
            // This server issues none for its own door of that protocol.
            (Spoken::Xrootd, Some(door)) => door,
            (Spoken::Xrootd, None) => return Err(refusal(ErrorCode::CapabilityInvalid, path)),
        };
        let presented = Presented {
            usage,
            path,
            address,
            now_s: now_s(),
            life,
            endpoint,
            started_s: self.started_s,
        };
        let about = |error: Error| error.with_subject(path);
        let redeemed = Capability::redeem(text.expose(), &self.settings.key, &presented).map_err(about)?;
        self.used().note(&redeemed, address, presented.now_s).map_err(about)?;
        Ok(redeemed)
    }

    /// The request that showed this capability was refused before it changed anything: it may be
    /// shown again.
    pub fn give_back(&self, redeemed: &Redeemed) {
        self.used().give_back(redeemed);
    }

    fn used(&self) -> MutexGuard<'_, UsedCapabilities> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The door for the XRootD protocol of an endpoint, which is known by any of its URLs with the same
/// host and port.
#[must_use]
pub fn xrootd_door_of(place: &Location) -> Audience {
    Audience::xrootd_door(place.host(), place.port())
}

/// What a capability allows: the one operation for which it was issued, for the user for whom it
/// was issued.
///
/// # Errors
/// `capability_invalid` for another operation or a larger file; `exists` if it may not be replaced.
pub fn allow_by_capability(
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
    let refused = |code, why: &str| Err(refusal(code, path).with_detail(why));
    let is_sound = size_bytes.is_none_or(|size| size <= capability.max_bytes);
    let usage = capability.usage;
    match operation {
        Operation::Read | Operation::Stat if usage == CapabilityUse::Read => granted(None),
        Operation::Stat if usage == CapabilityUse::Look => granted(None),
        Operation::Read if capability.may_read => granted(None),
        Operation::Overwrite if usage == CapabilityUse::Write && !capability.may_replace => {
            Err(refusal(ErrorCode::Exists, path))
        }
        Operation::Create | Operation::Overwrite if usage == CapabilityUse::Write && !is_sound => refused(
            ErrorCode::CapabilityInvalid,
            "the file is larger than the one that was announced",
        ),
        Operation::Create | Operation::Overwrite if usage == CapabilityUse::Write => {
            granted(Some(capability.max_bytes))
        }
        Operation::Overwrite if usage == CapabilityUse::Update && is_sound => granted(Some(capability.max_bytes)),
        Operation::ChangeMode if usage == CapabilityUse::ChangeMode => granted(None),
        _ => refused(ErrorCode::CapabilityInvalid, "it is for another operation"),
    }
}
