//! Checks the nodes of a redirector: whether each answers, is what the configuration says, has what
//! it should, and shows the redirector what it needs.

use std::time::Duration;

use cluster::announcement::{Announcement, Role};
use cluster::fixed::{FixedNode, ask_node};
use config::{ClusterNode, Configuration};
use futures_util::StreamExt as _;
use net::tls::ClientTls;
use policy::Drain;
use remote::Client;
use types::{Error, ErrorCode, LogicalPath, Phase, Side};

use super::bus::Announced;
use super::clock;
use super::finding::{Finding, Position, Severity};
use super::lines::Lines;
use crate::server::{bus_name, fixed_node, is_itself};

/// Nodes that are asked at the same time.
const TOGETHER: usize = 32;
/// Time limit of one question to a node.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// What nodes are compared with, and how they are asked.
pub(super) struct Nodes<'a> {
    pub(super) configuration: &'a Configuration,
    pub(super) lines: &'a Lines,
    /// Trusts what the server trusts.
    pub(super) client: &'a Client,
    /// For the time of a node, whatever its certificate.
    pub(super) unverified: &'a ClientTls,
    /// Who is on the message bus, if it works.
    pub(super) announced: Option<&'a Announced>,
}

/// What a node is.
enum Kind {
    /// One of ours, and what it tells.
    Ours(Box<Announcement>),
    /// One of ours, which does not tell this machine.
    Reserved,
    /// A server of another maker.
    Other,
    /// It sends clients elsewhere itself.
    Redirector,
}

impl Nodes<'_> {
    /// Checks all nodes.
    pub(super) async fn check(&self) -> Vec<Finding> {
        let nodes = self.configuration.nodes.iter().enumerate();
        let checks = nodes.map(|(index, node)| self.check_one(index, node));
        let mut findings = futures_util::stream::iter(checks).buffered(TOGETHER).concat().await;
        findings.extend(self.strangers());
        findings
    }

    async fn check_one(&self, index: usize, node: &ClusterNode) -> Vec<Finding> {
        let one = One {
            nodes: self,
            node,
            index,
        };
        let fixed = match fixed_node(node, self.configuration) {
            Ok(fixed) => fixed,
            Err(failure) => {
                let finding = Finding::error("node_unusable", failure.words).at(one.position("token_file"));
                return vec![finding.change("make the file readable for the server's user only")];
            }
        };
        if is_itself(&fixed.location, self.configuration) {
            let says = format!("the node {} is this redirector itself", node.url);
            let finding = Finding::error("node_is_itself", says).at(one.position("url"));
            return vec![finding.change("name the servers that have the files")];
        }
        let mut findings = one.on_bus();
        match limited(one.kind(&fixed)).await {
            Err(error) => findings.push(one.unreachable(&error)),
            Ok(kind) => findings.extend(one.what_it_is(&fixed, &kind).await),
        }
        if findings.iter().all(|finding| finding.severity < Severity::Warning) {
            findings.insert(0, Finding::ok("node", format!("the node {} can be used", node.url)));
        }
        findings
    }

    /// Nodes on the bus that the configuration does not have.
    fn strangers(&self) -> Option<Finding> {
        let known: Vec<String> = self.names();
        let is_stranger = |name: &&String| !known.contains(name);
        let strangers: Vec<&str> = self.announced?.keys().filter(is_stranger).map(String::as_str).collect();
        (!strangers.is_empty()).then(|| {
            let says = format!("on the message bus, but no node here: {}", strangers.join(", "));
            Finding::note("bus_strangers", says).change("add a [[node]] for each that belongs to this redirector")
        })
    }

    fn names(&self) -> Vec<String> {
        let nodes = self.configuration.nodes.iter().filter(|node| node.bus);
        nodes
            .filter_map(|node| Some(bus_name(node).ok()?.to_string()))
            .collect()
    }
}

/// One node.
struct One<'a> {
    nodes: &'a Nodes<'a>,
    node: &'a ClusterNode,
    index: usize,
}

async fn limited<T>(asking: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Error::new(ErrorCode::PeerConnectTimeout, Side::Active, Phase::Connect);
    tokio::time::timeout(ANSWER_TIME, asking).await.map_err(late)?
}

impl One<'_> {
    fn position(&self, key: &str) -> Position {
        self.nodes.lines.of_item("node", self.index, key)
    }

    /// Asks what it is.
    async fn kind(&self, node: &FixedNode) -> Result<Kind, Error> {
        let client = self.nodes.client;
        if !node.location.is_http() {
            client.ping(&node.place("/")).await?;
            let told = client.configuration(&node.place("/"), &["role"]).await;
            let role = told.ok().and_then(|values| values.into_iter().next().flatten());
            return Ok(match role.as_deref() {
                Some("manager" | "supervisor" | "meta") => Kind::Redirector,
                _ => Kind::Other,
            });
        }
        let answer = ask_node(client, node).await?;
        if !answer.is_success() {
            // A server of ours names the key that would allow it.
            let is_ours = answer.body.expose().contains("cluster.redirectors");
            return Ok(if is_ours { Kind::Reserved } else { Kind::Other });
        }
        Ok(match serde_json::from_str::<Announcement>(answer.body.expose()) {
            Ok(told) if told.role == Role::Redirector => Kind::Redirector,
            Ok(told) if told.server.is_empty() => Kind::Other,
            Ok(told) => Kind::Ours(Box::new(told)),
            Err(_) => Kind::Other,
        })
    }

    fn unreachable(&self, error: &Error) -> Finding {
        let says = format!("the node {} does not answer: {}", self.node.url, error.public());
        let (code, change) = match error.code() {
            ErrorCode::PeerTlsFailed => (
                "node_tls_failed",
                "name the authority of its certificate in [trust], and write the host of its certificate into url",
            ),
            _ => (
                "node_unreachable",
                "start it, correct url, or open its port in the firewall; the others are used meanwhile",
            ),
        };
        Finding::error(code, says).at(self.position("url")).change(change)
    }

    async fn what_it_is(&self, fixed: &FixedNode, kind: &Kind) -> Vec<Finding> {
        let url = &self.node.url;
        let mut findings = Vec::new();
        match kind {
            Kind::Ours(told) => findings.extend(self.told(told)),
            Kind::Reserved if !self.is_announced() => {
                let says = format!("the node {url} does not tell this machine its load, its room and changed names");
                let finding = Finding::warning("node_reserved", says).at(self.position("url"));
                findings.push(finding.change("name the redirector in [cluster] redirectors of that node"));
            }
            Kind::Reserved | Kind::Other => {}
            Kind::Redirector => {
                let says = format!("the node {url} is a redirector itself");
                let finding = Finding::error("node_is_redirector", says).at(self.position("url"));
                findings.push(finding.change("name the servers behind it: requests could be sent in a circle"));
            }
        }
        for tree in self.trees() {
            findings.extend(self.tree(fixed, &tree).await);
        }
        let time = match fixed.location.is_http() {
            true => clock::check(&fixed.location, self.nodes.unverified).await,
            false => None,
        };
        findings.extend(time.filter(|finding| finding.severity > Severity::Ok));
        findings
    }

    /// The trees that clients of the redirector look for there.
    fn trees(&self) -> Vec<LogicalPath> {
        let whole = &self.nodes.configuration.redirector.path;
        let tree = |export: &LogicalPath| match (export.is_within(whole), whole.is_within(export)) {
            (true, _) => Some(export.clone()),
            (_, true) => Some(whole.clone()),
            _ => None,
        };
        self.node.exports.iter().filter_map(tree).collect()
    }

    /// What a node of ours says about itself.
    fn told(&self, told: &Announcement) -> Vec<Finding> {
        let mut findings = Vec::new();
        let url = &self.node.url;
        let drain = told.status.drain;
        if drain != Drain::Active {
            let says = format!("the node {url} is drained: {}", drain.name());
            let change = format!("`crossload node undrain {url}` takes it back into use");
            findings.push(
                Finding::warning("node_drained", says)
                    .at(self.position("url"))
                    .change(change),
            );
        }
        if self.nodes.configuration.redirector.read_only {
            return findings;
        }
        for tree in self.trees() {
            let is_about =
                |path: &str| LogicalPath::parse(path).is_ok_and(|path| tree.is_within(&path) || path.is_within(&tree));
            let mut about = told.exports.iter().filter(|export| is_about(&export.path)).peekable();
            if about.peek().is_some() && about.all(|export| !export.writable) {
                let says = format!("no client may write to {tree} on the node {url}");
                let finding = Finding::note("node_read_only", says).at(self.position("exports"));
                findings.push(finding.change("if new files should go there, allow it on the node"));
            }
        }
        findings
    }

    /// Whether the node has a tree, and shows it.
    async fn tree(&self, fixed: &FixedNode, tree: &LogicalPath) -> Option<Finding> {
        let url = &self.node.url;
        let looked = limited(self.nodes.client.stat(&fixed.resource(tree))).await;
        let (severity, code, says, change) = match looked {
            Ok(entry) if entry.is_directory => return None,
            Ok(_) => (
                Severity::Error,
                "node_export_missing",
                format!("{tree} is no directory on the node {url}"),
                "correct exports of this [[node]], or the export of the node",
            ),
            Err(error) => match error.code() {
                ErrorCode::PeerNotFound | ErrorCode::NotFound => (
                    Severity::Error,
                    "node_export_missing",
                    format!("the node {url} has no {tree}"),
                    "correct exports of this [[node]], or export that path on the node",
                ),
                // Over the bus nodes say themselves which files they have.
                ErrorCode::PeerDenied | ErrorCode::PeerForbidden if self.can_be_on_bus() => (
                    Severity::Warning,
                    "node_export_denied",
                    format!("the node {url} does not let the redirector look into {tree}"),
                    "set token_file to a token that may read there: without it, listings and removals fail, and \
                     files are found over the message bus only",
                ),
                ErrorCode::PeerDenied | ErrorCode::PeerForbidden => (
                    Severity::Error,
                    "node_export_denied",
                    format!(
                        "the node {url} does not let the redirector look into {tree}: requests that need its answer \
                         end with 503 nodes_refuse"
                    ),
                    "set token_file to a token that may read there",
                ),
                _ => (
                    Severity::Warning,
                    "node_export_unknown",
                    format!("the node {url} does not say whether it has {tree}: {}", error.public()),
                    "see the log of the node",
                ),
            },
        };
        Some(
            Finding::new(severity, code, says)
                .at(self.position("exports"))
                .change(change),
        )
    }

    fn can_be_on_bus(&self) -> bool {
        self.node.bus && !self.nodes.configuration.bus.servers.is_empty()
    }

    fn is_announced(&self) -> bool {
        let announced = self.nodes.announced.filter(|_| self.node.bus);
        let name = bus_name(self.node).ok();
        announced.is_some_and(|announced| name.is_some_and(|name| announced.contains_key(name.as_str())))
    }

    /// Whether the node is where it should be on the message bus.
    fn on_bus(&self) -> Vec<Finding> {
        let (Some(announced), Ok(name)) = (self.nodes.announced.filter(|_| self.node.bus), bus_name(self.node)) else {
            return Vec::new();
        };
        let url = &self.node.url;
        let Some(said) = announced.get(name.as_str()) else {
            let says = format!("the node {url} is not on the message bus as {name}");
            let change = format!(
                "set [bus] there with name = \"{name}\", and see `crossload check` there; or set bus = false here, \
                 and it is asked directly"
            );
            let finding = Finding::error("node_not_on_bus", says).at(self.position("bus_name"));
            return vec![finding.change(change)];
        };
        let is_given = |export: &&String| {
            LogicalPath::parse(export).is_ok_and(|path| {
                let given = |tree: &LogicalPath| path.is_within(tree) || tree.is_within(&path);
                self.node.exports.iter().any(given)
            })
        };
        let foreign: Vec<&str> = said
            .exports
            .iter()
            .filter(|export| !is_given(export))
            .map(String::as_str)
            .collect();
        if foreign.is_empty() {
            return Vec::new();
        }
        let says = format!("the node {url} announces {}, which is not believed", foreign.join(", "));
        let finding = Finding::note("node_export_foreign", says).at(self.position("exports"));
        vec![finding.change("add it to exports of this [[node]] if it belongs to this redirector")]
    }
}
