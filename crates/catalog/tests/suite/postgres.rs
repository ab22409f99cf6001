//! The suite over PostgreSQL, on one server, and what only PostgreSQL does.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use catalog::{Catalog, Grant, JobSecrets, SealedSecret, SecretKind};
use testkit::{Postgres, available};
use types::ErrorCode;

use crate::place::{NOW, Place, plain_job, queue};
use crate::random::play_random;
use crate::{changes, hops, jobs, keep, large, life, news, pages, sweeps, tape};

#[test]
fn each_case_over_postgresql() {
    let Some(server) = available("each_case_over_postgresql", Postgres::start()) else {
        return;
    };
    let runtime = execution::single_thread_runtime().unwrap();
    let cases = [
        hops::CASES,
        changes::CASES,
        jobs::CASES,
        life::CASES,
        news::CASES,
        pages::CASES,
        sweeps::CASES,
        keep::CASES,
        large::CASES,
        tape::CASES,
    ]
    .concat();
    for (number, case) in cases.iter().enumerate() {
        let url = server.database(&format!("case{number}")).unwrap();
        let run = || runtime.block_on(async { (case.run)(Place::postgres(url).await).await });
        assert!(catch_unwind(AssertUnwindSafe(run)).is_ok(), "{}", case.name);
    }
    let count = Cell::new(0);
    play_random(&runtime, 3, async || {
        count.set(count.get() + 1);
        Place::postgres(server.database(&format!("random{}", count.get())).unwrap()).await
    });
}

fn grant(count: u32) -> Grant {
    Grant {
        queue: queue(),
        priority: 3,
        count,
    }
}

/// One submits jobs with a token whose last job has just ended, and the other deletes what no job
/// uses, at the same moment.
#[test]
fn a_token_is_not_deleted_while_a_job_with_it_comes() {
    let test = "a_token_is_not_deleted_while_a_job_with_it_comes";
    let Some(server) = available(test, Postgres::start()) else {
        return;
    };
    let url = server.database("tokens").unwrap();
    let runtime = execution::worker_runtime().unwrap();
    runtime.block_on(async {
        let (one, other) = (
            Catalog::open_postgres(&url).await.unwrap(),
            Catalog::open_postgres(&url).await.unwrap(),
        );
        let mut deleted = 0;
        // The later a job comes, the more often the deletion is before it: the delays go through
        // all moments of a race that takes a millisecond or two.
        for number in 1..=200 {
            let mut new = plain_job(number, 1);
            new.files[0].options.source_token = Some("t".to_owned());
            let token = SealedSecret {
                kind: SecretKind::Token,
                name: "t".to_owned(),
                sealed: vec![number],
                expires_ms: None,
                owner: "jane".to_owned(),
                renews_ms: None,
                lease_ms: None,
                renewed_by: None,
            };
            let id = new.id;
            let stored = JobSecrets {
                stored: vec![token],
                grants: Vec::new(),
            };
            let submission = async {
                tokio::time::sleep(Duration::from_micros(50 * u64::from(number))).await;
                one.submit_with_secrets(new, stored, None).await
            };
            let deletion = other.delete_unused_secrets(NOW, 10);
            let (submitted, removed) = tokio::join!(submission, deletion);
            submitted.unwrap();
            deleted += removed.unwrap();
            let kept = one.secret(SecretKind::Token, "t").await.unwrap();
            assert!(
                kept.is_some_and(|kept| kept.sealed == [number]),
                "job {number} has lost its token"
            );
            one.cancel_jobs(&[id], "user", NOW).await.unwrap();
        }
        assert!(deleted > 0, "the race was never won by the other side");
    });
}

#[test]
fn processes_share_a_database() {
    let Some(mut server) = available("processes_share_a_database", Postgres::start()) else {
        return;
    };
    let url = server.database("shared").unwrap();
    let runtime = execution::worker_runtime().unwrap();
    // The runtime that has opened the catalog drives nothing from now on.
    let opener = execution::single_thread_runtime().unwrap();
    let opened = opener.block_on(Catalog::open_postgres(&url)).unwrap();
    let answered = runtime.block_on(async {
        let apart = opened.apart().unwrap();
        tokio::time::timeout(Duration::from_secs(60), apart.queues()).await
    });
    assert_eq!(answered.expect("an answer").unwrap(), []);
    runtime.block_on(async {
        // Both make the tables.
        let opened = tokio::join!(Catalog::open_postgres(&url), Catalog::open_postgres(&url));
        let (one, other) = (opened.0.unwrap(), opened.1.unwrap());
        claims_are_disjoint(&one, &other).await;
        assert!(one.try_lead().await.unwrap() && one.try_lead().await.unwrap());
        assert!(!other.try_lead().await.unwrap());
        one.close().await;
        // The server may learn of the end a little later.
        while !other.try_lead().await.unwrap() {}
        server.stop();
        let error = other.queues().await.unwrap_err();
        assert_eq!((error.code(), error.retry()), (ErrorCode::CatalogUnavailable, true));
        let error = other.submit(plain_job(9, 1)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::CatalogUnavailable);
        server.resume().unwrap();
        // A connection of the pool that has not noticed fails once.
        while other.queues().await.is_err() {}
        other.submit(plain_job(9, 1)).await.unwrap();
        assert!(other.try_lead().await.unwrap());
    });
}

/// Two processes claim at the same time, and wake each other.
async fn claims_are_disjoint(one: &Catalog, other: &Catalog) {
    let mut changes = other.changes();
    for number in 1..=4 {
        one.submit(plain_job(number, 50)).await.unwrap();
    }
    changes.wait().await;
    let claim = async |catalog: &Catalog, worker: &str| {
        let mut files = Vec::new();
        loop {
            let claimed = catalog.claim(&[grant(7)], worker, NOW, NOW + 1000).await.unwrap();
            if claimed.is_empty() {
                return files;
            }
            files.extend(claimed.iter().map(|claimed| claimed.file.id));
        }
    };
    let (first, second) = tokio::join!(claim(one, "w1"), claim(other, "w2"));
    let all: BTreeSet<_> = first.iter().chain(&second).collect();
    assert_eq!((all.len(), first.len() + second.len()), (200, 200));
    assert!(!first.is_empty() && !second.is_empty());
    let events = one.events_after(0, 10_000).await.unwrap();
    assert!(events.is_sorted_by_key(|event| event.sequence));
    assert_eq!(events.iter().filter(|event| event.file.is_some()).count(), 200);
}
