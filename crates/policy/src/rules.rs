//! What a site sets down for each export.

use credentials::{Activities, Credential};
use types::LogicalPath;

/// What anybody may do, without any credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AnonymousAccess {
    /// Nothing.
    #[default]
    None,
    /// Look, list and read.
    Read,
    /// Everything: read, write and delete.
    Write,
}

impl AnonymousAccess {
    /// The same as a set of activities.
    #[must_use]
    pub fn activities(self) -> Activities {
        match self {
            Self::None => Activities::NONE,
            Self::Read => Activities::READ,
            Self::Write => Activities::ALL,
        }
    }

    /// The word in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The rules of one export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRules {
    /// Where it begins: this path and everything below it, down to a deeper export.
    pub path: LogicalPath,
    /// What anybody may do.
    pub anonymous: AnonymousAccess,
    /// The ceiling: nobody may change anything.
    pub read_only: bool,
}

impl ExportRules {
    /// What nobody may exceed here.
    #[must_use]
    pub fn ceiling(&self) -> Activities {
        if self.read_only {
            Activities::READ
        } else {
            Activities::ALL
        }
    }
}

/// The export that a path belongs to: the deepest that holds it.
#[must_use]
pub fn export_of<'a>(exports: &'a [ExportRules], path: &LogicalPath) -> Option<&'a ExportRules> {
    exports
        .iter()
        .filter(|export| path.is_within(&export.path))
        .max_by_key(|export| export.path.as_str().len())
}

/// What the bearer of a credential may hand on in a macaroon for that path: what the credential
/// grants there (without one, what anybody may do), below the export's ceiling. A macaroon hands on
/// its own rights only, since what comes of it is the same macaroon narrowed. One that is made for
/// nobody in particular reaches into deeper exports too, so what anybody may do must hold in each.
#[must_use]
pub fn rights_of(exports: &[ExportRules], credential: &Credential, path: &LogicalPath) -> Activities {
    let Some(export) = export_of(exports, path) else {
        return Activities::NONE;
    };
    let own = match credential.grant() {
        None => exports
            .iter()
            .filter(|deeper| deeper.path.is_within(path))
            .fold(export.anonymous.activities(), |common, deeper| {
                common.intersection(deeper.anonymous.activities())
            }),
        Some(grant) => grant.activities_on(path),
    };
    own.intersection(export.ceiling())
}
