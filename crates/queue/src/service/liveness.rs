//! Which workers are alive, as one of them sees it.
//!
//! A worker is lost when its lease has not changed for [`LEASE`] of our own monotonic time. The
//! time of day plays no part, because clocks of machines differ and jump. The other half of the
//! bargain is in `renew`: a worker that cannot reach the database stops its copies earlier.

use std::collections::HashMap;

use catalog::Lease;
use schedule::FileId;
use tokio::time::Instant;

use crate::limits::{LEASE, ORPHAN_TIME};

/// What was seen of a worker.
struct Seen {
    lease_ms: i64,
    since: Instant,
}

/// The workers with files.
#[derive(Default)]
pub(super) struct Liveness(HashMap<String, Seen>);

impl Liveness {
    /// The workers that are lost. If the database is not shared, all others are: they were earlier
    /// starts of this process.
    pub(super) fn silent(&mut self, leases: Vec<Lease>, own: &str, is_shared: bool, now: Instant) -> Vec<Lease> {
        let mut seen = HashMap::new();
        let mut silent = Vec::new();
        for lease in leases.into_iter().filter(|lease| lease.worker != own) {
            let before = self.0.remove(&lease.worker);
            let same = before.filter(|before| before.lease_ms == lease.lease_ms);
            let since = same.map_or(now, |same| same.since);
            let last = Seen {
                lease_ms: lease.lease_ms,
                since,
            };
            seen.insert(lease.worker.clone(), last);
            if !is_shared || now.duration_since(since) >= LEASE {
                silent.push(lease);
            }
        }
        self.0 = seen;
        silent
    }
}

/// Files that this worker has in the database without a copy that runs: the copy was stopped while
/// the database did not answer, or could not begin.
#[derive(Default)]
pub(super) struct Orphans(HashMap<FileId, Instant>);

impl Orphans {
    /// The files whose copy has been gone for so long that its result is not merely on its way.
    pub(super) fn found(&mut self, owned: Vec<FileId>, runs: impl Fn(FileId) -> bool, now: Instant) -> Vec<FileId> {
        let gone = owned.into_iter().filter(|file| !runs(*file));
        let seen: HashMap<FileId, Instant> = gone
            .map(|file| (file, self.0.get(&file).copied().unwrap_or(now)))
            .collect();
        let is_old = |since: &Instant| now.duration_since(*since) >= ORPHAN_TIME;
        let found = seen.iter().filter(|(_, since)| is_old(since));
        let found = found.map(|(file, _)| *file).collect();
        self.0 = seen;
        found
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lease(worker: &str, lease_ms: i64) -> Vec<Lease> {
        let worker = worker.to_owned();
        vec![Lease { worker, lease_ms }]
    }

    #[test]
    fn a_worker_is_lost_when_its_lease_has_stood_still_for_the_time_of_a_lease() {
        let (mut liveness, start) = (Liveness::default(), Instant::now());
        let mut look = |lease_ms, after: Duration| {
            let silent = liveness.silent(lease("other", lease_ms), "own", true, start + after);
            !silent.is_empty()
        };
        let second = Duration::from_secs(1);
        assert!(!look(5, Duration::ZERO));
        assert!(!look(5, LEASE - second));
        // A clock that was set back: still a sign of life.
        assert!(!look(4, LEASE));
        assert!(!look(4, LEASE + LEASE - second));
        assert!(look(4, LEASE + LEASE));
        assert!(!look(6, LEASE + LEASE + second));
    }

    #[test]
    fn earlier_starts_are_lost_at_once_when_the_database_is_not_shared() {
        let (mut liveness, now) = (Liveness::default(), Instant::now());
        assert_eq!(liveness.silent(lease("earlier", 5), "own", false, now).len(), 1);
        assert_eq!(liveness.silent(lease("own", 5), "own", false, now + LEASE * 2), []);
    }

    #[test]
    fn a_file_without_a_copy_is_given_back_after_a_while() {
        let (mut orphans, start) = (Orphans::default(), Instant::now());
        let owned = || vec![FileId(1), FileId(2)];
        let runs = |file| file == FileId(2);
        assert_eq!(orphans.found(owned(), runs, start), []);
        assert_eq!(orphans.found(owned(), |_| true, start + ORPHAN_TIME), []);
        assert_eq!(orphans.found(owned(), runs, start + ORPHAN_TIME), []);
        assert_eq!(orphans.found(owned(), runs, start + ORPHAN_TIME * 2), [FileId(1)]);
    }
}
