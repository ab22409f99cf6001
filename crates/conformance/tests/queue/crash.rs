//! What the queue does when it, its database or its clock fails: no file is lost, and none is
//! copied twice at the same time.

use std::time::Duration;

use conformance::until;
use testkit::{Clock, Direction, Fault, HollowStorage, Postgres, Relay, Tmpfs, available};

use crate::bare::{Bare, Job};

/// Copies that are open when a process is killed.
const ACTIVE: usize = 1_000;
/// Copies of each worker where several share the files.
const SHARE: usize = 40;
const PATIENCE: Duration = Duration::from_secs(60);
/// The shortest: workers notice each other's end soon.
const LEASE: &str = "lease = \"10s\"";

fn wait_open(storage: &HollowStorage, count: usize) {
    until(&format!("{count} copies are open"), PATIENCE, || {
        storage.open() == count
    });
}

/// Lets all copies end, and looks at the result.
fn finish(storage: &HollowStorage, queue: &Bare, jobs: &[Job]) {
    storage.hold(false);
    for job in jobs {
        until("the job ends", PATIENCE, || queue.state(job) == "FINISHED");
    }
    let files: usize = jobs.iter().map(|job| job.files).sum();
    assert_eq!((storage.copied(), storage.doubled()), (files as u64, 0));
}

/// Takes ten seconds from the restart until the first file is copied again, and 2 000 copies begin.
#[test]
fn a_killed_queue_copies_all_of_its_files_again() {
    let test = "a_killed_queue_copies_all_of_its_files_again";
    let storage = HollowStorage::start().expect("a storage");
    let Some(mut queue) = available(test, Bare::start(test, ACTIVE, "")) else {
        return;
    };
    let jobs: Vec<Job> = (0..11).map(|number| queue.submit(&storage, number, 100)).collect();
    wait_open(&storage, ACTIVE);
    queue.server.process().kill_hard();
    queue.server.start_again().expect("it starts again");
    // The storage has noticed before the first file is copied again.
    wait_open(&storage, 0);
    // A hundred had not begun before.
    let waited = until("files are copied again", PATIENCE, || storage.open() > 100);
    assert!(
        waited > Duration::from_secs(5),
        "only {waited:?} for storages to notice"
    );
    wait_open(&storage, ACTIVE);
    finish(&storage, &queue, &jobs);
}

#[test]
fn a_queue_that_is_stopped_hands_its_files_on() {
    let test = "a_queue_that_is_stopped_hands_its_files_on";
    let storage = HollowStorage::start().expect("a storage");
    let Some(mut queue) = available(test, Bare::start(test, SHARE, "")) else {
        return;
    };
    let job = queue.submit(&storage, 0, SHARE + 10);
    wait_open(&storage, SHARE);
    queue.server.start_again().expect("it starts again");
    wait_open(&storage, SHARE);
    finish(&storage, &queue, &[job]);
}

/// The storage ends a copy when it may, or when its client leaves: here it may not.
#[test]
fn a_canceled_copy_ends_at_its_storage_and_no_other_does() {
    let test = "a_canceled_copy_ends_at_its_storage_and_no_other_does";
    let storage = HollowStorage::start().expect("a storage");
    let Some(queue) = available(test, Bare::start(test, SHARE, "")) else {
        return;
    };
    let (canceled, kept) = (queue.submit(&storage, 0, 2), queue.submit(&storage, 1, 1));
    wait_open(&storage, 3);
    queue.cancel(&canceled);
    wait_open(&storage, 1);
    assert_eq!(queue.state(&canceled), "CANCELED");
    finish(&storage, &queue, &[kept]);
}

/// `count` workers on one database, each with its share of the copies. `shared` is what they have
/// in common.
fn workers(test: &str, shared: &str, count: usize) -> testkit::Result<Vec<Bare>> {
    let worker = |number: usize| {
        let more = format!("{shared}\nworker = \"w{number}\"\n{LEASE}");
        Bare::start(&format!("{test}-{number}"), SHARE, &more)
    };
    (0..count).map(worker).collect()
}

/// Takes the time of a lease, and starts a server of PostgreSQL.
fn one_of_several_is_killed(test: &str, count: usize) {
    let storage = HollowStorage::start().expect("a storage");
    let Some(server) = available(test, Postgres::start()) else {
        return;
    };
    let url = server.database("queue").expect("a database");
    let Some(mut workers) = available(test, workers(test, &server.queue_lines(&url), count)) else {
        return;
    };
    let job = workers[0].submit(&storage, 0, SHARE * count + 10);
    wait_open(&storage, SHARE * count);
    let mut killed = workers.remove(0);
    killed.server.process().kill_hard();
    wait_open(&storage, SHARE * (count - 1));
    finish(&storage, &workers[0], &[job]);
}

#[test]
fn one_of_two_workers_is_killed() {
    one_of_several_is_killed("one_of_two_workers_is_killed", 2);
}

#[test]
fn one_of_four_workers_is_killed() {
    one_of_several_is_killed("one_of_four_workers_is_killed", 4);
}

#[test]
fn workers_keep_one_limit_and_have_one_key() {
    let test = "workers_keep_one_limit_and_have_one_key";
    let storage = HollowStorage::start().expect("a storage");
    let Some(server) = available(test, Postgres::start()) else {
        return;
    };
    let url = server.database("queue").expect("a database");
    let shared = server.queue_lines(&url);
    let Some(mut workers) = available(test, self::workers(test, &shared, 1)) else {
        return;
    };
    workers[0].limit_storages(1);
    // Another worker learns of a limit within a second, or when it starts.
    workers.push(Bare::start("second", SHARE, &format!("{shared}\nworker = \"second\"")).expect("as before"));
    let jobs: Vec<Job> = (0..2)
        .map(|number| workers[number].submit(&storage, number, 20))
        .collect();
    wait_open(&storage, 1);
    storage.hold(false);
    for job in &jobs {
        until("the job ends", PATIENCE, || workers[0].state(job) == "FINISHED");
    }
    assert_eq!(storage.open_most(), 1);
    let stranger = Bare::start("stranger", SHARE, &format!("database = {url:?}"));
    let words = stranger.err().expect("another key").to_string();
    assert!(words.contains("were sealed with it"), "{words}");
}

/// Takes the time of a lease, and starts a server of PostgreSQL.
fn one_of_several_loses_its_database(test: &str, count: usize) {
    let storage = HollowStorage::start().expect("a storage");
    let Some(server) = available(test, Postgres::start()) else {
        return;
    };
    let relay = Relay::start(server.address()).expect("a relay");
    let url = server.database("queue").expect("a database");
    let apart = url.replace(&server.address().to_string(), &relay.address().to_string());
    let settings = |worker: &str, url: &str| format!("{}\nworker = \"{worker}\"\n{LEASE}", server.queue_lines(url));
    let first = Bare::start("apart", SHARE, &settings("apart", &apart));
    let Some(first) = available(test, first) else {
        return;
    };
    let job = first.submit(&storage, 0, SHARE * count);
    wait_open(&storage, SHARE);
    // The others together have room for the copies of all.
    let others: Vec<Bare> = (1..count)
        .map(|number| {
            let (name, copies) = (format!("near{number}"), SHARE * count);
            Bare::start(&name, copies, &settings(&name, &url)).expect("as before")
        })
        .collect();
    wait_open(&storage, SHARE * count);
    // Nothing passes any more, and nothing is closed.
    relay.set_fault(Fault::StallAfter(Direction::ToTarget, 0), usize::MAX);
    wait_open(&storage, SHARE * (count - 1));
    wait_open(&storage, SHARE * count);
    relay.heal();
    finish(&storage, &others[0], &[job]);
}

#[test]
fn a_worker_without_its_database_stops_before_others_take_its_files() {
    one_of_several_loses_its_database("a_worker_without_its_database_stops_before_others_take_its_files", 2);
}

#[test]
fn of_four_workers_one_without_its_database_stops_before_others_take_its_files() {
    let test = "of_four_workers_one_without_its_database_stops_before_others_take_its_files";
    one_of_several_loses_its_database(test, 4);
}

#[test]
fn copies_survive_a_restart_of_the_database() {
    let test = "copies_survive_a_restart_of_the_database";
    let storage = HollowStorage::start().expect("a storage");
    let Some(mut server) = available(test, Postgres::start()) else {
        return;
    };
    let url = server.database("queue").expect("a database");
    let started = Bare::start(test, SHARE, &format!("database = {url:?}"));
    let Some(queue) = available(test, started) else {
        return;
    };
    let job = queue.submit(&storage, 0, SHARE + 10);
    wait_open(&storage, SHARE);
    server.stop();
    let refused = queue.try_submit(&storage, 1, 1);
    assert_eq!(refused.0, 503, "{}", refused.1);
    assert!(refused.1.to_string().contains("database"), "{}", refused.1);
    // Their results wait for the database.
    storage.hold(false);
    wait_open(&storage, 0);
    server.resume().expect("it starts again");
    until("a job is taken", PATIENCE, || queue.try_submit(&storage, 1, 1).0 == 200);
    until("both jobs end", PATIENCE, || storage.copied() >= SHARE as u64 + 11);
    finish(
        &storage,
        &queue,
        &[
            job,
            Job {
                files: 1,
                ..queue.last()
            },
        ],
    );
}

#[test]
fn a_clock_that_jumps_takes_no_file_from_its_copy() {
    let test = "a_clock_that_jumps_takes_no_file_from_its_copy";
    let storage = HollowStorage::start().expect("a storage");
    let scratch = testkit::Scratch::new("queue-clock").expect("scratch");
    let Some(clock) = available(test, Clock::new(scratch.path())) else {
        return;
    };
    let Some(queue) = available(test, Bare::start_with(test, SHARE, "", &clock)) else {
        return;
    };
    let job = queue.submit(&storage, 0, SHARE);
    wait_open(&storage, SHARE);
    // It has no place, and waits for an hour at most.
    let waiting = queue.submit_until(&storage, 1, 1, 1);
    clock.advance(2).expect("written");
    until("the queue sees the new time", PATIENCE, || {
        queue.state(&waiting) == "FAILED"
    });
    // It goes back, and what comes then is copied too.
    clock.advance(0).expect("written");
    let late = queue.submit(&storage, 2, SHARE);
    finish(&storage, &queue, &[job, late]);
}

#[test]
fn a_limit_on_the_size_of_files_refuses_jobs_and_ends_no_queue() {
    let test = "a_limit_on_the_size_of_files_refuses_jobs_and_ends_no_queue";
    let storage = HollowStorage::start().expect("a storage");
    let Some(mut queue) = available(test, Bare::start(test, SHARE, "")) else {
        return;
    };
    let limit = |queue: &mut Bare, bytes| queue.server.process().limit_file_size(bytes).expect("it runs");
    limit(&mut queue, Some(2 << 20));
    let mut jobs = Vec::new();
    let refused = loop {
        let number = jobs.len();
        match queue.try_submit(&storage, number, 100) {
            (200, _) => jobs.push(Job {
                files: 100,
                ..queue.last()
            }),
            refused => break refused,
        }
    };
    assert_eq!(refused.0, 507, "{}", refused.1);
    limit(&mut queue, None);
    finish(&storage, &queue, &jobs);
}

#[test]
fn a_full_disk_refuses_jobs_in_words_and_loses_none() {
    let test = "a_full_disk_refuses_jobs_in_words_and_loses_none";
    let storage = HollowStorage::start().expect("a storage");
    let directory = testkit::Scratch::new("queue-full").expect("scratch");
    let Some(disk) = available(test, Tmpfs::mount(&directory.join("state"), 32 << 20)) else {
        return;
    };
    let Some(queue) = available(test, Bare::start_in(directory.path(), SHARE, "")) else {
        return;
    };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![0; 29 << 20]).expect("there is room");
    let mut jobs = Vec::new();
    let refused = loop {
        let number = jobs.len();
        match queue.try_submit(&storage, number, 100) {
            (200, _) => jobs.push(Job {
                files: 100,
                ..queue.last()
            }),
            refused => break refused,
        }
    };
    assert_eq!(refused.0, 507, "{}", refused.1);
    assert!(refused.1.to_string().contains("full"), "{}", refused.1);
    assert!(!jobs.is_empty());
    std::fs::remove_file(&ballast).expect("removed");
    finish(&storage, &queue, &jobs);
}
