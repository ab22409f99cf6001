//! Enters one directory of a tree.

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use storage::local::Unfit;
use types::{Result, Side};

use super::descent::{Content, Level};
use super::spool::Spool;
use super::there::Existing;
use super::waiting::{Directory, Group};
use super::{Found, Pair, Walk, spool_failed};
use crate::client::session::Info;
use crate::client::totals::{ExpectedListing, Totals};
use crate::command_line::Links;
use crate::limits::{LISTED_HELD_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};

/// An entry of a directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) info: Info,
    /// Where a symbolic link leads that is followed: a path without links.
    pub(super) real: Option<String>,
    /// It is a symbolic link that is to be copied as one.
    pub(super) is_link: bool,
    /// The destination has no such name.
    pub(super) is_new: bool,
}

/// The listing of a directory.
struct Listed {
    content: Content,
    files: Spool<Entry>,
    directories: Spool<Entry>,
    file_count: u64,
    file_bytes: u64,
    directory_count: u64,
    /// Its server has left no names out.
    is_complete: bool,
}

impl Listed {
    fn add(&mut self, entry: Entry, totals: Option<&Totals>) -> Result<()> {
        let list = match entry.info.is_directory {
            true => {
                self.directory_count += 1;
                &mut self.directories
            }
            false => {
                if let Some(totals) = totals.filter(|_| !entry.is_link) {
                    totals.count_found(entry.info.size_bytes);
                    self.file_count += 1;
                    let size_bytes = entry.info.size_bytes.unwrap_or(0);
                    self.file_bytes = self.file_bytes.saturating_add(size_bytes);
                }
                &mut self.files
            }
        };
        list.push(entry).map_err(|cause| spool_failed(&cause))
    }
}

impl Walk<'_> {
    /// Passes on the files of a directory; returns its directories.
    /// The `listing` is over once its entries are known.
    pub(super) async fn enter(
        &self,
        directory: &Directory,
        listing: Option<ExpectedListing<'_>>,
    ) -> Result<Option<Group>> {
        if self.found.is_closed() {
            return Ok(None);
        }
        let (mut existing, listed) = {
            // It is never closed.
            let _permit = self.listings.acquire().await.ok();
            let mut existing = self.again(|| self.look_there(directory)).await?;
            let listed = self.list(directory, &mut existing).await?;
            (existing, listed)
        };
        let Some(level) = Level::below(directory.above.as_ref(), &directory.source, listed.content) else {
            if let Some(totals) = self.totals {
                totals.uncount_found(listed.file_count, listed.file_bytes);
            }
            self.leave_out(directory.source.to_string(), Unfit::Loop).await;
            return Ok(None);
        };
        if let Some(totals) = self.totals {
            totals.expect_listings(listed.directory_count);
        }
        drop(listing);
        let mut is_made = matches!(existing, Existing::Listed(_));
        if self.selection.is_everything() {
            self.make(directory, &mut is_made).await?;
        }
        for entry in listed.files.read().map_err(|cause| spool_failed(&cause))? {
            let entry = entry.map_err(|cause| spool_failed(&cause))?;
            self.make(directory, &mut is_made).await?;
            self.pass_on(directory, entry, &mut existing).await;
        }
        if self.finds_extras && listed.is_complete {
            self.find_extras(directory, existing).await?;
        }
        Ok(Some(Group {
            directory: directory.clone(),
            level,
            entries: listed.directories.read().map_err(|cause| spool_failed(&cause))?,
        }))
    }

    /// Asks again after a failure that may pass.
    async fn again<T, F: Future<Output = Result<T>>>(&self, ask: impl Fn() -> F) -> Result<T> {
        let mut pause = RETRY_PAUSE_MIN;
        for _ in 0..self.retries {
            match ask().await {
                Err(error) if error.retry() => {
                    let wait = error.retry_after().unwrap_or_default();
                    tokio::time::sleep(wait.clamp(pause, RETRY_PAUSE_MAX)).await;
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                }
                answer => return answer,
            }
        }
        ask().await
    }

    async fn look_there(&self, directory: &Directory) -> Result<Existing> {
        match (self.looks, directory.is_new) {
            (false, _) => Ok(Existing::Unknown),
            (true, true) => Ok(Existing::Missing),
            (true, false) => Existing::look(self.session, &directory.target, self.finds_extras).await,
        }
    }

    /// Makes a directory at the destination, once.
    async fn make(&self, directory: &Directory, is_made: &mut bool) -> Result<()> {
        if std::mem::replace(is_made, true) {
            return Ok(());
        }
        if self.makes_directories {
            let made = self.session.make_directory(&directory.target, true, Side::Destination);
            return made.await;
        }
        self.tell(Found::Directory(directory.clone())).await;
        Ok(())
    }

    /// Lists a directory to its end, so that no server has to wait for files that are copied.
    async fn list(&self, directory: &Directory, existing: &mut Existing) -> Result<Listed> {
        let mut listed = Listed {
            content: Content::default(),
            files: Spool::new(LISTED_HELD_MAX),
            directories: Spool::new(LISTED_HELD_MAX),
            file_count: 0,
            file_bytes: 0,
            directory_count: 0,
            is_complete: true,
        };
        let open = || self.session.open_listing(&directory.source, Side::Source);
        let mut listing = self.again(open).await?;
        while let Some(batch) = listing.next().await? {
            for info in batch {
                listed.content.add(&info);
                self.sort(directory, info, existing, &mut listed).await?;
            }
        }
        Ok(listed)
    }

    /// Keeps an entry, if it is wanted and can be copied.
    async fn sort(
        &self,
        directory: &Directory,
        info: Info,
        existing: &mut Existing,
        listed: &mut Listed,
    ) -> Result<()> {
        if info.unfit == Some(Unfit::Unlisted) {
            listed.is_complete = false;
            self.leave_out(directory.source.to_string(), Unfit::Unlisted).await;
            return Ok(());
        }
        let is_new = existing.lacks(&info.name);
        if !self.selection.wants(&directory.path_of(&info.name), &info) {
            existing.take(&info.name);
            return Ok(());
        }
        let Some(why) = info.unfit else {
            if info.is_directory {
                existing.take(&info.name);
            }
            let entry = Entry {
                info,
                real: None,
                is_link: false,
                is_new,
            };
            return listed.add(entry, self.totals);
        };
        let shown = directory.shown(&info.name);
        match (why, self.links) {
            (Unfit::Link, Links::Follow) => match self.follow(directory, &info.name, is_new).await {
                Ok(entry) => {
                    if entry.info.is_directory {
                        existing.take(&info.name);
                    }
                    return listed.add(entry, self.totals);
                }
                Err(why) => self.leave_out(shown, why).await,
            },
            (Unfit::Link, Links::Copy) => {
                let entry = Entry {
                    info,
                    real: None,
                    is_link: true,
                    is_new,
                };
                return listed.add(entry, self.totals);
            }
            _ => self.leave_out(shown, why).await,
        }
        existing.take(&info.name);
        Ok(())
    }

    async fn pass_on(&self, directory: &Directory, entry: Entry, existing: &mut Existing) {
        let name = &entry.info.name;
        let there = existing.take(name);
        let link = match entry.real {
            Some(_) => directory.source.child(name).ok(),
            None => None,
        };
        match directory.child_of(&entry) {
            Ok((source, target)) if entry.is_link => self.tell(Found::Link { source, target }).await,
            Ok((source, target)) => {
                let pair = Pair {
                    source,
                    link,
                    target,
                    info: entry.info,
                    there,
                    has_parent: true,
                    refusal: None,
                };
                self.tell(Found::File(Box::new(pair))).await;
            }
            Err(error) => self.fail(directory.shown(name), error).await,
        }
    }

    /// Passes on what only the destination has. Names that are excluded are passed over.
    async fn find_extras(&self, directory: &Directory, existing: Existing) -> Result<()> {
        match existing {
            Existing::Missing => {}
            Existing::Listed(rest) => {
                for (name, info) in rest {
                    self.tell_extra(directory, Info { name, ..info }).await?;
                }
            }
            Existing::Unknown => {
                let mut listing = self.session.open_listing(&directory.target, Side::Destination).await?;
                while let Some(batch) = listing.next().await? {
                    let asked = futures_util::stream::iter(batch).map(|info| async {
                        let source = directory.source.child(&info.name)?;
                        let found = self.session.look(&source, Side::Source).await?;
                        Ok(found.is_none().then_some(info))
                    });
                    let asked: Vec<Result<Option<Info>>> = asked.buffer_unordered(self.listings_max).collect().await;
                    for info in asked {
                        if let Some(info) = info? {
                            self.tell_extra(directory, info).await?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Passes on an entry of the destination. If not everything in a directory is wanted, its
    /// wanted files are passed on instead.
    async fn tell_extra(&self, directory: &Directory, info: Info) -> Result<()> {
        let path = directory.path_of(&info.name);
        let mut waiting = vec![(directory.target.clone(), path, info)];
        while let Some((parent, path, info)) = waiting.pop() {
            // The name of such an entry is not its own.
            let is_named = !matches!(info.unfit, Some(Unfit::Unlisted | Unfit::Name));
            if !is_named || !self.selection.wants(&path, &info) {
                continue;
            }
            let target = parent.child(&info.name)?;
            if !info.is_directory || self.selection.is_unlimited() {
                self.tell(Found::Extra { target, path, info }).await;
                continue;
            }
            let mut listing = self.session.open_listing(&target, Side::Destination).await?;
            while let Some(batch) = listing.next().await? {
                let below = batch
                    .into_iter()
                    .map(|info| (target.clone(), format!("{path}/{}", info.name), info));
                waiting.extend(below);
            }
        }
        Ok(())
    }
}
