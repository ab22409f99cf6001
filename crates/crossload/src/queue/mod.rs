//! `crossload queue serve`: the transfer queue with its database, its door and its loops.

mod access;
mod audit;
mod bans;
mod copy_log;
mod desk;
mod hops;
pub(crate) mod key;
pub(crate) mod messages;
mod metrics;
mod pages;
mod reload;
pub(crate) mod state;
pub(crate) mod token_clients;
mod web;
mod webhooks;
mod why;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use catalog::ThirdPartyRole;
use config::{Configuration, CopyRole, QueueStorage, ShareCount};
use door_admin::{Admin, Metrics, Part};
use endpoint::{FairShare, Refusals};
use execution::ServerThreads;
use http_server::Server;
use http_server::control::ControlDoor;
use identity::Authenticator;
use net::listen::Acceptor;
use net::tls::ClientTls;
use queue::tape::{Pace, RemoteTapes, Tape, TapeSettings};
use queue::webhooks::Webhooks;
use queue::{
    CopyBounds, HopSite, KeptCapabilities, LeastRate, Proxies, RemoteCopier, S3Keys, Service, Settings, Tokens,
};
use schedule::scheduler::ShareUnit;
use serde_json::json;
use transfer::Budget;

use crate::command_line::QueueServeOptions;
use crate::descriptors;
use crate::failure::Failure;
use crate::file_size::survive_file_size_limit;
use crate::output;
use crate::server;
use crate::server::admin_parts::AdminParts;
use crate::server::assemble::{PRODUCT, peer_client};
use crate::server::certificate::OwnCertificate;
use crate::server::events::{AdminLog, Observer};
use crate::server::identities::Identities;
use crate::server::log::Log;
use crate::server::service_manager::{ServiceManager, Sockets};
use crate::server::signals::Signals;
use crate::server::subsystem::{Ground, Subsystem};
use crate::server::trust_files::{TrustFiles, trust, unusable};
use crate::traces::Traces;
use access::Credentials;
use copy_log::LoggedCopier;
use desk::Desk;
use messages::Prepared;
use reload::Followed;
use state::State;
use webhooks::Posting;

/// Time for connections to end when the queue stops.
const GRACE: Duration = Duration::from_secs(5);
/// Longest time for all that stops one after the other: connections, messages and webhooks have
/// [`GRACE`] each, and the service twice its own `STOP_TIME`.
const STOP_TIME_MAX: Duration = Duration::from_secs(3 * GRACE.as_secs() + 2 * queue::limits::STOP_TIME.as_secs());

/// Runs the queue until it is stopped.
///
/// # Errors
/// Failures at the start: the configuration, a file, a directory, the database, an address.
pub(crate) fn run(options: &QueueServeOptions) -> Result<(), Failure> {
    let sockets = Sockets::inherited()?;
    let (configuration, state) = state::configure(options)?;
    warnings(&configuration)
        .iter()
        .for_each(|warning| output::complain(warning));
    let log = Log::open(&configuration.log)?;
    server::prepare_process(&configuration, &log);
    let threads =
        server::start_threads(&configuration).map_err(|cause| Failure::system("cannot start threads", &cause))?;
    let outcome = threads.block_on(serve(options, &configuration, &state, sockets, &log, &threads));
    threads.shut_down(GRACE);
    log.flush();
    outcome
}

async fn serve(
    options: &QueueServeOptions,
    configuration: &Configuration,
    state: &State,
    sockets: Sockets,
    log: &Log,
    threads: &ServerThreads,
) -> Result<(), Failure> {
    server::gather_randomness()?;
    survive_file_size_limit().map_err(|cause| Failure::system("cannot receive signals", &cause))?;
    let metrics = Arc::new(Metrics::new());
    let observer = Arc::new(Observer::exporting(log, &metrics, configuration, "crossload-queue")?);
    let (listeners, addresses) = bound(configuration, &sockets)?;
    let parts = Parts::build(configuration, addresses.clone(), log, observer.clone(), sockets)?;
    tokio::spawn(parts.trust_files.clone().keep());
    let settings = settings(configuration, hops::sites(&configuration.queue.hops)?);
    let messages = Prepared::build(configuration, &settings.worker, &parts.ground.trust, &parts.sockets)?;
    let catalog = state.open_catalog().await?;
    let vault = key::open_vault(state, &catalog, state.takes_new_key).await?;
    let proxies = Proxies::new(catalog.clone(), vault.clone(), parts.ground.authenticator.clone());
    let client = peer_client(configuration, &parts.ground.trust).with_s3_noted_in(&state.uploads);
    let providers = token_clients::configured(configuration)?;
    let renewal_log = Arc::new(token_clients::renewal_log(log.clone()));
    let tokens = Tokens::new(catalog.clone(), vault.clone(), &client, providers, renewal_log);
    tokio::spawn(tokens.clone().run());
    let credentials = Arc::new(Credentials {
        tokens: tokens.clone(),
        vault: vault.clone(),
        proxies: proxies.clone(),
        hop_tokens: hops::tokens(&configuration.queue.hops)?,
        s3_keys: S3Keys::new(catalog.clone(), vault.clone()),
    });
    let tapes = Arc::new(RemoteTapes::new(client.clone(), credentials.clone()));
    let copier = RemoteCopier::new(client.clone(), Budget::new(), credentials);
    let capabilities = copier.capabilities();
    let kept = KeptCapabilities::start(capabilities.clone(), catalog.clone());
    let worker = settings.worker.clone();
    let copier = logged(copier, log, observer.traces());
    let service = Service::start(settings, catalog.clone(), copier).await?;
    tokio::spawn(metrics::log_faults(service.faults(), log.clone()));
    let tape = Tape::start(tape_settings(configuration), catalog.clone(), tapes);
    let server = parts.server(observer.clone());
    let messages = messages.start(configuration, catalog.clone(), server, log)?;
    let stores = Stores {
        s3_keys: S3Keys::new(catalog.clone(), vault.clone()),
        webhooks: Webhooks::new(catalog.clone(), vault.clone()),
        proxies,
    };
    let webhooks = stores.webhooks.clone();
    let posting = Posting::start(webhooks.clone(), client, &worker, log);
    let desk = Arc::new(Desk::new(service.clone(), catalog, vault, tokens, capabilities).await?);
    desk.finish_bans();
    web::open(configuration, &parts, &observer, service.clone(), desk.clone())?;
    let signals = Signals::receive()?;
    let door = parts.door(configuration, desk, stores, &addresses, observer.clone());
    parts.accept(&door, listeners)?;
    let part = metrics::QueuePart::new(service.clone(), webhooks);
    parts.open_admin_door(configuration, state, metrics.clone(), part, observer, threads)?;
    parts.sockets.demand_none_left()?;
    let fields = json!({"version": env!("CARGO_PKG_VERSION"), "listen": addresses, "database": state.database_words(),
        "configuration": configuration.read_from});
    log.write("queue_started", &fields);
    output::line("ready");
    parts.service_manager.feed_watchdog(&threads.rota());
    reload::until_stopped(options, configuration, &parts, &metrics, signals).await;
    parts.announce_stop();
    log.write("stopping", &json!({"copies": service.copies()}));
    door.shut_down(GRACE).await;
    drop(tape);
    service.stop().await;
    kept.stop().await;
    messages.stop(GRACE).await;
    posting.stop(GRACE).await;
    parts.ground.observer.traces().stop().await;
    log.write("stopped", &json!({}));
    Ok(())
}

/// Sockets at the configured addresses, and the addresses that they have.
fn bound(configuration: &Configuration, sockets: &Sockets) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), Failure> {
    let listeners = configuration
        .queue
        .listen
        .iter()
        .map(|address| sockets.listen(*address));
    let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
    let addresses = listeners.iter().filter_map(|one| one.local_addr().ok()).collect();
    Ok((listeners, addresses))
}

/// The copier with a line in the log and spans for each attempt.
fn logged(copier: RemoteCopier, log: &Log, traces: &Traces) -> Arc<LoggedCopier> {
    let sampler = traces.clone();
    let copier = copier.sampling(move |span| sampler.takes(span));
    Arc::new(LoggedCopier::new(Arc::new(copier), log.clone(), traces.clone()))
}

/// What the door keeps in the database by itself.
struct Stores {
    proxies: Proxies,
    s3_keys: S3Keys,
    webhooks: Webhooks,
}

/// The parts that the queue has in common with an endpoint.
struct Parts {
    ground: Ground,
    certificate: OwnCertificate,
    identities: Identities,
    trust_files: TrustFiles,
    followed: Followed,
    service_manager: ServiceManager,
    sockets: Sockets,
}

impl Parts {
    fn build(
        configuration: &Configuration,
        addresses: Vec<SocketAddr>,
        log: &Log,
        observer: Arc<Observer>,
        sockets: Sockets,
    ) -> Result<Self, Failure> {
        let shares = descriptors::share_out(descriptors::limit(), &configuration.limits);
        let (trust, _) = ClientTls::load(&trust(configuration)).map_err(unusable)?;
        let ground = Ground {
            log: log.clone(),
            fair_share: FairShare::new(&shares, Some(observer.clone())),
            observer,
            addresses,
            trust,
            authenticator: Authenticator::default(),
        };
        Ok(Self {
            certificate: Subsystem::build(&ground, configuration)?,
            identities: Subsystem::build(&ground, configuration)?,
            trust_files: Subsystem::build(&ground, configuration)?,
            followed: Followed::new(configuration),
            service_manager: ServiceManager::new(log),
            sockets,
            ground,
        })
    }

    /// What the queue does, for the service manager.
    fn status(&self) -> String {
        let addresses: Vec<String> = self.ground.addresses.iter().map(SocketAddr::to_string).collect();
        format!("serving the transfer queue at {}", addresses.join(", "))
    }

    fn announce_stop(&self) {
        let status = "stopping the running copies";
        self.service_manager.stopping(status, STOP_TIME_MAX);
    }

    /// The scheme of the URLs of the queue.
    fn scheme(&self) -> &'static str {
        match self.certificate.tls.get() {
            Some(_) => "https",
            None => "http",
        }
    }

    fn door(
        &self,
        configuration: &Configuration,
        desk: Arc<Desk>,
        stores: Stores,
        addresses: &[SocketAddr],
        observer: Arc<Observer>,
    ) -> ControlDoor {
        let settings = door_queue::Settings {
            queue: desk,
            shown: shown(configuration, addresses),
            rights: state::rights(configuration),
            proxies: Some(stores.proxies),
            s3_keys: stores.s3_keys,
            webhooks: stores.webhooks,
        };
        door_queue::door(self.server(observer), settings)
    }

    /// Lets the door accept connections.
    fn accept(&self, door: &ControlDoor, listeners: Vec<TcpListener>) -> Result<(), Failure> {
        for (listener, address) in listeners.into_iter().zip(&self.ground.addresses) {
            let acceptor = Acceptor::new(listener).map_err(|cause| Failure::system("listening", &cause))?;
            let door = door.clone();
            tokio::spawn(async move { door.accept(acceptor).await });
            output::line(&format!("listening on {}://{address}", self.scheme()));
        }
        Ok(())
    }

    /// What the connections of a door share. Each call has a gate of its own.
    fn server(&self, observer: Arc<Observer>) -> Server {
        Server {
            tls: self.certificate.tls.get(),
            authenticator: self.ground.authenticator.clone(),
            fair_share: self.ground.fair_share.clone(),
            ..Server::new(PRODUCT, observer)
        }
    }

    /// Metrics and health, if an address for them is configured.
    fn open_admin_door(
        &self,
        configuration: &Configuration,
        state: &State,
        metrics: Arc<Metrics>,
        part: Arc<metrics::QueuePart>,
        observer: Arc<Observer>,
        threads: &ServerThreads,
    ) -> Result<(), Failure> {
        let Some(listener) = admin_listener(configuration, state.usual_admin, &self.sockets)? else {
            return Ok(());
        };
        let address = listener
            .local_addr()
            .map_err(|cause| Failure::system("listening", &cause))?;
        let acceptor = Acceptor::new(listener).map_err(|cause| Failure::system("listening", &cause))?;
        let tasks = threads.task_count();
        let (trust_files, log) = (self.trust_files.clone(), self.ground.log.clone());
        let (shown, fair_share) = (observer.clone(), self.ground.fair_share.clone());
        let all: Vec<Arc<dyn Part>> = vec![part, server::traces::part(observer.traces())];
        let recent = log.clone();
        recent.keep_recent();
        let admin = Arc::new(Admin {
            metrics,
            refusals: Refusals::default(),
            exports: Box::new(Vec::new),
            certificate_expiry_s: Box::new(self.certificate.expiry()),
            reload: Box::new(self.followed.last()),
            trust: Box::new(move || trust_files.facts()),
            log_lines_dropped: Box::new(move || log.dropped_in_all()),
            log_lines_about: Box::new(move |id| recent.about(id)),
            refresh: Box::new(move || shown.show_shares(&fair_share)),
            tasks: Box::new(move || tasks.now()),
            stopping: Box::new(|| false),
            part: Some(Arc::new(AdminParts(all))),
        });
        let log = Arc::new(AdminLog(observer));
        let door = door_admin::door(address.ip(), admin, PRODUCT.to_owned(), log);
        tokio::spawn(async move { door.accept(acceptor).await });
        output::line(&format!("admin on http://{address}"));
        Ok(())
    }
}

/// Where metrics and health are shown: at the configured address, else at the usual one if it is
/// free.
fn admin_listener(
    configuration: &Configuration,
    usual: Option<SocketAddr>,
    sockets: &Sockets,
) -> Result<Option<TcpListener>, Failure> {
    if let Some(address) = configuration.server.admin_listen {
        return sockets.listen(address).map(Some);
    }
    let Some(address) = usual else { return Ok(None) };
    if let Some(inherited) = sockets.take(address) {
        return Ok(Some(inherited));
    }
    let free = net::listen::listen(address).and_then(tokio::net::TcpListener::into_std);
    if let Err(cause) = &free {
        output::complain(&format!(
            "notice: no metrics: {address}: {cause}; --admin names another address"
        ));
    }
    Ok(free.ok())
}

/// The notice if clients cannot use TLS.
fn clear_text_notice(configuration: &Configuration) -> Option<String> {
    let is_for_tests = configuration.queue.anonymous;
    (configuration.server.certificate.is_none() && !is_for_tests).then(|| {
        "notice: clear text, as there is no certificate: give --cert and --key, or make \
         /etc/grid-security/hostcert.pem and hostkey.pem readable for this user"
            .to_owned()
    })
}

/// The warning if anyone in the network may order copies.
pub(crate) fn anonymous_warning(configuration: &Configuration) -> Option<String> {
    let mut listen = configuration.queue.listen.iter();
    let address = listen.find(|address| !address.ip().to_canonical().is_loopback())?;
    configuration.queue.anonymous.then(|| {
        format!(
            "warning: anonymous clients on {address}: anyone who reaches this address can order copies and cancel \
             those of other anonymous clients; listen on 127.0.0.1, or set a certificate and trust_directory"
        )
    })
}

/// The warning if no client can log in.
pub(crate) fn login_warning(configuration: &Configuration) -> Option<String> {
    let has_certificate = configuration.server.certificate.is_some();
    let takes_certificates = has_certificate && configuration.x509.trust_directory.is_some();
    let takes_tokens = !configuration.issuers.is_empty() || configuration.tokens.scitokens_file.is_some();
    (!configuration.queue.anonymous && !takes_certificates && !takes_tokens).then(|| {
        "warning: no client can log in; set server.certificate, server.key and x509.trust_directory (--cert, --key, \
         --trust-directory) for certificates, an [[issuer]] for tokens, or queue.anonymous (--anonymous) for tests"
            .to_owned()
    })
}

/// What the administrator should know at the start.
fn warnings(configuration: &Configuration) -> Vec<String> {
    let all = [clear_text_notice, anonymous_warning, login_warning, messages_warning];
    all.into_iter().filter_map(|warning| warning(configuration)).collect()
}

/// The warning if messages about all jobs are for everyone.
pub(crate) fn messages_warning(configuration: &Configuration) -> Option<String> {
    let own = &configuration.messages;
    let has_users = own.password_file.is_some() || !own.users.is_empty();
    (!own.listen.is_empty() && !has_users).then(|| {
        "warning: everyone may subscribe to the messages about the jobs of all users, with their names, URLs and data; \
         set password_file or users in [messages]"
            .to_owned()
    })
}

fn settings(configuration: &Configuration, hops: Vec<HopSite>) -> Settings {
    let queue = &configuration.queue;
    Settings {
        worker: state::worker_name(configuration),
        copies: queue.copies,
        storage_copies: queue.storage_copies,
        link_copies: queue.link_copies,
        link_copies_minimum: queue.link_copies_minimum,
        share_unit: match queue.shares_by {
            ShareCount::Slots => ShareUnit::SlotTime,
            ShareCount::Bytes => ShareUnit::Bytes,
        },
        retries: u16::try_from(queue.retries).unwrap_or(u16::MAX),
        retry_delay: queue.retry_delay,
        bounds: CopyBounds {
            time_max: Some(queue.copy_time_maximum),
            least_rate: (queue.copy_rate_minimum.0 > 0).then_some(LeastRate {
                bytes_s: queue.copy_rate_minimum.0,
                window: queue.copy_rate_window,
            }),
        },
        history: queue.history,
        lease: queue.lease,
        hops,
        roles: queue.storages.iter().map(role).collect(),
    }
}

/// The role of a storage, by its name.
fn role(storage: &QueueStorage) -> (String, ThirdPartyRole) {
    let role = match storage.third_party {
        CopyRole::Full => ThirdPartyRole::Full,
        CopyRole::Pull => ThirdPartyRole::Pull,
        CopyRole::Push => ThirdPartyRole::Push,
        CopyRole::None => ThirdPartyRole::None,
    };
    (storage.name.clone(), role)
}

fn tape_settings(configuration: &Configuration) -> TapeSettings {
    let queue = &configuration.queue;
    TapeSettings {
        pace: Pace::default(),
        retries: u16::try_from(queue.retries).unwrap_or(u16::MAX),
        retry_delay: queue.retry_delay,
    }
}

/// How clients name this host.
fn shown(configuration: &Configuration, addresses: &[SocketAddr]) -> door_queue::fts::answers::Shown {
    let named = configuration.server.name.clone();
    let address = named.unwrap_or_else(|| {
        let scheme = if configuration.server.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        let address = addresses.first().map_or_else(String::new, ToString::to_string);
        format!("{scheme}://{address}")
    });
    door_queue::fts::answers::Shown {
        host: state::host_name(),
        address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_for_everyone_are_warned_of() {
        let mut configuration = Configuration::defaults();
        let warns = |configuration: &Configuration| {
            let warnings = warnings(configuration);
            warnings
                .iter()
                .any(|warning| warning.contains("everyone may subscribe"))
        };
        configuration.messages.users = vec!["*".to_owned()];
        assert!(!warns(&configuration), "nothing listens");
        configuration.messages.listen = vec!["127.0.0.1:1".parse().unwrap()];
        assert!(!warns(&configuration));
        configuration.messages.users.clear();
        assert!(warns(&configuration));
        configuration.messages.password_file = Some("/passwords".into());
        assert!(!warns(&configuration));
    }

    #[test]
    fn anonymous_clients_on_a_public_address_are_warned_of() {
        let warns = |address: &str, anonymous: bool| {
            let mut configuration = Configuration::defaults();
            configuration.queue.listen = vec!["127.0.0.1:1".parse().unwrap(), address.parse().unwrap()];
            configuration.queue.anonymous = anonymous;
            anonymous_warning(&configuration).is_some()
        };
        assert!(warns("[::]:8446", true) && warns("192.0.2.1:8446", true));
        assert!(!warns("[::]:8446", false) && !warns("[::1]:8446", true) && !warns("127.0.0.2:8446", true));
    }

    #[test]
    fn a_queue_that_no_client_can_use_is_warned_of() {
        let mut configuration = Configuration::defaults();
        assert!(login_warning(&configuration).is_some());
        configuration.x509.trust_directory = Some("ca".into());
        assert!(login_warning(&configuration).is_some(), "certificates need TLS");
        configuration.server.certificate = Some("host.pem".into());
        assert!(login_warning(&configuration).is_none());
        configuration.x509.trust_directory = None;
        configuration.queue.anonymous = true;
        assert!(login_warning(&configuration).is_none());
    }
}
