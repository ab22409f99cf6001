//! What exists under a name before an operation: doors look once, then ask policy, and only then
//! answer.

use policy::Operation;
use storage::Stat;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::export_path::ExportPath;

/// An error that the client caused, on opening something.
#[must_use]
pub fn refusal(code: ErrorCode, path: &LogicalPath) -> Error {
    Error::new(code, Side::Client, Phase::Open).with_subject(path)
}

/// Refuses to move something into itself, or over a directory that it is in: making room for it
/// would remove it.
///
/// # Errors
/// `forbidden`.
pub fn check_apart(from: &LogicalPath, to: &LogicalPath) -> Result<()> {
    match to.is_within(from) || from.is_within(to) {
        true => Err(refusal(ErrorCode::Forbidden, to).with_detail("one of the two names is within the other")),
        false => Ok(()),
    }
}

/// Whether the store says that nothing exists there.
#[must_use]
pub fn is_missing(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::NotFound | ErrorCode::ParentMissing)
}

/// What exists under a name, if the store can say. Errors are reported only after the rights are
/// checked, so that no client learns of names that it may not see.
#[derive(Debug)]
pub enum Found {
    /// Nothing exists.
    Nothing,
    /// Nothing exists, in the words of the server that has the files.
    Absent(Error),
    /// A file or a directory.
    Something(Stat),
    /// The store failed.
    Trouble(Error),
}

impl Found {
    /// Asks the store.
    pub async fn at(export_path: &ExportPath) -> Self {
        match export_path.store.stat(&export_path.path).await {
            Ok(stat) => Self::Something(stat),
            Err(error) if error.code() == ErrorCode::NotFound && error.side() == Side::Upstream => Self::Absent(error),
            Err(error) if is_missing(&error) => Self::Nothing,
            Err(error) => Self::Trouble(error),
        }
    }

    /// Whether something exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        matches!(self, Self::Something(_))
    }

    /// Whether nothing does.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing | Self::Absent(_))
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self, Self::Something(stat) if stat.is_directory())
    }

    /// The operation of an upload: creating and replacing need different rights.
    #[must_use]
    pub fn upload(&self) -> Operation {
        if self.exists() {
            Operation::Overwrite
        } else {
            Operation::Create
        }
    }

    /// The stat, or why there is none.
    ///
    /// # Errors
    /// `not_found`, or the store's error.
    pub fn into_stat(self, path: &LogicalPath) -> Result<Stat> {
        match self {
            Self::Something(stat) => Ok(stat),
            Self::Nothing => Err(refusal(ErrorCode::NotFound, path)),
            Self::Absent(error) | Self::Trouble(error) => Err(error.with_subject(path)),
        }
    }

    /// A file that must exist.
    ///
    /// # Errors
    /// `not_found`, `is_directory`, or the store's error.
    pub fn into_present_file(self, path: &LogicalPath) -> Result<Stat> {
        match self {
            Self::Nothing | Self::Absent(_) => self.into_stat(path),
            found => found.into_file(path)?.ok_or_else(|| refusal(ErrorCode::NotFound, path)),
        }
    }

    /// An existing file, or `None`.
    ///
    /// # Errors
    /// `is_directory`, or the store's error.
    pub fn into_file(self, path: &LogicalPath) -> Result<Option<Stat>> {
        match self {
            Self::Something(stat) if stat.is_directory() => Err(refusal(ErrorCode::IsDirectory, path)),
            Self::Something(stat) => Ok(Some(stat)),
            Self::Nothing | Self::Absent(_) => Ok(None),
            Self::Trouble(error) => Err(error.with_subject(path)),
        }
    }
}
