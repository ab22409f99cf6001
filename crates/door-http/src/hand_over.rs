//! Hand-over: what TLS has authorised is sent in clear text, after a redirect with a capability
//! (DPM did it so: "HTTPS redirects with a token to HTTP").
//!
//! GET is redirected with 302; PUT with 307, and only if its client waits for `100 Continue` before
//! it sends the body. HEAD and everything else stays on TLS, and so does a client that sends
//! `Secure-Redirection: 1`.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credentials::SealingKey;
use credentials::capability::{Audience, Capability, CapabilityUse, Presented, Redeemed, UsedCapabilities};
use endpoint::clock::now_s;
use endpoint::{Granted, refusal};
use http_wire::{Method, RequestHead};
use net::random::random;
use policy::Operation;
use types::{Error, ErrorCode, Location, LogicalPath, Result};

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

impl HandOver {
    /// A hand-over without used capabilities.
    #[must_use]
    pub fn new(settings: HandOverSettings) -> Self {
        Self {
            settings,
            life: Audience::life(random()),
            started_s: now_s(),
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
    pub(crate) fn life(&self) -> Audience {
        self.life
    }

    /// Redeems the capability of a request, if it has one.
    ///
    /// # Errors
    /// `capability_invalid`, `capability_expired`, `capability_used`, `capability_address`;
    /// `overloaded` when too many used ones are remembered.
    pub(crate) fn redeem(&self, head: &RequestHead, path: &LogicalPath, address: IpAddr) -> Result<Option<Redeemed>> {
        let Some(text) = head.target.capability() else {
            return Ok(None);
        };
        let usage = match head.method {
            Method::Get | Method::Head => CapabilityUse::Read,
            Method::Put => CapabilityUse::Write,
            _ => return Err(refusal(ErrorCode::CapabilityInvalid, path)),
        };
        let presented = Presented {
            usage,
            path,
            address,
            now_s: now_s(),
            life: self.life,
            endpoint: self.settings.accept_as.as_deref().map(Audience::endpoint),
            started_s: self.started_s,
        };
        let about = |error: Error| error.with_subject(path);
        let redeemed = Capability::redeem(text.expose(), &self.settings.key, &presented).map_err(about)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.note(&redeemed, presented.now_s).map_err(about)?;
        Ok(Some(redeemed))
    }
}

/// What a capability allows: the one operation for which it was issued, for the user for whom it
/// was issued.
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
