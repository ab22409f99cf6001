//! Keys about local users and about quotas of virtual organisations.

use types::{LogicalPath, limits};

use crate::section;
use crate::section::{Conflict, LIVE, Values as _};
use crate::values::Bytes;

/// When the server acts as the local users that credentials are mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Where the kernel allows it.
    Auto,
    /// Never: all files belong to the server's account.
    Never,
    /// Always: the server does not start where the kernel forbids it.
    Required,
}

/// Which groups of a local user count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserGroups {
    /// All groups in the system's database.
    All,
    /// The primary group only.
    Primary,
}

section! {
    /// Local users: a client that is mapped to one (by a rule's `user`, or by a mapping of
    /// certificates or tokens) uses files with that user's rights and owns what it stores. The
    /// server must run as root, or with the capabilities CAP_SETUID and CAP_SETGID. See users.md.
    "users" false Users {
        /// Act as local users. `"auto"`: where the kernel allows it; `"never"`: all files belong to
        /// the server's account; `"required"`: the server does not start where the kernel refuses.
        switch: Switch = Some(Switch::Auto) => LIVE;
        /// Lowest user ID that the server acts as. Root is always refused.
        minimum_uid: u32 = Some(limits::LOCAL_USER_MINIMUM_UID) => LIVE;
        /// Local user for clients without a mapping. When not set: the server's own account.
        default_user: Option<String> = Some(None) => LIVE;
        /// Which groups of a local user count: all that the system knows, or the primary group
        /// only.
        groups: UserGroups = Some(UserGroups::All) => LIVE;
    }
}

section! {
    /// A quota of a virtual organisation: how many bytes its files below a path may take together.
    /// A file counts for the VO that stored it (by a rule's `vo`, or by the credential), which is
    /// recorded with the file.
    "quota" true Quota {
        /// Virtual organisation.
        vo: String = None => LIVE;
        /// Path below which files count, within one export.
        path: LogicalPath = None => LIVE;
        /// Most bytes that they may take.
        bytes: Bytes = None => LIVE;
        /// User IDs whose files count for this VO if no VO is recorded with them.
        uids: Vec<u32> = Some(Vec::new()) => LIVE;
    }
}

/// Mistakes in the quotas, given these exports.
pub(crate) fn quota_faults(quotas: &[Quota], exports: &[LogicalPath]) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for (index, quota) in quotas.iter().enumerate() {
        let mut faults = Vec::new();
        let Quota { vo, path, .. } = quota;
        if vo.is_empty() || vo.len() > limits::VO_NAME_BYTES_MAX {
            faults.push(format!(
                "vo: \"{vo}\" is empty or too long; write the name of a virtual organisation"
            ));
        }
        if exports.iter().all(|export| !path.is_within(export)) {
            faults.push(format!(
                "path: {path} is not in any export; write one within the path of an [[export]]"
            ));
        }
        if quotas[..index]
            .iter()
            .any(|other| (&other.vo, &other.path) == (vo, path))
        {
            faults.push(format!("path: the VO {vo} has two quotas for {path}; remove one"));
        }
        conflicts.extend(faults.into_iter().map(|words| Conflict {
            section: Quota::SECTION.name,
            index,
            words,
        }));
    }
    conflicts
}
