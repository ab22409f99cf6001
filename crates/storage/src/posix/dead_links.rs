//! Symbolic links that cannot be followed: which they are, and whether a client may know about
//! them.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, OFlags};
use types::{Error, ErrorCode, LogicalPath, Result};

use super::resolve::{Reached, Root};
use crate::links::{LinkChecker, LinkUse};

/// How many links in a row the kernel follows (path_resolution(7)).
const HOPS_MAX: usize = 40;

/// Where a link ends.
#[derive(PartialEq, Eq)]
enum End {
    /// At a path that the client may not see, or whose parents it may not see.
    Closed,
    /// Nowhere: it leads back to itself.
    Loop,
    /// At a path that the client may see, or outside of the export.
    Seen,
}

/// One step on the way.
enum Hop {
    To(LogicalPath),
    /// No further link.
    End,
}

impl Root {
    /// Whether to count a link that [`Root::stat`] refused with this error: it leads nowhere or out
    /// of the export, and the client may see every path on its way. A link to a closed path is not
    /// counted, because that would reveal whether something exists there.
    pub(super) fn is_dead_link(
        &self,
        link: &LogicalPath,
        error: &Error,
        checker: Option<&Arc<dyn LinkChecker>>,
    ) -> bool {
        match error.code() {
            ErrorCode::NotFound | ErrorCode::NotDirectory | ErrorCode::SymlinkEscapes => {
                self.end_of(link, checker) == End::Seen
            }
            // If it ends at a pipe or the like, the way ends there.
            ErrorCode::PathRefused => self.end_of(link, checker) == End::Loop,
            _ => false,
        }
    }

    fn end_of(&self, link: &LogicalPath, checker: Option<&Arc<dyn LinkChecker>>) -> End {
        let mut at = link.clone();
        for _ in 0..HOPS_MAX {
            match self.hop(&at, checker) {
                Some(Hop::To(next)) => at = next,
                Some(Hop::End) => return End::Seen,
                None => return End::Closed,
            }
        }
        End::Loop
    }

    /// Reads the link with this name, or the first one on the way to it. `None` if the client may
    /// not look, or cannot be asked about.
    fn hop(&self, at: &LogicalPath, checker: Option<&Arc<dyn LinkChecker>>) -> Option<Hop> {
        let may_look = |path: &LogicalPath| checker.is_none_or(|checker| checker.check(path, LinkUse::Stat).is_ok());
        if !may_look(at) {
            return None;
        }
        let mut here = at.clone();
        loop {
            let (Some(parent), Some(name)) = (here.parent(), here.name()) else {
                return Some(Hop::End);
            };
            let opened = self.open_beneath(&parent, OFlags::PATH | OFlags::DIRECTORY);
            let Some((directory, reached)) = opened.ok().and_then(|opened| there(opened, &parent)) else {
                // The error is further up.
                here = parent;
                continue;
            };
            if !may_look(&reached.join(name).ok()?) {
                return None;
            }
            let Ok(text) = fs::readlinkat(&directory, name, Vec::new()) else {
                return Some(Hop::End);
            };
            return target(&reached, text.to_str().ok()?, checker.is_some());
        }
    }
}

/// A directory, and its path without links.
fn there(reached: Reached, asked: &LogicalPath) -> Option<(OwnedFd, LogicalPath)> {
    let path = reached.resolution.end(asked)?.clone();
    Some((reached.unchecked(asked).ok()?, path))
}

/// The target of a link in this directory. `None` if its text alone does not determine it and
/// `exact` is set.
fn target(directory: &LogicalPath, text: &str, exact: bool) -> Option<Hop> {
    if text.starts_with('/') {
        return Some(Hop::End);
    }
    let (mut path, mut is_below) = (directory.clone(), false);
    for name in text.split('/').filter(|name| !matches!(*name, "" | ".")) {
        if name != ".." {
            path = path.join(name).ok()?;
            is_below = true;
            continue;
        }
        // The parent of a link's target is not the directory that contains the link.
        if is_below && exact {
            return None;
        }
        match path.parent() {
            Some(parent) => path = parent,
            None => return Some(Hop::End),
        }
    }
    Some(Hop::To(path))
}

/// Finds symbolic links that clients cannot follow, for the administrator of an export.
pub struct DeadLinks(Root);

impl DeadLinks {
    /// For the directory of an export.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn below(directory: &Path) -> Result<Self> {
        Root::open(directory).map(Self)
    }

    /// Whether this link leads nowhere or out of the directory.
    #[must_use]
    pub fn is_dead(&self, link: &LogicalPath) -> bool {
        let error = self.0.stat(link, None).err();
        error.is_some_and(|error| self.0.is_dead_link(link, &error, None))
    }
}

impl std::fmt::Debug for DeadLinks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("DeadLinks")
    }
}
