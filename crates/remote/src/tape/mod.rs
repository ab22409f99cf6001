//! Tape systems: files are brought online, released, and asked whether they are on tape.
//!
//! A storage offers the WLCG Tape REST API ([`rest`]) beside its files over HTTP; in the XRootD
//! protocol, requests of the protocol itself do the same. A request names many files, has a name of
//! its own, and is then asked how far they are.

mod rest;
mod wire;

use serde_json::Value;
use types::{Error, ErrorCode, Location, Phase, Result};

use crate::client::Client;
use crate::limits::{TAPE_FILES_MAX, TAPE_PREPARE_MAX};
use crate::resource::Resource;

/// The tape system of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeSystem(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Rest(wire::Announced),
    /// By the protocol of the files.
    Protocol,
}

impl TapeSystem {
    /// Whether files are released by naming the request that brought them online.
    #[must_use]
    pub fn releases_by_request(&self) -> bool {
        matches!(self.0, Kind::Rest(_))
    }

    /// Files that one request may name.
    #[must_use]
    pub fn files_max(&self) -> usize {
        match self.0 {
            Kind::Rest(_) => TAPE_FILES_MAX,
            Kind::Protocol => TAPE_PREPARE_MAX,
        }
    }
}

/// What a tape system is asked in the protocol of the files.
#[derive(Clone, Copy, Debug)]
pub enum TapeCall<'a> {
    /// To bring these files online.
    Stage(&'a [&'a str]),
    /// How far these files of a request are.
    States {
        /// The request.
        request: &'a str,
        /// The files.
        paths: &'a [String],
    },
    /// To cancel a whole request.
    Cancel {
        /// The request.
        request: &'a str,
    },
    /// To let go of these files.
    Release(&'a [String]),
    /// Where these files are.
    Located(&'a [String]),
}

/// The answer to a [`TapeCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapeAnswer {
    /// The name of the new request.
    Request(String),
    /// How far the files are, in their order.
    States(Vec<StageState>),
    /// Where the files are, in their order.
    Places(Vec<ArchiveState>),
    /// Done.
    Done,
}

/// A file to bring online.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToStage<'a> {
    /// Its path, as the tape system names it: [`tape_path`].
    pub path: &'a str,
    /// Seconds for which it stays on disk afterwards; `None`: as the tape system likes.
    pub pin_s: Option<u32>,
    /// Data for the tape system: an object by site, or for all sites.
    pub metadata: Option<&'a Value>,
}

/// How far a file is that is being brought online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageState {
    /// It waits.
    Waiting,
    /// The tape system works on it.
    Started,
    /// It can be read.
    OnDisk,
    /// It will not come, because the request was canceled.
    Canceled,
    /// It will not come, for this reason in the tape system's words.
    Failed(String),
    /// There is no such file, in the tape system's words.
    Missing(String),
}

/// Where the copies of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// On disk only.
    Disk,
    /// On tape only.
    Tape,
    /// On both.
    DiskAndTape,
    /// Nowhere any longer.
    Lost,
    /// Nowhere: it has no content yet, or there is no such file.
    Nowhere,
    /// The storage cannot say now.
    Unavailable,
}

impl Locality {
    /// Whether there is a copy on tape.
    #[must_use]
    pub fn is_on_tape(self) -> bool {
        matches!(self, Self::Tape | Self::DiskAndTape)
    }
}

/// What a tape system says of the place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveState {
    /// It is there.
    At(Locality),
    /// It does not say, for this reason in its words.
    Refused(String),
    /// There is no such file, in its words.
    Missing(String),
    /// The answer was too long for this file: ask again.
    Unanswered,
}

/// The name of a file for tape systems: the plain path, without percent-encoding.
#[must_use]
pub fn tape_path(location: &Location) -> String {
    let decoded = location
        .is_http()
        .then(|| types::decode_percent(location.path()))
        .flatten();
    decoded.unwrap_or_else(|| location.path().to_owned())
}

impl Client {
    /// The tape system of a storage; `None` if it has none that we know. `place` is any of its
    /// files, with the credentials for it.
    ///
    /// # Errors
    /// No answer, or one that cannot be understood.
    pub async fn tape_system(&self, place: &Resource) -> Result<Option<TapeSystem>> {
        if self.abilities(&place.location).prepares {
            return Ok(Some(TapeSystem(Kind::Protocol)));
        }
        let found = rest::discover(self, place).await?;
        Ok(found.map(|found| TapeSystem(Kind::Rest(found))))
    }

    /// Asks for files to be brought online. Returns the name of the request. At most
    /// [`TapeSystem::files_max`] files.
    ///
    /// # Errors
    /// The tape system's refusal; `outcome_unknown` when it got the request and did not answer.
    pub async fn stage(&self, system: &TapeSystem, place: &Resource, files: &[ToStage<'_>]) -> Result<String> {
        match &system.0 {
            Kind::Rest(at) => rest::stage(self, at, place, files).await,
            Kind::Protocol => {
                let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
                match self.protocol(place)?.tape(place, TapeCall::Stage(&paths)).await? {
                    TapeAnswer::Request(request) => Ok(request),
                    _ => Err(unexpected(place)),
                }
            }
        }
    }

    /// How far these files of a request are, in their order.
    ///
    /// # Errors
    /// The tape system's refusal: `peer_not_found` if it does not know the request.
    pub async fn stage_states(
        &self,
        system: &TapeSystem,
        place: &Resource,
        request: &str,
        paths: &[String],
    ) -> Result<Vec<StageState>> {
        match &system.0 {
            Kind::Rest(at) => rest::stage_states(self, at, place, request, paths).await,
            Kind::Protocol => {
                let call = TapeCall::States { request, paths };
                match self.protocol(place)?.tape(place, call).await? {
                    TapeAnswer::States(states) => Ok(states),
                    _ => Err(unexpected(place)),
                }
            }
        }
    }

    /// Cancels these files of a request; `is_rest` says that nothing else of it is awaited. What is
    /// on disk already stays there. The XRootD protocol can only cancel a whole request, so nothing
    /// is asked before its rest is to go.
    ///
    /// # Errors
    /// The tape system's refusal.
    pub async fn cancel_staging(
        &self,
        system: &TapeSystem,
        place: &Resource,
        request: &str,
        paths: &[String],
        is_rest: bool,
    ) -> Result<()> {
        match &system.0 {
            Kind::Rest(at) => rest::cancel(self, at, place, request, paths).await,
            Kind::Protocol if !is_rest => Ok(()),
            Kind::Protocol => self
                .protocol(place)?
                .tape(place, TapeCall::Cancel { request })
                .await
                .map(drop),
        }
    }

    /// Says that these files of a request are no longer needed on disk.
    ///
    /// # Errors
    /// The tape system's refusal.
    pub async fn release_staged(
        &self,
        system: &TapeSystem,
        place: &Resource,
        request: &str,
        paths: &[String],
    ) -> Result<()> {
        match &system.0 {
            Kind::Rest(at) => rest::release(self, at, place, request, paths).await,
            Kind::Protocol => self
                .protocol(place)?
                .tape(place, TapeCall::Release(paths))
                .await
                .map(drop),
        }
    }

    /// Where these files are, in their order.
    ///
    /// # Errors
    /// The tape system's refusal.
    pub async fn archive_states(
        &self,
        system: &TapeSystem,
        place: &Resource,
        paths: &[String],
    ) -> Result<Vec<ArchiveState>> {
        match &system.0 {
            Kind::Rest(at) => rest::archive_states(self, at, place, paths).await,
            Kind::Protocol => match self.protocol(place)?.tape(place, TapeCall::Located(paths)).await? {
                TapeAnswer::Places(places) => Ok(places),
                _ => Err(unexpected(place)),
            },
        }
    }
}

/// A protocol has answered another question.
fn unexpected(place: &Resource) -> Error {
    place.error(ErrorCode::Internal, Phase::Staging)
}
