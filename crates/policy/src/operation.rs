//! What can be asked of a store, and which activities each operation takes: the mapping table.

use credentials::{Activities, Activity};
use types::LogicalPath;

/// An operation on one path. The door says whether the name exists already, since creating and
/// replacing take different rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Size, times, checksum: HEAD, PROPFIND depth 0, `stat`, checksum queries.
    Stat,
    /// GET, and COPY as push.
    Read,
    /// PROPFIND depth 1, GET of a directory.
    List,
    /// PUT to a new name, and COPY as pull.
    Create,
    /// PUT to a name that exists, and COPY as pull.
    Overwrite,
    /// DELETE of a file.
    Delete,
    /// DELETE of a directory.
    RemoveDirectory,
    /// DELETE of a directory with everything in it: the same must be allowed wherever other rules
    /// begin to hold below.
    RemoveTree,
    /// COPY of a directory with everything in it, at its source: the same must be allowed wherever
    /// other rules begin below.
    ReadTree,
    /// COPY of a directory with everything in it, at its destination; likewise.
    CreateTree,
    /// LOCK of a directory with everything in it: replacing must be allowed wherever other rules
    /// begin to hold below.
    LockTree,
    /// MKCOL, and the missing parents of a new file.
    MakeDirectory,
    /// Another mode or owner.
    ChangeMode,
    /// MOVE: the path of the request goes away, `target` comes into being.
    Rename {
        /// The new name.
        target: LogicalPath,
        /// Whether something of that name exists and is replaced.
        replaces: bool,
        /// Whether the requester uploaded the file himself a short while ago: `create` lets him
        /// give it its final name, as Rucio does, but not move what others stored.
        own: bool,
    },
}

/// The part of an operation that concerns one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the words are those of Operation")]
pub enum Access {
    Stat,
    Read,
    List,
    Create,
    Overwrite,
    Delete,
    RemoveDirectory,
    MakeDirectory,
    ChangeMode,
    /// The old name of a rename.
    MoveAway,
    /// The old name of a rename of what the requester has just uploaded.
    MoveOwn,
    /// The new name of a rename, where nothing is.
    MoveHere,
}

const LIST: Activities = Activities::of(&[Activity::List]);
const DOWNLOAD: Activities = Activities::of(&[Activity::Download]);
const UPLOAD: Activities = Activities::of(&[Activity::Upload]);
const MANAGE: Activities = Activities::of(&[Activity::Manage]);
const DELETE: Activities = Activities::of(&[Activity::Delete]);
const UPDATE_METADATA: Activities = Activities::of(&[Activity::UpdateMetadata]);
const UPLOAD_AND_DELETE: Activities = Activities::of(&[Activity::Upload, Activity::Delete]);

impl Operation {
    /// The word in logs and explanations.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Read => "read",
            Self::List => "list",
            Self::Create => "create",
            Self::Overwrite => "overwrite",
            Self::Delete => "delete",
            Self::RemoveDirectory => "remove_directory",
            Self::RemoveTree => "remove_tree",
            Self::ReadTree => "read_tree",
            Self::CreateTree => "create_tree",
            Self::LockTree => "lock_tree",
            Self::MakeDirectory => "make_directory",
            Self::ChangeMode => "change_mode",
            Self::Rename { .. } => "rename",
        }
    }

    /// The operations that a word of a question stands for: those of [`Operation::name`], shorter
    /// words that people use, and `write` for storing a file, once as a new one and once in place
    /// of another. A rename goes `to` the other path. `None` for other words, and for a rename
    /// without that.
    #[must_use]
    pub fn from_word(word: &str, to: Option<LogicalPath>) -> Option<Vec<Self>> {
        let one = match word {
            "write" => return Some(vec![Self::Create, Self::Overwrite]),
            "stat" => Self::Stat,
            "read" => Self::Read,
            "list" => Self::List,
            "create" => Self::Create,
            "overwrite" => Self::Overwrite,
            "delete" | "rm" => Self::Delete,
            "rmdir" | "remove_directory" => Self::RemoveDirectory,
            "rmtree" | "remove_tree" => Self::RemoveTree,
            "read_tree" => Self::ReadTree,
            "create_tree" => Self::CreateTree,
            "lock_tree" => Self::LockTree,
            "mkdir" | "make_directory" => Self::MakeDirectory,
            "chmod" | "change_mode" => Self::ChangeMode,
            "rename" | "mv" => Self::Rename {
                target: to?,
                replaces: false,
                own: false,
            },
            _ => return None,
        };
        Some(vec![one])
    }

    /// The paths that it touches, each with what it does there.
    pub(crate) fn accesses<'a>(&'a self, path: &'a LogicalPath) -> impl Iterator<Item = (Access, &'a LogicalPath)> {
        let (first, second) = match self {
            Self::Stat => (Access::Stat, None),
            Self::Read => (Access::Read, None),
            Self::List => (Access::List, None),
            Self::Create => (Access::Create, None),
            Self::Overwrite => (Access::Overwrite, None),
            Self::Delete => (Access::Delete, None),
            Self::RemoveDirectory => (Access::RemoveDirectory, None),
            Self::RemoveTree => (Access::RemoveDirectory, Some((Access::Delete, path))),
            Self::ReadTree => (Access::Read, Some((Access::List, path))),
            Self::CreateTree => (Access::Create, Some((Access::MakeDirectory, path))),
            Self::LockTree => (Access::Overwrite, None),
            Self::MakeDirectory => (Access::MakeDirectory, None),
            Self::ChangeMode => (Access::ChangeMode, None),
            Self::Rename { target, replaces, own } => {
                let away = if *own { Access::MoveOwn } else { Access::MoveAway };
                let here = if *replaces { Access::Overwrite } else { Access::MoveHere };
                (away, Some((here, target)))
            }
        };
        std::iter::once((first, path)).chain(second)
    }
}

impl Operation {
    /// What must be allowed too wherever other rights begin below the path.
    pub(crate) fn accesses_below(&self) -> &'static [Access] {
        match self {
            Self::RemoveTree => &[Access::Delete, Access::RemoveDirectory],
            Self::ReadTree => &[Access::Read, Access::List],
            Self::LockTree => &[Access::Overwrite],
            Self::CreateTree => &[Access::Create, Access::MakeDirectory],
            _ => &[],
        }
    }
}

/// Sets that only rules can give, which an XRootD server demands of its `authdb`; where one of
/// those above suffices it includes them.
const INSERT: Activities = Activities::of(&[Activity::Insert]);
const RENAME: Activities = Activities::of(&[Activity::Rename]);
const OPEN_NEW: Activities = Activities::of(&[Activity::Insert, Activity::Replace, Activity::Download]);
const CHANGE: Activities = OPEN_NEW.union(DELETE);

impl Access {
    pub(crate) const ALL: [Self; 12] = [
        Self::Stat,
        Self::Read,
        Self::List,
        Self::Create,
        Self::Overwrite,
        Self::Delete,
        Self::RemoveDirectory,
        Self::MakeDirectory,
        Self::ChangeMode,
        Self::MoveAway,
        Self::MoveOwn,
        Self::MoveHere,
    ];

    /// The word in explanations.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Read => "read",
            Self::List => "list",
            Self::Create => "create",
            Self::Overwrite => "overwrite",
            Self::Delete => "delete",
            Self::RemoveDirectory => "remove the directory",
            Self::MakeDirectory => "make a directory",
            Self::ChangeMode => "change the mode",
            Self::MoveAway | Self::MoveOwn => "rename",
            Self::MoveHere => "rename to",
        }
    }

    /// The sets of activities; any one of them suffices. An empty list: any activity at all.
    ///
    /// XRootD wants MANAGE for overwriting, dCache UPLOAD and DELETE: both do here, since clients
    /// were written against either. A rename takes at its old name what replacing takes. Who has
    /// just uploaded a file gives it another name with UPLOAD, because Rucio uploads under a
    /// temporary name and renames (HTTP-TPC reference §7.1, 2 and 18).
    pub(crate) fn sufficient(self) -> &'static [Activities] {
        match self {
            Self::Stat => &[],
            Self::Read => &[DOWNLOAD],
            Self::List => &[LIST],
            Self::Create | Self::MakeDirectory | Self::MoveOwn | Self::MoveHere => &[UPLOAD, MANAGE],
            Self::ChangeMode => &[UPDATE_METADATA],
            Self::Overwrite => &[UPLOAD_AND_DELETE, MANAGE],
            Self::Delete => &[DELETE],
            Self::RemoveDirectory => &[DELETE, MANAGE],
            Self::MoveAway => &[MANAGE, UPLOAD_AND_DELETE],
        }
    }

    pub(crate) fn is_satisfied_by(self, activities: Activities) -> bool {
        match self.sufficient() {
            [] => !activities.is_empty(),
            sets => sets.iter().any(|set| activities.contains(*set)) || self.is_satisfied_by_rules(activities),
        }
    }

    /// Whether these rights suffice below that ceiling. Any right on a file includes looking at it,
    /// wherever looking is allowed at all.
    pub(crate) fn is_satisfied_below(self, ceiling: Activities, activities: Activities) -> bool {
        match self.sufficient() {
            [] => !activities.is_empty() && !ceiling.is_empty(),
            _ => self.is_satisfied_by(activities.intersection(ceiling)),
        }
    }

    /// As XRootD has it (`XrdAccAccess::Test`).
    fn is_satisfied_by_rules(self, activities: Activities) -> bool {
        match self {
            Self::Create | Self::Overwrite => activities.contains(OPEN_NEW),
            Self::MakeDirectory | Self::MoveHere => activities.contains(INSERT),
            Self::MoveAway | Self::MoveOwn => activities.contains(RENAME),
            Self::ChangeMode => activities.contains(CHANGE),
            _ => false,
        }
    }

    /// The word of a rule that gives it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Read => "read",
            Self::List => "list",
            Self::Create | Self::MakeDirectory | Self::MoveOwn | Self::MoveHere => "create",
            Self::Overwrite | Self::ChangeMode | Self::MoveAway => "write",
            Self::Delete | Self::RemoveDirectory => "delete",
        }
    }

    /// Whether a right somewhere below the path is enough: parents of a usable path can be looked
    /// at and made.
    pub(crate) fn reaches_ancestors(self) -> bool {
        matches!(self, Self::Stat | Self::MakeDirectory)
    }

    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Stat | Self::Read | Self::List)
    }

    /// Whether it stores bytes, so that a limit on uploads binds it.
    pub(crate) fn uploads(self) -> bool {
        matches!(self, Self::Create | Self::Overwrite)
    }
}
