//! Requests at tape systems, without any.

use schedule::FileId;

use super::*;

fn member(number: i64, is_last_step: bool) -> StageMember {
    StageMember {
        file: FileId(number),
        path: format!("/f{number}"),
        expires_ms: 1_000_000,
        is_last_step,
    }
}

/// A request for three files at 0; the third is only brought online.
fn batch(states: [FileState; 3]) -> Batch {
    let request = StageRequest {
        number: 1,
        storage: "https://a:443".to_owned(),
        request: "r".to_owned(),
        asked_ms: 0,
        members: vec![member(1, false), member(2, false), member(3, true)],
    };
    Batch::new(request, "jane".to_owned(), &states.map(Some), Pace::default())
}

fn files(question: Option<Question>) -> (&'static str, Vec<i64>) {
    let (name, members) = match question {
        Some(Question::States(members)) => ("states", members),
        Some(Question::Cancel {
            members,
            is_rest: false,
        }) => ("cancel", members),
        Some(Question::Cancel { members, is_rest: true }) => ("cancel the rest", members),
        Some(Question::Release(members)) => ("release", members),
        None => ("nothing", Vec::new()),
    };
    (name, members.iter().map(|member| member.file.0).collect())
}

const STARTED: [FileState; 3] = [FileState::StagingStarted; 3];

#[test]
fn it_is_asked_after_a_pause_and_one_question_at_a_time() {
    let mut new = batch(STARTED);
    assert_eq!(files(new.question(1_999)).0, "nothing");
    assert_eq!(
        [1_999, 2_000].map(|at_ms| new.asks_since_ms(at_ms)),
        [None, Some(2_000)]
    );
    assert_eq!(new.next_ms(), Some(2_000));
    assert_eq!(files(new.question(2_000)), ("states", vec![1, 2, 3]));
    assert_eq!(files(new.question(9_000)).0, "nothing");
    assert_eq!(new.asks_since_ms(9_000), None);
    new.answered(Pace::default(), 40_000);
    assert_eq!(new.next_ms(), Some(50_000));
    // The clock was set back by an hour.
    assert_eq!(new.asks_since_ms(40_000 - 3_600_000), Some(50_000));
    // One that was found after a crash is asked at once.
    assert_eq!(files(batch(STARTED).question(700_000)).0, "states");
}

#[test]
fn what_was_copied_is_released_and_what_is_only_wanted_on_disk_is_not() {
    let mut batch = batch(STARTED);
    let _ = batch.question(5_000);
    for number in [1, 3] {
        let told = verdict(&member(number, number == 3), StageState::OnDisk).unwrap();
        batch.settle(FileId(number), &told, Some(FileState::Submitted));
    }
    batch.answered(Pace::default(), 5_000);
    batch.note(FileId(1), FileState::Active);
    assert_eq!(files(batch.question(6_000)).0, "nothing", "its copy goes on");
    batch.note(FileId(1), FileState::Finished);
    batch.note(FileId(3), FileState::Finished);
    let question = batch.question(6_000);
    assert_eq!(files(question.clone()), ("release", vec![1]));
    batch.told(&question.unwrap(), true);
    assert!(!batch.is_done(), "the second is still asked for");
    let gone = verdict(&member(2, false), StageState::Failed("tape is torn".to_owned())).unwrap();
    batch.settle(FileId(2), &gone, Some(FileState::Failed));
    assert!(batch.is_done());
}

#[test]
fn what_is_canceled_or_late_is_canceled_there_too() {
    let mut batch = batch(STARTED);
    batch.note(FileId(2), FileState::Canceled);
    let question = batch.question(0);
    assert_eq!(files(question.clone()), ("cancel", vec![2]));
    batch.told(&question.unwrap(), true);
    assert!(batch.expired(999_999).is_empty());
    let late: Vec<i64> = batch.expired(1_000_000).iter().map(|member| member.file.0).collect();
    assert_eq!(late, [1, 3]);
    for number in late {
        batch.settle(FileId(number), &Verdict::Expired, Some(FileState::Failed));
    }
    // The tape system is asked some times, and then left to itself.
    for _ in 0..TAPE_FAREWELLS_MAX {
        assert!(!batch.is_done());
        let question = batch.question(1_000_000);
        assert_eq!(files(question.clone()), ("cancel the rest", vec![1, 3]));
        batch.told(&question.unwrap(), false);
    }
    assert!(batch.is_done());
}

#[test]
fn a_file_on_disk_that_was_canceled_meanwhile_is_released() {
    let mut batch = batch(STARTED);
    let told = verdict(&member(1, false), StageState::OnDisk).unwrap();
    batch.settle(FileId(1), &told, None);
    assert_eq!(files(batch.question(0)), ("release", vec![1]));
}

#[test]
fn after_a_crash_the_states_in_the_catalog_say_what_is_left() {
    let mut found = batch([FileState::Submitted, FileState::Canceled, FileState::Finished]);
    assert_eq!(files(found.question(10_000)), ("cancel the rest", vec![2]));
    let mut found = batch([FileState::Archiving, FileState::Staging, FileState::Finished]);
    assert_eq!(files(found.question(10_000)), ("release", vec![1]));
}
