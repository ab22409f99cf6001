//! Receivers of packets by UDP: what is sent to them, and why nothing can be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use door_admin::Check;
use serde_json::json;

use super::log::Log;

/// Names of receivers are looked up again after this time.
const LOOK_UP_INTERVAL: Duration = Duration::from_secs(300);

/// A receiver that failed is there again after this many packets in a row.
const GOOD_PACKETS: u32 = 3;
/// Time until the system has told of a refused packet.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// What a receiver gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Logins and files.
    Detail,
    /// Third-party copies.
    Copies,
    /// Counts of requests over HTTP.
    Http,
    /// Summaries of the server.
    Summary,
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
        let fault = self.fault().clone();
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

    fn fault(&self) -> MutexGuard<'_, Option<String>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A way to a receiver, of the thread that sends to it.
#[derive(Debug, Default)]
struct Way {
    socket: Option<UdpSocket>,
    looked_up: Option<Instant>,
    /// Packets that went out since the last one that did not.
    good: u32,
    failed: Option<Instant>,
}

impl Way {
    /// Whether the receiver is looked up anew.
    fn is_old(&self, now: Instant) -> bool {
        self.looked_up
            .is_none_or(|at| now.duration_since(at) > LOOK_UP_INTERVAL)
    }

    /// Counts a packet that could not be sent.
    fn fail(&mut self, now: Instant) {
        (self.good, self.failed) = (0, Some(now));
    }

    /// Counts a packet that went out. Whether the receiver is there again: the system tells of a
    /// refused packet when a later one is sent, and of that one only.
    fn is_back(&mut self, now: Instant) -> bool {
        self.good = self.good.saturating_add(1);
        let has_told = self.failed.is_none_or(|at| now.duration_since(at) >= REFUSAL_TIME);
        self.good >= GOOD_PACKETS && has_told
    }
}

/// What a thread needs to send. Each receiver belongs to one thread.
pub(super) struct Sender {
    receivers: Arc<Vec<Receiver>>,
    ways: Vec<Way>,
    log: Log,
}

impl Sender {
    /// Sends to these; names are looked up when the first packet goes out.
    pub(super) fn new(receivers: Arc<Vec<Receiver>>, log: Log) -> Self {
        Self {
            ways: receivers.iter().map(|_| Way::default()).collect(),
            receivers,
            log,
        }
    }

    /// Sends a packet to all receivers of its kind.
    pub(super) fn send(&mut self, kind: Kind, packet: &[u8]) {
        let now = Instant::now();
        let ways = self.receivers.iter().zip(&mut self.ways);
        for (receiver, way) in ways.filter(|(receiver, _)| receiver.kind == kind) {
            if way.is_old(now) {
                (way.looked_up, way.good) = (Some(now), 0);
                way.socket = match receiver.socket() {
                    Ok(socket) => Some(socket),
                    Err(cause) => {
                        way.fail(now);
                        failed(&self.log, receiver, &cause);
                        None
                    }
                };
            }
            let sent = way.socket.as_ref().map(|socket| socket.send(packet));
            receiver.count(matches!(sent, Some(Ok(_))));
            match sent {
                Some(Ok(_)) if way.is_back(now) => *receiver.fault() = None,
                Some(Err(cause)) => {
                    way.fail(now);
                    failed(&self.log, receiver, &cause);
                }
                Some(Ok(_)) | None => {}
            }
        }
    }
}

/// Keeps why nothing can be sent to a receiver, and logs that when it is new.
fn failed(log: &Log, receiver: &Receiver, cause: &std::io::Error) {
    let cause = cause.to_string();
    let known = receiver.fault().replace(cause.clone());
    if known.is_none() {
        let fields = json!({"destination": receiver.name, "cause": cause});
        log.write("monitoring_failed", &fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_back_after_packets_of_which_none_was_refused() {
        let (mut way, begin) = (Way::default(), Instant::now());
        way.fail(begin);
        let at = |seconds| begin + Duration::from_secs(seconds);
        // The system refuses each second one.
        for second in [1, 3, 5] {
            assert!(!way.is_back(at(second)));
            way.fail(at(second + 1));
        }
        // A burst comes before the answer to its first packet.
        assert!((0..9).all(|_| !way.is_back(at(6))));
        assert!(way.is_back(at(7)));
        way.fail(at(8));
        assert!(!way.is_back(at(10)) && !way.is_back(at(20)) && way.is_back(at(30)));
    }

    #[test]
    fn a_refusal_is_logged_once_and_concerns_the_thread_that_sends() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("log");
        let log = Log::to_file(&file);
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let receivers = Arc::new(vec![
            Receiver::new(&closed.to_string(), Kind::Detail),
            Receiver::new("nothing.invalid:1", Kind::Fireflies),
        ]);
        let mut senders = [(); 2].map(|()| Sender::new(receivers.clone(), log.clone()));
        for _ in 0..4 {
            senders[0].send(Kind::Detail, b"packet");
        }
        assert!(!receivers[0].check().ok, "it refuses each second packet");
        assert!(receivers[1].check().ok, "nothing was sent there");
        senders[1].send(Kind::Fireflies, b"packet");
        assert!(!receivers[0].check().ok && !receivers[1].check().ok);
        log.flush();
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(lines.matches("monitoring_failed").count(), 2, "{lines}");
    }
}
