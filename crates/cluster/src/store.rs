//! The files of a cluster as a store: what moves no data is done here, on all nodes that it
//! concerns.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use remote::Resource;
use storage::{
    Answer, DirectoryReader, FindOwner, Held, Kind, Overwrite, ReadHandle, Space, Stat, Store, UploadOptions,
    WriteHandle,
};
use tokio::time::timeout;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::explanation::{Asked, Basis, Undirected};
use crate::fixed::is_missing;
use crate::limits::ACT_TIME_MS;
use crate::listing::MergedListing;
use crate::locator::Says;
use crate::node::{Node, NodeId};
use crate::redirector::Redirector;
use crate::room;
use storage_remote::{DIRECTORY_MODE, stat};

/// The files of a cluster.
pub(crate) struct ClusterStore {
    redirector: Redirector,
    /// The path of the export; the nodes have their files under the names that clients use.
    export: LogicalPath,
    /// Who knows the rights of the client.
    owner: Option<Arc<dyn FindOwner>>,
    /// Where links may lead on the nodes: see [`FixedNode::resource_within`].
    ///
    /// [`FixedNode::resource_within`]: crate::fixed::FixedNode::resource_within
    tree: Option<LogicalPath>,
}

impl ClusterStore {
    pub(crate) fn new(redirector: Redirector, export: LogicalPath) -> Self {
        Self {
            redirector,
            export,
            owner: None,
            tree: None,
        }
    }

    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Self {
        Self {
            owner,
            ..Self::new(self.redirector.clone(), self.export.clone())
        }
    }

    /// The same for requests about these names.
    async fn about(&self, paths: &[&LogicalPath]) -> Result<Self> {
        let links = match &self.owner {
            Some(owner) => owner.find().await?.links,
            None => None,
        };
        let around = |path: &&LogicalPath| match &links {
            Some(links) => {
                let tree = links.same_rights_around(&path.below(&self.export)?)?;
                Some(tree.under(&self.export))
            }
            None => Some(self.export.clone()),
        };
        let mut trees = paths.iter().map(around);
        let first = trees.next().flatten();
        Ok(Self {
            tree: first.filter(|first| trees.all(|tree| tree.as_ref() == Some(first))),
            ..self.acting_for(self.owner.clone())
        })
    }

    fn full(&self, path: &LogicalPath) -> LogicalPath {
        path.under(&self.export)
    }

    fn resource(&self, id: NodeId, path: &LogicalPath) -> Option<Resource> {
        let node = self.redirector.nodes.get(id)?;
        Some(node.resource_within(path, self.tree.as_ref()))
    }

    /// Does the same on several nodes at once; returns what each answered.
    async fn on_each<T, F>(&self, ids: &[NodeId], path: &LogicalPath, act: impl Fn(Resource) -> F) -> Vec<Done<T>>
    where
        F: Future<Output = Result<T>>,
    {
        let acts = ids.iter().filter_map(|id| {
            let act = in_time(act(self.resource(*id, path)?));
            Some(async move {
                Done {
                    node: *id,
                    result: act.await,
                }
            })
        });
        join_all(acts).await
    }

    /// The error of a node, with its name.
    fn blamed(&self, node: NodeId, error: Error) -> Error {
        let name = self.redirector.name(node);
        let detail = match error.detail() {
            Some(detail) => format!("node {name}: {detail}"),
            None => format!("node {name}"),
        };
        error.with_detail(detail)
    }

    /// The nodes that have a name, asked now, and whether it is a directory: all of them, because
    /// what is removed or renamed on some only comes back with the others.
    async fn holders(&self, path: &LogicalPath) -> Result<Holders> {
        let found = self.redirector.located_all(path, true).await;
        let silent = self.redirector.director.away(path);
        if !silent.is_empty() && matches!(found, Ok(_) | Err(Undirected::Directory(_))) {
            return Err(self.unchanged(silent, path));
        }
        match found {
            Ok(located) if !located.is_complete => Err(self.unchanged(silent_of(&located.basis), path)),
            Ok(located) => Ok(Holders {
                nodes: located.holders,
                is_directory: false,
            }),
            Err(Undirected::Directory(_)) => Ok(Holders {
                nodes: self.redirector.candidates(path),
                is_directory: true,
            }),
            Err(why) => Err(self.redirector.refused(&why, path)),
        }
    }

    /// Refuses if a node that is away may have the name.
    fn check_certain(&self, path: &LogicalPath) -> Result<()> {
        let silent = self.redirector.director.away(path);
        match silent.is_empty() {
            true => Ok(()),
            false => Err(self.unchanged(silent, path)),
        }
    }

    /// The refusal of a change that nodes which may have the name would miss.
    fn unchanged(&self, silent: Vec<Asked>, path: &LogicalPath) -> Error {
        let error = self.redirector.refused(&Undirected::Unsure { silent }, path);
        let nodes = error.detail().unwrap_or_default().to_owned();
        error.with_detail(format!("{nodes}; the old name would come back with it"))
    }

    async fn stat_of(&self, path: &LogicalPath) -> Result<Stat> {
        match self.redirector.located(path, false).await {
            Ok(located) => match self.stat_at(&located.holders, path).await {
                Err(error) if is_missing(&error) => {
                    // What was known was old.
                    let asked = self.redirector.located(path, true).await;
                    let located = asked.map_err(|why| self.redirector.refused(&why, path))?;
                    self.stat_at(&located.holders, path).await
                }
                answered => answered,
            },
            Err(Undirected::Directory(_)) => self.stat_at(&self.redirector.candidates(path), path).await,
            Err(_) if path == &self.export => Ok(directory()),
            Err(why) => Err(self.redirector.refused(&why, path)),
        }
    }

    /// What the first of these nodes that has the name says of it.
    async fn stat_at(&self, nodes: &[NodeId], path: &LogicalPath) -> Result<Stat> {
        let mut failed = None;
        for node in nodes {
            let Some(resource) = self.resource(*node, path) else {
                continue;
            };
            match self.redirector.nodes.client().stat(&resource).await {
                Ok(entry) => return Ok(stat(&entry)),
                Err(error) => {
                    if is_missing(&error) {
                        self.redirector.director.removed(path, *node);
                    }
                    failed.get_or_insert(self.blamed(*node, error));
                }
            }
        }
        let nothing = || Error::new(ErrorCode::NotFound, Side::Client, Phase::Open).with_subject(path);
        Err(failed.map_or_else(nothing, local))
    }

    /// Makes a directory on all nodes. One of them, the same for all clients, decides whether it
    /// exists already: it would be new for two clients otherwise.
    async fn make_directory_everywhere(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        let exists_already = match self.redirector.director.locate_all(path, true).await {
            Ok(_) => return Err(exists(path)),
            Err(Undirected::Directory(_)) => true,
            Err(Undirected::NotFound(_)) => false,
            Err(why) => return Err(self.redirector.refused(&why, path)),
        };
        let refused = |why| self.redirector.refused(&why, path);
        let _making = self.redirector.director.make(path).await.map_err(refused)?;
        let nodes = self.redirector.candidates(path);
        let client = self.redirector.nodes.client();
        let make = async |resource: Resource| match parents {
            true => client.make_directories(&resource).await,
            false => client.make_directory(&resource).await,
        };
        let first = self.on_each(nodes.get(..1).unwrap_or_default(), path, make).await;
        let has_lost = |done: &Done<()>| {
            done.result
                .as_ref()
                .is_err_and(|error| error.code() == ErrorCode::PeerExists)
        };
        let comes_late = !parents && first.iter().any(has_lost);
        let rest = self.on_each(nodes.get(1..).unwrap_or_default(), path, make).await;
        let done: Vec<Done<()>> = first.into_iter().chain(rest).collect();
        if done.iter().any(|done| done.result.is_ok()) {
            self.redirector.director.made(path);
        }
        match exists_already || comes_late {
            true if parents => Ok(()),
            true => Err(directory_exists(path)),
            false if done.iter().any(|done| done.result.is_ok()) => Ok(()),
            false => Err(self.first_error(done, path)),
        }
    }

    /// Removes a name from all nodes that have it.
    async fn remove_everywhere(&self, path: &LogicalPath) -> Result<()> {
        let holders = self.holders(path).await?;
        if holders.is_directory {
            self.check_empty(&holders.nodes, path).await?;
        }
        let client = self.redirector.nodes.client();
        let done = self
            .on_each(&holders.nodes, path, async |resource| match holders.is_directory {
                true => client.remove_directory(&resource).await,
                false => client.delete(&resource).await,
            })
            .await;
        for done in &done {
            if done.result.is_ok() {
                self.redirector.director.removed(path, done.node);
            }
        }
        self.all_or_error(done, path)
    }

    /// Nothing is removed anywhere if one node has something in the directory.
    async fn check_empty(&self, nodes: &[NodeId], path: &LogicalPath) -> Result<()> {
        let client = self.redirector.nodes.client();
        let done = self
            .on_each(nodes, path, async |resource| {
                let mut listing = client.list(&resource).await?;
                Ok(listing.next().await?.is_none_or(|batch| batch.is_empty()))
            })
            .await;
        for done in done {
            match done.result {
                Ok(true) => {}
                Ok(false) => return Err(Error::new(ErrorCode::NotEmpty, Side::Client, Phase::Open).with_subject(path)),
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(self.blamed(done.node, local(error))),
            }
        }
        Ok(())
    }

    /// A file must not get a name at a node where no one would look for it.
    fn check_may_hold(&self, nodes: &[NodeId], path: &LogicalPath) -> Result<()> {
        let may_hold = |node: &Node| node.config.may_hold(path);
        let is_unfit = |id: &&NodeId| {
            let director = &self.redirector.director;
            director.with_nodes(|nodes, _| !nodes.get(**id).is_some_and(may_hold))
        };
        let Some(unfit) = nodes.iter().find(is_unfit) else {
            return Ok(());
        };
        let error = Error::new(ErrorCode::CrossExport, Side::Client, Phase::Open).with_subject(path);
        let name = self.redirector.name(*unfit);
        Err(error.with_detail(format!("the node {name} has the file, and may not hold the new name")))
    }

    /// Success if one node did it and the others have no such name.
    fn all_or_error<T>(&self, done: Vec<Done<T>>, path: &LogicalPath) -> Result<()> {
        let has_failed = |done: &Done<T>| done.result.as_ref().is_err_and(|error| !is_missing(error));
        let is_done = done.is_empty() || done.iter().any(|done| done.result.is_ok());
        match is_done && !done.iter().any(has_failed) {
            true => Ok(()),
            false => Err(self.first_error(done, path)),
        }
    }

    /// The most telling error: not that a name is missing, if there is another one.
    fn first_error<T>(&self, done: Vec<Done<T>>, path: &LogicalPath) -> Error {
        let errors = done
            .into_iter()
            .filter_map(|done| Some((done.node, done.result.err()?)));
        let first = errors.min_by_key(|(_, error)| is_missing(error));
        match first {
            Some((node, error)) => self.blamed(node, local(error)),
            None => self
                .redirector
                .refused(&Undirected::Unsure { silent: Vec::new() }, path),
        }
    }
}

/// A node that hangs must not make the client wait for ever.
async fn in_time<T>(act: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| {
        let error = Error::new(ErrorCode::NodesSilent, Side::Active, Phase::Open);
        Err(error.with_detail(format!("no answer within {} s", ACT_TIME_MS / 1000)))
    };
    timeout(Duration::from_millis(ACT_TIME_MS), act)
        .await
        .unwrap_or_else(late)
}

/// Nodes that were asked and did not tell.
fn silent_of(basis: &Basis) -> Vec<Asked> {
    let Basis::Asked(asked) = basis else { return Vec::new() };
    let is_silent = |asked: &&Asked| asked.says.as_ref().is_none_or(Says::is_unclear);
    asked.iter().filter(is_silent).cloned().collect()
}

/// Nodes that have a name.
struct Holders {
    nodes: Vec<NodeId>,
    is_directory: bool,
}

/// What a node answered.
struct Done<T> {
    node: NodeId,
    result: Result<T>,
}

/// The error of a node as that of this store: a client of the redirector has asked no peer.
fn local(error: Error) -> Error {
    let code = match error.code() {
        ErrorCode::PeerNotFound => ErrorCode::NotFound,
        ErrorCode::PeerExists => ErrorCode::Exists,
        ErrorCode::PeerNoSpace => ErrorCode::NoSpace,
        _ => return error,
    };
    let known = Error::new(code, Side::Active, error.phase());
    match error.detail() {
        Some(detail) => known.with_detail(detail),
        None => known,
    }
}

fn directory() -> Stat {
    Stat {
        kind: Kind::Directory,
        size_bytes: 0,
        modified: SystemTime::now(),
        mode: DIRECTORY_MODE,
        inode: 1,
    }
}

fn directory_exists(path: &LogicalPath) -> Error {
    Error::new(ErrorCode::DirectoryExists, Side::Client, Phase::Open).with_subject(path)
}

fn exists(path: &LogicalPath) -> Error {
    Error::new(ErrorCode::Exists, Side::Client, Phase::Open).with_subject(path)
}

fn not_here<'a, T: 'a>(path: &'a LogicalPath) -> Answer<'a, T> {
    Box::pin(async move {
        let error = Error::new(ErrorCode::NotImplemented, Side::Active, Phase::Open);
        Err(error
            .with_detail("the files are on other servers, and this request cannot be sent there")
            .with_subject(path))
    })
}

impl Store for ClusterStore {
    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store> {
        Arc::new(self.acting_for(owner))
    }

    fn holding(&self, _held: Held) -> Arc<dyn Store> {
        Arc::new(self.acting_for(self.owner.clone()))
    }

    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat> {
        Box::pin(async move {
            let full = self.full(path);
            self.about(&[&full]).await?.stat_of(&full).await
        })
    }

    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>> {
        Box::pin(async move {
            let full = self.full(path);
            let tree = self.about(&[&full]).await?.tree;
            let listing = MergedListing::begin(&self.redirector, &full, tree.as_ref()).await?;
            Ok(Box::new(listing) as Box<dyn DirectoryReader>)
        })
    }

    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>> {
        not_here(path)
    }

    fn create<'a>(&'a self, path: &'a LogicalPath, _options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>> {
        not_here(path)
    }

    fn make_directory<'a>(&'a self, path: &'a LogicalPath, parents: bool) -> Answer<'a, ()> {
        Box::pin(async move {
            let full = self.full(path);
            self.about(&[&full])
                .await?
                .make_directory_everywhere(&full, parents)
                .await
        })
    }

    fn remove<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, ()> {
        Box::pin(async move {
            let full = self.full(path);
            self.about(&[&full]).await?.remove_everywhere(&full).await
        })
    }

    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, bool> {
        Box::pin(async move {
            let (from, to) = (self.full(from), self.full(to));
            let this = self.about(&[&from, &to]).await?;
            this.rename_everywhere(&from, &to, overwrite).await
        })
    }

    fn space(&self) -> Answer<'_, Space> {
        Box::pin(async { Ok(room::of_all(&self.redirector, &self.export).await.space) })
    }
}

mod renaming;
