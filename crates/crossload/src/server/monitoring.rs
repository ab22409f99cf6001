//! Tells receivers by UDP which files are used: XRootD's monitoring.
//!
//! A thread takes the events from its queue, makes packets of them and sends them. Doors never wait
//! for it: what its queue does not take is dropped and counted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::Configuration;
use door_admin::{Check, Part, PartFuture};
use endpoint::clock;
use monitoring_wire::Server;
use net::random::random;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::json;
use telemetry::{Datagram, Hub, Queue, Reporter, Wishes};

use super::admin_parts::encoded;
use super::log::Log;
use crate::failure::Failure;
use crate::limits::{EVENTS_QUEUED_MAX, LAST_PACKETS_WAIT};

/// How long the thread waits for an event before it looks at the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Names of receivers are looked up again after this time.
const LOOK_UP_INTERVAL: Duration = Duration::from_secs(300);
/// The name of the sink in metrics.
const SINK: &str = "xrootd";

/// Seconds since 1970.
fn now_s() -> u64 {
    u64::try_from(clock::now_s()).unwrap_or(0)
}

/// What a receiver gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Logins and files.
    Detail,
    /// Third-party copies.
    Copies,
}

/// A receiver and what was sent to it.
#[derive(Debug)]
struct Destination {
    /// `host:port`.
    name: String,
    kind: Kind,
    sent: AtomicU64,
    failed: AtomicU64,
    /// Why nothing can be sent to it.
    fault: Mutex<Option<String>>,
}

/// What the thread shares with those who ask about it.
#[derive(Debug)]
struct Shared {
    destinations: Vec<Destination>,
    hub: Hub,
    is_stopping: AtomicBool,
    /// Hears when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// The monitoring of a server; without receivers it does nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Monitoring(Option<Arc<Shared>>);

impl Monitoring {
    /// Starts the thread, if there are receivers. `port` is where clients reach this server.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(configuration: &Configuration, port: u16, log: &Log) -> Result<Self, Failure> {
        let wanted = &configuration.monitoring;
        if !wanted.is_on() {
            return Ok(Self::default());
        }
        let (hub, [queue]) = Hub::new([(SINK, EVENTS_QUEUED_MAX)]);
        let destination = |kind| {
            move |name: &String| Destination {
                name: name.clone(),
                kind,
                sent: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                fault: Mutex::default(),
            }
        };
        let detail = wanted.destinations.iter().map(destination(Kind::Detail));
        let (end, ended) = sync_channel(1);
        let shared = Arc::new(Shared {
            destinations: detail
                .chain(wanted.copy_destinations.iter().map(destination(Kind::Copies)))
                .collect(),
            hub,
            is_stopping: AtomicBool::new(false),
            ended: Mutex::new(ended),
        });
        let reporter = Reporter::new(server(wanted, port), wishes(wanted), now_s());
        let sender = Sender::new(shared.clone(), log.clone());
        execution::start_thread("monitoring", move || run(&queue, reporter, sender, &end))
            .map_err(|cause| Failure::system("cannot start a thread for monitoring", &cause))?;
        Ok(Self(Some(shared)))
    }

    /// Where doors tell which files are used.
    pub(crate) fn hub(&self) -> Hub {
        self.0.as_ref().map(|shared| shared.hub.clone()).unwrap_or_default()
    }

    /// Sends what is left. It waits for that, but not for long.
    pub(crate) fn stop(&self) {
        if let Some(shared) = &self.0 {
            shared.is_stopping.store(true, Ordering::Release);
            let ended = shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(LAST_PACKETS_WAIT);
        }
    }

    /// What metrics and checks ask.
    pub(crate) fn part(&self) -> Arc<dyn Part> {
        Arc::new(MonitoringPart(self.clone()))
    }
}

fn server(wanted: &config::Monitoring, port: u16) -> Server {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let [_, _, id @ ..] = random::<8>();
    Server {
        id: id.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        pid: std::process::id(),
        user: "crossload".to_owned(),
        site: wanted.site.clone().unwrap_or_else(|| host.clone()),
        host,
        port,
        instance: "anon".to_owned(),
        program: "crossload".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn wishes(wanted: &config::Monitoring) -> Wishes {
    Wishes {
        personal_names: wanted.personal_names,
        flush_s: wanted.flush_interval.as_secs(),
        progress_s: wanted.progress_interval.as_secs(),
        identity_s: wanted.identity_interval.as_secs(),
    }
}

fn run(queue: &Queue, mut reporter: Reporter, mut sender: Sender, end: &SyncSender<()>) {
    while !sender.shared.is_stopping.load(Ordering::Acquire) {
        match queue.next(LOOK_INTERVAL) {
            Ok(Some(event)) => reporter.event(&event, now_s()),
            Ok(None) => {}
            Err(_) => break,
        }
        sender.send(&reporter.datagrams(now_s()));
    }
    while let Ok(Some(event)) = queue.next(Duration::ZERO) {
        reporter.event(&event, now_s());
    }
    sender.send(&reporter.last(now_s()));
    let _ = end.try_send(());
}

/// The sockets of the thread.
struct Sender {
    shared: Arc<Shared>,
    sockets: Vec<Option<UdpSocket>>,
    looked_up: Option<Instant>,
    log: Log,
}

impl Sender {
    fn new(shared: Arc<Shared>, log: Log) -> Self {
        Self {
            sockets: Vec::new(),
            looked_up: None,
            shared,
            log,
        }
    }

    fn send(&mut self, datagrams: &[Datagram]) {
        if datagrams.is_empty() {
            return;
        }
        if self.looked_up.is_none_or(|at| at.elapsed() > LOOK_UP_INTERVAL) {
            self.looked_up = Some(Instant::now());
            self.sockets = self.shared.destinations.iter().map(|one| self.socket(one)).collect();
        }
        for datagram in datagrams {
            let (kind, packet) = match datagram {
                Datagram::Detail(packet) => (Kind::Detail, packet),
                Datagram::Copies(packet) => (Kind::Copies, packet),
            };
            let receivers = self.shared.destinations.iter().zip(&self.sockets);
            for (destination, socket) in receivers.filter(|(destination, _)| destination.kind == kind) {
                let sent = socket.as_ref().map(|socket| socket.send(packet));
                match sent {
                    Some(Ok(_)) => {
                        destination.sent.fetch_add(1, Ordering::Relaxed);
                    }
                    Some(Err(cause)) => {
                        destination.failed.fetch_add(1, Ordering::Relaxed);
                        self.note(destination, Some(cause.to_string()));
                    }
                    None => {
                        destination.failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// A socket that sends to this receiver only. The system tells on it when no program listens
    /// there.
    fn socket(&self, destination: &Destination) -> Option<UdpSocket> {
        let opened = destination.name.to_socket_addrs().and_then(|mut found| {
            let address = found
                .next()
                .ok_or_else(|| std::io::Error::other("the name has no address"))?;
            let any = match address.ip() {
                IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            };
            let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
            socket.connect(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                self.note(destination, None);
                Some(socket)
            }
            Err(cause) => {
                self.note(destination, Some(cause.to_string()));
                None
            }
        }
    }

    /// Keeps why nothing can be sent to a receiver, and logs that when it is new.
    fn note(&self, destination: &Destination, fault: Option<String>) {
        let mut known = destination.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cause) = fault.as_ref().filter(|_| known.is_none()) {
            let fields = json!({"destination": destination.name, "cause": cause});
            self.log.write("monitoring_failed", &fields);
        }
        *known = fault;
    }
}

struct MonitoringPart(Monitoring);

impl Part for MonitoringPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { self.0.0.as_deref().map(text).unwrap_or_default() })
    }

    /// A server works without those who watch it.
    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async {
            let destinations = self.0.0.iter().flat_map(|shared| &shared.destinations);
            destinations.map(check).collect()
        })
    }
}

fn check(destination: &Destination) -> Check {
    let fault = destination.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Check {
        name: format!("monitoring {}", destination.name),
        ok: fault.is_none(),
        needed: false,
        says: match fault {
            None => "Packets are sent to it. UDP does not tell whether they arrive.".to_owned(),
            Some(cause) => format!("Nothing can be sent to it: {cause}."),
        },
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DestinationLabels {
    destination: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SinkLabels {
    sink: &'static str,
}

fn text(shared: &Shared) -> String {
    let sent = Family::<DestinationLabels, Counter>::default();
    let failed = Family::<DestinationLabels, Counter>::default();
    for one in &shared.destinations {
        let labels = DestinationLabels {
            destination: one.name.clone(),
        };
        sent.get_or_create(&labels).inc_by(one.sent.load(Ordering::Relaxed));
        failed.get_or_create(&labels).inc_by(one.failed.load(Ordering::Relaxed));
    }
    let dropped = Family::<SinkLabels, Counter>::default();
    for (sink, count) in shared.hub.dropped() {
        dropped.get_or_create(&SinkLabels { sink }).inc_by(count);
    }
    let mut registry = Registry::with_prefix("crossload_monitoring");
    registry.register("packets", "Packets of monitoring that were sent", sent);
    let help = "Packets of monitoring that could not be sent";
    registry.register("packets_failed", help, failed);
    let help = "Events that the queue of a sink did not take";
    registry.register("events_dropped", help, dropped);
    encoded(&registry)
}
