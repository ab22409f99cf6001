//! Which workers are alive, as one of them sees it, and how long it is alive for the others.
//!
//! A worker is lost when it has given no sign of life for the time of its lease, by our own
//! monotonic clock. The time of day plays no part, because clocks of machines differ and jump. The
//! other half of the bargain is the fence: a worker that cannot reach the database stops its copies
//! earlier. Each lease has its length in the database, so both sides count with the same one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::Lease;
use schedule::FileId;
use tokio::time::{Instant, sleep_until};

use super::Inner;
use crate::limits::{ORPHAN_TIME, OWN_FILES_TIME, RESTART_GRACE};

/// Time after its last sign of life after which a worker stops its copies, when others share the
/// database. The last third of the lease is for their end, and for storages to notice it.
pub(super) fn fence_of(lease: Duration) -> Duration {
    lease * 2 / 3
}

/// Time for one answer of the database. Two of them fit before the fence.
pub(super) fn answer_time(lease: Duration) -> Duration {
    (lease / 4).min(OWN_FILES_TIME)
}

/// Stops all copies each time that the fence is reached.
pub(super) async fn fence(inner: Arc<Inner>) {
    let mut signs = inner.last_sign.subscribe();
    loop {
        let last = *signs.borrow_and_update();
        tokio::select! {
            _ = signs.changed() => continue,
            () = sleep_until(last + fence_of(inner.settings.lease)) => {}
        }
        inner.running().stop_each();
        // The sender is in `inner`.
        let _ = signs.changed().await;
    }
}

impl Inner {
    /// The database has a sign of life of this worker that is not older than this.
    pub(super) fn has_signed(&self, at: Instant) {
        self.last_sign.send_if_modified(|last| {
            let is_later = at > *last;
            *last = at.max(*last);
            is_later
        });
    }
}

/// What was seen of a worker.
struct Seen {
    lease_ms: i64,
    since: Instant,
}

/// The workers with files.
#[derive(Default)]
pub(super) struct Liveness(HashMap<String, Seen>);

impl Liveness {
    /// The workers that are lost. If the database is not shared, the others were earlier starts of
    /// this process, and only what they have ordered from storages may still go on for a moment.
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
            let time = match is_shared {
                true => lease.length,
                false => lease.length.min(RESTART_GRACE),
            };
            if now.duration_since(since) >= time {
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
    /// The files without a copy or result for so long that none is about to begin.
    pub(super) fn found(&mut self, owned: &[FileId], runs: impl Fn(FileId) -> bool, now: Instant) -> Vec<FileId> {
        let gone = owned.iter().copied().filter(|file| !runs(*file));
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
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn lease(worker: &str, lease_ms: i64, length: Duration) -> Vec<Lease> {
        let worker = worker.to_owned();
        vec![Lease {
            worker,
            lease_ms,
            length,
        }]
    }

    #[test]
    fn a_worker_is_lost_when_its_lease_has_stood_still_for_its_length() {
        let (mut liveness, start) = (Liveness::default(), Instant::now());
        let mut look = |lease_ms, length, after: Duration| {
            let leases = lease("other", lease_ms, length);
            !liveness.silent(leases, "own", true, start + after).is_empty()
        };
        let second = Duration::from_secs(1);
        assert!(!look(5, LEASE, Duration::ZERO));
        assert!(!look(5, LEASE, LEASE - second));
        // A clock that was set back: still a sign of life.
        assert!(!look(4, LEASE, LEASE));
        assert!(!look(4, LEASE, LEASE * 2 - second));
        assert!(look(4, LEASE, LEASE * 2));
        assert!(!look(6, LEASE, LEASE * 2 + second));
        // It has left.
        assert!(look(7, Duration::ZERO, LEASE * 2 + second * 2));
    }

    #[test]
    fn a_worker_stops_its_copies_before_others_take_its_files() {
        for lease in [10, 60, 3600].map(Duration::from_secs) {
            assert!(answer_time(lease) * 2 < fence_of(lease));
            assert!(fence_of(lease) + lease / 4 < lease);
        }
        assert!(OWN_FILES_TIME < ORPHAN_TIME);
    }

    #[test]
    fn earlier_starts_are_lost_soon_when_the_database_is_not_shared() {
        let (mut liveness, now) = (Liveness::default(), Instant::now());
        let mut look = |worker, length, now| liveness.silent(lease(worker, 5, length), "own", false, now).len();
        assert_eq!(look("earlier", LEASE, now), 0);
        assert_eq!(look("earlier", LEASE, now + RESTART_GRACE), 1);
        assert_eq!(look("stopped", Duration::ZERO, now), 1);
        assert_eq!(look("own", LEASE, now + LEASE * 2), 0);
    }

    #[test]
    fn a_file_without_a_copy_is_given_back_after_a_while() {
        let (mut orphans, start) = (Orphans::default(), Instant::now());
        let owned = [FileId(1), FileId(2)];
        let runs = |file| file == FileId(2);
        assert_eq!(orphans.found(&owned, runs, start), []);
        assert_eq!(orphans.found(&owned, |_| true, start + ORPHAN_TIME), []);
        assert_eq!(orphans.found(&owned, runs, start + ORPHAN_TIME), []);
        assert_eq!(orphans.found(&owned, runs, start + ORPHAN_TIME * 2), [FileId(1)]);
    }
}
