//! A redirector: sends clients of both protocols to the servers of a cluster.

use std::sync::Arc;
use std::time::Duration;

use endpoint::{Direction, OtherServers, Purpose, Relayed, SharedSpace, Spoken, Target, Wanted};
use policy::Drain;
use remote::Resource;
use serde_json::{Value, json};
use storage::{Answer, WriteHandle};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, LogicalPath, Phase, Result, Side};

use crate::choice::Why;
use crate::director::{Client, Director, Located};
use crate::explanation::{Asked, Basis, Directed, Reason, Undirected};
use crate::fixed::{FixedNode, FixedNodes, below};
use crate::left_out;
use crate::limits::{STARTING_RETRY_MS, TRIED_MAX};
use crate::locator::Says;
use crate::near::{Machine, Near, Nearness, Neighbourhood};
use crate::node::{Node, NodeId, Nodes};
use crate::relayed::{Destination, RelayPlaces, RelayedUpload, for_client};
use crate::room;
use crate::store::ClusterStore;

/// The director of a cluster, and the servers to which it sends clients.
#[derive(Clone)]
pub struct Redirector {
    pub(crate) director: Arc<Director>,
    pub(crate) nodes: FixedNodes,
    neighbourhood: Arc<Neighbourhood>,
    relays: RelayPlaces,
}

impl Redirector {
    /// A redirector to these servers, which have the director's numbers.
    #[must_use]
    pub fn new(director: Arc<Director>, nodes: FixedNodes) -> Self {
        Self {
            director,
            relays: RelayPlaces::of(nodes.iter().count()),
            nodes,
            neighbourhood: Arc::default(),
        }
    }

    /// The same, which keeps clients near.
    #[must_use]
    pub fn keeps_near(self, neighbourhood: Arc<Neighbourhood>) -> Self {
        Self { neighbourhood, ..self }
    }

    /// Looks whether nodes that answered no questions do so again; does not end. `is_direct` holds
    /// for those that are not asked over a bus.
    pub async fn watch_mute(&self, is_direct: impl Fn(NodeId) -> bool) {
        self.nodes.watch_mute(&self.director, is_direct).await;
    }

    /// Looks up on which machines the nodes are, so that clients there are kept near; does not end.
    pub async fn watch_machines(&self) {
        let doors = |node: &FixedNode| node.http.clone().or_else(|| node.xrootd.clone());
        let places = self.nodes.iter().filter_map(|(node, fixed)| {
            Some(Machine {
                node,
                door: doors(fixed)?,
            })
        });
        let places: Vec<Machine> = places.collect();
        self.neighbourhood.watch_machines(&places).await;
    }

    /// The store of an export whose files are on the servers; `export` is its path.
    #[must_use]
    pub fn store(&self, export: &LogicalPath) -> endpoint::Store {
        let files = ClusterStore::new(self.clone(), export.clone());
        endpoint::Store::of(Arc::new(files)).at(Arc::new(self.clone()))
    }

    /// The director.
    #[must_use]
    pub fn director(&self) -> &Arc<Director> {
        &self.director
    }

    /// Looks after the servers for which `is_meant`; does not end.
    pub async fn watch(&self, is_meant: impl Fn(NodeId) -> bool, changed: impl Fn(NodeId, crate::node::Change) + Sync) {
        self.nodes.watch(&self.director, is_meant, changed, true).await;
    }

    /// Looks whether servers are there that are found over a bus otherwise, while it is away; does
    /// not end.
    pub async fn watch_presence(
        &self,
        is_meant: impl Fn(NodeId) -> bool,
        changed: impl Fn(NodeId, crate::node::Change) + Sync,
    ) {
        self.nodes.watch(&self.director, is_meant, changed, false).await;
    }

    /// The name of a server.
    #[must_use]
    pub fn name(&self, id: NodeId) -> String {
        let named = |node: &Node| node.config.name.clone();
        let name = self.director.with_nodes(|nodes, _| nodes.get(id).map(named));
        name.unwrap_or_default()
    }

    /// Servers that a client cannot use: those that it has tried, and those that do not speak its
    /// protocol.
    fn unfit(&self, wanted: &Wanted<'_>) -> Unfit {
        let doors = || self.nodes.iter().map(|(id, node)| (id, node.door(wanted.spoken)));
        let silent = doors().filter(|(_, door)| door.is_none()).map(|(id, _)| id);
        let mut unfit = Unfit {
            sure: silent.collect(),
            perhaps: Vec::new(),
        };
        for tried in wanted.tried.iter().take(TRIED_MAX) {
            let is_meant = |door: &Location| is_called(door, tried);
            let meant = doors().filter(|(_, door)| door.is_some_and(is_meant));
            let meant: Vec<NodeId> = meant.map(|(id, _)| id).collect();
            match meant.len() {
                1 => unfit.sure.extend(meant),
                _ => unfit.perhaps.extend(meant),
            }
        }
        unfit
    }

    /// Chooses among the servers that the client can use. Where it named a host with several
    /// servers, none of them is taken if there is another.
    async fn choose_fit(&self, wanted: &Wanted<'_>, unfit: &Unfit, only_asks: bool) -> Result<Directed, Undirected> {
        let chosen = self.choose(wanted, &unfit.all(), only_asks).await;
        match chosen {
            Err(Undirected::NoHolder { .. } | Undirected::NoWriter) if !unfit.perhaps.is_empty() => {
                self.choose(wanted, &unfit.sure, only_asks).await
            }
            chosen => chosen,
        }
    }

    async fn choose(&self, wanted: &Wanted<'_>, tried: &[NodeId], only_asks: bool) -> Result<Directed, Undirected> {
        let machine = self.neighbourhood.on_machine(wanted.address);
        let client = Client {
            address: Some(wanted.address),
            near: Near {
                machine: &machine,
                site: self.neighbourhood.site(wanted.address),
            },
            tried,
            refresh: wanted.refresh || !wanted.tried.is_empty(),
            only_asks,
            is_new: matches!(wanted.purpose, Purpose::Store { is_new: true, .. }),
        };
        match wanted.purpose {
            Purpose::Read => self.certain(self.director.read(wanted.path, client).await, wanted.path),
            Purpose::Update => self.certain(self.director.update(wanted.path, client).await, wanted.path),
            Purpose::Store { size_bytes, .. } => self.director.write(wanted.path, size_bytes, client).await,
        }
    }

    fn target(&self, id: NodeId, wanted: &Wanted<'_>, exists: bool) -> Option<Target> {
        let server = self.nodes.get(id)?;
        let root = server.door(wanted.spoken)?;
        let endpoint = server.http.as_ref().or(server.xrootd.as_ref()).unwrap_or(root);
        let is_ours = self
            .director
            .with_nodes(|nodes, _| nodes.get(id).is_some_and(Node::is_ours));
        Some(Target {
            exists,
            endpoint: Box::new(endpoint.clone()),
            is_ours,
            location: below(root, wanted.path.as_str()),
            number: id.0,
            node: self.name(id).into(),
        })
    }

    /// Where a name is, to act on it there.
    pub(crate) async fn located(&self, path: &LogicalPath, refresh: bool) -> Result<Located, Undirected> {
        self.certain(self.director.locate(path, refresh).await, path)
    }

    /// The same with all nodes that have it, however late they answer.
    pub(crate) async fn located_all(&self, path: &LogicalPath, refresh: bool) -> Result<Located, Undirected> {
        self.certain(self.director.locate_all(path, refresh).await, path)
    }

    /// "No node has it" only if none that may have it went away lately: who reads "not found" may
    /// give up the file for good.
    fn certain<T>(&self, found: Result<T, Undirected>, path: &LogicalPath) -> Result<T, Undirected> {
        let Err(Undirected::NotFound(_)) = &found else {
            return found;
        };
        let silent = self.director.away(path);
        match silent.is_empty() {
            true => found,
            false => Err(Undirected::Unsure { silent }),
        }
    }

    /// Servers that answer and may have this name.
    pub(crate) fn candidates(&self, path: &LogicalPath) -> Vec<NodeId> {
        self.director.candidates(path)
    }

    /// The error for a client that is sent nowhere.
    pub(crate) fn refused(&self, why: &Undirected, path: &LogicalPath) -> Error {
        let error = |code| Error::new(code, Side::Active, Phase::Open).with_subject(path);
        match why {
            Undirected::NotFound(_) | Undirected::NotExported => {
                Error::new(ErrorCode::NotFound, Side::Client, Phase::Open).with_subject(path)
            }
            Undirected::Directory(_) => {
                Error::new(ErrorCode::IsDirectory, Side::Client, Phase::Open).with_subject(path)
            }
            Undirected::BelowFile(above) => Error::new(ErrorCode::NotDirectory, Side::Client, Phase::Open)
                .with_subject(path)
                .with_detail(format!("{above} is a file, or is just being stored as one")),
            Undirected::AboveFile => Error::new(ErrorCode::IsDirectory, Side::Client, Phase::Open)
                .with_subject(path)
                .with_detail("a file below it is just being stored, or the directory made"),
            Undirected::Unsure { silent } => self.unsure(silent, path),
            Undirected::NoHolder { holders } => self.no_node(path).with_detail(format!(
                "the file is on {}, drained, unreachable, just started, or failed for this client",
                self.first_names(holders)
            )),
            Undirected::Claimed => Error::new(ErrorCode::Exists, Side::Client, Phase::Open)
                .with_subject(path)
                .with_detail("another file is just getting this name"),
            Undirected::Occupied { node } => self.no_node(path).with_detail(format!(
                "another client is storing a file of this name on {}, which has no room for this one",
                self.name(*node)
            )),
            Undirected::Several { holders } => {
                error(ErrorCode::SeveralCopies).with_detail(format!("the file is on {}", self.first_names(holders)))
            }
            Undirected::NoWriter => self.no_node(path).with_detail("none takes new files now"),
            Undirected::NoRoom {
                sum_bytes,
                largest_bytes,
            } => error(ErrorCode::NoSpace).with_detail(format!(
                "all nodes together have room for {sum_bytes} bytes, and the emptiest one for {largest_bytes}"
            )),
            Undirected::Overloaded => error(ErrorCode::Overloaded),
        }
    }

    /// No node takes the request. A node that has just started will do so in a moment.
    fn no_node(&self, path: &LogicalPath) -> Error {
        let error = Error::new(ErrorCode::NoNode, Side::Active, Phase::Open).with_subject(path);
        let is_starting = self.director.has_starting(path);
        error.with_retry_after(is_starting.then_some(Duration::from_millis(STARTING_RETRY_MS)))
    }

    /// The same for a client of this protocol: it does not help to try again if the nodes that have
    /// the file do not speak it.
    fn refused_over(&self, spoken: Spoken, why: &Undirected, path: &LogicalPath) -> Error {
        let has_door = |id: &NodeId| self.nodes.get(*id).is_some_and(|node| node.door(spoken).is_some());
        let (other, schemes) = match spoken {
            Spoken::Http => ("XRootD", "root:// or roots://"),
            Spoken::Xrootd => ("HTTP", "http:// or https://"),
        };
        match why {
            Undirected::NoHolder { holders } if !holders.iter().any(has_door) => {
                Error::new(ErrorCode::NoNode, Side::Active, Phase::Open)
                    .with_subject(path)
                    .with_detail(format!(
                        "the file is on {}, which speaks only {other}; use {schemes}",
                        self.first_names(holders)
                    ))
            }
            _ => self.refused(why, path),
        }
    }

    fn first_names(&self, ids: &[NodeId]) -> String {
        let names: Vec<String> = ids.iter().take(NAMES_SHOWN).map(|id| self.name(*id)).collect();
        names.join(", ")
    }

    /// The error where nodes leave open whether they have a name. Those that do not answer come
    /// first: that may be over in a moment.
    fn unsure(&self, silent: &[Asked], path: &LogicalPath) -> Error {
        if silent.is_empty() {
            return Error::new(ErrorCode::NodesSilent, Side::Active, Phase::Open)
                .with_subject(path)
                .with_detail("no node that may have it is there");
        }
        let refuses = |asked: &&Asked| matches!(asked.says, Some(Says::Refused(_)));
        let (refusing, mute): (Vec<&Asked>, Vec<&Asked>) = silent.iter().partition(refuses);
        let (code, word, meant) = match mute.is_empty() {
            true => (ErrorCode::NodesRefuse, "refusing", refusing),
            false => (ErrorCode::NodesSilent, "silent", mute),
        };
        let names: Vec<String> = meant
            .iter()
            .take(NAMES_SHOWN)
            .map(|asked| self.name(asked.node))
            .collect();
        let rest = match meant.len().saturating_sub(names.len()) {
            0 => String::new(),
            others => format!(" and {others} others"),
        };
        Error::new(code, Side::Active, Phase::Open)
            .with_subject(path)
            .with_detail(format!("{word}: {}{rest}", names.join(", ")))
    }

    fn asked(&self, asked: &Asked, shows_servers: bool) -> Value {
        let says = match &asked.says {
            Some(Says::Refused(_)) if !shows_servers => {
                json!({"failed": "the redirector may not ask", "refuses": true})
            }
            Some(Says::Failed(_)) if !shows_servers => json!({"failed": "it cannot tell"}),
            Some(Says::File { size_bytes }) => json!({"has": "file", "size_bytes": size_bytes}),
            Some(Says::Directory) => json!({"has": "directory"}),
            Some(Says::Nothing) => json!({"has": "nothing"}),
            Some(Says::Excluded) => json!({"has": "nothing", "not_asked": true}),
            Some(Says::Refused(words)) => json!({"failed": words, "refuses": true}),
            Some(Says::Failed(words)) => json!({"failed": words}),
            None => json!({"failed": "no answer in time"}),
        };
        json!({"node": self.name(asked.node), "says": says, "after_ms": asked.after_ms})
    }

    fn all_asked(&self, asked: &[Asked], shows_servers: bool) -> Value {
        let asked = asked.iter().map(|asked| self.asked(asked, shows_servers));
        json!({"asked": asked.collect::<Vec<_>>()})
    }

    fn basis(&self, basis: &Basis, shows_servers: bool) -> Value {
        match basis {
            Basis::Known { age_ms } => json!({"known_for_ms": age_ms}),
            Basis::Asked(asked) => self.all_asked(asked, shows_servers),
        }
    }

    fn undirected(&self, why: &Undirected, error: &Error, shows_servers: bool) -> Value {
        let basis = match why {
            Undirected::NotFound(basis) | Undirected::Directory(basis) => Some(self.basis(basis, shows_servers)),
            Undirected::Unsure { silent } => Some(self.all_asked(silent, shows_servers)),
            _ => None,
        };
        json!({"code": error.code().name(), "words": error.public(), "basis": basis})
    }

    fn names(&self, ids: &[NodeId]) -> Vec<String> {
        ids.iter().map(|id| self.name(*id)).collect()
    }
}

/// Servers that a client cannot use.
struct Unfit {
    sure: Vec<NodeId>,
    /// One of these: the client named only their host.
    perhaps: Vec<NodeId>,
}

impl Unfit {
    fn all(&self) -> Vec<NodeId> {
        [self.sure.as_slice(), &self.perhaps].concat()
    }
}

/// Most names of nodes in a message.
const NAMES_SHOWN: usize = 5;

/// Whether a client that tried `tried` (a host or `host:port`) means this server.
fn is_called(door: &Location, tried: &str) -> bool {
    let with_port = || format!("{}:{}", door.host(), door.port());
    tried.eq_ignore_ascii_case(door.host()) || tried.eq_ignore_ascii_case(&with_port())
}

fn reason_words(redirector: &Redirector, directed: &Directed, shows_load: bool) -> String {
    let drain = |nodes: &Nodes| nodes.get(directed.node).map(Node::drain);
    let is_drained = || redirector.director.with_nodes(|nodes, _| drain(nodes)) == Some(Drain::NoWrites);
    if directed.reason == Reason::Holder && is_drained() {
        return "it has the file: drained of new files, it still takes new content of its own".to_owned();
    }
    let near = match directed.nearness {
        Nearness::Far => "",
        Nearness::Site => "at the client's site; ",
        Nearness::Machine => "on the client's machine; ",
    };
    let why = match shows_load {
        true => choice_words(redirector, &directed.reason),
        false => words_without_load(redirector, &directed.reason),
    };
    format!("{near}{why}")
}

fn choice_words(redirector: &Redirector, reason: &Reason) -> String {
    match reason {
        Reason::Reader(Why::LessBusy {
            busy,
            other,
            other_busy,
        }) => format!(
            "less busy ({busy:.2}) than {} ({other_busy:.2})",
            redirector.name(*other)
        ),
        Reason::Placed {
            fill: Some(fill),
            busy,
            candidates,
        } => format!(
            "{:.0} % full and {busy:.2} busy, of {candidates} that were possible",
            fill * 100.0
        ),
        Reason::Placed {
            fill: None,
            busy,
            candidates,
        } => format!("{busy:.2} busy, of {candidates} that were possible"),
        reason => words_without_load(redirector, reason),
    }
}

fn words_without_load(redirector: &Redirector, reason: &Reason) -> String {
    match reason {
        Reason::Reader(Why::Only) => "the only one that has it and takes readers".to_owned(),
        Reason::Reader(Why::Sticky) => "others read it there now".to_owned(),
        Reason::Reader(Why::LessBusy { other, .. }) => format!("less busy than {}", redirector.name(*other)),
        Reason::Holder => "it has the file".to_owned(),
        Reason::Expected => "another client stores the same name there".to_owned(),
        Reason::Placed { candidates, .. } => format!("by room and load, of {candidates} that were possible"),
    }
}

impl OtherServers for Redirector {
    fn direct<'a>(&'a self, wanted: &'a Wanted<'a>) -> Answer<'a, Direction> {
        Box::pin(async move {
            let unfit = self.unfit(wanted);
            match self.choose_fit(wanted, &unfit, false).await {
                Ok(directed) => {
                    let target = self.target(directed.node, wanted, !directed.holders.is_empty());
                    target.map(Direction::Server).ok_or_else(|| {
                        let holders = directed.holders;
                        self.refused(&Undirected::NoHolder { holders }, wanted.path)
                    })
                }
                Err(Undirected::Directory(_)) => Ok(Direction::Directory),
                Err(why) => Err(self.refused_over(wanted.spoken, &why, wanted.path)),
            }
        })
    }

    fn locate<'a>(&'a self, wanted: &'a Wanted<'a>) -> Answer<'a, Vec<Target>> {
        Box::pin(async move {
            let ids = match self.located_all(wanted.path, wanted.refresh).await {
                Ok(located) => located.holders,
                Err(Undirected::Directory(_)) => self.candidates(wanted.path),
                Err(why) => return Err(self.refused(&why, wanted.path)),
            };
            let targets = ids.into_iter();
            Ok(targets.filter_map(|id| self.target(id, wanted, true)).collect())
        })
    }

    fn relay<'a>(&'a self, relayed: &'a Relayed<'a>) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move {
            let (path, node) = (relayed.wanted.path, NodeId(relayed.target.number));
            let unknown = || self.refused(&Undirected::NoWriter, path);
            let server = self.nodes.get(node).ok_or_else(unknown)?;
            let own = server.resource_within(path, relayed.same_rights.as_ref());
            let place = self.relays.take(node, relayed.wanted.address);
            let given_up = |_: &Error| self.director.given_up(path, node);
            let place = place.inspect_err(given_up)?;
            let to = Destination {
                file: for_client(&own, relayed)?,
                own,
                client: self.nodes.client().clone(),
                director: self.director.clone(),
                node,
                path: path.clone(),
                _place: place,
            };
            let upload = RelayedUpload::begin(to, relayed.options).await?;
            Ok(Arc::new(upload) as Arc<dyn WriteHandle>)
        })
    }

    fn space<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, SharedSpace> {
        Box::pin(async move { Ok(room::of_all(self, path).await) })
    }

    fn may_return(&self, path: &LogicalPath) -> bool {
        self.director.may_return(path)
    }

    fn checksum<'a>(
        &'a self,
        target: &'a Target,
        location: Location,
        algorithm: ChecksumAlgorithm,
    ) -> Answer<'a, Checksum> {
        Box::pin(async move {
            let blamed = |error: Error| {
                let words = format!("node {}: {}", target.node, error.detail().unwrap_or_default());
                error.with_detail(words)
            };
            let server = self.nodes.get(NodeId(target.number));
            let server = server.ok_or_else(|| Error::new(ErrorCode::NoNode, Side::Active, Phase::Checksum))?;
            let file = Resource {
                location,
                access: server.access.clone(),
                side: Side::Active,
            };
            let facts = self.nodes.client().head(&file, &[algorithm]).await.map_err(blamed)?;
            let known = facts.checksums.into_iter().find(|known| known.algorithm() == algorithm);
            known.ok_or_else(|| {
                let none = || Error::new(ErrorCode::ChecksumUnavailable, Side::Active, Phase::Checksum);
                blamed(facts.checksum_refusal.unwrap_or_else(none))
            })
        })
    }

    fn explain<'a>(&'a self, wanted: &'a Wanted<'a>, shows_servers: bool) -> Answer<'a, Value> {
        Box::pin(async move {
            let located = self.located(wanted.path, wanted.refresh).await;
            let found = match &located {
                Ok(located) => json!({
                    "holders": self.names(&located.holders),
                    "is_complete": located.is_complete,
                    "basis": self.basis(&located.basis, shows_servers),
                }),
                Err(why) => self.undirected(why, &self.refused(why, wanted.path), shows_servers),
            };
            let unfit = self.unfit(wanted);
            let chosen = match self.choose_fit(wanted, &unfit, true).await {
                Ok(directed) => json!({
                    "node": self.name(directed.node),
                    "reason": reason_words(self, &directed, shows_servers),
                }),
                Err(why) => self.undirected(
                    &why,
                    &self.refused_over(wanted.spoken, &why, wanted.path),
                    shows_servers,
                ),
            };
            let holders = located.map(|located| located.holders).unwrap_or_default();
            let unfit = unfit.all();
            let left_out = left_out::nodes(self, wanted, &holders, &unfit, shows_servers);
            Ok(json!({"path": wanted.path.as_str(), "found": found, "chosen": chosen, "left_out": left_out}))
        })
    }
}
