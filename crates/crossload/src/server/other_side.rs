//! Delegated credentials, and capabilities for the hand-over to clear text.

use std::sync::Arc;

use config::Configuration;
use credentials::SealingKey;
use endpoint::{HandOver, HandOverSettings};
use identity::delegation::{DelegationSettings, Delegations};
use net::random::random;
use serde_json::json;
use types::Location;

use super::log::Log;
use super::secret;
use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use crate::failure::Failure;

/// Credentials that clients delegated; `None`: delegation is off.
pub(crate) struct Delegated {
    pub(crate) current: Current<Option<Delegations>>,
    log: Log,
}

impl Subsystem for Delegated {
    type Ground = Ground;

    fn build(ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        let log = ground.log.clone();
        Ok(Self {
            current: Current::new(delegations(configuration, &log)?),
            log,
        })
    }

    /// Reopens only if its keys changed: pending delegation requests are in memory.
    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        Ok(self.current.becomes(match change.keys.concern("delegation") {
            true => delegations(change.fresh, &self.log)?,
            false => self.current.get(),
        }))
    }
}

fn delegations(configuration: &Configuration, log: &Log) -> Result<Option<Delegations>, Failure> {
    let wanted = &configuration.delegation;
    let (Some(directory), Some(key_file)) = (&wanted.directory, &wanted.key_file) else {
        return Ok(None);
    };
    let settings = DelegationSettings {
        directory: directory.clone(),
        key: secret::load_sealing_key(key_file, true)?,
    };
    let opened = Delegations::open(settings)
        .map_err(|cause| Failure::system(format!("delegation.directory {}", directory.display()), &cause))?;
    let removed = opened.removed_without_issuer();
    if removed > 0 {
        let why = "they do not say which authority issued the certificate; their owners delegate again";
        log.write("delegations_removed", &json!({"count": removed, "reason": why}));
    }
    Ok(Some(opened))
}

/// The hand-over to clear text, with its memory of used capabilities; `None`: it is off.
pub(crate) struct HandedOver {
    pub(crate) current: Current<Option<Arc<HandOver>>>,
    /// Seals capabilities if no `key_file` is configured.
    own_key: SealingKey,
}

impl Subsystem for HandedOver {
    type Ground = Ground;

    fn build(_ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        let own_key = SealingKey::new(&random::<32>());
        Ok(Self {
            current: Current::new(hand_over(configuration, None, &own_key)?),
            own_key,
        })
    }

    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let now = self.current.get();
        Ok(self.current.becomes(
            match change.keys.concern("hand_over") || change.keys.concern("redirector") || change.keys.concern("node") {
                true => hand_over(change.fresh, now.as_deref(), &self.own_key)?,
                false => now,
            },
        ))
    }
}

/// The hand-over to clear text, if this server sends or accepts it. A previous one keeps its
/// memory.
fn hand_over(
    configuration: &Configuration,
    before: Option<&HandOver>,
    own_key: &SealingKey,
) -> Result<Option<Arc<HandOver>>, Failure> {
    let wanted = &configuration.hand_over;
    let to_nodes = configuration.redirector.capabilities && !configuration.nodes.is_empty();
    if !wanted.reads && !wanted.writes && wanted.accept_as.is_none() && !to_nodes {
        return Ok(None);
    }
    let key = match &wanted.key_file {
        Some(file) => secret::load_sealing_key(file, true)?,
        None => own_key.clone(),
    };
    let settings = HandOverSettings {
        key,
        target: wanted.target(),
        accept_as: wanted.accept_as.as_deref().map(plain),
        lifetime: wanted.lifetime,
        bind_address: wanted.bind_address,
        minimum_bytes: wanted.minimum_bytes.0,
        reads: wanted.reads,
        writes: wanted.writes,
        to_nodes,
    };
    Ok(Some(Arc::new(match before {
        Some(before) => before.with_settings(settings),
        None => HandOver::new(settings),
    })))
}

/// The URL of a server in the one form in which capabilities name it.
fn plain(url: &str) -> String {
    Location::parse(url).map_or_else(|_| url.to_owned(), |place| place.wire_of("/"))
}
