//! Flows of payload over connections, and what they belong to (SciTags).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::SystemTime;

use credentials::AddressRange;
use monitoring_wire::FlowLabel;

use crate::hub::{Event, Hub};

/// Flows of one file over further connections. Payload over more, which a client binds one after
/// the other, counts for the session's own.
const FURTHER_FLOWS_MAX: usize = 64;

/// The two addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Our address.
    pub local: SocketAddr,
    /// The other end's.
    pub peer: SocketAddr,
}

/// A connection that carries the payload of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Our address.
    pub local: SocketAddr,
    /// The other end's.
    pub peer: SocketAddr,
    /// Whether we send the payload; otherwise we receive it.
    pub is_sent: bool,
    /// The name of the protocol: `http-get`, `http-put` or `xroot`.
    pub application: &'static str,
}

/// A flow of payload over a connection, which began and may have ended.
#[derive(Debug)]
pub struct Flow {
    /// Its number among the flows of this process.
    pub number: u64,
    /// What it belongs to.
    pub label: FlowLabel,
    /// Where it goes.
    pub connection: Connection,
    /// When it began.
    pub began: SystemTime,
    bytes: AtomicU64,
    has_ended: AtomicBool,
    is_booked: AtomicBool,
}

impl Flow {
    pub(crate) fn new(number: u64, label: FlowLabel, connection: Connection) -> Self {
        Self {
            number,
            label,
            connection,
            began: SystemTime::now(),
            bytes: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            is_booked: AtomicBool::new(false),
        }
    }

    /// Payload until now, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Whether its end is to be booked now: true once. The event of an end may come after the end
    /// was seen here.
    pub(crate) fn is_booked_now(&self) -> bool {
        !self.is_booked.swap(true, Ordering::Relaxed)
    }
}

/// A flow, as its owner holds it; an unmarked one holds nothing. Dropping it ends it.
#[derive(Debug, Default)]
pub struct Flowing(Option<(Arc<Flow>, Hub)>);

impl Flowing {
    pub(crate) fn new(flow: Arc<Flow>, hub: Hub) -> Self {
        Self(Some((flow, hub)))
    }

    /// Counts payload, in bytes.
    pub fn add(&self, bytes: u64) {
        if let Some((flow, _)) = &self.0 {
            flow.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Flowing {
    fn drop(&mut self) {
        if let Some((flow, hub)) = self.0.take() {
            flow.has_ended.store(true, Ordering::Release);
            hub.tell(&Event::FlowEnded(flow));
        }
    }
}

/// The label of a copy's flows, and who hears of them; unmarked ones are heard by no sink.
#[derive(Clone, Debug, Default)]
pub struct Marked(Option<(FlowLabel, Hub)>);

impl Marked {
    pub(crate) fn new(label: FlowLabel, hub: Hub) -> Self {
        Self(Some((label, hub)))
    }

    /// The label for packets over IPv6, and the networks to which they have none; `None`: they have
    /// none at all.
    #[must_use]
    pub fn of_packets(&self) -> Option<(FlowLabel, Vec<AddressRange>)> {
        let (label, hub) = self.0.as_ref()?;
        Some((*label, hub.networks_without_labels()?))
    }

    /// A connection begins to carry payload of it.
    #[must_use]
    pub fn begin(&self, connection: Connection) -> Flowing {
        match &self.0 {
            Some((label, hub)) => hub.begin_flow(*label, connection),
            None => Flowing::default(),
        }
    }
}

/// The flows of one file over further connections that a client has bound to its session. Each
/// begins with its first payload, and ends with the file, or with the connection if that goes first
/// ([`Event::Left`]).
#[derive(Debug)]
pub(crate) struct FurtherFlows {
    marked: Marked,
    /// The session's own connection.
    own: Connection,
    flows: Mutex<HashMap<SocketAddr, Flowing>>,
}

impl FurtherFlows {
    pub(crate) fn new(marked: Marked, own: Connection) -> Self {
        Self {
            marked,
            own,
            flows: Mutex::default(),
        }
    }

    /// Counts payload over the connection with these ends; false if it is the session's own.
    pub(crate) fn add(&self, bytes: u64, ends: Ends) -> bool {
        // As doors name connections: an address of IPv4 in its own notation.
        let peer = SocketAddr::new(ends.peer.ip().to_canonical(), ends.peer.port());
        if peer == self.own.peer {
            return false;
        }
        let local = ends.local;
        let connection = Connection {
            local,
            peer,
            ..self.own
        };
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        if flows.len() >= FURTHER_FLOWS_MAX && !flows.contains_key(&peer) {
            return false;
        }
        let begin = || self.marked.begin(connection);
        flows.entry(peer).or_insert_with(begin).add(bytes);
        true
    }
}

/// Files whose flows get a label that their clients did not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkingRule {
    /// Of clients of this virtual organisation; `None`: of any client.
    pub organisation: Option<String>,
    /// The directory with the files, without a slash at its end; `None`: any file.
    pub path: Option<String>,
    /// The label.
    pub label: FlowLabel,
}

impl MarkingRule {
    fn holds(&self, organisation: &str, path: &str) -> bool {
        let is_below = |directory: &String| {
            let rest = path.strip_prefix(directory.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.organisation.as_ref().is_none_or(|wanted| wanted == organisation)
            && self.path.as_ref().is_none_or(is_below)
    }
}

/// Which flows are marked, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// For flows whose clients name no label: the first that holds counts.
    pub rules: Vec<MarkingRule>,
    /// Flows to these addresses are not marked.
    pub excluded: Vec<AddressRange>,
    /// Whether packets over IPv6 have the label as well.
    pub labels_packets: bool,
}

/// What decides the label of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts<'a> {
    /// The number that the client named.
    pub tag: Option<u16>,
    /// The client's virtual organisation; empty if it has none.
    pub organisation: &'a str,
    /// The path of the file, as clients name it.
    pub path: &'a str,
}

impl Marking {
    /// The label of a file's flows. What the client names counts before the rules; a number that is
    /// no label does not count.
    pub(crate) fn label(&self, facts: &FlowFacts<'_>) -> Option<FlowLabel> {
        let by_rule = || {
            let rule = self
                .rules
                .iter()
                .find(|rule| rule.holds(facts.organisation, facts.path));
            rule.map(|rule| rule.label)
        };
        facts.tag.and_then(FlowLabel::of).or_else(by_rule)
    }

    /// Whether flows to this address are marked.
    pub(crate) fn covers(&self, peer: SocketAddr) -> bool {
        let address = peer.ip().to_canonical();
        !self.excluded.iter().any(|range| range.contains(address))
    }
}

/// The marking that is in effect. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SharedMarking(Arc<RwLock<Marking>>);

impl SharedMarking {
    /// Starts with this one.
    #[must_use]
    pub fn new(marking: Marking) -> Self {
        Self(Arc::new(RwLock::new(marking)))
    }

    /// Replaces it for flows that begin from now on.
    pub fn set(&self, marking: Marking) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = marking;
    }

    pub(crate) fn get(&self) -> RwLockReadGuard<'_, Marking> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(experiment: u16) -> FlowLabel {
        FlowLabel::from_parts(experiment, 1).unwrap()
    }

    #[test]
    fn what_the_client_names_counts_before_the_first_rule_that_holds() {
        let rule = |organisation: &str, path: &str, experiment| MarkingRule {
            organisation: Some(organisation.to_owned()).filter(|name| !name.is_empty()),
            path: Some(path.to_owned()).filter(|path| !path.is_empty()),
            label: label(experiment),
        };
        let marking = Marking {
            rules: vec![rule("cms", "/cache", 9), rule("cms", "", 3), rule("", "/atlas", 2)],
            excluded: Vec::new(),
            labels_packets: true,
        };
        let found = |tag, organisation, path| {
            marking.label(&FlowFacts {
                tag,
                organisation,
                path,
            })
        };
        assert_eq!(found(Some(313), "cms", "/cache/f"), FlowLabel::of(313));
        assert_eq!(found(Some(64), "cms", "/cache/f"), Some(label(9)), "no label");
        assert_eq!(found(None, "cms", "/cached"), Some(label(3)));
        assert_eq!(found(None, "", "/atlas/f"), Some(label(2)));
        assert_eq!(found(None, "", "/atlas2/f"), None);
    }

    #[test]
    fn excluded_addresses_are_those_of_their_networks_in_either_notation() {
        let marking = Marking {
            rules: Vec::new(),
            excluded: ["10.0.0.0/8", "::1"]
                .map(|range| AddressRange::parse(range).unwrap())
                .to_vec(),
            labels_packets: true,
        };
        let covers = |peer: &str| marking.covers(peer.parse().unwrap());
        assert!(covers("192.0.2.1:1") && covers("[2001:db8::1]:1"));
        assert!(!covers("10.1.2.3:1") && !covers("[::ffff:10.1.2.3]:1") && !covers("[::1]:1"));
    }
}
