//! Why nodes get no client with a request, for `crossload why`.

use endpoint::{Purpose, Wanted};
use serde_json::{Value, json};

use crate::limits::LEFT_OUT_MAX;
use crate::node::{Drain, Node, NodeId, Presence, Trouble};
use crate::redirector::Redirector;

/// Nodes to which such a client is not sent, with the reason; the first [`LEFT_OUT_MAX`].
/// `unfit` are those that it has tried, or that do not speak its protocol. `shows_servers`: with
/// what the nodes did.
pub(crate) fn nodes(
    redirector: &Redirector,
    wanted: &Wanted<'_>,
    holders: &[NodeId],
    unfit: &[NodeId],
    shows_servers: bool,
) -> Vec<Value> {
    let has_door = |id| {
        redirector
            .nodes
            .get(id)
            .is_some_and(|node| node.door(wanted.spoken).is_some())
    };
    redirector.director.with_nodes(|nodes, now_ms| {
        let reasons = nodes.iter().filter_map(|(id, node)| {
            let words = match unfit.contains(&id) {
                true if !has_door(id) => Some("it does not speak this protocol".to_owned()),
                true => Some("the client has tried it".to_owned()),
                false => reason(node, wanted, holders.contains(&id), now_ms).map(|reason| reason.words(shows_servers)),
            };
            Some(json!({"node": node.config.name, "reason": words?}))
        });
        reasons.take(LEFT_OUT_MAX).collect()
    })
}

/// Why a node gets no client.
enum Reason {
    /// In words for everyone.
    Plain(&'static str),
    /// The node is not as it should be.
    Trouble(Trouble),
}

impl Reason {
    /// `shows_servers`: with what the node did.
    fn words(&self, shows_servers: bool) -> String {
        match self {
            Self::Plain(words) => (*words).to_owned(),
            Self::Trouble(trouble) if shows_servers => trouble.to_string(),
            Self::Trouble(trouble) => trouble.kind().to_owned(),
        }
    }
}

/// Why a client with this request is not sent to a node.
fn reason(node: &Node, wanted: &Wanted<'_>, has_file: bool, now_ms: u64) -> Option<Reason> {
    // A file is overwritten where it is.
    let is_new = matches!(wanted.purpose, Purpose::Store { .. }) && !has_file;
    if !node.config.may_hold(wanted.path) {
        return Some(Reason::Plain("exports of its [[node]] do not contain this path"));
    }
    if *node.presence() == Presence::Unknown {
        return Some(Reason::Plain("It has not been looked at yet."));
    }
    if let Some(trouble) = node.trouble(now_ms).filter(|trouble| trouble.keeps_from(is_new)) {
        return Some(Reason::Trouble(trouble));
    }
    let is_change = !matches!(wanted.purpose, Purpose::Read);
    let words = match node.drain() {
        Drain::NoReads => "it is drained, and takes no clients",
        Drain::NoWrites if is_new => "it is drained, and takes no new files",
        _ if is_change && node.is_starting() => "it has just started, and takes no new files or changes yet",
        _ if is_new && !node.may_store(wanted.path) => "it does not export this path",
        _ => return None,
    };
    Some(Reason::Plain(words))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use endpoint::Spoken;

    use super::*;
    use crate::node::{Nodes, Status};
    use crate::testing::{config, path};

    #[test]
    fn each_node_that_gets_no_client_has_a_reason() {
        let mut nodes = Nodes::new((0..4).map(|number| config(number, if number == 3 { "/other" } else { "/data" })));
        let path = path("/data/f");
        let reason_at = |nodes: &Nodes, id: u16, purpose, has_file| {
            let wanted = Wanted {
                path: &path,
                purpose,
                spoken: Spoken::Http,
                address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                tried: &[],
                refresh: false,
            };
            let reason = reason(nodes.get(NodeId(id)).unwrap(), &wanted, has_file, 100);
            reason.map_or_else(String::new, |reason| {
                assert!(!reason.words(false).contains("connection refused"));
                reason.words(true)
            })
        };
        let new = Purpose::Store {
            size_bytes: None,
            is_new: false,
        };
        assert!(reason_at(&nodes, 0, Purpose::Read, false).contains("looked at"));
        let drained = |drain| {
            Some(Status {
                drain,
                ..Status::default()
            })
        };
        nodes.told(NodeId(0), drained(Drain::NoWrites), 100);
        nodes.told(NodeId(1), drained(Drain::NoReads), 100);
        nodes.lost(NodeId(2), "connection refused", 100);
        assert_eq!(reason_at(&nodes, 0, Purpose::Read, false), "");
        assert!(reason_at(&nodes, 0, new, false).contains("no new files"));
        // An existing file is overwritten there.
        assert_eq!(reason_at(&nodes, 0, new, true), "");
        assert!(reason_at(&nodes, 1, Purpose::Read, true).contains("no clients"));
        assert!(reason_at(&nodes, 2, Purpose::Read, false).contains("connection refused"));
        assert!(reason_at(&nodes, 3, Purpose::Read, false).contains("exports of its [[node]]"));
        nodes.told(NodeId(0), drained(Drain::Active), 100);
        nodes.exports(NodeId(0), Some(vec![crate::testing::path("/store")]));
        assert_eq!(reason_at(&nodes, 0, Purpose::Read, false), "");
        assert!(reason_at(&nodes, 0, new, false).contains("does not export"));
    }
}
