//! Operations on whole trees.

use types::{Error, LogicalPath};

/// What a tree may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// Nothing: the name must be free.
    Nothing,
    /// A file or an empty directory.
    Single,
    /// Also a directory with everything in it.
    Tree,
}

/// Something in a tree that could not be removed.
#[derive(Clone, Debug)]
pub struct TreeFailure {
    /// Its path.
    pub path: LogicalPath,
    /// The reason.
    pub error: Error,
}
