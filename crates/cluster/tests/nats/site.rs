//! A cluster on one machine: a server of the bus, nodes with names in memory, redirectors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions};
use cluster::director::Director;
use cluster::explanation::Undirected;
use cluster::locator::{Locator, Says};
use cluster::nats::node::{Event as NodeEvent, Kind, Listing, Member, Named, NodeFacts, NodeSettings};
use cluster::nats::redirector::{Event, NatsNode, NatsSource, RedirectorSettings, SourceView};
use cluster::nats::{Access, BusName, Identity, Subjects};
use cluster::node::{Drain, NodeConfig, NodeId, Presence, Status};
use endpoint::NameChanges;
use testkit::{NatsOptions, NatsProof, NatsServer, NatsUser, Scratch};
use tokio::sync::watch;
use types::{LogicalPath, Secret};

/// Nothing here takes longer, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

/// The password of each user is its name.
pub(crate) fn user(name: &str, publish: &[&str], subscribe: &[&str]) -> NatsUser {
    let list = |subjects: &[&str]| subjects.iter().map(|&subject| subject.to_owned()).collect();
    NatsUser {
        name: name.to_owned(),
        proof: NatsProof::Password(name.to_owned()),
        publish: list(publish),
        subscribe: list(subscribe),
    }
}

/// What the manual recommends for a node.
pub(crate) fn node_user(name: &str) -> NatsUser {
    let publish = format!("crossload.from.{name}.>");
    let subscribe = format!("crossload.to.{name}");
    user(name, &[&publish], &[&subscribe, "crossload.all.>"])
}

/// What the manual recommends for redirectors.
pub(crate) fn redirector_user() -> NatsUser {
    user("redirector", &["crossload.>"], &["crossload.from.>"])
}

pub(crate) fn start_server(scratch: &Scratch, users: Vec<NatsUser>) -> testkit::Result<NatsServer> {
    let options = NatsOptions {
        users,
        ..NatsOptions::default()
    };
    NatsServer::start(&scratch.join("nats"), &options)
}

pub(crate) fn access(url: &str, name: &str) -> Access {
    Access {
        servers: vec![url.to_owned()],
        identity: Identity::User {
            name: name.to_owned(),
            password: Secret::new(name),
        },
        ..Access::default()
    }
}

/// A client of the bus that may do what this user may.
pub(crate) async fn client(url: &str, name: &str) -> Client {
    let options = ConnectOptions::with_user_and_password(name.to_owned(), name.to_owned());
    options.connect(url).await.unwrap()
}

/// A server with names in memory.
pub(crate) struct Disk {
    names: Mutex<BTreeMap<String, BTreeSet<String>>>,
    files: Mutex<BTreeSet<String>>,
    pub(crate) status: Mutex<Status>,
    /// How long a look at a name takes.
    pub(crate) delay_ms: AtomicU64,
    pub(crate) events: watch::Sender<Vec<NodeEvent>>,
}

impl Disk {
    fn new(files: impl IntoIterator<Item = String>) -> Arc<Self> {
        let disk = Self {
            names: Mutex::default(),
            files: Mutex::default(),
            status: Mutex::default(),
            delay_ms: AtomicU64::new(0),
            events: watch::Sender::new(Vec::new()),
        };
        disk.add_directory("/d");
        files.into_iter().for_each(|file| disk.add(&file));
        Arc::new(disk)
    }

    fn add_directory(&self, directory: &str) {
        let mut names = self.names.lock().unwrap();
        let mut inner = path(directory);
        names.entry(directory.to_owned()).or_default();
        while let Some(parent) = inner.parent() {
            let name = inner.name().unwrap().to_owned();
            names.entry(parent.as_str().to_owned()).or_default().insert(name);
            inner = parent;
        }
    }

    /// Adds a file without a notice.
    pub(crate) fn add_silently(&self, file: &str) {
        self.add(file);
    }

    fn add(&self, file: &str) {
        let whole = path(file);
        let parent = whole.parent().unwrap();
        self.add_directory(parent.as_str());
        let mut names = self.names.lock().unwrap();
        let entries = names.get_mut(parent.as_str()).unwrap();
        entries.insert(whole.name().unwrap().to_owned());
        self.files.lock().unwrap().insert(file.to_owned());
    }

    fn remove_tree(&self, tree: &str) {
        let below = format!("{tree}/");
        self.files
            .lock()
            .unwrap()
            .retain(|file| file != tree && !file.starts_with(&below));
        let mut names = self.names.lock().unwrap();
        names.retain(|directory, _| directory != tree && !directory.starts_with(&below));
        let whole = path(tree);
        let parent = whole.parent().unwrap();
        if let Some(entries) = names.get_mut(parent.as_str()) {
            entries.remove(whole.name().unwrap());
        }
    }

    fn look(&self, name: &str) -> Says {
        if self.files.lock().unwrap().contains(name) {
            return Says::File { size_bytes: Some(1) };
        }
        match self.names.lock().unwrap().contains_key(name) {
            true => Says::Directory,
            false => Says::Nothing,
        }
    }
}

impl NodeFacts for Disk {
    fn status(&self) -> Status {
        *self.status.lock().unwrap()
    }

    async fn has(&self, path: &LogicalPath) -> Says {
        let delay_ms = self.delay_ms.load(Ordering::Relaxed);
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        self.look(path.as_str())
    }

    fn list(&self, directory: &LogicalPath) -> Listing {
        let names = self.names.lock().unwrap();
        let Some(entries) = names.get(directory.as_str()) else {
            let error = Err("no such directory".to_owned());
            return Box::pin(futures_util::stream::iter([error]));
        };
        let kind = |name: &String| {
            let whole = directory.join(name).unwrap();
            match names.contains_key(whole.as_str()) {
                true => Kind::Directory,
                false => Kind::File,
            }
        };
        let entries: Vec<Named> = entries
            .iter()
            .map(|name| Named {
                kind: kind(name),
                identity: None,
                name: name.clone(),
            })
            .collect();
        let pages: Vec<_> = entries.chunks(100).map(|page| Ok(page.to_vec())).collect();
        Box::pin(futures_util::stream::iter(pages))
    }

    fn note(&self, event: &NodeEvent) {
        self.events.send_modify(|events| events.push(event.clone()));
    }
}

/// A node: a disk and its membership.
pub(crate) struct Node {
    pub(crate) disk: Arc<Disk>,
    pub(crate) changes: NameChanges,
    pub(crate) member: Member<Disk>,
}

pub(crate) fn name_of(number: usize) -> String {
    format!("d{number}")
}

pub(crate) fn node_settings(access: Access, name: &str) -> NodeSettings {
    NodeSettings {
        access,
        subjects: Subjects::default(),
        name: BusName::parse(name).unwrap(),
        version: "0".to_owned(),
        doors: vec![format!("https://{name}:1094")],
        exports: vec![path("/d")],
        unfiltered: Vec::new(),
        rebuild_ms: 3_600_000,
    }
}

impl Node {
    /// A node with these files, which logs in under its own name.
    pub(crate) async fn start(url: &str, name: &str, files: impl IntoIterator<Item = String>) -> Self {
        Self::with(node_settings(access(url, name), name), Disk::new(files)).await
    }

    pub(crate) async fn with(settings: NodeSettings, disk: Arc<Disk>) -> Self {
        let changes = NameChanges::default();
        let member = Member::start(settings, disk.clone(), &changes).unwrap();
        Self { disk, changes, member }
    }

    pub(crate) fn disk(files: impl IntoIterator<Item = String>) -> Arc<Disk> {
        Disk::new(files)
    }

    pub(crate) fn create(&self, file: &str) {
        self.disk.add(file);
        self.changes.report(path(file));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.disk.remove_tree(name);
        self.changes.report(path(name));
    }

    /// Removes a file without a notice, and reports what its next reader does.
    pub(crate) fn lose(&self, file: &str) {
        self.disk.remove_tree(file);
        self.changes.report_missing(&path(file));
    }

    /// Makes a tree with these files, and gives notice of its root only, as a rename does.
    pub(crate) fn bring_tree(&self, root: &str, files: &[String]) {
        files.iter().for_each(|file| self.disk.add(file));
        self.changes.report(path(root));
    }

    pub(crate) fn drain(&self, drain: Drain) {
        self.disk.status.lock().unwrap().drain = drain;
        self.member.announce();
    }
}

/// A redirector. Dropping it ends its tasks.
pub(crate) struct Redirector {
    pub(crate) source: Arc<NatsSource>,
    pub(crate) director: Arc<Director>,
    pub(crate) events: watch::Receiver<Vec<Event>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Redirector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Redirector {
    /// A redirector with this number of nodes, each with the export `/d`.
    pub(crate) async fn start(url: &str, count: usize) -> Self {
        Self::with(access(url, "redirector"), count, None).await
    }

    pub(crate) async fn with(access: Access, count: usize, fallback: Option<Arc<dyn Locator>>) -> Self {
        let nodes: Vec<NatsNode> = (0..count)
            .map(|number| NatsNode {
                config: NodeConfig {
                    name: format!("https://{}:1094", name_of(number)),
                    exports: vec![path("/d")],
                    site: None,
                    weight: 1.0,
                },
                name: Some(BusName::parse(&name_of(number)).unwrap()),
            })
            .collect();
        let (told, events) = watch::channel(Vec::new());
        let note = move |event: &Event| told.send_modify(|events: &mut Vec<Event>| events.push(event.clone()));
        let settings = RedirectorSettings::new(access, Subjects::default());
        let configs: Vec<NodeConfig> = nodes.iter().map(|node| node.config.clone()).collect();
        let source = NatsSource::connect(settings, nodes, fallback, note).unwrap();
        let director = Arc::new(Director::new(configs, source.clone(), 1 << 20));
        let task = tokio::spawn(source.clone().follow(director.clone()));
        Self {
            source,
            director,
            events,
            task,
        }
    }

    pub(crate) fn view(&self) -> SourceView {
        self.source.view()
    }

    pub(crate) fn present(&self) -> usize {
        let is_present = |presence: &Presence| matches!(presence, Presence::Present { .. });
        let count =
            |nodes: &cluster::node::Nodes, _| nodes.iter().filter(|(_, node)| is_present(node.presence())).count();
        self.director.with_nodes(count)
    }

    /// Waits until this number of nodes is present with their filters.
    pub(crate) async fn until_ready(&self, count: usize) {
        until("all nodes are there with their filters", || {
            let view = self.view();
            view.nodes
                .iter()
                .filter(|node| node.is_present && node.has_filter)
                .count()
                == count
        })
        .await;
    }

    /// Waits for an event.
    pub(crate) async fn until_event(&mut self, wanted: impl Fn(&Event) -> bool) {
        let heard = self.events.wait_for(|events| events.iter().any(&wanted));
        drop(
            tokio::time::timeout(LIMIT, heard)
                .await
                .expect("the event comes")
                .unwrap(),
        );
    }

    /// The nodes that have a name; `None` if it certainly does not exist.
    pub(crate) async fn locate(&self, name: &str) -> Option<Vec<NodeId>> {
        match self.director.locate(&path(name), true).await {
            Ok(located) => Some(located.holders),
            Err(Undirected::NotFound(_)) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// The same from what is known.
    pub(crate) async fn known(&self, name: &str) -> Result<Vec<NodeId>, Undirected> {
        self.director
            .locate(&path(name), false)
            .await
            .map(|located| located.holders)
    }
}

/// Waits until something is so: polls, because counters give no events.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
