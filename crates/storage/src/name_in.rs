//! A name in an open directory, as `openat` and its like take it.

use std::os::fd::{AsFd, BorrowedFd};

/// A name in an open directory.
pub(crate) struct NameIn<'a, Name: ?Sized = str> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a Name,
}

impl<'a, Name: ?Sized> NameIn<'a, Name> {
    pub(crate) fn new(directory: &'a impl AsFd, name: &'a Name) -> Self {
        Self {
            directory: directory.as_fd(),
            name,
        }
    }
}

// Deriving both would require that the name is `Copy`, which `str` and `CStr` are not.
impl<Name: ?Sized> Copy for NameIn<'_, Name> {}

impl<Name: ?Sized> Clone for NameIn<'_, Name> {
    fn clone(&self) -> Self {
        *self
    }
}
