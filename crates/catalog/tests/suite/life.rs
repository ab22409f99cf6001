//! Claims, and how attempts end.

use catalog::{Catalog, Claimed, CopyFacts, Ended, Ending, Grant, NewJob, Outcome};
use schedule::{FileId, FileState, JobId, JobKind, JobState};

use crate::place::{NOW, Place, file, for_each_database, job, plain_job, problem, queue};

/// Claims from the queue of the test jobs.
async fn claim(catalog: &Catalog, worker: &str, count: u32) -> Vec<Claimed> {
    let grant = Grant {
        queue: queue(),
        priority: 3,
        count,
    };
    catalog.claim(&[grant], worker, NOW, NOW + 60_000).await.unwrap()
}

/// Claims the next file and begins its copy.
async fn begin(catalog: &Catalog) -> FileId {
    let file = claim(catalog, "w1", 1).await.remove(0).file.id;
    assert_eq!(catalog.start(&[file], "w1", NOW).await.unwrap(), [file]);
    file
}

async fn end(catalog: &Catalog, file: FileId, outcome: Outcome) -> Ended {
    let ending = Ending {
        file,
        moved_bytes: 10,
        outcome,
        facts: CopyFacts::default(),
    };
    catalog.end("w1", vec![ending], NOW + 5).await.unwrap()[0]
}

fn finished() -> Outcome {
    Outcome::Finished {
        size_bytes: 10,
        way: Some("3rd pull".to_owned()),
    }
}

fn failed(retry_ms: Option<i64>) -> Outcome {
    Outcome::Failed {
        problem: problem(),
        retry_ms,
        report: None,
    }
}

async fn states(catalog: &Catalog) -> (JobState, Vec<FileState>) {
    let id = JobId([1; 16]);
    let job = catalog.job(id).await.unwrap().unwrap();
    let files = catalog.files(id).await.unwrap();
    (job.state, files.iter().map(|file| file.state).collect())
}

/// A job whose first of three files is used at first.
fn chained(kind: JobKind) -> NewJob {
    let index = |place: u32| if kind == JobKind::MultiSource { 0 } else { place };
    let state = |place: u32| {
        if place == 0 {
            FileState::Submitted
        } else {
            FileState::NotUsed
        }
    };
    NewJob {
        files: (0..3).map(|place| file(index(place), state(place))).collect(),
        ..job(1, kind)
    }
}

for_each_database! {
    async fn of_two_workers_that_decided_at_the_same_time_one_claims(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 3)).await.unwrap();
        let (turn, counts) = catalog.queues_in_turn().await.unwrap();
        let grant = [Grant { queue: counts[0].key.clone(), priority: counts[0].priority, count: 1 }];
        let claim = async |turn, worker| {
            let claimed = catalog.claim_in_turn(turn, &grant, worker, NOW, NOW + 60_000).await.unwrap();
            claimed.map(|claimed| claimed.len())
        };
        let (first, second) = tokio::join!(claim(turn, "w1"), claim(turn, "w2"));
        assert_eq!([first, second].into_iter().flatten().collect::<Vec<_>>(), [1]);
        let (later, counts) = catalog.queues_in_turn().await.unwrap();
        assert_eq!((counts[0].active, counts[0].waiting), (1, 2));
        assert_eq!((claim(turn, "w2").await, claim(later, "w2").await), (None, Some(1)));
    }

    async fn files_are_claimed_in_order_and_once(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 3)).await.unwrap();
        let mut urgent = plain_job(2, 1);
        urgent.priority = 5;
        catalog.submit(urgent).await.unwrap();
        let first = claim(catalog, "w1", 2).await;
        assert_eq!(first.iter().map(|claimed| claimed.file.id).collect::<Vec<_>>(), ids[..2]);
        assert_eq!((first[0].file.state, first[0].file.worker.as_deref()), (FileState::Ready, Some("w1")));
        assert_eq!((first[0].job.id, first[0].job.state), (JobId([1; 16]), JobState::Active));
        let second = claim(catalog, "w2", 9).await;
        assert_eq!(second.iter().map(|claimed| claimed.file.id).collect::<Vec<_>>(), ids[2..]);
        let queues = catalog.queues().await.unwrap();
        let counts: Vec<_> = queues.iter().map(|queue| (queue.priority, queue.waiting, queue.active)).collect();
        assert_eq!(counts, [(5, 1, 0), (3, 0, 3)]);
        assert_eq!((queues[0].oldest_ms, queues[1].oldest_ms), (Some(NOW), None));
    }

    async fn a_file_finishes_with_its_job(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        let id = begin(catalog).await;
        assert_eq!(states(catalog).await, (JobState::Active, vec![FileState::Active]));
        assert_eq!(end(catalog, id, finished()).await, Ended::Now(FileState::Finished));
        assert_eq!(states(catalog).await, (JobState::Finished, vec![FileState::Finished]));
        let file = catalog.file(id).await.unwrap().unwrap();
        assert_eq!((file.size_bytes, file.moved_bytes, file.way.as_deref()), (Some(10), 10, Some("3rd pull")));
        assert_eq!((file.times.started_ms, file.times.finished_ms), (Some(NOW), Some(NOW + 5)));
        assert_eq!(end(catalog, id, failed(None)).await, Ended::NotOurs);
        assert!(catalog.queues().await.unwrap().is_empty());
    }

    async fn a_file_belongs_to_the_worker_that_has_it(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 2)).await.unwrap();
        claim(catalog, "w1", 1).await;
        assert_eq!(catalog.start(&ids, "w2", NOW).await.unwrap(), []);
        assert_eq!(catalog.start(&ids, "w1", NOW).await.unwrap(), ids[..1]);
        assert_eq!(catalog.start(&ids, "w1", NOW).await.unwrap(), []);
        let ending = Ending { file: ids[0], moved_bytes: 0, outcome: finished(), facts: CopyFacts::default() };
        let ended = catalog.end("w2", vec![ending.clone()], NOW).await.unwrap();
        assert_eq!(ended, [Ended::NotOurs]);
        let ended = catalog.end("w1", vec![ending.clone(), ending], NOW).await.unwrap();
        assert_eq!(ended, [Ended::Now(FileState::Finished), Ended::NotOurs]);
    }

    async fn a_failed_attempt_is_retried_at_its_time_and_a_hold_burns_none(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        let id = begin(catalog).await;
        assert_eq!(end(catalog, id, failed(Some(NOW + 500))).await, Ended::Now(FileState::Submitted));
        let file = catalog.file(id).await.unwrap().unwrap();
        assert_eq!((file.attempts, file.times.retry_ms, &file.problem), (1, Some(NOW + 500), &Some(problem())));
        let queue = &catalog.queues().await.unwrap()[0];
        assert_eq!((queue.waiting, queue.delayed), (0, 1));
        assert_eq!(claim(catalog, "w1", 1).await, []);
        let attempts = catalog.attempts(id).await.unwrap();
        assert_eq!((attempts.len(), attempts[0].number, attempts[0].worker.as_deref()), (1, 1, Some("w1")));
    }

    async fn replicas_are_tried_until_one_is_copied(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(chained(JobKind::MultiSource)).await.unwrap();
        let id = begin(catalog).await;
        end(catalog, id, failed(None)).await;
        let expected = vec![FileState::Failed, FileState::Submitted, FileState::NotUsed];
        assert_eq!(states(catalog).await, (JobState::Active, expected));
        let id = begin(catalog).await;
        end(catalog, id, finished()).await;
        let expected = vec![FileState::Failed, FileState::Finished, FileState::NotUsed];
        assert_eq!(states(catalog).await, (JobState::Finished, expected));
        assert_eq!(catalog.job(JobId([1; 16])).await.unwrap().unwrap().reason, None);
    }

    async fn hops_follow_each_other_and_a_failure_ends_the_chain(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(chained(JobKind::Multihop)).await.unwrap();
        let id = begin(catalog).await;
        end(catalog, id, finished()).await;
        let expected = vec![FileState::Finished, FileState::Submitted, FileState::NotUsed];
        assert_eq!(states(catalog).await, (JobState::Active, expected));
        let id = begin(catalog).await;
        end(catalog, id, failed(None)).await;
        let expected = vec![FileState::Finished, FileState::Failed, FileState::Canceled];
        assert_eq!(states(catalog).await, (JobState::Failed, expected));
        let files = catalog.files(JobId([1; 16])).await.unwrap();
        assert_eq!(files[2].problem.as_ref().unwrap().reason, "not used: a previous hop failed");
        assert_eq!(catalog.job(JobId([1; 16])).await.unwrap().unwrap().reason, Some(problem().reason));
        assert!(catalog.queues().await.unwrap().is_empty());
    }

    async fn a_copy_may_wait_for_tape(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        let id = begin(catalog).await;
        let archiving = Outcome::Archiving { size_bytes: 10, way: None };
        assert_eq!(end(catalog, id, archiving).await, Ended::Now(FileState::Archiving));
        assert_eq!(states(catalog).await.0, JobState::Archiving);
        assert_eq!(end(catalog, id, finished()).await, Ended::Now(FileState::Finished));
        let times = catalog.file(id).await.unwrap().unwrap().times;
        assert_eq!((times.archiving_started_ms, times.archiving_finished_ms), (Some(NOW + 5), Some(NOW + 5)));
    }

    async fn a_file_that_was_found_at_its_destination_keeps_how(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 2)).await.unwrap();
        for archives in [true, false] {
            let id = begin(catalog).await;
            let found = Outcome::Found { size_bytes: 10, note: problem(), archives };
            let state = if archives { FileState::Archiving } else { FileState::Finished };
            assert_eq!(end(catalog, id, found).await, Ended::Now(state));
            let file = catalog.file(id).await.unwrap().unwrap();
            assert_eq!((file.size_bytes, file.attempts, file.problem), (Some(10), 0, Some(problem())));
            assert_eq!(catalog.attempts(id).await.unwrap(), []);
        }
    }
}
