//! What stands under a name before something is done to it: doors ask once, then policy, and only
//! then tell.

use policy::Operation;
use storage::Stat;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::exports::Spot;

/// An error of the client's making, met when something was opened.
#[must_use]
pub fn refusal(code: ErrorCode, path: &LogicalPath) -> Error {
    Error::new(code, Side::Client, Phase::Open).with_subject(path)
}

/// An answer of the store that means "there is nothing".
#[must_use]
pub fn is_missing(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::NotFound | ErrorCode::ParentMissing)
}

/// What stands under a name, as far as that can be told; the trouble is told after the rights are
/// known, so that nobody learns of names that he may not see.
#[derive(Debug)]
pub enum Found {
    /// There is nothing.
    Nothing,
    /// A file or a directory.
    Something(Stat),
    /// It cannot be told.
    Trouble(Error),
}

impl Found {
    /// Looks.
    pub async fn at(spot: &Spot) -> Self {
        match spot.store.stat(&spot.path).await {
            Ok(stat) => Self::Something(stat),
            Err(error) if is_missing(&error) => Self::Nothing,
            Err(error) => Self::Trouble(error),
        }
    }

    /// Whether something is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        matches!(self, Self::Something(_))
    }

    /// Whether a directory is there.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self, Self::Something(stat) if stat.is_directory())
    }

    /// Creating or replacing, which take different rights.
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
    /// `not_found`, or the trouble.
    pub fn into_stat(self, path: &LogicalPath) -> Result<Stat> {
        match self {
            Self::Something(stat) => Ok(stat),
            Self::Nothing => Err(refusal(ErrorCode::NotFound, path)),
            Self::Trouble(error) => Err(error.with_subject(path)),
        }
    }

    /// A file that is there, or nothing; a directory is in the way of either.
    ///
    /// # Errors
    /// `is_directory`, or the trouble.
    pub fn into_file(self, path: &LogicalPath) -> Result<Option<Stat>> {
        match self {
            Self::Something(stat) if stat.is_directory() => Err(refusal(ErrorCode::IsDirectory, path)),
            Self::Something(stat) => Ok(Some(stat)),
            Self::Nothing => Ok(None),
            Self::Trouble(error) => Err(error.with_subject(path)),
        }
    }
}
