//! Tells receivers which files are used: XRootD's monitoring by UDP and through a broker, and
//! SciTags.
//!
//! A thread of each takes the events from its queue, makes packets of them and sends them. Doors
//! never wait for it: what its queue does not take is dropped and counted.

mod summary;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Ends, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use config::Configuration;
use door_admin::{Check, Metrics, Part, PartFuture};
use endpoint::clock;
use monitoring_wire::Server;
use net::random::random;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use telemetry::{Datagram, FIREFLY_PORT, Fireflies, Hears, Hub, Queue, Reporter, SharedMarking, Sink, Wishes};

use super::admin_parts::encoded;
use super::assemble::Assembly;
use super::broker_sink::{BrokerFigures, BrokerSink, SpoolWriter};
use super::fireflies::{FireflySender, ToPeers};
use super::http_stream::HttpStream;
use super::log::Log;
use super::receivers::{Kind, Receiver, Sender};
use crate::failure::Failure;
use crate::limits::{EVENTS_GATHER_TIME, EVENTS_QUEUED_MAX, LAST_PACKETS_LOOK, LAST_PACKETS_WAIT};
use summary::SummaryStream;

/// How long the thread waits for an event before it looks at the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// The names of the sinks in metrics.
const XROOTD_SINK: Sink = Sink {
    name: "xrootd",
    events_max: EVENTS_QUEUED_MAX,
    hears: Hears::Files,
};
const BROKER_SINK: Sink = Sink {
    name: "broker",
    events_max: EVENTS_QUEUED_MAX,
    hears: Hears::Files,
};
const SCITAGS_SINK: Sink = Sink {
    name: "scitags",
    events_max: EVENTS_QUEUED_MAX,
    hears: Hears::Flows,
};

/// Seconds since 1970.
fn now_s() -> u64 {
    u64::try_from(clock::now_s()).unwrap_or(0)
}

/// What the threads share with those who ask about them.
#[derive(Debug)]
struct Shared {
    receivers: Arc<Vec<Receiver>>,
    to_peers: Option<Arc<ToPeers>>,
    broker: Option<Arc<BrokerSink>>,
    hub: Hub,
    server: Server,
    started_s: u64,
    /// How often summaries are sent; `None`: they have no receivers.
    summary_interval: Option<Duration>,
    is_stopping: AtomicBool,
    /// Hears when a thread has ended.
    ended: Mutex<Ends<()>>,
    threads: usize,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

/// The monitoring of a server; without receivers it does nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Monitoring(Option<Arc<Shared>>);

impl Monitoring {
    /// Starts a thread for each sink that has receivers. `port` is where clients reach this server;
    /// `marking` decides which flows are marked. Packets for a broker are kept, and no summaries
    /// are sent, until [`Monitoring::start_tasks`].
    ///
    /// # Errors
    /// The system gives no thread, or the spool or a file with credentials cannot be used.
    pub(crate) fn start(
        configuration: &Configuration,
        port: u16,
        log: &Log,
        marking: SharedMarking,
    ) -> Result<Self, Failure> {
        let (wanted, scitags) = (&configuration.monitoring, &configuration.scitags);
        let broker = BrokerSink::open(configuration, port, log)?;
        let sinks = [
            wanted.is_on().then_some(XROOTD_SINK),
            broker.is_some().then_some(BROKER_SINK),
            scitags.is_on().then_some(SCITAGS_SINK),
        ];
        let sinks: Vec<Sink> = sinks.into_iter().flatten().collect();
        let summary_interval = (!wanted.summary_destinations.is_empty()).then_some(wanted.summary_interval);
        let (hub, queues) = match (sinks.is_empty(), summary_interval) {
            (true, None) => return Ok(Self::default()),
            (true, Some(_)) => (Hub::default(), Vec::new()),
            (false, _) => Hub::new(&sinks, marking),
        };
        let (end, ended) = sync_channel(sinks.len());
        let shared = Arc::new(Shared {
            receivers: Arc::new(receivers(configuration)),
            to_peers: scitags.to_peers.then(Arc::default),
            broker,
            hub,
            server: server(wanted, port),
            started_s: now_s(),
            summary_interval,
            is_stopping: AtomicBool::new(false),
            ended: Mutex::new(ended),
            threads: sinks.len(),
        });
        let server = &shared.server;
        for (sink, queue) in sinks.iter().zip(queues) {
            let sender = || Sender::new(shared.receivers.clone(), log.clone());
            let reporter = || Reporter::new(server.clone(), wishes(wanted), now_s());
            let http = || {
                let stream = || HttpStream::new(server.clone(), shared.hub.clone(), wishes(wanted), now_s());
                (!wanted.http_destinations.is_empty()).then(|| Box::new(stream()))
            };
            let end = end.clone();
            let started = match (sink.hears, &shared.broker) {
                (Hears::Files, Some(broker)) if sink.name == BROKER_SINK.name => {
                    let outlet = Outlet::Broker(SpoolWriter::new(broker.clone()));
                    start_reporter(queue, reporter(), outlet, shared.clone(), end)
                }
                (Hears::Files, _) => {
                    start_reporter(queue, reporter(), Outlet::Udp(sender(), http()), shared.clone(), end)
                }
                (Hears::Flows, _) => {
                    let fireflies = Fireflies::new(server.host.clone(), scitags.ongoing_interval, SystemTime::now());
                    let sender = FireflySender {
                        queue,
                        fireflies,
                        sender: sender(),
                        to_peers: shared.to_peers.clone(),
                    };
                    start_fireflies(sender, shared.clone(), end)
                }
            };
            started.map_err(|cause| Failure::system("cannot start a thread for monitoring", &cause))?;
        }
        Ok(Self(Some(shared)))
    }

    /// Sends to the broker, if there is one, what waits for it and what comes; and summaries, if
    /// they have receivers.
    pub(crate) fn start_tasks(&self, assembly: &Assembly, metrics: &Arc<Metrics>) {
        let Some(shared) = self.0.clone() else { return };
        if let Some(broker) = shared.broker.clone() {
            tokio::spawn(broker.run(assembly.ground.trust.clone()));
        }
        if let Some(interval) = shared.summary_interval {
            let stream = SummaryStream {
                server: shared.server.clone(),
                started_s: shared.started_s,
                interval,
                metrics: metrics.clone(),
                exports: assembly.exported.shown.clone(),
                sender: Sender::new(shared.receivers.clone(), assembly.ground.log.clone()),
            };
            tokio::spawn(stream.run(move || shared.is_stopping()));
        }
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
            for _ in 0..shared.threads {
                let _ = ended.recv_timeout(LAST_PACKETS_WAIT);
            }
            // What a broker has not confirmed then is sent after the next start.
            let late = Instant::now() + LAST_PACKETS_WAIT;
            while shared.broker.as_ref().is_some_and(|broker| broker.is_waiting()) && Instant::now() < late {
                std::thread::sleep(LAST_PACKETS_LOOK);
            }
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

fn receivers(configuration: &Configuration) -> Vec<Receiver> {
    let (wanted, scitags) = (&configuration.monitoring, &configuration.scitags);
    let lists = [
        (&wanted.destinations, Kind::Detail),
        (&wanted.copy_destinations, Kind::Copies),
        (&wanted.http_destinations, Kind::Http),
        (&wanted.summary_destinations, Kind::Summary),
        (&scitags.destinations, Kind::Fireflies),
    ];
    let each = lists
        .into_iter()
        .flat_map(|(names, kind)| names.iter().map(move |name| Receiver::new(name, kind)));
    each.collect()
}

/// Where the packets of a reporter go.
enum Outlet {
    Udp(Sender, Option<Box<HttpStream>>),
    Broker(SpoolWriter),
}

impl Outlet {
    fn send(&mut self, datagrams: &[Datagram]) {
        self.send_with(datagrams, HttpStream::due);
    }

    /// Sends what is left when the server stops.
    fn send_last(&mut self, datagrams: &[Datagram]) {
        self.send_with(datagrams, HttpStream::last);
    }

    fn send_with(&mut self, datagrams: &[Datagram], counts: fn(&mut HttpStream, u64) -> Vec<Vec<u8>>) {
        match self {
            Self::Udp(sender, http) => {
                for datagram in datagrams {
                    match datagram {
                        Datagram::Detail(packet) => sender.send(Kind::Detail, packet),
                        Datagram::Copies(packet) => sender.send(Kind::Copies, packet),
                    }
                }
                let packets = http.as_mut().map(|http| counts(http, now_s())).unwrap_or_default();
                packets.iter().for_each(|packet| sender.send(Kind::Http, packet));
            }
            Self::Broker(writer) => {
                writer.store(datagrams.iter().map(|datagram| match datagram {
                    Datagram::Detail(packet) | Datagram::Copies(packet) => packet.as_slice(),
                }));
                writer.sync();
            }
        }
    }
}

fn start_reporter(
    queue: Queue,
    reporter: Reporter,
    outlet: Outlet,
    shared: Arc<Shared>,
    end: SyncSender<()>,
) -> std::io::Result<()> {
    execution::start_thread("monitoring", move || {
        run(&queue, reporter, outlet, &shared);
        let _ = end.try_send(());
    })
}

fn start_fireflies(sender: FireflySender, shared: Arc<Shared>, end: SyncSender<()>) -> std::io::Result<()> {
    execution::start_thread("scitags", move || {
        sender.run(|| shared.is_stopping());
        let _ = end.try_send(());
    })
}

fn run(queue: &Queue, mut reporter: Reporter, mut outlet: Outlet, shared: &Shared) {
    while !shared.is_stopping() {
        let Ok(events) = queue.gather(LOOK_INTERVAL, EVENTS_GATHER_TIME) else {
            break;
        };
        for event in events {
            reporter.event(&event, now_s());
            outlet.send(&reporter.datagrams(now_s()));
        }
        outlet.send(&reporter.datagrams(now_s()));
    }
    while let Ok(Some(event)) = queue.next(Duration::ZERO) {
        reporter.event(&event, now_s());
    }
    outlet.send_last(&reporter.last(now_s()));
}

struct MonitoringPart(Monitoring);

impl Part for MonitoringPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { self.0.0.as_deref().map(text).unwrap_or_default() })
    }

    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async {
            let shared = self.0.0.iter();
            let receivers = shared.clone().flat_map(|shared| shared.receivers.iter());
            let brokers = shared.filter_map(|shared| shared.broker.as_ref());
            let checks = receivers.map(Receiver::check);
            checks.chain(brokers.map(|broker| broker.check())).collect()
        })
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
    let count = |destination: String, counts: (u64, u64)| {
        let labels = DestinationLabels { destination };
        sent.get_or_create(&labels).inc_by(counts.0);
        failed.get_or_create(&labels).inc_by(counts.1);
    };
    for one in shared.receivers.iter() {
        count(one.name.clone(), one.counts());
    }
    if let Some(peers) = &shared.to_peers {
        let counts = [&peers.sent, &peers.failed].map(|count| count.load(Ordering::Relaxed));
        count(format!("peers:{FIREFLY_PORT}"), counts.into());
    }
    let broker = shared.broker.as_ref().map(|broker| broker.figures());
    if let Some(figures) = &broker {
        count(figures.destination.clone(), (figures.sent, figures.lost));
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
    if let Some(figures) = broker {
        register_broker(&mut registry, &figures);
    }
    encoded(&registry)
}

fn register_broker(registry: &mut Registry, figures: &BrokerFigures) {
    let mut register = |name: &str, help: &str, value: u64| {
        let gauge = Family::<DestinationLabels, Gauge>::default();
        let destination = figures.destination.clone();
        let labels = DestinationLabels { destination };
        gauge
            .get_or_create(&labels)
            .set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    };
    register("broker_up", "1 while the broker confirms packets", figures.is_up.into());
    register(
        "spool_bytes",
        "Packets that the broker has not confirmed",
        figures.waiting_bytes,
    );
    register(
        "spool_limit_bytes",
        "Above it, the oldest packets are dropped",
        figures.limit_bytes,
    );
}
