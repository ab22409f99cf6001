//! Exports whose files are on another server (`[[export]] remote`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::{Configuration, Export, UpstreamIdentity};
use door_admin::{Check, Part, PartFuture};
use endpoint::Store;
use net::address::AddressPolicy;
use net::tls::{ClientIdentity, ClientTls};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use remote::{Client, ClientOptions};
use serde_json::json;
use storage_remote::{Credential, Identity, RemoteStore, Upstream};
use tokio::time::{MissedTickBehavior, interval};
use types::Secret;

use super::admin_parts::encoded;
use super::assemble::PRODUCT;
use super::log::Log;
use super::secret;
use super::subsystem::Current;
use crate::failure::Failure;

/// Time between two looks at the file of a token.
const LOOK_PERIOD: Duration = Duration::from_secs(10);

/// What a store over another server is made from. Exports with equal keys share a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpstreamKey {
    url: String,
    identity: UpstreamIdentity,
    token_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    connect: Duration,
    first_byte: Duration,
    stall: Duration,
}

impl UpstreamKey {
    /// That of an export; `None` if its files are on this machine.
    pub(crate) fn of(export: &Export, configuration: &Configuration) -> Option<Self> {
        let limits = &configuration.limits;
        Some(Self {
            url: export.remote.clone()?,
            identity: export.remote_identity,
            token_file: export.remote_token_file.clone(),
            certificate: export.remote_certificate.clone(),
            key: export.remote_key.clone(),
            connect: limits.connect_timeout,
            first_byte: limits.first_byte_timeout,
            stall: limits.stall_timeout,
        })
    }

    /// The directory on the other server, with our credential there.
    ///
    /// # Errors
    /// A credential that cannot be read.
    pub(crate) fn upstream(&self, trust: &ClientTls) -> Result<(Upstream, Credential), Failure> {
        let root = types::Location::parse(&self.url)?;
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let identity = self.certificate.as_deref().map(|certificate| {
            let key = self.key.as_deref().unwrap_or(certificate);
            ClientIdentity::load(certificate, key)
        });
        let credential = Credential::new(token, identity.transpose()?);
        let client = Client::new(ClientOptions {
            tls: trust.clone(),
            // It comes from the configuration, so it may be anywhere.
            addresses: AddressPolicy::ANY,
            connect: self.connect,
            first_byte: self.first_byte,
            stall: self.stall,
            user_agent: PRODUCT.to_owned(),
        });
        let identity = match self.identity {
            UpstreamIdentity::Service => Identity::Service(credential.clone()),
            UpstreamIdentity::Client => Identity::Client,
        };
        Ok((Upstream::new(client, root, identity), credential))
    }

    /// Opens the store. Nothing is asked yet: the other server may be away.
    ///
    /// # Errors
    /// As [`UpstreamKey::upstream`].
    pub(super) fn open(&self, trust: &ClientTls, log: &Log) -> Result<(Store, Upstream), Failure> {
        let (upstream, credential) = self.upstream(trust)?;
        if let Some(file) = self.token_file.clone() {
            tokio::spawn(follow(file, credential, self.url.clone(), log.clone()));
        }
        let store = Store::of(Arc::new(RemoteStore::new(upstream.clone())));
        let (store, identity) = match self.identity {
            UpstreamIdentity::Service => (store, "service"),
            UpstreamIdentity::Client => (store.showing_tokens(), "client"),
        };
        let url = upstream.root().to_string();
        log.write("upstream_opened", &json!({"url": url, "identity": identity}));
        Ok((store, upstream))
    }
}

/// The token in a file.
///
/// # Errors
/// Others may read the file, it cannot be read, or it is empty.
fn read_token(file: &Path) -> Result<Secret, Failure> {
    let text = secret::load_text("token for the upstream server", file)?;
    match text.trim() {
        "" => Err(Failure::invalid(format!(
            "the token for the upstream server: {} is empty",
            file.display()
        ))),
        token => Ok(Secret::new(token)),
    }
}

/// Reads the token again and again, as long as a store uses it.
async fn follow(file: PathBuf, credential: Credential, url: String, log: Log) {
    let credential = credential.downgrade();
    let mut times = interval(LOOK_PERIOD);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fault = None;
    loop {
        times.tick().await;
        let Some(credential) = credential.upgrade() else { return };
        match read_token(&file) {
            Ok(token) => {
                credential.renew(token);
                fault = None;
            }
            Err(failure) => {
                let words = Some(failure.words);
                if words != fault {
                    log.write("upstream_token_unreadable", &json!({"url": url, "error": words}));
                }
                fault = words;
            }
        }
    }
}

/// The upstream servers of all exports, for the admin door.
pub(super) struct UpstreamPart(pub(super) Current<Vec<Upstream>>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    upstream: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FlowLabels {
    upstream: String,
    direction: &'static str,
}

impl Part for UpstreamPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { metrics(&self.0.get()) })
    }

    /// An upstream server that is away makes its own export fail, and no other.
    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async { Vec::new() })
    }
}

fn metrics(upstreams: &[Upstream]) -> String {
    if upstreams.is_empty() {
        return String::new();
    }
    let (requests, failures) = (
        Family::<Labels, Counter>::default(),
        Family::<Labels, Counter>::default(),
    );
    let bytes = Family::<FlowLabels, Counter>::default();
    for this in upstreams {
        let (upstream, counts) = (this.root().to_string(), this.counts());
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let labels = Labels {
            upstream: upstream.clone(),
        };
        requests.get_or_create(&labels).inc_by(of(&counts.requests));
        failures.get_or_create(&labels).inc_by(of(&counts.failures));
        for (direction, count) in [("in", &counts.received_bytes), ("out", &counts.sent_bytes)] {
            let upstream = upstream.clone();
            bytes
                .get_or_create(&FlowLabels { upstream, direction })
                .inc_by(of(count));
        }
    }
    let mut registry = Registry::with_prefix("crossload_upstream");
    registry.register("requests", "Requests of clients that were passed on", requests);
    registry.register(
        "failures",
        "Failures of the upstream server or of the way to it",
        failures,
    );
    registry.register("bytes", "Payload from and to the upstream server", bytes);
    encoded(&registry)
}
