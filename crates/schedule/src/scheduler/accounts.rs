//! What the scheduler remembers between decisions: the use of each branch of the tree (storage,
//! link, virtual organisation, group of activities, user, activity), and of each user at limits
//! that several users want.

use std::collections::HashMap;

use crate::limits::{IDLE_ACCOUNTS_MAX, PRIORITY_MAX};

/// Limits of a virtual organisation on a link.
pub(super) const LIMITS: usize = 6;
/// The root of the tree.
pub(super) const ROOT: usize = 0;
/// The parent of the limits that several users want. Below each limit are the virtual
/// organisations, their groups of activities and users.
pub(super) const CONTENDED: usize = 1;

/// One branch of the tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Account {
    /// Use until now, divided by the share.
    pub(super) used: f64,
    /// Use of the child that had the last turn: a child that returns begins there.
    pub(super) clock: f64,
    /// The last decision in which it had files.
    pub(super) seen: u64,
    /// The last decision in which it had files that could start but for limits.
    pub(super) wanted: u64,
    /// Copies that ran after that decision.
    pub(super) running: u64,
    /// Of a virtual organisation on a link: turns that others had in its place since its own, at
    /// each limit, and for places of the worker.
    pub(super) overtaken: [f64; LIMITS + 1],
    /// Of an activity of a user: the last turn of each priority, in milliseconds since 1970.
    pub(super) served_ms: [Option<i64>; PRIORITY_MAX as usize + 1],
    children: HashMap<String, usize>,
}

/// All branches.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accounts {
    list: Vec<Account>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            list: vec![Account::default(), Account::default()],
        }
    }
}

impl Accounts {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The branch `name` of a branch; a new one if it is not known.
    pub(super) fn child(&mut self, parent: usize, name: &str) -> usize {
        if let Some(index) = self.list[parent].children.get(name) {
            return *index;
        }
        let index = self.list.len();
        self.list.push(Account {
            used: self.list[parent].clock,
            ..Account::default()
        });
        self.list[parent].children.insert(name.to_owned(), index);
        index
    }

    pub(super) fn get(&self, index: usize) -> &Account {
        &self.list[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut Account {
        &mut self.list[index]
    }

    /// Forgets branches without files in decision `decision` if too many are known.
    pub(super) fn forget_idle(&mut self, decision: u64, present: usize) {
        if self.list.len() <= present.saturating_add(IDLE_ACCOUNTS_MAX) {
            return;
        }
        let old = std::mem::take(self);
        for root in [ROOT, CONTENDED] {
            self.list[root] = without_children(&old.list[root]);
            self.copy_present(&old, root, root, decision);
        }
    }

    fn copy_present(&mut self, old: &Self, from: usize, to: usize, decision: u64) {
        let mut children: Vec<(&String, usize)> =
            old.list[from].children.iter().map(|(name, at)| (name, *at)).collect();
        children.retain(|(_, index)| old.list[*index].seen == decision);
        children.sort_unstable_by_key(|(_, index)| *index);
        for (name, index) in children {
            let copy = self.list.len();
            self.list.push(without_children(&old.list[index]));
            self.list[to].children.insert(name.clone(), copy);
            self.copy_present(old, index, copy, decision);
        }
    }
}

fn without_children(account: &Account) -> Account {
    Account {
        children: HashMap::new(),
        ..*account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_branches_are_forgotten_and_others_keep_their_use() {
        let mut accounts = Accounts::default();
        for number in 0..=IDLE_ACCOUNTS_MAX {
            accounts.child(ROOT, &number.to_string());
        }
        let kept = accounts.child(ROOT, "kept");
        accounts.get_mut(kept).used = 7.0;
        accounts.get_mut(kept).seen = 3;
        accounts.forget_idle(3, 1);
        assert_eq!(accounts.len(), 3);
        let kept = accounts.child(ROOT, "kept");
        assert_eq!((accounts.len(), accounts.get(kept).used), (3, 7.0));
    }
}
