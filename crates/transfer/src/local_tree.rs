//! Copies of directories within this server, where no store does it by itself.
//!
//! Two names may stand for one directory: by a link at another server, or because two exports show
//! it. Nothing says so. Therefore what is to be replaced stays until its copy is complete, and is
//! first given another name: if something of the source is missing then, it gets its own again.
//! Object stores have no links and no other names: there, files are replaced one by one.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use endpoint::{ExportPath, Store, is_missing};
use storage::{Kind, Overwrite, Replacing, Stat, TreeFailure};
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::limits::{LOCAL_TREE_DEPTH_MAX, LOCAL_TREE_ENTRIES_MAX};
use crate::local::LocalCopy;
use crate::verify::blame_store;

/// What is copied of a tree.
#[derive(Clone)]
struct Member {
    path: LogicalPath,
    stat: Stat,
}

/// What has the new name.
enum Target {
    Nothing,
    EmptyDirectory,
    /// It is replaced when the copy is complete.
    Old,
}

impl LocalCopy {
    pub(crate) async fn whole_tree(&self, members: bool, replacing: Replacing) -> Result<Option<TreeFailure>> {
        let all = members_of(&self.from, members, Side::Source).await?;
        self.check_apart(&all).await?;
        self.check_space(&all).await?;
        match self.target(replacing).await? {
            Target::Nothing => self.fill(&all, &self.to.path, &HashSet::new()).await,
            Target::EmptyDirectory => {
                let there = all[0].stat.is_directory().then(|| self.to.path.clone());
                self.fill(&all, &self.to.path, &there.into_iter().collect()).await
            }
            Target::Old => self.replace(all, members, replacing).await,
        }
    }

    /// What has the new name, if it may be replaced. A directory that another export shows might
    /// contain the source, so it has to be empty.
    async fn target(&self, replacing: Replacing) -> Result<Target> {
        let (store, path) = (&self.to.store, &self.to.path);
        let refused = |code| Err(Error::new(code, Side::Destination, Phase::Open));
        let Ok(found) = store.stat(path).await else {
            return Ok(Target::Nothing);
        };
        if replacing == Replacing::Nothing {
            return refused(ErrorCode::Exists);
        }
        if !found.is_directory() {
            return Ok(Target::Old);
        }
        let may_empty = replacing == Replacing::Tree && self.from.export == self.to.export;
        match store.list(path).await?.next_names().await?.is_empty() {
            true => Ok(Target::EmptyDirectory),
            false if may_empty => Ok(Target::Old),
            false => refused(ErrorCode::NotEmpty),
        }
    }

    /// Makes the copy under another name, which then takes the place of the old one.
    async fn replace(&self, all: Vec<Member>, members: bool, replacing: Replacing) -> Result<Option<TreeFailure>> {
        let (store, to) = (&self.to.store, &self.to.path);
        if !store.renames() {
            return self.replace_in_place(&all).await;
        }
        let beside = store.beside(to).await?;
        let built = self.fill(&all, &beside.path, &HashSet::new()).await;
        if !matches!(built, Ok(None)) {
            discard(store, &beside.path).await;
            return built.map(|failed| failed.map(|failure| self.in_place(failure, &beside.path)));
        }
        let source = self.from.clone();
        let whole = Box::pin(async move { check_whole(&source, members, &all).await });
        let replaced = store.replace(&beside.path, to, replacing, whole).await;
        if replaced.is_err() {
            discard(store, &beside.path).await;
        }
        replaced.map(|_| None)
    }

    /// Where nothing can be renamed, names stand for one object each, and the source is apart. So
    /// each file takes the place of the old one of its name, and what the copy does not have is
    /// removed once it is complete: after a failure before, each old file is there, or its copy.
    /// Only where a directory takes the place of a file, or a file that of a directory, the old one
    /// is removed just before, when all else is copied.
    async fn replace_in_place(&self, all: &[Member]) -> Result<Option<TreeFailure>> {
        let to = &self.to.path;
        let old = members_of(&self.to, true, Side::Destination).await?;
        let kinds: HashMap<&LogicalPath, Kind> = old.iter().map(|old| (&old.path, old.stat.kind)).collect();
        let new: HashMap<LogicalPath, Kind> = all
            .iter()
            .filter_map(|member| Some((self.target_of(member, to)?, member.stat.kind)))
            .collect();
        let clashes = |path: &LogicalPath| kinds.get(path).is_some_and(|kind| new.get(path) != Some(kind));
        let is_late = |member: &Member| {
            let target = self.target_of(member, to);
            let mut above = std::iter::successors(target, LogicalPath::parent);
            above.any(|path| clashes(&path))
        };
        let (late, early): (Vec<Member>, Vec<Member>) = all.iter().cloned().partition(is_late);
        let there = old.iter().map(|old| old.path.clone()).filter(|path| !clashes(path));
        let there = there.collect();
        if let Some(failure) = self.fill(&early, to, &there).await? {
            return Ok(Some(failure));
        }
        let mut gone = HashSet::new();
        for path in new.keys().filter(|path| clashes(path)) {
            self.remove_old(path).await?;
            gone.insert(path);
        }
        if let Some(failure) = self.fill(&late, to, &there).await? {
            return Ok(Some(failure));
        }
        let mut failure = None;
        for Member { path, .. } in old.iter().filter(|old| !new.contains_key(&old.path)) {
            // With its directory.
            let is_gone = path.parent().is_some_and(|parent| gone.contains(&parent));
            if gone.insert(path) && !is_gone {
                let error = self.remove_old(path).await.err();
                let path = path.clone();
                failure = failure.or(error.map(|error| TreeFailure { path, error }));
            }
        }
        Ok(failure)
    }

    /// Removes something that was replaced, with everything in it.
    async fn remove_old(&self, path: &LogicalPath) -> Result<()> {
        let files: &dyn storage::Store = &*self.to.store;
        match files.remove_tree(path).await {
            Ok(None) => Ok(()),
            Ok(Some(failure)) => Err(self.with_client_path(failure.error)),
            // A directory of an object store ends with what is in it.
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(self.with_client_path(error)),
        }
    }

    /// The new name of something that is copied to `to`.
    fn target_of(&self, member: &Member, to: &LogicalPath) -> Option<LogicalPath> {
        Some(member.path.below(&self.from.path)?.under(to))
    }

    /// A failure in the copy that was removed, as one of the name that it was for.
    fn in_place(&self, failure: TreeFailure, beside: &LogicalPath) -> TreeFailure {
        let path = failure.path.below(beside).map(|below| below.under(&self.to.path));
        let path = path.unwrap_or_else(|| self.to.path.clone());
        TreeFailure {
            error: failure.error.with_subject(path.under(&self.to.export)),
            path,
        }
    }

    /// Copies everything to `to` and below. What is `there` has the same kind: directories stay,
    /// and files are replaced.
    async fn fill(
        &self,
        all: &[Member],
        to: &LogicalPath,
        there: &HashSet<LogicalPath>,
    ) -> Result<Option<TreeFailure>> {
        let mut failure: Option<TreeFailure> = None;
        for member in all {
            let Some(path) = self.target_of(member, to) else {
                continue;
            };
            let is_top = path == *to;
            let done = match (member.stat.kind, there.contains(&path)) {
                (Kind::Directory, true) => Ok(()),
                (Kind::Directory, false) => self.to.store.make_directory(&path, false).await,
                (Kind::File, true) => self.one(&member.path, &path, Overwrite::Allow).await,
                (Kind::File, false) => self.one(&member.path, &path, Overwrite::Refuse).await,
            };
            match done {
                Ok(()) => {}
                Err(error) if is_top => return Err(error),
                Err(error) => {
                    let error = self.with_client_path(error);
                    failure = failure.or(Some(TreeFailure { path, error }));
                }
            }
        }
        Ok(failure)
    }

    /// Two exports may show the same directory: refuses a target that is in the source, or is the
    /// source.
    async fn check_apart(&self, all: &[Member]) -> Result<()> {
        let (from, to) = (&self.from, &self.to);
        let is_same_export = from.export == to.export;
        if is_same_export && (to.path.is_within(&from.path) || from.path.is_within(&to.path)) {
            return Err(into_itself(&to.path));
        }
        let parent = to.path.parent();
        for path in std::iter::once(&to.path).chain(parent.as_ref()) {
            let Ok(stat) = to.store.stat(path).await else { continue };
            if all
                .iter()
                .any(|member| member.stat.same_content(&stat) && member.stat.kind == stat.kind)
            {
                return Err(into_itself(&to.path));
            }
        }
        Ok(())
    }

    async fn check_space(&self, all: &[Member]) -> Result<()> {
        let files = all.iter().filter(|member| !member.stat.is_directory());
        let bytes = files.fold(0_u64, |sum, file| sum.saturating_add(file.stat.size_bytes));
        match self.to.store.space_at(&self.to.path).await?.free_bytes < bytes {
            true => Err(Error::new(ErrorCode::NoSpace, Side::Destination, Phase::Open)),
            false => Ok(()),
        }
    }
}

/// Everything to copy, directories before what is in them.
async fn members_of(from: &ExportPath, members: bool, side: Side) -> Result<Vec<Member>> {
    let blame = |error, path: &LogicalPath| blame_store(error, side).with_subject(path);
    let top = from.store.stat(&from.path).await;
    let top = top.map_err(|error| blame(error, &from.path))?;
    let goes_in = members && top.is_directory();
    let mut all = vec![Member {
        path: from.path.clone(),
        stat: top,
    }];
    let mut next = 0;
    while let Some(member) = all.get(next).filter(|_| goes_in) {
        next += 1;
        if member.stat.is_directory() {
            let path = member.path.clone();
            let found = list(from, &path, all.len()).await;
            all.extend(found.map_err(|error| blame(error, &path))?);
        }
    }
    Ok(all)
}

/// What is in a directory; `known` entries of the tree were found before.
async fn list(from: &ExportPath, path: &LogicalPath, known: usize) -> Result<Vec<Member>> {
    let depth = path.components().count() - from.path.components().count();
    if depth >= LOCAL_TREE_DEPTH_MAX {
        return Err(too_large(&format!("it has more than {LOCAL_TREE_DEPTH_MAX} levels")));
    }
    let mut pages = from.store.list(path).await?;
    let mut found = Vec::new();
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok(found);
        }
        for entry in page {
            found.push(Member {
                path: path.join(&entry.name)?,
                stat: entry.stat,
            });
        }
        if known + found.len() > LOCAL_TREE_ENTRIES_MAX {
            return Err(too_large(&format!("it has more than {LOCAL_TREE_ENTRIES_MAX} entries")));
        }
    }
}

/// Whether the source still has everything that was copied.
async fn check_whole(from: &ExportPath, members: bool, copied: &[Member]) -> Result<()> {
    // A cache may still know what is gone.
    let fresh = from.store.checked_within(Duration::ZERO);
    if let Some(fresh) = fresh.filter(|_| !copied[0].stat.is_directory()) {
        fresh.stat(&from.path).await?;
    }
    let now = match members_of(from, members, Side::Source).await {
        Err(error) if is_missing(&error) => Vec::new(),
        now => now?,
    };
    let there: HashSet<&LogicalPath> = now.iter().map(|member| &member.path).collect();
    match copied.iter().all(|member| there.contains(&member.path)) {
        true => Ok(()),
        false => Err(into_itself(&from.path)),
    }
}

/// Removes an incomplete copy. That it is there is not the error to report.
async fn discard(store: &Store, path: &LogicalPath) {
    let files: &dyn storage::Store = &**store;
    let _ = files.remove_tree(path).await;
}

fn into_itself(path: &LogicalPath) -> Error {
    let error = Error::new(ErrorCode::Forbidden, Side::Active, Phase::Open);
    error
        .with_detail("a directory is not copied into itself")
        .with_subject(path)
}

fn too_large(why: &str) -> Error {
    let error = Error::new(ErrorCode::Forbidden, Side::Source, Phase::Open);
    error.with_detail(format!("{why}: copy its parts"))
}
