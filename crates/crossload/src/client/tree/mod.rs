//! Walks a tree in bounded memory: lists its directories, several at a time, and passes on what it
//! finds through a bounded queue.

mod descent;
mod spool;
mod waiting;

use storage::local::Unfit;
use tokio::sync::{Semaphore, mpsc};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::place::Place;
use super::session::{ClientContext, Info};
use crate::limits::LISTED_HELD_MAX;
use descent::{Content, Level};
use spool::Spool;
use waiting::{Group, Turn, Waiting};

pub(crate) use waiting::Directory;

/// A file of the source, and where it belongs.
pub(crate) struct Pair {
    pub(crate) source: Place,
    pub(crate) target: Place,
    pub(crate) info: Info,
    /// The directory at the destination exists.
    pub(crate) has_parent: bool,
    /// Why the server does not say what the source is. It may be readable.
    pub(crate) refusal: Option<Error>,
}

/// What a walk finds.
pub(crate) enum Found {
    /// A file.
    File(Pair),
    /// A directory that is missing at the destination, if the walk makes none.
    Directory(Directory),
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
    /// Whether directories are made at the destination.
    pub(crate) makes_directories: bool,
    /// Takes what is found. A walk ends when it is closed.
    pub(crate) found: mpsc::Sender<Found>,
}

/// The listing of a directory.
struct Listed {
    content: Content,
    files: Spool<Info>,
    directories: Spool<Info>,
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
            let below = match turn {
                Turn::Enter(directory) => match self.enter(&directory).await {
                    Ok(below) => below,
                    Err(error) => {
                        self.fail(directory.source.to_string(), error).await;
                        None
                    }
                },
                Turn::Unusable(name, error) => {
                    self.fail(name, error).await;
                    None
                }
                Turn::Unreadable(name, cause) => {
                    self.fail(name, spool_failed(&cause)).await;
                    None
                }
            };
            waiting.leave(below);
        }
    }

    /// Passes on the files of a directory; returns its directories.
    async fn enter(&self, directory: &Directory) -> Result<Option<Group>> {
        if self.found.is_closed() {
            return Ok(None);
        }
        let listed = {
            // It is never closed.
            let _permit = self.listings.acquire().await.ok();
            self.list(directory).await?
        };
        let above = directory.above.as_ref();
        let level = match directory.source {
            Place::Remote(_) => Level::without_loop(above, listed.content),
            // Local links are never followed, so only a server can show a loop.
            _ => Level::new(above, listed.content),
        };
        let Some(level) = level else {
            self.leave_out(directory.source.to_string(), Unfit::Loop).await;
            return Ok(None);
        };
        if self.makes_directories {
            let made = self.session.make_directory(&directory.target, true, Side::Destination);
            made.await?;
        } else {
            self.tell(Found::Directory(directory.clone())).await;
        }
        for info in listed.files.read().map_err(|cause| spool_failed(&cause))? {
            let info = info.map_err(|cause| spool_failed(&cause))?;
            match directory.child(&info.name) {
                Ok((source, target)) => {
                    let pair = Pair {
                        source,
                        target,
                        info,
                        has_parent: true,
                        refusal: None,
                    };
                    self.tell(Found::File(pair)).await;
                }
                Err(error) => self.fail(directory.shown(&info.name), error).await,
            }
        }
        Ok(Some(Group {
            directory: directory.clone(),
            level,
            names: listed.directories.read().map_err(|cause| spool_failed(&cause))?,
        }))
    }

    /// Lists a directory to its end, so that no server has to wait for files that are copied.
    async fn list(&self, directory: &Directory) -> Result<Listed> {
        let mut listed = Listed {
            content: Content::default(),
            files: Spool::new(LISTED_HELD_MAX),
            directories: Spool::new(LISTED_HELD_MAX),
        };
        let mut listing = self.session.open_listing(&directory.source, Side::Source).await?;
        while let Some(batch) = listing.next().await? {
            for info in batch {
                listed.content.add(&info);
                if let Some(why) = info.unfit {
                    let shown = match why {
                        Unfit::Unlisted => directory.source.to_string(),
                        _ => directory.shown(&info.name),
                    };
                    self.leave_out(shown, why).await;
                    continue;
                }
                let list = match info.is_directory {
                    true => &mut listed.directories,
                    false => &mut listed.files,
                };
                list.push(info).map_err(|cause| spool_failed(&cause))?;
            }
        }
        Ok(listed)
    }

    async fn leave_out(&self, source: String, why: Unfit) {
        self.tell(Found::LeftOut { source, why }).await;
    }

    async fn fail(&self, source: String, error: Error) {
        self.tell(Found::Failed { source, error }).await;
    }

    /// After an abort nobody listens any more.
    async fn tell(&self, found: Found) {
        let _ = self.found.send(found).await;
    }
}

/// The temporary file of a long listing cannot be used.
fn spool_failed(cause: &std::io::Error) -> Error {
    let code = match cause.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorCode::NoSpace,
        _ => ErrorCode::StorageFailed,
    };
    let error = Error::new(code, Side::Client, Phase::Open).with_private(cause);
    error.with_detail("a long listing is kept in a temporary file; TMPDIR names its directory")
}
