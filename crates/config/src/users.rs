//! Keys about local users, and about quotas of virtual organisations.

use types::{LogicalPath, limits};

use crate::section;
use crate::section::LIVE;
use crate::values::Bytes;

/// When the server acts as the local users that credentials are mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Where the kernel lets it.
    Auto,
    /// Never: all files are those of the server's account.
    Never,
    /// It does not start where the kernel does not let it.
    Required,
}

/// Which groups of a local user count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserGroups {
    /// All that the system's database has.
    All,
    /// The first one only.
    Primary,
}

section! {
    /// Local users: whoever is mapped to one (by a rule's `user`, or a mapping of certificates or tokens) uses files with
    /// that user's rights, and what it stores belongs to that user. It takes a server that runs as root, or with the
    /// capabilities CAP_SETUID and CAP_SETGID. See users.md.
    "users" false Users {
        /// Whether the server acts as others: where it can, never, or always, so that it does not start where it cannot.
        switch: Switch = Some(Switch::Auto) => LIVE;
        /// The lowest number of a user that is acted as. Never root, whatever is set here.
        minimum_uid: u32 = Some(limits::LOCAL_USER_MINIMUM_UID) => LIVE;
        /// Who is meant where no mapping names anybody; without it, the account that the server runs under.
        default_user: Option<String> = Some(None) => LIVE;
        /// Which of a user's groups count: all that the system knows, or the primary one only.
        groups: UserGroups = Some(UserGroups::All) => LIVE;
    }
}

section! {
    /// A quota of a virtual organisation: how much the files stored for it below a path may take together. A file counts
    /// for the VO in whose name it was stored (a rule's `vo`, or that of the credential), which is noted with the file.
    "quota" true Quota {
        /// The virtual organisation.
        vo: String = None => LIVE;
        /// Below which path, within one export.
        path: LogicalPath = None => LIVE;
        /// How much.
        bytes: Bytes = None => LIVE;
        /// Numbers of local users whose files count for it where nothing is noted with them.
        uids: Vec<u32> = Some(Vec::new()) => LIVE;
    }
}

/// What is wrong with quotas beside these exports.
pub(crate) fn quota_faults(quotas: &[Quota], exports: &[LogicalPath]) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, quota) in quotas.iter().enumerate() {
        let Quota { vo, path, .. } = quota;
        if vo.is_empty() || vo.len() > limits::VO_NAME_BYTES_MAX {
            faults.push(format!("vo: \"{vo}\" is empty or too long"));
        }
        if exports.iter().all(|export| !path.is_within(export)) {
            faults.push(format!("path: {path} is within no export"));
        }
        if quotas[..index]
            .iter()
            .any(|other| (&other.vo, &other.path) == (vo, path))
        {
            faults.push(format!("the VO {vo} has two quotas for {path}"));
        }
    }
    faults
}
