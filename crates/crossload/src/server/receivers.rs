//! Receivers of packets by UDP: what is sent to them, and why nothing can be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use door_admin::Check;
use serde_json::json;

use super::log::Log;

/// Names of receivers are looked up again after this time.
const LOOK_UP_INTERVAL: Duration = Duration::from_secs(300);

/// What a receiver gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Logins and files.
    Detail,
    /// Third-party copies.
    Copies,
    /// Fireflies.
    Fireflies,
}

/// A receiver and what was sent to it.
#[derive(Debug)]
pub(super) struct Receiver {
    /// `host:port`.
    pub(super) name: String,
    kind: Kind,
    sent: AtomicU64,
    failed: AtomicU64,
    /// Why nothing can be sent to it.
    fault: Mutex<Option<String>>,
}

impl Receiver {
    /// A receiver of such packets.
    pub(super) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            fault: Mutex::default(),
        }
    }

    /// Packets that were sent to it, and those that could not be.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Whether packets can be sent to it. A server works without those who watch it.
    pub(super) fn check(&self) -> Check {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Check {
            name: format!("monitoring {}", self.name),
            ok: fault.is_none(),
            needed: false,
            says: match fault {
                None => "Packets are sent to it. UDP does not tell whether they arrive.".to_owned(),
                Some(cause) => format!("Nothing can be sent to it: {cause}."),
            },
        }
    }

    fn count(&self, sent: bool) {
        let counter = if sent { &self.sent } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A socket that sends to this receiver only. The system tells on it when no program listens
    /// there.
    fn socket(&self) -> std::io::Result<UdpSocket> {
        let mut found = self.name.to_socket_addrs()?;
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
    }
}

/// The sockets of a thread that sends.
pub(super) struct Sender {
    receivers: Arc<Vec<Receiver>>,
    sockets: Vec<Option<UdpSocket>>,
    looked_up: Option<Instant>,
    log: Log,
}

impl Sender {
    /// Sends to these; names are looked up when the first packet goes out.
    pub(super) fn new(receivers: Arc<Vec<Receiver>>, log: Log) -> Self {
        Self {
            receivers,
            sockets: Vec::new(),
            looked_up: None,
            log,
        }
    }

    /// Sends a packet to all receivers of its kind.
    pub(super) fn send(&mut self, kind: Kind, packet: &[u8]) {
        if self.looked_up.is_none_or(|at| at.elapsed() > LOOK_UP_INTERVAL) {
            self.looked_up = Some(Instant::now());
            self.sockets = self.receivers.iter().map(|one| self.socket(one)).collect();
        }
        let receivers = self.receivers.iter().zip(&self.sockets);
        for (receiver, socket) in receivers.filter(|(receiver, _)| receiver.kind == kind) {
            let sent = socket.as_ref().map(|socket| socket.send(packet));
            receiver.count(matches!(sent, Some(Ok(_))));
            if let Some(Err(cause)) = sent {
                self.note(receiver, Some(cause.to_string()));
            }
        }
    }

    fn socket(&self, receiver: &Receiver) -> Option<UdpSocket> {
        match receiver.socket() {
            Ok(socket) => {
                self.note(receiver, None);
                Some(socket)
            }
            Err(cause) => {
                self.note(receiver, Some(cause.to_string()));
                None
            }
        }
    }

    /// Keeps why nothing can be sent to a receiver, and logs that when it is new.
    fn note(&self, receiver: &Receiver, fault: Option<String>) {
        let mut known = receiver.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cause) = fault.as_ref().filter(|_| known.is_none()) {
            let fields = json!({"destination": receiver.name, "cause": cause});
            self.log.write("monitoring_failed", &fields);
        }
        *known = fault;
    }
}
