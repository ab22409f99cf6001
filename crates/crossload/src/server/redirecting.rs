//! The redirector of a server: the nodes of its configuration, and who looks after them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cluster::director::Director;
use cluster::fixed::{FixedNode, FixedNodes, NodeToken};
use cluster::locator::Locator;
use cluster::nats::BusName;
use cluster::nats::redirector::{Event, NatsNode, NatsSource, RedirectorSettings, SourceFault};
use cluster::near::{Neighbourhood, SiteNetworks};
use cluster::node::{Change, Node, NodeConfig, NodeId, Presence};
use cluster::redirector::Redirector;
use config::{ClusterNode, Configuration, Export, Site};
use net::address::AddressPolicy;
use net::tls::ClientTls;
use remote::{Access, Client, ClientOptions};
use serde_json::json;
use tokio::task::JoinHandle;
use types::{Location, LogicalPath};

use super::assemble::{PRODUCT, named_place};
use super::bus;
use super::log::Log;
use super::node_log::{NodeLine, NodeLog};
use super::node_tokens::{self, TokenFile};
use super::node_troubles::NodeTroubles;
use crate::failure::Failure;

/// Time to connect to a node: it is near, and clients wait.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// A redirector at work. It stops when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Redirecting(Arc<Running>);

struct Running {
    configuration: config::Redirector,
    nodes: Vec<ClusterNode>,
    sites: Vec<Site>,
    redirector: Redirector,
    /// The message bus over which nodes are found; without one, they are looked at directly.
    source: Option<Arc<NatsSource>>,
    watch: JoinHandle<()>,
    /// Looks after what both sources need.
    others: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Redirecting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (bytes, machine) = (
            self.0.configuration.location_bytes,
            self.0.configuration.prefer_same_machine,
        );
        let (nodes, sites) = (&self.0.nodes, &self.0.sites);
        write!(formatter, "Redirecting({bytes:?}, {machine}, {nodes:?}, {sites:?})")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watch.abort();
        self.others.iter().for_each(JoinHandle::abort);
    }
}

impl Redirecting {
    /// The redirector of this configuration: the one that runs, if nothing changed.
    ///
    /// # Errors
    /// A token file that cannot be read.
    pub(super) fn of(
        configuration: &Configuration,
        running: Option<Self>,
        trust: &ClientTls,
        log: &Log,
    ) -> Result<Option<Self>, Failure> {
        if configuration.nodes.is_empty() {
            return Ok(None);
        }
        let is_same = |this: &Self| {
            this.0.configuration.location_bytes == configuration.redirector.location_bytes
                && this.0.configuration.prefer_same_machine == configuration.redirector.prefer_same_machine
                && this.0.configuration.path == configuration.redirector.path
                && this.0.nodes == configuration.nodes
                && this.0.sites == configuration.sites
        };
        match running.filter(is_same) {
            Some(running) => Ok(Some(running)),
            None => Self::start(configuration, trust, log).map(Some),
        }
    }

    fn start(configuration: &Configuration, trust: &ClientTls, log: &Log) -> Result<Self, Failure> {
        let nodes = configuration
            .nodes
            .iter()
            .map(|node| fixed_node(node, configuration))
            .collect::<Result<Vec<_>, _>>()?;
        let tokens = configuration.nodes.iter().zip(&nodes);
        let tokens: Vec<TokenFile> = tokens.filter_map(|(of, node)| TokenFile::of(of, node)).collect();
        let nodes = FixedNodes::new(client(configuration, trust), nodes);
        let bytes = usize::try_from(configuration.redirector.location_bytes.0).unwrap_or(usize::MAX);
        let known = configuration.nodes.iter();
        let known = known.map(|node| node_config(node, &configuration.redirector.path));
        let direct: Arc<dyn Locator> = Arc::new(nodes.clone());
        let lines = NodeLog::new(log.clone());
        let source = source(configuration, &direct, log, &lines)?;
        let locator = source.clone().map_or(direct, |source| source as Arc<dyn Locator>);
        let director = Arc::new(Director::new(known, locator, bytes));
        let neighbourhood = Neighbourhood::new(configuration.sites.iter().map(site_networks).collect());
        let redirector = Redirector::new(director, nodes).keeps_near(Arc::new(neighbourhood));
        let mut others = Vec::new();
        let (mute, bus) = (redirector.clone(), source.clone());
        others.push(tokio::spawn(async move {
            mute.watch_mute(|node| is_beside(bus.as_deref(), node)).await;
        }));
        others.push(tokio::spawn(node_tokens::watch(tokens, log.clone())));
        if configuration.redirector.prefer_same_machine {
            let machines = redirector.clone();
            others.push(tokio::spawn(async move { machines.watch_machines().await }));
        }
        let watch = tokio::spawn(look_after(redirector.clone(), source.clone(), lines));
        Ok(Self(Arc::new(Running {
            configuration: configuration.redirector.clone(),
            nodes: configuration.nodes.clone(),
            sites: configuration.sites.clone(),
            redirector,
            source,
            watch,
            others,
        })))
    }

    /// The message bus over which nodes are found, if they are.
    pub(super) fn source(&self) -> Option<&Arc<NatsSource>> {
        self.0.source.as_ref()
    }

    /// The names that it answers for.
    pub(super) fn tree(&self) -> &LogicalPath {
        &self.0.configuration.path
    }

    /// The redirector itself.
    pub(super) fn redirector(&self) -> &Redirector {
        &self.0.redirector
    }

    /// The export of the tree.
    pub(super) fn export(&self, configuration: &Configuration) -> endpoint::Export {
        let rules = configuration.redirector.rules();
        let store = self.0.redirector.store(&rules.path);
        endpoint::Export { rules, store }
    }
}

/// Whether a node is the redirector itself: a request for a file that it does not have would never
/// end.
pub(crate) fn is_itself(node: &Location, configuration: &Configuration) -> bool {
    own_ports(node.host(), configuration).any(|port| port == node.port())
}

/// Whether the upstream server of an export is this server, as for [`is_itself`].
pub(crate) fn leads_back(export: &Export, configuration: &Configuration) -> bool {
    let place = export.remote.as_ref().and_then(|url| Location::parse(url).ok());
    place.is_some_and(|place| is_itself(&place, configuration))
}

/// The ports at which this server serves clients under the name or address of this host.
fn own_ports<'a>(host: &str, configuration: &'a Configuration) -> impl Iterator<Item = u16> + use<'a> {
    let host = host.trim_matches(['[', ']']);
    let address = match host {
        "localhost" => Some(IpAddr::from(Ipv4Addr::LOCALHOST)),
        _ => host.parse().ok(),
    };
    let place = named_place(configuration);
    let is_name = place.is_some_and(|place| place.host().eq_ignore_ascii_case(host));
    let machine = rustix::system::uname();
    let is_machine = machine
        .nodename()
        .to_str()
        .is_ok_and(|name| name.eq_ignore_ascii_case(host));
    let serves = move |own: IpAddr| {
        let is_address = |address: IpAddr| address == own || (own.is_unspecified() && address.is_loopback());
        is_name || (is_machine && own.is_unspecified()) || address.is_some_and(is_address)
    };
    let listening = configuration.server.listen.iter();
    listening.filter(move |own| serves(own.ip())).map(SocketAddr::port)
}

/// Looks after all nodes, over the message bus or directly; does not end.
async fn look_after(redirector: Redirector, source: Option<Arc<NatsSource>>, lines: NodeLog) {
    let troubles = NodeTroubles::default();
    let note = |node, change| {
        let line = match change {
            Change::Came => NodeLine::new("node_came", None),
            Change::Went => {
                let why = redirector.director().with_nodes(|nodes, _| absence(nodes.get(node)?));
                NodeLine::new("node_lost", why)
            }
        };
        lines.write(&redirector.name(node), line);
    };
    let over_bus = async {
        if let Some(source) = source.clone() {
            source.follow(redirector.director().clone()).await;
        }
    };
    // A redirector that starts while the bus is away would have no node otherwise.
    let without_bus = async {
        let Some(source) = source.clone() else { return };
        loop {
            source.is_away().await;
            tokio::select! {
                () = redirector.watch_presence(|node| source.is_on_bus(node), note) => {}
                () = source.is_back() => {}
            }
        }
    };
    let director = redirector.director();
    tokio::join!(
        over_bus,
        without_bus,
        redirector.watch(|node| is_beside(source.as_deref(), node), note),
        troubles.watch(director, &lines)
    );
}

/// Whether a node is asked directly, and not over the message bus.
fn is_beside(source: Option<&NatsSource>, node: NodeId) -> bool {
    source.is_none_or(|source| !source.is_on_bus(node))
}

/// Why a node is away.
fn absence(node: &Node) -> Option<String> {
    match node.presence() {
        Presence::Absent { reason, .. } => Some(reason.clone()),
        Presence::Unknown | Presence::Present { .. } => None,
    }
}

/// The message bus of the configuration; `direct` asks nodes that are not on it, and all while it
/// is away.
fn source(
    configuration: &Configuration,
    direct: &Arc<dyn Locator>,
    log: &Log,
    lines: &NodeLog,
) -> Result<Option<Arc<NatsSource>>, Failure> {
    let Some(access) = bus::access(&configuration.bus)? else {
        return Ok(None);
    };
    let tree = &configuration.redirector.path;
    let nodes = configuration.nodes.iter().map(|node| bus_node(node, tree));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    let settings = RedirectorSettings {
        access,
        subjects: bus::subjects(&configuration.bus)?,
        filters_bytes_max: usize::try_from(configuration.bus.filter_bytes.0).unwrap_or(usize::MAX),
    };
    let (log, lines, urls) = (log.clone(), lines.clone(), urls(configuration));
    let note = move |event: &Event| match event {
        Event::Bus(event) => bus::log_bus(&log, event),
        Event::Works => log.write("bus_works", &json!({})),
        Event::Away => log.write("bus_away", &json!({})),
        Event::Came(node) => note(&lines, &urls, *node, NodeLine::new("node_came", None)),
        Event::Floods(node) => note(&lines, &urls, *node, NodeLine::new("node_floods", None)),
        Event::Went { node, reason } => {
            note(&lines, &urls, *node, NodeLine::new("node_lost", Some(reason.clone())));
        }
    };
    let source = NatsSource::connect(settings, nodes, Some(direct.clone()), note);
    let source = source.map_err(|fault| match fault {
        SourceFault::Access(fault) => bus::unusable(&fault),
        SourceFault::SameName(name) => Failure::invalid(format!("two nodes have the name {name} on the message bus")),
    });
    source.map(Some)
}

fn urls(configuration: &Configuration) -> Vec<String> {
    configuration.nodes.iter().map(|node| node.url.clone()).collect()
}

fn note(lines: &NodeLog, urls: &[String], node: NodeId, line: NodeLine) {
    if let Some(url) = urls.get(usize::from(node.0)) {
        lines.write(url, line);
    }
}

fn bus_node(node: &ClusterNode, tree: &LogicalPath) -> Result<NatsNode, Failure> {
    Ok(NatsNode {
        config: node_config(node, tree),
        name: node.bus.then(|| bus_name(node)).transpose()?,
    })
}

/// The name of a node on the message bus.
///
/// # Errors
/// It cannot be one.
pub(crate) fn bus_name(node: &ClusterNode) -> Result<BusName, Failure> {
    let name = match &node.bus_name {
        Some(name) => BusName::parse(name),
        None => BusName::of_url(&node.url),
    };
    name.ok_or_else(|| Failure::invalid(format!("the node {}: bus_name: letters, digits, - and _", node.url)))
}

/// What the configuration says about a node, where `tree` is the redirector's: nothing else is
/// asked for.
fn node_config(node: &ClusterNode, tree: &LogicalPath) -> NodeConfig {
    let narrowed = |export: &LogicalPath| if tree.is_within(export) { tree } else { export }.clone();
    NodeConfig {
        name: node.url.clone(),
        exports: node.exports.iter().map(narrowed).collect(),
        site: node.site.clone(),
        weight: f64::from(node.weight),
    }
}

fn site_networks(site: &Site) -> SiteNetworks {
    SiteNetworks {
        site: site.name.as_str().into(),
        networks: site.networks.clone(),
    }
}

/// Where a node is, and our credential there.
///
/// # Errors
/// A token file that cannot be read.
pub(crate) fn fixed_node(node: &ClusterNode, configuration: &Configuration) -> Result<FixedNode, Failure> {
    let places = node.places().map_err(|words| Failure::invalid(&words))?;
    let token = node.token_file.as_deref().map(node_tokens::read).transpose()?;
    let closed = (!node.follow_redirects).then(|| closed_ports(&places.asked, configuration));
    Ok(FixedNode {
        location: places.asked,
        http: places.http,
        xrootd: places.root,
        access: Access {
            returns_delays: true,
            stays_at_host: closed,
            ..Access::default()
        },
        token: NodeToken::new(token),
    })
}

/// Ports of a node's host to which it may not send the redirector: those of all nodes, and the
/// redirector's own, where the request would begin anew.
fn closed_ports(node: &Location, configuration: &Configuration) -> Arc<[u16]> {
    let places = configuration.nodes.iter().filter_map(|node| node.places().ok());
    let doors = places.flat_map(|places| [Some(places.asked), places.http, places.root]);
    let ports = doors.flatten().map(|door| door.port());
    let ports: BTreeSet<u16> = ports.chain(own_ports(node.host(), configuration)).collect();
    ports.into_iter().collect()
}

/// The client for nodes. They come from the configuration, so they may be anywhere.
fn client(configuration: &Configuration, trust: &ClientTls) -> Client {
    let limits = &configuration.limits;
    Client::new(ClientOptions {
        tls: trust.clone(),
        addresses: AddressPolicy::ANY,
        connect: limits.connect_timeout.min(CONNECT_TIME),
        first_byte: limits.first_byte_timeout,
        stall: limits.stall_timeout,
        user_agent: PRODUCT.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirector_is_no_node_of_its_own() {
        let is_itself = |url: &str, listen: &str| {
            let text = format!("[server]\nname = \"https://se.example.org:1094\"\nlisten = [\"{listen}\"]\n");
            let configuration = Configuration::parse(&text, std::path::Path::new("/"), "c.toml").unwrap();
            super::is_itself(&Location::parse(url).unwrap(), &configuration)
        };
        for url in [
            "https://localhost:1094",
            "root://127.0.0.1",
            "root://[::1]",
            "root://SE.example.org",
        ] {
            assert!(is_itself(url, "[::]:1094"), "{url}");
        }
        assert!(is_itself("root://192.0.2.1", "192.0.2.1:1094"));
        for url in ["root://localhost:1095", "root://d1.example.org", "root://192.0.2.1"] {
            assert!(!is_itself(url, "127.0.0.1:1094"), "{url}");
        }
    }

    #[test]
    fn a_node_on_its_host_leads_not_back_to_the_redirector() {
        let closed = |node: &str, listen: &str| {
            let text = format!("[server]\nlisten = [\"{listen}\"]\n[[node]]\nurl = \"{node}\"\n");
            let configuration = Configuration::parse(&text, std::path::Path::new("/"), "c.toml").unwrap();
            let node = fixed_node(&configuration.nodes[0], &configuration).unwrap();
            node.access.stays_at_host.unwrap().to_vec()
        };
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_str().unwrap();
        for host in ["localhost", "127.0.0.1", "[::1]", machine] {
            assert_eq!(
                closed(&format!("http://{host}:8081"), "[::]:1094"),
                [1094, 8081],
                "{host}"
            );
        }
        // On another host, the port may be a door of the node.
        assert_eq!(closed("http://d1.example.org:8081", "[::]:1094"), [8081]);
        assert_eq!(closed("http://127.0.0.1:8081", "192.0.2.1:1094"), [8081]);
    }
}
