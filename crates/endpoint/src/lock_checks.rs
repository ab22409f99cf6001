//! Whether WebDAV's locks allow a change of a path (RFC 4918 §6, §7).

use policy::Operation;
use types::{Error, LogicalPath, Result};

use crate::export_path::{ExportPath, StoredPath};
use crate::exports::Exports;
use crate::found::is_missing;
use crate::link_targets::path_reached;
use crate::locks::{AffectedPaths, Change, Changing, LockFacts, LockKeys, Locks, locked};
use crate::requester::Requester;

impl Exports {
    /// The locks on paths of these exports.
    #[must_use]
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Whether locks allow a client to change a path. Ask only after policy has allowed it: a
    /// client without the right must learn nothing about locks.
    ///
    /// A new name also changes the directory that gets it, and a removal the directory that
    /// contained the name (RFC 4918 §7.4).
    ///
    /// # Errors
    /// `locked`, with the path of the lock whose token is missing, if the client may see that path.
    pub async fn check_locks(
        &self,
        requester: Requester<'_>,
        export_path: &ExportPath,
        path: &LogicalPath,
        change: Change,
        keys: &LockKeys,
    ) -> Result<()> {
        if self.locks.is_empty() {
            return Ok(());
        }
        self.begin_change_by(requester, export_path, path, change, keys)
            .await
            .map(drop)
    }

    /// The same for a change that begins now: until the returned value is dropped, no conflicting
    /// lock is granted.
    ///
    /// # Errors
    /// As [`Exports::check_locks`].
    pub async fn begin_change_by(
        &self,
        requester: Requester<'_>,
        export_path: &ExportPath,
        path: &LogicalPath,
        change: Change,
        keys: &LockKeys,
    ) -> Result<Changing> {
        let begun = self.begin_change(export_path.stored(), path, change, keys).await;
        begun.map_err(|error| self.locked_for(requester, path, error))
    }

    /// Begins a change to a path, which its store knows as `stored`.
    ///
    /// # Errors
    /// `locked`, with the path of the lock whose token is missing.
    pub(crate) async fn begin_change(
        &self,
        stored: StoredPath<'_>,
        path: &LogicalPath,
        change: Change,
        keys: &LockKeys,
    ) -> Result<Changing> {
        let notice = match change {
            Change::Store | Change::Remove => self.name_changes.notice(path),
            Change::Update => None,
        };
        let begun = self.begin_with_locks(stored, path, change, keys).await?;
        Ok(begun.noticed(notice))
    }

    async fn begin_with_locks(
        &self,
        stored: StoredPath<'_>,
        path: &LogicalPath,
        change: Change,
        keys: &LockKeys,
    ) -> Result<Changing> {
        if !self.has_locks_at(path) {
            return Ok(Changing::default());
        }
        // As long as there are no locks, links need not be followed.
        if self.locks.is_empty()
            && let Some(begun) = self.locks.begin_without_locks(path, change)
        {
            return Ok(begun);
        }
        let affected = find_affected(stored, path, change).await;
        self.locks.begin(&affected, change, keys)
    }

    /// Whether a path leads over symbolic links. It is then another name of a resource, which a
    /// lock would not cover.
    pub async fn is_another_name(&self, stored: StoredPath<'_>, path: &LogicalPath) -> bool {
        path_reached(stored, path, true).await.is_some()
    }

    /// The locks that cover a path, where locks apply.
    #[must_use]
    pub fn locks_over(&self, path: &LogicalPath) -> Vec<LockFacts> {
        match self.locks.is_empty() || !self.has_locks_at(path) {
            true => Vec::new(),
            false => self.locks.covering(path),
        }
    }

    /// Whether locks apply at a path: those from above do not reach into an export that has them
    /// off.
    #[must_use]
    pub fn has_locks_at(&self, path: &LogicalPath) -> bool {
        let over = self.list().iter().map(|export| &export.rules);
        let over = over.filter(|rules| path.is_within(&rules.path));
        let deepest = over.max_by_key(|rules| rules.path.as_str().len());
        deepest.is_none_or(|rules| rules.locks)
    }

    /// The refusal of a change of `path` because of a lock, without the name of a resource below
    /// that the client may not stat.
    #[must_use]
    pub fn locked_for(&self, requester: Requester<'_>, path: &LogicalPath, error: Error) -> Error {
        let root = error.subject().and_then(|root| LogicalPath::parse(root).ok());
        let may_see =
            |root: &LogicalPath| path.is_within(root) || self.would_allow(requester, Operation::Stat, root, None);
        match root.is_some_and(|root| !may_see(&root)) {
            true => locked(path),
            false => error,
        }
    }
}

async fn find_affected(stored: StoredPath<'_>, path: &LogicalPath, change: Change) -> AffectedPaths {
    let grown = match change {
        Change::Store => grown(stored, path).await,
        Change::Update | Change::Remove => None,
    };
    let reached = path_reached(stored, path, change == Change::Update).await;
    let paths: Vec<_> = std::iter::once(path.clone()).chain(reached).collect();
    let holding = match (change, grown) {
        (Change::Remove, _) => paths.iter().filter_map(LogicalPath::parent).collect(),
        (_, Some(grown)) => {
            let mut holding = vec![grown];
            // Behind a link only the nearest directory counts; those above it are not on the
            // new name's path.
            holding.extend(paths.iter().skip(1).filter_map(LogicalPath::parent));
            holding
        }
        _ => Vec::new(),
    };
    AffectedPaths { paths, holding }
}

/// The directory that gets a new name when something is stored: the deepest existing one, if the
/// name itself does not exist.
async fn grown(stored: StoredPath<'_>, path: &LogicalPath) -> Option<LogicalPath> {
    let (mut outer, mut inner) = (path.clone(), stored.inner.clone());
    while stored.store.stat(&inner).await.is_err_and(|error| is_missing(&error)) {
        inner = inner.parent()?;
        outer = outer.parent()?;
    }
    (outer != *path).then_some(outer)
}
