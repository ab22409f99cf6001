//! Server session cache: TLS sessions that clients may resume, in memory.
//!
//! A session holds what rustls needs to resume it, the client's certificates included, so that a
//! resumed connection has the identity of the first one; they are judged anew each time. What a
//! client keeps is a random name only. The memory is bounded in bytes, because chains of
//! certificates are long: the oldest sessions go first, and their clients make a full handshake.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::TLS_SESSION_LIFETIME;
use rustls::server::StoresServerSessions;
use types::limits::TLS_SESSIONS_BYTES_MAX;
use zeroize::Zeroizing;

/// Length of the names that rustls gives to sessions.
const NAME_BYTES: usize = 32;
/// What an entry takes beside the session itself: its name twice, its time, and the tables, of
/// which up to half is empty.
const ENTRY_BYTES: usize = 272;
/// Parts with a lock each, so that handshakes do not wait for each other.
const PARTS: usize = 16;

type Name = [u8; NAME_BYTES];

struct Kept {
    session: Zeroizing<Vec<u8>>,
    since: Instant,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.session.len() + ENTRY_BYTES
    }
}

#[derive(Default)]
struct Part {
    kept: HashMap<Name, Kept>,
    /// The oldest first. A name whose entry is gone already is passed over.
    order: VecDeque<Name>,
    bytes: usize,
}

impl Part {
    fn remove(&mut self, name: &Name) {
        if let Some(kept) = self.kept.remove(name) {
            self.bytes -= kept.bytes();
        }
    }

    /// Drops names whose entries are gone, and all but one of each other.
    fn forget_names(&mut self) {
        let mut seen = HashSet::with_capacity(self.kept.len());
        self.order
            .retain(|name| self.kept.contains_key(name) && seen.insert(*name));
    }

    fn put(&mut self, name: Name, session: Vec<u8>, bytes_max: usize) {
        // Its spare capacity would not be counted.
        let session = Zeroizing::new(session);
        let kept = Kept {
            session: Zeroizing::new(session.to_vec()),
            since: Instant::now(),
        };
        self.remove(&name);
        self.bytes += kept.bytes();
        self.kept.insert(name, kept);
        self.order.push_back(name);
        if self.order.len() > 2 * self.kept.len() + NAME_BYTES {
            self.forget_names();
        }
        self.shrink_to(bytes_max);
    }

    fn shrink_to(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.remove(&oldest);
        }
    }
}

/// The sessions of one server.
pub(super) struct Sessions {
    parts: [Mutex<Part>; PARTS],
    part_bytes_max: AtomicUsize,
    lifetime: Duration,
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new(TLS_SESSIONS_BYTES_MAX, TLS_SESSION_LIFETIME)
    }
}

impl Sessions {
    fn new(bytes_max: usize, lifetime: Duration) -> Self {
        Self {
            parts: Default::default(),
            part_bytes_max: AtomicUsize::new(bytes_max / PARTS),
            lifetime,
        }
    }

    /// Others, with the same limit.
    pub(super) fn renewed(&self) -> Self {
        Self::new(self.part_bytes_max() * PARTS, self.lifetime)
    }

    /// From now on they take so many bytes at most. Parts that hold more than that drop their
    /// oldest sessions.
    pub(super) fn limit(&self, bytes_max: usize) {
        let part_bytes_max = bytes_max / PARTS;
        self.part_bytes_max.store(part_bytes_max, Ordering::Relaxed);
        for part in &self.parts {
            part.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .shrink_to(part_bytes_max);
        }
    }

    fn part_bytes_max(&self) -> usize {
        self.part_bytes_max.load(Ordering::Relaxed)
    }

    fn part(&self, name: &Name) -> MutexGuard<'_, Part> {
        let part = &self.parts[usize::from(name[0]) % PARTS];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes_max = self.part_bytes_max() * PARTS;
        formatter
            .debug_struct("Sessions")
            .field("bytes_max", &bytes_max)
            .finish()
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let Ok(name) = Name::try_from(key) else { return false };
        let bytes_max = self.part_bytes_max();
        if value.len() + ENTRY_BYTES > bytes_max {
            return false;
        }
        self.part(&name).put(name, value, bytes_max);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let name = Name::try_from(key).ok()?;
        let mut part = self.part(&name);
        let kept = part.kept.get(&name)?;
        if kept.since.elapsed() > self.lifetime {
            part.remove(&name);
            return None;
        }
        Some(kept.session.to_vec())
    }

    /// rustls asks for each session of TLS 1.3 to be used once only. That protects early data, of
    /// which none is taken here; clients that open several connections at once show the same one on
    /// each.
    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sessions_make_room() {
        // All names fall into one part.
        let name = |number: u8| {
            let mut name = vec![0; NAME_BYTES];
            name[1] = number;
            name
        };
        let three = 3 * (1000 + ENTRY_BYTES);
        let sessions = Sessions::new(three * PARTS, Duration::from_secs(60));
        for number in 0..5 {
            assert!(sessions.put(name(number), vec![number; 1000]));
        }
        assert_eq!((sessions.get(&name(0)), sessions.get(&name(1))), (None, None));
        for number in 2..5 {
            assert_eq!(sessions.take(&name(number)), Some(vec![number; 1000]));
            assert_eq!(
                sessions.take(&name(number)),
                Some(vec![number; 1000]),
                "it was shown twice"
            );
        }
        // The same name again does not count twice.
        for _ in 0..10 {
            assert!(sessions.put(name(4), vec![9; 1000]));
        }
        assert_eq!(sessions.get(&name(2)), Some(vec![2; 1000]));
        assert!(!sessions.put(name(9), vec![0; three]), "larger than all room");
        assert!(!sessions.put(vec![0; 5], vec![0; 5]), "a name of another length");
        // A lower limit holds at once, for others that follow, too.
        sessions.limit(PARTS * (1000 + ENTRY_BYTES));
        assert_eq!((sessions.get(&name(2)), sessions.get(&name(3))), (None, None));
        assert_eq!(sessions.get(&name(4)), Some(vec![9; 1000]));
        assert!(!sessions.renewed().put(name(1), vec![0; 1001]));
    }

    /// What a part really takes, tables and empty room included.
    fn taken_bytes(part: &Part) -> usize {
        let sessions: usize = part.kept.values().map(|kept| kept.session.capacity() + 16).sum();
        let buckets = (part.kept.capacity() * 8 / 7).next_power_of_two();
        let table = buckets * (size_of::<(Name, Kept)>() + 1);
        sessions + table + part.order.capacity() * size_of::<Name>()
    }

    #[test]
    fn the_memory_is_bounded_whatever_comes() {
        const BYTES_MAX: usize = 4 << 20;
        for session_bytes in [1, 300, 3000, 20_000] {
            let sessions = Sessions::new(BYTES_MAX, Duration::from_secs(60));
            for number in 0..3 * BYTES_MAX / (session_bytes + ENTRY_BYTES) {
                let mut name = vec![0; NAME_BYTES];
                name[0] = number as u8;
                name[8..16].copy_from_slice(&number.to_le_bytes());
                let mut session = Vec::with_capacity(2 * session_bytes);
                session.resize(session_bytes, 1);
                assert!(sessions.put(name, session));
            }
            let taken: usize = sessions
                .parts
                .iter()
                .map(|part| taken_bytes(&part.lock().unwrap()))
                .sum();
            assert!(taken <= BYTES_MAX, "{taken} bytes in sessions of {session_bytes}");
            assert!(taken > BYTES_MAX / 3, "{taken} bytes in sessions of {session_bytes}");
        }
    }

    #[test]
    fn names_of_entries_that_are_gone_take_no_room() {
        let sessions = Sessions::new(1 << 20, Duration::ZERO);
        for _ in 0..10_000 {
            assert!(sessions.put(vec![7; NAME_BYTES], vec![1]));
            assert_eq!(sessions.get(&[7; NAME_BYTES]), None);
        }
        let names: usize = sessions.parts.iter().map(|part| part.lock().unwrap().order.len()).sum();
        assert!(names < 100, "{names}");
    }

    #[test]
    fn a_session_ends_with_its_lifetime() {
        let sessions = Sessions::new(1 << 20, Duration::ZERO);
        assert!(sessions.put(vec![7; NAME_BYTES], vec![1]));
        assert_eq!(sessions.get(&[7; NAME_BYTES]), None);
    }
}
