//! Waits until copied files are on tape.
//!
//! Nothing is kept but the catalog's state `Archiving`: after a crash, the files are asked about
//! again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ::remote::limits::TAPE_FILES_MAX;
use ::remote::{ArchiveState, Locality, tape_path};
use catalog::{Advance, Claimed, StorageUser, WaitingFile};
use schedule::{FileEvent, FileId, FileState};
use tokio::task::JoinSet;
use types::{Error, ErrorCode, Location, Result};

use super::turns::{Call, Outcome, Purpose, Turns};
use super::words::{archiving, archiving_problem};
use super::{Bearer, Inner};
use crate::clock::{has_come, now_ms};
use crate::limits::{
    ARCHIVED_AT_ONCE_MAX, CATALOG_PAUSE, STAGED_AT_ONCE_MAX, TAPE_POLL_MAX, TAPE_TURN_PERIOD, TRIED_AT_ONCE_MAX,
};

/// When each file of a user at a storage is asked about again, in milliseconds since 1970.
type Diary = HashMap<FileId, i64>;

/// Works while this process leads.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut diaries: HashMap<StorageUser, Diary> = HashMap::new();
    let mut turns = Turns::new(inner.settings.pace);
    let mut tasks: JoinSet<Pass> = JoinSet::new();
    loop {
        tokio::select! {
            Some(pass) = tasks.join_next() => {
                if let Ok(pass) = pass {
                    turns.end(&pass.call);
                    pass.shown.iter().for_each(|shown| turns.note(&pass.call, *shown, now_ms()));
                    diaries.insert(pass.call.whose, pass.diary);
                }
                continue;
            }
            () = tokio::time::sleep(TAPE_TURN_PERIOD.min(inner.settings.pace.shortest)) => {}
        }
        let Ok(mut wanted) = wanted(&inner).await else {
            tokio::time::sleep(CATALOG_PAUSE).await;
            continue;
        };
        diaries.retain(|whose, _| wanted.iter().any(|(call, ())| call.whose == *whose));
        turns.sort(&mut wanted);
        for (call, ()) in wanted {
            if turns.begin(&call, now_ms()) {
                let diary = diaries.remove(&call.whose).unwrap_or_default();
                let page = match turns.answers(&call.whose.storage) {
                    true => STAGED_AT_ONCE_MAX,
                    false => TRIED_AT_ONCE_MAX,
                };
                tasks.spawn(pass(inner.clone(), call, page, diary));
            }
        }
    }
}

/// The calls to make; none if another process leads.
async fn wanted(inner: &Inner) -> Result<Vec<(Call, ())>> {
    if !inner.catalog.try_lead().await? {
        return Ok(Vec::new());
    }
    let waiting = inner.catalog.waiting_users(FileState::Archiving).await?.into_iter();
    let purpose = Purpose::Files;
    Ok(waiting.map(|whose| (Call { whose, purpose }, ())).collect())
}

/// One look at the files of a user at a storage.
struct Pass {
    call: Call,
    diary: Diary,
    /// What it has shown of the storage, in order.
    shown: Vec<Outcome>,
}

async fn pass(inner: Arc<Inner>, call: Call, page: usize, diary: Diary) -> Pass {
    let mut pass = Pass {
        call,
        diary: Diary::new(),
        shown: Vec::new(),
    };
    if look(&inner, &mut pass, page, &diary).await.is_err() {
        pass.shown.push(Outcome::NotAsked);
    }
    pass
}

/// Asks about the files that are due, in pages, until the storage does not answer.
///
/// # Errors
/// Those of the catalog.
async fn look(inner: &Inner, pass: &mut Pass, page: usize, before: &Diary) -> Result<()> {
    let mut after = FileId(0);
    while pass.diary.len() < ARCHIVED_AT_ONCE_MAX {
        let whose = Some(&pass.call.whose);
        let waiting = inner
            .catalog
            .waiting_files(FileState::Archiving, whose, after, page, now_ms())
            .await?;
        let Some(last) = waiting.last() else {
            return Ok(());
        };
        after = last.file.id;
        let mut groups: BTreeMap<Bearer, Vec<WaitingFile>> = BTreeMap::new();
        for waiting in waiting {
            let due_ms = before.get(&waiting.file.id).copied();
            let due_ms = due_ms.unwrap_or_else(|| began_ms(&waiting) + inner.settings.pace.pause_ms(0));
            pass.diary.insert(waiting.file.id, due_ms);
            if has_come(due_ms, now_ms(), TAPE_POLL_MAX) {
                let bearer = Bearer::new(&waiting.job, waiting.file.options.destination_token.as_ref());
                groups.entry(bearer).or_default().push(waiting);
            }
        }
        for files in groups.into_values() {
            for files in files.chunks(TAPE_FILES_MAX) {
                let shown = ask(inner, &mut pass.diary, files).await?;
                if pass.shown.last() != Some(&shown) {
                    pass.shown.push(shown);
                }
                match shown {
                    Outcome::Answered => {}
                    Outcome::Silent => return Ok(()),
                    // That may concern this credential only.
                    Outcome::Refused | Outcome::NotAsked => break,
                }
            }
        }
    }
    Ok(())
}

/// Asks about some files, and writes what that means for them.
async fn ask(inner: &Inner, diary: &mut Diary, files: &[WaitingFile]) -> Result<Outcome> {
    let Some(first) = files.first() else {
        return Ok(Outcome::Answered);
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
    Ok(match failure {
        Some(error) if error.retry() || error.peer_status().is_none() => Outcome::of(&error),
        _ => Outcome::Answered,
    })
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
        ArchiveState::Refused(words) | ArchiveState::Missing(words) => return Some(lost(&words)),
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
