//! Large jobs: stored, canceled and moved in several transactions.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use catalog::limits::CHANGED_FILES_MAX;
use catalog::{
    Ban, BanEffect, CancelOutcome, Catalog, FileFilter, Grant, JobSecrets, SealedSecret, SecretKind, SettingKind,
    Submitted,
};
use schedule::{FileState, JobId, JobState};
use types::ErrorCode;

use crate::place::{A, B, C, NOW, Place, for_each_database, plain_job, queue};

/// Three transactions.
const FILES: u32 = 2 * CHANGED_FILES_MAX as u32 + 1;
const LARGE: JobId = JobId([1; 16]);

/// Polls a change until something is true, and drops it then, as a process that is killed.
async fn cut_off<T>(change: impl Future<Output = T>, is_enough: impl AsyncFn() -> bool) {
    poll_until(pin!(change), is_enough).await;
}

/// Polls a change until something is true. It goes on when it is polled again.
async fn poll_until<T>(mut change: Pin<&mut impl Future<Output = T>>, is_enough: impl AsyncFn() -> bool) {
    while !is_enough().await {
        let has_ended = poll_fn(|context| Poll::Ready(change.as_mut().poll(context).is_ready())).await;
        assert!(!has_ended, "it ended before it was cut off");
    }
}

/// Whether a change is noted.
async fn is_noted(catalog: &Catalog) -> bool {
    !catalog.stalled_changes(i64::MAX).await.unwrap().is_empty()
}

/// Does what is left, as the first sweep after a start does. Returns how many steps it took: the
/// last counts too, and is the only one where the cut left no more to do than one step does.
async fn resume(catalog: &Catalog) -> usize {
    let mut steps = 0;
    loop {
        let stalled = catalog.stalled_changes(NOW + 60_000).await.unwrap();
        let Some(change) = stalled.first() else { return steps };
        steps += 1;
        while !catalog.resume_change(*change, NOW).await.unwrap() {
            steps += 1;
        }
    }
}

async fn claim(catalog: &Catalog) -> usize {
    let grant = |priority| Grant {
        queue: queue(),
        priority,
        count: 1,
    };
    let grants = [grant(3), grant(5)];
    catalog.claim(&grants, "w1", NOW, NOW + 1000).await.unwrap().len()
}

/// Waiting and delayed files by priority.
async fn counts(catalog: &Catalog) -> Vec<(u8, u64, u64)> {
    let queues = catalog.queues().await.unwrap();
    let counts = queues
        .iter()
        .map(|queue| (queue.priority, queue.waiting, queue.delayed));
    counts.collect()
}

for_each_database! {
    async fn a_large_job_is_as_a_small_one(place: Place) {
        let catalog = &place.catalog;
        let mut new = plain_job(1, FILES);
        new.files[0].options.source_token = Some("given".to_owned());
        new.files[1].options.source_token = Some("known".to_owned());
        let token = SealedSecret {
            kind: SecretKind::Token,
            name: "given".to_owned(),
            sealed: vec![1],
            expires_ms: None,
            owner: "jane".to_owned(),
            renews_ms: None,
            lease_ms: None,
            renewed_by: None,
        };
        let secrets = JobSecrets { stored: vec![token], grants: vec!["grant".to_owned()] };
        let Submitted::New(ids) = catalog.submit_with_secrets(new.clone(), secrets, None).await.unwrap() else {
            panic!("no new job");
        };
        let files = catalog.files(LARGE).await.unwrap();
        assert_eq!(files.iter().map(|file| file.id).collect::<Vec<_>>(), ids);
        assert!(files.iter().all(|file| file.state == FileState::Submitted && file.times.retry_ms.is_none()));
        assert_eq!(counts(catalog).await, [(3, FILES.into(), 0)]);
        assert_eq!(catalog.delete_unused_secrets(NOW, 10).await.unwrap(), 0);
        assert!(catalog.secret(SecretKind::RefreshToken, "grant").await.unwrap().is_some());
        assert_eq!(catalog.submit(new).await.unwrap_err().code(), ErrorCode::JobExists);

        assert!(catalog.set_priority(LARGE, 5, NOW).await.unwrap());
        assert_eq!(counts(catalog).await, [(5, FILES.into(), 0)]);
        assert_eq!(claim(catalog).await, 1);
        let canceled = catalog.cancel_jobs(&[LARGE], "by the user", NOW + 1).await.unwrap();
        assert_eq!(canceled.outcomes, [CancelOutcome::Canceled]);
        assert_eq!(canceled.running.len(), 1);
        let job = catalog.job(LARGE).await.unwrap().unwrap();
        assert_eq!((job.state, job.is_canceled, job.finished_ms), (JobState::Canceled, true, Some(NOW + 1)));
        assert!(counts(catalog).await.is_empty() && !is_noted(catalog).await);
        let again = catalog.cancel_jobs(&[LARGE], "again", NOW + 2).await.unwrap();
        assert_eq!(again.outcomes, [CancelOutcome::Terminal]);
        assert_eq!(catalog.retire(NOW + 2, 10).await.unwrap(), 1);
        assert_eq!(catalog.retire(NOW + 2, 10).await.unwrap(), 0);
        assert!(!is_noted(catalog).await);
        assert_eq!(catalog.job(LARGE).await.unwrap(), Some(job));
        let past = catalog.files(LARGE).await.unwrap();
        assert!(past.iter().map(|file| file.id).eq(ids) && past.iter().all(|file| file.state == FileState::Canceled));
    }

    async fn a_large_job_is_read_all_the_time_while_it_moves_to_the_history(place: Place) {
        let catalog = place.catalog.clone();
        let ids = catalog.submit(plain_job(1, FILES)).await.unwrap();
        catalog.cancel_jobs(&[LARGE], "by the user", NOW).await.unwrap();
        let all = FileFilter { limit: 10_000, ..FileFilter::default() };
        let is_whole = async |catalog: &Catalog| {
            assert!(catalog.job(LARGE).await.unwrap().is_some());
            assert_eq!(catalog.files(LARGE).await.unwrap().len(), ids.len());
            assert_eq!(catalog.list_files(&all).await.unwrap().len(), ids.len());
            let canceled = catalog.cancel_files(LARGE, &ids[..1], "again", NOW).await.unwrap();
            assert_eq!(canceled.outcomes, [CancelOutcome::Terminal]);
        };
        let has_begun = async || {
            is_whole(&catalog).await;
            is_noted(&catalog).await
        };
        cut_off(catalog.retire(NOW + 1, 10), has_begun).await;
        drop(catalog);
        let place = place.reopened().await;
        assert_eq!(place.catalog.retire(NOW + 1, 10).await.unwrap(), 0, "it is on its way");
        loop {
            let stalled = place.catalog.stalled_changes(NOW + 60_000).await.unwrap();
            let Some(change) = stalled.first() else { break };
            place.catalog.resume_change(*change, NOW).await.unwrap();
            is_whole(&place.catalog).await;
        }
        assert!(!is_noted(&place.catalog).await);
        is_whole(&place.catalog).await;
    }

    async fn a_ban_that_is_made_while_a_large_job_is_stored_concerns_its_files(place: Place) {
        let catalog = &place.catalog;
        let mut new = plain_job(1, FILES);
        for (file, storage) in new.files.iter_mut().zip([A, B, C].into_iter().cycle()) {
            file.source_storage = "davs://other.example:443".to_owned();
            file.destination_storage = storage.to_owned();
        }
        let mut submission = pin!(catalog.submit(new));
        poll_until(submission.as_mut(), || place.has_files()).await;
        for (storage, vo, effect, cancels_ms) in [
            (A, "cms", BanEffect::Cancel, None),
            ("b.example", "", BanEffect::WaitAs, Some(NOW + 3_600_000)),
            ("root://c.example:1094", "atlas", BanEffect::Wait, Some(NOW)),
        ] {
            let (storage, vo) = (storage.to_owned(), vo.to_owned());
            let (message, by) = (String::new(), "operator".to_owned());
            let ban = Ban { storage, vo, effect, message, by, since_ms: NOW, cancels_ms };
            catalog.put_setting(SettingKind::Ban, &ban.storage, &ban, "operator", NOW).await.unwrap();
            assert_eq!(catalog.hold(&ban.storage, None, NOW).await.unwrap().files, 0, "it finds none yet");
        }
        submission.await.unwrap();
        for file in catalog.files(LARGE).await.unwrap() {
            let expected = match file.destination_storage.as_str() {
                A => FileState::Submitted,
                B => FileState::OnHold,
                _ => FileState::Canceled,
            };
            assert_eq!((file.state, file.times.retry_ms), (expected, None), "{}", file.destination_storage);
        }
        let waiting: u64 = counts(catalog).await.iter().map(|(_, waiting, _)| waiting).sum();
        assert_eq!(waiting, u64::from(FILES).div_ceil(3));
        assert!(!is_noted(catalog).await);
    }

    async fn a_submission_that_was_not_answered_leaves_nothing(place: Place) {
        let catalog = place.catalog.clone();
        cut_off(catalog.submit(plain_job(1, FILES)), || place.has_files()).await;
        drop(catalog);
        let place = place.reopened().await;
        let catalog = &place.catalog;
        assert_eq!((catalog.job(LARGE).await.unwrap(), counts(catalog).await), (None, Vec::new()));
        assert_eq!(claim(catalog).await, 0);
        assert_eq!(catalog.hold(A, None, NOW).await.unwrap().files, 0, "a ban finds no files without a job");
        let all = FileFilter { limit: 10, ..FileFilter::default() };
        assert!(catalog.list_files(&all).await.unwrap().is_empty());
        assert!(resume(catalog).await > 0);
        assert!(!is_noted(catalog).await);
        catalog.submit(plain_job(1, FILES)).await.unwrap();
        assert_eq!(counts(catalog).await, [(3, FILES.into(), 0)]);
    }

    async fn a_job_that_is_stored_runs_after_a_kill(place: Place) {
        let catalog = place.catalog.clone();
        let is_stored = async || catalog.job(LARGE).await.unwrap().is_some();
        cut_off(catalog.submit(plain_job(1, FILES)), is_stored).await;
        let files = catalog.files(LARGE).await.unwrap();
        assert!(files.iter().all(|file| file.state == FileState::Submitted && file.times.retry_ms.is_none()));
        assert_eq!(files.len(), FILES as usize);
        drop(catalog);
        let place = place.reopened().await;
        resume(&place.catalog).await;
        assert_eq!(counts(&place.catalog).await, [(3, FILES.into(), 0)]);
        assert_eq!(claim(&place.catalog).await, 1);
    }

    async fn what_was_begun_with_a_large_job_goes_on_after_a_kill(place: Place) {
        let catalog = place.catalog.clone();
        catalog.submit(plain_job(1, FILES)).await.unwrap();
        cut_off(catalog.set_priority(LARGE, 5, NOW), || is_noted(&catalog)).await;
        drop(catalog);
        let place = place.reopened().await;
        assert!(resume(&place.catalog).await > 0);
        assert_eq!(counts(&place.catalog).await, [(5, FILES.into(), 0)]);

        let catalog = place.catalog.clone();
        cut_off(catalog.cancel_jobs(&[LARGE], "by the user", NOW), || is_noted(&catalog)).await;
        drop(catalog);
        let place = place.reopened().await;
        assert!(resume(&place.catalog).await > 0);
        let job = place.catalog.job(LARGE).await.unwrap().unwrap();
        assert_eq!((job.state, job.reason.as_deref()), (JobState::Canceled, Some("by the user")));
        assert!(counts(&place.catalog).await.is_empty());
    }
}

/// The writer of SQLite takes operations in the order of their arrival, and a large change gives it
/// one after the other.
async fn lets_others_come_in_between<T>(place: &Place, large: impl Future<Output = types::Result<T>>, jobs: [u8; 2]) {
    let has_ended = Cell::new(false);
    let large = async {
        large.await.unwrap();
        has_ended.set(true);
    };
    let small = async {
        for number in jobs {
            place.catalog.submit(plain_job(number, 1)).await.unwrap();
        }
        assert!(!has_ended.get(), "two small jobs wait for two steps of a large one");
    };
    tokio::join!(large, small);
}

#[tokio::test]
async fn others_come_in_between_with_sqlite() {
    let place = Place::sqlite().await;
    let catalog = &place.catalog;
    lets_others_come_in_between(&place, catalog.submit(plain_job(1, FILES)), [2, 3]).await;
    lets_others_come_in_between(&place, catalog.set_priority(LARGE, 5, NOW), [4, 5]).await;
    lets_others_come_in_between(&place, catalog.cancel_jobs(&[LARGE], "by the user", NOW), [6, 7]).await;
}
