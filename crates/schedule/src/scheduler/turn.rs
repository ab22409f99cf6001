//! Turns of one decision: first those that are overdue, then by share.

use std::cmp::Reverse;

use super::accounts::{Account, Accounts, LIMITS, ROOT};
use super::input::{Grant, Inputs, Queue, ShareUnit, Shortfall};
use super::key::Key;
use super::tree::{Level, Limit, Path, Tree};
use crate::limits::{
    ACTIVE_WEIGHT_MS, CREDIT_MAX_BYTES, CREDIT_MAX_MS, OVERTAKING_FACTOR, START_COST_MS, UNKNOWN_SIZE_BYTES,
};
use crate::storage::host;
use crate::{Reason, StorageFull};

/// The limit of the link among those of a virtual organisation there.
pub(super) const ON_LINK: usize = 2;

/// One decision under way.
pub(super) struct Round<'a, 'b> {
    pub(super) inputs: &'b Inputs<'a>,
    pub(super) tree: Tree<'a>,
    accounts: &'b mut Accounts,
    decision: u64,
    pub(super) places: u32,
    pub(super) granted: Vec<u32>,
    /// What a running copy counts as, beside use in the past.
    pub(super) active_weight_ms: f64,
}

impl<'a, 'b> Round<'a, 'b> {
    pub(super) fn new(inputs: &'b Inputs<'a>, tree: Tree<'a>, accounts: &'b mut Accounts, decision: u64) -> Self {
        Self {
            inputs,
            tree,
            accounts,
            decision,
            places: inputs.places,
            granted: vec![0; inputs.queues.len()],
            active_weight_ms: ACTIVE_WEIGHT_MS,
        }
    }

    /// The time that copies have held slots since the last decision.
    pub(super) fn slots_ms(&self, elapsed_ms: i64) -> f64 {
        let flows = self.tree.flows.iter().map(|flow| self.accounts.get(*flow).running);
        flows.sum::<u64>() as f64 * elapsed_ms as f64
    }

    /// Files that this decision starts.
    pub(super) fn started(&self) -> f64 {
        f64::from(self.inputs.places - self.places)
    }

    /// Whether a branch's use is counted in bytes: all shares, not the turns of storages.
    fn is_by_bytes(&self, branch: usize) -> bool {
        let is_storage = self.tree.branches[branch].level == Level::Storage;
        self.inputs.share_unit == ShareUnit::Bytes && !is_storage
    }

    /// Charges for the time since the last decision, and limits credit and debt.
    pub(super) fn charge_elapsed(&mut self, elapsed_ms: i64) {
        for index in 0..self.tree.present.len() {
            let branch = self.tree.present[index];
            let (parent, weight, wants) = {
                let branch = &self.tree.branches[branch];
                (branch.parent, branch.weight, branch.wants)
            };
            let by_bytes = self.is_by_bytes(branch);
            let clock = self.accounts.get(parent).clock;
            let account = self.accounts.get_mut(branch);
            if !by_bytes {
                account.used += account.running as f64 * elapsed_ms as f64 / weight;
            }
            let credit = if by_bytes { CREDIT_MAX_BYTES } else { CREDIT_MAX_MS } / weight;
            account.used = account.used.clamp(clock - credit, clock + credit);
            if wants {
                if account.wanted + 1 != self.decision {
                    account.used = account.used.max(clock);
                }
                account.wanted = self.decision;
            }
            account.seen = self.decision;
        }
    }

    /// Gives overdue flows a turn, or keeps slots for them.
    pub(super) fn serve_overdue(&mut self) {
        let flows = self.tree.flows.iter().copied();
        let turns = flows.filter_map(|flow| Some((Reverse(Key(self.overtaken(flow)?)), flow)));
        let mut overdue: Vec<_> = turns.collect();
        overdue.sort_unstable();
        for (_, flow) in overdue {
            if self.places == 0 {
                return;
            }
            if self.tree.has_slot(flow) {
                self.serve_flow(flow);
            } else {
                self.reserve(flow);
            }
        }
    }

    /// How often an overdue flow was overtaken; `None` if it is not overdue. Within a link its
    /// share decides, unless it is overdue there as well.
    fn overtaken(&self, flow: usize) -> Option<f64> {
        if !self.tree.branches[flow].wants {
            return None;
        }
        let overtaken = self.accounts.get(flow).overtaken;
        let on_link = overtaken[ON_LINK];
        let elsewhere = overtaken.iter().enumerate().filter(|(limit, _)| *limit != ON_LINK);
        let most = elsewhere.fold(0.0_f64, |most, (_, turns)| most.max(*turns));
        if most < OVERTAKING_FACTOR {
            return None;
        }
        let siblings = self.tree.branches[self.tree.branches[flow].parent]
            .children
            .iter()
            .copied();
        let first = || {
            siblings
                .filter(|flow| self.tree.branches[*flow].wants)
                .min_by_key(|flow| (self.key(*flow), *flow))
        };
        (on_link >= OVERTAKING_FACTOR || first() == Some(flow)).then_some(most)
    }

    /// A turn of one flow outside of its share's order.
    fn serve_flow(&mut self, flow: usize) {
        let mut branch = flow;
        while self.tree.branches[branch].level != Level::Activity {
            let children = self.tree.branches[branch].children.iter().copied();
            let wanting = children.filter(|child| self.tree.branches[*child].wants);
            let Some(next) = wanting.min_by_key(|child| self.key(*child)) else {
                return;
            };
            branch = next;
        }
        if let Some(queue) = self.next_queue(branch) {
            self.start(queue);
        }
    }

    /// Keeps slots for a flow that lacks another one. A link that is full of its own files needs
    /// none.
    fn reserve(&mut self, flow: usize) {
        let limits = self.tree.branches[flow].limits;
        let is_kept_out = self.accounts.get(flow).overtaken[ON_LINK] >= OVERTAKING_FACTOR;
        if !is_kept_out && !self.tree.limits[limits.link].has_slot(flow) {
            return;
        }
        for limit in limits.all() {
            self.tree.limits[limit].reserved.get_or_insert(flow);
        }
    }

    /// Hands out what is left, by the order of the tree. With `promised`, only to users who have
    /// slots that were promised.
    pub(super) fn serve(&mut self, promised: bool) {
        for branch in &mut self.tree.branches {
            branch.ready.clear();
        }
        for index in 0..self.tree.present.len() {
            let branch = self.tree.present[index];
            if self.tree.branches[branch].wants && self.tree.branches[branch].level != Level::Holder {
                let parent = self.tree.branches[branch].parent;
                let entry = Reverse((self.key(branch), branch));
                self.tree.branches[parent].ready.push(entry);
            }
        }
        while self.places > 0 {
            let Some(queue) = self.next(ROOT, promised) else { return };
            self.start(queue);
            for branch in self.tree.paths[queue].all() {
                let entry = Reverse((self.key(branch), branch));
                let parent = self.tree.branches[branch].parent;
                self.tree.branches[parent].ready.push(entry);
            }
        }
    }

    /// The queue that is next below a branch. Its branches are taken out of their rows; those that
    /// have nothing to start stay out, because slots and promises never come back in one pass.
    fn next(&mut self, branch: usize, promised: bool) -> Option<usize> {
        if self.tree.branches[branch].level == Level::Activity {
            return self.next_queue(branch);
        }
        while let Some(Reverse((_, child))) = self.tree.branches[branch].ready.pop() {
            let is_kept = match self.tree.branches[child].level {
                // Only flows and what is below them have the limit of a virtual organisation.
                Level::Flow => !self.tree.has_slot(child),
                Level::User => promised && !self.has_promise(self.tree.branches[child].first),
                _ => false,
            };
            if is_kept {
                continue;
            }
            if let Some(queue) = self.next(child, promised) {
                return Some(queue);
            }
        }
        None
    }

    /// The queue of an activity that is next: by priority and age, then by the longest wait.
    fn next_queue(&self, activity: usize) -> Option<usize> {
        let queues = self.tree.branches[activity].queues.iter().copied();
        let left = queues.filter(|queue| u64::from(self.granted[*queue]) < self.inputs.queues[*queue].waiting);
        left.max_by_key(|queue| {
            let entry = &self.inputs.queues[*queue];
            let served_ms = self.accounts.get(activity).served_ms[entry.slot()];
            let since_ms = entry.since_ms(served_ms, self.inputs.now_ms);
            let priority = entry.aged_priority(served_ms, self.inputs.now_ms);
            (priority, Reverse(since_ms), Reverse(*queue))
        })
    }

    /// The use that decides whose turn it is.
    pub(super) fn key(&self, index: usize) -> Key {
        let branch = &self.tree.branches[index];
        let used = self.accounts.get(index).used;
        if self.is_by_bytes(index) {
            return Key(used);
        }
        let running = (branch.active + branch.started + branch.promised) as f64;
        Key(used + running * self.active_weight_ms / branch.weight)
    }

    /// Starts one file of a queue.
    fn start(&mut self, queue: usize) {
        let entry = &self.inputs.queues[queue];
        let path = self.tree.paths[queue];
        let bytes = entry.average_bytes.unwrap_or(UNKNOWN_SIZE_BYTES);
        for branch in path.all() {
            self.charge(branch, bytes);
        }
        self.charge_holders(queue, bytes);
        for limit in self.tree.branches[path.flow].limits.all() {
            let limit = &mut self.tree.limits[limit];
            limit.active += 1;
            limit.started += 1;
        }
        self.accounts.get_mut(path.activity).served_ms[entry.slot()] = Some(self.inputs.now_ms);
        self.granted[queue] += 1;
        self.places -= 1;
    }

    /// Charges a branch for the start of a file of this size.
    pub(super) fn charge(&mut self, branch: usize, bytes: u64) {
        let is_by_bytes = self.is_by_bytes(branch);
        let cost = if is_by_bytes { bytes as f64 } else { START_COST_MS };
        let parent = self.tree.branches[branch].parent;
        let used = self.accounts.get(branch).used;
        let clock = &mut self.accounts.get_mut(parent).clock;
        *clock = clock.max(used);
        self.accounts.get_mut(branch).used += cost / self.tree.branches[branch].weight;
        self.tree.branches[branch].started += 1;
    }

    /// Counts who was overtaken, and remembers what runs.
    pub(super) fn remember(&mut self) {
        for index in 0..self.tree.flows.len() {
            self.count_overtaking(self.tree.flows[index]);
        }
        for branch in &self.tree.present {
            let running = self.tree.branches[*branch].active + self.tree.branches[*branch].started;
            self.accounts.get_mut(*branch).running = running;
        }
        for index in 0..self.inputs.queues.len() {
            self.remember_arrival(index, self.tree.paths[index]);
        }
    }

    /// What may start: at most one grant for each queue, in their order.
    pub(super) fn grants(&self) -> Vec<Grant> {
        let granted = self.granted.iter().enumerate().filter(|(_, count)| **count > 0);
        granted.map(|(queue, count)| Grant { queue, count: *count }).collect()
    }

    /// What keeps the rest: each queue with files left, in their order.
    pub(super) fn shortfalls(&self) -> Vec<Shortfall> {
        let mut shortfalls = Vec::new();
        for (index, queue) in self.inputs.queues.iter().enumerate() {
            let waiting = queue.waiting - u64::from(self.granted[index]);
            if waiting > 0 {
                shortfalls.push(Shortfall {
                    queue: index,
                    waiting,
                    reasons: self.reasons(queue, self.tree.paths[index]),
                });
            }
        }
        shortfalls
    }

    /// A queue of unknown age waits since it was first seen.
    fn remember_arrival(&mut self, queue: usize, path: Path) {
        let entry = &self.inputs.queues[queue];
        if entry.waiting > 0 {
            let account: &mut Account = self.accounts.get_mut(path.activity);
            account.served_ms[entry.slot()].get_or_insert(entry.oldest_ms.unwrap_or(self.inputs.now_ms));
        }
    }

    /// Adds the turns that others had in the place of a flow, by what its share would have had.
    fn count_overtaking(&mut self, flow: usize) {
        let branch = &self.tree.branches[flow];
        let account = self.accounts.get_mut(flow);
        if branch.started > 0 || !branch.wants {
            account.overtaken = [0.0; LIMITS + 1];
            return;
        }
        let mut is_free = true;
        for (slot, limit) in branch.limits.all().into_iter().enumerate() {
            let limit = &self.tree.limits[limit];
            if !limit.has_slot(flow) {
                is_free = false;
                account.overtaken[slot] += limit.started as f64 * self.tree.flow_part(flow, slot);
            }
        }
        if is_free {
            let started = f64::from(self.inputs.places - self.places);
            account.overtaken[LIMITS] += started * self.tree.flow_part(flow, LIMITS);
        }
    }

    /// What keeps a queue from more.
    fn reasons(&self, queue: &Queue<'_>, path: Path) -> Vec<Reason> {
        let flow = &self.tree.branches[path.flow];
        let mut reasons = flow.gates.clone();
        for (index, storage, is_inbound) in [
            (flow.limits.inbound, queue.destination, true),
            (flow.limits.host_inbound, host(queue.destination), true),
            (flow.limits.outbound, queue.source, false),
            (flow.limits.host_outbound, host(queue.source), false),
        ] {
            let limit = &self.tree.limits[index];
            if !limit.has_slot(path.flow) {
                reasons.push(self.storage_reason(limit, storage, is_inbound));
            }
        }
        reasons.extend(self.reason_of_link(path));
        let vo = &self.tree.limits[flow.limits.vo];
        if !vo.has_slot(path.flow) {
            let full = Reason::VoFull {
                vo: queue.vo.to_owned(),
                active: vo.active,
                limit: vo.max,
            };
            reasons.push(self.reserved(vo, queue.destination).unwrap_or(full));
        }
        // Several limits keep a slot for the same link.
        let mut is_reserved = false;
        reasons.retain(|reason| {
            !matches!(reason, Reason::SlotReserved { .. }) || !std::mem::replace(&mut is_reserved, true)
        });
        if self.places == 0 || reasons.is_empty() {
            reasons.push(Reason::WorkerFull);
        }
        reasons
    }

    fn reason_of_link(&self, path: Path) -> Option<Reason> {
        let limit = &self.tree.limits[self.tree.branches[path.flow].limits.link];
        if limit.has_slot(path.flow) {
            return None;
        }
        let full = Reason::LinkFull {
            active: limit.active,
            limit: limit.max,
            by_optimizer: self.tree.policies[&path.link].target == Some(limit.max),
        };
        let destination = self.inputs.queues[self.tree.branches[path.flow].first].destination;
        Some(self.reserved(limit, destination).unwrap_or(full))
    }

    /// The last slot of a limit is kept for another flow.
    fn reserved(&self, limit: &Limit, storage: &str) -> Option<Reason> {
        let flow = limit.reserved.filter(|_| limit.active < u64::from(limit.max))?;
        let first = &self.inputs.queues[self.tree.branches[flow].first];
        Some(Reason::SlotReserved {
            storage: storage.to_owned(),
            for_source: first.source.to_owned(),
            for_destination: first.destination.to_owned(),
        })
    }

    /// A storage has no slot.
    fn storage_reason(&self, limit: &Limit, storage: &str, is_inbound: bool) -> Reason {
        let full = StorageFull {
            storage: storage.to_owned(),
            active: limit.active,
            limit: limit.max,
        };
        self.reserved(limit, storage).unwrap_or(match is_inbound {
            true => Reason::DestinationFull(full),
            false => Reason::SourceFull(full),
        })
    }
}
