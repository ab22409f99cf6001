//! Flows as fireflies. It has no socket and no clock: events and the time come in, lines go out.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use monitoring_wire::{Firefly, FlowState};

use crate::flow::Flow;
use crate::hub::Event;
use crate::moment::time_of;

/// A firefly to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireflyLine {
    /// The datagram.
    pub text: String,
    /// The other end of the flow.
    pub peer: SocketAddr,
}

/// Turns flows into fireflies: one when a flow begins, one at each interval while it goes on, and
/// one when it has ended.
#[derive(Debug)]
pub struct Fireflies {
    host: String,
    interval: Duration,
    flows: HashMap<u64, Arc<Flow>>,
    told: SystemTime,
}

impl Fireflies {
    /// Fireflies of the machine `host`; those of flows that go on after each `interval`.
    #[must_use]
    pub fn new(host: String, interval: Duration, now: SystemTime) -> Self {
        Self {
            host,
            interval,
            flows: HashMap::new(),
            told: now,
        }
    }

    /// Takes an event.
    #[must_use]
    pub fn event(&mut self, event: &Event, now: SystemTime) -> Vec<FireflyLine> {
        match event {
            Event::FlowBegan(flow) => {
                self.flows.insert(flow.number, flow.clone());
                vec![self.line(flow, now, FlowState::Start)]
            }
            Event::FlowEnded(flow) => {
                // The event of its begin may have been dropped; the flow knows everything.
                let is_known = self.flows.remove(&flow.number).is_some();
                let begin = (!is_known).then(|| self.line(flow, now, FlowState::Start));
                let end = self.line(flow, now, FlowState::End);
                begin.into_iter().chain([end]).collect()
            }
            Event::Opened(_) | Event::Closed(_) | Event::Left(_) | Event::Copied(_) => Vec::new(),
        }
    }

    /// The fireflies of flows that go on, if it is time for them, and of those whose end was
    /// dropped.
    #[must_use]
    pub fn due(&mut self, now: SystemTime) -> Vec<FireflyLine> {
        let is_due = now.duration_since(self.told).is_ok_and(|since| since >= self.interval);
        if !is_due && now >= self.told {
            return Vec::new();
        }
        self.told = now;
        let flows = std::mem::take(&mut self.flows);
        let (ended, going): (HashMap<_, _>, HashMap<_, _>) = flows.into_iter().partition(|(_, flow)| flow.has_ended());
        self.flows = going;
        let ends = ended.values().map(|flow| self.line(flow, now, FlowState::End));
        let others = self.flows.values().map(|flow| self.line(flow, now, FlowState::Ongoing));
        ends.chain(others).collect()
    }

    /// The last fireflies of all flows, at the end of the server.
    #[must_use]
    pub fn last(&mut self, now: SystemTime) -> Vec<FireflyLine> {
        let flows = std::mem::take(&mut self.flows);
        flows
            .values()
            .map(|flow| self.line(flow, now, FlowState::End))
            .collect()
    }

    fn line(&self, flow: &Flow, now: SystemTime, state: FlowState) -> FireflyLine {
        let connection = flow.connection;
        let (source, destination) = match connection.is_sent {
            true => (connection.local, connection.peer),
            false => (connection.peer, connection.local),
        };
        let now = time_of(now);
        let firefly = Firefly {
            label: flow.label,
            source,
            destination,
            state,
            began: &time_of(flow.began),
            now: &now,
            bytes: flow.bytes(),
            application: connection.application,
            host: &self.host,
        };
        FireflyLine {
            text: firefly.to_line(),
            peer: connection.peer,
        }
    }
}
