//! Which nodes are near to a client: on its own machine, or at its site.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use credentials::AddressRange;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::{MissedTickBehavior, interval};
use types::Location;

use crate::limits::{HOST_LOOKUPS_MAX, HOSTS_EVERY_MS};
use crate::node::{NodeId, Nodes};

/// What is near to a client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Near<'a> {
    /// Nodes on its own machine: they come first.
    pub machine: &'a [NodeId],
    /// Its site.
    pub site: Option<&'a str>,
}

/// How near a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// Neither on the client's machine nor at its site.
    Far,
    /// At its site.
    Site,
    /// On its machine.
    Machine,
}

impl Near<'_> {
    /// How near this node is.
    #[must_use]
    pub fn of(&self, node: NodeId, nodes: &Nodes) -> Nearness {
        if self.machine.contains(&node) {
            return Nearness::Machine;
        }
        let site = nodes.get(node).and_then(|node| node.site());
        match self.site.is_some() && site == self.site {
            true => Nearness::Site,
            false => Nearness::Far,
        }
    }

    /// Leaves the nearest of these.
    pub(crate) fn retain<T>(&self, of: &mut Vec<T>, id: impl Fn(&T) -> NodeId, nodes: &Nodes) {
        let nearest = of.iter().map(|one| self.of(id(one), nodes)).max();
        of.retain(|one| Some(self.of(id(one), nodes)) == nearest);
    }
}

/// Where a node is.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The node.
    pub node: NodeId,
    /// A door of it.
    pub door: Location,
}

/// The networks of a site.
#[derive(Debug, Clone)]
pub struct SiteNetworks {
    /// The name that its nodes have as `site`.
    pub site: Arc<str>,
    /// Where its clients come from.
    pub networks: Vec<AddressRange>,
}

/// Where clients are, by their addresses.
#[derive(Debug, Default)]
pub struct Neighbourhood {
    sites: Vec<SiteNetworks>,
    /// Addresses of the nodes' machines, where their names could be looked up.
    machines: RwLock<HashMap<IpAddr, Vec<NodeId>>>,
}

impl Neighbourhood {
    /// These sites; a client belongs to the first that has its address.
    #[must_use]
    pub fn new(sites: Vec<SiteNetworks>) -> Self {
        Self {
            sites,
            machines: RwLock::default(),
        }
    }

    /// The site of an address.
    #[must_use]
    pub fn site(&self, address: IpAddr) -> Option<&str> {
        let address = address.to_canonical();
        let has = |site: &&SiteNetworks| site.networks.iter().any(|network| network.contains(address));
        self.sites.iter().find(has).map(|site| &*site.site)
    }

    /// The nodes at this address.
    #[must_use]
    pub fn on_machine(&self, address: IpAddr) -> Vec<NodeId> {
        let machines = self.machines.read().unwrap_or_else(PoisonError::into_inner);
        machines.get(&address.to_canonical()).cloned().unwrap_or_default()
    }

    /// Looks up the hosts of these nodes, now and from time to time; does not end. A name that
    /// cannot be looked up keeps the addresses it had.
    pub async fn watch_machines(&self, nodes: &[Machine]) {
        let mut times = interval(Duration::from_millis(HOSTS_EVERY_MS));
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known: HashMap<NodeId, Vec<IpAddr>> = HashMap::new();
        loop {
            times.tick().await;
            let found = stream::iter(nodes).map(look_up).buffer_unordered(HOST_LOOKUPS_MAX);
            known.extend(found.filter_map(async |found| found).collect::<Vec<_>>().await);
            let mut machines: HashMap<IpAddr, Vec<NodeId>> = HashMap::new();
            for (node, addresses) in &known {
                addresses
                    .iter()
                    .for_each(|address| machines.entry(*address).or_default().push(*node));
            }
            *self.machines.write().unwrap_or_else(PoisonError::into_inner) = machines;
        }
    }
}

async fn look_up(machine: &Machine) -> Option<(NodeId, Vec<IpAddr>)> {
    let host = machine.door.host().trim_matches(['[', ']']).to_owned();
    let found = tokio::net::lookup_host((host, machine.door.port())).await.ok()?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip().to_canonical()).collect();
    addresses.dedup();
    Some((machine.node, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, networks: &[&str]) -> SiteNetworks {
        SiteNetworks {
            site: name.into(),
            networks: networks.iter().map(|text| AddressRange::parse(text).unwrap()).collect(),
        }
    }

    #[test]
    fn an_address_belongs_to_the_first_site_that_has_it() {
        let here = Neighbourhood::new(vec![
            site("rack", &["192.0.2.16/28"]),
            site("hall", &["192.0.2.0/24", "2001:db8::/32"]),
        ]);
        let of = |address: &str| here.site(address.parse().unwrap());
        assert_eq!(of("192.0.2.17"), Some("rack"));
        assert_eq!(of("192.0.2.1"), Some("hall"));
        // As a listener of both families tells it.
        assert_eq!(of("::ffff:192.0.2.1"), Some("hall"));
        assert_eq!(of("2001:db8::7"), Some("hall"));
        assert_eq!(of("198.51.100.1"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_are_found_by_the_addresses_of_their_machines() {
        let here = Neighbourhood::default();
        let at = |number: u16, url: &str| Machine {
            node: NodeId(number),
            door: Location::parse(url).unwrap(),
        };
        let nodes = [
            at(0, "https://127.0.0.1:1094"),
            at(1, "root://[::1]:1094"),
            at(2, "https://127.0.0.1:1095"),
        ];
        let looked = tokio::time::timeout(Duration::from_millis(1), here.watch_machines(&nodes));
        assert!(looked.await.is_err());
        let mut found = here.on_machine("::ffff:127.0.0.1".parse().unwrap());
        found.sort();
        assert_eq!(found, [NodeId(0), NodeId(2)]);
        assert_eq!(here.on_machine("::1".parse().unwrap()), [NodeId(1)]);
        assert!(here.on_machine("192.0.2.1".parse().unwrap()).is_empty());
    }
}
