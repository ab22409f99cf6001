//! Symbolic links: a target has a path of its own, and the rights there count as well.

use std::fmt::Debug;
use std::sync::Arc;

use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

/// What is done with something behind a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkUse<'a> {
    /// Its size, times and checksums are read.
    Stat,
    /// It is read, or its attributes are.
    Read,
    /// It is listed.
    List,
    /// A file is created there.
    Create,
    /// A file is replaced or changed, or its attributes are.
    Overwrite,
    /// A directory is created there.
    MakeDirectory,
    /// The file is removed.
    Delete,
    /// The directory is removed.
    RemoveDirectory,
    /// Its permission bits are changed.
    ChangeMode,
    /// It is renamed.
    Rename {
        /// The name by which the client knows it.
        asked: &'a LogicalPath,
        /// Its identity within the store.
        inode: u64,
        /// The new path, with links on the way to it resolved.
        target: &'a LogicalPath,
        /// Whether an existing name is replaced.
        replaces: bool,
    },
}

/// Knows the rights of the client that a store acts for. It is consulted only when a path contains
/// a link.
pub trait LinkChecker: Debug + Send + Sync {
    /// Whether this may be done at `reached`, a path of the store without any link.
    ///
    /// # Errors
    /// The refusal.
    fn check(&self, reached: &LogicalPath, used: LinkUse<'_>) -> Result<()>;

    /// A tree of the store around a path in which the client has the same rights everywhere, for a
    /// store that has others follow links; `None` if there is none.
    fn same_rights_around(&self, _path: &LogicalPath) -> Option<LogicalPath> {
        None
    }
}

/// How the path to a file was resolved.
#[derive(Clone, Debug)]
pub(crate) enum Resolution {
    /// Without any link.
    Direct,
    /// Over a link, to this path; `None`: to a name that no path can hold.
    Link(Option<LogicalPath>),
}

impl Resolution {
    /// The resolution of a name in the directory that this one leads to.
    pub(crate) fn to(self, name: &str) -> Self {
        match self {
            Self::Direct => Self::Direct,
            Self::Link(reached) => Self::Link(reached.and_then(|reached| reached.join(name).ok())),
        }
    }

    pub(crate) fn is_link(&self) -> bool {
        matches!(self, Self::Link(_))
    }

    /// Where it ends; `asked` is the path that was requested.
    pub(crate) fn end<'a>(&'a self, asked: &'a LogicalPath) -> Option<&'a LogicalPath> {
        match self {
            Self::Direct => Some(asked),
            Self::Link(reached) => reached.as_ref(),
        }
    }

    /// Asks the checker, if there is one and a link was followed.
    pub(crate) fn check(&self, checker: Option<&Arc<dyn LinkChecker>>, used: LinkUse<'_>) -> Result<()> {
        match (self, checker) {
            (Self::Direct, _) | (_, None) => Ok(()),
            (Self::Link(Some(reached)), Some(checker)) => checker.check(reached, used),
            (Self::Link(None), Some(_)) => Err(refused_behind_link(ErrorCode::Forbidden)),
        }
    }
}

/// The refusal of an access behind a link.
#[must_use]
pub fn refused_behind_link(code: ErrorCode) -> Error {
    Error::new(code, Side::Client, Phase::Authorize)
        .with_detail("a symbolic link leads to a path where this is not allowed")
}
