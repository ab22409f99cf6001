//! Flows as fireflies. It has no socket and no clock: events and the time come in, lines go out.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use monitoring_wire::{Firefly, FlowLabel, FlowState};

use crate::flow::{Connection, Flow};
use crate::hub::Event;
use crate::moment::time_of;

/// How long a connection may carry no payload before its flow has ended. A client that asks for one
/// file after the other makes a single flow.
const FLOW_IDLE_TIME: Duration = Duration::from_secs(2);
/// Interval at which flows are looked through for those that have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A firefly to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireflyLine {
    /// The datagram.
    pub text: String,
    /// The other end of the flow.
    pub peer: SocketAddr,
}

/// Turns flows into fireflies: one when a connection begins to carry payload of a label, one at
/// each interval while it goes on, and one when it has ended.
#[derive(Debug)]
pub struct Fireflies {
    host: String,
    interval: Duration,
    /// By the other end.
    going: HashMap<SocketAddr, Vec<Going>>,
    /// When flows were last looked through.
    looked: SystemTime,
    /// When those that go on were last told.
    told: SystemTime,
}

/// What a connection carries of one label in one direction, file after file.
#[derive(Debug)]
struct Going {
    label: FlowLabel,
    connection: Connection,
    began: SystemTime,
    /// Payload of files that have ended, in bytes.
    ended_bytes: u64,
    /// Those that have not ended.
    flows: Vec<Arc<Flow>>,
    /// When the last one ended, if there is none.
    idle_since: Option<SystemTime>,
    /// Whether the connection has ended.
    has_left: bool,
}

impl Going {
    fn new(flow: &Flow) -> Self {
        Self {
            label: flow.label,
            connection: flow.connection,
            began: flow.began,
            ended_bytes: 0,
            flows: Vec::new(),
            idle_since: None,
            has_left: false,
        }
    }

    fn is_of(&self, flow: &Flow) -> bool {
        self.label == flow.label && self.connection == flow.connection
    }

    fn begin(&mut self, flow: &Arc<Flow>) {
        self.idle_since = None;
        self.flows.push(flow.clone());
    }

    fn end(&mut self, flow: &Flow, now: SystemTime) {
        self.ended_bytes += flow.bytes();
        self.flows.retain(|other| other.number != flow.number);
        if self.flows.is_empty() {
            self.idle_since = Some(now);
        }
    }

    /// The connection has ended, and with it the flows of files that are still open: those of a
    /// session may stay open for long after one of its further connections.
    fn leave(&mut self, now: SystemTime) {
        self.has_left = true;
        let carried: Vec<Arc<Flow>> = self.flows.iter().filter(|flow| flow.is_booked_now()).cloned().collect();
        carried.iter().for_each(|flow| self.end(flow, now));
    }

    /// Takes the ends of flows whose events were dropped.
    fn settle(&mut self, now: SystemTime) {
        let is_to_book = |flow: &&Arc<Flow>| flow.has_ended() && flow.is_booked_now();
        let ended: Vec<Arc<Flow>> = self.flows.iter().filter(is_to_book).cloned().collect();
        ended.iter().for_each(|flow| self.end(flow, now));
    }

    /// Whether it has ended.
    fn is_over(&self, now: SystemTime) -> bool {
        self.idle_since.is_some_and(|since| {
            let idle = now.duration_since(since).unwrap_or_default();
            self.has_left || idle >= FLOW_IDLE_TIME
        })
    }

    fn bytes(&self) -> u64 {
        self.ended_bytes + self.flows.iter().map(|flow| flow.bytes()).sum::<u64>()
    }
}

impl Fireflies {
    /// Fireflies of the machine `host`; those of flows that go on after each `interval`.
    #[must_use]
    pub fn new(host: String, interval: Duration, now: SystemTime) -> Self {
        Self {
            host,
            interval,
            going: HashMap::new(),
            looked: now,
            told: now,
        }
    }

    /// Takes an event.
    #[must_use]
    pub fn event(&mut self, event: &Event, now: SystemTime) -> Vec<FireflyLine> {
        match event {
            Event::FlowBegan(flow) => {
                let (going, is_new) = self.of(flow);
                going.begin(flow);
                self.start(flow, is_new, now)
            }
            Event::FlowEnded(flow) if flow.is_booked_now() => {
                // The event of its begin may have been dropped; the flow knows everything.
                let (going, is_new) = self.of(flow);
                going.end(flow, now);
                let mut lines = self.start(flow, is_new, now);
                lines.extend(self.ends_of(flow.connection.peer, now));
                lines
            }
            Event::Left(peer) => {
                let going = self.going.get_mut(peer);
                going.into_iter().flatten().for_each(|one| one.leave(now));
                self.ends_of(*peer, now)
            }
            Event::FlowEnded(_) | Event::Opened(_) | Event::Closed(_) | Event::Copied(_) => Vec::new(),
        }
    }

    /// What goes on over the connection of a flow, and whether that is new.
    fn of(&mut self, flow: &Flow) -> (&mut Going, bool) {
        let all = self.going.entry(flow.connection.peer).or_default();
        let found = all.iter().position(|one| one.is_of(flow));
        let index = found.unwrap_or_else(|| {
            all.push(Going::new(flow));
            all.len() - 1
        });
        (&mut all[index], found.is_none())
    }

    fn start(&self, flow: &Flow, is_new: bool, now: SystemTime) -> Vec<FireflyLine> {
        let all = self.going.get(&flow.connection.peer).filter(|_| is_new);
        let one = all.and_then(|all| all.iter().find(|one| one.is_of(flow)));
        one.map(|one| self.line(one, now, FlowState::Start))
            .into_iter()
            .collect()
    }

    /// Removes the flows to this address that have ended, and returns their last fireflies.
    fn ends_of(&mut self, peer: SocketAddr, now: SystemTime) -> Vec<FireflyLine> {
        let Some(all) = self.going.get_mut(&peer) else {
            return Vec::new();
        };
        let ended: Vec<Going> = all.extract_if(.., |one| one.is_over(now)).collect();
        if all.is_empty() {
            self.going.remove(&peer);
        }
        let end = |one: &Going| self.line(one, one.idle_since.unwrap_or(now), FlowState::End);
        ended.iter().map(end).collect()
    }

    /// The fireflies of flows that have ended, and, if it is time for them, of those that go on.
    #[must_use]
    pub fn due(&mut self, now: SystemTime) -> Vec<FireflyLine> {
        let is_due =
            |last: SystemTime, interval| now < last || now.duration_since(last).is_ok_and(|since| since >= interval);
        if !is_due(self.looked, LOOK_INTERVAL) {
            return Vec::new();
        }
        self.looked = now;
        self.going.values_mut().flatten().for_each(|one| one.settle(now));
        let peers: Vec<SocketAddr> = self.going.keys().copied().collect();
        let mut lines: Vec<FireflyLine> = peers.into_iter().flat_map(|peer| self.ends_of(peer, now)).collect();
        if is_due(self.told, self.interval) {
            self.told = now;
            let others = self.going.values().flatten().filter(|one| one.idle_since.is_none());
            lines.extend(others.map(|one| self.line(one, now, FlowState::Ongoing)));
        }
        lines
    }

    /// The last fireflies of all flows, at the end of the server.
    #[must_use]
    pub fn last(&mut self, now: SystemTime) -> Vec<FireflyLine> {
        let going = std::mem::take(&mut self.going);
        let end = |one: &Going| self.line(one, one.idle_since.unwrap_or(now), FlowState::End);
        going.values().flatten().map(end).collect()
    }

    fn line(&self, one: &Going, now: SystemTime, state: FlowState) -> FireflyLine {
        let connection = one.connection;
        let (source, destination) = match connection.is_sent {
            true => (connection.local, connection.peer),
            false => (connection.peer, connection.local),
        };
        let now = time_of(now);
        let firefly = Firefly {
            label: one.label,
            source,
            destination,
            state,
            began: &time_of(one.began),
            now: &now,
            bytes: one.bytes(),
            application: connection.application,
            host: &self.host,
        };
        FireflyLine {
            text: firefly.to_line(),
            peer: connection.peer,
        }
    }
}
