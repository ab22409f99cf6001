//! The queue as its door sees it: the catalog for what is stored, the service for what runs.

mod banning;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;

use catalog::{
    Audit, Ban, Catalog, FileFilter, FileRecord, JobFilter, JobRecord, JobSecrets, JobSummary, LinkSettings, Login,
    NewJob, Owner, Page, PastSubmission, SettingKind, StorageSettings, SubmissionKey, Submitted, UserRight, VoSettings,
    WorkerRecord,
};
use door_queue::queue::{
    Attempt, Change, Changed, Decision, Event, EventKind, Filter, GivenToken, HeldState, Later, LinkState, Queue,
    Scope, SeenCapability, Stored, UserBan, WorkerState,
};
use queue::events::{OPTIMIZER, happenings_after};
use queue::{Capabilities, Service, Tokens, Vault, hidden_query, hide_queries};
use schedule::{FileId, FileState, JobId, JobState};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use types::{ErrorCode, Result};

use super::bans::KnownBans;
use super::state::worker_base;
use super::{audit, pages, why};
use crate::token::now_s;

/// Time without a sign of life after which a worker is no longer shown.
const WORKER_SHOWN_MS: i64 = 10 * 60 * 1000;

/// The queue behind its door.
pub(super) struct Desk {
    service: Service,
    catalog: Catalog,
    vault: Vault,
    tokens: Tokens,
    capabilities: Arc<Capabilities>,
    bans: KnownBans,
    latest_event: watch::Receiver<i64>,
}

impl Desk {
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn new(
        service: Service,
        catalog: Catalog,
        vault: Vault,
        tokens: Tokens,
        capabilities: Arc<Capabilities>,
    ) -> Result<Self> {
        audit::move_old(&catalog).await?;
        let bans = KnownBans::read(&catalog).await?;
        let latest_event = follow(catalog.clone(), bans.clone()).await?;
        Ok(Self {
            service,
            catalog,
            vault,
            tokens,
            capabilities,
            bans,
            latest_event,
        })
    }

    async fn values<T: DeserializeOwned + Send + 'static>(&self, kind: SettingKind) -> Result<Vec<T>> {
        let settings = self.catalog.settings(kind).await?;
        Ok(settings.into_iter().map(|setting| setting.value).collect())
    }

    async fn named<T: DeserializeOwned + Send + 'static>(&self, kind: SettingKind) -> Result<BTreeMap<String, T>> {
        let settings = self.catalog.settings(kind).await?;
        Ok(settings
            .into_iter()
            .map(|setting| (setting.name, setting.value))
            .collect())
    }

    /// Stores a setting, or deletes it; whether there was one to delete.
    async fn put<T: Serialize>(&self, kind: SettingKind, name: &str, value: Option<T>, entry: Audit) -> Result<bool> {
        let known = match value {
            Some(value) => {
                self.catalog.put_noted(kind, name, &value, entry).await?;
                true
            }
            None => self.catalog.delete_noted(kind, name, entry).await?,
        };
        self.service.take_settings().await?;
        Ok(known)
    }

    async fn change<T>(&self, kind: SettingKind, change: Change<T>) -> Result<Changed<T>>
    where
        T: Serialize + DeserializeOwned + PartialEq + Clone + Send + Sync + 'static,
    {
        let changed = self.catalog.change_settings(kind, now_ms(), change).await?;
        if changed.is_ok() {
            self.service.take_settings().await?;
        }
        Ok(changed)
    }

    async fn store(&self, mut job: NewJob, tokens: Vec<GivenToken>, key: Option<SubmissionKey>) -> Result<Stored> {
        self.service.fill_in(&mut job);
        let notes = self.service.adjust(&mut job).await?;
        self.service.check_links(&job).await?;
        hide_queries(&self.vault, &mut job)?;
        let mut secrets = JobSecrets::default();
        for given in tokens {
            let is_managed = !job.options.unmanaged_tokens;
            let sealed = self.tokens.seal(&given.name, &given.token, &job.owner, is_managed)?;
            secrets.stored.push(sealed.secret);
            secrets.grants.extend(sealed.grant);
        }
        let stored = self.catalog.submit_with_secrets(job, secrets, key).await;
        self.service.note_stored(&stored);
        match stored {
            Ok(Submitted::New(_)) => Ok(Stored::New(notes)),
            Ok(Submitted::Past(past)) => Ok(Stored::Past(past)),
            Err(error) if error.code() == ErrorCode::JobExists => Ok(Stored::Known),
            Err(error) => Err(error),
        }
    }

    async fn link_states(&self) -> Result<Vec<LinkState>> {
        let views = self.service.links().await?.into_iter();
        let states = views.map(|view| LinkState {
            limit: view.decided_limit(),
            source: view.source,
            destination: view.destination,
            vo: view.vo,
            active: view.active,
            waiting: view.waiting,
            delayed: view.delayed,
            banned: view.banned,
            goodput_bytes_s: view.goodput_bytes_s,
            is_paused: view.is_paused,
            held: view.hold.map(|hold| HeldState {
                until_ms: hold.until_ms,
                reason: hold.reason,
                detail: hold.detail,
            }),
            rationale: view.rationale,
        });
        Ok(states.collect())
    }

    async fn worker_states(&self) -> Result<Vec<WorkerState>> {
        let now_ms = now_ms();
        let known = self.catalog.workers(now_ms - WORKER_SHOWN_MS).await?;
        let mut states = Vec::with_capacity(known.len());
        for worker in known {
            let is_draining = self.service.drains(&worker.name).await?;
            states.push(worker_state(worker, is_draining, now_ms));
        }
        Ok(states)
    }

    async fn set_drain(&self, name: &str, drains: bool, entry: Audit) -> Result<bool> {
        let known = self.catalog.workers(now_ms() - WORKER_SHOWN_MS).await?;
        let meant: Vec<&str> = known.iter().map(|worker| worker.name.as_str()).collect();
        let meant = meant
            .into_iter()
            .filter(|full| *full == name || worker_base(full) == name);
        let mut is_known = false;
        for full in meant {
            self.service.drain(full, drains, entry.clone()).await?;
            is_known = true;
        }
        Ok(is_known)
    }

    async fn events(&self, sequence: i64, limit: usize) -> Result<Vec<Event>> {
        let found = happenings_after(&self.catalog, sequence, limit).await?;
        let ids: Vec<JobId> = found.iter().filter_map(|event| event.job).collect();
        let jobs = self.catalog.jobs(&ids).await?.into_iter().flatten();
        let owners: HashMap<JobId, Owner> = jobs.map(|job| (job.id, job.owner)).collect();
        let events = found.into_iter().map(|event| Event {
            sequence: event.sequence,
            kind: match event.kind {
                OPTIMIZER => EventKind::Optimizer,
                _ => EventKind::State,
            },
            job: event.job,
            owner: event.job.and_then(|job| owners.get(&job).cloned()),
            message: event.message.to_string().into(),
        });
        Ok(events.collect())
    }
}

/// The place of the latest event, kept up to date. Bans that other processes make are taken too.
async fn follow(catalog: Catalog, bans: KnownBans) -> Result<watch::Receiver<i64>> {
    let (sender, receiver) = watch::channel(catalog.last_event().await?);
    tokio::spawn(async move {
        let mut changes = catalog.changes();
        let mut settings_version = 0;
        while !sender.is_closed() {
            changes.wait().await;
            if let Ok(last) = catalog.last_event().await {
                sender.send_if_modified(|known| std::mem::replace(known, last) != last);
            }
            if let Ok(version) = catalog.settings_version().await
                && version != settings_version
                && bans.read_again(&catalog).await.is_ok()
            {
                settings_version = version;
            }
        }
    });
    Ok(receiver)
}

fn worker_state(worker: WorkerRecord, is_draining: bool, now_ms: i64) -> WorkerState {
    WorkerState {
        name: worker.name,
        seen_ms: worker.beat_ms,
        active: u32::try_from(worker.files).unwrap_or(u32::MAX),
        is_draining,
        is_lost: worker.lease_ms < now_ms,
    }
}

fn now_ms() -> i64 {
    now_s().saturating_mul(1000)
}

/// Whether a list is asked for jobs that its reader may not see: of another user, or of another
/// virtual organisation.
pub(super) fn is_of_others(filter: &Filter) -> bool {
    let is_other = |asked: &Option<String>, own: &String| asked.as_ref().is_some_and(|asked| asked != own);
    match &filter.scope {
        Scope::Own(owner) => is_other(&filter.user, &owner.user),
        Scope::Vo(owner) => is_other(&filter.vo, &owner.vo),
        Scope::All => false,
    }
}

/// Whose jobs a list is narrowed to.
fn narrowed(filter: &Filter, states: Vec<JobState>) -> JobFilter {
    let asked_vo = filter.vo.clone();
    let (user, vo) = match &filter.scope {
        Scope::Own(owner) => (Some(owner.user.clone()), asked_vo.or_else(|| Some(owner.vo.clone()))),
        Scope::Vo(owner) => (filter.user.clone(), Some(owner.vo.clone())),
        Scope::All => (filter.user.clone(), asked_vo),
    };
    JobFilter {
        user,
        delegation_id: token_delegation(&filter.scope),
        vo,
        states,
        source_storage: filter.source_storage.clone(),
        destination_storage: filter.destination_storage.clone(),
        since_ms: filter.ended_since_ms,
        limit: filter.limit,
    }
}

/// The delegation of a user with a token, who is narrowed down by it: others may have the same
/// subject. That of a certificate depends on its attributes.
pub(super) fn token_delegation(scope: &Scope) -> Option<String> {
    match scope {
        Scope::Own(owner) if owner.login == Login::Token => Some(owner.delegation_id.clone()),
        _ => None,
    }
}

/// A call of the trait: the future of an asynchronous block.
fn later<'a, T>(work: impl Future<Output = Result<T>> + Send + 'a) -> Later<'a, T> {
    Box::pin(work)
}

impl Queue for Desk {
    fn submit(&self, job: NewJob, tokens: Vec<GivenToken>, key: Option<SubmissionKey>) -> Later<'_, Stored> {
        later(self.store(job, tokens, key))
    }

    fn past_submission(&self, owner: Owner, key: String) -> Later<'_, Option<PastSubmission>> {
        later(async move { self.catalog.past_submission(&owner, &key).await })
    }

    fn jobs(&self, ids: Vec<JobId>) -> Later<'_, Vec<JobRecord>> {
        later(async move { Ok(self.catalog.jobs(&ids).await?.into_iter().flatten().collect()) })
    }

    fn files(&self, jobs: Vec<JobId>, limit: usize) -> Later<'_, Vec<FileRecord>> {
        later(async move {
            let mut files = self.catalog.files_of(&jobs, limit).await?.concat();
            self.service.show_reasons(&mut files).await?;
            Ok(files)
        })
    }

    fn file(&self, id: FileId) -> Later<'_, Option<FileRecord>> {
        later(async move {
            let mut file = self.catalog.file(id).await?;
            self.service.show_reasons(file.as_mut_slice()).await?;
            Ok(file)
        })
    }

    fn list_jobs(&self, states: Vec<JobState>, filter: Filter) -> Later<'_, Vec<JobRecord>> {
        later(async move {
            if is_of_others(&filter) {
                return Ok(Vec::new());
            }
            let found = self.catalog.list_jobs(&narrowed(&filter, states)).await?;
            Ok(found
                .into_iter()
                .filter(|job| filter.scope.includes(&job.owner))
                .collect())
        })
    }

    fn list_files(&self, states: Vec<FileState>, filter: Filter) -> Later<'_, Vec<FileRecord>> {
        later(async move {
            if is_of_others(&filter) {
                return Ok(Vec::new());
            }
            let jobs = narrowed(&filter, Vec::new());
            let files = FileFilter {
                vo: jobs.vo,
                states,
                source_storage: filter.source_storage.clone(),
                destination_storage: filter.destination_storage.clone(),
                // It is stored with its secrets hidden.
                destination: filter.destination.clone().map(|url| hidden_query(&url).unwrap_or(url)),
                since_ms: filter.ended_since_ms,
                limit: filter.limit,
            };
            let found = self.catalog.list_files(&files).await?;
            let ids: Vec<JobId> = found.iter().map(|file| file.job).collect();
            let owners = self.catalog.jobs(&ids).await?;
            let shown = found.into_iter().zip(owners);
            let shown = shown.filter(|(_, job)| job.as_ref().is_some_and(|job| filter.scope.includes(&job.owner)));
            let mut files: Vec<FileRecord> = shown.map(|(file, _)| file).collect();
            self.service.show_reasons(&mut files).await?;
            Ok(files)
        })
    }

    fn page_jobs(&self, states: Vec<JobState>, filter: Filter, before: Option<i64>) -> Later<'_, Page<JobSummary>> {
        later(async move { pages::jobs(&self.catalog, states, &filter, before).await })
    }

    fn summary(&self, id: JobId) -> Later<'_, Option<JobSummary>> {
        later(self.catalog.summary(id))
    }

    fn page_files(&self, job: JobId, after: Option<i64>, limit: usize) -> Later<'_, Page<FileRecord>> {
        later(async move {
            let mut page = self.catalog.page_files(job, after, limit).await?;
            self.service.show_reasons(&mut page.items).await?;
            Ok(page)
        })
    }

    fn attempts(&self, file: FileId) -> Later<'_, Vec<Attempt>> {
        later(async move {
            let attempts = self.catalog.attempts(file).await?.into_iter();
            let attempts = attempts.map(|attempt| Attempt {
                number: u16::try_from(attempt.number).unwrap_or(u16::MAX),
                failed_ms: attempt.at_ms,
                reason: attempt.problem.reason,
                code: attempt.problem.code,
                worker: attempt.worker,
            });
            Ok(attempts.collect())
        })
    }

    fn log(&self, file: FileId) -> Later<'_, Option<String>> {
        later(why::log(&self.catalog, file))
    }

    fn cancel(&self, job: JobId, files: Option<Vec<FileId>>, reason: String) -> Later<'_, ()> {
        later(async move {
            match files {
                Some(files) => self.service.cancel_files(job, &files, &reason).await.map(drop),
                None => self.service.cancel_jobs(&[job], &reason).await.map(drop),
            }
        })
    }

    fn set_priority(&self, job: JobId, priority: u8) -> Later<'_, ()> {
        later(async move { self.catalog.set_priority(job, priority, now_ms()).await.map(drop) })
    }

    fn why_file(&self, file: FileId) -> Later<'_, Option<Value>> {
        later(why::file(&self.service, file))
    }

    fn why_job(&self, job: JobId, after: Option<i64>, limit: usize) -> Later<'_, Page<Value>> {
        later(pages::why_job(&self.service, job, after, limit))
    }

    fn warnings(&self, job: JobId) -> Later<'_, Vec<String>> {
        later(async move { Ok(self.service.credential_notice(job).await?.into_iter().collect()) })
    }

    fn why_link(&self, source: String, destination: String) -> Later<'_, Option<Value>> {
        later(async move { why::link(&self.service, &self.capabilities, &source, &destination).await })
    }

    fn note_capabilities(&self, seen: Vec<SeenCapability>, entry: Audit) -> Later<'_, ()> {
        later(async move {
            self.catalog.note(vec![entry]).await?;
            for SeenCapability { storage, capability } in seen {
                self.capabilities.note(&storage, capability.cell, capability.known);
            }
            Ok(())
        })
    }

    fn links(&self) -> Later<'_, Vec<LinkState>> {
        later(self.link_states())
    }

    fn decisions(&self, limit: usize) -> Later<'_, Vec<Decision>> {
        let decisions = self.service.decisions(limit).into_iter().map(|judged| {
            let decision = judged.decision;
            Decision {
                at_ms: decision.at_ms,
                source: decision.link.source,
                destination: decision.link.destination,
                limit: decision.to,
                difference: i32::try_from(i64::from(decision.to) - i64::from(decision.from)).unwrap_or_default(),
                goodput_bytes_s: decision.inputs.goodput,
                success_percent: judged.success * 100.0,
                submitted: decision.inputs.waiting.into(),
                rationale: decision.rationale,
            }
        });
        later(std::future::ready(Ok(decisions.collect())))
    }

    fn workers(&self) -> Later<'_, Vec<WorkerState>> {
        later(self.worker_states())
    }

    fn drain(&self, worker: String, drains: bool, entry: Audit) -> Later<'_, bool> {
        later(async move { self.set_drain(&worker, drains, entry).await })
    }

    fn bans(&self) -> Later<'_, Arc<Vec<Ban>>> {
        later(std::future::ready(Ok(self.bans.storages(now_ms()))))
    }

    fn ban(&self, ban: Ban, entry: Audit) -> Later<'_, Vec<JobId>> {
        later(self.change_ban(ban, entry))
    }

    fn unban(&self, storage: String, vo: String, entry: Audit) -> Later<'_, bool> {
        later(async move { self.end_ban(&storage, &vo, entry).await })
    }

    fn user_bans(&self) -> Later<'_, Arc<Vec<UserBan>>> {
        later(std::future::ready(Ok(self.bans.users())))
    }

    fn ban_user(&self, ban: UserBan, entry: Audit) -> Later<'_, Vec<JobId>> {
        later(self.change_user_ban(ban, entry))
    }

    fn unban_user(&self, user: String, entry: Audit) -> Later<'_, bool> {
        later(async move {
            let known = self.put::<UserBan>(SettingKind::UserBan, &user, None, entry).await?;
            self.bans.read_again(&self.catalog).await?;
            Ok(known)
        })
    }

    fn grants(&self) -> Arc<Vec<UserRight>> {
        self.bans.grants()
    }

    fn change_grants(&self, change: Change<UserRight>) -> Later<'_, Changed<UserRight>> {
        later(async move {
            let changed = self.change(SettingKind::UserRight, change).await?;
            self.bans.read_again(&self.catalog).await?;
            Ok(changed)
        })
    }

    fn storage_settings(&self) -> Later<'_, BTreeMap<String, StorageSettings>> {
        later(self.named(SettingKind::Storage))
    }

    fn change_storages(&self, change: Change<StorageSettings>) -> Later<'_, Changed<StorageSettings>> {
        later(self.change(SettingKind::Storage, change))
    }

    fn link_settings(&self) -> Later<'_, Vec<LinkSettings>> {
        later(self.values(SettingKind::Link))
    }

    fn change_links(&self, change: Change<LinkSettings>) -> Later<'_, Changed<LinkSettings>> {
        later(self.change(SettingKind::Link, change))
    }

    fn vo_settings(&self) -> Later<'_, BTreeMap<String, VoSettings>> {
        later(self.named(SettingKind::Vo))
    }

    fn change_vos(&self, change: Change<VoSettings>) -> Later<'_, Changed<VoSettings>> {
        later(self.change(SettingKind::Vo, change))
    }

    fn audit(&self, user: Option<String>, limit: usize) -> Later<'_, Vec<Audit>> {
        later(self.catalog.audit(user, limit))
    }

    fn events_after(&self, sequence: i64, limit: usize) -> Later<'_, Vec<Event>> {
        later(self.events(sequence, limit))
    }

    fn latest_event(&self) -> watch::Receiver<i64> {
        self.latest_event.clone()
    }
}
