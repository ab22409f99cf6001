//! Tape systems reached by our client.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ::remote::{Access, ArchiveState, Client, Resource, StageState, TapeSystem, ToStage};
use catalog::Claimed;
use tokio::time::timeout;
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use super::{StageFile, Staging, TapeSystems, TapeTime};
use crate::copy::CopySource;
use crate::limits::{QUESTION_TIME, TAPE_SYSTEM_KEPT, TAPE_SYSTEMS_MAX};

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

    async fn at_source(&self, whose: &Claimed) -> Result<Resource> {
        let access = self.source.access(whose).await?.source;
        place(&whose.file.source, access, Side::Source)
    }

    async fn at_destination(&self, whose: &Claimed) -> Result<Resource> {
        let access = self.source.access(whose).await?.destination;
        place(&whose.file.destination, access, Side::Destination)
    }

    /// The tape system of a storage; `None` if it has none.
    async fn system(&self, storage: &str, place: &Resource) -> Result<Option<TapeSystem>> {
        let known = self.known().get(storage).and_then(|found| {
            let is_fresh = found.at.elapsed() < TAPE_SYSTEM_KEPT;
            is_fresh.then(|| found.system.clone())
        });
        if known.is_some() {
            return Ok(known);
        }
        let found = in_time(place, self.client.tape_system(place)).await?;
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
    place: Resource,
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
            match in_time(&place, self.client.stage(&system, &place, &files)).await {
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
            in_time(&place, self.client.stage_states(&system, &place, request, paths)).await
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
            in_time(
                &place,
                self.client.cancel_staging(&system, &place, request, paths, is_rest),
            )
            .await
        })
    }

    fn release<'a>(&'a self, whose: &'a Claimed, request: &'a str, paths: &'a [String]) -> TapeTime<'a, ()> {
        Box::pin(async move {
            let Asked { system, place } = self.asked_before(whose).await?;
            in_time(&place, self.client.release_staged(&system, &place, request, paths)).await
        })
    }

    fn located<'a>(&'a self, whose: &'a Claimed, paths: &'a [String]) -> TapeTime<'a, Option<Vec<ArchiveState>>> {
        Box::pin(async move {
            let place = self.at_destination(whose).await?;
            let Some(system) = self.system(&whose.file.destination_storage, &place).await? else {
                return Ok(None);
            };
            let states = in_time(&place, self.client.archive_states(&system, &place, paths)).await;
            states.map(Some)
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

/// The answer of a tape system, in time.
async fn in_time<T>(asked: &Resource, answer: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(QUESTION_TIME, answer).await.unwrap_or_else(|_| {
        let error = Error::new(ErrorCode::PeerStalled, asked.side, Phase::Staging);
        Err(error.with_detail(format!("no answer within {} s", QUESTION_TIME.as_secs())))
    })
}
