//! For whom a store acts: the local user whose rights count, the virtual organisation (VO) whose
//! quota does, and who judges what lies behind symbolic links.

use std::sync::Arc;

use crate::links::LinkJudge;

/// A user of this machine, as the kernel knows it. Never the superuser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalUser {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// What stands for "no change" in the system's calls, and so for nobody.
const NOBODY_AT_ALL: u32 = u32::MAX;

impl LocalUser {
    /// A user with its first group and all others. `None` for the superuser and its group, and for numbers
    /// that stand for nobody. The superuser's group is not among the others either, whatever is given.
    #[must_use]
    pub fn new(name: &str, uid: u32, gid: u32, groups: impl IntoIterator<Item = u32>) -> Option<Self> {
        if [uid, gid].iter().any(|id| matches!(*id, 0 | NOBODY_AT_ALL)) {
            return None;
        }
        let mut groups: Vec<u32> = groups.into_iter().collect();
        // The first group counts by itself; without it most users have no others, and changing to them is faster.
        groups.retain(|group| !matches!(*group, 0 | NOBODY_AT_ALL) && *group != gid);
        groups.sort_unstable();
        groups.dedup();
        Some(Self {
            name: name.to_owned(),
            uid,
            gid,
            groups,
        })
    }

    /// The name, for logs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The number of the first group, which new files get.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// The other groups, in order.
    #[must_use]
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }
}

/// Whom new files belong to, and with whose rights a store acts. The default is the server itself, and no
/// VO in particular.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    /// The user; `None`: the account that the server runs under.
    pub user: Option<Arc<LocalUser>>,
    /// The VO whose quota counts what is stored; `None`: no VO's.
    pub vo: Option<Arc<str>>,
    /// Who is asked about paths that are reached over symbolic links; `None`: nobody has to be.
    pub links: Option<Arc<dyn LinkJudge>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superuser_and_its_group_are_nobody_here() {
        assert!(LocalUser::new("root", 0, 100, []).is_none());
        assert!(LocalUser::new("odd", 1000, 0, []).is_none());
        assert!(LocalUser::new("none", u32::MAX, 100, []).is_none());
        let user = LocalUser::new("atlas", 1000, 100, [7, 0, 100, 5, 7]).unwrap();
        assert_eq!(user.groups(), [5, 7]);
    }
}
