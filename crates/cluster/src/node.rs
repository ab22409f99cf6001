//! The nodes of a cluster: what they are allowed to have, whether they answer, how busy they are.

pub use policy::Drain;
use serde::{Deserialize, Serialize};
use types::LogicalPath;

use crate::limits::{
    CLOCK_AFTER_MS, CLOCK_OFF_MAX_MS, MUTE_AFTER_MS, MUTE_QUESTIONS, MUTE_TIME_MS, NODES_MAX, SENT_TIME_MS,
    STATUS_TIME_MS, TRANSFERS_FULL, WAIT_FULL_MS,
};

pub use crate::trouble::Trouble;

/// The number of a node among those of its redirector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// What the configuration says about a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeConfig {
    /// Its name: the URL under which it is configured.
    pub name: String,
    /// The trees that it may hold. What it claims outside of them is not believed.
    pub exports: Vec<LogicalPath>,
    /// Its site, for clients that prefer their own; what the node tells if nothing is said.
    pub site: Option<String>,
    /// Its strength relative to others; 1 if nothing is said.
    pub weight: f64,
}

impl NodeConfig {
    /// Whether the node may hold this name.
    pub fn may_hold(&self, path: &LogicalPath) -> bool {
        self.exports.iter().any(|export| path.is_within(export))
    }
}

/// What a node tells of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Transfers that run: uploads, pulls, downloads, pushes; files that are open count too.
    pub transfers: u32,
    /// Bytes a second that arrive, a mean over some seconds.
    pub in_bytes_s: u64,
    /// Bytes a second that leave.
    pub out_bytes_s: u64,
    /// How long requests waited lately for the head of their answer, 9 of 10 less.
    pub wait_ms: u32,
    /// Busy share of the machine's processors, 0 to 1.
    pub processors: f64,
    /// Share of the time in which something waited for a disk, 0 to 1 (`/proc/pressure/io`).
    pub disk_pressure: f64,
    /// Room that is left.
    pub free_bytes: u64,
    /// Room in all.
    pub total_bytes: u64,
    /// What it wants to be used for.
    pub drain: Drain,
    /// It has just started, and takes no new files or changes from clients of redirectors yet.
    pub is_starting: bool,
    /// Its clock when it told this, in milliseconds since 1970; 0 if it does not tell.
    pub time_ms: u64,
}

impl Status {
    /// The same with impossible values put right: a node may be wrong, and what it tells decides
    /// where clients go.
    #[must_use]
    pub fn sane(self) -> Self {
        let share = |value: f64| if value.is_finite() { value.clamp(0.0, 1.0) } else { 0.0 };
        Self {
            processors: share(self.processors),
            disk_pressure: share(self.disk_pressure),
            free_bytes: self.free_bytes.min(self.total_bytes),
            ..self
        }
    }
}

/// Whether a node answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// Nothing is known yet.
    Unknown,
    /// It answers, since this time.
    Present {
        /// When it came.
        since_ms: u64,
    },
    /// It does not, since this time.
    Absent {
        /// When it was lost.
        since_ms: u64,
        /// What it did instead of answering.
        reason: String,
    },
}

/// One node, and what is known about it now.
#[derive(Debug, Clone)]
pub struct Node {
    /// What the configuration says.
    pub config: NodeConfig,
    presence: Presence,
    /// What an operator ordered here; the stricter of this and the node's own wish holds.
    ordered: Drain,
    status: Option<Status>,
    status_ms: u64,
    /// The site that it has told.
    told_site: Option<String>,
    is_ours: bool,
    /// Clients that were sent there and are not in its status yet; they fade with time.
    sent: f64,
    sent_ms: u64,
    sent_total: u64,
    /// Since when it has answered no question about names, though it says that it is there.
    mute: Option<Mute>,
    /// The trees that it exports, if it has told them.
    told_exports: Option<Vec<LogicalPath>>,
    /// What it said when it refused our questions.
    refusal: Option<String>,
    /// It has answered a question since it came.
    is_proved: bool,
    /// Its clock, while it differs from ours.
    clock: Option<Clock>,
    /// It tells which names change.
    tells_changes: bool,
    /// Locations that were learned before are not believed: it was away, or a tree was renamed.
    forgotten_ms: u64,
}

impl Node {
    fn new(config: NodeConfig) -> Self {
        Self {
            config,
            presence: Presence::Unknown,
            ordered: Drain::Active,
            status: None,
            status_ms: 0,
            told_site: None,
            is_ours: false,
            sent: 0.0,
            sent_ms: 0,
            sent_total: 0,
            mute: None,
            told_exports: None,
            refusal: None,
            is_proved: false,
            clock: None,
            tells_changes: false,
            forgotten_ms: 0,
        }
    }

    /// Whether it answers.
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Whether it answers.
    pub fn is_present(&self) -> bool {
        matches!(self.presence, Presence::Present { .. })
    }

    /// What it is used for.
    pub fn drain(&self) -> Drain {
        let own = self.status.map_or(Drain::Active, |status| status.drain);
        own.max(self.ordered)
    }

    /// Whether it has just started, and refuses new files and changes for some seconds.
    pub fn is_starting(&self) -> bool {
        self.is_present() && self.status.is_some_and(|status| status.is_starting)
    }

    /// What it told last, if that was lately.
    pub fn status(&self, now_ms: u64) -> Option<&Status> {
        let known = self.status.as_ref()?;
        (now_ms.saturating_sub(self.status_ms) <= STATUS_TIME_MS).then_some(known)
    }

    /// Where it is.
    pub fn site(&self) -> Option<&str> {
        self.config.site.as_deref().or(self.told_site.as_deref())
    }

    /// Whether it is a server of ours: it has said so, or told its status, as no others do.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// When it told its status last; 0 if it never did.
    pub fn status_ms(&self) -> u64 {
        self.status_ms
    }

    /// What it did instead of answering questions about names, if it has not done so for a while: a
    /// hung disk. Others must not wait for it. One that refuses our questions is mute at once.
    pub fn mute(&self, now_ms: u64) -> Option<&str> {
        if let Some(words) = self.refusal() {
            return Some(words);
        }
        let mute = self.mute.as_ref()?;
        let age_ms = now_ms.saturating_sub(mute.since_ms);
        let is_meant = mute.questions >= MUTE_QUESTIONS && (MUTE_AFTER_MS..MUTE_TIME_MS).contains(&age_ms);
        is_meant.then_some(mute.reason.as_str())
    }

    /// What it said when it refused our questions, until it answers one: our token there is
    /// missing, has expired, or allows too little.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Whether a new file of this name may go there: the configuration gives it to the node, and
    /// the node exports it, or has not said what it exports.
    pub fn may_store(&self, path: &LogicalPath) -> bool {
        let exports = self.told_exports.as_ref();
        self.config.may_hold(path) && exports.is_none_or(|told| told.iter().any(|export| path.is_within(export)))
    }

    /// A name about which the node can be asked to see whether it lets us ask: the root of one of
    /// its trees. The root of all names says nothing, since many servers show it to no one.
    pub fn provable(&self) -> Option<&LogicalPath> {
        let trees = self.config.exports.iter().chain(self.told_exports.iter().flatten());
        trees.into_iter().find(|tree| !tree.is_root())
    }

    /// Trees that the configuration gives to the node, where it exports nothing.
    fn unexported(&self) -> Vec<LogicalPath> {
        let Some(told) = &self.told_exports else {
            return Vec::new();
        };
        let has_part = |given: &LogicalPath| told.iter().any(|own| own.is_within(given) || given.is_within(own));
        let given = self.config.exports.iter();
        given.filter(|given| !has_part(given)).cloned().collect()
    }

    /// Whether it has answered a question about a name since it came.
    pub fn is_proved(&self) -> bool {
        self.is_proved
    }

    /// Why it is not used as configured, if it is not.
    pub fn trouble(&self, now_ms: u64) -> Option<Trouble> {
        match (&self.presence, self.mute(now_ms)) {
            (Presence::Unknown, _) => None,
            (Presence::Absent { reason, .. }, _) => Some(Trouble::Away(reason.clone())),
            (Presence::Present { .. }, Some(words)) if self.refusal.is_some() => {
                Some(Trouble::Refuses(words.to_owned()))
            }
            (Presence::Present { .. }, Some(words)) => Some(Trouble::Mute(words.to_owned())),
            (Presence::Present { .. }, None) => self.clock_trouble(now_ms).or_else(|| {
                let missing = self.unexported();
                (!missing.is_empty()).then_some(Trouble::NotExported(missing))
            }),
        }
    }

    /// Its clock has differed from ours for a while: a message may be late.
    fn clock_trouble(&self, now_ms: u64) -> Option<Trouble> {
        let clock = self.clock.as_ref()?;
        let is_meant = now_ms.saturating_sub(clock.since_ms) >= CLOCK_AFTER_MS;
        is_meant.then_some(Trouble::Clock {
            ahead_s: clock.ahead_ms / 1_000,
        })
    }

    /// Whether readers may be sent there.
    pub fn takes_reads(&self) -> bool {
        self.is_present() && self.drain() < Drain::NoReads
    }

    /// Whether files that it has may be changed there, even while it is drained of new ones.
    pub fn takes_changes(&self) -> bool {
        self.takes_reads() && !self.is_starting()
    }

    /// Whether new files may be sent there.
    pub fn takes_writes(&self) -> bool {
        self.is_present()
            && self.refusal.is_none()
            && self.mute.as_ref().is_none_or(|mute| mute.questions < MUTE_QUESTIONS)
            && self.drain() == Drain::Active
            && !self.is_starting()
    }

    /// Whether it tells which names change: what is known of others is soon old.
    pub fn tells_changes(&self) -> bool {
        self.tells_changes
    }

    /// Clients that were sent there, ever.
    pub fn sent_total(&self) -> u64 {
        self.sent_total
    }

    /// Since when its locations are believed.
    pub fn forgotten_ms(&self) -> u64 {
        self.forgotten_ms
    }

    /// How busy it is: 0 is idle, 1 is as much as it can do. It is the worst of its resources, and
    /// clients that were sent there since its last news count as if they were in it.
    pub fn busy(&self, now_ms: u64) -> f64 {
        let sent = self.sent_now(now_ms);
        let weight = self.config.weight.max(f64::MIN_POSITIVE);
        let Some(status) = self.status(now_ms) else {
            return sent / (TRANSFERS_FULL * weight);
        };
        let transfers = (f64::from(status.transfers) + sent) / (TRANSFERS_FULL * weight);
        let waiting = f64::from(status.wait_ms) / WAIT_FULL_MS;
        [transfers, waiting, status.processors, status.disk_pressure]
            .into_iter()
            .fold(0.0, f64::max)
    }

    fn sent_now(&self, now_ms: u64) -> f64 {
        let age = now_ms.saturating_sub(self.sent_ms) as f64 / SENT_TIME_MS as f64;
        self.sent * (-age).exp()
    }
}

/// A clock that differs too much from ours.
#[derive(Debug, Clone)]
struct Clock {
    since_ms: u64,
    ahead_ms: i64,
}

/// A node that answers no questions.
#[derive(Debug, Clone)]
struct Mute {
    since_ms: u64,
    questions: u32,
    reason: String,
}

/// What changed about a node, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It answers now.
    Came,
    /// It does not answer any more.
    Went,
}

/// All nodes of a redirector.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: Vec<Node>,
    came_ms: u64,
}

impl Nodes {
    /// The nodes of a configuration; at most [`NODES_MAX`], further ones are left out.
    pub fn new(configs: impl IntoIterator<Item = NodeConfig>) -> Self {
        Self {
            nodes: configs.into_iter().take(NODES_MAX).map(Node::new).collect(),
            came_ms: 0,
        }
    }

    /// The node of this number.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::from(id.0))
    }

    /// When a node came last: "no node has it" from before is not believed any more.
    pub fn came_ms(&self) -> u64 {
        self.came_ms
    }

    /// All with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..=u16::MAX).map(NodeId).zip(&self.nodes)
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.iter().find(|(_, node)| node.config.name == name).map(|(id, _)| id)
    }

    /// A node has told how it is. It is present from then on.
    pub fn told(&mut self, id: NodeId, status: Option<Status>, now_ms: u64) -> Option<Change> {
        let node = self.nodes.get_mut(usize::from(id.0))?;
        if let Some(status) = status {
            node.status = Some(status.sane());
            node.status_ms = now_ms;
            node.is_ours = true;
            // They are in it, or have gone.
            node.sent = 0.0;
        }
        if node.is_present() {
            return None;
        }
        node.presence = Presence::Present { since_ms: now_ms };
        // What it had before it went may have changed meanwhile.
        node.forgotten_ms = now_ms;
        self.came_ms = now_ms;
        Some(Change::Came)
    }

    /// A node has told its time, which is so much ahead of ours.
    pub fn clock(&mut self, id: NodeId, ahead_ms: i64, now_ms: u64) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0)) {
            let since_ms = node.clock.as_ref().map_or(now_ms, |clock| clock.since_ms);
            let is_off = ahead_ms.unsigned_abs() > CLOCK_OFF_MAX_MS;
            node.clock = is_off.then_some(Clock { since_ms, ahead_ms });
        }
    }

    /// A node has told which trees it exports; `None` if it does not tell all.
    pub fn exports(&mut self, id: NodeId, exports: Option<Vec<LogicalPath>>) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0))
            && node.told_exports != exports
        {
            node.told_exports = exports;
        }
    }

    /// A node has told where it is.
    pub fn at_site(&mut self, id: NodeId, site: Option<&str>) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0))
            && node.told_site.as_deref() != site
        {
            node.told_site = site.map(str::to_owned);
        }
    }

    /// A node tells which names change from now on, or no longer does.
    pub fn tells(&mut self, id: NodeId, tells_changes: bool) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0)) {
            node.tells_changes = tells_changes;
        }
    }

    /// A node has answered a question about a name.
    pub fn answered(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0)) {
            node.mute = None;
            node.refusal = None;
            node.is_proved = true;
        }
    }

    /// A node does not let us ask.
    pub fn refused(&mut self, id: NodeId, words: &str) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0)) {
            node.refusal = Some(words.to_owned());
        }
    }

    /// A node could not answer a question about a name.
    pub fn unanswered(&mut self, id: NodeId, reason: &str, now_ms: u64) {
        let Some(node) = self.nodes.get_mut(usize::from(id.0)) else {
            return;
        };
        let is_over = |mute: &Mute| now_ms.saturating_sub(mute.since_ms) >= MUTE_TIME_MS;
        if node.mute.as_ref().is_some_and(is_over) {
            node.mute = None;
        }
        let mute = node.mute.get_or_insert_with(|| Mute {
            since_ms: now_ms,
            questions: 0,
            reason: reason.to_owned(),
        });
        mute.questions = mute.questions.saturating_add(1);
    }

    /// Whether a node that tells no status is a server of ours.
    pub fn identified(&mut self, id: NodeId, is_ours: bool) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0)) {
            node.is_ours = is_ours;
        }
    }

    /// A node does not answer.
    pub fn lost(&mut self, id: NodeId, reason: &str, now_ms: u64) -> Option<Change> {
        let node = self.nodes.get_mut(usize::from(id.0))?;
        if let Presence::Absent { reason: known, .. } = &mut node.presence {
            // It may be another one now, as after a restart with a wrong certificate.
            if known != reason {
                reason.clone_into(known);
            }
            return None;
        }
        (node.refusal, node.is_proved) = (None, false);
        let went = node.is_present();
        node.presence = Presence::Absent {
            since_ms: now_ms,
            reason: reason.to_owned(),
        };
        node.status = None;
        went.then_some(Change::Went)
    }

    /// An operator drains a node, or takes it back.
    pub fn order(&mut self, id: NodeId, drain: Drain) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0)) {
            node.ordered = drain;
        }
    }

    /// Locations on this node that are known so far are not believed any more.
    pub fn forget(&mut self, id: NodeId, now_ms: u64) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0)) {
            node.forgotten_ms = now_ms;
        }
    }

    /// A client was sent there.
    pub fn sent(&mut self, id: NodeId, now_ms: u64) {
        if let Some(node) = self.nodes.get_mut(usize::from(id.0)) {
            node.sent = node.sent_now(now_ms) + 1.0;
            node.sent_ms = now_ms;
            node.sent_total += 1;
        }
    }

    /// Nodes that answer and may hold this name.
    pub fn candidates<'a>(&'a self, path: &'a LogicalPath, now_ms: u64) -> impl Iterator<Item = NodeId> + 'a {
        self.iter()
            .filter(move |(_, node)| node.is_present() && node.mute(now_ms).is_none() && node.config.may_hold(path))
            .map(|(id, _)| id)
    }
}
