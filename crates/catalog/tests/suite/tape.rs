//! Requests at tape systems, and the files that wait for tape.

use catalog::{Catalog, StageMember, StorageUser};
use schedule::{FileId, FileState, JobId, JobKind};

use crate::place::{A, NOW, Place, file, for_each_database, job};

/// Two files that wait for tape.
async fn two_files(catalog: &Catalog) -> Vec<FileId> {
    let mut new = job(1, JobKind::Normal);
    new.files = (0..2).map(|place| file(place, FileState::Staging)).collect();
    catalog.submit(new).await.unwrap();
    let files = catalog.files(JobId([1; 16])).await.unwrap();
    files.iter().map(|file| file.id).collect()
}

fn members(files: &[FileId]) -> Vec<StageMember> {
    let member = |file: &FileId| StageMember {
        file: *file,
        path: format!("/data/{file}"),
        expires_ms: NOW + 3_600_000,
        is_last_step: false,
    };
    files.iter().map(member).collect()
}

for_each_database! {
    async fn a_request_is_kept_with_its_files_until_nothing_is_left_to_do(place: Place) {
        let files = two_files(&place.catalog).await;
        let jane = StorageUser { storage: A.to_owned(), user: job(1, JobKind::Normal).owner.user };
        let waiting = place.catalog.waiting_users(FileState::Staging).await.unwrap();
        assert_eq!(waiting, std::slice::from_ref(&jane));
        assert!(place.catalog.waiting_users(FileState::Archiving).await.unwrap().is_empty());
        let john = StorageUser { user: "/DC=org/CN=John".to_owned(), ..jane.clone() };
        for (whose, count) in [(Some(&jane), 2), (Some(&john), 0), (None, 2)] {
            let found = place.catalog.waiting_files(FileState::Staging, whose, FileId(0), 10, NOW);
            assert_eq!(found.await.unwrap().len(), count);
        }
        // The second one is canceled just before the answer of the tape system comes.
        let canceled = place.catalog.cancel_files(JobId([1; 16]), &files[1..], "no", NOW).await;
        canceled.unwrap();
        let asked = place.catalog.stage_asked(A, "r-1", members(&files), NOW + 5).await.unwrap();
        let place = place.reopened().await;
        let catalog = &place.catalog;
        assert_eq!(catalog.stage_requests().await.unwrap(), vec![asked.clone()]);
        assert_eq!((asked.asked_ms, asked.members.len()), (NOW + 5, 2));
        let unknown = FileId(i64::MAX);
        let states = catalog.file_states(&[files[1], unknown, files[0]]).await.unwrap();
        assert_eq!(states, [Some(FileState::Canceled), None, Some(FileState::StagingStarted)]);
        let started = catalog.file(files[0]).await.unwrap().unwrap();
        assert_eq!(started.times.staging_started_ms, Some(NOW + 5));
        assert!(catalog.waiting_users(FileState::Staging).await.unwrap().is_empty());
        assert_eq!(catalog.waiting_users(FileState::StagingStarted).await.unwrap(), [jane]);
        catalog.end_stage_request(asked.number).await.unwrap();
        assert!(catalog.stage_requests().await.unwrap().is_empty());
    }
}
