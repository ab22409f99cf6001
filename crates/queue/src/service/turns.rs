//! Which queues may start how many copies now.
//!
//! Links take turns, so that one with a million files delays no other. Within a link the highest
//! priority goes first, and queues of the same priority take turns. A file starts only if its link
//! and both of its storages have room.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use catalog::{FileRecord, Grant, QueueCount};

pub(crate) use schedule::optimizer::Link;

/// Links of records.
pub(crate) trait OfRecords {
    /// The link of a queue.
    fn of_count(count: &QueueCount) -> Self;
    /// The link of a file.
    fn of_file(file: &FileRecord) -> Self;
}

impl OfRecords for Link {
    fn of_count(count: &QueueCount) -> Self {
        Self {
            source: count.key.source.clone(),
            destination: count.key.destination.clone(),
        }
    }

    fn of_file(file: &FileRecord) -> Self {
        Self {
            source: file.source_storage.clone(),
            destination: file.destination_storage.clone(),
        }
    }
}

/// How many copies may run at once.
pub(crate) trait Limits {
    /// Out of a storage.
    fn outbound(&self, storage: &str) -> u32;
    /// Into a storage.
    fn inbound(&self, storage: &str) -> u32;
    /// On a link at most; 0: it is paused or held.
    fn link(&self, link: &Link) -> u32;
    /// On a link at least, while files wait.
    fn link_minimum(&self, link: &Link) -> u32;
}

/// Room that is left, counted down while files are granted.
struct Room<'a> {
    limits: &'a dyn Limits,
    outbound: HashMap<&'a str, u64>,
    inbound: HashMap<&'a str, u64>,
}

impl<'a> Room<'a> {
    fn of(counts: &'a [QueueCount], limits: &'a dyn Limits) -> Self {
        let mut room = Self {
            limits,
            outbound: HashMap::new(),
            inbound: HashMap::new(),
        };
        for count in counts {
            *room.outbound.entry(&count.key.source).or_default() += count.active;
            *room.inbound.entry(&count.key.destination).or_default() += count.active;
        }
        room
    }

    /// Takes the place of one copy, if there is one.
    fn take(&mut self, count: &'a QueueCount) -> bool {
        let (source, destination) = (count.key.source.as_str(), count.key.destination.as_str());
        let out = self.outbound.entry(source).or_default();
        let into = self.inbound.entry(destination).or_default();
        let fits =
            *out < u64::from(self.limits.outbound(source)) && *into < u64::from(self.limits.inbound(destination));
        if fits {
            *out += 1;
            *into += 1;
        }
        fits
    }
}

/// The queues of one link that have files, in the order of their turns.
struct Turns {
    active: u64,
    limit: u64,
    /// By priority, the highest last.
    ready: BTreeMap<u8, Vec<usize>>,
}

impl Turns {
    /// The next queue of the highest priority, which then goes to the end of its row.
    fn next(&mut self, left: &[u64]) -> Option<usize> {
        while let Some(mut row) = self.ready.last_entry() {
            let queues = row.get_mut();
            queues.retain(|index| left[*index] > 0);
            if queues.is_empty() {
                row.remove();
                continue;
            }
            queues.rotate_left(1);
            return queues.last().copied();
        }
        None
    }
}

/// Hands out `places` among the queues. `first` is the link that had its turn last; the next one
/// begins. Returns the grants, and the link that had the last turn.
pub(crate) fn share_out(
    counts: &[QueueCount],
    limits: &dyn Limits,
    places: u32,
    last: Option<&Link>,
) -> (Vec<Grant>, Option<Link>) {
    let mut room = Room::of(counts, limits);
    let mut left: Vec<u64> = counts.iter().map(|count| count.waiting).collect();
    let mut links: BTreeMap<Link, Turns> = BTreeMap::new();
    for (index, count) in counts.iter().enumerate() {
        let link = Link::of_count(count);
        let limit = u64::from(limits.link(&link));
        let turns = links.entry(link).or_insert_with(|| Turns {
            active: 0,
            limit,
            ready: BTreeMap::new(),
        });
        turns.active += count.active;
        if count.waiting > 0 {
            turns.ready.entry(count.priority).or_default().push(index);
        }
    }
    let mut order: Vec<Link> = links.keys().cloned().collect();
    let begin = last.map_or(0, |last| order.partition_point(|link| link <= last));
    order.rotate_left(begin);
    let mut granted: BTreeMap<usize, u32> = BTreeMap::new();
    let mut done: BTreeSet<usize> = BTreeSet::new();
    let (mut places, mut had_turn) = (places, None);
    while places > 0 && done.len() < order.len() {
        for (position, link) in order.iter().enumerate() {
            if places == 0 || done.contains(&position) {
                continue;
            }
            let turns = links.get_mut(link).expect("each link has its turns");
            let has_place = turns.active < turns.limit;
            let next = has_place.then(|| turns.next(&left)).flatten();
            let Some(index) = next.filter(|index| room.take(&counts[*index])) else {
                done.insert(position);
                continue;
            };
            turns.active += 1;
            left[index] -= 1;
            places -= 1;
            *granted.entry(index).or_default() += 1;
            had_turn = Some(link.clone());
        }
    }
    let grants = granted.into_iter().map(|(index, count)| Grant {
        queue: counts[index].key.clone(),
        priority: counts[index].priority,
        count,
    });
    (grants.collect(), had_turn)
}

#[cfg(test)]
mod tests {
    use catalog::QueueKey;

    use super::*;

    struct Fixed {
        storage: u32,
        link: u32,
    }

    impl Limits for Fixed {
        fn outbound(&self, _: &str) -> u32 {
            self.storage
        }

        fn inbound(&self, _: &str) -> u32 {
            self.storage
        }

        fn link(&self, link: &Link) -> u32 {
            if link.source == "held" { 0 } else { self.link }
        }

        fn link_minimum(&self, _: &Link) -> u32 {
            1
        }
    }

    fn queue(source: &str, destination: &str, vo: &str, priority: u8, waiting: u64) -> QueueCount {
        QueueCount {
            key: QueueKey {
                source: source.to_owned(),
                destination: destination.to_owned(),
                vo: vo.to_owned(),
                activity: "default".to_owned(),
            },
            priority,
            waiting,
            delayed: 0,
            held: 0,
            active: 0,
            oldest_ms: None,
        }
    }

    fn counts(grants: &[Grant]) -> Vec<(String, u8, u32)> {
        grants
            .iter()
            .map(|grant| {
                (
                    format!("{}>{}/{}", grant.queue.source, grant.queue.destination, grant.queue.vo),
                    grant.priority,
                    grant.count,
                )
            })
            .collect()
    }

    #[test]
    fn links_take_turns_and_priority_goes_first_within_one() {
        let queues = [
            queue("a", "d", "x", 3, 1000),
            queue("a", "d", "x", 5, 2),
            queue("b", "d", "x", 1, 1000),
            queue("b", "d", "y", 1, 1000),
            queue("held", "d", "y", 5, 1000),
        ];
        let limits = Fixed { storage: 100, link: 50 };
        let (grants, last) = share_out(&queues, &limits, 8, None);
        let expected = [("a>d/x", 3, 2), ("a>d/x", 5, 2), ("b>d/x", 1, 2), ("b>d/y", 1, 2)];
        assert_eq!(
            counts(&grants),
            expected.map(|(name, priority, count)| (name.to_owned(), priority, count))
        );
        assert_eq!(last.unwrap().source, "b");
        let (one, _) = share_out(
            &queues,
            &limits,
            1,
            Some(&Link {
                source: "a".into(),
                destination: "d".into(),
            }),
        );
        assert_eq!(one[0].queue.source, "b", "the link after the last one begins");
    }

    #[test]
    fn no_limit_is_exceeded_and_no_place_stays_empty_without_reason() {
        let mut queues = vec![
            queue("a", "d", "x", 3, 1000),
            queue("b", "d", "x", 3, 1000),
            queue("a", "e", "x", 3, 5),
        ];
        queues[0].active = 4;
        let limits = Fixed { storage: 10, link: 7 };
        let (grants, _) = share_out(&queues, &limits, 100, None);
        let of = |index: usize| {
            let grant = grants.iter().find(|grant| grant.queue == queues[index].key);
            grant.map_or(0, |grant| u64::from(grant.count))
        };
        assert!(of(0) + queues[0].active <= 7);
        assert_eq!(of(0) + 4 + of(1), 10, "the destination is full");
        assert!(of(0) + 4 + of(2) <= 10 && of(2) > 0);
        let sum: u32 = grants.iter().map(|grant| grant.count).sum();
        assert!(sum <= 100);
    }
}
