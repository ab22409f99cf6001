//! Waits until copied files are on tape.
//!
//! Nothing is kept but the catalog's state `Archiving`: after a crash, the files are asked about
//! again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ::remote::limits::TAPE_FILES_MAX;
use ::remote::{ArchiveState, Locality, tape_path};
use catalog::{Advance, Claimed, WaitingFile};
use schedule::{FileEvent, FileId, FileState};
use tokio::task::JoinSet;
use types::{Error, ErrorCode, Location, Result};

use super::words::{archiving, archiving_problem};
use super::{Bearer, Inner, milliseconds, now_ms};
use crate::limits::{
    ARCHIVED_AT_ONCE_MAX, CATALOG_PAUSE, STAGED_AT_ONCE_MAX, TAPE_CALLS_MAX, TAPE_HOLD_TIME, TAPE_TURN_PERIOD,
};

/// When each file of a storage is asked about again, in milliseconds since 1970.
type Diary = HashMap<FileId, i64>;

/// Works while this process leads.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut diaries: HashMap<String, Diary> = HashMap::new();
    let mut holds: HashMap<String, i64> = HashMap::new();
    let mut busy: HashSet<String> = HashSet::new();
    let mut tasks: JoinSet<Pass> = JoinSet::new();
    loop {
        tokio::select! {
            Some(pass) = tasks.join_next() => {
                if let Ok(pass) = pass {
                    busy.remove(&pass.storage);
                    if pass.failure.is_some() {
                        let pause = TAPE_HOLD_TIME.min(inner.settings.pace.longest);
                        holds.insert(pass.storage.clone(), now_ms() + milliseconds(pause));
                    }
                    diaries.insert(pass.storage, pass.diary);
                }
                continue;
            }
            () = tokio::time::sleep(TAPE_TURN_PERIOD.min(inner.settings.pace.shortest)) => {}
        }
        let Ok(storages) = storages(&inner).await else {
            tokio::time::sleep(CATALOG_PAUSE).await;
            continue;
        };
        let now_ms = now_ms();
        holds.retain(|_, until_ms| *until_ms > now_ms);
        diaries.retain(|storage, _| storages.contains(storage));
        for storage in storages {
            let waits = busy.contains(&storage) || holds.contains_key(&storage);
            if !waits && tasks.len() < TAPE_CALLS_MAX {
                busy.insert(storage.clone());
                let diary = diaries.remove(&storage).unwrap_or_default();
                tasks.spawn(pass(inner.clone(), storage, diary));
            }
        }
    }
}

/// The storages to ask; none if another process leads.
async fn storages(inner: &Inner) -> Result<Vec<String>> {
    match inner.catalog.try_lead().await? {
        true => inner.catalog.waiting_storages(FileState::Archiving).await,
        false => Ok(Vec::new()),
    }
}

/// One look at the files of a storage.
struct Pass {
    storage: String,
    diary: Diary,
    /// Why it ended early.
    failure: Option<Error>,
}

async fn pass(inner: Arc<Inner>, storage: String, diary: Diary) -> Pass {
    let mut pass = Pass {
        storage,
        diary: Diary::new(),
        failure: None,
    };
    pass.failure = look(&inner, &mut pass, &diary).await.err();
    pass
}

async fn look(inner: &Inner, pass: &mut Pass, before: &Diary) -> Result<()> {
    let mut after = FileId(0);
    while pass.diary.len() < ARCHIVED_AT_ONCE_MAX {
        let storage = Some(pass.storage.as_str());
        let page = inner
            .catalog
            .waiting_files(FileState::Archiving, storage, after, STAGED_AT_ONCE_MAX, now_ms())
            .await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.file.id;
        let mut groups: BTreeMap<Bearer, Vec<WaitingFile>> = BTreeMap::new();
        for waiting in page {
            let due_ms = before.get(&waiting.file.id).copied();
            let due_ms = due_ms.unwrap_or_else(|| began_ms(&waiting) + inner.settings.pace.pause_ms(0));
            pass.diary.insert(waiting.file.id, due_ms);
            if due_ms <= now_ms() {
                let bearer = Bearer::new(&waiting.job, waiting.file.options.destination_token.as_ref());
                groups.entry(bearer).or_default().push(waiting);
            }
        }
        for files in groups.into_values() {
            for files in files.chunks(TAPE_FILES_MAX) {
                ask(inner, &mut pass.diary, files).await?;
            }
        }
    }
    Ok(())
}

/// Asks about some files, and writes what that means for them.
async fn ask(inner: &Inner, diary: &mut Diary, files: &[WaitingFile]) -> Result<()> {
    let Some(first) = files.first() else {
        return Ok(());
    };
    let whose = Claimed {
        file: first.file.clone(),
        job: first.job.clone(),
    };
    let paths: Vec<String> = files.iter().map(path).collect();
    let located = inner.systems.located(&whose, &paths).await;
    let now_ms = now_ms();
    let (states, failure) = match located {
        Ok(Some(states)) => (states, None),
        Ok(None) => {
            let words = "the destination announces no tape system".to_owned();
            (vec![ArchiveState::Refused(words); files.len()], None)
        }
        // Their own time goes on.
        Err(error) => (vec![ArchiveState::Unanswered; files.len()], Some(error)),
    };
    let mut events = Vec::new();
    for (waiting, state) in files.iter().zip(states) {
        let id = waiting.file.id;
        diary.insert(id, now_ms + inner.settings.pace.pause_ms(now_ms - began_ms(waiting)));
        events.extend(event(waiting, state, failure.as_ref(), now_ms));
    }
    if !events.is_empty() {
        for event in &events {
            diary.remove(&event.file);
        }
        inner.catalog.advance(events, now_ms).await?;
    }
    failure.filter(Error::retry).map_or(Ok(()), Err)
}

/// What an answer means for a file; `None`: it waits on.
fn event(waiting: &WaitingFile, state: ArchiveState, failure: Option<&Error>, now_ms: i64) -> Option<Advance> {
    let id = waiting.file.id;
    let lost = |words: &str| failed(id, &archiving(ErrorCode::ArchivingFailed, words));
    let path = || path(waiting);
    match state {
        ArchiveState::At(locality) if locality.is_on_tape() => return Some(Advance::new(id, FileEvent::Archived)),
        ArchiveState::At(Locality::Lost) => return Some(lost(&format!("the storage has lost {}", path()))),
        ArchiveState::At(Locality::Nowhere) => return Some(lost(&format!("the storage has no content of {}", path()))),
        ArchiveState::Refused(words) => return Some(lost(&words)),
        ArchiveState::At(_) | ArchiveState::Unanswered => {}
    }
    let seconds = i64::from(waiting.job.options.archive_timeout_s.unwrap_or_default());
    let is_late = began_ms(waiting).saturating_add(seconds * 1000) <= now_ms;
    is_late.then(|| {
        let words = match failure {
            Some(error) => format!("{} is not known to be on tape, because: {}", path(), error.public()),
            None => format!("{} is not on tape yet", path()),
        };
        failed(id, &archiving(ErrorCode::ArchivingExpired, words))
    })
}

fn failed(file: FileId, error: &Error) -> Advance {
    let event = FileEvent::Failed {
        is_recoverable: false,
        has_attempts: false,
        is_expired: false,
    };
    Advance {
        problem: Some(archiving_problem(error)),
        ..Advance::new(file, event)
    }
}

/// When the wait began.
fn began_ms(waiting: &WaitingFile) -> i64 {
    waiting.file.times.archiving_started_ms.unwrap_or_default()
}

fn path(waiting: &WaitingFile) -> String {
    let url = &waiting.file.destination;
    Location::parse(url).map_or_else(|_| url.clone(), |location| tape_path(&location))
}
