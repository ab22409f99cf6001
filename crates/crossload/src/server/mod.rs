//! `crossload serve`: builds the server from its parts, prints where it listens, and runs it until
//! it is stopped.

mod accept;
pub(crate) mod admin_parts;
pub(crate) mod assemble;
pub(crate) mod broker_login;
pub(crate) mod broker_sink;
mod bus;
mod caches;
pub(crate) mod certificate;
mod certificate_list;
mod choices;
mod cluster_pages;
mod cms;
pub(crate) mod configured;
mod doors;
pub(crate) mod events;
#[cfg(test)]
mod every_key;
pub(crate) mod explained;
mod exported;
pub(crate) mod exposed;
mod fireflies;
mod http_stream;
pub(crate) mod identities;
pub(crate) mod log;
mod log_format;
mod logged;
mod monitoring;
pub(crate) mod node;
mod node_log;
mod node_tokens;
mod node_troubles;
pub(crate) mod offline;
pub(crate) mod other_side;
pub(crate) mod pages;
mod personal_names;
mod receivers;
mod recent_lines;
mod redirecting;
mod redirector_part;
mod reload;
pub(crate) mod rules;
pub(crate) mod secret;
pub(crate) mod service_manager;
mod serving;
mod shares;
mod shown_upstream;
pub(crate) mod signals;
mod space_report;
pub(crate) mod subsystem;
pub(crate) mod tokens;
pub(crate) mod traces;
pub(crate) mod trust_files;
mod unlisted;
mod upstream;
mod upstream_trial;
mod users;
mod waits;
pub(crate) mod watch;

pub(crate) use bus::{access as bus_access, subjects as bus_subjects, unusable as bus_unusable};
pub(crate) use redirecting::{bus_name, fixed_node, is_itself, leads_back};
pub(crate) use service_manager::report_failure;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
pub(crate) use upstream::UpstreamKey;

use config::{AllowedRights, Bytes, ClusterNode, Configuration, Export, Niceness, Sections as _, Sources};
use door_admin::{Admin, Metrics, Reload};
use door_web::RunningCopies;
use execution::{ServerThreads, TaskCount};
use net::listen::Acceptor;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use serde_json::json;

use crate::command_line::ServeOptions;
use crate::descriptors;
use crate::failure::Failure;
use crate::file_size::survive_file_size_limit;
use crate::output;
use crate::token::now_s;
use admin_parts::AdminParts;
use assemble::{Assembly, PRODUCT};
use doors::{Dispatchers, DoorSetup};
use events::{AdminLog, Observer};
use log::Log;
use monitoring::Monitoring;
use service_manager::{ServiceManager, Sockets};
use signals::Signals;
use subsystem::Subsystem;
use watch::Watch;

/// Time for the last tasks to clean up, after the grace time.
const LAST_TASKS_WAIT: Duration = Duration::from_secs(1);

/// Runs the server until it is stopped.
///
/// # Errors
/// Failures at the start: the configuration, a file, a directory, an address.
pub(crate) fn run(options: &ServeOptions) -> Result<(), Failure> {
    let sockets = Sockets::inherited()?;
    let configuration = configure(options)?;
    exposed::refuse(&configuration, options.config.as_deref())?;
    if let Some(warning) = write_warning(options, &configuration) {
        output::complain(&warning);
    }
    let log = Log::open(&configuration.log)?;
    prepare_process(&configuration, &log);
    let threads = start_threads(&configuration).map_err(|cause| Failure::system("cannot start threads", &cause))?;
    let outcome = threads.block_on(Server::start(options, configuration, &sockets, &log, &threads));
    let (result, wait) = match outcome {
        Ok((server, signals)) => (Ok(()), threads.block_on(server.serve(signals))),
        Err(failure) => (Err(failure), LAST_TASKS_WAIT),
    };
    threads.shut_down(wait);
    log.flush();
    result
}

/// What every server does first: no core dumps, panics in the log, as many descriptors as allowed.
pub(crate) fn prepare_process(configuration: &Configuration, log: &Log) {
    if !configuration.server.core_dumps {
        forbid_core_dumps(log);
    }
    log_panics(log.clone());
    if let Err((current, cause)) = descriptors::raise_limit() {
        let fields = json!({"current": current, "error": cause.to_string()});
        log.write("descriptor_limit", &fields);
    }
}

/// Keeps secrets in memory: no core dumps, and no debuggers of the same user. The limit does not
/// prevent dumps that the system pipes to a program; the second call does.
fn forbid_core_dumps(log: &Log) {
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let limited = setrlimit(Resource::Core, nothing);
    let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(cause) = limited.and(hidden) {
        log.write("core_dumps", &json!({"allowed": true, "error": cause.to_string()}));
    }
}

/// The warning if the command line lets the whole network write.
fn write_warning(options: &ServeOptions, configuration: &Configuration) -> Option<String> {
    let mut listen = configuration.server.listen.iter();
    let address = listen.find(|address| !address.ip().to_canonical().is_loopback())?;
    options.write.then(|| {
        format!(
            "warning: --write on {address}: anyone who reaches this address can write and delete files; listen on \
             127.0.0.1, or use a configuration file with rules"
        )
    })
}

pub(crate) fn start_threads(configuration: &Configuration) -> std::io::Result<ServerThreads> {
    let settings = &configuration.server;
    let niceness = match settings.bulk_niceness {
        Niceness::Steps(steps) => i32::from(steps),
        Niceness::Auto => execution::niceness::of_long_transfers(),
    };
    ServerThreads::start(
        settings.worker_threads as usize,
        settings.blocking_threads as usize,
        niceness,
    )
}

/// The configuration file or the defaults, overridden by the command line.
pub(crate) fn configure(options: &ServeOptions) -> Result<Configuration, Failure> {
    let (mut configuration, sources) = match &options.config {
        Some(file) => configured::load_with_sources(file)?,
        None => (Configuration::defaults(), Sources::of("defaults", "")),
    };
    if let Some(directory) = &options.directory {
        configuration.exports.push(Export {
            path: options.path.clone().unwrap_or_else(types::LogicalPath::root),
            directory: Some(directory.clone()),
            remote: None,
            remote_hosts: Vec::new(),
            remote_identity: config::UpstreamIdentity::Service,
            remote_token_file: None,
            remote_certificate: None,
            remote_key: None,
            remote_macaroon_secret_file: None,
            remote_page_checksums: true,
            s3: None,
            s3_access_key_id: None,
            s3_secret_key_file: None,
            s3_region: None,
            s3_addressing: None,
            anonymous: match options.write {
                true => policy::AnonymousAccess::Write,
                false => policy::AnonymousAccess::Read,
            },
            read_only: None,
            ceiling: AllowedRights::everything(),
            recursive_delete: options.write,
            locks: true,
            quota_bytes: Bytes(0),
            reserve_bytes: Bytes(types::limits::SPACE_RESERVE_BYTES),
            cache_directory: None,
            cache_size_bytes: Bytes(0),
            cache_revalidate_after: std::time::Duration::ZERO,
            cache_immutable: false,
            cache_prefetch_blocks: 0,
        });
    }
    if !options.listen.is_empty() {
        configuration.server.listen.clone_from(&options.listen);
    }
    if options.cert.is_some() {
        configuration.server.certificate.clone_from(&options.cert);
        configuration.server.key.clone_from(&options.key);
    }
    configuration.server.admin_listen = options.admin.or(configuration.server.admin_listen);
    configuration.tpc.allow_local_peers |= options.allow_local_peers;
    configuration.trust.ca_files.extend(options.cacert.iter().cloned());
    let nodes = options.nodes.iter().map(|url| ClusterNode::at(url));
    configuration.nodes.extend(nodes);
    if let Some(anonymous) = options.redirects_anyone {
        configuration.redirector.anonymous = anonymous;
    }
    if let (Some(path), false) = (&options.path, options.nodes.is_empty()) {
        configuration.redirector.path = path.clone();
    }
    for node in &configuration.nodes {
        let places = node.places().map_err(|words| Failure::invalid(&words))?;
        if redirecting::is_itself(&places.asked, &configuration) {
            let words = format!("the node {} is the redirector itself", node.url);
            return Err(Failure::invalid(&words));
        }
    }
    refuse_loops(&configuration)?;
    if configuration.exports.is_empty() && configuration.nodes.is_empty() {
        return Err(without_exports(options.config.as_deref(), &sources));
    }
    Ok(configuration)
}

/// A request for an export whose files this server has behind itself would never end.
fn refuse_loops(configuration: &Configuration) -> Result<(), Failure> {
    let mut exports = configuration.exports.iter();
    match exports.find(|export| redirecting::leads_back(export, configuration)) {
        None => Ok(()),
        Some(export) => {
            let words = format!("the export {}: remote is this server itself", export.path);
            Err(Failure::invalid(words))
        }
    }
}

fn without_exports(file: Option<&Path>, sources: &Sources) -> Failure {
    match file.filter(|_| sources.has_section("queue")) {
        Some(file) => Failure::invalid(format!(
            "no export: {0} is the file of a queue; start it with crossload queue serve --config {0}",
            file.display()
        )),
        None => Failure::invalid(
            "no export: add an [[export]] section with path and directory, or [[node]] sections to a redirector",
        ),
    }
}

/// Logs panics, which otherwise end only their own task.
fn log_panics(log: Log) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string);
        let payload = panic.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let words = text
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        log.write("panic", &json!({"place": place, "words": words}));
    }));
}

/// Seeds the random generator, which is slow, so that the first client need not wait for it.
pub(crate) fn gather_randomness() -> Result<(), Failure> {
    let none = || std::io::Error::other("the generator returned no bytes");
    aws_lc_rs::rand::fill(&mut [0; 16]).map_err(|_| Failure::system("no random numbers", &none()))
}

/// A running server.
struct Server {
    options: ServeOptions,
    configuration: Configuration,
    assembly: Arc<Assembly>,
    doors: Dispatchers,
    observer: Arc<Observer>,
    metrics: Arc<Metrics>,
    monitoring: Monitoring,
    tasks: TaskCount,
    log: Log,
    watch: Watch,
    stopping: Arc<AtomicBool>,
    /// How reloads went.
    reload_state: Arc<Mutex<Reload>>,
    service_manager: ServiceManager,
}

impl Server {
    async fn start(
        options: &ServeOptions,
        configuration: Configuration,
        sockets: &Sockets,
        log: &Log,
        threads: &ServerThreads,
    ) -> Result<(Self, Signals), Failure> {
        gather_randomness()?;
        survive_file_size_limit().map_err(|cause| Failure::system("cannot receive signals", &cause))?;
        let metrics = Arc::new(Metrics::new());
        let mut listeners = Vec::new();
        for address in &configuration.server.listen {
            listeners.push(sockets.listen(*address)?);
        }
        let addresses: Vec<SocketAddr> = listeners
            .iter()
            .filter_map(|listener| listener.local_addr().ok())
            .collect();
        let port = addresses.first().map_or(0, SocketAddr::port);
        let observer = Observer::exporting(log, &metrics, &configuration, "crossload")?;
        let monitoring = Monitoring::start(&configuration, port, log, observer.marking())?;
        let copies = configuration.web.listen.map(|_| RunningCopies::default());
        let observer = Arc::new(observer.with_telemetry(monitoring.hub()).with_copies(copies));
        let mut watch = Watch::default();
        options.config.iter().for_each(|file| watch.add_configuration(file));
        watch_named(&mut watch, &configuration);
        let assembly = Arc::new(Assembly::new(&configuration, addresses, log, observer.clone())?);
        monitoring.start_tasks(&assembly, &metrics);
        watch.take_made();
        let setup = DoorSetup {
            assembly: assembly.clone(),
            listeners,
            rota: threads.rota(),
        };
        tokio::spawn(assembly.trust_files.clone().keep());
        tokio::spawn(assembly.node.clone().keep());
        let mut server = Self {
            doors: Subsystem::build(&Arc::new(setup), &configuration)?,
            stopping: Arc::default(),
            reload_state: Arc::new(Mutex::new(Reload {
                fault: None,
                loaded_s: now_s(),
            })),
            options: options.clone(),
            configuration,
            assembly,
            observer,
            metrics,
            monitoring,
            tasks: threads.task_count(),
            service_manager: ServiceManager::new(log),
            log: log.clone(),
            watch,
        };
        let signals = Signals::receive()?;
        server.announce(sockets).await?;
        server.service_manager.feed_watchdog(&threads.rota());
        server.service_manager.ready(&server.status());
        Ok((server, signals))
    }

    /// Prints the server's addresses on standard output, for scripts.
    async fn announce(&mut self, sockets: &Sockets) -> Result<(), Failure> {
        let scheme = if self.configuration.server.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        for address in &self.assembly.ground.addresses {
            output::line(&format!("listening on {scheme}://{address}"));
        }
        let mut admin_address = None;
        if let Some(address) = self.configuration.server.admin_listen {
            let listener = sockets.listen(address)?;
            admin_address = listener.local_addr().ok();
            self.open_admin_door(listener)?;
        }
        let pages_address = self.open_pages(sockets)?;
        sockets.demand_none_left()?;
        if let Some(address) = admin_address {
            output::line(&format!("admin on http://{address}"));
        }
        if let Some(address) = pages_address {
            output::line(&format!("pages on {scheme}://{address}"));
        }
        let listening = &self.assembly.ground.addresses;
        self.log.write(
            "started",
            &json!({"version": env!("CARGO_PKG_VERSION"), "listen": listening, "admin": admin_address,
                "pages": pages_address, "exports": self.configuration.exports.len(),
                "configuration": self.configuration.read_from,
                "tls": self.configuration.server.certificate.is_some()}),
        );
        self.assembly.certificate.tell_expiry(&self.log);
        self.assembly.cms.start();
        self.assembly.bus.start()?;
        output::line("ready");
        Ok(())
    }

    /// What the server does, for the service manager.
    fn status(&self) -> String {
        let (exports, nodes) = (self.configuration.exports.len(), self.configuration.nodes.len());
        let work = match exports {
            0 => format!("redirecting clients to {}", output::counted(nodes as u64, "node")),
            _ => format!("serving {}", output::counted(exports as u64, "export")),
        };
        let addresses: Vec<String> = self
            .assembly
            .ground
            .addresses
            .iter()
            .map(SocketAddr::to_string)
            .collect();
        format!("{work} at {}", addresses.join(", "))
    }

    /// The address of the pages for operators, if there are any.
    fn open_pages(&self, sockets: &Sockets) -> Result<Option<SocketAddr>, Failure> {
        let Some(address) = self.configuration.web.listen else {
            return Ok(None);
        };
        let listener = sockets.listen(address)?;
        let address = listener.local_addr().ok();
        pages::open(listener, &self.assembly, self.admin())?;
        Ok(address)
    }

    /// What administrators ask about.
    fn admin(&self) -> Arc<Admin> {
        let (shown, expiry) = (self.assembly.exported.shown.clone(), self.assembly.certificate.expiry());
        let (stopping, reload_state) = (self.stopping.clone(), self.reload_state.clone());
        let (tasks, log, trust_files) = (self.tasks.clone(), self.log.clone(), self.assembly.trust_files.clone());
        let (observer, fair_share) = (self.observer.clone(), self.assembly.ground.fair_share.clone());
        Arc::new(Admin {
            metrics: self.metrics.clone(),
            refusals: self.assembly.refusals.clone(),
            exports: Box::new(move || shown.get()),
            certificate_expiry_s: Box::new(expiry),
            reload: Box::new(move || Some(reload_state.lock().unwrap_or_else(PoisonError::into_inner).clone())),
            trust: Box::new(move || trust_files.facts()),
            log_lines_dropped: Box::new(move || log.dropped_in_all()),
            log_lines_about: {
                let log = self.log.clone();
                log.keep_recent();
                Box::new(move |id| log.about(id))
            },
            refresh: Box::new(move || observer.show_shares(&fair_share)),
            tasks: Box::new(move || tasks.now()),
            stopping: Box::new(move || stopping.load(Ordering::Relaxed)),
            part: Some(Arc::new(AdminParts(vec![
                self.assembly.node.part(),
                self.assembly.cms.part(),
                self.assembly.bus.part(),
                self.assembly.exported.part(),
                self.assembly.exported.caches_part(),
                self.assembly.exported.upstream_part(),
                self.assembly.exported.trials_part(),
                self.monitoring.part(),
                traces::part(self.observer.traces()),
            ]))),
        })
    }

    fn open_admin_door(&self, listener: TcpListener) -> Result<(), Failure> {
        let system = |cause: std::io::Error| Failure::system("listening", &cause);
        let address = listener.local_addr().map_err(system)?;
        let listener = Acceptor::new(listener).map_err(system)?;
        let log = Arc::new(AdminLog(self.observer.clone()));
        let door = door_admin::door(address.ip(), self.admin(), PRODUCT.to_owned(), log);
        // It stays open while the others close, and says that the server is stopping.
        tokio::spawn(async move { door.accept(listener).await });
        Ok(())
    }
}

pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    net::listen::listen(address)
        .and_then(tokio::net::TcpListener::into_std)
        .map_err(|cause| {
            let why = match cause.kind() {
                ErrorKind::AddrInUse => ": another program uses it (`ss -ltnp` shows which)",
                ErrorKind::AddrNotAvailable => ": this machine does not have this address",
                _ => "",
            };
            Failure::system(format!("cannot listen on {address}{why}"), &cause)
        })
}

/// Watches all files whose change needs a reload.
pub(crate) fn watch_named(watch: &mut Watch, configuration: &Configuration) {
    let files = configuration.files().into_iter();
    files
        .filter(|file| file.purpose.is_watched())
        .for_each(|file| watch.add(file.path));
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeOptions,
    }

    #[test]
    fn the_file_of_a_queue_is_known_as_one() {
        let told = |text: &str| without_exports(Some(Path::new("q.toml")), &Sources::of("q.toml", text)).words;
        let queue = told("[queue]\n");
        assert!(queue.contains("crossload queue serve --config q.toml"), "{queue}");
        assert!(!told("[server]\n").contains("queue serve"));
    }

    #[test]
    fn write_on_a_public_address_warns() {
        let warning = |words: &[&str]| {
            let line = Line::parse_from([&["serve", "/tmp"], words].concat());
            write_warning(&line.serve, &configure(&line.serve).unwrap())
        };
        for address in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80", "[::ffff:192.0.2.1]:80"] {
            let words = warning(&["--write", "--listen", address]).expect("a warning");
            assert!(words.contains(address) && words.contains("--write"), "{words}");
            assert_eq!(warning(&["--listen", address]), None, "read-only");
        }
        for address in ["127.0.0.1:8080", "[::1]:0", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(warning(&["--write", "--listen", address]), None, "{address}");
        }
        assert_eq!(warning(&["--write"]), None);
        let both = ["--write", "--listen", "127.0.0.1:1", "--listen", "0.0.0.0:1"];
        assert!(warning(&both).is_some());
    }
}
