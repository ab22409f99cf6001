//! Asks the tape system of a storage for the files of one user, as many as fit into one request.

use std::collections::BTreeMap;

use ::remote::limits::TAPE_FILES_MAX;
use ::remote::tape_path;
use catalog::{Advance, Claimed, StageMember, StageRequest, StorageUser, WaitingFile};
use schedule::{FileEvent, FileId, FileState};
use types::{Error, ErrorCode, Location, Result};

use super::super::words::staging;
use super::super::{Bearer, Inner, StageFile, Staging};
use super::question::failed;
use crate::clock::{milliseconds, now_ms};
use crate::limits::BRING_ONLINE_TIME;

/// What became of the files of a user at a storage.
#[derive(Default)]
pub(super) struct Asked {
    /// The new requests.
    pub(super) requests: Vec<StageRequest>,
    /// The storage has answered.
    pub(super) is_answered: bool,
    /// Why the rest still waits.
    pub(super) failure: Option<Error>,
}

/// Asks for at most so many files of a user that wait at a storage.
pub(super) async fn ask(inner: &Inner, whose: &StorageUser, count: usize) -> Asked {
    let mut asked = Asked::default();
    if let Err(error) = ask_for_all(inner, whose, count, &mut asked).await {
        asked.failure = Some(error);
    }
    asked
}

async fn ask_for_all(inner: &Inner, whose: &StorageUser, count: usize, asked: &mut Asked) -> Result<()> {
    let waiting = inner
        .catalog
        .waiting_files(FileState::Staging, Some(whose), FileId(0), count, now_ms())
        .await?;
    let mut groups: BTreeMap<Bearer, Vec<WaitingFile>> = BTreeMap::new();
    for file in waiting {
        groups.entry(bearer(&file)).or_default().push(file);
    }
    // The last is asked for first; a chunk that is refused is split and put back.
    let mut chunks: Vec<Vec<WaitingFile>> = Vec::new();
    for files in groups.into_values() {
        chunks.extend(files.chunks(TAPE_FILES_MAX).map(<[WaitingFile]>::to_vec));
    }
    while let Some(files) = chunks.pop() {
        match ask_once(inner, &whose.storage, &files, asked).await? {
            Outcome::Asked(request) => asked.requests.push(request),
            Outcome::Settled => {}
            Outcome::Split(most) => chunks.extend(files.chunks(most.max(1)).rev().map(<[WaitingFile]>::to_vec)),
            Outcome::Later(error) => {
                give_up_late(inner, &files, &error).await?;
                let is_silent = error.peer_status().is_none();
                asked.failure = Some(error);
                if is_silent {
                    return Ok(());
                }
                // It answers: the refusal may concern this credential only.
                let refused = files.first().map(bearer);
                chunks.retain(|chunk| chunk.first().map(bearer) != refused);
            }
        }
    }
    Ok(())
}

fn bearer(waiting: &WaitingFile) -> Bearer {
    Bearer::new(&waiting.job, waiting.file.options.source_token.as_ref())
}

enum Outcome {
    Asked(StageRequest),
    /// Nothing is left to do: the files are on disk, or have failed.
    Settled,
    /// In requests of so many: more are too many, or one of them causes the refusal.
    Split(usize),
    /// The storage does not answer, or refuses for now.
    Later(Error),
}

async fn ask_once(inner: &Inner, storage: &str, files: &[WaitingFile], asked: &mut Asked) -> Result<Outcome> {
    let Some(first) = files.first() else {
        return Ok(Outcome::Settled);
    };
    let members: Vec<StageMember> = files.iter().map(member).collect();
    let wanted: Vec<StageFile> = files
        .iter()
        .zip(&members)
        .map(|(waiting, member)| wanted(waiting, member))
        .collect();
    let whose = Claimed {
        file: first.file.clone(),
        job: first.job.clone(),
    };
    let answer = inner.systems.stage(&whose, &wanted).await;
    asked.is_answered |= answer
        .as_ref()
        .map_or_else(|error| error.peer_status().is_some(), |_| true);
    match answer {
        Ok(Staging::Asked(request)) => {
            let request = inner.catalog.stage_asked(storage, &request, members, now_ms()).await?;
            Ok(Outcome::Asked(request))
        }
        Ok(Staging::TooMany(most)) => Ok(Outcome::Split(most)),
        Ok(Staging::NoTape) => {
            let on_disk = |member: &StageMember| {
                let is_last_step = member.is_last_step;
                Advance::new(member.file, FileEvent::Staged { is_last_step })
            };
            inner
                .catalog
                .advance(members.iter().map(on_disk).collect(), now_ms())
                .await?;
            Ok(Outcome::Settled)
        }
        Err(error) if error.retry() || error.code() == ErrorCode::OutcomeUnknown => Ok(Outcome::Later(error)),
        Err(error) if files.len() > 1 && may_be_one_file(&error) => Ok(Outcome::Split(files.len().div_ceil(2))),
        Err(error) => {
            let events = files.iter().map(|file| failed(file.file.id, &error, None));
            inner.catalog.advance(events.collect(), now_ms()).await?;
            Ok(Outcome::Settled)
        }
    }
}

/// Whether the refusal of a request may be due to one of its files.
fn may_be_one_file(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::PeerFailed | ErrorCode::PeerNotFound)
}

fn member(waiting: &WaitingFile) -> StageMember {
    let file = &waiting.file;
    let path = Location::parse(&file.source).map_or_else(|_| file.source.clone(), |source| tape_path(&source));
    StageMember {
        file: file.id,
        path,
        expires_ms: now_ms().saturating_add(time_ms(waiting)),
        is_last_step: file.source == file.destination,
    }
}

/// The time that tape may take.
fn time_ms(waiting: &WaitingFile) -> i64 {
    let given = waiting
        .job
        .options
        .bring_online_s
        .map(|seconds| i64::from(seconds) * 1000);
    given.unwrap_or_else(|| milliseconds(BRING_ONLINE_TIME))
}

fn wanted(waiting: &WaitingFile, member: &StageMember) -> StageFile {
    StageFile {
        path: member.path.clone(),
        pin_s: waiting.job.options.pin_lifetime_s,
        metadata: waiting.file.options.staging_metadata.clone(),
    }
}

/// Files fail whose tape system has not answered for as long as tape may take.
async fn give_up_late(inner: &Inner, files: &[WaitingFile], error: &Error) -> Result<()> {
    let now_ms = now_ms();
    let late = files
        .iter()
        .filter(|waiting| waiting.job.submitted_ms.saturating_add(time_ms(waiting)) <= now_ms);
    let events = late.map(|waiting| {
        let words = format!("the tape system was not asked, because: {}", error.public());
        failed(waiting.file.id, &staging(ErrorCode::StagingExpired, words), None)
    });
    let events: Vec<Advance> = events.collect();
    if !events.is_empty() {
        inner.catalog.advance(events, now_ms).await?;
    }
    Ok(())
}
