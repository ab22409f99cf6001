//! Events with their subjects, and those who read all of them.

use catalog::{Catalog, CopyFacts, Ending, FileNews, Grant, LogEntry, News, Outcome, Span, Subject};
use schedule::{FileId, FileState, JobId, JobState};
use serde_json::json;

use crate::place::{NOW, Place, for_each_database, plain_job, problem, queue};

async fn begin(catalog: &Catalog, count: u32) -> Vec<FileId> {
    let grant = Grant {
        queue: queue(),
        priority: 3,
        count,
    };
    let claimed = catalog.claim(&[grant], "w1", NOW, NOW + 60_000).await.unwrap();
    let ids: Vec<FileId> = claimed.iter().map(|claimed| claimed.file.id).collect();
    assert_eq!(catalog.start(&ids, "w1", NOW + 1).await.unwrap(), ids);
    ids
}

async fn end(catalog: &Catalog, file: FileId, outcome: Outcome, at_ms: i64) {
    let facts = CopyFacts {
        whole: Span {
            from_ms: NOW,
            to_ms: at_ms,
        },
        is_ipv6: Some(true),
        ..CopyFacts::default()
    };
    let ending = Ending {
        file,
        moved_bytes: 7,
        outcome,
        facts,
    };
    catalog.end("w1", vec![ending], at_ms).await.unwrap();
}

fn failed(retry_ms: Option<i64>) -> Outcome {
    Outcome::Failed {
        problem: problem(),
        retry_ms,
        report: None,
    }
}

fn finished() -> Outcome {
    Outcome::Finished {
        size_bytes: 10,
        way: Some("3rd pull".to_owned()),
    }
}

fn files(news: &[News]) -> Vec<&FileNews> {
    let files = news.iter().filter_map(|news| match &news.subject {
        Subject::File(file) => Some(&**file),
        Subject::Link(_) => None,
    });
    files.collect()
}

for_each_database! {
    async fn the_end_of_each_attempt_is_kept_whatever_follows(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        let id = begin(catalog, 1).await[0];
        end(catalog, id, failed(Some(NOW + 10)), NOW + 5).await;
        catalog.due(NOW + 10, i64::MAX).await.unwrap();
        begin(catalog, 1).await;
        end(catalog, id, finished(), NOW + 20).await;
        let list = catalog.news_after(0, 100).await.unwrap();
        let news = files(&list.news);
        let states: Vec<FileState> = news.iter().map(|news| news.state).collect();
        let (ready, active) = (FileState::Ready, FileState::Active);
        assert_eq!(states, [ready, active, FileState::Submitted, ready, active, FileState::Finished]);
        let (first, second) = (news[2].ended.clone().unwrap(), news[5].ended.clone().unwrap());
        assert_eq!((first.retry, first.problem, first.moved_bytes), (0, Some(problem()), 7));
        assert_eq!((second.retry, second.problem, second.size_bytes), (1, None, Some(10)));
        assert_eq!((first.facts.whole.to_ms, second.facts.whole.to_ms), (NOW + 5, NOW + 20));
        assert_eq!((second.way.as_deref(), second.facts.is_ipv6), (Some("3rd pull"), Some(true)));
        assert!(news[1].ended.is_none() && news[4].ended.is_none());
        assert_eq!((news[2].job_state, news[5].job_state), (JobState::Submitted, JobState::Finished));
        // What is in the history is found as well.
        catalog.retire(NOW + 1000, 10).await.unwrap();
        let later = catalog.news_after(0, 100).await.unwrap();
        assert_eq!(later, list);
        catalog.prune_history(NOW + 1000, 10).await.unwrap();
        let gone = catalog.news_after(0, 100).await.unwrap();
        assert_eq!((gone.news.len(), gone.last), (0, list.last));
    }

    async fn a_canceled_copy_ends_an_attempt_and_a_file_that_waits_does_not(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 2)).await.unwrap();
        let id = begin(catalog, 1).await[0];
        catalog.cancel_jobs(&[JobId([1; 16])], "no", NOW + 5).await.unwrap();
        let list = catalog.news_after(0, 100).await.unwrap();
        let canceled = files(&list.news).into_iter().filter(|news| news.state == FileState::Canceled);
        let ended: Vec<(bool, bool)> = canceled.map(|news| (news.file.id == id, news.ended.is_some())).collect();
        assert_eq!(ended, [(true, true), (false, false)]);
    }

    async fn a_held_file_ends_no_attempt(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        let id = begin(catalog, 1).await[0];
        end(catalog, id, Outcome::Held { until_ms: NOW + 9, problem: problem() }, NOW + 5).await;
        let attempts = catalog.attempts(id).await.unwrap();
        let held = attempts.last().expect("the held attempt");
        assert!(held.problem.reason.ends_with("does not count)"), "{}", held.problem.reason);
        assert_eq!(held.at_ms, NOW + 5);
        let list = catalog.news_after(0, 100).await.unwrap();
        let last = *files(&list.news).last().unwrap();
        assert_eq!((last.state, &last.ended), (FileState::Submitted, &None));
    }

    async fn decisions_are_events_in_the_same_order(place: Place) {
        let catalog = &place.catalog;
        catalog.put_decisions(vec![json!({"to": 5}), json!({"to": 6})], NOW).await.unwrap();
        catalog.submit(plain_job(1, 1)).await.unwrap();
        begin(catalog, 1).await;
        let first = catalog.news_after(0, 2).await.unwrap();
        assert_eq!(first.news[1].subject, Subject::Link(json!({"to": 6})));
        assert!(first.has_more && first.last == first.news[1].sequence);
        // The event of the new job has no file.
        let second = catalog.news_after(first.last, 1).await.unwrap();
        assert!(second.news.is_empty() && second.has_more && second.last > first.last);
        let third = catalog.news_after(second.last, 100).await.unwrap();
        assert_eq!((files(&third.news)[0].state, third.has_more), (FileState::Ready, false));
        // Those who follow jobs do not see them.
        let events = catalog.events_after(0, 100).await.unwrap();
        assert!(events.iter().all(|event| event.sequence > first.last));
        let log = catalog.log_after(first.last - 1, 100).await.unwrap();
        let decision = LogEntry::Decision { sequence: first.last, at_ms: NOW, decision: json!({"to": 6}) };
        assert_eq!(log[0], decision);
        let changes: Vec<_> = events.into_iter().map(LogEntry::Change).collect();
        assert_eq!(log[1..], changes);
    }

    async fn one_owner_reads_at_a_time_and_each_continues_after_the_last(place: Place) {
        let catalog = &place.catalog;
        catalog.put_decisions(vec![json!({"to": 5})], NOW).await.unwrap();
        let latest = catalog.last_event().await.unwrap();
        assert_eq!(catalog.take_reader("b", "w1", NOW, NOW + 10).await.unwrap(), Some(latest));
        assert_eq!(catalog.take_reader("b", "w2", NOW + 9, NOW + 19).await.unwrap(), None);
        assert!(!catalog.move_reader("b", "w2", latest + 9, NOW + 90).await.unwrap());
        assert!(catalog.move_reader("b", "w1", latest + 1, NOW + 20).await.unwrap());
        assert_eq!(catalog.take_reader("b", "w2", NOW + 19, NOW + 30).await.unwrap(), None);
        assert_eq!(catalog.take_reader("b", "w2", NOW + 20, NOW + 30).await.unwrap(), Some(latest + 1));
        assert!(!catalog.move_reader("b", "w1", latest + 2, NOW + 90).await.unwrap());
        catalog.leave_reader("b", "w2", NOW + 21).await.unwrap();
        assert_eq!(catalog.take_reader("b", "w1", NOW + 21, NOW + 30).await.unwrap(), Some(latest + 1));
        assert!(catalog.forget_reader("b").await.unwrap() && !catalog.forget_reader("b").await.unwrap());
    }

    async fn unread_events_are_kept_longer(place: Place) {
        let catalog = &place.catalog;
        catalog.take_reader("b", "w1", NOW, NOW + 1000).await.unwrap();
        for at_ms in [NOW, NOW + 1, NOW + 2] {
            catalog.put_decisions(vec![json!({"to": 5})], at_ms).await.unwrap();
        }
        let first = catalog.news_after(0, 1).await.unwrap().last;
        assert_eq!(catalog.prune_events(NOW + 2, NOW - 1).await.unwrap(), 0);
        catalog.move_reader("b", "w1", first, NOW + 1000).await.unwrap();
        assert_eq!(catalog.prune_events(NOW + 2, NOW - 1).await.unwrap(), 1);
        assert_eq!(catalog.prune_events(NOW + 2, NOW + 2).await.unwrap(), 1, "too old for all");
        // A reader that is not read for any more holds nothing.
        catalog.move_reader("b", "w1", first, NOW).await.unwrap();
        assert_eq!(catalog.prune_events(NOW + 3, NOW + 1).await.unwrap(), 1);
        assert!(!catalog.forget_reader("b").await.unwrap());
    }
}
