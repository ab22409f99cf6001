//! What a site sets down for each export.

use credentials::{Activities, Activity};
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

/// What changes files, directories or their metadata.
const CHANGES: Activities = Activities::of(&[
    Activity::UpdateMetadata,
    Activity::Upload,
    Activity::Manage,
    Activity::Delete,
    Activity::Insert,
    Activity::Replace,
    Activity::Rename,
]);

/// The rules of one export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRules {
    /// Where it begins: this path and everything below it, down to a deeper export.
    pub path: LogicalPath,
    /// What anybody may do.
    pub anonymous: AnonymousAccess,
    /// No client may change anything.
    pub read_only: bool,
    /// The ceiling: the most that any credential or rule gives here.
    pub ceiling: Activities,
    /// Whether a directory that holds something can be removed or replaced with everything in it.
    pub recursive_delete: bool,
    /// Whether WebDAV clients may lock files and directories.
    pub locks: bool,
}

/// The whole tree, closed.
impl Default for ExportRules {
    fn default() -> Self {
        Self {
            path: LogicalPath::root(),
            anonymous: AnonymousAccess::None,
            read_only: false,
            ceiling: Activities::ALL,
            recursive_delete: false,
            locks: true,
        }
    }
}

impl ExportRules {
    /// Whether locks can be taken: where nothing can be changed, there is nothing to lock.
    #[must_use]
    pub fn has_locks(&self) -> bool {
        self.locks && self.allows_changes()
    }

    /// Whether some client could be allowed to change something here.
    #[must_use]
    pub fn allows_changes(&self) -> bool {
        !self.ceiling().intersection(CHANGES).is_empty()
    }

    /// The most that is allowed here.
    #[must_use]
    pub fn ceiling(&self) -> Activities {
        match self.read_only {
            true => self.ceiling.intersection(Activities::READ),
            false => self.ceiling,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_for_exports_whose_ceiling_has_some() {
        let below = |ceiling: Activities, read_only: bool| {
            let rules = ExportRules {
                ceiling,
                read_only,
                ..ExportRules::default()
            };
            rules.allows_changes()
        };
        let staged = Activities::READ.union(Activities::of(&[Activity::Stage]));
        assert!(below(Activities::ALL, false) && !below(Activities::ALL, true));
        assert!(!below(Activities::READ, false) && !below(staged, false) && !below(Activities::NONE, false));
        for activity in CHANGES.iter() {
            assert!(
                below(staged.union(Activities::of(&[activity])), false),
                "{}",
                activity.name()
            );
        }
    }
}
