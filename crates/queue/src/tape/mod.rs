//! Tape: files are brought online before their copy, and are on tape after it.
//!
//! Two loops run beside the service, in the process that leads those that share the catalog:
//!
//! - [`recall`] asks the tape systems of sources for files, many in one request, and polls until
//!   they are on disk. The request's name and files are in the catalog, so that after a crash it is
//!   polled and not asked again. It cancels what is canceled here, and releases what was copied.
//! - [`archive`] asks the tape systems of destinations whether copied files are on tape.
//!
//! What is decided from answers is in [`batch`], [`pace`] and [`turns`], without any input or
//! output.

mod archive;
mod batch;
mod pace;
mod recall;
mod remote;
mod turns;
mod words;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::remote::{ArchiveState, StageState};
use catalog::{Catalog, Claimed};
use serde_json::Value;
use tokio::task::JoinHandle;
use types::Result;

pub use pace::Pace;
pub use remote::RemoteTapes;

/// The answer of a tape system.
pub type TapeTime<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A file to bring online.
#[derive(Clone, Debug, PartialEq)]
pub struct StageFile {
    /// Its name at the tape system.
    pub path: String,
    /// Seconds for which it stays on disk afterwards.
    pub pin_s: Option<u32>,
    /// The client's data for the tape system.
    pub metadata: Option<Value>,
}

/// What became of a request for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staging {
    /// It has this name.
    Asked(String),
    /// The storage has no tape system: its files are on disk.
    NoTape,
    /// Nothing was asked: one request may name only so many files.
    TooMany(usize),
}

/// The tape systems of storages. `whose` is one of the files: it names the storage, and the
/// credentials to show.
pub trait TapeSystems: Send + Sync + 'static {
    /// Asks the source's tape system for files.
    fn stage<'a>(&'a self, whose: &'a Claimed, files: &'a [StageFile]) -> TapeTime<'a, Staging>;

    /// How far the files of a request are, in their order.
    fn states<'a>(&'a self, whose: &'a Claimed, request: &'a str, paths: &'a [String])
    -> TapeTime<'a, Vec<StageState>>;

    /// Cancels files of a request; `is_rest`: nothing else of it is awaited.
    fn cancel<'a>(
        &'a self,
        whose: &'a Claimed,
        request: &'a str,
        paths: &'a [String],
        is_rest: bool,
    ) -> TapeTime<'a, ()>;

    /// Says that files of a request are no longer needed on disk.
    fn release<'a>(&'a self, whose: &'a Claimed, request: &'a str, paths: &'a [String]) -> TapeTime<'a, ()>;

    /// Where these files of the destination are, in their order; `None` without a tape system.
    fn located<'a>(&'a self, whose: &'a Claimed, paths: &'a [String]) -> TapeTime<'a, Option<Vec<ArchiveState>>>;
}

/// How tape systems are used.
#[derive(Clone, Debug)]
pub struct TapeSettings {
    /// When they are asked how far they are.
    pub pace: Pace,
    /// Attempts after the first, for jobs that give no number.
    pub retries: u16,
    /// Pause before another attempt, for jobs that give none.
    pub retry_delay: Duration,
}

/// The loops for tape. They end with it.
#[derive(Debug)]
pub struct Tape(Vec<JoinHandle<()>>);

impl Tape {
    /// Starts the loops on the current runtime.
    #[must_use]
    pub fn start(settings: TapeSettings, catalog: Catalog, systems: Arc<dyn TapeSystems>) -> Self {
        let inner = Arc::new(Inner {
            settings,
            catalog,
            systems,
        });
        Self(vec![
            tokio::spawn(recall::run(inner.clone())),
            tokio::spawn(archive::run(inner)),
        ])
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// What both loops share.
struct Inner {
    settings: TapeSettings,
    catalog: Catalog,
    systems: Arc<dyn TapeSystems>,
}

/// Whose credentials a request to a tape system shows: files that agree in it share requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bearer {
    user: String,
    delegation_id: String,
    token: Option<String>,
}

impl Bearer {
    fn new(job: &catalog::JobRecord, token: Option<&String>) -> Self {
        Self {
            user: job.owner.user.clone(),
            delegation_id: job.owner.delegation_id.clone(),
            token: token.cloned(),
        }
    }
}
