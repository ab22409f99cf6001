//! Exports whose files are on another server (`[[export]] remote`), or on those that clients name
//! (`remote_hosts`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use config::{Configuration, Export, UpstreamIdentity};
use door_admin::{Check, Part, PartFuture};
use endpoint::Store;
use identity::delegation::Delegations;
use net::address::AddressPolicy;
use net::tls::{ClientIdentity, ClientTls};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use remote::{Account, Addressing, Client, ClientOptions};
use serde_json::json;
use storage_remote::{
    Counts, Credential, Forwarding, ForwardingStore, Found, Identity, Minter, RemoteStore, Upstream, WeakCredential,
};
use tokio::time::{MissedTickBehavior, interval, timeout};
use types::{AllowedHosts, Error, ErrorCode, Phase, Secret, Side};

use super::admin_parts::encoded;
use super::assemble::PRODUCT;
use super::log::Log;
use super::secret;
use super::shown_upstream::{Servers, ShownUpstream};
use super::subsystem::Current;
use crate::failure::Failure;
use crate::limits::UPSTREAM_ANSWER_TIME;
use crate::remotes::state_directory;
use crate::upstream_fault::{OwnCredential, UpstreamFault};

/// Time between two looks at the files of a credential.
const LOOK_PERIOD: Duration = Duration::from_secs(10);

/// What a store over another server is made from. Exports with equal keys share a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpstreamKey {
    place: Place,
    identity: UpstreamIdentity,
    token_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    s3: Option<S3Key>,
    page_checksums: bool,
    /// The file with the macaroon secret, and when it was changed.
    macaroon_secret: Option<(PathBuf, Option<SystemTime>)>,
    connect: Duration,
    first_byte: Duration,
    stall: Duration,
}

/// Where the files of an export are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Url(String),
    /// Clients name the server; these they may.
    Hosts(Vec<String>),
}

/// What is open of an upstream server, or of all that clients may name.
#[derive(Clone)]
pub(crate) struct OpenUpstream {
    /// The URL, or the list of hosts.
    name: String,
    counts: Arc<Counts>,
    credential: Option<Credential>,
    /// The server that the configuration names.
    upstream: Option<Upstream>,
}

impl OpenUpstream {
    /// The server that can be looked at; `None` if clients name it.
    pub(super) fn looked_at(&self) -> Option<&Upstream> {
        self.upstream.as_ref()
    }
}

/// A file of our credential that cannot be used.
pub(crate) struct UnusableFile {
    /// The key of `[[export]]` that names it.
    pub(crate) key: &'static str,
    pub(crate) is_missing: bool,
    /// Why it cannot be used.
    pub(crate) failure: Failure,
}

/// The account of an export at an S3 storage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct S3Key {
    access_key_id: String,
    secret_key_file: PathBuf,
    region: Option<String>,
    addressing: Option<String>,
    read_only: bool,
}

impl S3Key {
    fn of(export: &Export) -> Option<Self> {
        Some(Self {
            access_key_id: export.s3_access_key_id.clone()?,
            secret_key_file: export.s3_secret_key_file.clone()?,
            region: export.s3_region.clone(),
            addressing: export.s3_addressing.clone(),
            read_only: !export.rules().allows_changes(),
        })
    }

    /// # Errors
    /// As [`read_token`].
    fn account(&self) -> Result<Account, Failure> {
        Ok(Account {
            key_id: self.access_key_id.clone(),
            secret: read_secret("secret key of the S3 storage", &self.secret_key_file)?,
            token: None,
            region: self.region.clone(),
            addressing: self.addressing.as_deref().map(|way| match way {
                "host" => Addressing::VirtualHost,
                _ => Addressing::Path,
            }),
        })
    }
}

impl UpstreamKey {
    /// That of an export; `None` if its files are on this machine.
    pub(crate) fn of(export: &Export, configuration: &Configuration) -> Option<Self> {
        let limits = &configuration.limits;
        Some(Self {
            place: match export.forwards() {
                true => Place::Hosts(export.remote_hosts.clone()),
                false => Place::Url(export.remote.clone().or_else(|| export.s3_url())?),
            },
            s3: S3Key::of(export),
            page_checksums: export.remote_page_checksums,
            identity: export.remote_identity,
            token_file: export.remote_token_file.clone(),
            certificate: export.remote_certificate.clone(),
            key: export.remote_key.clone(),
            macaroon_secret: export.remote_macaroon_secret_file.clone().map(|file| {
                let modified = std::fs::metadata(&file).and_then(|found| found.modified());
                (file, modified.ok())
            }),
            connect: limits.connect_timeout,
            first_byte: limits.first_byte_timeout,
            stall: limits.stall_timeout,
        })
    }

    /// Our credential there, as its files have it now.
    ///
    /// # Errors
    /// One of its files cannot be used.
    fn credential(&self) -> Result<Credential, Failure> {
        if let Some(s3) = &self.s3 {
            return Ok(Credential::of_account(s3.account()?));
        }
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let identity = self.certificate.as_deref().map(|certificate| {
            let key = self.key.as_deref().unwrap_or(certificate);
            ClientIdentity::load(certificate, key)
        });
        Ok(Credential::new(token, identity.transpose()?))
    }

    /// Reads our credential again for an open store.
    ///
    /// # Errors
    /// One of its files cannot be used: the store keeps the old one.
    pub(super) fn renew(&self, upstream: &OpenUpstream) -> Result<(), Failure> {
        if let Some(credential) = &upstream.credential {
            credential.renew(&self.credential()?);
        }
        Ok(())
    }

    /// The directory on the other server.
    ///
    /// # Errors
    /// A credential that cannot be read.
    pub(crate) fn upstream(&self, trust: &ClientTls) -> Result<Upstream, Failure> {
        let root = types::Location::parse(self.url())?;
        // It comes from the configuration, so it may be anywhere.
        let client = self.client(trust, AddressPolicy::ANY);
        let identity = match self.identity {
            UpstreamIdentity::Service => Identity::Service(self.credential()?),
            UpstreamIdentity::Client => Identity::Client,
            UpstreamIdentity::Delegated => Identity::Delegated,
            UpstreamIdentity::Minted => Identity::Minted(Arc::new(self.minter(&root)?)),
        };
        let client = match state_directory() {
            _ if !root.is_s3() => client,
            Some(directory) => client.with_s3_noted_in(&directory.join("uploads")),
            None => client.with_s3(),
        };
        let is_read_only = self.s3.as_ref().is_some_and(|s3| s3.read_only);
        let upstream = Upstream::new(client, root, identity).read_only(is_read_only);
        let upstream = upstream.page_checksums(self.page_checksums);
        Ok(match state_directory() {
            Some(directory) => upstream.noting_in(&directory.join("renames")),
            None => upstream,
        })
    }

    /// The URL of the server; empty where clients name it.
    fn url(&self) -> &str {
        match &self.place {
            Place::Url(url) => url,
            Place::Hosts(_) => "",
        }
    }

    /// How the server is named in the log and in metrics.
    fn name(&self) -> String {
        match &self.place {
            Place::Url(url) => types::Location::parse(url).map_or_else(|_| url.clone(), |place| place.to_string()),
            Place::Hosts(hosts) => hosts.join(", "),
        }
    }

    fn client(&self, trust: &ClientTls, addresses: AddressPolicy) -> Client {
        Client::new(ClientOptions {
            tls: trust.clone(),
            addresses,
            connect: self.connect,
            first_byte: self.first_byte,
            stall: self.stall,
            user_agent: PRODUCT.to_owned(),
        })
    }

    /// The servers that clients may name.
    ///
    /// # Errors
    /// A credential that cannot be read, or a host.
    fn forwarding(&self, trust: &ClientTls, hosts: Arc<AllowedHosts>) -> Result<Forwarding, Failure> {
        let identity = match self.identity {
            UpstreamIdentity::Client => Identity::Client,
            _ => Identity::Service(self.credential()?),
        };
        // The list says where else they may be.
        let addresses = AddressPolicy {
            local: false,
            private: false,
        };
        Ok(Forwarding::new(self.client(trust, addresses), identity, hosts))
    }

    /// The URL as the configuration has it.
    pub(crate) fn configured_url(&self) -> String {
        match self.url().strip_prefix("s3").filter(|_| self.s3.is_some()) {
            Some(rest) => format!("http{rest}"),
            None => self.url().to_owned(),
        }
    }

    /// Whether the store is an S3 storage in which a trial object may be stored.
    pub(super) fn is_writable_s3(&self) -> bool {
        self.s3.as_ref().is_some_and(|s3| !s3.read_only)
    }

    fn own_credential(&self) -> OwnCredential {
        match (self.identity, &self.token_file, &self.certificate) {
            _ if self.s3.is_some() => OwnCredential::S3Keys,
            (UpstreamIdentity::Minted, ..) => OwnCredential::Macaroons,
            (UpstreamIdentity::Client | UpstreamIdentity::Delegated, ..) => OwnCredential::OfClients,
            (UpstreamIdentity::Service, Some(_), _) => OwnCredential::Token,
            (UpstreamIdentity::Service, None, Some(_)) => OwnCredential::Certificate,
            (UpstreamIdentity::Service, None, None) => OwnCredential::None,
        }
    }

    /// Looks at the directory, for a limited time.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) async fn look(&self, upstream: &Upstream) -> Result<Found, UpstreamFault> {
        let found = timeout(UPSTREAM_ANSWER_TIME, upstream.look()).await;
        let late = |_| Error::new(ErrorCode::PeerConnectTimeout, Side::Upstream, Phase::Connect);
        match found.map_err(late).flatten() {
            Ok(Found::File) => {
                let (url, own) = (self.configured_url(), self.own_credential());
                Err(UpstreamFault::no_directory(&url, own))
            }
            Ok(found) => Ok(found),
            Err(error) => Err(self.fault(&error)),
        }
    }

    /// What an error of the server shows to be wrong.
    pub(crate) fn fault(&self, error: &Error) -> UpstreamFault {
        UpstreamFault::of(&self.configured_url(), self.own_credential(), error)
    }

    /// The server answers at another URL.
    pub(crate) fn speaks(&self, answering: &str) -> UpstreamFault {
        UpstreamFault::other_scheme(&self.configured_url(), self.own_credential(), answering)
    }

    /// The first file of our credential that cannot be used, with its configuration key. Macaroon
    /// secrets and private keys are left out: all secrets of that kind are checked together.
    pub(crate) fn unusable_file(&self) -> Option<UnusableFile> {
        let unusable = |key, path: &Path, failure| UnusableFile {
            key,
            is_missing: !path.exists(),
            failure,
        };
        let token = self.token_file.as_deref().and_then(|file| {
            let failure = read_token(file).err()?;
            Some(unusable("remote_token_file", file, failure))
        });
        let certificate = || {
            let file = self.certificate.as_deref()?;
            let key = self.key.as_deref().unwrap_or(file);
            let error = ClientIdentity::load(file, key).err()?;
            // A missing `remote_key` is among the private keys.
            self.key.as_deref().is_none_or(Path::exists).then_some(())?;
            Some(unusable("remote_certificate", file, error.into()))
        };
        let s3 = || {
            let s3 = self.s3.as_ref()?;
            let failure = s3.account().err()?;
            Some(unusable("s3_secret_key_file", &s3.secret_key_file, failure))
        };
        token.or_else(certificate).or_else(s3)
    }

    fn minter(&self, root: &types::Location) -> Result<Minter, Failure> {
        let file = self.macaroon_secret.as_ref().map(|(file, _)| file);
        let file = file.ok_or_else(|| Failure::invalid("remote_macaroon_secret_file is missing"))?;
        Ok(Minter::new(secret::load(file, false)?, &root.authority()))
    }

    /// What the other server is shown of clients. The delegated proxies may be unknown.
    ///
    /// # Errors
    /// A URL that cannot be used.
    pub(crate) fn shown(&self, delegations: Option<Current<Option<Delegations>>>) -> types::Result<ShownUpstream> {
        Ok(ShownUpstream {
            servers: match &self.place {
                Place::Url(url) => Servers::One(types::Location::parse(url)?),
                Place::Hosts(hosts) => Servers::Named(Arc::new(allowed_hosts(hosts))),
            },
            identity: self.identity,
            own: match (&self.token_file, &self.certificate) {
                _ if self.s3.is_some() => "the S3 keys of this server",
                (Some(_), Some(_)) => "the token and the certificate of this server",
                (Some(_), None) => "the token of this server",
                (None, Some(_)) => "the certificate of this server",
                (None, None) => "nothing: this server is anonymous there",
            },
            own_token: self.token_file.is_some(),
            own_certificate: self.certificate.is_some(),
            delegations,
        })
    }

    /// Opens the store. Nothing is asked yet: the other server may be away.
    ///
    /// # Errors
    /// As [`UpstreamKey::upstream`].
    pub(super) fn open(
        &self,
        trust: &ClientTls,
        delegations: &Current<Option<Delegations>>,
        log: &Log,
    ) -> Result<(Store, OpenUpstream), Failure> {
        let (files, open) = self.files(trust)?;
        let has_files = self.token_file.is_some() || self.certificate.is_some() || self.s3.is_some();
        if let Some(credential) = open.credential.as_ref().filter(|_| has_files) {
            tokio::spawn(follow(self.clone(), credential.downgrade(), log.clone()));
        }
        let shown = self.shown(Some(delegations.clone()))?;
        log.write("upstream_opened", &json!({"url": open.name, "identity": shown.word()}));
        Ok((Store::of(files).identified_by(Arc::new(shown)), open))
    }

    fn files(&self, trust: &ClientTls) -> Result<(Arc<dyn storage::Store>, OpenUpstream), Failure> {
        let open = |counts: &Arc<Counts>, credential: Option<&Credential>, upstream| OpenUpstream {
            name: self.name(),
            counts: counts.clone(),
            credential: credential.cloned(),
            upstream,
        };
        if let Place::Hosts(hosts) = &self.place {
            let servers = Arc::new(self.forwarding(trust, Arc::new(allowed_hosts(hosts)))?);
            let open = open(servers.counts(), servers.credential(), None);
            return Ok((Arc::new(ForwardingStore::new(servers)), open));
        }
        let upstream = self.upstream(trust)?;
        let open = open(upstream.counts(), upstream.credential(), Some(upstream.clone()));
        let files = RemoteStore::new(upstream);
        if self.identity == UpstreamIdentity::Service {
            let files = files.clone();
            tokio::spawn(async move { files.settle().await });
        }
        Ok((Arc::new(files), open))
    }
}

/// The hosts of a list. What cannot be read is refused with the configuration; here it allows
/// nothing.
fn allowed_hosts(hosts: &[String]) -> AllowedHosts {
    AllowedHosts::parse(hosts).unwrap_or_default()
}

/// The token in a file.
///
/// # Errors
/// As [`read_secret`].
fn read_token(file: &Path) -> Result<Secret, Failure> {
    read_secret("token for the upstream server", file)
}

/// The secret in a file.
///
/// # Errors
/// Others may read the file, it cannot be read, or it is empty.
fn read_secret(what: &str, file: &Path) -> Result<Secret, Failure> {
    let text = secret::load_text(what, file)?;
    match text.trim() {
        "" => Err(Failure::invalid(format!("the {what}: {} is empty", file.display()))),
        secret => Ok(Secret::new(secret)),
    }
}

/// Reads the credential again and again, as long as a store uses it.
async fn follow(key: UpstreamKey, credential: WeakCredential, log: Log) {
    let mut times = interval(LOOK_PERIOD);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fault = None;
    loop {
        times.tick().await;
        let Some(credential) = credential.upgrade() else { return };
        match key.credential() {
            Ok(fresh) => {
                credential.renew(&fresh);
                fault = None;
            }
            Err(failure) => {
                let words = Some(failure.words);
                if words != fault {
                    log.write(
                        "upstream_credential_unreadable",
                        &json!({"url": key.name(), "error": words}),
                    );
                }
                fault = words;
            }
        }
    }
}

/// The upstream servers of all exports, for the admin door.
pub(super) struct UpstreamPart(pub(super) Current<Vec<OpenUpstream>>);

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

    /// [`super::upstream_trial`] has them.
    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async { Vec::new() })
    }
}

fn metrics(upstreams: &[OpenUpstream]) -> String {
    if upstreams.is_empty() {
        return String::new();
    }
    let (requests, failures) = (
        Family::<Labels, Counter>::default(),
        Family::<Labels, Counter>::default(),
    );
    let bytes = Family::<FlowLabels, Counter>::default();
    for this in upstreams {
        let (upstream, counts) = (this.name.clone(), &this.counts);
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use net::tls::Trust;
    use types::LogicalPath;

    use super::*;

    fn write(file: &Path, text: &str) {
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The key of an export with these lines, its store's side, and what a reload sees of it.
    fn opened(lines: &str, directory: &Path) -> (UpstreamKey, Upstream, OpenUpstream) {
        let text = format!("[[export]]\npath = \"/\"\n{lines}");
        let configuration = Configuration::parse(&text, directory, "c.toml").unwrap();
        let key = UpstreamKey::of(&configuration.exports[0], &configuration).unwrap();
        let upstream = key.upstream(&ClientTls::load(&Trust::default()).unwrap().0).unwrap();
        let open = OpenUpstream {
            name: key.name(),
            counts: upstream.counts().clone(),
            credential: upstream.credential().cloned(),
            upstream: None,
        };
        (key, upstream, open)
    }

    #[test]
    fn a_changed_secret_key_is_shown_after_a_reload() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("s3.key");
        write(&file, "old");
        let lines = "s3 = \"https://a/bucket\"\ns3_access_key_id = \"id\"\ns3_secret_key_file = \"s3.key\"\n";
        let (key, upstream, open) = opened(lines, directory.path());
        let shown = || upstream.resource(&LogicalPath::root()).access.account.unwrap();
        write(&file, "new\n");
        assert_eq!(shown().secret.expose(), "old");
        key.renew(&open).unwrap();
        assert_eq!(shown().secret.expose(), "new");
        write(&file, "");
        assert!(key.renew(&open).unwrap_err().words.contains("is empty"));
        assert_eq!(shown().secret.expose(), "new", "the last one stays in use");
    }

    #[test]
    fn a_changed_proxy_is_shown_after_a_reload() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("proxy.pem");
        let make = || {
            let made = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
            write(&file, &(made.cert.pem() + &made.signing_key.serialize_pem()));
        };
        make();
        let lines = "remote = \"https://a/data\"\nremote_certificate = \"proxy.pem\"\n";
        let (key, upstream, open) = opened(lines, directory.path());
        let shown = || upstream.resource(&LogicalPath::root()).access.identity.unwrap();
        let old = shown();
        make();
        key.renew(&open).unwrap();
        assert!(shown() != old, "connections of the old one are not used for it");
    }
}
