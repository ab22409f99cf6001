//! A queue for tests: jobs in a real catalog, settings in memory, and nothing that copies.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::sync::{Arc, Mutex, MutexGuard};

use catalog::{
    Audit, Ban, BanEffect, Catalog, FileFilter, FileRecord, JobFilter, JobRecord, JobSummary, LinkSettings, NewJob,
    Owner, Page, PastSubmission, StorageSettings, SubmissionKey, Submitted, UserRight, VoSettings,
};
use door_queue::queue::{
    Attempt, Change, Changed, Decision, Event, Filter, GivenToken, Later, LinkState, Queue, Scope, SeenCapability,
    Stored, UserBan, WorkerState,
};
use schedule::{FileId, FileState, JobId, JobState};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use types::{Error, ErrorCode, Phase, Result, Side};

/// When this queue changes something.
pub(crate) const NOW: i64 = 1_800_000_000_000;

/// The queue.
pub(crate) struct TestQueue {
    pub(crate) catalog: Catalog,
    pub(crate) state: Mutex<State>,
    pub(crate) latest: watch::Sender<i64>,
    _directory: TempDir,
}

/// What tests set, and what the door has set.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) bans: Arc<Vec<Ban>>,
    pub(crate) user_bans: Arc<Vec<UserBan>>,
    pub(crate) grants: Arc<Vec<UserRight>>,
    pub(crate) storages: BTreeMap<String, StorageSettings>,
    pub(crate) links: Vec<LinkSettings>,
    pub(crate) vos: BTreeMap<String, VoSettings>,
    pub(crate) audit: Vec<Audit>,
    pub(crate) events: Vec<Event>,
    pub(crate) link_states: Vec<LinkState>,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) workers: Vec<WorkerState>,
    pub(crate) warnings: Vec<String>,
    /// Of every file.
    pub(crate) attempts: Vec<Attempt>,
}

impl TestQueue {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        Self {
            catalog,
            state: Mutex::default(),
            latest: watch::Sender::new(0),
            _directory: directory,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Adds an event, and tells the door.
    pub(crate) fn happen(&self, event: Event) {
        let sequence = event.sequence;
        self.lock().events.push(event);
        self.latest.send_replace(sequence);
    }

    fn why(file: &FileRecord) -> Value {
        json!({
            "file_id": file.id, "job_id": file.job, "state": file.state,
            "reasons": [{"code": "link_full", "words": "2 of 2 copies on the link run.", "limit": 2}],
            "ahead": 3, "estimate": {"start_ms": NOW, "end_ms": null, "basis": "pace"},
        })
    }
}

fn later<'a, T>(work: impl Future<Output = Result<T>> + Send + 'a) -> Later<'a, T> {
    Box::pin(work)
}

fn now<'a, T: Send + 'a>(value: T) -> Later<'a, T> {
    later(ready(Ok(value)))
}

/// Changes settings as the catalog does.
fn apply<T: Clone>(all: &mut BTreeMap<String, T>, audit: &mut Vec<Audit>, change: &Change<T>) -> Changed<T> {
    let mut after = all.clone();
    audit.extend(change(&mut after)?);
    all.clone_from(&after);
    Ok(after)
}

/// An attempt that failed.
pub(crate) fn attempt() -> Attempt {
    Attempt {
        number: 1,
        failed_ms: NOW,
        reason: "DESTINATION [5] Input/output error".to_owned(),
        code: "peer_failed".to_owned(),
        worker: Some("w1".to_owned()),
    }
}

fn jobs_of(filter: &Filter, states: Vec<JobState>) -> JobFilter {
    JobFilter {
        user: filter.user.clone(),
        vo: filter.vo.clone(),
        states,
        source_storage: filter.source_storage.clone(),
        destination_storage: filter.destination_storage.clone(),
        since_ms: filter.ended_since_ms,
        limit: filter.limit,
        delegation_id: match &filter.scope {
            Scope::Own(owner) => Some(owner.delegation_id.clone()),
            Scope::Vo(_) | Scope::All => None,
        },
    }
}

/// Notes what was done, if something was.
fn noted(audit: &mut Vec<Audit>, entry: Audit, is_done: bool) -> bool {
    audit.extend(is_done.then_some(entry));
    is_done
}

impl Queue for TestQueue {
    fn submit(&self, job: NewJob, _tokens: Vec<GivenToken>, key: Option<SubmissionKey>) -> Later<'_, Stored> {
        if job.files[0].activity == "too-many" {
            let error = Error::new(ErrorCode::ShareUsedUp, Side::Client, Phase::Open);
            return later(async { Err(error) });
        }
        let adjusted = (job.options.retries == Some(u16::MAX)).then(|| "adjusted".to_owned());
        later(async move {
            let stored = match key {
                Some(key) => self.catalog.submit_once(job, key).await,
                None => self.catalog.submit(job).await.map(Submitted::New),
            };
            match stored {
                Ok(Submitted::New(_)) => Ok(Stored::New(adjusted.into_iter().collect())),
                Ok(Submitted::Past(past)) => Ok(Stored::Past(past)),
                Err(error) if error.code() == ErrorCode::JobExists => Ok(Stored::Known),
                Err(error) => Err(error),
            }
        })
    }

    fn past_submission(&self, owner: Owner, key: String) -> Later<'_, Option<PastSubmission>> {
        later(async move { self.catalog.past_submission(&owner, &key).await })
    }

    fn jobs(&self, ids: Vec<JobId>) -> Later<'_, Vec<JobRecord>> {
        later(async move { Ok(self.catalog.jobs(&ids).await?.into_iter().flatten().collect()) })
    }

    fn files(&self, jobs: Vec<JobId>, limit: usize) -> Later<'_, Vec<FileRecord>> {
        later(async move { Ok(self.catalog.files_of(&jobs, limit).await?.concat()) })
    }

    fn file(&self, id: FileId) -> Later<'_, Option<FileRecord>> {
        later(self.catalog.file(id))
    }

    fn list_jobs(&self, states: Vec<JobState>, filter: Filter) -> Later<'_, Vec<JobRecord>> {
        later(async move { self.catalog.list_jobs(&jobs_of(&filter, states)).await })
    }

    fn list_files(&self, states: Vec<FileState>, filter: Filter) -> Later<'_, Vec<FileRecord>> {
        later(async move {
            let files = FileFilter {
                states,
                limit: filter.limit,
                ..FileFilter::default()
            };
            self.catalog.list_files(&files).await
        })
    }

    fn page_jobs(&self, states: Vec<JobState>, filter: Filter, before: Option<i64>) -> Later<'_, Page<JobSummary>> {
        later(async move { self.catalog.page_jobs(&jobs_of(&filter, states), before).await })
    }

    fn summary(&self, id: JobId) -> Later<'_, Option<JobSummary>> {
        later(self.catalog.summary(id))
    }

    fn page_files(&self, job: JobId, after: Option<i64>, limit: usize) -> Later<'_, Page<FileRecord>> {
        later(self.catalog.page_files(job, after, limit))
    }

    fn attempts(&self, _file: FileId) -> Later<'_, Vec<Attempt>> {
        now(self.lock().attempts.clone())
    }

    fn log(&self, _file: FileId) -> Later<'_, Option<String>> {
        now(Some("a line\n".to_owned()))
    }

    fn cancel(&self, job: JobId, files: Option<Vec<FileId>>, reason: String) -> Later<'_, ()> {
        later(async move {
            match files {
                Some(files) => self.catalog.cancel_files(job, &files, &reason, NOW).await.map(drop),
                None => self.catalog.cancel_jobs(&[job], &reason, NOW).await.map(drop),
            }
        })
    }

    fn set_priority(&self, job: JobId, priority: u8) -> Later<'_, ()> {
        later(async move { self.catalog.set_priority(job, priority, NOW).await.map(drop) })
    }

    fn why_file(&self, file: FileId) -> Later<'_, Option<Value>> {
        later(async move { Ok(self.catalog.file(file).await?.as_ref().map(Self::why)) })
    }

    fn why_job(&self, job: JobId, after: Option<i64>, limit: usize) -> Later<'_, Page<Value>> {
        later(async move {
            let page = self.catalog.page_files(job, after, limit).await?;
            Ok(Page {
                items: page.items.iter().map(Self::why).collect(),
                next: page.next,
            })
        })
    }

    fn warnings(&self, _job: JobId) -> Later<'_, Vec<String>> {
        now(self.lock().warnings.clone())
    }

    fn why_link(&self, source: String, destination: String) -> Later<'_, Option<Value>> {
        now((source == "https://a:443").then(|| json!({"source": source, "destination": destination, "vos": []})))
    }

    fn note_capabilities(&self, _seen: Vec<SeenCapability>, entry: Audit) -> Later<'_, ()> {
        later(async move { self.catalog.note(vec![entry]).await })
    }

    fn links(&self) -> Later<'_, Vec<LinkState>> {
        now(self.lock().link_states.clone())
    }

    fn decisions(&self, limit: usize) -> Later<'_, Vec<Decision>> {
        now(self.lock().decisions.iter().take(limit).cloned().collect())
    }

    fn workers(&self) -> Later<'_, Vec<WorkerState>> {
        now(self.lock().workers.clone())
    }

    fn drain(&self, worker: String, drains: bool, entry: Audit) -> Later<'_, bool> {
        let state = &mut *self.lock();
        let found = state.workers.iter_mut().find(|known| known.name == worker);
        let is_known = found.map(|known| known.is_draining = drains).is_some();
        now(noted(&mut state.audit, entry, is_known))
    }

    fn bans(&self) -> Later<'_, Arc<Vec<Ban>>> {
        now(self.lock().bans.clone())
    }

    fn ban(&self, ban: Ban, entry: Audit) -> Later<'_, Vec<JobId>> {
        let mut state = self.lock();
        Arc::make_mut(&mut state.bans).push(ban.clone());
        state.audit.push(entry);
        drop(state);
        later(async move {
            let vo = Some(ban.vo.as_str()).filter(|vo| !vo.is_empty());
            let swept = match ban.effect {
                BanEffect::Cancel => {
                    self.catalog
                        .cancel_storage(&ban.storage, vo, "Storage banned", NOW)
                        .await?
                }
                BanEffect::Wait | BanEffect::WaitAs => self.catalog.hold(&ban.storage, vo, NOW).await?,
            };
            Ok(swept.jobs.into_iter().collect())
        })
    }

    fn unban(&self, storage: String, vo: String, entry: Audit) -> Later<'_, bool> {
        let state = &mut *self.lock();
        let bans = Arc::make_mut(&mut state.bans);
        let before = bans.len();
        bans.retain(|ban| ban.storage != storage || ban.vo != vo);
        let was_banned = noted(&mut state.audit, entry, bans.len() < before);
        later(async move {
            let vo = Some(vo.as_str()).filter(|vo| !vo.is_empty());
            self.catalog.release(&storage, vo, NOW).await?;
            Ok(was_banned)
        })
    }

    fn user_bans(&self) -> Later<'_, Arc<Vec<UserBan>>> {
        now(self.lock().user_bans.clone())
    }

    fn ban_user(&self, ban: UserBan, entry: Audit) -> Later<'_, Vec<JobId>> {
        let mut state = self.lock();
        Arc::make_mut(&mut state.user_bans).push(ban);
        state.audit.push(entry);
        now(Vec::new())
    }

    fn unban_user(&self, user: String, entry: Audit) -> Later<'_, bool> {
        let state = &mut *self.lock();
        let bans = Arc::make_mut(&mut state.user_bans);
        let before = bans.len();
        bans.retain(|ban| ban.user != user);
        let was_banned = bans.len() < before;
        now(noted(&mut state.audit, entry, was_banned))
    }

    fn grants(&self) -> Arc<Vec<UserRight>> {
        self.lock().grants.clone()
    }

    fn change_grants(&self, change: Change<UserRight>) -> Later<'_, Changed<UserRight>> {
        let mut state = self.lock();
        let key = |grant: &UserRight| format!("{} {}", grant.operation.name(), grant.user);
        let mut grants = state.grants.iter().map(|grant| (key(grant), grant.clone())).collect();
        let changed = apply(&mut grants, &mut state.audit, &change);
        state.grants = Arc::new(grants.into_values().collect());
        now(changed)
    }

    fn storage_settings(&self) -> Later<'_, BTreeMap<String, StorageSettings>> {
        now(self.lock().storages.clone())
    }

    fn change_storages(&self, change: Change<StorageSettings>) -> Later<'_, Changed<StorageSettings>> {
        let state = &mut *self.lock();
        now(apply(&mut state.storages, &mut state.audit, &change))
    }

    fn link_settings(&self) -> Later<'_, Vec<LinkSettings>> {
        now(self.lock().links.clone())
    }

    fn change_links(&self, change: Change<LinkSettings>) -> Later<'_, Changed<LinkSettings>> {
        let mut state = self.lock();
        let mut links = state
            .links
            .iter()
            .map(|link| (link.name.clone(), link.clone()))
            .collect();
        let changed = apply(&mut links, &mut state.audit, &change);
        state.links = links.into_values().collect();
        now(changed)
    }

    fn vo_settings(&self) -> Later<'_, BTreeMap<String, VoSettings>> {
        now(self.lock().vos.clone())
    }

    fn change_vos(&self, change: Change<VoSettings>) -> Later<'_, Changed<VoSettings>> {
        let state = &mut *self.lock();
        now(apply(&mut state.vos, &mut state.audit, &change))
    }

    fn audit(&self, user: Option<String>, limit: usize) -> Later<'_, Vec<Audit>> {
        later(async move {
            // Keys of storages are in the catalog.
            let mut entries = self.catalog.audit(user.clone(), limit).await?;
            let state = self.lock();
            let latest = state.audit.iter().rev();
            let wanted = latest.filter(|entry| user.as_ref().is_none_or(|user| *user == entry.actor));
            entries.extend(wanted.take(limit).cloned());
            Ok(entries)
        })
    }

    fn events_after(&self, sequence: i64, limit: usize) -> Later<'_, Vec<Event>> {
        let state = self.lock();
        let later = state.events.iter().filter(|event| event.sequence > sequence);
        now(later.take(limit).cloned().collect())
    }

    fn latest_event(&self) -> watch::Receiver<i64> {
        self.latest.subscribe()
    }
}
