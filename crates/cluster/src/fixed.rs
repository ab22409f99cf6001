//! The static source: a list of servers, which are asked over their own protocols.
//!
//! Nothing has to be installed on them, so they may be servers of others: XRootD, dCache, StoRM,
//! any WebDAV server. Ours also tell how busy they are and how much room they have.

use std::sync::Arc;
use std::time::Duration;

use endpoint::Spoken;
use futures_util::stream::{FuturesUnordered, StreamExt};
use remote::{Access, Client, Resource};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};
use types::{Error, ErrorCode, Location, LogicalPath, Side};

use crate::director::Director;
use crate::followed::{Line, Lines};
use crate::limits::{FOLLOW_AGAIN_LOOKS, LOST_PROBES, NODE_QUESTIONS_MAX, NODES_MAX, PROBE_EVERY_MS, PROBE_TIME_MS};
use crate::locator::{Answer, Answers, Locator, Says};
use crate::node::{Change, NodeId, Status};

/// Where a server of ours tells its status.
pub const STATUS_PATH: &str = "/.well-known/crossload-node";

/// One server of the list.
#[derive(Debug, Clone)]
pub struct FixedNode {
    /// Its root: what is below is asked for by the name that clients use.
    pub location: Location,
    /// Our credentials there.
    pub access: Access,
    /// Its root for HTTP clients; none of them is sent there without one.
    pub http: Option<Location>,
    /// Its root for XRootD clients; none of them is sent there without one.
    pub xrootd: Option<Location>,
}

impl FixedNode {
    /// A node whose doors are at this place: a server of ours speaks both protocols on one port.
    #[must_use]
    pub fn at(location: Location, access: Access) -> Self {
        let other = location.in_other_protocol();
        let (http, xrootd) = match location.is_http() {
            true => (Some(location.clone()), other),
            false => (other, Some(location.clone())),
        };
        Self {
            location,
            access,
            http,
            xrootd,
        }
    }

    /// Its root for clients that speak this protocol.
    #[must_use]
    pub fn door(&self, spoken: Spoken) -> Option<&Location> {
        match spoken {
            Spoken::Http => self.http.as_ref(),
            Spoken::Xrootd => self.xrootd.as_ref(),
        }
    }

    /// A name on it, for the redirector's own requests.
    #[must_use]
    pub fn resource(&self, path: &LogicalPath) -> Resource {
        resource(self, path.as_str())
    }
}

/// A name below a root.
#[must_use]
pub fn below(root: &Location, path: &str) -> Location {
    let base = root.path().trim_end_matches('/');
    root.with_path(&format!("{base}{}", root.escaped(path)))
}

/// The servers of the list, by the numbers of their nodes.
#[derive(Clone)]
pub struct FixedNodes {
    client: Client,
    nodes: Arc<[FixedNode]>,
    /// Places for questions at each: a flood of unknown names must not become as many connections.
    places: Arc<[Semaphore]>,
}

impl FixedNodes {
    /// The servers in the order of the director's nodes; more than [`NODES_MAX`] are left out.
    pub fn new(client: Client, nodes: impl IntoIterator<Item = FixedNode>) -> Self {
        let nodes: Arc<[FixedNode]> = nodes.into_iter().take(NODES_MAX).collect();
        Self {
            client,
            places: nodes.iter().map(|_| Semaphore::new(NODE_QUESTIONS_MAX)).collect(),
            nodes,
        }
    }

    /// The server of this number.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&FixedNode> {
        self.nodes.get(usize::from(id.0))
    }

    /// All with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &FixedNode)> {
        (0..=u16::MAX).map(NodeId).zip(self.nodes.iter())
    }

    /// The client that asks them.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Looks after all servers, and tells the director who answers and how busy they are; does not
    /// end. `changed` is called when one comes or goes.
    pub async fn watch(&self, director: &Director, changed: impl Fn(NodeId, Change) + Sync) {
        let looks = (0..=u16::MAX).map(NodeId).zip(self.nodes.iter());
        let looks = looks.map(|(id, node)| self.watch_one(id, node, director, &changed));
        looks.collect::<FuturesUnordered<_>>().for_each(async |()| ()).await;
    }

    async fn watch_one(&self, id: NodeId, node: &FixedNode, director: &Director, changed: impl Fn(NodeId, Change)) {
        let watched = Watched {
            id,
            director,
            changed: &changed,
        };
        let mut times = interval(Duration::from_millis(PROBE_EVERY_MS));
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut silent, mut follows) = (0, node.location.is_http());
        for look in 0_u32.. {
            times.tick().await;
            // It may let us listen by now.
            follows |= node.location.is_http() && look % FOLLOW_AGAIN_LOOKS == 0;
            if follows {
                follows = self.follow(node, &watched).await;
                continue;
            }
            match timeout(Duration::from_millis(PROBE_TIME_MS), self.probe(node)).await {
                Ok(Ok(())) => {
                    silent = 0;
                    // One of ours may have been started there meanwhile.
                    follows = watched.told(None) && node.location.is_http();
                }
                // A refused connection is clear; silence may be a busy moment.
                Ok(Err(error)) => watched.lost(&error.to_string()),
                Err(_) => {
                    silent += 1;
                    if silent >= LOST_PROBES {
                        watched.lost(&format!("no answer within {PROBE_TIME_MS} ms, {silent} times"));
                    }
                }
            }
        }
    }

    /// Reads what a node of ours tells, until it ends. Returns whether to try it again: false for a
    /// server that tells nothing.
    async fn follow(&self, node: &FixedNode, watched: &Watched<'_, impl Fn(NodeId, Change)>) -> bool {
        let silence = Duration::from_millis(u64::from(LOST_PROBES) * PROBE_TIME_MS);
        let begun = timeout(silence, self.client.get(&changes(node), &Lines::options())).await;
        let mut lines = match begun {
            Ok(Ok(download)) => Lines::new(download),
            // It is there, and no node of ours, or does not tell us.
            Ok(Err(error)) if error.peer_status().is_some() => {
                watched.told(None);
                return false;
            }
            Ok(Err(error)) => {
                watched.lost(&error.to_string());
                return true;
            }
            Err(_) => {
                watched.lost(&format!("no answer within {} ms", silence.as_millis()));
                return true;
            }
        };
        // Changes from before are not among the lines.
        watched.director.forget(watched.id);
        loop {
            match timeout(silence, lines.next()).await {
                Ok(Ok(Some(line))) => watched.heard(line),
                Ok(Ok(None)) => {
                    watched.lost("it stops");
                    return true;
                }
                Ok(Err(error)) => {
                    watched.lost(&error.to_string());
                    return true;
                }
                Err(_) => {
                    watched.lost(&format!("nothing heard for {} ms", silence.as_millis()));
                    return true;
                }
            }
        }
    }

    /// Whether a server answers that tells nothing of itself.
    async fn probe(&self, node: &FixedNode) -> Result<(), Error> {
        if !node.location.is_http() {
            return self.client.ping(&resource(node, "/")).await;
        }
        match self.client.head(&resource(node, "/"), &[]).await {
            Err(error) if error.peer_status().is_none() => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask_one(&self, id: NodeId, path: &LogicalPath) -> Answer {
        let number = usize::from(id.0);
        let says = match (self.nodes.get(number), self.places.get(number)) {
            (Some(node), Some(places)) => {
                // The director gives up before a long queue ends.
                let _place = places.acquire().await;
                self.look(node, path).await
            }
            _ => Says::Failed("it is not in the list".to_owned()),
        };
        Answer { node: id, says }
    }

    async fn look(&self, node: &FixedNode, path: &LogicalPath) -> Says {
        let file = resource(node, path.as_str());
        match self.client.stat(&file).await {
            Ok(entry) if entry.is_directory => Says::Directory,
            Ok(entry) => Says::File {
                size_bytes: entry.size_bytes,
            },
            Err(error) if is_missing(&error) => Says::Nothing,
            // A server without WebDAV.
            Err(error) if error.code() == ErrorCode::PeerUnsupported => match self.client.head(&file, &[]).await {
                Ok(facts) => Says::File {
                    size_bytes: facts.size_bytes,
                },
                Err(error) if is_missing(&error) => Says::Nothing,
                Err(error) => Says::Failed(error.to_string()),
            },
            Err(error) => Says::Failed(error.to_string()),
        }
    }
}

/// A server that is looked after.
struct Watched<'a, F> {
    id: NodeId,
    director: &'a Director,
    changed: &'a F,
}

impl<F: Fn(NodeId, Change)> Watched<'_, F> {
    /// It answers. Returns whether that is new.
    fn told(&self, status: Option<Status>) -> bool {
        let change = self.director.told(self.id, status);
        let is_new = change.is_some();
        change.into_iter().for_each(|change| (self.changed)(self.id, change));
        is_new
    }

    fn lost(&self, reason: &str) {
        let change = self.director.lost(self.id, reason);
        change.into_iter().for_each(|change| (self.changed)(self.id, change));
    }

    fn heard(&self, line: Line) {
        match line {
            Line::Status(told) => {
                self.told(Some(told.status));
            }
            Line::Changed(names) => Line::paths(&names).for_each(|path| self.director.changed(&path, self.id)),
            Line::Missed(_) => self.director.forget(self.id),
        }
    }
}

impl Locator for FixedNodes {
    fn ask<'a>(&'a self, path: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a> {
        let asked = nodes.iter().map(|id| self.ask_one(*id, path));
        Box::pin(asked.collect::<FuturesUnordered<_>>())
    }
}

pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::PeerNotFound | ErrorCode::NotFound)
}

/// What a node of ours tells, as it happens.
fn changes(node: &FixedNode) -> Resource {
    let place = node.location.wire_of(&format!("{STATUS_PATH}?changes=1"));
    Resource {
        location: Location::parse(&place).unwrap_or_else(|_| node.location.clone()),
        access: node.access.clone(),
        side: Side::Active,
    }
}

fn resource(node: &FixedNode, path: &str) -> Resource {
    Resource {
        location: below(&node.location, path),
        access: node.access.clone(),
        side: Side::Active,
    }
}
