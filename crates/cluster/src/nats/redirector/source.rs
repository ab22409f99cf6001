//! The source of a redirector: what its tasks share, and what it shows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout};
use types::LogicalPath;

use super::peer::{May, Peer, PeerCounts};
use super::placements::Placements;
use super::questions::Questions;
use super::{ear, watch as presence};
use crate::director::Director;
use crate::locator::Locator;
use crate::nats::bus::{Access, AccessFault, Bus, BusEvent, BusView};
use crate::nats::limits::{AWAY_AFTER_MS, COMING_MAX, FILTERS_BYTES, SETTLE_TIME_MS};
use crate::nats::message::Coming;
use crate::nats::subjects::{BusName, Subjects};
use crate::node::{NodeConfig, NodeId};

/// A node of the configuration, with its name on the bus.
#[derive(Clone, Debug)]
pub struct NatsNode {
    /// What the configuration says.
    pub config: NodeConfig,
    /// Its name on the bus, to which the permissions of its user bind it. `None`: it is not on the
    /// bus, and is asked directly. The caller looks after it.
    pub name: Option<BusName>,
}

/// How a redirector takes part.
#[derive(Clone, Debug)]
pub struct RedirectorSettings {
    /// The bus.
    pub access: Access,
    /// The subjects of the cluster.
    pub subjects: Subjects,
    /// Memory for copies of filters, in bytes. Nodes whose filter does not fit are asked about
    /// every name.
    pub filters_bytes_max: usize,
}

impl RedirectorSettings {
    /// Settings with the usual limits.
    #[must_use]
    pub fn new(access: Access, subjects: Subjects) -> Self {
        Self {
            access,
            subjects,
            filters_bytes_max: FILTERS_BYTES,
        }
    }
}

/// Why a source cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceFault {
    /// The bus can never be reached.
    Access(AccessFault),
    /// Two nodes have the same name on the bus.
    SameName(BusName),
}

/// What happens at a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection to the bus.
    Bus(BusEvent),
    /// The bus works: messages come back.
    Works,
    /// The bus does not work. What is known goes on being answered.
    Away,
    /// A node answers now.
    Came(NodeId),
    /// A node tells more changes than are read: it is asked about every name for a while.
    Floods(NodeId),
    /// A node does not answer any more.
    Went {
        /// Which.
        node: NodeId,
        /// What it did instead.
        reason: String,
    },
}

/// Hears events; it must not block.
pub(super) type Note = Arc<dyn Fn(&Event) + Send + Sync>;

/// Nodes that are found over a message bus.
pub struct NatsSource {
    pub(super) settings: RedirectorSettings,
    /// Our own name in subjects: another one in each process.
    pub(super) me: BusName,
    pub(super) nodes: Vec<NatsNode>,
    pub(super) by_name: HashMap<String, NodeId>,
    peers: Vec<Mutex<Peer>>,
    pub(super) bus: Bus,
    pub(super) questions: Questions,
    placements: Mutex<Placements>,
    /// For the other redirectors.
    coming: mpsc::Sender<Coming>,
    to_tell: Mutex<Option<mpsc::Receiver<Coming>>>,
    pub(super) direct: Option<Arc<dyn Locator>>,
    /// Whether the bus works.
    pub(super) works: watch::Sender<bool>,
    /// Whether the bus has worked for so long that nodes would have come back to it.
    pub(super) is_steady: watch::Sender<bool>,
    /// Messages were lost.
    pub(super) was_slow: Arc<Notify>,
    /// A filter is complete: there is time for another.
    pub(super) was_fetched: Notify,
    pub(super) note: Note,
    pub(super) counts: Counts,
    began: Instant,
}

/// What was sent and received.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) asked: AtomicU64,
    pub(super) excluded: AtomicU64,
    pub(super) strangers: AtomicU64,
    /// Messages of other redirectors about new files that were not read.
    pub(super) left_out: AtomicU64,
    /// When the latest of our messages to ourselves that came back was sent, in milliseconds of
    /// [`NatsSource::now_ms`]; 0: none.
    pub(super) echoed_ms: AtomicU64,
}

/// A source, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceView {
    /// The connection.
    pub bus: BusView,
    /// Whether messages come back over it.
    pub works: bool,
    /// Questions that wait for answers.
    pub waiting: usize,
    /// Nodes that were asked, summed over all questions.
    pub asked: u64,
    /// Nodes that need not be asked because of their filters, summed over all questions.
    pub excluded: u64,
    /// Messages from names that the configuration does not have.
    pub strangers: u64,
    /// Messages of other redirectors about new files, beyond what is read of them.
    pub left_out: u64,
    /// Bytes of all copies of filters.
    pub filters_bytes: usize,
    /// The nodes on the bus, in the order of the configuration.
    pub nodes: Vec<NodeView>,
}

/// A node at a source, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The URL under which it is configured.
    pub url: String,
    /// Its name on the bus.
    pub name: BusName,
    /// Two servers use this name: neither is believed.
    pub is_doubled: bool,
    /// Whether it announces itself.
    pub is_present: bool,
    /// Whether a copy of its filter is in use; without, it is asked about every name.
    pub has_filter: bool,
    /// Bytes of the copy.
    pub filter_bytes: usize,
    /// About how many names it has.
    pub names: u64,
    /// The version of its program.
    pub version: String,
    /// URLs of its doors.
    pub doors: Vec<String>,
    /// Trees that it exports and that the configuration does not give to it.
    pub foreign_exports: Vec<String>,
    /// What was counted.
    pub counts: PeerCounts,
}

impl NatsSource {
    /// Begins to connect to the bus; it must be called within a runtime. The nodes have the order,
    /// and so the numbers, of the director's. `direct` asks nodes that are not on the bus, and all
    /// nodes while the bus is away; without it, these cannot tell. `note` hears what happens, and
    /// must not block.
    ///
    /// # Errors
    /// [`SourceFault`]; an unreachable bus is none.
    pub fn connect(
        settings: RedirectorSettings,
        nodes: Vec<NatsNode>,
        direct: Option<Arc<dyn Locator>>,
        note: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, SourceFault> {
        let mut by_name = HashMap::new();
        for (number, node) in (0..=u16::MAX).zip(&nodes) {
            let Some(name) = &node.name else { continue };
            if by_name.insert(name.as_str().to_owned(), NodeId(number)).is_some() {
                return Err(SourceFault::SameName(name.clone()));
            }
        }
        let me = BusName::of_redirector();
        let (note, was_slow): (Note, _) = (Arc::new(note), Arc::new(Notify::new()));
        let (told, slow) = (note.clone(), was_slow.clone());
        let hear = move |event: BusEvent| {
            if event == BusEvent::Slow {
                slow.notify_one();
            }
            told(&Event::Bus(event));
        };
        let bus = Bus::connect(&settings.access, me.as_str(), hear);
        let bus = bus.map_err(SourceFault::Access)?;
        let (coming, to_tell) = mpsc::channel(COMING_MAX);
        let source = Self {
            peers: nodes.iter().map(|_| Mutex::default()).collect(),
            settings,
            me,
            nodes,
            by_name,
            bus,
            questions: Questions::default(),
            placements: Mutex::default(),
            coming,
            to_tell: Mutex::new(Some(to_tell)),
            direct,
            works: watch::Sender::new(false),
            is_steady: watch::Sender::new(false),
            was_slow,
            was_fetched: Notify::new(),
            note,
            counts: Counts::default(),
            began: Instant::now(),
        };
        Ok(Arc::new(source))
    }

    /// Follows the nodes, and tells the director. It ends when the client of the bus does; dropping
    /// it stops everything.
    pub async fn follow(self: Arc<Self>, director: Arc<Director>) {
        let news = ear::hear_news(self.clone(), director.clone());
        let answers = ear::hear_answers(self.clone(), director.clone());
        let presence = presence::watch(self.clone(), director);
        tokio::select! {
            () = news => {}
            () = answers => {}
            () = presence => {}
            () = presence::echo(self.clone()) => {}
            () = self.tell_coming() => {}
        }
    }

    /// Milliseconds since one before the start.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX) + 1
    }

    /// Tells other redirectors of names that come soon: their clients may ask for a file as soon as
    /// it is stored, before its node has told of it.
    async fn tell_coming(&self) {
        let to_tell = self.to_tell.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut to_tell) = to_tell else {
            return std::future::pending().await;
        };
        let subject = self.settings.subjects.placed_of(self.me.as_str());
        while let Some(coming) = to_tell.recv().await {
            self.bus.send(subject.clone(), coming.encode()).await;
        }
    }

    /// A name comes soon. If there are too many, the others learn of it from its node.
    pub(super) fn announce_coming(&self, coming: Coming) {
        let _ = self.coming.try_send(coming);
    }

    /// Waits until all nodes on the bus have announced themselves, or for [`SETTLE_TIME_MS`], after
    /// which the others count as absent. Before that, "no node has it" may be too early.
    pub async fn settle(&self) {
        let all = async {
            let mut works = self.works.subscribe();
            let _ = works.wait_for(|works| *works).await;
            while !self.ids().all(|id| self.peer(id).is_some_and(|peer| peer.is_present)) {
                tokio::time::sleep(Duration::from_millis(crate::nats::limits::LOOK_INTERVAL_MS)).await;
            }
        };
        let _ = timeout(Duration::from_millis(SETTLE_TIME_MS), all).await;
    }

    /// What is known of a node; nothing may be waited for while it is held. `None` for a number
    /// that is not among the nodes.
    pub(super) fn peer(&self, node: NodeId) -> Option<MutexGuard<'_, Peer>> {
        let peer = self.peers.get(usize::from(node.0))?;
        Some(peer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The numbers of all nodes on the bus.
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        let numbered = (0..=u16::MAX).map(NodeId).zip(&self.nodes);
        numbered.filter(|(_, node)| node.name.is_some()).map(|(id, _)| id)
    }

    /// The name of a node on the bus; `None` if it is not there.
    pub(super) fn name(&self, node: NodeId) -> Option<&str> {
        let node = self.nodes.get(usize::from(node.0))?;
        node.name.as_ref().map(BusName::as_str)
    }

    pub(super) fn bus_name(&self, node: NodeId) -> Option<&BusName> {
        self.nodes.get(usize::from(node.0))?.name.as_ref()
    }

    /// Whether a node is on the bus. Others are looked after by the caller of
    /// [`NatsSource::follow`].
    #[must_use]
    pub fn is_on_bus(&self, node: NodeId) -> bool {
        self.name(node).is_some()
    }

    /// Whether the configuration gives this name to the node.
    pub(super) fn may_hold(&self, node: NodeId, path: &LogicalPath) -> bool {
        let node = self.nodes.get(usize::from(node.0));
        node.is_some_and(|node| node.config.may_hold(path))
    }

    /// Whether a node may have a name.
    pub(super) fn may_have(&self, node: NodeId, path: &LogicalPath) -> May {
        if !self.may_hold(node, path) {
            return May::No;
        }
        self.peer(node).map_or(May::No, |peer| peer.may_have(path))
    }

    pub(super) fn placements(&self) -> MutexGuard<'_, Placements> {
        self.placements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the bus has been away for a while, so that nodes are to be looked at directly.
    pub async fn is_away(&self) {
        let mut works = self.works.subscribe();
        loop {
            // It does not end: `self` has the sender.
            let _ = works.wait_for(|works| !works).await;
            let back = works.wait_for(|works| *works);
            if timeout(Duration::from_millis(AWAY_AFTER_MS), back).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the bus works.
    pub async fn is_back(&self) {
        let mut works = self.works.subscribe();
        let _ = works.wait_for(|works| *works).await;
    }

    /// Whether the bus works.
    pub fn works(&self) -> bool {
        *self.works.borrow()
    }

    /// How it is doing.
    #[must_use]
    pub fn view(&self) -> SourceView {
        let nodes: Vec<NodeView> = self.ids().filter_map(|id| self.node_view(id)).collect();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SourceView {
            bus: self.bus.view(),
            works: self.works(),
            waiting: self.questions.len(),
            asked: count(&self.counts.asked),
            excluded: count(&self.counts.excluded),
            strangers: count(&self.counts.strangers),
            left_out: count(&self.counts.left_out),
            filters_bytes: nodes.iter().map(|node| node.filter_bytes).sum(),
            nodes,
        }
    }

    fn node_view(&self, id: NodeId) -> Option<NodeView> {
        let node = self.nodes.get(usize::from(id.0))?;
        let peer = self.peer(id)?;
        let said = peer.said.clone().unwrap_or_default();
        let is_given = |export: &String| LogicalPath::parse(export).is_ok_and(|path| node.config.may_hold(&path));
        Some(NodeView {
            url: node.config.name.clone(),
            name: node.name.clone()?,
            is_doubled: peer.has_two_speakers(),
            is_present: peer.is_present,
            has_filter: peer.has_copy(),
            filter_bytes: peer.bytes(),
            names: said.names.count,
            version: said.version,
            doors: said.doors,
            foreign_exports: said.exports.into_iter().filter(|export| !is_given(export)).collect(),
            counts: peer.counts,
        })
    }
}

impl std::fmt::Debug for NatsSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("NatsSource")
    }
}
