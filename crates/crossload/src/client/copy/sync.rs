//! `sync`: a copy that replaces what differs, and deletes what only the destination has.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use storage::local::Unfit;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::arguments::Arguments;
use super::decide::IfExists;
use super::target::{Destination, target_of};
use super::{Copier, Settings};
use crate::client::place::Place;
use crate::client::remove::remove_name;
use crate::client::report::{Listener, Report};
use crate::client::session::{ClientContext, Info, is_missing};
use crate::client::tree::{Spool, spool_failed};
use crate::client::walk::{Order, Step, Walk};
use crate::command_line::SyncOptions;
use crate::failure::Failure;
use crate::limits::LISTED_HELD_MAX;
use crate::output;

/// Runs the command, until it is stopped for the reason that `stop` returns. Its events in JSON go
/// to the listener, if there is one.
pub(crate) async fn run(
    session: &Arc<ClientContext>,
    options: &SyncOptions,
    listener: Option<&Listener>,
    stop: impl Future<Output = Failure>,
) -> Result<u8, Failure> {
    tokio::pin!(stop);
    let (copier, destination, top) = tokio::select! {
        prepared = prepare(session, options, listener) => prepared?,
        reason = &mut stop => return Err(reason),
    };
    let is_done = tokio::select! {
        done = copier.make_alike(options, destination, &top) => done?,
        reason = &mut stop => return Err(copier.stop(reason).await),
    };
    let code = copier.conclude()?;
    Ok(if is_done { code } else { code.max(1) })
}

async fn prepare(
    session: &Arc<ClientContext>,
    options: &SyncOptions,
    listener: Option<&Listener>,
) -> Result<(Arc<Copier>, Destination, Place), Failure> {
    let settings = Settings {
        deletes: options.delete,
        ..Settings::new(
            &options.transfer,
            &options.select,
            &options.common,
            IfExists::ReplaceOther,
        )?
    };
    let report = Report::new(&options.common, options.transfer.quiet, false, true).heard_by(listener);
    match places(session, options).await {
        Ok((destination, top)) => Ok((Copier::new(session, settings, report), destination, top)),
        Err(error) => {
            report.not_begun(&options.source, &error, options.transfer.dry_run);
            Err(match error.code() {
                ErrorCode::NotDirectory if error.side() == Side::Source => {
                    Failure::advised(&error, "Use copy for a file.")
                }
                _ => error.into(),
            })
        }
    }
}

/// The destination, and the top of its tree.
async fn places(session: &ClientContext, options: &SyncOptions) -> Result<(Destination, Place)> {
    let source = session.place(&options.source).await?;
    if !session.stat(&source, Side::Source).await?.is_directory {
        let error = Error::new(ErrorCode::NotDirectory, Side::Source, Phase::Open);
        return Err(error.with_subject(&source));
    }
    let destination = Destination::look(session, &options.destination, true).await?;
    let top = target_of(&options.source, &source, true, Some(&destination))?;
    Ok((destination, top))
}

/// An entry that only the destination has.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Extra {
    /// Below the top of the tree.
    path: String,
    is_directory: bool,
}

/// What is to be deleted, once all has been listed.
#[derive(Default)]
pub(super) struct Doomed(Mutex<State>);

#[derive(Default)]
struct State {
    extras: Option<Spool<Extra>>,
    /// The first part of the source that was not listed completely.
    unknown: Option<String>,
}

impl Doomed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry.
    pub(super) fn add(&self, path: String, is_directory: bool) -> std::io::Result<()> {
        let mut state = self.state();
        let extras = state.extras.get_or_insert_with(|| Spool::new(LISTED_HELD_MAX));
        extras.push(Extra { path, is_directory })
    }

    /// Nothing is deleted, since part of the source is not known.
    pub(super) fn pardon(&self, unknown: &str) {
        self.state().unknown.get_or_insert_with(|| unknown.to_owned());
    }
}

impl Copier {
    /// Copies what differs, and deletes what only the destination has. Returns `false` if that must
    /// not be deleted.
    async fn make_alike(
        self: &Arc<Self>,
        options: &SyncOptions,
        destination: Destination,
        top: &Place,
    ) -> Result<bool, Failure> {
        self.copy_all(Arguments::one(&options.source), Some(destination))
            .await?;
        Ok(self.delete_doomed(top, options.max_delete).await?)
    }

    /// Deletes what only the destination has. Returns `false` if it must not be deleted.
    async fn delete_doomed(&self, top: &Place, max: Option<u64>) -> Result<bool> {
        let State { extras, unknown } = std::mem::take(&mut *self.doomed.state());
        let Some(extras) = extras else { return Ok(true) };
        if let Some(unknown) = unknown.or_else(|| self.is_stopped().then(|| "the source".to_owned())) {
            let unknown = output::name(&unknown);
            self.report
                .complain(&format!("nothing was deleted: {unknown} was not listed completely"));
            return Ok(false);
        }
        // The copy of a file that was renamed may have failed, and its old name holds the data.
        if self.totals.snapshot().count.failed > 0 {
            self.report.complain("nothing was deleted: not everything was copied");
            return Ok(false);
        }
        let mut spared = Spool::new(LISTED_HELD_MAX);
        let mut count = 0;
        for extra in extras.read().map_err(|cause| spool_failed(&cause))? {
            let extra = extra.map_err(|cause| spool_failed(&cause))?;
            if let Some(max) = max {
                count += self
                    .count(&below(top, &extra.path)?, extra.is_directory, max - count)
                    .await?;
                if count > max {
                    let words = "nothing was deleted: it would be more than --max-delete allows";
                    self.report.complain(&format!("{words}, {max}"));
                    return Ok(false);
                }
            }
            spared.push(extra).map_err(|cause| spool_failed(&cause))?;
        }
        let extras = spared.read().map_err(|cause| spool_failed(&cause))?;
        let deleting = futures_util::stream::iter(extras).for_each_concurrent(self.settings.checkers, |extra| async {
            let deleted = match extra.map_err(|cause| spool_failed(&cause)) {
                Ok(extra) => self.delete(top, &extra).await,
                Err(error) => Err(("the list of names to delete".to_owned(), error)),
            };
            if let Err((name, error)) = deleted {
                self.fail(&name, error);
            }
        });
        deleting.await;
        Ok(true)
    }

    async fn delete(&self, top: &Place, extra: &Extra) -> std::result::Result<(), (String, Error)> {
        let is_dry = self.settings.transfer.dry_run;
        let unfit = |error: Error| (format!("{top}/{}", extra.path), error.at_side(Side::Destination));
        let place = below(top, &extra.path).map_err(unfit)?;
        if !is_dry {
            let removed = remove_tree(&self.session, &place, extra.is_directory).await;
            removed.map_err(|error| (place.to_string(), error))?;
        }
        self.totals.add(|count| count.deleted += 1);
        self.report.deleted(&place, is_dry);
        Ok(())
    }

    /// The number of files and directories at a place, or more than `max`.
    async fn count(&self, place: &Place, is_directory: bool, max: u64) -> Result<u64> {
        let mut waiting = vec![(place.clone(), is_directory)];
        let mut count = 0;
        while let Some((place, is_directory)) = waiting.pop() {
            count += 1;
            if count > max {
                break;
            }
            if is_directory {
                let mut listing = self.session.open_listing(&place, Side::Destination).await?;
                while let Some(batch) = listing.next().await? {
                    count += batch.iter().filter(|info| !info.is_directory).count() as u64;
                    for info in batch.iter().filter(|info| info.is_directory) {
                        waiting.push((place.child(&info.name)?, true));
                    }
                    if count > max {
                        break;
                    }
                }
            }
        }
        Ok(count)
    }
}

/// The place with this path below another.
fn below(top: &Place, path: &str) -> Result<Place> {
    path.split('/').try_fold(top.clone(), |place, name| place.child(name))
}

/// Removes a tree at the destination, and no symbolic link leads out of it: each name is removed,
/// before it is taken for a directory.
async fn remove_tree(session: &ClientContext, place: &Place, is_directory: bool) -> Result<()> {
    let top = Info {
        is_directory,
        ..Info::default()
    };
    let mut walk = Walk::new(session, place.clone(), top, Side::Destination, Order::Listed).entering_all();
    while let Some(step) = walk.next().await {
        match step {
            // Their names are not their own, so the directory stays, and its error says so.
            Step::Entry(found) if found.info.unfit == Some(Unfit::Name) => walk.skip(),
            Step::Entry(found) => match remove_name(session, &found.place).await {
                Err(error) if error.code() == ErrorCode::NotEmpty && found.info.is_directory => {}
                removed => {
                    walk.skip();
                    removed_or_missing(removed)?;
                }
            },
            Step::Leave(found) => removed_or_missing(remove_name(session, &found.place).await)?,
            Step::Unnamed(..) | Step::Unlisted(..) | Step::Enter(_) => {}
            Step::Loop(found) => {
                let error = Error::new(ErrorCode::NotEmpty, Side::Destination, Phase::Open);
                return Err(error.with_subject(&found.place));
            }
            Step::Failed(_, error) => return Err(error),
        }
    }
    Ok(())
}

fn removed_or_missing(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if !is_missing(&error) => Err(error.at_side(Side::Destination)),
        _ => Ok(()),
    }
}
