//! The static source: a list of servers, which are asked over their own protocols.
//!
//! Nothing has to be installed on them, so they may be servers of others: XRootD, dCache, StoRM,
//! any WebDAV server. Ours also tell how busy they are and how much room they have.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use endpoint::{LinkLimit, Spoken};
use futures_util::stream::{FuturesUnordered, StreamExt};
use remote::{Access, Client, Resource, ServiceAnswer, ServiceCall, ServiceMethod};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};
use types::{Error, ErrorCode, Location, LogicalPath, PeerStatus, Secret, Side};

use crate::announcement::{Announcement, NODE_PATH, Role};
use crate::director::Director;
use crate::follow::{CHANGES_QUERY, ChangedNames, Follower, NodeEvent, Pace};
use crate::limits::{
    ANNOUNCED_EXPORTS_MAX, FOLLOWED_NAMES_A_SECOND, FOLLOWED_SILENCE_MS, LOST_PROBES, MUTE_PROBE_MS,
    NODE_QUESTIONS_MAX, NODES_MAX, PROBE_EVERY_MS, PROBE_TIME_MS, STATUS_BYTES_MAX,
};
use crate::locator::{Answer, Answers, Locator, Says};
use crate::node::{Change, NodeId, Nodes, Status};

/// Our token at a server. It can be replaced while requests run; clones have the same one.
#[derive(Debug, Clone, Default)]
pub struct NodeToken(Arc<Mutex<Option<Secret>>>);

impl NodeToken {
    /// This token.
    #[must_use]
    pub fn new(token: Option<Secret>) -> Self {
        Self(Arc::new(Mutex::new(token)))
    }

    /// Uses this one from now on. Whether it is another one.
    pub fn renew(&self, token: Secret) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = known.as_ref().is_none_or(|known| known.expose() != token.expose());
        *known = Some(token);
        is_other
    }

    fn get(&self) -> Option<Secret> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One server of the list.
#[derive(Debug, Clone)]
pub struct FixedNode {
    /// Its root: what is below is asked for by the name that clients use.
    pub location: Location,
    /// Our credentials there.
    pub access: Access,
    /// Our token there. Requests with one keep it to this server.
    pub token: NodeToken,
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
            token: NodeToken::default(),
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
        self.place(path.as_str())
    }

    /// What is below its root, with our credentials there.
    #[must_use]
    pub fn place(&self, path: &str) -> Resource {
        resource(self, path)
    }

    /// The same for requests in a client's name. Symbolic links lead nowhere but into this tree, in
    /// which the client has the same rights everywhere: the node judges the redirector, which may
    /// do more.
    #[must_use]
    pub(crate) fn resource_within(&self, path: &LogicalPath, tree: Option<&LogicalPath>) -> Resource {
        let mut resource = self.resource(path);
        let base = self.location.path().trim_end_matches('/');
        let there = tree.and_then(|tree| LogicalPath::parse(&format!("{base}{tree}")).ok());
        let limit = there.map_or(LinkLimit::Nowhere, LinkLimit::Within);
        resource.access.link_limit = Some(limit.text().to_owned());
        resource
    }
}

/// What a look at a server shows.
struct Seen {
    told: Option<Announcement>,
    is_ours: bool,
    /// It is a redirector of ours: two of them would ask each other for ever.
    is_redirector: bool,
}

/// How the version of a server of ours begins.
const OUR_VERSION: &str = "crossload/";
/// The role of a redirector in the XRootD protocol.
const MANAGER: &str = "manager";

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

    /// Looks after the servers for which `is_meant`, and tells the director who answers and how
    /// busy they are; does not end. `changed` is called when one comes or goes. `proves`: also look
    /// whether they let us ask about names.
    pub async fn watch(
        &self,
        director: &Director,
        is_meant: impl Fn(NodeId) -> bool,
        changed: impl Fn(NodeId, Change) + Sync,
        proves: bool,
    ) {
        let looks = self.iter().filter(|(id, _)| is_meant(*id));
        let looks = looks.map(|(id, node)| self.watch_one(id, node, director, &changed, proves));
        looks.collect::<FuturesUnordered<_>>().for_each(async |()| ()).await;
    }

    /// Asks nodes that answered no questions about one of their exports, until they answer; does
    /// not end. Those for which `is_direct` does not hold are asked over a bus otherwise, and need
    /// not let us ask here.
    pub(crate) async fn watch_mute(&self, director: &Director, is_direct: impl Fn(NodeId) -> bool) {
        let mut times = interval(Duration::from_millis(MUTE_PROBE_MS));
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            let mute = director.mute();
            let looks = mute.iter().map(|id| async {
                let export = director.with_nodes(|nodes, _| nodes.get(*id)?.provable().cloned());
                let (Some(node), Some(export)) = (self.get(*id), export) else {
                    // The next question shows it.
                    return director.answered(*id);
                };
                let look = timeout(Duration::from_millis(PROBE_TIME_MS), self.look(node, &export));
                match look.await.ok() {
                    Some(Says::Refused(_)) if !is_direct(*id) => director.answered(*id),
                    says => note_look(director, *id, says),
                }
            });
            looks.collect::<FuturesUnordered<_>>().for_each(async |()| ()).await;
        }
    }

    async fn watch_one(
        &self,
        id: NodeId,
        node: &FixedNode,
        director: &Director,
        changed: impl Fn(NodeId, Change),
        proves: bool,
    ) {
        let mut times = interval(Duration::from_millis(PROBE_EVERY_MS));
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent = 0;
        loop {
            times.tick().await;
            let change = match timeout(Duration::from_millis(PROBE_TIME_MS), self.probe(node)).await {
                Ok(Ok(seen)) if seen.is_redirector => {
                    silent = 0;
                    director.lost(id, "it is a redirector itself")
                }
                Ok(Ok(seen)) => {
                    silent = 0;
                    director.identified(id, seen.is_ours);
                    let tells = seen.told.is_some();
                    let status = seen.told.map(|told| take_in(director, id, node, &told));
                    if let Some(change) = director.told(id, status) {
                        changed(id, change);
                    }
                    if proves {
                        self.prove(id, node, director).await;
                    }
                    match tells {
                        true => self.follow(id, node, director).await,
                        false => None,
                    }
                }
                // A refused connection is clear; silence may be a busy moment.
                Ok(Err(error)) => director.lost(id, &error.to_string()),
                Err(_) => {
                    silent += 1;
                    let reason = format!("no answer within {PROBE_TIME_MS} ms, {silent} times");
                    (silent >= LOST_PROBES).then(|| director.lost(id, &reason)).flatten()
                }
            };
            if let Some(change) = change {
                changed(id, change);
            }
        }
    }

    /// Asks a node that has answered no question since it came about one of its exports: whether it
    /// lets us ask is known before the first client comes.
    async fn prove(&self, id: NodeId, node: &FixedNode, director: &Director) {
        let unproved = |nodes: &Nodes, _| {
            let node = nodes.get(id).filter(|node| !node.is_proved())?;
            node.provable().cloned()
        };
        let Some(export) = director.with_nodes(unproved) else {
            return;
        };
        let look = timeout(Duration::from_millis(PROBE_TIME_MS), self.look(node, &export));
        note_look(director, id, look.await.ok());
    }

    /// Follows a server of ours as long as it lets us. Returns what changed if it was lost.
    async fn follow(&self, id: NodeId, node: &FixedNode, director: &Director) -> Option<Change> {
        let place = resource(node, NODE_PATH);
        let location = place
            .location
            .resolve(&format!("{}{CHANGES_QUERY}", place.location.path()))
            .ok()?;
        let place = Resource { location, ..place };
        let begun = Follower::begin(&self.client, &place);
        let silence = Duration::from_millis(FOLLOWED_SILENCE_MS);
        // Without it, the node is asked each second.
        let mut follower = timeout(silence, begun).await.ok()?.ok()?;
        // Changes before were missed.
        director.forget(id);
        director.tells(id, true);
        let _untold = Untold { director, id };
        let mut pace = Pace::new(FOLLOWED_NAMES_A_SECOND);
        loop {
            match timeout(silence, follower.next()).await {
                Ok(Ok(Some(NodeEvent::Status(told)))) => {
                    let status = take_in(director, id, node, &told);
                    let _ = director.told(id, Some(status));
                }
                Ok(Ok(Some(NodeEvent::Changed(names)))) => {
                    pace.take(names.count()).await;
                    note(director, id, &names);
                }
                Ok(Ok(Some(NodeEvent::Forget(_)))) => director.forget(id),
                // It stops, or has its reasons: the next look shows whether it is there.
                Ok(Ok(None) | Err(_)) => return None,
                Err(_) => {
                    let reason = format!("it was silent for {FOLLOWED_SILENCE_MS} ms");
                    return director.lost(id, &reason);
                }
            }
        }
    }

    /// Whether a server answers, and what it tells of itself.
    async fn probe(&self, node: &FixedNode) -> Result<Seen, Error> {
        if !node.location.is_http() {
            let told = self
                .client
                .configuration(&resource(node, "/"), &["version", "role"])
                .await?;
            let value = |index: usize| told.get(index).and_then(Option::as_deref).unwrap_or_default();
            let is_ours = value(0).starts_with(OUR_VERSION);
            return Ok(Seen {
                told: None,
                is_ours,
                is_redirector: is_ours && value(1) == MANAGER,
            });
        }
        let answer = ask_node(&self.client, node).await?;
        // Any answer shows that it is there; only ours have something to tell.
        let told = answer
            .is_success()
            .then(|| serde_json::from_str(answer.body.expose()).ok());
        let told: Option<Announcement> = told.flatten();
        Ok(Seen {
            is_ours: told.is_some(),
            is_redirector: told.as_ref().is_some_and(|told| told.role == Role::Redirector),
            told,
        })
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
            // A server without WebDAV.
            Err(error) if error.code() == ErrorCode::PeerUnsupported => match self.client.head(&file, &[]).await {
                Ok(facts) => Says::File {
                    size_bytes: facts.size_bytes,
                },
                Err(error) => without_file(&error),
            },
            Err(error) => without_file(&error),
        }
    }
}

impl Locator for FixedNodes {
    fn ask<'a>(&'a self, path: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a> {
        let asked = nodes.iter().map(|id| self.ask_one(*id, path));
        Box::pin(asked.collect::<FuturesUnordered<_>>())
    }
}

/// A node whose changes are not heard any more when this is dropped.
struct Untold<'a> {
    director: &'a Director,
    id: NodeId,
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        self.director.tells(self.id, false);
    }
}

/// Asks a server what it tells of itself as a node. Any answer shows that it is there.
///
/// # Errors
/// No connection, or no answer.
pub async fn ask_node(client: &Client, node: &FixedNode) -> Result<ServiceAnswer, Error> {
    let nothing = Secret::new("");
    let call = ServiceCall {
        method: ServiceMethod::Get,
        content_type: "",
        body: &nothing,
        login: None,
        webhook: None,
        answer_bytes_max: STATUS_BYTES_MAX,
    };
    client.call(&resource(node, NODE_PATH), &call).await
}

/// Tells the director whether a node lets us ask.
fn note_look(director: &Director, id: NodeId, says: Option<Says>) {
    match says {
        Some(Says::Refused(words)) => director.refused(id, &words),
        Some(Says::Failed(_)) | None => {}
        Some(_) => director.answered(id),
    }
}

/// Tells the director what does not change from second to second; returns what does.
fn take_in(director: &Director, id: NodeId, node: &FixedNode, told: &Announcement) -> Status {
    director.at_site(id, told.site.as_deref());
    director.exports(id, exports_below(&node.location, told));
    told.status
}

/// The trees of a node under the names by which it is asked: its URL may have a path. `None` if it
/// tells none, or not all.
fn exports_below(root: &Location, told: &Announcement) -> Option<Vec<LogicalPath>> {
    if told.exports.is_empty() || told.exports.len() >= ANNOUNCED_EXPORTS_MAX {
        return None;
    }
    let root = LogicalPath::parse(root.path()).ok()?;
    let exports = told.exports.iter().map(|export| LogicalPath::parse(&export.path));
    let exports = exports.collect::<Result<Vec<_>, _>>().ok()?;
    let seen = exports.iter().filter_map(|export| match root.is_within(export) {
        true => Some(LogicalPath::root()),
        false => export.below(&root),
    });
    Some(seen.collect())
}

/// Tells the director which names a node has now, and which it has not.
fn note(director: &Director, id: NodeId, names: &ChangedNames) {
    let paths = |list: &[String]| -> Vec<LogicalPath> {
        let read = list.iter().filter_map(|name| LogicalPath::parse(name).ok());
        read.collect()
    };
    for path in paths(&names.files) {
        director.created(&path, id);
    }
    for path in paths(&names.directories).iter().chain(&paths(&names.gone)) {
        director.removed(path, id);
    }
}

/// What an error says about a name.
pub(crate) fn without_file(error: &Error) -> Says {
    match error.code() {
        _ if is_missing(error) || is_below_file(error) => Says::Nothing,
        code if code.denies_access() => Says::Refused(error.to_string()),
        _ => Says::Failed(error.to_string()),
    }
}

/// Whether a server says that a part of the path is a file: then it has nothing of this name. HTTP
/// has no other meaning of 409 for a name that is only looked at (RFC 9110 15.5.10: a conflict with
/// the state of the resource); XRootD's servers say it in words, as the system does.
fn is_below_file(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default().to_ascii_lowercase();
    error.code() == ErrorCode::NotDirectory
        || error.peer_status() == Some(PeerStatus::Http(409))
        || words.contains("not a directory")
}

pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::PeerNotFound | ErrorCode::NotFound)
}

fn resource(node: &FixedNode, path: &str) -> Resource {
    let mut access = node.access.clone();
    if let Some(token) = node.token.get() {
        (access.bearer, access.keeps_bearer) = (Some(token), true);
    }
    Resource {
        location: below(&node.location, path),
        access,
        side: Side::Active,
    }
}

#[cfg(test)]
mod tests {
    use types::Phase;

    use super::*;
    use crate::announcement::AnnouncedExport;

    #[test]
    fn exports_are_compared_below_the_path_of_the_url() {
        let told = |paths: &[&str]| Announcement {
            exports: paths
                .iter()
                .map(|path| AnnouncedExport {
                    path: (*path).to_owned(),
                    writable: true,
                })
                .collect(),
            ..Announcement::default()
        };
        let seen = |url: &str, paths: &[&str]| {
            let seen = exports_below(&Location::parse(url).unwrap(), &told(paths));
            seen.map(|seen| seen.iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>())
        };
        let is = |paths: &[&str]| Some(paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(seen("https://d1:1", &["/data", "/other"]), is(&["/data", "/other"]));
        assert_eq!(seen("https://d1:1/store", &["/store/data", "/other"]), is(&["/data"]));
        assert_eq!(seen("https://d1:1/store/x", &["/store"]), is(&["/"]));
        assert_eq!(seen("https://d1:1", &["/"]), is(&["/"]));
        assert_eq!(seen("https://d1:1", &[]), None);
    }

    #[test]
    fn a_server_that_has_a_file_above_the_name_has_nothing_of_this_name() {
        let says = |code, status, words: &str| {
            let error = Error::new(code, Side::Active, Phase::Open).with_peer(Some(status), words);
            without_file(&error)
        };
        let failed = ErrorCode::PeerFailed;
        assert_eq!(says(failed, PeerStatus::Http(409), ""), Says::Nothing);
        assert_eq!(
            says(
                failed,
                PeerStatus::Xrootd(3005),
                "Unable to locate /a/b; not a directory"
            ),
            Says::Nothing
        );
        assert!(matches!(
            says(failed, PeerStatus::Xrootd(3005), "input/output error"),
            Says::Failed(_)
        ));
        assert!(matches!(says(failed, PeerStatus::Http(500), ""), Says::Failed(_)));
    }

    #[test]
    fn a_new_token_is_shown_from_the_next_request_on() {
        let mut node = FixedNode::at(Location::parse("https://d1:1/").unwrap(), Access::default());
        node.token = NodeToken::new(Some(Secret::new("old")));
        let shown = || {
            let access = node.resource(&LogicalPath::root()).access;
            (access.bearer.unwrap().expose().to_owned(), access.keeps_bearer)
        };
        assert_eq!(shown(), ("old".to_owned(), true));
        assert!(!node.token.renew(Secret::new("old")));
        assert!(node.token.renew(Secret::new("new")));
        assert_eq!(shown(), ("new".to_owned(), true));
    }
}
