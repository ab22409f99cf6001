//! New files that are on their way: clients were sent to a node with them, and have not been heard
//! of since.
//!
//! A second client that stores the same name goes to the same node, which lets one of them win. And
//! "no node has it" is not remembered for such a name, because it may be there any moment.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use endpoint::ClientId;
use types::LogicalPath;

use crate::limits::{EXPECTED_MAX, EXPECTED_PARENTS_MAX, EXPECTED_TIME_MS};
use crate::node::NodeId;
use crate::placement::ReservationId;

/// Where a file is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coming {
    /// The node.
    pub node: NodeId,
    /// The room that is kept for it.
    pub reservation: Option<ReservationId>,
    /// The client that was sent there.
    pub client: Option<IpAddr>,
    /// When it was sent.
    pub since_ms: u64,
    /// How many clients were sent there with it, less those that are known to have failed.
    pub clients: u32,
}

impl Coming {
    fn is_over(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms) >= EXPECTED_TIME_MS
    }
}

/// The files that are on their way, by name: at most [`EXPECTED_MAX`], the oldest give way. No
/// client has more of them than are free, so that one that announces files and stores none takes
/// no place from others. Names are kept as hashes, so that long ones need no more memory; the keys
/// are secret, so that no client can make two names meet.
#[derive(Debug, Default)]
pub struct Expected {
    keys: RandomState,
    files: HashMap<u64, (Coming, Box<[u64]>)>,
    /// The directories above them, which come with them, and how many files are below each.
    parents: HashMap<u64, u32>,
    /// How many each client has announced.
    clients: HashMap<ClientId, usize>,
    order: VecDeque<Noted>,
}

/// A name in the order in which names were noted. One that was noted again has a later place, too.
#[derive(Debug, Clone, Copy)]
struct Noted {
    name: u64,
    since_ms: u64,
}

impl Expected {
    /// A client was sent to a node with this file.
    pub fn note(&mut self, path: &LogicalPath, coming: Coming) {
        self.expire(coming.since_ms, EXPECTED_MAX);
        let name = self.hash(path);
        if !self.files.contains_key(&name) && !self.has_place(coming.client) {
            return;
        }
        self.count(coming.client, 1);
        self.order.push_back(Noted {
            name,
            since_ms: coming.since_ms,
        });
        if let Some((known, _)) = self.files.get_mut(&name) {
            let before = std::mem::replace(known, coming);
            self.count(before.client, -1);
            return;
        }
        let above: Box<[u64]> = ancestors(path).map(|parent| self.hash(&parent)).collect();
        for parent in &above {
            *self.parents.entry(*parent).or_default() += 1;
        }
        self.files.insert(name, (coming, above));
    }

    /// The file is still on its way to this node: it is expected from now on as if it was new.
    /// Whether it was expected there.
    pub fn renew(&mut self, path: &LogicalPath, node: NodeId, now_ms: u64) -> bool {
        let Some(known) = self.find(path, now_ms).filter(|known| known.node == node) else {
            return false;
        };
        let since_ms = now_ms;
        self.note(path, Coming { since_ms, ..known });
        true
    }

    /// Another client was sent to the same node with it.
    pub fn join(&mut self, path: &LogicalPath) {
        let name = self.hash(path);
        if let Some((known, _)) = self.files.get_mut(&name) {
            known.clients = known.clients.saturating_add(1);
        }
    }

    /// A client that was sent to this node with it has failed. The file is still expected if there
    /// were others.
    pub fn leave(&mut self, path: &LogicalPath, node: NodeId) -> Option<Coming> {
        let name = self.hash(path);
        let (known, _) = self.files.get_mut(&name).filter(|(known, _)| known.node == node)?;
        known.clients = known.clients.saturating_sub(1);
        if known.clients > 0 {
            return None;
        }
        self.take_hash(name)
    }

    /// Whether the file, or a directory of this name, may come any moment.
    pub fn may_come(&self, path: &LogicalPath) -> bool {
        let name = self.hash(path);
        self.files.contains_key(&name) || self.parents.contains_key(&name)
    }

    /// Whether a file is expected below this name, which is a directory then.
    pub fn is_above(&mut self, path: &LogicalPath, now_ms: u64) -> bool {
        self.expire(now_ms, usize::MAX);
        self.parents.contains_key(&self.hash(path))
    }

    /// Where the file is expected.
    pub fn find(&self, path: &LogicalPath, now_ms: u64) -> Option<Coming> {
        let (coming, _) = self.files.get(&self.hash(path))?;
        (!coming.is_over(now_ms)).then_some(*coming)
    }

    /// The file has come, or will not.
    pub fn take(&mut self, path: &LogicalPath) -> Option<Coming> {
        self.take_hash(self.hash(path))
    }

    fn hash(&self, path: &LogicalPath) -> u64 {
        self.keys.hash_one(path.as_str())
    }

    fn has_place(&self, client: Option<IpAddr>) -> bool {
        let has = |client| self.clients.get(&ClientId::at(client)).copied().unwrap_or(0);
        client.is_none_or(|client| has(client) < EXPECTED_MAX.saturating_sub(self.files.len()))
    }

    fn count(&mut self, client: Option<IpAddr>, change: isize) {
        let Some(client) = client.map(ClientId::at) else { return };
        let count = self.clients.entry(client.clone()).or_default();
        *count = count.saturating_add_signed(change);
        if *count == 0 {
            self.clients.remove(&client);
        }
    }

    fn take_hash(&mut self, name: u64) -> Option<Coming> {
        let (gone, above) = self.files.remove(&name)?;
        self.count(gone.client, -1);
        for parent in above {
            if let Some(count) = self.parents.get_mut(&parent) {
                *count -= 1;
                if *count == 0 {
                    self.parents.remove(&parent);
                }
            }
        }
        Some(gone)
    }

    fn expire(&mut self, now_ms: u64, files_max: usize) {
        while let Some(oldest) = self.order.front().copied() {
            let is_kept = |coming: &Coming| !coming.is_over(now_ms) && self.files.len() < files_max;
            let coming = live(&self.files, oldest);
            if coming.is_some_and(is_kept) {
                break;
            }
            let is_live = coming.is_some();
            self.order.pop_front();
            if is_live {
                self.take_hash(oldest.name);
            }
        }
        // Those that have come leave their places behind.
        if self.order.len() > 2 * EXPECTED_MAX {
            self.order.retain(|noted| live(&self.files, *noted).is_some());
        }
    }
}

/// The file of a place in the order, unless it has come or has a later place.
fn live(files: &HashMap<u64, (Coming, Box<[u64]>)>, noted: Noted) -> Option<&Coming> {
    let (coming, _) = files.get(&noted.name)?;
    (coming.since_ms == noted.since_ms).then_some(coming)
}

/// The directories above a name; of very deep ones the nearest. Others are asked for again after a
/// second.
pub(crate) fn ancestors(path: &LogicalPath) -> impl Iterator<Item = LogicalPath> + use<> {
    std::iter::successors(path.parent(), LogicalPath::parent).take(EXPECTED_PARENTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::path;

    fn coming(node: u16, since_ms: u64) -> Coming {
        Coming {
            node: NodeId(node),
            reservation: None,
            client: None,
            since_ms,
            clients: 1,
        }
    }

    #[test]
    fn a_file_is_expected_until_it_comes_or_its_time_is_over() {
        let mut expected = Expected::default();
        let (here, other) = (path("/a"), path("/b"));
        expected.note(&here, coming(3, 1_000));
        let found = |expected: &Expected, now_ms| expected.find(&here, now_ms).map(|coming| coming.node);
        assert_eq!(found(&expected, 1_001), Some(NodeId(3)));
        let below = path("/d/e/f");
        expected.note(&below, coming(1, 1_000));
        assert!(expected.may_come(&path("/d/e")) && expected.may_come(&path("/d")) && expected.may_come(&below));
        assert!(!expected.may_come(&path("/e")));
        expected.take(&below);
        assert!(!expected.may_come(&path("/d")) && expected.may_come(&path("/a")));
        assert_eq!(expected.find(&other, 1_001), None);
        assert_eq!(found(&expected, 1_000 + EXPECTED_TIME_MS), None);
        assert!(expected.take(&here).is_some());
        assert_eq!(found(&expected, 1_001), None);
    }

    #[test]
    fn a_file_that_is_still_on_its_way_is_expected_longer_and_keeps_no_others() {
        let mut expected = Expected::default();
        let (long, other) = (path("/d/long"), path("/e/other"));
        expected.note(&long, coming(3, 1_000));
        expected.note(&other, coming(1, 1_000));
        assert!(!expected.renew(&long, NodeId(1), 2_000) && !expected.renew(&path("/x"), NodeId(3), 2_000));
        let later_ms = EXPECTED_TIME_MS - 1;
        assert!(expected.renew(&long, NodeId(3), later_ms));
        let over_ms = 1_000 + EXPECTED_TIME_MS;
        assert!(expected.find(&long, over_ms).is_some() && expected.is_above(&path("/d"), over_ms));
        assert!(expected.find(&other, over_ms).is_none() && !expected.is_above(&path("/e"), over_ms));
        assert_eq!((expected.files.len(), expected.order.len()), (1, 1));
        let end_ms = later_ms + EXPECTED_TIME_MS;
        assert!(expected.find(&long, end_ms).is_none() && !expected.is_above(&path("/d"), end_ms));
        assert!(!expected.renew(&long, NodeId(3), end_ms) && expected.order.is_empty());
    }

    #[test]
    fn one_client_takes_no_place_from_another_and_files_that_came_take_none() {
        let mut expected = Expected::default();
        let from = |address: &str, since_ms| Coming {
            client: Some(address.parse().unwrap()),
            ..coming(0, since_ms)
        };
        let (own, other) = (path("/own"), path("/other"));
        expected.note(&own, from("192.0.2.1", 1));
        for number in 0..=EXPECTED_MAX {
            expected.note(&path(&format!("/{number}")), from("192.0.2.2", 1));
        }
        assert!(expected.find(&own, 2).is_some() && expected.find(&path("/0"), 2).is_some());
        expected.note(&other, from("192.0.2.1", 1));
        assert!(expected.find(&other, 2).is_some());
        for number in 0..EXPECTED_MAX {
            expected.take(&path(&format!("/{number}")));
        }
        for number in 0..3 * EXPECTED_MAX {
            let name = path(&format!("/{number}"));
            expected.note(&name, from("192.0.2.2", 2));
            expected.take(&name);
        }
        assert!(expected.find(&own, 2).is_some() && expected.order.len() <= 2 * EXPECTED_MAX + 1);
        assert_eq!((expected.files.len(), expected.clients.len()), (2, 1));
    }

    #[test]
    fn the_oldest_give_way() {
        let mut expected = Expected::default();
        for number in 0..=EXPECTED_MAX {
            expected.note(&path(&format!("/{number}")), coming(0, 1));
        }
        assert_eq!(expected.files.len(), EXPECTED_MAX);
        assert_eq!(expected.find(&path("/0"), 1), None);
        let last = path(&format!("/{EXPECTED_MAX}"));
        assert!(expected.find(&last, 1).is_some());
        expected.note(&path("/x"), coming(0, 1 + EXPECTED_TIME_MS));
        assert_eq!((expected.files.len(), expected.order.len()), (1, 1));
    }
}
