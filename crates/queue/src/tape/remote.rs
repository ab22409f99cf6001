//! Tape systems reached by our client.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::remote::{Access, ArchiveState, Client, Resource, StageState, TapeSystem, ToStage};
use catalog::Claimed;
use tokio::time::timeout;
use types::limits::PEER_WORDS_BYTES_MAX;
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use super::{StageFile, Staging, TapeSystems, TapeTime};
use crate::copy::CopySource;
use crate::limits::{QUESTION_TIME, TAPE_SEARCH_TIME, TAPE_SYSTEM_KEPT, TAPE_SYSTEMS_MAX};
use crate::urls::Concealed;

/// The tape systems that storages announce.
pub struct RemoteTapes {
    client: Client,
    source: Arc<dyn CopySource>,
    /// By storage, with the time at which they were found.
    known: Mutex<HashMap<String, Found>>,
}

struct Found {
    system: TapeSystem,
    at: Instant,
}

impl RemoteTapes {
    /// Asks with this client, and with the credentials of copies.
    #[must_use]
    pub fn new(client: Client, source: Arc<dyn CopySource>) -> Self {
        Self {
            client,
            source,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Found>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn at_source(&self, whose: &Claimed) -> Result<Place> {
        let access = self.source.access(whose).await?;
        Ok(Place {
            concealed: access.concealed(),
            resource: place(&whose.file.source, access.source, Side::Source)?,
        })
    }

    async fn at_destination(&self, whose: &Claimed) -> Result<Place> {
        let access = self.source.access(whose).await?;
        Ok(Place {
            concealed: access.concealed(),
            resource: place(&whose.file.destination, access.destination, Side::Destination)?,
        })
    }

    /// The tape system of a storage; `None` if it has none.
    async fn system(&self, storage: &str, place: &Place) -> Result<Option<TapeSystem>> {
        let known = self.known().get(storage).and_then(|found| {
            let is_fresh = found.at.elapsed() < TAPE_SYSTEM_KEPT;
            is_fresh.then(|| found.system.clone())
        });
        if known.is_some() {
            return Ok(known);
        }
        let found = within(TAPE_SEARCH_TIME, place, self.client.tape_system(&place.resource)).await?;
        if let Some(system) = &found {
            let mut known = self.known();
            if known.len() >= TAPE_SYSTEMS_MAX {
                known.clear();
            }
            let at = Instant::now();
            known.insert(
                storage.to_owned(),
                Found {
                    system: system.clone(),
                    at,
                },
            );
        }
        Ok(found)
    }

    /// The tape system of a source that has one: it was asked before.
    async fn asked_before(&self, whose: &Claimed) -> Result<Asked> {
        let place = self.at_source(whose).await?;
        let system = self.system(&whose.file.source_storage, &place).await?;
        let gone = || {
            let error = Error::new(ErrorCode::PeerUnsupported, Side::Source, Phase::Staging);
            error.with_detail("the source no longer announces its tape system")
        };
        Ok(Asked {
            system: system.ok_or_else(gone)?,
            place,
        })
    }
}

struct Asked {
    system: TapeSystem,
    place: Place,
}

/// Where a tape system is asked, and what its answers must not tell.
struct Place {
    resource: Resource,
    concealed: Concealed,
}

impl Place {
    /// The words of the tape system about a file, as they may be stored.
    fn words(&self, words: String) -> String {
        let mut words = self.concealed.hide(words);
        let cut = words.char_indices().map(|(at, _)| at).nth(PEER_WORDS_BYTES_MAX);
        if let Some(cut) = cut {
            words.truncate(cut);
            words.push('…');
        }
        words
    }

    fn staged(&self, state: StageState) -> StageState {
        match state {
            StageState::Failed(words) => StageState::Failed(self.words(words)),
            StageState::Missing(words) => StageState::Missing(self.words(words)),
            other => other,
        }
    }

    fn archived(&self, state: ArchiveState) -> ArchiveState {
        match state {
            ArchiveState::Refused(words) => ArchiveState::Refused(self.words(words)),
            ArchiveState::Missing(words) => ArchiveState::Missing(self.words(words)),
            other => other,
        }
    }
}

impl TapeSystems for RemoteTapes {
    fn stage<'a>(&'a self, whose: &'a Claimed, files: &'a [StageFile]) -> TapeTime<'a, Staging> {
        Box::pin(async move {
            let place = self.at_source(whose).await?;
            let Some(system) = self.system(&whose.file.source_storage, &place).await? else {
                return Ok(Staging::NoTape);
            };
            if files.len() > system.files_max() {
                return Ok(Staging::TooMany(system.files_max()));
            }
            let files: Vec<ToStage<'_>> = files.iter().map(to_stage).collect();
            match in_time(&place, self.client.stage(&system, &place.resource, &files)).await {
                Ok(request) => Ok(Staging::Asked(request)),
                Err(error) if error.code() == ErrorCode::PeerUnsupported => Ok(Staging::NoTape),
                Err(error) => Err(error),
            }
        })
    }

    fn states<'a>(
        &'a self,
        whose: &'a Claimed,
        request: &'a str,
        paths: &'a [String],
    ) -> TapeTime<'a, Vec<StageState>> {
        Box::pin(async move {
            let Asked { system, place } = self.asked_before(whose).await?;
            let asked = self.client.stage_states(&system, &place.resource, request, paths);
            let states = in_time(&place, asked).await?;
            Ok(states.into_iter().map(|state| place.staged(state)).collect())
        })
    }

    fn cancel<'a>(
        &'a self,
        whose: &'a Claimed,
        request: &'a str,
        paths: &'a [String],
        is_rest: bool,
    ) -> TapeTime<'a, ()> {
        Box::pin(async move {
            let Asked { system, place } = self.asked_before(whose).await?;
            let resource = &place.resource;
            in_time(
                &place,
                self.client.cancel_staging(&system, resource, request, paths, is_rest),
            )
            .await
        })
    }

    fn release<'a>(&'a self, whose: &'a Claimed, request: &'a str, paths: &'a [String]) -> TapeTime<'a, ()> {
        Box::pin(async move {
            let Asked { system, place } = self.asked_before(whose).await?;
            let resource = &place.resource;
            in_time(&place, self.client.release_staged(&system, resource, request, paths)).await
        })
    }

    fn located<'a>(&'a self, whose: &'a Claimed, paths: &'a [String]) -> TapeTime<'a, Option<Vec<ArchiveState>>> {
        Box::pin(async move {
            let place = self.at_destination(whose).await?;
            let Some(system) = self.system(&whose.file.destination_storage, &place).await? else {
                return Ok(None);
            };
            let states = in_time(&place, self.client.archive_states(&system, &place.resource, paths)).await?;
            Ok(Some(states.into_iter().map(|state| place.archived(state)).collect()))
        })
    }
}

impl std::fmt::Debug for RemoteTapes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RemoteTapes")
    }
}

fn place(url: &str, access: Access, side: Side) -> Result<Resource> {
    let location = Location::parse(url).map_err(|error| error.at_side(side))?;
    Ok(Resource { location, access, side })
}

fn to_stage(file: &StageFile) -> ToStage<'_> {
    ToStage {
        path: &file.path,
        pin_s: file.pin_s,
        metadata: file.metadata.as_ref(),
    }
}

/// The answer of a tape system, in time. A refusal comes without secrets that it quotes.
async fn in_time<T>(asked: &Place, answer: impl Future<Output = Result<T>>) -> Result<T> {
    within(QUESTION_TIME, asked, answer).await
}

async fn within<T>(time: Duration, asked: &Place, answer: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(time, answer).await {
        Ok(answer) => answer.map_err(|error| asked.concealed.clear(error)),
        Err(_) => {
            let error = Error::new(ErrorCode::PeerStalled, asked.resource.side, Phase::Staging);
            Err(error.with_detail(format!("no answer within {} s", time.as_secs())))
        }
    }
}
