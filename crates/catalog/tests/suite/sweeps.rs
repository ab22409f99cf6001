//! What happens to files that wait: retries, lost workers, expiry, bans, tape, priorities.

use std::time::Duration;

use catalog::limits::COUNTED_AHEAD_MAX;
use catalog::{
    Advance, Audit, Catalog, CopyFacts, Ended, Ending, ExpiredFile, Grant, Lease, Lost, LostFile, Moved, NewJob,
    Outcome, SettingKind, StorageUser, Swept,
};
use schedule::{FileEvent, FileId, FileState, JobId, JobKind, JobState};

use crate::place::{A, B, C, NOW, Place, file, for_each_database, job, plain_job, problem, queue};

fn entry(action: &str) -> Audit {
    Audit {
        at_ms: NOW,
        actor: "root".to_owned(),
        action: action.to_owned(),
        detail: String::new(),
    }
}

async fn claim(catalog: &Catalog, worker: &str, count: u32) -> Vec<FileId> {
    let grant = Grant {
        queue: queue(),
        priority: 3,
        count,
    };
    let claimed = catalog.claim(&[grant], worker, NOW, NOW + 1000).await.unwrap();
    claimed.iter().map(|claimed| claimed.file.id).collect()
}

async fn leases(catalog: &Catalog) -> Vec<Lease> {
    catalog.due(NOW, i64::MAX).await.unwrap().leases
}

async fn state(catalog: &Catalog, file: FileId) -> FileState {
    catalog.file(file).await.unwrap().unwrap().state
}

const FAILED: FileEvent = FileEvent::Failed {
    is_recoverable: false,
    has_attempts: false,
    is_expired: true,
};

for_each_database! {
    async fn retries_come_back_at_their_time(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 2)).await.unwrap();
        claim(catalog, "w1", 2).await;
        let held = |file, until_ms| Ending {
            file,
            moved_bytes: 0,
            outcome: Outcome::Held { until_ms, problem: problem() },
            facts: CopyFacts::default(),
        };
        let endings = vec![held(ids[0], NOW + 10), held(ids[1], NOW + 20)];
        catalog.end("w1", endings, NOW).await.unwrap();
        let due = catalog.due(NOW + 5, i64::MAX).await.unwrap();
        assert_eq!((due.requeued, due.next_ms), (0, Some(NOW + 10)));
        let due = catalog.due(NOW + 10, i64::MAX).await.unwrap();
        assert_eq!((due.requeued, due.next_ms), (1, Some(NOW + 20)));
        assert_eq!(claim(catalog, "w1", 2).await, ids[..1]);
        let file = catalog.file(ids[0]).await.unwrap().unwrap();
        assert_eq!((file.attempts, file.problem, file.times.retry_ms), (0, Some(problem()), None));
        assert_eq!(catalog.queues().await.unwrap()[0].delayed, 1);
    }

    async fn a_clock_that_is_set_back_delays_no_retry(place: Place) {
        const HOUR_MS: i64 = 3_600_000;
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 2)).await.unwrap();
        claim(catalog, "w1", 2).await;
        let failed = |file, retry_ms| Ending {
            file,
            moved_bytes: 0,
            outcome: Outcome::Failed { problem: problem(), retry_ms: Some(retry_ms), report: None },
            facts: CopyFacts::default(),
        };
        let endings = vec![failed(ids[0], NOW + 10), failed(ids[1], NOW + 2 * HOUR_MS)];
        catalog.end("w1", endings, NOW).await.unwrap();
        let now_ms = NOW - 3 * HOUR_MS;
        assert_eq!(catalog.due(now_ms, now_ms + 5 * HOUR_MS).await.unwrap().requeued, 0);
        assert_eq!(catalog.due(now_ms, now_ms + 4 * HOUR_MS).await.unwrap().requeued, 1);
        assert_eq!(claim(catalog, "w1", 2).await, ids[1..]);
        assert_eq!(catalog.due(now_ms, now_ms).await.unwrap().requeued, 1);
        assert_eq!(claim(catalog, "w1", 2).await, ids[..1]);
    }

    async fn of_many_attempts_the_first_and_the_last_are_kept(place: Place) {
        let catalog = &place.catalog;
        let id = catalog.submit(plain_job(1, 1)).await.unwrap()[0];
        for number in 1..=23 {
            assert_eq!(claim(catalog, "w1", 1).await, [id], "{number}");
            let outcome = Outcome::Failed { problem: problem(), retry_ms: Some(NOW), report: None };
            let ending = Ending { file: id, moved_bytes: 0, outcome, facts: CopyFacts::default() };
            catalog.end("w1", vec![ending], NOW).await.unwrap();
            catalog.due(NOW, i64::MAX).await.unwrap();
        }
        let kept = catalog.attempts(id).await.unwrap();
        let kept: Vec<u32> = kept.into_iter().map(|attempt| attempt.number).collect();
        assert_eq!(kept, (1..=5).chain(9..=23).collect::<Vec<_>>());
        assert_eq!(catalog.file(id).await.unwrap().unwrap().attempts, 23);
    }

    async fn files_of_a_lost_worker_are_requeued_or_reported(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 2)).await.unwrap();
        claim(catalog, "w1", 2).await;
        assert_eq!(catalog.start(&ids[..1], "w1", NOW).await.unwrap(), ids[..1]);
        let seen = leases(catalog).await;
        let length = Duration::from_secs(1);
        assert_eq!(seen, [Lease { worker: "w1".to_owned(), lease_ms: NOW + 1000, length }]);
        assert_eq!(catalog.renew("w1", &[], NOW + 900, NOW + 2000).await.unwrap().files, ids);
        assert_eq!(catalog.renew("w2", &[], NOW + 900, NOW + 2000).await.unwrap().files, []);
        // It has given a sign of life since: the time of day says nothing.
        assert_eq!(catalog.lose_workers(seen, NOW + 9000).await.unwrap(), Lost::default());
        let silent = leases(catalog).await;
        let lost = catalog.lose_workers(silent.clone(), NOW + 1001).await.unwrap();
        assert_eq!(lost.requeued, 1);
        assert_eq!(lost.files, [LostFile { file: ids[0], worker: "w1".to_owned() }]);
        assert_eq!(claim(catalog, "w2", 2).await, ids[1..]);
        assert!(!catalog.file(ids[1]).await.unwrap().unwrap().is_interrupted);
        let mut event = Advance::new(ids[0], FileEvent::WorkerLost);
        assert_eq!(catalog.advance(vec![event.clone()], NOW).await.unwrap(), [Ended::NotOurs]);
        event.worker = Some("w1".to_owned());
        let back = Ended::Now(FileState::Submitted);
        assert_eq!(catalog.advance(vec![event.clone(), event], NOW).await.unwrap(), [back, Ended::NotOurs]);
        assert!(catalog.file(ids[0]).await.unwrap().unwrap().is_interrupted);
        assert_eq!(claim(catalog, "w2", 2).await, ids[..1]);
        assert!(catalog.file(ids[0]).await.unwrap().unwrap().is_interrupted);
        assert_eq!(catalog.lose_workers(silent, NOW + 3000).await.unwrap(), Lost::default());
        let silent = leases(catalog).await;
        assert_eq!(catalog.lose_workers(silent, NOW + 3000).await.unwrap().requeued, 2);
        assert_eq!(leases(catalog).await, []);
    }

    async fn a_file_waits_for_what_a_lost_worker_left(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 1)).await.unwrap();
        for looks in 0..3 {
            assert_eq!(claim(catalog, "w1", 1).await, ids);
            let file = catalog.file(ids[0]).await.unwrap().unwrap();
            assert_eq!((file.is_interrupted, file.lost_part_looks), (looks > 0, looks));
            let ending = Ending {
                file: ids[0],
                moved_bytes: 0,
                outcome: Outcome::Remains { until_ms: NOW + 10, problem: problem(), looks: looks + 1 },
                facts: CopyFacts::default(),
            };
            let ended = catalog.end("w1", vec![ending], NOW).await.unwrap();
            assert_eq!(ended, [Ended::Now(FileState::Submitted)]);
            assert_eq!(catalog.due(NOW + 10, i64::MAX).await.unwrap().requeued, 1);
        }
        // No attempt is counted, and the last one is kept for people.
        let file = catalog.file(ids[0]).await.unwrap().unwrap();
        assert_eq!((file.attempts, file.lost_part_looks), (0, 3));
        let attempts = catalog.attempts(ids[0]).await.unwrap();
        assert_eq!(attempts.len(), 1);
        assert!(attempts[0].problem.reason.ends_with("and the attempt does not count)"));
        // It was lost again: what is there now is of another attempt.
        claim(catalog, "w1", 1).await;
        catalog.start(&ids, "w1", NOW).await.unwrap();
        let mut event = Advance::new(ids[0], FileEvent::WorkerLost);
        event.worker = Some("w1".to_owned());
        catalog.advance(vec![event], NOW).await.unwrap();
        assert_eq!(catalog.file(ids[0]).await.unwrap().unwrap().lost_part_looks, 0);
    }

    async fn a_worker_learns_which_files_are_no_longer_its_own(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 2)).await.unwrap();
        claim(catalog, "w1", 2).await;
        catalog.cancel_files(JobId([1; 16]), &ids[..1], "user", NOW).await.unwrap();
        let moved = [7, 8].map(|bytes| Moved { file: ids[bytes as usize - 7], moved_bytes: bytes });
        assert_eq!(catalog.renew("w1", &moved, NOW, NOW + 9).await.unwrap().files, ids[1..]);
        assert_eq!(catalog.file(ids[1]).await.unwrap().unwrap().moved_bytes, 8);
        let more = catalog.submit(plain_job(2, 1)).await.unwrap();
        assert_eq!(claim(catalog, "w3", 1).await, more);
        assert_eq!(catalog.renew("w3", &[], NOW, NOW + 9).await.unwrap().workers, 2, "w2 has no file");
        let other = [Moved { file: ids[1], moved_bytes: 9 }];
        assert_eq!(catalog.renew("w2", &other, NOW, NOW + 9).await.unwrap().files, []);
        assert_eq!(catalog.file(ids[1]).await.unwrap().unwrap().moved_bytes, 8);
    }

    async fn a_worker_that_leaves_or_drains_says_so(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        claim(catalog, "w1", 1).await;
        catalog.renew("w1", &[], NOW + 5, NOW + 5).await.unwrap();
        let left = Lease { worker: "w1".to_owned(), lease_ms: NOW + 5, length: Duration::ZERO };
        assert_eq!(leases(catalog).await, [left]);
        let before = catalog.renew("w1", &[], NOW, NOW + 9).await.unwrap();
        catalog.drain("w1", true, entry("drain")).await.unwrap();
        catalog.put_setting(SettingKind::Link, "a", &1, "root", NOW).await.unwrap();
        let after = catalog.renew("w1", &[], NOW, NOW + 9).await.unwrap();
        assert!(!before.drains && after.drains && catalog.drains("w1").await.unwrap());
        assert_eq!(after.settings_version, catalog.settings_version().await.unwrap());
        assert!(after.settings_version > before.settings_version);
        catalog.drain("w1", false, entry("no drain")).await.unwrap();
        catalog.drain("w1", false, entry("nothing to do")).await.unwrap();
        let noted: Vec<String> = catalog.audit(None, 9).await.unwrap().into_iter().map(|entry| entry.action).collect();
        assert_eq!(noted, ["no drain", "link put a", "drain"]);
        assert!(!catalog.renew("w1", &[], NOW, NOW + 9).await.unwrap().drains);
        assert!(!catalog.renew("w2", &[], NOW, NOW + 9).await.unwrap().drains);
    }

    async fn a_file_that_waits_too_long_is_reported_until_it_is_given_up(place: Place) {
        let catalog = &place.catalog;
        let expiring = NewJob { expires_ms: Some(NOW + 10), ..plain_job(1, 2) };
        let ids = catalog.submit(expiring).await.unwrap();
        claim(catalog, "w1", 1).await;
        let due = catalog.due(NOW + 9, i64::MAX).await.unwrap();
        assert_eq!((due.expired.len(), due.next_ms), (0, Some(NOW + 10)));
        let expired = ExpiredFile { file: ids[1], job: JobId([1; 16]) };
        assert_eq!(catalog.due(NOW + 10, i64::MAX).await.unwrap().expired, [expired]);
        let mut event = Advance::new(ids[1], FAILED);
        event.problem = Some(problem());
        catalog.advance(vec![event], NOW + 10).await.unwrap();
        assert_eq!(catalog.due(NOW + 10, i64::MAX).await.unwrap().expired, []);
        assert_eq!(state(catalog, ids[1]).await, FileState::Failed);
    }

    async fn a_ban_holds_what_waits_and_releases_it(place: Place) {
        let catalog = &place.catalog;
        let mut other = plain_job(2, 1);
        other.files[0].source_storage = C.to_owned();
        other.files[0].destination_storage = A.to_owned();
        let ids = catalog.submit(plain_job(1, 2)).await.unwrap();
        let others = catalog.submit(other).await.unwrap();
        claim(catalog, "w1", 1).await;
        assert_eq!(catalog.hold(C, Some("cms"), NOW).await.unwrap(), Swept::default());
        for other in ["davs://b.example:444", "davs://b_example:443", "davs://b", "%"] {
            assert_eq!(catalog.hold(other, None, NOW).await.unwrap(), Swept::default(), "{other}");
        }
        let held = catalog.hold("davs://b.example", Some("atlas"), NOW).await.unwrap();
        assert_eq!((held.files, held.jobs), (1, [JobId([1; 16])].into()));
        let states = [state(catalog, ids[0]).await, state(catalog, ids[1]).await, state(catalog, others[0]).await];
        assert_eq!(states, [FileState::Ready, FileState::OnHold, FileState::Submitted]);
        assert_eq!(claim(catalog, "w1", 1).await, []);
        assert_eq!(catalog.queues().await.unwrap()[0].held, 1);
        assert_eq!(catalog.hold("https://a.example:443", None, NOW).await.unwrap().files, 1, "any scheme");
        assert_eq!(catalog.release(A, None, NOW).await.unwrap(), 2);
        assert_eq!(claim(catalog, "w1", 1).await, ids[1..]);
        let canceled = catalog.cancel_storage(B, None, "banned", NOW).await.unwrap();
        assert_eq!((canceled.files, canceled.running.len(), canceled.jobs), (2, 2, [JobId([1; 16])].into()));
        assert_eq!(catalog.job(JobId([1; 16])).await.unwrap().unwrap().state, JobState::Canceled);
    }

    async fn a_place_far_behind_in_a_queue_is_estimated(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, COUNTED_AHEAD_MAX as u32 + 100)).await.unwrap();
        let files = ids.len();
        claim(catalog, "w1", 50).await;
        let ahead = async |index: usize| catalog.position(ids[index]).await.unwrap();
        assert_eq!((ahead(50).await, ahead(70).await), (Some(0), Some(20)));
        assert_eq!(ahead(files - 51).await, Some(files as u64 - 101), "the last that is counted");
        assert_eq!(ahead(files - 1).await, Some(files as u64 - 51), "evenly, so the estimate is exact");
    }

    async fn tape_is_asked_before_and_after_the_copy(place: Place) {
        let catalog = &place.catalog;
        let staged = NewJob { files: vec![file(0, FileState::Staging)], ..job(1, JobKind::Normal) };
        let id = catalog.submit(staged).await.unwrap()[0];
        let waiting = async |state, storage: Option<&str>| {
            let whose = |storage: &str| StorageUser { storage: storage.to_owned(), user: job(1, JobKind::Normal).owner.user };
            let whose = storage.map(whose);
            let files = catalog.waiting_files(state, whose.as_ref(), FileId(0), 10, NOW).await.unwrap();
            files.into_iter().map(|file| (file.file.id, file.request)).collect::<Vec<_>>()
        };
        assert_eq!(waiting(FileState::Staging, Some(B)).await, []);
        assert_eq!(waiting(FileState::Staging, Some(A)).await, [(id, None)]);
        let mut asked = Advance::new(id, FileEvent::StagingAsked);
        asked.request = Some("r1".to_owned());
        catalog.advance(vec![asked], NOW + 1).await.unwrap();
        assert_eq!(waiting(FileState::StagingStarted, None).await, [(id, Some("r1".to_owned()))]);
        let staged = Advance::new(id, FileEvent::Staged { is_last_step: false });
        catalog.advance(vec![staged], NOW + 2).await.unwrap();
        let times = catalog.file(id).await.unwrap().unwrap().times;
        assert_eq!((times.staging_started_ms, times.staging_finished_ms), (Some(NOW + 1), Some(NOW + 2)));
        assert_eq!(claim(catalog, "w1", 1).await, [id]);
    }

    async fn a_job_moves_ahead_with_its_priority(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 2)).await.unwrap();
        let others = catalog.submit(plain_job(2, 2)).await.unwrap();
        assert_eq!(catalog.position(others[1]).await.unwrap(), Some(3));
        let unknown = JobId([9; 16]);
        assert!(catalog.set_priority(JobId([2; 16]), 5, NOW).await.unwrap());
        assert!(!catalog.set_priority(unknown, 5, NOW).await.unwrap());
        assert_eq!(catalog.position(others[1]).await.unwrap(), Some(1));
        assert_eq!(catalog.position(ids[0]).await.unwrap(), Some(2));
        assert_eq!(catalog.job(JobId([2; 16])).await.unwrap().unwrap().priority, 5);
        let counts: Vec<_> = catalog.queues().await.unwrap().iter().map(|one| (one.priority, one.waiting)).collect();
        assert_eq!(counts, [(5, 2), (3, 2)]);
        claim(catalog, "w1", 1).await;
        assert_eq!(catalog.position(ids[0]).await.unwrap(), None);
    }
}
