//! Keys of a redirector, and of the nodes to which it sends clients.

use std::path::PathBuf;

use credentials::AddressRange;
use policy::{AnonymousAccess, ExportRules};
use types::{Location, LogicalPath};

use crate::rules::AllowedRights;
use crate::section;
use crate::section::{Conflict, LIVE, NEW_DOOR, Purpose, Values as _};
use crate::values::Bytes;

/// Most nodes of a redirector.
const NODES_MAX: usize = 10_000;
/// Smallest and largest memory for locations.
const LOCATION_BYTES: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 40;

section! {
    /// A redirector: this server has no files below `path`, but sends clients to the nodes that
    /// have them (`[[node]]`, [cluster.md](cluster.md)). Rules apply here as in an export, and the
    /// nodes judge their clients again. No effect without nodes.
    "redirector" false Redirector {
        /// URL path of the tree whose files are on the nodes, under the same names.
        path: LogicalPath = Some(LogicalPath::root()) => LIVE;
        /// What clients without a credential may do: nothing, read, or also write and delete.
        anonymous: AnonymousAccess = Some(AnonymousAccess::None) => LIVE;
        /// Refuse every change, whatever the credential allows.
        read_only: bool = Some(false) => LIVE;
        /// The most that any client may do, in the words of a rule's `may`.
        ceiling: AllowedRights = Some(AllowedRights::everything()) => LIVE;
        /// Send clients to the nodes with a capability for one operation on one file, so that the
        /// nodes do not judge them again: only rules of the redirector count then. Needs
        /// `[hand_over] key_file`, which the nodes share, each with its `url` as `accept_as`.
        capabilities: bool = Some(false) => NEW_DOOR;
        /// Send a client that runs on the machine of a node to this node, if it has the file, or
        /// has room for a new one: batch jobs on the data servers. The hosts of the nodes' URLs
        /// are looked up each minute.
        prefer_same_machine: bool = Some(false) => LIVE;
        /// Memory for the locations of files; about 37 bytes for each. More names are asked for
        /// again.
        location_bytes: Bytes = Some(Bytes(64 << 20)) => LIVE;
    }
}

section! {
    /// A site: clients from its networks are sent to nodes of this site, if one has the file, or
    /// has free space for a new one. Otherwise any node serves them. Repeat the section for
    /// several; the first that has a client's address counts.
    "site" true Site {
        /// Its name, which its nodes have as `site`.
        name: String = None => LIVE;
        /// Its networks, as in `["192.0.2.0/24", "2001:db8::/32"]`.
        networks: Vec<AddressRange> = None => LIVE;
    }
}

section! {
    /// A node: a server that has files, to which a redirector sends clients. It is one of ours, or
    /// any other server that speaks HTTP with WebDAV or the XRootD protocol. Repeat the section for
    /// several.
    "node" true ClusterNode {
        /// URL of the node. The redirector asks it in this protocol. Names of files follow after
        /// its path.
        url: String = None => LIVE;
        /// URL for HTTP clients. When not set: `url`, or the same host and port if `url` is that of
        /// the XRootD protocol, as our servers have both on one port. `"none"`: no HTTP clients are
        /// sent there.
        http_url: Option<String> = Some(None) => LIVE;
        /// URL for clients of the XRootD protocol, in the same way.
        root_url: Option<String> = Some(None) => LIVE;
        /// Trees that the node may hold. What it claims outside of them is not believed.
        exports: Vec<LogicalPath> = Some(vec![LogicalPath::root()]) => LIVE;
        /// Whether it announces itself on the message bus (`[bus]`). `false`: the redirector asks
        /// it directly, as it does without a bus.
        bus: bool = Some(true) => LIVE;
        /// Its name on the message bus. When not set: host and port of `url`, with `_` for every
        /// other character than letters, digits and `-`.
        bus_name: Option<String> = Some(None) => LIVE;
        /// Name of its site (`[[site]]`). When not set: what a node of ours tells (`cluster.site`).
        site: Option<String> = Some(None) => LIVE;
        /// Its strength relative to the other nodes, as long as it does not tell its load and room.
        weight: u32 = Some(1) => LIVE;
        /// Follow the node to other hosts when the redirector looks for files there, and lists,
        /// removes, renames and stores them: for a redirector of another maker (a manager of
        /// XRootD, a door of dCache). It then acts on those hosts, too.
        follow_redirects: bool = Some(false) => LIVE;
        /// File with the token that the redirector shows the node when it looks for files, and when
        /// it lists, removes and renames them. It is read again every 10 s, so that it can be
        /// renewed. When not set: it shows none.
        token_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the token for a node");
    }
}

impl Redirector {
    /// The rules of the tree.
    pub fn rules(&self) -> ExportRules {
        ExportRules {
            path: self.path.clone(),
            anonymous: self.anonymous,
            read_only: self.read_only,
            ceiling: self.ceiling.1,
            recursive_delete: false,
            locks: false,
        }
    }

    /// Whether a node may have names of the tree.
    fn uses(&self, node: &ClusterNode) -> bool {
        let mut exports = node.exports.iter();
        exports.any(|export| export.is_within(&self.path) || self.path.is_within(export))
    }

    /// Mistakes in the sections of a redirector. `has_key`: there is a key for the nodes to share.
    pub(crate) fn faults(&self, nodes: &[ClusterNode], has_key: bool) -> Vec<Conflict> {
        let mut own = Vec::new();
        if self.capabilities && !has_key {
            own.push("capabilities: there is no key that the nodes share; set [hand_over] key_file".to_owned());
        }
        if !LOCATION_BYTES.contains(&self.location_bytes.0) {
            own.push("location_bytes: not between 64KiB and 1TiB; write such a size".to_owned());
        }
        let mut faults: Vec<Conflict> = Conflict::of::<Self>(own).collect();
        if nodes.len() > NODES_MAX {
            let words = format!("url: at most {NODES_MAX} nodes; remove some");
            faults.extend(Conflict::of::<ClusterNode>([words]));
        }
        for (index, node) in nodes.iter().enumerate() {
            let twice = nodes[..index].iter().any(|other| other.url == node.url);
            let words = match node.places() {
                Ok(_) if twice => format!("url: the node {} is there twice; remove one", node.url),
                Ok(_) if node.weight == 0 => "weight: must be at least 1".to_owned(),
                Ok(_) if !node.bus && node.bus_name.is_some() => {
                    "bus_name: the node is not on the bus; remove it, or write bus = true".to_owned()
                }
                Ok(_) if node.exports.is_empty() => {
                    "exports: needs at least one path; write one such as \"/\"".to_owned()
                }
                Ok(_) if !self.uses(node) => {
                    format!(
                        "exports: the node {} has nothing in {}, the path of [redirector]; write a path in it",
                        node.url, self.path
                    )
                }
                Ok(_) => continue,
                Err(words) => words,
            };
            faults.push(Conflict {
                section: ClusterNode::SECTION.name,
                index,
                words,
            });
        }
        faults
    }
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlaces {
    /// Where the redirector asks it.
    pub asked: Location,
    /// Where HTTP clients are sent.
    pub http: Option<Location>,
    /// Where clients of the XRootD protocol are sent.
    pub root: Option<Location>,
}

impl ClusterNode {
    /// A node with nothing but its URL.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            http_url: None,
            root_url: None,
            exports: vec![LogicalPath::root()],
            bus: true,
            bus_name: None,
            site: None,
            weight: 1,
            follow_redirects: false,
            token_file: None,
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// What is wrong with its URLs.
    pub fn places(&self) -> Result<NodePlaces, String> {
        let asked = place("url", &self.url)?;
        let other = asked.in_other_protocol();
        let (http, root) = match asked.is_http() {
            true => (Some(asked.clone()), other),
            false => (other, Some(asked.clone())),
        };
        let chosen = |key: &str, given: &Option<String>, usual: Option<Location>, is_http: bool| match given.as_deref()
        {
            None => Ok(usual),
            Some("none") => Ok(None),
            Some(url) => match place(key, url)? {
                place if place.is_http() == is_http => Ok(Some(place)),
                _ => Err(format!(
                    "{key}: \"{url}\" has another protocol; write one of this protocol, or \"none\""
                )),
            },
        };
        Ok(NodePlaces {
            http: chosen("http_url", &self.http_url, http, true)?,
            root: chosen("root_url", &self.root_url, root, false)?,
            asked,
        })
    }
}

fn place(key: &str, url: &str) -> Result<Location, String> {
    let place = Location::parse(url).map_err(|error| format!("{key}: \"{url}\": {}", error.public()))?;
    let is_fit = (place.is_http() || place.is_xrootd()) && place.query().is_none();
    is_fit
        .then_some(place)
        .ok_or_else(|| format!("{key}: \"{url}\" is not a URL without a query; write http, https, root or roots"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(node: &ClusterNode) -> String {
        let shown = |place: &Option<Location>| place.as_ref().map_or("-".to_owned(), Location::to_wire);
        match node.places() {
            Ok(places) => format!("{} {}", shown(&places.http), shown(&places.root)),
            Err(words) => words,
        }
    }

    #[test]
    fn the_other_protocol_is_on_the_same_port() {
        let at = |url: &str| told(&ClusterNode::at(url));
        assert_eq!(at("https://d1:1094"), "https://d1:1094/ roots://d1//");
        assert_eq!(at("root://d1"), "http://d1:1094/ root://d1//");
        assert!(at("ftp://d1").contains("url:"), "{}", at("ftp://d1"));
        assert!(at("https://d1/?a=b").contains("without a query"));
        let node = ClusterNode {
            http_url: Some("https://d1:443/dav".to_owned()),
            root_url: Some("none".to_owned()),
            ..ClusterNode::at("root://d1:1095")
        };
        assert_eq!(told(&node), "https://d1/dav -");
        let wrong = ClusterNode {
            http_url: Some("root://d1".to_owned()),
            ..ClusterNode::at("root://d1")
        };
        assert!(told(&wrong).contains("another protocol"));
    }

    #[test]
    fn a_node_without_names_of_the_tree_is_a_mistake() {
        let redirector = |path: &str| {
            let text = format!("[redirector]\npath = \"{path}\"\n");
            let parsed = crate::Configuration::parse(&text, std::path::Path::new("/"), "c.toml");
            parsed.unwrap().redirector
        };
        let faults = |path: &str, exports: &[&str]| {
            let node = ClusterNode {
                exports: exports.iter().map(|path| LogicalPath::parse(path).unwrap()).collect(),
                ..ClusterNode::at("https://d1:1094")
            };
            let faults = redirector(path).faults(&[node], false);
            faults
                .into_iter()
                .map(|conflict| conflict.words)
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(faults("/data", &["/"]), "");
        assert_eq!(faults("/data", &["/store", "/data/atlas"]), "");
        assert!(faults("/data", &["/store"]).contains("has nothing in /data"));
    }
}
