//! Lists in pages, and submissions that are repeated.

use catalog::{JobFilter, Login, NewJob, PastSubmission, SubmissionKey, Submitted};
use schedule::{JobId, JobState, JobTally};
use types::ErrorCode;

use crate::place::{NOW, Place, for_each_database, plain_job};

fn key(name: &str, digest: &[u8]) -> SubmissionKey {
    SubmissionKey {
        name: name.to_owned(),
        digest: digest.to_vec(),
    }
}

for_each_database! {
    async fn pages_have_each_job_once_also_when_some_are_in_the_history(place: Place) {
        let catalog = &place.catalog;
        for number in 1..=7 {
            catalog.submit(plain_job(number, 2)).await.unwrap();
        }
        let ended: Vec<JobId> = [2, 3, 6].map(|number| JobId([number; 16])).to_vec();
        catalog.cancel_jobs(&ended, "by the user", NOW).await.unwrap();
        let filter = JobFilter { limit: 2, ..JobFilter::default() };
        let first = catalog.page_jobs(&filter, None).await.unwrap();
        assert_eq!(catalog.retire(NOW + 1, 10).await.unwrap(), 3);
        let (mut seen, mut next) = (first.items, first.next);
        while next.is_some() {
            let page = catalog.page_jobs(&filter, next).await.unwrap();
            assert!(page.items.len() <= 2);
            (seen, next) = ([seen, page.items].concat(), page.next);
        }
        let numbers: Vec<u8> = seen.iter().map(|job| job.record.id.0[0]).collect();
        assert_eq!(numbers, [7, 6, 5, 4, 3, 2, 1]);
        let waiting = JobTally { waiting: 2, ..JobTally::default() };
        let canceled = JobTally { canceled: 2, ..JobTally::default() };
        assert_eq!((seen[0].tally, seen[1].tally, seen[4].tally), (waiting, canceled, canceled));
        assert_eq!(catalog.summary(ended[0]).await.unwrap().unwrap(), seen[5]);
        assert_eq!(catalog.summary(JobId([9; 16])).await.unwrap(), None);
        let live = JobFilter { states: vec![JobState::Submitted], limit: 4, ..JobFilter::default() };
        let page = catalog.page_jobs(&live, None).await.unwrap();
        assert_eq!((page.items.len(), page.next), (4, None), "the last page is known to be the last");
    }

    async fn pages_have_each_file_once_in_both_tables(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 5)).await.unwrap();
        let job = JobId([1; 16]);
        let first = catalog.page_files(job, None, 2).await.unwrap();
        assert_eq!(first.next, Some(ids[1].0));
        catalog.cancel_jobs(&[job], "by the user", NOW).await.unwrap();
        catalog.retire(NOW + 1, 10).await.unwrap();
        let second = catalog.page_files(job, first.next, 2).await.unwrap();
        let third = catalog.page_files(job, second.next, 2).await.unwrap();
        let seen = [first.items, second.items, third.items].concat();
        assert_eq!(seen.iter().map(|file| file.id).collect::<Vec<_>>(), ids);
        assert_eq!(third.next, None);
        assert!(catalog.page_files(JobId([9; 16]), None, 2).await.unwrap().items.is_empty());
    }

    async fn a_repeated_submission_is_stored_once_for_each_user(place: Place) {
        let catalog = &place.catalog;
        let first = catalog.submit_once(plain_job(1, 2), key("k", b"body")).await.unwrap();
        assert!(matches!(&first, Submitted::New(files) if files.len() == 2));
        let past = PastSubmission { job: JobId([1; 16]), digest: b"body".to_vec() };
        let again = catalog.submit_once(plain_job(2, 2), key("k", b"other")).await.unwrap();
        assert_eq!(again, Submitted::Past(past.clone()));
        assert_eq!(catalog.job(JobId([2; 16])).await.unwrap(), None, "nothing was stored");
        let owner = plain_job(1, 1).owner;
        assert_eq!(catalog.past_submission(&owner, "k").await.unwrap(), Some(past));
        assert_eq!(catalog.past_submission(&owner, "l").await.unwrap(), None);

        // The subject of a token may be the name of a certificate: they are different users.
        let mut other = NewJob { ..plain_job(3, 1) };
        other.owner.login = Login::Token;
        assert_eq!(catalog.past_submission(&other.owner, "k").await.unwrap(), None);
        let theirs = catalog.submit_once(other, key("k", b"body")).await.unwrap();
        assert!(matches!(theirs, Submitted::New(_)));
    }

    async fn a_key_belongs_to_its_job(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        let taken = catalog.submit_once(plain_job(1, 1), key("k", b"body")).await.unwrap_err();
        assert_eq!(taken.code(), ErrorCode::JobExists);
        let owner = plain_job(1, 1).owner;
        assert_eq!(catalog.past_submission(&owner, "k").await.unwrap(), None, "a refused job leaves no key");
        catalog.submit_once(plain_job(2, 1), key("k", b"body")).await.unwrap();
        catalog.cancel_jobs(&[JobId([2; 16])], "by the user", NOW).await.unwrap();
        catalog.retire(NOW + 1, 10).await.unwrap();
        assert!(catalog.past_submission(&owner, "k").await.unwrap().is_some());
        assert_eq!(catalog.prune_history(NOW + 1, 10).await.unwrap(), 1);
        assert_eq!(catalog.past_submission(&owner, "k").await.unwrap(), None);
    }
}
