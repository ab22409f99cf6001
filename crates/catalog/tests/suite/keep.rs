//! What is kept beside jobs: settings, secrets, workers, events, the history.

use catalog::limits::OWNER_GRANTS_MAX;
use catalog::{
    Ban, BanEffect, CapabilityRecord, Grant, JobFilter, JobSecrets, NewJob, QueueKey, SealedSecret, SecretKind,
    SettingKind, StorageSettings,
};
use schedule::{FileState, JobId, JobState};
use serde_json::json;

use crate::place::{A, NOW, Place, for_each_database, plain_job, queue};

fn secret(name: &str, sealed: &[u8]) -> SealedSecret {
    SealedSecret {
        kind: SecretKind::Token,
        name: name.to_owned(),
        sealed: sealed.to_vec(),
        expires_ms: Some(NOW + 1_000_000),
        owner: "jane".to_owned(),
        renews_ms: None,
        lease_ms: None,
        renewed_by: None,
    }
}

/// Makes the tables of version 8 again: its queues knew no users.
const VERSION_8: &str = "
CREATE TABLE old_queue (
    id {identity}, source BIGINT NOT NULL, destination BIGINT NOT NULL, vo BIGINT NOT NULL,
    activity BIGINT NOT NULL, UNIQUE (source, destination, vo, activity));
INSERT INTO old_queue (id, source, destination, vo, activity)
    SELECT id, source, destination, vo, activity FROM queue;
DROP TABLE queue;
ALTER TABLE old_queue RENAME TO queue;
CREATE INDEX queue_destination ON queue (destination);
DROP TABLE long_change;
DROP INDEX file_body_destination;
UPDATE catalog_version SET number = 8;
";

for_each_database! {
    async fn files_from_before_the_upgrade_are_those_of_one_user(place: Place) {
        let old = place.catalog.submit(plain_job(1, 2)).await.unwrap();
        let place = place.reopened_after(VERSION_8).await;
        let catalog = &place.catalog;
        let before = QueueKey { user: String::new(), ..queue() };
        let counted = catalog.queues().await.unwrap();
        assert_eq!(counted.iter().map(|count| (&count.key, count.waiting)).collect::<Vec<_>>(), [(&before, 2)]);
        catalog.submit(plain_job(2, 3)).await.unwrap();
        let mut john = plain_job(3, 4);
        john.owner.user = "/DC=org/CN=John".to_owned();
        catalog.submit(john).await.unwrap();
        let of_john = QueueKey { user: "/DC=org/CN=John".to_owned(), ..queue() };
        let counted = catalog.queues().await.unwrap();
        let counted: Vec<_> = counted.iter().map(|count| (&count.key, count.waiting)).collect();
        assert_eq!(counted, [(&before, 2), (&queue(), 3), (&of_john, 4)]);
        let grant = Grant { queue: before.clone(), priority: 3, count: 9 };
        let claimed = catalog.claim(&[grant], "w", NOW, NOW + 1).await.unwrap();
        let found: Vec<_> = claimed.iter().map(|claimed| (claimed.file.id, &*claimed.file.user)).collect();
        assert_eq!(found, [(old[0], ""), (old[1], "")]);
        // Subjects are those of one issuer.
        let mut token = plain_job(4, 1);
        token.owner.login = catalog::Login::Token;
        catalog.submit(token).await.unwrap();
        assert_eq!(catalog.queues().await.unwrap()[3].key.user, "0123456789abcdef /DC=org/CN=Jane");
    }

    async fn the_latest_finding_about_a_storage_counts(place: Place) {
        let finding = |cell: &str, can, at_ms| CapabilityRecord {
            storage: A.to_owned(),
            cell: cell.to_owned(),
            can,
            evidence: "attempt".to_owned(),
            at_ms,
        };
        let store = async |records| place.catalog.store_capabilities(records).await.unwrap();
        store(vec![finding("b", true, NOW), finding("a", true, NOW + 1)]).await;
        store(vec![finding("b", false, NOW + 2), finding("a", false, NOW)]).await;
        let all = [finding("b", false, NOW + 2), finding("a", true, NOW + 1)];
        assert_eq!(place.catalog.capabilities(0, 10).await.unwrap(), all);
        assert_eq!(place.catalog.capabilities(NOW + 2, 10).await.unwrap(), all[..1]);
        let place = place.reopened().await;
        assert_eq!(place.catalog.capabilities(0, 1).await.unwrap(), all[..1]);
        place.catalog.forget_capabilities(NOW + 1, 2).await.unwrap();
        assert_eq!(place.catalog.capabilities(0, 10).await.unwrap(), all);
        place.catalog.forget_capabilities(NOW, 1).await.unwrap();
        assert_eq!(place.catalog.capabilities(0, 10).await.unwrap(), all[..1]);
        place.catalog.forget_capabilities(NOW + 3, 9).await.unwrap();
        assert_eq!(place.catalog.capabilities(0, 10).await.unwrap(), []);
    }

    async fn the_mark_of_the_first_key_stays_until_it_is_changed(place: Place) {
        let catalog = &place.catalog;
        assert_eq!(catalog.key_mark().await.unwrap(), None);
        assert_eq!(catalog.keep_key_mark("one").await.unwrap(), "one");
        assert_eq!(catalog.keep_key_mark("two").await.unwrap(), "one");
        assert_eq!(place.key_mark().await.as_deref(), Some("one"));
        let secrets = JobSecrets { stored: vec![secret("t", b"x")], grants: Vec::new() };
        let job = plain_job(1, 1);
        catalog.submit_with_secrets(job, secrets, None).await.unwrap();
        assert_eq!(catalog.change_key_mark("two").await.unwrap(), 1);
        assert_eq!(catalog.key_mark().await.unwrap().as_deref(), Some("two"));
        assert!(catalog.secret(SecretKind::Token, "t").await.unwrap().is_none());
    }
    async fn settings_are_kept_with_an_audit_list(place: Place) {
        let catalog = &place.catalog;
        let kind = SettingKind::Storage;
        let mut settings = StorageSettings { inbound_max_active: Some(7), ..StorageSettings::default() };
        catalog.put_setting(kind, A, &settings, "root", NOW).await.unwrap();
        settings.inbound_max_active = Some(8);
        catalog.put_setting(kind, A, &settings, "jane", NOW + 1).await.unwrap();
        assert_eq!(catalog.setting(kind, A).await.unwrap(), Some(settings.clone()));
        assert_eq!(catalog.setting::<StorageSettings>(SettingKind::Link, A).await.unwrap(), None);
        let ban = Ban {
            storage: A.to_owned(),
            vo: String::new(),
            effect: BanEffect::Wait,
            message: "down".to_owned(),
            by: "root".to_owned(),
            since_ms: NOW,
            cancels_ms: None,
        };
        catalog.put_setting(SettingKind::Ban, A, &ban, "root", NOW + 2).await.unwrap();
        let bans = catalog.settings::<Ban>(SettingKind::Ban).await.unwrap();
        assert_eq!((bans.len(), &bans[0].value), (1, &ban));
        assert!(catalog.delete_setting(kind, A, "root", NOW + 3).await.unwrap());
        assert!(!catalog.delete_setting(kind, A, "root", NOW + 4).await.unwrap());
        let audit = catalog.audit(None, 100).await.unwrap();
        let seen: Vec<_> = audit.iter().map(|entry| (entry.actor.as_str(), entry.at_ms - NOW)).collect();
        assert_eq!(seen, [("root", 3), ("root", 2), ("jane", 1), ("root", 0)]);
        assert_eq!(audit[0].action, format!("storage delete {A}"));
    }

    async fn a_token_goes_with_its_last_job(place: Place) {
        let catalog = &place.catalog;
        let with_token = |number| {
            let mut new = plain_job(number, 2);
            new.files[0].options.source_token = Some("t1".to_owned());
            new.files[1].options.source_token = Some("t1".to_owned());
            new
        };
        let stored = |tokens| JobSecrets { stored: tokens, grants: Vec::new() };
        let tokens = || stored(vec![secret("t2", b"sealed"), secret("t1", b"sealed")]);
        catalog.submit_with_secrets(with_token(1), tokens(), None).await.unwrap();
        assert_eq!(catalog.delete_unused_secrets(NOW, 10).await.unwrap(), 1, "no file names the second");
        let again = catalog.submit_with_secrets(with_token(1), tokens(), None).await.unwrap_err();
        assert_eq!(again.code(), types::ErrorCode::JobExists);
        assert_eq!(catalog.secret(SecretKind::Token, "t2").await.unwrap(), None, "nor a job that is refused");
        catalog.submit_with_secrets(with_token(2), stored(vec![secret("t1", b"refreshed")]), None).await.unwrap();
        let kept = catalog.secret(SecretKind::Token, "t1").await.unwrap().unwrap();
        assert_eq!(kept.sealed, b"refreshed");
        assert!(!format!("{kept:?}").contains("114"));
        catalog.cancel_jobs(&[JobId([1; 16])], "user", NOW).await.unwrap();
        assert_eq!(catalog.delete_unused_secrets(i64::MAX, 10).await.unwrap(), 0, "the other job lives");
        catalog.cancel_jobs(&[JobId([2; 16])], "user", NOW).await.unwrap();
        assert_eq!(catalog.delete_unused_secrets(NOW, 10).await.unwrap(), 1);
        assert_eq!(catalog.secret(SecretKind::Token, "t1").await.unwrap(), None);
        assert!(!catalog.delete_secret(SecretKind::Token, "t1").await.unwrap());
    }

    async fn proxies_and_keys_go_when_they_expire(place: Place) {
        let catalog = &place.catalog;
        for (kind, name, end_ms) in [
            (SecretKind::Proxy, "a", NOW + 10),
            (SecretKind::Proxy, "b", NOW + 30),
            (SecretKind::DelegationKey, "a", NOW + 10),
            (SecretKind::S3, "a", NOW + 10),
        ] {
            let one = SealedSecret { kind, expires_ms: Some(end_ms), ..secret(name, b"sealed") };
            catalog.put_secret(one, NOW).await.unwrap();
        }
        assert_eq!(catalog.delete_unused_secrets(NOW + 10, 10).await.unwrap(), 0);
        assert_eq!(catalog.delete_unused_secrets(NOW + 20, 1).await.unwrap(), 1, "not more than allowed");
        assert_eq!(catalog.delete_unused_secrets(NOW + 20, 10).await.unwrap(), 1);
        let count = catalog.count_secrets(SecretKind::Proxy, "jane").await.unwrap();
        assert_eq!((count.all, count.of_owner), (1, 1));
        assert_eq!(catalog.count_secrets(SecretKind::S3, "john").await.unwrap().of_owner, 0);
    }

    async fn a_kept_secret_is_replaced_only_when_it_ends_soon(place: Place) {
        let catalog = &place.catalog;
        let key = |sealed: &[u8], end_ms| SealedSecret {
            kind: SecretKind::DelegationKey,
            expires_ms: Some(end_ms),
            ..secret("k", sealed)
        };
        let kept = catalog.keep_secret(key(b"1", NOW + 10), NOW + 5, NOW).await.unwrap();
        assert_eq!(kept.sealed, b"1");
        let kept = catalog.keep_secret(key(b"2", NOW + 15), NOW + 10, NOW).await.unwrap();
        assert_eq!(kept.sealed, b"1", "another process was first");
        let kept = catalog.keep_secret(key(b"3", NOW + 20), NOW + 11, NOW).await.unwrap();
        assert_eq!((kept.sealed.as_slice(), kept.expires_ms), (b"3".as_slice(), Some(NOW + 20)));
    }

    async fn owners_take_turns_in_renewals(place: Place) {
        let catalog = &place.catalog;
        let tokens = [("a1", "alice", 1), ("a2", "alice", 2), ("a3", "alice", 3), ("b1", "bob", 9)];
        let mut new = plain_job(1, tokens.len() as u32);
        let mut stored = Vec::new();
        for (file, (name, owner, renews_ms)) in new.files.iter_mut().zip(tokens) {
            file.options.source_token = Some(name.to_owned());
            let (owner, renews_ms) = (owner.to_owned(), Some(NOW + renews_ms));
            stored.push(SealedSecret { owner, renews_ms, ..secret(name, b"sealed") });
        }
        catalog.submit_with_secrets(new, JobSecrets { stored, grants: Vec::new() }, None).await.unwrap();
        let due = catalog.due_secrets(NOW + 10, 3).await.unwrap();
        let names: Vec<&str> = due.iter().map(|secret| secret.name.as_str()).collect();
        assert_eq!(names, ["a1", "b1", "a2"]);
    }

    async fn an_owner_has_a_limit_of_grants(place: Place) {
        let catalog = &place.catalog;
        let submit = async |number, user: &str, grants: std::ops::Range<usize>| {
            let mut new = plain_job(number, 1);
            new.owner.user = user.to_owned();
            let grants = grants.map(|grant| format!("{user} {grant}")).collect();
            let submitted = catalog.submit_with_secrets(new, JobSecrets { stored: Vec::new(), grants }, None).await;
            submitted.map(drop).map_err(|error| error.code())
        };
        let refused = Err(types::ErrorCode::ShareUsedUp);
        assert_eq!(submit(1, "eve", 0..OWNER_GRANTS_MAX + 1).await, refused);
        submit(2, "eve", 0..OWNER_GRANTS_MAX).await.unwrap();
        assert_eq!(submit(3, "eve", OWNER_GRANTS_MAX..OWNER_GRANTS_MAX + 1).await, refused);
        submit(4, "eve", 0..1).await.unwrap();
        submit(5, "jane", 0..1).await.unwrap();
        catalog.cancel_jobs(&[JobId([2; 16])], "user", NOW).await.unwrap();
        assert_eq!(catalog.delete_unused_secrets(NOW, 10).await.unwrap(), 10);
        submit(6, "eve", OWNER_GRANTS_MAX..OWNER_GRANTS_MAX + 10).await.unwrap();
    }

    async fn a_renewal_is_for_one_process_and_what_jobs_use(place: Place) {
        let catalog = &place.catalog;
        let token = SealedSecret {
            renews_ms: Some(NOW + 5),
            renewed_by: Some("g".to_owned()),
            ..secret("t1", b"sealed")
        };
        let submit = |number, grants: &[&str]| {
            let mut new = plain_job(number, 1);
            new.files[0].options.source_token = Some("t1".to_owned());
            let grants = grants.iter().map(|name| (*name).to_owned()).collect();
            catalog.submit_with_secrets(new, JobSecrets { stored: vec![token.clone()], grants }, None)
        };
        submit(1, &["g"]).await.unwrap();
        assert_eq!(catalog.due_secrets(NOW + 4, 10).await.unwrap(), []);
        let due = catalog.due_secrets(NOW + 5, 10).await.unwrap();
        assert_eq!((due.len(), due[0].renewed_by.as_deref()), (1, Some("g")));
        let kind = SecretKind::RefreshToken;
        let lease = |now_ms, until_ms| catalog.lease_secret(kind, "g", "jane", now_ms, until_ms);
        assert!(lease(NOW, NOW + 60).await.unwrap());
        assert!(!lease(NOW + 59, NOW + 90).await.unwrap(), "another process has it");
        assert!(lease(NOW + 60, NOW + 90).await.unwrap(), "which is gone");
        let grant = SealedSecret { kind, renews_ms: Some(NOW + 70), ..secret("g", b"refresh") };
        catalog.put_secret(SealedSecret { lease_ms: Some(NOW + 90), ..grant.clone() }, NOW).await.unwrap();
        let names = |secrets: Vec<SealedSecret>| -> Vec<String> { secrets.into_iter().map(|one| one.name).collect() };
        assert_eq!(names(catalog.due_secrets(NOW + 80, 10).await.unwrap()), ["t1"]);
        catalog.put_secret(grant, NOW).await.unwrap();
        assert_eq!(names(catalog.due_secrets(NOW + 80, 10).await.unwrap()), ["t1", "g"]);
        let ends_ms = NOW + 1_000_000;
        let unready = |until_ms| catalog.unready_tokens(&["t1", "t9"], NOW, until_ms);
        assert_eq!(unready(ends_ms - 1).await.unwrap().len(), 0);
        assert_eq!(unready(ends_ms).await.unwrap().len(), 1);
        catalog.set_renewal(SecretKind::Token, "t1", None).await.unwrap();
        catalog.set_renewal(SecretKind::Token, "t1", Some(NOW)).await.unwrap();
        assert_eq!(names(catalog.due_secrets(NOW + 80, 10).await.unwrap()), ["g"], "it was done");
        assert_eq!(unready(ends_ms).await.unwrap().len(), 0);
        submit(2, &["g"]).await.unwrap();
        catalog.cancel_jobs(&[JobId([1; 16])], "user", NOW).await.unwrap();
        assert_eq!(catalog.delete_unused_secrets(NOW, 10).await.unwrap(), 0);
        catalog.cancel_jobs(&[JobId([2; 16])], "user", NOW).await.unwrap();
        assert_eq!(catalog.due_secrets(NOW + 80, 10).await.unwrap(), [], "no job uses it");
        assert_eq!(catalog.delete_unused_secrets(NOW, 10).await.unwrap(), 2);
    }

    async fn sealed_queries_end_with_the_job(place: Place) {
        let catalog = &place.catalog;
        let mut new = plain_job(1, 1);
        new.files[0].options.source_query = Some("c2VhbGVk".to_owned());
        new.files[0].options.destination_query = Some("c2VhbGVk".to_owned());
        let id = catalog.submit(new).await.unwrap()[0];
        let grant = Grant { queue: queue(), priority: 3, count: 1 };
        let claimed = catalog.claim(&[grant], "w1", NOW, NOW + 10).await.unwrap();
        assert_eq!(claimed[0].file.options.source_query.as_deref(), Some("c2VhbGVk"));
        catalog.cancel_jobs(&[JobId([1; 16])], "user", NOW).await.unwrap();
        assert_eq!(catalog.retire(NOW + 2, 10).await.unwrap(), 1);
        let options = catalog.file(id).await.unwrap().unwrap().options;
        assert_eq!((options.source_query, options.destination_query), (None, None));
    }

    async fn workers_are_known_by_their_reports(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        catalog.beat("w1", &json!({"copies": 5}), NOW).await.unwrap();
        let grant = Grant { queue: queue(), priority: 3, count: 1 };
        catalog.claim(&[grant], "w2", NOW - 10, NOW + 10).await.unwrap();
        let workers = catalog.workers(NOW).await.unwrap();
        let seen: Vec<_> = workers.iter().map(|worker| (worker.name.as_str(), worker.files)).collect();
        assert_eq!(seen, [("w1", 0), ("w2", 1)]);
        assert_eq!(workers[0].capacity, Some(json!({"copies": 5})));
        for worker in ["w1", "w2"] {
            catalog.leave(worker).await.unwrap();
        }
        let workers = catalog.workers(0).await.unwrap();
        assert_eq!(workers.len(), 1, "{workers:?}");
        assert_eq!(workers[0].name, "w2", "it has a file");
    }

    async fn each_change_of_state_is_an_event(place: Place) {
        let catalog = &place.catalog;
        let mut changes = catalog.changes();
        let id = catalog.submit(plain_job(1, 1)).await.unwrap()[0];
        changes.wait().await;
        let grant = Grant { queue: queue(), priority: 3, count: 1 };
        catalog.claim(&[grant], "w1", NOW + 1, NOW + 10).await.unwrap();
        changes.wait().await;
        let events = catalog.events_after(0, 100).await.unwrap();
        let seen: Vec<_> = events.iter().map(|event| (event.file, event.file_state, event.job_state)).collect();
        let expected = [
            (None, None, JobState::Submitted),
            (Some(id), Some(FileState::Ready), JobState::Active),
            (None, None, JobState::Active),
        ];
        assert_eq!(seen, expected);
        assert_eq!((events[0].vo.as_str(), events[1].at_ms), ("atlas", NOW + 1));
        assert_eq!(catalog.events_after(events[0].sequence, 1).await.unwrap(), events[1..2]);
        assert_eq!(catalog.last_event().await.unwrap(), events[2].sequence);
        assert_eq!(catalog.prune_events(NOW + 1, NOW).await.unwrap(), 1);
        assert_eq!(catalog.events_after(0, 100).await.unwrap(), events[1..]);
    }

    async fn the_history_answers_like_what_lives(place: Place) {
        let catalog = &place.catalog;
        let ids = catalog.submit(plain_job(1, 2)).await.unwrap();
        catalog.submit(plain_job(2, 1)).await.unwrap();
        let id = JobId([1; 16]);
        catalog.cancel_jobs(&[id], "user", NOW + 1).await.unwrap();
        let before = (catalog.job(id).await.unwrap(), catalog.files(id).await.unwrap());
        assert_eq!(catalog.retire(NOW + 1, 10).await.unwrap(), 0);
        assert_eq!(catalog.retire(NOW + 2, 10).await.unwrap(), 1);
        assert_eq!((catalog.job(id).await.unwrap(), catalog.files(id).await.unwrap()), before);
        assert_eq!(catalog.file(ids[1]).await.unwrap().as_ref(), Some(&before.1[1]));
        let filter = JobFilter {
            states: vec![JobState::Canceled],
            user: Some("/DC=org/CN=Jane".to_owned()),
            since_ms: Some(NOW),
            limit: 5,
            ..JobFilter::default()
        };
        assert_eq!(catalog.list_jobs(&filter).await.unwrap(), [before.0.unwrap()]);
        let files = catalog::FileFilter { limit: 5, ..catalog::FileFilter::default() };
        assert_eq!(catalog.list_files(&files).await.unwrap().len(), 3);
        let again = catalog.submit(plain_job(1, 1)).await.unwrap_err();
        assert_eq!(again.code(), types::ErrorCode::JobExists);
        let canceled = catalog.cancel_jobs(&[id], "again", NOW).await.unwrap();
        assert_eq!(canceled.outcomes, [catalog::CancelOutcome::Terminal]);
        let canceled = catalog.cancel_files(id, &ids, "again", NOW).await.unwrap();
        assert_eq!(canceled.outcomes, [catalog::CancelOutcome::Terminal; 2]);
        // Numbers of files that have left are not given again.
        let later = catalog.submit(NewJob { id: JobId([3; 16]), ..plain_job(3, 1) }).await.unwrap();
        assert!(later[0] > ids[1]);
        assert_eq!(catalog.prune_history(NOW + 9, 10).await.unwrap(), 1);
        assert_eq!(catalog.job(id).await.unwrap(), None);
    }

    async fn a_large_job_goes_to_the_history_alone(place: Place) {
        let catalog = &place.catalog;
        let many = u32::try_from(catalog::limits::RETIRED_FILES_MAX).unwrap();
        let jobs = [JobId([1; 16]), JobId([2; 16]), JobId([3; 16])];
        for (number, files) in [(1, 1), (2, many), (3, 1)] {
            catalog.submit(plain_job(number, files)).await.unwrap();
        }
        catalog.cancel_jobs(&jobs, "user", NOW + 1).await.unwrap();
        assert_eq!(catalog.retire(NOW + 2, 10).await.unwrap(), 2);
        assert_eq!(catalog.retire(NOW + 2, 10).await.unwrap(), 1);
        assert_eq!(catalog.retire(NOW + 2, 10).await.unwrap(), 0);
    }
}
