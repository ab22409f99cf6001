//! What a node tells its redirectors: its status, and what it is.
//!
//! It is one flat JSON object. A redirector that needs only the load reads it as a [`Status`].

use serde::{Deserialize, Serialize};

use crate::limits::ANNOUNCED_EXPORTS_MAX;
use crate::node::{Drain, Status};

/// Where a node tells it over HTTP.
pub const NODE_PATH: &str = "/.well-known/crossload-node";

/// What a node tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Announcement {
    /// How busy it is, how much room it has, and what it wants to be used for.
    #[serde(flatten)]
    pub status: Status,
    /// What it refuses already: for some seconds after a new step of draining, clients that were
    /// sent there before are still served.
    pub refuses: Drain,
    /// What it does. A redirector is no node of another one: two of them would ask each other for
    /// ever.
    pub role: Role,
    /// Uploads that run.
    pub uploads: u32,
    /// Downloads that run, and files that are open for reading.
    pub downloads: u32,
    /// Third-party copies that it makes from other servers.
    pub pulls: u32,
    /// Third-party copies that it makes to other servers.
    pub pushes: u32,
    /// Its program and version, as in `crossload/0.3.0`.
    pub server: String,
    /// The URL under which clients know it (`server.name`).
    pub name: Option<String>,
    /// Its site.
    pub site: Option<String>,
    /// When its process began, in milliseconds since 1970. Another value means that it was
    /// restarted: what was known about its transfers is void.
    pub started_ms: u64,
    /// Where clients reach it.
    pub doors: Vec<Door>,
    /// What it exports; at most [`ANNOUNCED_EXPORTS_MAX`].
    pub exports: Vec<AnnouncedExport>,
}

/// What a server does in a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has files.
    #[default]
    Server,
    /// It sends clients to servers that have files.
    Redirector,
}

/// A way to reach a node. Its host is the one by which it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// `http`, `https`, `root` or `roots`.
    pub scheme: String,
    /// The port.
    pub port: u16,
}

/// An export of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedExport {
    /// Its path.
    pub path: String,
    /// Whether some client may write there.
    pub writable: bool,
}

impl Announcement {
    /// The same with no more exports than may be announced.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.exports.truncate(ANNOUNCED_EXPORTS_MAX);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_a_status_with_more() {
        let told = Announcement {
            status: Status {
                transfers: 3,
                drain: Drain::NoWrites,
                ..Status::default()
            },
            downloads: 3,
            doors: vec![Door {
                scheme: "roots".to_owned(),
                port: 1094,
            }],
            exports: vec![AnnouncedExport {
                path: "/data".to_owned(),
                writable: true,
            }],
            ..Announcement::default()
        };
        let text = serde_json::to_string(&told).unwrap();
        assert!(text.contains("\"drain\":\"no_writes\""), "{text}");
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), told.status);
        assert_eq!(serde_json::from_str::<Announcement>(&text).unwrap(), told);
        // Another version may tell less or more.
        let other: Announcement = serde_json::from_str("{\"transfers\": 1, \"colour\": \"red\"}").unwrap();
        assert_eq!((other.status.transfers, other.downloads), (1, 0));
    }

    #[test]
    fn a_node_with_very_many_exports_announces_the_first() {
        let export = |number: usize| AnnouncedExport {
            path: format!("/{number}"),
            writable: false,
        };
        let told = Announcement {
            exports: (0..=ANNOUNCED_EXPORTS_MAX).map(export).collect(),
            ..Announcement::default()
        };
        assert_eq!(told.bounded().exports.len(), ANNOUNCED_EXPORTS_MAX);
    }
}
