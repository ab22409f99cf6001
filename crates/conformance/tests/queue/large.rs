//! The largest job that the queue takes, over HTTP.

use testkit::{HollowStorage, available};

use crate::bare::Bare;

/// Files of the largest job.
const FILES_MAX: usize = 100_000;

/// Takes some ten seconds: such a job is stored, and canceled again.
#[test]
fn the_largest_job_is_taken_and_a_larger_one_is_refused_with_the_limit() {
    let test = "the_largest_job_is_taken_and_a_larger_one_is_refused_with_the_limit";
    let storage = HollowStorage::start().expect("a storage");
    let Some(queue) = available(test, Bare::start(test, 1, "")) else {
        return;
    };
    let (status, refused) = queue.try_submit(&storage, 0, FILES_MAX + 1);
    assert_eq!(status, 400, "{refused}");
    let words = refused["message"].as_str().unwrap_or_default();
    assert!(words.contains(&format!("more than {FILES_MAX} elements")), "{words}");

    let job = queue.submit(&storage, 1, FILES_MAX);
    assert_eq!(queue.count_files(&job), FILES_MAX);
    queue.cancel(&job);
    assert_eq!(queue.state(&job), "CANCELED");
    // The queue goes on, and its door too.
    storage.hold(false);
    let next = queue.submit(&storage, 2, 1);
    conformance::until("the next job ends", crate::bare::PATIENCE, || {
        queue.state(&next) == "FINISHED"
    });
}
