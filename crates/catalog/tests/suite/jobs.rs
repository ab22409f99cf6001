//! Submission, reading and cancellation.

use catalog::{CancelOutcome, FileFilter, JobFilter};
use schedule::{FileId, FileState, JobId, JobKind, JobState};
use types::ErrorCode;

use crate::place::{A, B, C, NOW, Place, file, for_each_database, job, plain_job, queue};

for_each_database! {
    async fn a_job_is_read_as_it_was_submitted(place: Place) {
        let mut new = plain_job(1, 3);
        new.options.retries = Some(2);
        new.files[2].source_storage = C.to_owned();
        let ids = place.catalog.submit(new.clone()).await.unwrap();
        let job = place.catalog.job(new.id).await.unwrap().unwrap();
        assert_eq!((job.id, job.state, job.files), (new.id, JobState::Submitted, 3));
        assert_eq!((&job.owner, &job.options, &job.metadata), (&new.owner, &new.options, &new.metadata));
        assert_eq!((job.source_storage.as_deref(), job.destination_storage.as_deref()), (None, Some(B)));
        let files = place.catalog.files(new.id).await.unwrap();
        assert_eq!(files.iter().map(|file| file.id).collect::<Vec<_>>(), ids);
        for (file, given) in files.iter().zip(&new.files) {
            assert_eq!((&file.source, &file.destination), (&given.source, &given.destination));
            assert_eq!((&file.source_storage, &file.options), (&given.source_storage, &given.options));
            assert_eq!((file.state, file.job, file.index), (FileState::Submitted, new.id, given.index));
            assert_eq!((file.vo.as_str(), file.given_size_bytes), ("atlas", Some(1000)));
        }
        assert_eq!(place.catalog.file(ids[1]).await.unwrap().as_ref(), Some(&files[1]));
        assert_eq!(place.catalog.file(FileId(i64::MAX)).await.unwrap(), None);
        assert_eq!(place.catalog.job(JobId([9; 16])).await.unwrap(), None);
    }

    async fn a_job_is_accepted_once(place: Place) {
        place.catalog.submit(plain_job(1, 2)).await.unwrap();
        let error = place.catalog.submit(plain_job(1, 2)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::JobExists);
        place.catalog.submit(plain_job(2, 1)).await.unwrap();
        assert_eq!(place.catalog.queues().await.unwrap()[0].waiting, 3);
        let empty = place.catalog.submit(job(3, JobKind::Normal)).await.unwrap_err();
        assert_eq!(empty.code(), ErrorCode::BadRequest);
    }

    async fn jobs_and_files_are_listed_by_what_they_have(place: Place) {
        let mut other = plain_job(2, 1);
        other.owner.vo = "cms".to_owned();
        other.files[0].destination_storage = C.to_owned();
        place.catalog.submit(plain_job(1, 2)).await.unwrap();
        place.catalog.submit(other).await.unwrap();
        let limit = 10;
        let listed = async |filter: JobFilter| -> Vec<u8> {
            let jobs = place.catalog.list_jobs(&filter).await.unwrap();
            jobs.iter().map(|job| job.id.0[0]).collect()
        };
        let any = JobFilter { limit, ..JobFilter::default() };
        assert_eq!(listed(any.clone()).await, [2, 1]);
        assert_eq!(listed(JobFilter { limit: 1, ..any.clone() }).await, [2]);
        assert_eq!(listed(JobFilter { vo: Some("cms".to_owned()), ..any.clone() }).await, [2]);
        assert_eq!(listed(JobFilter { user: Some("nobody".to_owned()), ..any.clone() }).await, [0; 0]);
        let without_port = Some("davs://b.example".to_owned());
        assert_eq!(listed(JobFilter { destination_storage: without_port.clone(), ..any.clone() }).await, [1]);
        assert_eq!(listed(JobFilter { states: vec![JobState::Failed], ..any.clone() }).await, [0; 0]);
        let waiting = FileFilter {
            states: vec![FileState::Submitted],
            source_storage: Some(A.to_owned()),
            destination_storage: without_port,
            since_ms: Some(NOW),
            limit,
            ..FileFilter::default()
        };
        let files = place.catalog.list_files(&waiting).await.unwrap();
        assert_eq!(files.iter().map(|file| file.index).collect::<Vec<_>>(), [1, 0]);
    }

    async fn a_canceled_job_ends_with_all_of_its_files(place: Place) {
        let ids = place.catalog.submit(plain_job(1, 3)).await.unwrap();
        let grant = catalog::Grant { queue: queue(), priority: 3, count: 1 };
        place.catalog.claim(&[grant], "w1", NOW, NOW + 1000).await.unwrap();
        let unknown = JobId([9; 16]);
        let canceled = place.catalog.cancel_jobs(&[unknown, JobId([1; 16])], "by the user", NOW + 1).await.unwrap();
        assert_eq!(canceled.outcomes, [CancelOutcome::Unknown, CancelOutcome::Canceled]);
        assert_eq!(canceled.running.len(), 1);
        assert_eq!((canceled.running[0].file, canceled.running[0].worker.as_str()), (ids[0], "w1"));
        let job = place.catalog.job(JobId([1; 16])).await.unwrap().unwrap();
        assert_eq!((job.state, job.is_canceled, job.finished_ms), (JobState::Canceled, true, Some(NOW + 1)));
        assert_eq!(job.reason.as_deref(), Some("by the user"));
        let files = place.catalog.files(job.id).await.unwrap();
        assert!(files.iter().all(|file| file.state == FileState::Canceled && file.problem.is_some()));
        assert!(place.catalog.queues().await.unwrap().is_empty());
        let again = place.catalog.cancel_jobs(&[job.id], "again", NOW + 2).await.unwrap();
        assert_eq!((again.outcomes, again.running.len()), (vec![CancelOutcome::Terminal], 0));
    }

    async fn single_files_and_whole_organisations_are_canceled(place: Place) {
        let ids = place.catalog.submit(plain_job(1, 2)).await.unwrap();
        let others = place.catalog.submit(plain_job(2, 1)).await.unwrap();
        let asked = [ids[0], others[0], FileId(0)];
        let canceled = place.catalog.cancel_files(JobId([1; 16]), &asked, "file", NOW).await.unwrap();
        let unknown = CancelOutcome::Unknown;
        assert_eq!(canceled.outcomes, [CancelOutcome::Canceled, unknown, unknown]);
        assert_eq!(place.catalog.job(JobId([1; 16])).await.unwrap().unwrap().state, JobState::Active);
        let (jobs, _) = place.catalog.cancel_all(Some("cms"), "vo", NOW).await.unwrap();
        assert_eq!(jobs, []);
        let (jobs, _) = place.catalog.cancel_all(Some("atlas"), "vo", NOW).await.unwrap();
        assert_eq!(jobs, [JobId([1; 16]), JobId([2; 16])]);
        let (jobs, _) = place.catalog.cancel_all(None, "all", NOW).await.unwrap();
        assert_eq!(jobs, []);
    }

    async fn a_database_is_opened_again(place: Place) {
        place.catalog.submit(plain_job(1, 1)).await.unwrap();
        let place = place.reopened().await;
        assert_eq!(place.catalog.files(JobId([1; 16])).await.unwrap().len(), 1);
        let staged = catalog::NewJob { files: vec![file(0, FileState::Staging)], ..job(2, JobKind::Normal) };
        place.catalog.submit(staged).await.unwrap();
        assert_eq!(place.catalog.job(JobId([2; 16])).await.unwrap().unwrap().state, JobState::Staging);
    }
}
