//! Symbolic links: what a name reaches over one has a path of its own, and the rights there count as well.

use std::fmt::Debug;
use std::sync::Arc;

use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

/// What is done with something that was reached over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkUse<'a> {
    /// Its size, times and checksums are told.
    Stat,
    /// It is read, or its attributes are.
    Read,
    /// Its names are listed.
    List,
    /// A file comes to be there.
    Create,
    /// A file is replaced or changed, or attributes are.
    Overwrite,
    /// A directory comes to be there.
    MakeDirectory,
    /// The file is removed.
    Delete,
    /// The directory is removed.
    RemoveDirectory,
    /// Its permission bits are changed.
    ChangeMode,
    /// It gets another name.
    Rename {
        /// The name by which the client knows it.
        asked: &'a LogicalPath,
        /// Its identity within the store.
        inode: u64,
        /// Where the new name lies, links on the way to it followed.
        target: &'a LogicalPath,
        /// Whether something of that name is replaced.
        replaces: bool,
    },
}

/// Knows the rights of the client for whom a store acts. It is asked only when a link was met.
pub trait LinkJudge: Debug + Send + Sync {
    /// Whether this may be done with what lies at `reached`, a path of the store that has no link in it.
    ///
    /// # Errors
    /// The refusal.
    fn judge(&self, reached: &LogicalPath, used: LinkUse<'_>) -> Result<()>;
}

/// How a name led to what was opened.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// Without any link.
    Direct,
    /// Over a link, to this path; `None`: to a name that no path can hold.
    Link(Option<LogicalPath>),
}

impl Way {
    /// The way to a name in the directory to which this one leads.
    pub(crate) fn to(self, name: &str) -> Self {
        match self {
            Self::Direct => Self::Direct,
            Self::Link(reached) => Self::Link(reached.and_then(|reached| reached.join(name).ok())),
        }
    }

    pub(crate) fn is_link(&self) -> bool {
        matches!(self, Self::Link(_))
    }

    /// Where it ends; `asked` is the path that was gone.
    pub(crate) fn end<'a>(&'a self, asked: &'a LogicalPath) -> Option<&'a LogicalPath> {
        match self {
            Self::Direct => Some(asked),
            Self::Link(reached) => reached.as_ref(),
        }
    }

    /// Asks the judge, where there is one and a link was met.
    pub(crate) fn judge(&self, judge: Option<&Arc<dyn LinkJudge>>, used: LinkUse<'_>) -> Result<()> {
        match (self, judge) {
            (Self::Direct, _) | (_, None) => Ok(()),
            (Self::Link(Some(reached)), Some(judge)) => judge.judge(reached, used),
            (Self::Link(None), Some(_)) => Err(leads_where_it_is_refused(ErrorCode::Forbidden)),
        }
    }
}

/// The refusal of what lies behind a link.
#[must_use]
pub fn leads_where_it_is_refused(code: ErrorCode) -> Error {
    Error::new(code, Side::Client, Phase::Authorize).with_detail("a symbolic link leads to where this is not allowed")
}
