//! Limits that several users want: the storages, the virtual organisations, and the worker.
//!
//! Their slots are shared by virtual organisation, then group of activities, then user, so the
//! number of links, storages and jobs of a user does not count. A decision is made in passes. In
//! each, the users at a limit are promised its free slots one by one, those first who have used
//! least; the tree then decides for which of their files. What a user cannot use, because another
//! limit keeps him, is promised to the others in the next pass.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::accounts::{Accounts, CONTENDED, LIMITS};
use super::input::{Inputs, Queue};
use super::tree::{Branch, Level, Limits, Tree};
use super::turn::{ON_LINK, Round};
use crate::limits::PASSES_MAX;
use crate::storage::host;

/// A limit for whose slots several users contend.
struct Contended {
    /// `None`: the places of the worker.
    limit: Option<usize>,
    /// Its branch.
    branch: usize,
}

/// All of them in one decision.
#[derive(Default)]
pub(super) struct Contention {
    limits: Vec<Contended>,
    /// All branches below them, and their own.
    branches: Vec<usize>,
    /// Of each queue: the branches of its user at these limits.
    holders: Vec<Vec<usize>>,
    /// Of each flow: at which of its limits who wants slots.
    of_flows: HashMap<usize, Vec<(usize, usize)>>,
    /// Of each such user: the weight of the flows with his files.
    flow_weights: HashMap<usize, f64>,
}

impl Contention {
    /// The branches of a queue's user.
    pub(super) fn holders(&self, queue: usize) -> &[usize] {
        self.holders.get(queue).map_or(&[], Vec::as_slice)
    }
}

/// A user of a group of activities of a virtual organisation.
type Holder<'a> = [&'a str; 3];

/// Finds the branches of users, each once.
#[derive(Default)]
struct Found<'a> {
    /// Of each limit: its branch.
    roots: HashMap<usize, usize>,
    holders: HashMap<(usize, Holder<'a>), usize>,
}

/// What the branch of a limit is called, and the source and destination whose shares hold there.
fn name<'q>(queue: &Queue<'q>, slot: usize) -> (String, &'q str, &'q str) {
    match slot {
        0 => (format!("from {}", queue.source), queue.source, ""),
        1 => (format!("to {}", queue.destination), "", queue.destination),
        3 => (format!("of {}", queue.vo), "", ""),
        4 => (format!("from host {}", host(queue.source)), queue.source, ""),
        5 => (format!("to host {}", host(queue.destination)), "", queue.destination),
        _ => ("worker".to_owned(), "", ""),
    }
}

impl<'a> Tree<'a> {
    /// Enters who contends for which limit. With one user nothing does.
    pub(super) fn enter_contention(&mut self, inputs: &Inputs<'a>, accounts: &mut Accounts) {
        let wants = |tree: &Self, index: usize| {
            let is_open = tree.branches[tree.paths[index].flow].gates.is_empty();
            inputs.queues[index].waiting > 0 && is_open
        };
        let contended = self.contended(inputs, wants);
        if !contended.contains(&true) {
            return;
        }
        let mut found = Found::default();
        let mut known = HashSet::new();
        for (index, queue) in inputs.queues.iter().enumerate() {
            let (flow, wants) = (self.paths[index].flow, wants(self, index));
            let weight = self.flow_weight(flow);
            let mut holders = Vec::new();
            for (slot, limit) in self.slots(flow).filter(|(_, limit)| contended[*limit]) {
                let holder = self.holder(inputs, accounts, &mut found, queue, slot, limit);
                self.count_holder(holder, queue, wants);
                if wants && known.insert((flow, holder)) {
                    *self.contention.flow_weights.entry(holder).or_default() += weight;
                    self.contention.of_flows.entry(flow).or_default().push((slot, holder));
                }
                holders.push(holder);
            }
            self.contention.holders.push(holders);
        }
        for branch in &self.contention.branches {
            let (parent, weight, wants) = {
                let branch = &self.branches[*branch];
                (branch.parent, branch.weight, branch.wants)
            };
            self.branches[parent].shares += if wants { weight } else { 0.0 };
        }
    }

    /// The limits of a flow that users share, and last the worker.
    fn slots(&self, flow: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let worker = (LIMITS, self.limits.len());
        let limits: Limits = self.branches[flow].limits;
        let shared = limits
            .all()
            .into_iter()
            .enumerate()
            .filter(|(slot, _)| *slot != ON_LINK);
        shared.chain([worker])
    }

    /// Of each limit, and last of the worker: whether several users want it.
    fn contended(&self, inputs: &Inputs<'a>, wants: impl Fn(&Self, usize) -> bool) -> Vec<bool> {
        let mut first: Vec<Option<(&str, &str)>> = vec![None; self.limits.len() + 1];
        let mut contended = vec![false; first.len()];
        for (index, queue) in inputs.queues.iter().enumerate() {
            if !wants(self, index) {
                continue;
            }
            let user = (queue.vo, queue.user);
            for (_, limit) in self.slots(self.paths[index].flow) {
                let is_finite = self.limits.get(limit).is_none_or(|limit| limit.max < u32::MAX);
                contended[limit] |= is_finite && *first[limit].get_or_insert(user) != user;
            }
        }
        contended
    }

    /// The branch of a queue's user at a limit, made if it is not there.
    fn holder(
        &mut self,
        inputs: &Inputs<'a>,
        accounts: &mut Accounts,
        found: &mut Found<'a>,
        queue: &Queue<'a>,
        slot: usize,
        limit: usize,
    ) -> usize {
        let group = inputs.policy.activity_group(queue.vo, queue.activity);
        let key = (limit, [queue.vo, group, queue.user]);
        if let Some(holder) = found.holders.get(&key) {
            return *holder;
        }
        let (name, source, destination) = name(queue, slot);
        let root = *found
            .roots
            .entry(limit)
            .or_insert_with(|| accounts.child(CONTENDED, &name));
        let vo = accounts.child(root, queue.vo);
        let of_group = accounts.child(vo, group);
        let holder = accounts.child(of_group, queue.user);
        self.branches.resize_with(accounts.len(), Branch::default);
        if self.enter(root, CONTENDED, 1.0) {
            self.branches[root].level = Level::Holder;
            self.contention.branches.push(root);
            let limit = (slot < LIMITS).then_some(limit);
            self.contention.limits.push(Contended { limit, branch: root });
        }
        for (branch, parent, share) in [
            (vo, root, inputs.policy.vo_share(source, destination, queue.vo)),
            (of_group, vo, inputs.policy.activity_share(queue.vo, group)),
            (holder, of_group, 1.0),
        ] {
            if self.enter_below(branch, parent, Level::Holder, share) {
                self.contention.branches.push(branch);
            }
        }
        found.holders.insert(key, holder);
        holder
    }

    fn count_holder(&mut self, holder: usize, queue: &Queue<'_>, wants: bool) {
        let mut branch = holder;
        while branch != CONTENDED {
            let at = &mut self.branches[branch];
            at.active += queue.active;
            at.wants |= wants;
            branch = at.parent;
        }
    }

    /// As [`Tree::flow_part`] at a limit that several users want: of what is a user's, each of the
    /// flows with his files has its part.
    pub(super) fn contended_part(&self, flow: usize, slot: usize) -> Option<f64> {
        let holders = self.contention.of_flows.get(&flow)?;
        let weight = self.flow_weight(flow);
        let parts = holders.iter().filter(|(at, _)| *at == slot).map(|(_, holder)| {
            let mut part = weight / self.contention.flow_weights[holder];
            let mut branch = *holder;
            while self.branches[branch].parent != CONTENDED {
                let parent = self.branches[branch].parent;
                part *= self.branches[branch].weight / self.branches[parent].shares;
                branch = parent;
            }
            part
        });
        let parts: Vec<f64> = parts.collect();
        (!parts.is_empty()).then(|| parts.iter().sum())
    }
}

/// What a pass has for the users.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// Nothing can start.
    Nothing,
    /// Enough of everything.
    Enough,
    /// Less than they want.
    Shared,
}

impl Round<'_, '_> {
    /// Hands out what is left: first to each user a share of it, then what no other can use.
    pub(super) fn serve_by_share(&mut self) {
        for _ in 0..PASSES_MAX {
            match self.promise() {
                Offer::Nothing => return,
                Offer::Enough => break,
                Offer::Shared => {}
            }
            let places = self.places;
            self.serve(true);
            if self.places == places {
                break;
            }
        }
        self.serve(false);
    }

    /// Whether the user of a queue has slots that were promised.
    pub(super) fn has_promise(&self, queue: usize) -> bool {
        let holders = self.tree.contention.holders(queue);
        holders.iter().all(|holder| self.tree.branches[*holder].promised > 0)
    }

    /// Charges the user of a queue for the start of a file of this size.
    pub(super) fn charge_holders(&mut self, queue: usize, bytes: u64) {
        for at in 0..self.tree.contention.holders(queue).len() {
            let mut branch = self.tree.contention.holders(queue)[at];
            let promised = &mut self.tree.branches[branch].promised;
            *promised = promised.saturating_sub(1);
            while self.tree.branches[branch].parent != CONTENDED {
                self.charge(branch, bytes);
                branch = self.tree.branches[branch].parent;
            }
        }
    }

    /// Promises the free slots of the limits that users contend for.
    fn promise(&mut self) -> Offer {
        if self.tree.contention.limits.is_empty() {
            return Offer::Enough;
        }
        let wanted = self.count_wanted();
        let mut offer = if wanted == 0 { Offer::Nothing } else { Offer::Enough };
        for at in 0..self.tree.contention.limits.len() {
            let Contended { limit, branch } = self.tree.contention.limits[at];
            let free = limit.map_or(self.places.into(), |limit| self.tree.limits[limit].free());
            if self.tree.branches[branch].wanted > free {
                offer = Offer::Shared;
                self.line_up(branch);
                for _ in 0..free.min(self.places.into()) {
                    self.promise_next(branch);
                }
            }
        }
        offer
    }

    /// Counts the files that users could start, at each limit and in all. They are promised all.
    fn count_wanted(&mut self) -> u64 {
        for branch in &self.tree.contention.branches {
            let branch = &mut self.tree.branches[*branch];
            (branch.promised, branch.wanted) = (0, 0);
        }
        let mut all = 0;
        for (index, queue) in self.inputs.queues.iter().enumerate() {
            let flow = &self.tree.branches[self.tree.paths[index].flow];
            if !flow.gates.is_empty() || !self.tree.has_slot(self.tree.paths[index].flow) {
                continue;
            }
            let limits = flow.limits.all().into_iter();
            let free = limits.map(|limit| self.tree.limits[limit].free()).min();
            let left = queue.waiting - u64::from(self.granted[index]);
            let wanted = free.unwrap_or(left).max(1).min(left);
            all += wanted;
            for at in 0..self.tree.contention.holders(index).len() {
                let mut branch = self.tree.contention.holders(index)[at];
                self.tree.branches[branch].promised += wanted;
                while branch != CONTENDED {
                    self.tree.branches[branch].wanted += wanted;
                    branch = self.tree.branches[branch].parent;
                }
            }
        }
        all
    }

    /// Lines up those below a branch who want slots, by use, and takes back their promises.
    fn line_up(&mut self, branch: usize) {
        self.tree.branches[branch].promised = 0;
        self.tree.branches[branch].ready.clear();
        for at in 0..self.tree.branches[branch].children.len() {
            let child = self.tree.branches[branch].children[at];
            self.line_up(child);
            if self.tree.branches[child].wanted > 0 {
                let entry = Reverse((self.key(child), child));
                self.tree.branches[branch].ready.push(entry);
            }
        }
    }

    /// Promises one slot below a branch; whether a user there could use it.
    fn promise_next(&mut self, branch: usize) -> bool {
        if self.tree.branches[branch].promised >= self.tree.branches[branch].wanted {
            return false;
        }
        if self.tree.branches[branch].children.is_empty() {
            self.tree.branches[branch].promised += 1;
            return true;
        }
        while let Some(Reverse((_, child))) = self.tree.branches[branch].ready.pop() {
            if self.promise_next(child) {
                self.tree.branches[branch].promised += 1;
                let entry = Reverse((self.key(child), child));
                self.tree.branches[branch].ready.push(entry);
                return true;
            }
        }
        false
    }
}
