//! From the configuration to the parts of a server: stores, certificates, trust, keys, settings.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use config::{Changes, Configuration, Export, XrootTls, forward_http, forward_root};
use credentials::{Lifetimes, MacaroonKey, SealingKey};
use door_http::{HandOver, HandOverSettings, MacaroonSettings, Settings};
use door_xroot::{Keys, ThirdPartySettings};
use endpoint::chance::random;
use endpoint::{Exports, FairShare, Refusals, SharedExports, Store, Users};
use http_wire::HeadLimits;
use identity::delegation::{DelegationSettings, Delegations};
use identity::{Authenticator, Sources};
use net::address::AddressPolicy;
use net::tls::{ClientTls, ServerTls};
use policy::{AnonymousAccess, Rule};
use remote::{Client, ClientOptions};
use serde_json::json;
use storage::{Posix, PosixOptions, VoQuota};
use transfer::{Budget, Slots};
use types::Location;
use xroot_wire::TlsPolicy;

use super::certificate;
use super::choices;
use super::events::Observer;
use super::log::Log;
use super::rules;
use super::secret;
use super::tokens::TokenSources;
use super::trust_files::{TrustFiles, trust};
use super::users;
use crate::check::date;
use crate::descriptors;
use crate::failure::Failure;
use crate::token::now_s;

/// Our name and version, as clients and peers see it.
pub(crate) const PRODUCT: &str = concat!("crossload/", env!("CARGO_PKG_VERSION"));

/// What makes two exports share one store.
type StoreKey = (PathBuf, bool, u64, u64, Vec<VoQuota>);

/// The parts of a server that can be replaced while it runs.
pub(crate) struct Assembly {
    stores: HashMap<StoreKey, Store>,
    exports: SharedExports,
    /// The exports as the admin door shows them.
    shown: Arc<Mutex<Vec<door_admin::Export>>>,
    tls: Option<ServerTls>,
    /// The end of the certificate's validity, in seconds since 1970.
    expiry_s: Arc<Mutex<Option<i64>>>,
    /// The end that the log was told of.
    told_expiry_s: Option<i64>,
    trust: ClientTls,
    /// Keeps what certificates are judged by up to date.
    pub(crate) trust_files: TrustFiles,
    macaroons: Option<MacaroonSettings>,
    /// The hand-over to clear text with its memory, which outlives the doors.
    hand_over: Option<Arc<HandOver>>,
    /// Seals capabilities where no file has a key for it.
    own_key: SealingKey,
    /// What clients have delegated.
    delegations: Option<Delegations>,
    /// Who checks what clients show; it outlives the doors.
    authenticator: Authenticator,
    /// The addresses that are listened on.
    addresses: Vec<SocketAddr>,
    /// Why requests were refused, of all doors.
    pub(crate) refusals: Refusals,
    /// What each client may hold, over all doors.
    pub(crate) fair_share: FairShare,
    /// The places for third-party copies, which all doors share.
    transfers: Slots,
    /// The keys of third-party copies, which outlive the doors.
    keys: Keys,
}

impl Assembly {
    /// Opens and reads everything that the configuration names.
    ///
    /// # Errors
    /// What cannot be opened or read.
    pub(crate) fn new(
        configuration: &Configuration,
        addresses: Vec<SocketAddr>,
        log: &Log,
        events: Arc<Observer>,
    ) -> Result<Self, Failure> {
        let shares = descriptors::share_out(descriptors::limit(), &configuration.limits);
        let fair_share = FairShare::new(&shares, Some(events));
        let server = &configuration.server;
        let tls = match (&server.certificate, &server.key) {
            (Some(certificate), Some(key)) => Some(ServerTls::asking(
                certificate,
                key,
                choices::client_certificates(configuration),
            )?),
            _ => None,
        };
        let (trust, _) = ClientTls::load(&trust(configuration))?;
        let (macaroons, macaroon_keys) = macaroons(configuration)?;
        let own_key = SealingKey::new(&random::<32>());
        let authenticator = Authenticator::default();
        authenticator.replace(sources(
            configuration,
            &addresses,
            &trust,
            &authenticator,
            macaroon_keys,
            log,
        )?);
        let assembly = Self {
            stores: HashMap::new(),
            exports: SharedExports::default(),
            shown: Arc::default(),
            tls,
            expiry_s: Arc::new(Mutex::new(
                server.certificate.as_deref().and_then(certificate::expiry_s),
            )),
            told_expiry_s: None,
            trust_files: TrustFiles::new(configuration, trust.clone(), authenticator.judge(), log),
            trust,
            macaroons,
            hand_over: hand_over(configuration, None, &own_key)?,
            own_key,
            delegations: delegations(configuration)?,
            authenticator,
            addresses,
            refusals: Refusals::default(),
            transfers: Slots::sharing(fair_share.clone(), Budget::new()),
            keys: Keys::sharing(fair_share.clone()),
            fair_share,
        };
        let opened = assembly.open_exports(configuration, log)?;
        let mut assembly = assembly;
        assembly.put_exports(opened);
        Ok(assembly)
    }

    /// Opens the stores of all exports. Those that are open already, with the same options, stay.
    fn open_exports(&self, configuration: &Configuration, log: &Log) -> Result<Opened, Failure> {
        let mut stores = HashMap::new();
        let mut exports = Vec::new();
        for export in &configuration.exports {
            let writable = is_writable(export, configuration);
            let directory = export.directory.clone();
            let quotas = users::quotas_in(configuration, &directory);
            let key = (
                directory,
                writable,
                export.quota_bytes.0,
                export.reserve_bytes.0,
                quotas,
            );
            let known = stores.get(&key).or_else(|| self.stores.get(&key)).cloned();
            let store = match known {
                Some(store) => store,
                None => open_store(&key, log)?.sharing(self.fair_share.clone()),
            };
            stores.insert(key, store.clone());
            let rules = export.rules();
            exports.push((endpoint::Export { rules, store }, writable));
        }
        Ok(Opened {
            stores,
            exports,
            rules: rules::rules(configuration)?,
            users: users::users(configuration)?,
        })
    }

    fn put_exports(&mut self, opened: Opened) {
        let shown = opened
            .exports
            .iter()
            .map(|(export, writable)| door_admin::Export {
                path: export.rules.path.to_string(),
                store: export.store.clone(),
                writable: *writable,
            })
            .collect();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
        let exports = opened.exports.into_iter().map(|(export, _)| export).collect();
        let exports = Exports::with_rules(exports, opened.rules).acting_as(opened.users);
        self.exports.replace(exports);
        self.stores = opened.stores;
    }

    /// Takes over a new configuration: everything that can fail is done first, so that a broken one
    /// changes nothing. What the door itself holds needs a new door ([`Assembly::settings`]).
    ///
    /// # Errors
    /// What cannot be opened or read; the old parts stay in use.
    pub(crate) fn renew(&mut self, configuration: &Configuration, changes: &Changes, log: &Log) -> Result<(), Failure> {
        let opened = self.open_exports(configuration, log)?;
        let delegations = match changes.concern("delegation") {
            true => delegations(configuration)?,
            false => self.delegations.clone(),
        };
        let hand_over = match changes.concern("hand_over") {
            true => hand_over(configuration, self.hand_over.as_deref(), &self.own_key)?,
            false => self.hand_over.clone(),
        };
        let (macaroons, macaroon_keys) = macaroons(configuration)?;
        let sources = sources(
            configuration,
            &self.addresses,
            &self.trust,
            &self.authenticator,
            macaroon_keys,
            log,
        )?;
        let server = &configuration.server;
        let fresh = match (&server.certificate, &server.key) {
            (Some(certificate), Some(key)) => Some((
                certificate,
                ServerTls::asking(certificate, key, choices::client_certificates(configuration))?,
                key,
            )),
            _ => None,
        };
        // The last step that can fail; it changes nothing when it does.
        self.trust.reload(&trust(configuration))?;
        let mut expiry = self.expiry_s.lock().unwrap_or_else(PoisonError::into_inner);
        match (&self.tls, fresh) {
            (Some(tls), Some((certificate, _, key))) => {
                tls.reload(certificate, key, choices::client_certificates(configuration))?;
                *expiry = certificate::expiry_s(certificate);
            }
            (None, Some((certificate, tls, _))) => {
                self.tls = Some(tls);
                *expiry = certificate::expiry_s(certificate);
            }
            (_, None) => {
                self.tls = None;
                *expiry = None;
            }
        }
        drop(expiry);
        self.trust_files.replace(configuration);
        self.macaroons = macaroons;
        self.delegations = delegations;
        self.hand_over = hand_over;
        self.authenticator.replace(sources);
        let shares = descriptors::share_out(descriptors::limit(), &configuration.limits);
        self.fair_share.set_limits(&shares);
        self.put_exports(opened);
        Ok(())
    }

    /// How peers of third-party copies are reached.
    fn client(&self, configuration: &Configuration) -> Client {
        let (limits, tpc) = (&configuration.limits, &configuration.tpc);
        Client::new(ClientOptions {
            tls: self.trust.clone(),
            addresses: AddressPolicy {
                local: tpc.allow_local_peers,
                private: tpc.allow_private_peers,
            },
            connect: limits.connect_timeout,
            first_byte: limits.first_byte_timeout,
            stall: limits.stall_timeout,
            user_agent: PRODUCT.to_owned(),
        })
    }

    /// Settings for a door.
    pub(crate) fn settings(
        &self,
        configuration: &Configuration,
        addresses: &[SocketAddr],
        events: Arc<Observer>,
    ) -> Settings {
        let (limits, tpc) = (&configuration.limits, &configuration.tpc);
        Settings {
            exports: self.exports.clone(),
            tls: self.tls.clone(),
            client: self.client(configuration),
            transfers: self.transfers.clone(),
            forward_to: forward_http(&tpc.forward_to),
            authenticator: self.authenticator.clone(),
            hand_over: self.hand_over.clone(),
            delegations: self.delegations.clone(),
            pass_token_to: tpc.pass_token_to.clone(),
            macaroons: self.macaroons.clone(),
            limits: door_http::Limits {
                head: HeadLimits {
                    head_bytes: usize::try_from(limits.head_bytes.0).unwrap_or(usize::MAX),
                    header_count: limits.header_count as usize,
                },
                head_timeout: limits.head_timeout,
                idle: limits.idle_timeout,
                stall: limits.stall_timeout,
                handshake: limits.tls_handshake_timeout,
                streams: limits.streams,
                chosen_streams: tpc.chosen_streams,
                attempts: limits.attempts,
                marker_period: limits.marker_period,
                checksum_wait: limits.checksum_wait,
                ..door_http::Limits::default()
            },
            verification: choices::verification(configuration),
            keep: configuration.server.checksums.clone(),
            server_name: PRODUCT.to_owned(),
            authorities: authorities(configuration, addresses),
            fair_share: self.fair_share.clone(),
            refusals: self.refusals.clone(),
            events,
        }
    }

    /// Settings for the door of the XRootD protocol; `None` when it is not to be opened.
    pub(crate) fn xroot_settings(
        &self,
        configuration: &Configuration,
        events: Arc<Observer>,
    ) -> Option<door_xroot::Settings> {
        let (limits, xroot) = (&configuration.limits, &configuration.xroot);
        let demands = |tls: XrootTls| xroot.tls == tls;
        xroot.enabled.then(|| door_xroot::Settings {
            exports: self.exports.clone(),
            tls: self.tls.clone(),
            tls_policy: TlsPolicy {
                offered: !demands(XrootTls::None),
                login: demands(XrootTls::Login) || demands(XrootTls::Data),
                session: demands(XrootTls::Session),
                data: demands(XrootTls::Data),
                ..TlsPolicy::default()
            },
            authentication: choices::authentication(configuration),
            authenticator: self.authenticator.clone(),
            limits: door_xroot::Limits {
                head_timeout: limits.head_timeout,
                idle: limits.idle_timeout,
                stall: limits.stall_timeout,
                handshake: limits.tls_handshake_timeout,
                handles: xroot.handles as usize,
                ..door_xroot::Limits::default()
            },
            keep: configuration.server.checksums.clone(),
            third_party: ThirdPartySettings {
                client: self.client(configuration),
                transfers: self.transfers.clone(),
                forward_to: forward_root(&configuration.tpc.forward_to),
                keys: self.keys.clone(),
                key_lifetime: configuration.tpc.key_lifetime,
                key_lifetime_max: configuration.tpc.key_lifetime_max,
                verification: choices::verification(configuration),
                streams: limits.streams,
                chosen_streams: configuration.tpc.chosen_streams,
                attempts: limits.attempts,
            },
            server_name: PRODUCT.to_owned(),
            host: named_place(configuration).map(|place| place.host().to_owned()),
            fair_share: self.fair_share.clone(),
            refusals: self.refusals.clone(),
            events,
        })
    }

    /// The exports of each moment, for the admin door.
    pub(crate) fn exports_for_admin(&self) -> impl Fn() -> Vec<door_admin::Export> + Send + Sync + 'static {
        let shown = self.shown.clone();
        move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says in the log that the certificate has expired, once for each certificate.
    pub(crate) fn tell_expiry(&mut self, log: &Log) {
        let end = *self.expiry_s.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(end) = end.filter(|end| *end <= now_s() && self.told_expiry_s != Some(*end)) else {
            return;
        };
        self.told_expiry_s = Some(end);
        let error = format!(
            "the server's certificate expired on {}: clients refuse to connect",
            date(end)
        );
        log.write("certificate_expired", &json!({"error": error}));
    }

    /// Seconds until the certificate of each moment expires, for the admin door.
    pub(crate) fn certificate_expiry(&self) -> impl Fn() -> Option<i64> + Send + Sync + 'static {
        let expiry = self.expiry_s.clone();
        move || {
            let end = *expiry.lock().unwrap_or_else(PoisonError::into_inner);
            end.map(|end| end - now_s())
        }
    }
}

/// All that a configuration says about files, opened.
struct Opened {
    /// Stores by what they were opened with.
    stores: HashMap<StoreKey, Store>,
    /// The exports that use them; with each, whether it can be written.
    exports: Vec<(endpoint::Export, bool)>,
    /// Who may do what in them.
    rules: Vec<Rule>,
    /// As whom files are used.
    users: Option<Users>,
}

/// Where nobody can write there is no need for a hidden directory.
pub(super) fn is_writable(export: &Export, configuration: &Configuration) -> bool {
    let by_rule = !configuration.rules.is_empty() || configuration.policy.authdb_file.is_some();
    let by_issuer = !configuration.issuers.is_empty() || configuration.tokens.scitokens_file.is_some();
    let by_token = configuration.macaroons.secret_file.is_some() || by_issuer;
    let somebody = export.anonymous == AnonymousAccess::Write || by_token || by_rule;
    somebody && !export.read_only
}

fn open_store(key: &StoreKey, log: &Log) -> Result<Store, Failure> {
    let (directory, writable, quota_bytes, reserve_bytes, vo_quotas) = key;
    let options = PosixOptions {
        writable: *writable,
        reserve_bytes: *reserve_bytes,
        quota_bytes: Some(*quota_bytes).filter(|bytes| *bytes > 0),
        vo_quotas: vo_quotas.clone(),
    };
    let posix = Posix::open(directory, &options).map_err(|error| {
        let failure = Failure::from(error);
        Failure {
            words: format!("export directory {}: {}", directory.display(), failure.words),
            ..failure
        }
    })?;
    let cleaned = posix.cleaned();
    log.write(
        "export_opened",
        &json!({"directory": directory, "writable": writable, "dead_servers": cleaned.instances,
            "parts_removed": cleaned.parts}),
    );
    Ok(Store::new(Arc::new(posix)))
}

/// The store of what clients delegate, where they may.
fn delegations(configuration: &Configuration) -> Result<Option<Delegations>, Failure> {
    let wanted = &configuration.delegation;
    let (Some(directory), Some(key_file)) = (&wanted.directory, &wanted.key_file) else {
        return Ok(None);
    };
    let settings = DelegationSettings {
        directory: directory.clone(),
        key: secret::load_sealing_key(key_file, true)?,
    };
    let opened = Delegations::open(settings);
    opened
        .map(Some)
        .map_err(|cause| Failure::system(format!("delegated credentials in {}", directory.display()), &cause))
}

/// The hand-over to clear text, where something is to be handed over or taken. What there was before keeps its memory.
fn hand_over(
    configuration: &Configuration,
    before: Option<&HandOver>,
    own_key: &SealingKey,
) -> Result<Option<Arc<HandOver>>, Failure> {
    let wanted = &configuration.hand_over;
    if !wanted.reads && !wanted.writes && wanted.accept_as.is_none() {
        return Ok(None);
    }
    let key = match &wanted.key_file {
        Some(file) => secret::load_sealing_key(file, true)?,
        None => own_key.clone(),
    };
    let settings = HandOverSettings {
        key,
        target: wanted.target(),
        accept_as: wanted.accept_as.clone(),
        lifetime: wanted.lifetime,
        bind_address: wanted.bind_address,
        minimum_bytes: wanted.minimum_bytes.0,
        reads: wanted.reads,
        writes: wanted.writes,
    };
    Ok(Some(Arc::new(match before {
        Some(before) => before.with_settings(settings),
        None => HandOver::new(settings),
    })))
}

/// What credentials are checked against. Issuers that are known already keep their keys.
fn sources(
    configuration: &Configuration,
    addresses: &[SocketAddr],
    trust: &ClientTls,
    known: &Authenticator,
    macaroon_keys: Vec<MacaroonKey>,
    log: &Log,
) -> Result<Sources, Failure> {
    let tokens = TokenSources::read(configuration, addresses)?;
    if !tokens.rules.issuers.is_empty() {
        let issuers: Vec<&str> = tokens.rules.issuers.iter().map(|issuer| issuer.url.as_str()).collect();
        log.write(
            "tokens",
            &json!({"issuers": issuers, "audiences": tokens.rules.audiences, "remarks": tokens.remarks}),
        );
    }
    Ok(Sources {
        macaroon_keys,
        certificates: known.judge(),
        clear_text: choices::clear_text(configuration),
        issuers: tokens.issuers(configuration, trust, log, &known.issuers()),
        token_rules: tokens.rules,
        verified_tokens_max: configuration.tokens.remembered as usize,
        verified_lifetime: configuration.tokens.remembered_for,
    })
}

/// How macaroons are issued, and the keys of those that are accepted.
fn macaroons(configuration: &Configuration) -> Result<(Option<MacaroonSettings>, Vec<MacaroonKey>), Failure> {
    let wanted = &configuration.macaroons;
    let Some(file) = &wanted.secret_file else {
        return Ok((None, Vec::new()));
    };
    let mut keys = vec![secret::load(file, true)?];
    for old in &wanted.old_secret_files {
        keys.push(secret::load(Path::new(old), false)?);
    }
    let name = configuration.server.name.clone();
    let settings = MacaroonSettings {
        key: keys[0].clone(),
        location: name.unwrap_or_else(|| "crossload".to_owned()),
        lifetimes: Lifetimes {
            default_s: wanted.default_lifetime.as_secs(),
            max_s: wanted.maximum_lifetime.as_secs(),
        },
    };
    Ok((Some(settings), keys))
}

/// Every `host:port` by which this server is surely meant.
fn authorities(configuration: &Configuration, addresses: &[SocketAddr]) -> Vec<String> {
    let named = named_place(configuration).map(|place| format!("{}:{}", place.host(), place.port()));
    let listening = addresses.iter().filter(|address| !address.ip().is_unspecified());
    named.into_iter().chain(listening.map(ToString::to_string)).collect()
}

/// Where clients find this server, as the configuration says.
pub(super) fn named_place(configuration: &Configuration) -> Option<Location> {
    let name = configuration.server.name.as_deref()?;
    Location::parse(name).ok().filter(Location::is_http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_certificate_is_told_once() {
        let site = tempfile::tempdir().unwrap();
        let path = |name: &str| site.path().join(name);
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2021, 2, 3);
        std::fs::write(path("host.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::create_dir(path("data")).unwrap();
        let mut file = std::fs::OpenOptions::new();
        let file = std::os::unix::fs::OpenOptionsExt::mode(file.write(true).create(true), 0o600).open(path("host.key"));
        std::io::Write::write_all(&mut file.unwrap(), key.serialize_pem().as_bytes()).unwrap();
        let text = "[server]\ncertificate = \"host.pem\"\nkey = \"host.key\"\n[[export]]\ndirectory = \"data\"\n";
        let configuration = Configuration::parse(text, site.path(), "test").unwrap();
        let log = Log::open(Some(path("log"))).unwrap();
        let observer = Arc::new(Observer::new(log.clone(), Arc::default(), &configuration.log));
        let mut assembly = Assembly::new(&configuration, Vec::new(), &log, observer).unwrap();
        assembly.tell_expiry(&log);
        assembly.tell_expiry(&log);
        log.flush();
        let text = std::fs::read_to_string(path("log")).unwrap();
        let told: Vec<_> = text
            .lines()
            .filter(|line| line.contains("certificate_expired"))
            .collect();
        assert_eq!(told.len(), 1, "{text}");
        assert!(told[0].contains("2021-02-03"), "{text}");
    }

    #[test]
    fn hand_over_and_delegation_follow_a_reload_and_keep_their_memory_otherwise() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir(site.path().join("data")).unwrap();
        let parse = |text: &str| {
            let text = format!("[[export]]\ndirectory = \"data\"\n{text}");
            Configuration::parse(&text, site.path(), "test").unwrap()
        };
        let log = Log::open(Some(site.path().join("log"))).unwrap();
        let mut now = parse("");
        let observer = Arc::new(Observer::new(log.clone(), Arc::default(), &now.log));
        let mut assembly = Assembly::new(&now, Vec::new(), &log, observer).unwrap();
        let mut reload = |assembly: &mut Assembly, text: &str| {
            let fresh = parse(text);
            let changes = Changes::new(&now, &fresh, &[]);
            assembly.renew(&fresh, &changes, &log).unwrap();
            now = fresh;
            changes.need_new_door()
        };
        assert!(assembly.hand_over.is_none() && assembly.delegations.is_none());
        let delegation = "[delegation]\ndirectory = \"kept\"\nkey_file = \"key\"\n";
        let both = format!("{delegation}[hand_over]\nreads = true\n");
        assert!(reload(&mut assembly, &both));
        assert!(assembly.delegations.is_some(), "delegation begins");
        let first = assembly.hand_over.clone().expect("the hand-over begins");
        assert!(!first.settings().writes);
        assert!(!reload(&mut assembly, &format!("{both}[log]\nrequests = false\n")));
        let same = assembly.hand_over.clone().unwrap();
        assert!(Arc::ptr_eq(&first, &same), "nothing of it changed");
        assert!(reload(&mut assembly, &format!("{both}writes = true\n")));
        assert!(assembly.hand_over.as_ref().unwrap().settings().writes);
        assert!(reload(&mut assembly, ""));
        assert!(assembly.hand_over.is_none() && assembly.delegations.is_none());
    }
}
