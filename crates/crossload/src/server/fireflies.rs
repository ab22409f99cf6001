//! Tells networks by UDP which experiment and activity connections belong to: SciTags.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use config::Configuration;
use telemetry::{Event, FIREFLY_PORT, Fireflies, FireflyLine, FlowLabel, Marking, MarkingRule, Queue};

use super::receivers::{Kind, Sender};
use crate::limits::EVENTS_GATHER_TIME;

/// How long the thread waits for an event before it looks at the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Which flows the configuration marks.
pub(super) fn marking(configuration: &Configuration) -> Marking {
    let rules = configuration.flows.iter().filter_map(|rule| {
        let activity = u16::try_from(rule.activity).ok()?;
        Some(MarkingRule {
            organisation: rule.vo.clone(),
            path: rule
                .path
                .as_ref()
                .map(|path| path.as_str().trim_end_matches('/').to_owned()),
            label: FlowLabel::from_parts(rule.experiment.0, activity)?,
        })
    });
    Marking {
        rules: rules.collect(),
        excluded: configuration.scitags.excluded.clone(),
        labels_packets: configuration.scitags.label_packets,
    }
}

/// Fireflies that went to the other ends of connections, and those that could not be sent.
#[derive(Debug, Default)]
pub(super) struct ToPeers {
    pub(super) sent: AtomicU64,
    pub(super) failed: AtomicU64,
}

/// Sockets that send to any address of a family.
#[derive(Debug)]
struct PeerSockets {
    ipv4: Option<UdpSocket>,
    ipv6: Option<UdpSocket>,
}

impl PeerSockets {
    fn new() -> Self {
        let open = |any: IpAddr| {
            let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        };
        Self {
            ipv4: open(Ipv4Addr::UNSPECIFIED.into()),
            ipv6: open(Ipv6Addr::UNSPECIFIED.into()),
        }
    }

    fn send(&self, line: &FireflyLine) -> bool {
        let address = line.peer.ip().to_canonical();
        let socket = if address.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        let to = SocketAddr::new(address, FIREFLY_PORT);
        socket
            .as_ref()
            .is_some_and(|socket| socket.send_to(line.text.as_bytes(), to).is_ok())
    }
}

/// The thread that sends fireflies.
pub(super) struct FireflySender {
    pub(super) queue: Queue,
    pub(super) fireflies: Fireflies,
    pub(super) sender: Sender,
    /// Set if they also go to the other ends.
    pub(super) to_peers: Option<std::sync::Arc<ToPeers>>,
}

impl FireflySender {
    /// Sends until the server stops, or the hub is gone.
    pub(super) fn run(mut self, is_stopping: impl Fn() -> bool) {
        let peers = self.to_peers.is_some().then(PeerSockets::new);
        while !is_stopping() {
            let Ok(events) = self.queue.gather(LOOK_INTERVAL, EVENTS_GATHER_TIME) else {
                break;
            };
            let events: Vec<Event> = events.collect();
            for event in events {
                let lines = self.fireflies.event(&event, SystemTime::now());
                self.send(&lines, peers.as_ref());
            }
            let due = self.fireflies.due(SystemTime::now());
            self.send(&due, peers.as_ref());
        }
        while let Ok(Some(event)) = self.queue.next(Duration::ZERO) {
            let lines = self.fireflies.event(&event, SystemTime::now());
            self.send(&lines, peers.as_ref());
        }
        let last = self.fireflies.last(SystemTime::now());
        self.send(&last, peers.as_ref());
    }

    fn send(&mut self, lines: &[FireflyLine], peers: Option<&PeerSockets>) {
        for line in lines {
            self.sender.send(Kind::Fireflies, line.text.as_bytes());
            if let (Some(peers), Some(counts)) = (peers, &self.to_peers) {
                let counter = if peers.send(line) { &counts.sent } else { &counts.failed };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
