//! Renames at the server. What is replaced stays until its new content has its name.

use storage::{Check, Overwrite, REPLACED, Replacing, name_aside};
use types::{Error, ErrorCode, LogicalPath, Result};

use crate::minter::{LOOK, MANAGE};
use crate::store::{RemoteStore, refused};

impl RemoteStore {
    pub(crate) async fn rename_to(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        self.upstream.check_renaming(from)?;
        check_apart(from, to)?;
        let found = self.found(to).await?;
        match &found {
            Some(found) if found.is_directory() => return Err(refused(ErrorCode::IsDirectory, to)),
            Some(_) if overwrite == Overwrite::Refuse => return Err(refused(ErrorCode::Exists, to)),
            _ => {}
        }
        self.give_name(from, to, overwrite).await?;
        Ok(found.is_some())
    }

    pub(crate) async fn give_name(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<()> {
        // The names are siblings or further apart: one token must be for both.
        let both = common_directory(from, to);
        let source = self.upstream.resource_within(from, &both, MANAGE);
        let target = self.upstream.resource_for(to, LOOK).location;
        let may_replace = overwrite == Overwrite::Allow;
        let renamed = self.upstream.client.rename(&source, &target, may_replace).await;
        let told = self.told(renamed, from);
        if told.is_ok() {
            self.upstream.ended(from).await;
        }
        told
    }

    /// Moves over what may be a directory, if `check` agrees once the old one has another name.
    pub(crate) async fn move_to(
        &self,
        from: &LogicalPath,
        to: &LogicalPath,
        replacing: Replacing,
        check: Check<'_>,
    ) -> Result<bool> {
        self.upstream.check_renaming(from)?;
        // Making room for a source that is in the target would remove it.
        check_apart(from, to)?;
        let Some(found) = self.found(to).await? else {
            check.await?;
            return self.rename_to(from, to, Overwrite::Refuse).await;
        };
        match replacing {
            Replacing::Nothing => return Err(refused(ErrorCode::Exists, to)),
            Replacing::Single if found.is_directory() => self.check_empty(to).await?,
            Replacing::Single | Replacing::Tree => {}
        }
        self.replace_old(from, to, replacing, check).await.map(|()| true)
    }

    /// Moves over something, which has another name until the source has its own.
    async fn replace_old(
        &self,
        from: &LogicalPath,
        to: &LogicalPath,
        replacing: Replacing,
        check: Check<'_>,
    ) -> Result<()> {
        let aside = name_aside(to, REPLACED)?;
        let _note = self.upstream.note(&aside, to, Some(from)).await;
        self.give_name(to, &aside, Overwrite::Refuse).await?;
        let moved = match self.check_source(from, to, check).await {
            Ok(()) => self.give_name(from, to, Overwrite::Refuse).await,
            Err(error) => Err(error),
        };
        if let Err(error) = moved {
            return Err(match self.give_name(&aside, to, Overwrite::Refuse).await {
                Ok(()) => error,
                Err(_) => left_aside(error, "", &aside),
            });
        }
        let removed = match replacing {
            Replacing::Tree => self.remove_any(&aside).await,
            _ => self.remove_one(&aside).await.map(|()| None),
        };
        match removed {
            Ok(None) => Ok(()),
            Ok(Some(failure)) => Err(left_aside(failure.error, "it was moved, but ", &aside)),
            Err(error) => Err(left_aside(error, "it was moved, but ", &aside)),
        }
    }

    /// Whether the source is still there. It may have been in what has another name now, by a link
    /// of that server.
    async fn check_source(&self, from: &LogicalPath, to: &LogicalPath, check: Check<'_>) -> Result<()> {
        match self.found(from).await? {
            Some(_) => check.await,
            None => Err(refused(ErrorCode::Forbidden, to)),
        }
    }
}

/// The error, with the name that the replaced directory has now.
fn left_aside(error: Error, what: &str, aside: &LogicalPath) -> Error {
    let why = error.detail().unwrap_or_default().to_owned();
    error.with_detail(format!("{why}; {what}the old one is now {aside}"))
}

/// Refuses to move something into itself, or over a directory that it is in. The root is such a
/// directory.
fn check_apart(from: &LogicalPath, to: &LogicalPath) -> Result<()> {
    match to.is_within(from) || from.is_within(to) {
        true => Err(refused(ErrorCode::Forbidden, to)),
        false => Ok(()),
    }
}

/// The deepest directory that holds both names.
fn common_directory(one: &LogicalPath, other: &LogicalPath) -> LogicalPath {
    let mut above = std::iter::successors(one.parent(), LogicalPath::parent);
    let common = above.find(|directory| other.is_within(directory));
    common.unwrap_or_else(LogicalPath::root)
}
