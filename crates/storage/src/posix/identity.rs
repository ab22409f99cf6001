//! Acts as a local user during one operation.
//!
//! In the kernel, IDs belong to threads, not processes. The system calls are made directly, because
//! the C library's wrappers would change all threads. Only the effective IDs change, so that the
//! thread can switch back. They decide about access to files and about the owner of new ones, and
//! disable the superuser's capabilities. Reading and writing an open file needs none of this.
//!
//! The guard is not `Send`, so it cannot be held across an await. No thread may be started while it
//! is held, because it would inherit the IDs.

use std::cell::Cell;
use std::io::Write as _;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use types::{ErrorCode, Phase, Result};

use crate::fault::fault;
use crate::owner::LocalUser;

thread_local! {
    /// Whether this thread currently acts as another user.
    static SWITCHED: Cell<bool> = const { Cell::new(false) };
}

/// The server's own IDs.
struct Own {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

/// Read once, before any thread acts as another user.
fn own() -> &'static Own {
    static OWN: OnceLock<Own> = OnceLock::new();
    OWN.get_or_init(|| {
        let mut groups = getgroups().unwrap_or_default();
        groups.sort_unstable_by_key(|group| group.as_raw());
        Own {
            uid: geteuid(),
            gid: getegid(),
            groups,
        }
    })
}

/// While this exists, the thread acts as a user; after that as the server again.
pub(super) struct Acting<'u> {
    user: Option<&'u LocalUser>,
    /// The changed IDs belong to this thread.
    _here: PhantomData<*const ()>,
}

impl<'u> Acting<'u> {
    /// Switches to this user; does nothing for `None` and for the server's own account.
    ///
    /// # Errors
    /// `user_refused` when the kernel does not let the server act as others.
    pub(super) fn begin(user: Option<&'u Arc<LocalUser>>) -> Result<Self> {
        let user = user.map(Arc::as_ref).filter(|user| !is_own(user));
        let mut acting = Self {
            user: None,
            _here: PhantomData,
        };
        let Some(wanted) = user else {
            return Ok(acting);
        };
        if SWITCHED.get() {
            let why = "a thread acts for two users at once";
            return Err(fault(ErrorCode::Internal, Phase::Open).with_private(why));
        }
        enter(wanted)?;
        acting.user = Some(wanted);
        Ok(acting)
    }

    /// Runs `call` as the server.
    ///
    /// # Errors
    /// As [`Acting::begin`].
    pub(super) fn suspended<T>(&mut self, call: impl FnOnce() -> T) -> Result<T> {
        let Some(user) = self.user.take() else {
            return Ok(call());
        };
        leave(user);
        let result = call();
        enter(user)?;
        self.user = Some(user);
        Ok(result)
    }

    /// The user, unless it is the server's own account.
    pub(super) fn user(&self) -> Option<&'u LocalUser> {
        self.user
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        if let Some(user) = self.user {
            leave(user);
        }
    }
}

fn is_own(user: &LocalUser) -> bool {
    let own = own();
    let groups = own.groups.iter().map(|group| group.as_raw());
    user.uid() == own.uid.as_raw() && user.gid() == own.gid.as_raw() && groups.eq(user.groups().iter().copied())
}

/// Whether the supplementary groups differ, which is rare because most users have none.
fn has_other_groups(user: &LocalUser) -> bool {
    let groups = own().groups.iter().map(|group| group.as_raw());
    !groups.eq(user.groups().iter().copied())
}

/// The steps of a switch in order: each needs the server's rights, so they are undone in reverse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Groups,
    Gid,
    Uid,
}

fn enter(user: &LocalUser) -> Result<()> {
    let refused = |errno: Errno| fault(ErrorCode::UserRefused, Phase::Open).with_private(errno);
    if has_other_groups(user) {
        let groups: Vec<Gid> = user.groups().iter().map(|group| Gid::from_raw(*group)).collect();
        set_thread_groups(&groups).map_err(refused)?;
    }
    let changed = set_thread_res_gid(None, Gid::from_raw(user.gid()), None);
    changed
        .inspect_err(|_| take_back(user, Step::Groups))
        .map_err(refused)?;
    let changed = set_thread_res_uid(None, Uid::from_raw(user.uid()), None);
    changed.inspect_err(|_| take_back(user, Step::Gid)).map_err(refused)?;
    SWITCHED.set(true);
    Ok(())
}

/// Switches back to the server's account.
fn leave(user: &LocalUser) {
    take_back(user, Step::Uid);
    SWITCHED.set(false);
}

/// Undoes all steps up to `last`. If the kernel refuses, which happens for lack of memory at most,
/// the process aborts: a thread that kept the user's IDs would serve the next request with wrong
/// rights.
fn take_back(user: &LocalUser, last: Step) {
    let own = own();
    let restore = || {
        if last >= Step::Uid {
            set_thread_res_uid(None, own.uid, None)?;
        }
        if last >= Step::Gid {
            set_thread_res_gid(None, own.gid, None)?;
        }
        match has_other_groups(user) {
            true => set_thread_groups(&own.groups),
            false => Ok(()),
        }
    };
    let restored: std::result::Result<(), Errno> = restore();
    if let Err(errno) = restored {
        let _ = writeln!(
            std::io::stderr(),
            "a thread cannot leave the local user {}: {errno}",
            user.name()
        );
        std::process::abort();
    }
}

/// Whether the kernel lets this process act as this user: it has the rights, and the ID is mapped
/// (a container may map only some).
#[must_use]
pub fn can_act_as(user: &LocalUser) -> bool {
    // The kernel reports errors only when it is tried.
    let user = Arc::new(user.clone());
    Acting::begin(Some(&user)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(key: &str) -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.to_owned()
    }

    fn all() -> [String; 3] {
        ["Uid:", "Gid:", "Groups:"].map(status)
    }

    fn user(groups: &[u32]) -> Option<Arc<LocalUser>> {
        let user = LocalUser::new("made-up", 70_001, 70_002, groups.iter().copied()).unwrap();
        let is_possible = can_act_as(&user);
        if !is_possible {
            let why = "acting as others needs root".to_owned();
            testkit::available::<()>("identity", Err(testkit::Error::Missing(why)));
        }
        is_possible.then(|| Arc::new(user))
    }

    #[test]
    fn a_thread_switches_to_a_user_and_back() {
        let before = all();
        for groups in [&[][..], &[70_003, 70_004]] {
            let Some(user) = user(groups) else { return };
            let mut acting = Acting::begin(Some(&user)).unwrap();
            assert!(status("Uid:").contains("70001") && status("Gid:").contains("70002"));
            assert_eq!(status("Groups:").contains("70003 70004"), !groups.is_empty());
            assert_eq!(acting.suspended(all).unwrap(), before);
            assert!(status("Uid:").contains("70001"));
            assert!(Acting::begin(Some(&user)).is_err(), "not twice at once");
            drop(acting);
            assert_eq!(all(), before);
        }
    }

    #[test]
    fn a_panic_switches_back_too() {
        let Some(user) = user(&[70_003]) else { return };
        let before = all();
        let panicked = std::panic::catch_unwind(|| {
            let _acting = Acting::begin(Some(&user)).unwrap();
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        assert_eq!(all(), before);
    }
}
