//! The tree of one decision: storage, link, virtual organisation, group of activities, user,
//! activity; and the limits that its branches share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::accounts::{Accounts, LIMITS, ROOT};
use super::contention::Contention;
use super::input::{Inputs, LinkPolicy, Queue};
use super::key::Key;
use crate::Reason;
use crate::limits::{PRIORITY_MIN, SHARE_MAX, SHARE_MIN};
use crate::storage::host;

/// A limit and its use.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub(super) active: u64,
    pub(super) max: u32,
    /// Starts in this decision.
    pub(super) started: u64,
    /// The flow for which one slot is kept.
    pub(super) reserved: Option<usize>,
    /// Weight of all flows that want slots of it.
    pub(super) weight: f64,
}

impl Limit {
    /// Whether `flow` can have a slot.
    pub(super) fn has_slot(&self, flow: usize) -> bool {
        let kept = u64::from(self.reserved.is_some_and(|other| other != flow));
        self.active + kept < u64::from(self.max)
    }

    /// Slots that are neither used nor kept.
    pub(super) fn free(&self) -> u64 {
        let kept = u64::from(self.reserved.is_some());
        u64::from(self.max).saturating_sub(self.active + kept)
    }
}

/// The limits of a flow.
#[derive(Clone, Copy, Default)]
pub(super) struct Limits {
    pub(super) outbound: usize,
    pub(super) inbound: usize,
    pub(super) link: usize,
    pub(super) vo: usize,
    pub(super) host_outbound: usize,
    pub(super) host_inbound: usize,
}

impl Limits {
    pub(super) fn all(self) -> [usize; LIMITS] {
        [
            self.outbound,
            self.inbound,
            self.link,
            self.vo,
            self.host_outbound,
            self.host_inbound,
        ]
    }
}

/// What a branch stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Level {
    /// A destination, or a link into it.
    #[default]
    Storage,
    /// A virtual organisation on a link.
    Flow,
    /// A group of activities there.
    Group,
    /// A user of one.
    User,
    /// An activity of a user.
    Activity,
    /// A limit that several users want, or who wants it.
    Holder,
}

/// A branch in this decision. It has the same index as its account.
#[derive(Default)]
pub(super) struct Branch {
    pub(super) is_present: bool,
    pub(super) level: Level,
    pub(super) parent: usize,
    pub(super) weight: f64,
    pub(super) active: u64,
    pub(super) started: u64,
    /// Whether something below it could start but for limits.
    pub(super) wants: bool,
    /// Children with files, by use.
    pub(super) ready: BinaryHeap<Reverse<(Key, usize)>>,
    pub(super) limits: Limits,
    /// Of a link: the highest priority of files that could start, with age.
    priority: u8,
    /// The shares of those below it that want slots: of a link, and of a limit that several want.
    pub(super) shares: f64,
    /// The branches below it.
    pub(super) children: Vec<usize>,
    /// The first of its queues that can start files but for limits.
    pub(super) first: usize,
    /// Of a user at a limit that several want: slots that are the user's in this pass, and files
    /// that could use them.
    pub(super) promised: u64,
    pub(super) wanted: u64,
    /// Of an activity: its queues with files.
    pub(super) queues: Vec<usize>,
    /// Of a virtual organisation on a link: why nothing of it may start.
    pub(super) gates: Vec<Reason>,
}

/// The branches of a queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Path {
    pub(super) destination: usize,
    pub(super) link: usize,
    pub(super) flow: usize,
    pub(super) group: usize,
    pub(super) user: usize,
    pub(super) activity: usize,
}

impl Path {
    pub(super) fn all(self) -> [usize; 6] {
        [
            self.destination,
            self.link,
            self.flow,
            self.group,
            self.user,
            self.activity,
        ]
    }
}

/// The tree of one decision.
#[derive(Default)]
pub(super) struct Tree<'a> {
    pub(super) branches: Vec<Branch>,
    pub(super) limits: Vec<Limit>,
    /// Of each queue.
    pub(super) paths: Vec<Path>,
    /// All branches with files, parents first.
    pub(super) present: Vec<usize>,
    /// Virtual organisations on links.
    pub(super) flows: Vec<usize>,
    /// Storages that get files.
    pub(super) destinations: usize,
    /// Of each link: its settings.
    pub(super) policies: HashMap<usize, LinkPolicy>,
    /// The limits for whose slots several users contend.
    pub(super) contention: Contention,
    outbound: HashMap<&'a str, usize>,
    hosts_out: HashMap<&'a str, usize>,
    hosts_in: HashMap<&'a str, usize>,
    vos: HashMap<&'a str, usize>,
}

impl<'a> Tree<'a> {
    pub(super) fn of(inputs: &Inputs<'a>, accounts: &mut Accounts) -> Self {
        let mut tree = Self::default();
        tree.branches.resize_with(accounts.len(), Branch::default);
        tree.branches[ROOT].weight = 1.0;
        tree.paths.reserve(inputs.queues.len());
        for (index, queue) in inputs.queues.iter().enumerate() {
            let path = match index
                .checked_sub(1)
                .map(|before| (&inputs.queues[before], tree.paths[before]))
            {
                Some((before, path)) if is_same_activity(before, queue) => path,
                _ => tree.path(inputs, accounts, queue),
            };
            tree.paths.push(path);
            let served_ms = accounts.get(path.activity).served_ms[queue.slot()];
            tree.add(index, queue, path, queue.aged_priority(served_ms, inputs.now_ms));
        }
        tree.weigh();
        tree.enter_contention(inputs, accounts);
        tree
    }

    /// The branches of a queue, made if they are not there.
    fn path(&mut self, inputs: &Inputs<'a>, accounts: &mut Accounts, queue: &Queue<'a>) -> Path {
        let destination = accounts.child(ROOT, queue.destination);
        let link = accounts.child(destination, queue.source);
        let flow = accounts.child(link, queue.vo);
        let group_name = inputs.policy.activity_group(queue.vo, queue.activity);
        let group = accounts.child(flow, group_name);
        let user = accounts.child(group, queue.user);
        let activity = accounts.child(user, queue.activity);
        self.branches.resize_with(accounts.len(), Branch::default);
        if self.enter(destination, ROOT, 1.0) {
            self.destinations += 1;
            let inbound = self.limit(inputs.policy.inbound_max(queue.destination));
            self.branches[destination].limits.inbound = inbound;
            let host = host(queue.destination);
            let host_inbound = match self.hosts_in.get(host) {
                Some(limit) => *limit,
                None => self.limit(inputs.policy.host_inbound_max(queue.destination).unwrap_or(u32::MAX)),
            };
            self.hosts_in.insert(host, host_inbound);
            self.branches[destination].limits.host_inbound = host_inbound;
        }
        if self.enter(link, destination, 1.0) {
            self.enter_link(inputs, queue, link, destination);
        }
        if self.enter(
            flow,
            link,
            inputs.policy.vo_share(queue.source, queue.destination, queue.vo),
        ) {
            self.enter_flow(inputs, queue, flow, link);
        }
        self.enter_below(
            group,
            flow,
            Level::Group,
            inputs.policy.activity_share(queue.vo, group_name),
        );
        self.enter_below(user, group, Level::User, 1.0);
        self.enter_below(activity, user, Level::Activity, 1.0);
        Path {
            destination,
            link,
            flow,
            group,
            user,
            activity,
        }
    }

    /// Enters a branch that its parent knows as a child; whether it is new.
    pub(super) fn enter_below(&mut self, index: usize, parent: usize, level: Level, share: f64) -> bool {
        let is_new = self.enter(index, parent, share);
        if is_new {
            self.branches[index].level = level;
            self.branches[parent].children.push(index);
        }
        is_new
    }

    pub(super) fn enter(&mut self, index: usize, parent: usize, share: f64) -> bool {
        let branch = &mut self.branches[index];
        let is_new = !branch.is_present;
        if is_new {
            branch.is_present = true;
            branch.parent = parent;
            branch.weight = if share.is_finite() {
                share.clamp(SHARE_MIN, SHARE_MAX)
            } else {
                1.0
            };
            self.present.push(index);
        }
        is_new
    }

    fn limit(&mut self, max: u32) -> usize {
        self.limits.push(Limit {
            active: 0,
            max,
            started: 0,
            reserved: None,
            weight: 0.0,
        });
        self.limits.len() - 1
    }

    fn enter_link(&mut self, inputs: &Inputs<'a>, queue: &Queue<'a>, link: usize, destination: usize) {
        let policy = inputs.policy.link(queue.source, queue.destination);
        let max = policy.target.map_or(policy.max, |target| target.min(policy.max));
        let outbound = match self.outbound.get(queue.source) {
            Some(limit) => *limit,
            None => self.limit(inputs.policy.outbound_max(queue.source)),
        };
        self.outbound.insert(queue.source, outbound);
        let host_outbound = match self.hosts_out.get(host(queue.source)) {
            Some(limit) => *limit,
            None => self.limit(inputs.policy.host_outbound_max(queue.source).unwrap_or(u32::MAX)),
        };
        self.hosts_out.insert(host(queue.source), host_outbound);
        let limits = Limits {
            outbound,
            link: self.limit(max),
            host_outbound,
            ..self.branches[destination].limits
        };
        self.branches[link].limits = limits;
        self.policies.insert(link, policy);
    }

    fn enter_flow(&mut self, inputs: &Inputs<'a>, queue: &Queue<'a>, flow: usize, link: usize) {
        let vo = match self.vos.get(queue.vo) {
            Some(limit) => *limit,
            None => self.limit(inputs.policy.vo_max(queue.vo).unwrap_or(u32::MAX)),
        };
        self.vos.insert(queue.vo, vo);
        self.branches[flow].limits = Limits {
            vo,
            ..self.branches[link].limits
        };
        let policy = &self.policies[&link];
        let bans = [queue.source, queue.destination].map(|storage| inputs.policy.ban(storage, queue.vo));
        let hold = policy.hold.clone().filter(|hold| hold.until_ms > inputs.now_ms);
        let gates = bans.into_iter().flatten().map(Reason::Banned);
        let gates = gates.chain(policy.is_paused.then_some(Reason::LinkPaused));
        self.branches[flow].gates = gates.chain(hold.map(Reason::LinkHeld)).collect();
        self.branches[flow].level = Level::Flow;
        self.branches[link].children.push(flow);
        self.flows.push(flow);
    }

    fn add(&mut self, index: usize, queue: &Queue<'a>, path: Path, priority: u8) {
        let flow = &self.branches[path.flow];
        let (limits, is_open) = (flow.limits, flow.gates.is_empty());
        for branch in path.all() {
            self.branches[branch].active += queue.active;
        }
        for limit in limits.all() {
            self.limits[limit].active += queue.active;
        }
        if queue.waiting == 0 || !is_open {
            return;
        }
        for branch in path.all() {
            let branch = &mut self.branches[branch];
            if !branch.wants {
                branch.wants = true;
                branch.first = index;
            }
        }
        let link = &mut self.branches[path.link];
        link.priority = link.priority.max(priority);
        self.branches[path.activity].queues.push(index);
    }

    /// Links weigh twice as much for each step of their highest priority. Limits learn how much
    /// weight contends for them.
    fn weigh(&mut self) {
        for flow in &self.flows {
            let (parent, weight, wants) = {
                let flow = &self.branches[*flow];
                (flow.parent, flow.weight, flow.wants)
            };
            let link = &mut self.branches[parent];
            link.weight = f64::from(1_u32 << link.priority.saturating_sub(PRIORITY_MIN));
            link.shares += if wants { weight } else { 0.0 };
        }
        for flow in &self.flows {
            if self.branches[*flow].wants {
                let weight = self.flow_weight(*flow);
                for limit in self.branches[*flow].limits.all() {
                    self.limits[limit].weight += weight;
                }
            }
        }
    }

    /// The part of the turns at one of its limits, or with [`LIMITS`] at the worker, that a flow
    /// should have.
    pub(super) fn flow_part(&self, flow: usize, slot: usize) -> f64 {
        if let Some(part) = self.contended_part(flow, slot) {
            return part;
        }
        let (weight, limits) = (self.flow_weight(flow), self.branches[flow].limits);
        match limits.all().get(slot) {
            Some(limit) => weight / self.limits[*limit].weight,
            None => weight / self.limits[limits.inbound].weight / self.destinations as f64,
        }
    }

    /// The weight of a virtual organisation on a link beside all others.
    pub(super) fn flow_weight(&self, flow: usize) -> f64 {
        let flow = &self.branches[flow];
        let link = &self.branches[flow.parent];
        link.weight * flow.weight / link.shares
    }

    /// Whether a flow finds a slot at each of its limits.
    pub(super) fn has_slot(&self, flow: usize) -> bool {
        let limits = self.branches[flow].limits.all();
        limits.iter().all(|limit| self.limits[*limit].has_slot(flow))
    }
}

fn is_same_activity(one: &Queue<'_>, other: &Queue<'_>) -> bool {
    one.activity == other.activity
        && one.user == other.user
        && one.source == other.source
        && one.destination == other.destination
        && one.vo == other.vo
}
