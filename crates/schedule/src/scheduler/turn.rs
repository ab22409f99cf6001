//! Turns of one decision: first those that are overdue, then by share.

use std::cmp::Reverse;

use super::accounts::{Account, Accounts, ROOT};
use super::input::{Binding, Decision, Grant, Inputs, Queue, ShareUnit, Shortfall};
use super::key::Key;
use super::tree::{Limit, Path, Tree};
use crate::limits::{
    ACTIVE_WEIGHT_MS, CREDIT_MAX_BYTES, CREDIT_MAX_MS, OVERTAKING_FACTOR, START_COST_MS, UNKNOWN_SIZE_BYTES,
};

/// One decision under way.
pub(super) struct Round<'a, 'b> {
    inputs: &'b Inputs<'a>,
    tree: Tree<'a>,
    accounts: &'b mut Accounts,
    decision: u64,
    places: u32,
    granted: Vec<u32>,
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

    /// Whether a branch's use is counted in bytes.
    fn is_by_bytes(&self, branch: usize) -> bool {
        let parent = self.tree.branches[branch].parent;
        self.inputs.share_unit == ShareUnit::Bytes && parent != ROOT && self.tree.branches[parent].parent != ROOT
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
        let [outbound, inbound, on_link, vo, places] = self.accounts.get(flow).overtaken;
        let most = outbound.max(inbound).max(vo).max(places);
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
        let activities = self.tree.branches[flow].children.iter().copied();
        let wanting = activities.filter(|branch| self.tree.branches[*branch].wants);
        let next = wanting.min_by_key(|branch| self.key(*branch));
        if let Some(queue) = next.and_then(|activity| self.next_queue(activity)) {
            self.start(queue);
        }
    }

    /// Keeps slots for a flow that lacks another one. A link that is full of its own files needs
    /// none.
    fn reserve(&mut self, flow: usize) {
        let limits = self.tree.branches[flow].limits;
        let is_kept_out = self.accounts.get(flow).overtaken[2] >= OVERTAKING_FACTOR;
        if !is_kept_out && !self.tree.limits[limits.link].has_slot(flow) {
            return;
        }
        for limit in limits.all() {
            self.tree.limits[limit].reserved.get_or_insert(flow);
        }
    }

    /// Hands out what is left by share.
    pub(super) fn serve_by_share(&mut self) {
        for index in 0..self.tree.present.len() {
            let branch = self.tree.present[index];
            if self.tree.branches[branch].wants {
                let parent = self.tree.branches[branch].parent;
                let entry = Reverse((self.key(branch), branch));
                self.tree.branches[parent].ready.push(entry);
            }
        }
        while self.places > 0 {
            let Some(queue) = self.next(ROOT) else { return };
            self.start(queue);
            for branch in self.tree.paths[queue].all() {
                let entry = Reverse((self.key(branch), branch));
                let parent = self.tree.branches[branch].parent;
                self.tree.branches[parent].ready.push(entry);
            }
        }
    }

    /// The queue that is next below a branch. Its branches are taken out of their rows; those that
    /// have nothing to start stay out, because slots never come back in one decision.
    fn next(&mut self, branch: usize) -> Option<usize> {
        if !self.tree.branches[branch].queues.is_empty() {
            return self.next_queue(branch);
        }
        while let Some(Reverse((_, child))) = self.tree.branches[branch].ready.pop() {
            // Only flows and activities have the limit of a virtual organisation.
            if self.is_flow(child) && !self.tree.has_slot(child) {
                continue;
            }
            if let Some(queue) = self.next(child) {
                return Some(queue);
            }
        }
        None
    }

    fn is_flow(&self, branch: usize) -> bool {
        let parent = self.tree.branches[branch].parent;
        parent != ROOT && self.tree.branches[parent].parent != ROOT && self.tree.branches[branch].queues.is_empty()
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
    fn key(&self, index: usize) -> Key {
        let branch = &self.tree.branches[index];
        let used = self.accounts.get(index).used;
        if self.is_by_bytes(index) {
            return Key(used);
        }
        let running = (branch.active + branch.started) as f64;
        Key(used + running * self.active_weight_ms / branch.weight)
    }

    /// Starts one file of a queue.
    fn start(&mut self, queue: usize) {
        let entry = &self.inputs.queues[queue];
        let path = self.tree.paths[queue];
        let bytes = entry.average_bytes.unwrap_or(UNKNOWN_SIZE_BYTES);
        for branch in path.all() {
            let cost = if self.is_by_bytes(branch) {
                bytes as f64
            } else {
                START_COST_MS
            };
            let parent = self.tree.branches[branch].parent;
            let used = self.accounts.get(branch).used;
            let clock = &mut self.accounts.get_mut(parent).clock;
            *clock = clock.max(used);
            self.accounts.get_mut(branch).used += cost / self.tree.branches[branch].weight;
            self.tree.branches[branch].started += 1;
        }
        for limit in self.tree.branches[path.flow].limits.all() {
            let limit = &mut self.tree.limits[limit];
            limit.active += 1;
            limit.started += 1;
        }
        self.accounts.get_mut(path.activity).served_ms[entry.slot()] = Some(self.inputs.now_ms);
        self.granted[queue] += 1;
        self.places -= 1;
    }

    /// Counts who was overtaken, and says what was decided.
    pub(super) fn finish(mut self) -> Decision {
        for index in 0..self.tree.flows.len() {
            self.count_overtaking(self.tree.flows[index]);
        }
        for branch in &self.tree.present {
            let running = self.tree.branches[*branch].active + self.tree.branches[*branch].started;
            self.accounts.get_mut(*branch).running = running;
        }
        let mut decision = Decision::default();
        for (index, queue) in self.inputs.queues.iter().enumerate() {
            let granted = self.granted[index];
            if granted > 0 {
                let grant = Grant {
                    queue: index,
                    count: granted,
                };
                decision.grants.push(grant);
            }
            let waiting = queue.waiting - u64::from(granted);
            let path = self.tree.paths[index];
            self.remember_arrival(index, path);
            if waiting > 0 {
                let binding = self.binding(queue, path);
                decision.shortfalls.push(Shortfall {
                    queue: index,
                    waiting,
                    binding,
                });
            }
        }
        decision
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
            account.overtaken = [0.0; 5];
            return;
        }
        let weight = self.tree.flow_weight(flow);
        let mut is_free = true;
        for (turns, limit) in account.overtaken.iter_mut().zip(branch.limits.all()) {
            let limit = &self.tree.limits[limit];
            if !limit.has_slot(flow) {
                is_free = false;
                *turns += limit.started as f64 * weight / limit.weight;
            }
        }
        if is_free {
            let inbound = &self.tree.limits[branch.limits.inbound];
            let started = f64::from(self.inputs.places - self.places);
            account.overtaken[4] += started * weight / inbound.weight / self.tree.destinations as f64;
        }
    }

    /// What keeps a queue from more.
    fn binding(&self, queue: &Queue<'_>, path: Path) -> Binding {
        let flow = &self.tree.branches[path.flow];
        if let Some(gate) = &flow.gate {
            return gate.clone();
        }
        let full = |limit: usize| {
            let limit = &self.tree.limits[limit];
            (!limit.has_slot(path.flow)).then_some((limit.active, limit.max))
        };
        let ends = [
            (flow.limits.inbound, queue.destination),
            (flow.limits.outbound, queue.source),
        ];
        if let Some((limit, storage)) = ends.into_iter().find(|(limit, _)| full(*limit).is_some()) {
            return self.storage_binding(limit, storage, limit == flow.limits.inbound);
        }
        if let Some((active, limit)) = full(flow.limits.link) {
            let by_optimizer = self.tree.policies[&path.link].target == Some(limit);
            return Binding::Link {
                active,
                limit,
                by_optimizer,
            };
        }
        match full(flow.limits.vo) {
            Some((active, limit)) => Binding::Vo { active, limit },
            None => Binding::Places,
        }
    }

    /// A storage has no slot.
    fn storage_binding(&self, limit: usize, storage: &str, is_inbound: bool) -> Binding {
        let Limit {
            active, max, reserved, ..
        } = self.tree.limits[limit];
        let storage = storage.to_owned();
        match reserved.filter(|_| active < u64::from(max)) {
            Some(flow) => {
                let first = self.tree.branches[flow].first;
                let (for_source, for_destination) =
                    (self.inputs.queues[first].source, self.inputs.queues[first].destination);
                Binding::Reserved {
                    storage,
                    for_source: for_source.to_owned(),
                    for_destination: for_destination.to_owned(),
                }
            }
            None if is_inbound => Binding::Inbound {
                storage,
                active,
                limit: max,
            },
            None => Binding::Outbound {
                storage,
                active,
                limit: max,
            },
        }
    }
}
