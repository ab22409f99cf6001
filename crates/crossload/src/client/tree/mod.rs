//! Walks a tree in bounded memory: lists its directories, several at a time, and passes on what it
//! finds through a bounded queue. It may look at the destination, too.

mod descent;
mod enter;
mod links;
mod select;
mod spool;
mod there;
mod waiting;

use storage::local::Unfit;
use tokio::sync::{Semaphore, mpsc};
use types::{Error, ErrorCode, Phase, Side};

use super::place::Place;
use super::session::{ClientContext, Info};
use super::totals::Totals;
use crate::command_line::Links;
use waiting::{Turn, Waiting};

pub(crate) use select::Selection;
pub(crate) use spool::Spool;
pub(crate) use there::There;
pub(crate) use waiting::Directory;

/// A file of the source, and where it belongs.
pub(crate) struct Pair {
    pub(crate) source: Place,
    /// The symbolic link that leads to the source, if one was followed.
    pub(crate) link: Option<Place>,
    pub(crate) target: Place,
    pub(crate) info: Info,
    pub(crate) there: There,
    /// The directory at the destination exists.
    pub(crate) has_parent: bool,
    /// Why the server does not say what the source is. It may be readable.
    pub(crate) refusal: Option<Error>,
}

/// What a walk finds.
pub(crate) enum Found {
    /// A file.
    File(Box<Pair>),
    /// A directory that is missing at the destination, if the walk makes none.
    Directory(Directory),
    /// A symbolic link that is to be copied as one.
    Link { source: Place, target: Place },
    /// An entry of the destination that the source does not have.
    Extra {
        target: Place,
        /// Below the top of the tree.
        path: String,
        info: Info,
    },
    /// An entry that is neither.
    LeftOut { source: String, why: Unfit },
    /// A directory that cannot be listed or made, or a name that the destination cannot have.
    Failed { source: String, error: Error },
}

/// How trees are walked.
pub(crate) struct Walk<'a> {
    pub(crate) session: &'a ClientContext,
    /// Directories that are listed at the same time, over all walks that share it.
    pub(crate) listings: &'a Semaphore,
    /// The number of its permits.
    pub(crate) listings_max: usize,
    /// How often the beginning of a listing is tried again, after a failure that may pass.
    pub(crate) retries: u32,
    pub(crate) selection: &'a Selection,
    pub(crate) links: Links,
    /// Whether directories are made at the destination.
    pub(crate) makes_directories: bool,
    /// Whether the destination is listed, too.
    pub(crate) looks: bool,
    /// Whether names that only the destination has are found, too.
    pub(crate) finds_extras: bool,
    /// Counts files as they are listed.
    pub(crate) totals: Option<&'a Totals>,
    /// Takes what is found. A walk ends when it is closed.
    pub(crate) found: mpsc::Sender<Found>,
}

impl Walk<'_> {
    /// Walks a tree.
    pub(crate) async fn run(&self, top: Directory) {
        let waiting = Waiting::new(top);
        let walking = (0..self.listings_max).map(|_| self.enter_all(&waiting));
        futures_util::future::join_all(walking).await;
    }

    async fn enter_all(&self, waiting: &Waiting) {
        while let Some(turn) = waiting.next().await {
            let listing = self.totals.map(Totals::listing);
            let (name, error) = match turn {
                Turn::Enter(directory) => match self.enter(&directory, listing).await {
                    Ok(below) => {
                        waiting.leave(below);
                        continue;
                    }
                    Err(error) => (directory.source.to_string(), error),
                },
                Turn::Unusable(name, error) => (name, error),
            };
            self.fail(name, error).await;
            waiting.leave(None);
        }
    }

    async fn leave_out(&self, source: String, why: Unfit) {
        self.tell(Found::LeftOut { source, why }).await;
    }

    async fn fail(&self, source: String, error: Error) {
        self.tell(Found::Failed { source, error }).await;
    }

    /// After an abort there is no reader any more.
    async fn tell(&self, found: Found) {
        let _ = self.found.send(found).await;
    }
}

/// The temporary file of a long listing cannot be used.
pub(crate) fn spool_failed(cause: &std::io::Error) -> Error {
    let code = match cause.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorCode::NoSpace,
        _ => ErrorCode::StorageFailed,
    };
    let error = Error::new(code, Side::Client, Phase::Open).with_private(cause);
    error.with_detail("a long listing is kept in a temporary file; TMPDIR names its directory")
}
