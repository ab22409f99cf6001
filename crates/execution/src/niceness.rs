//! How much nicer the threads of long transfers are than the rest, and whether they may be.
//!
//! The scheduler compares nice values within a control group only. Where the server is alone in its
//! group, nicer threads let short requests go first and lose nothing: the group's share of the
//! processors stays the same. Where others run at nice 0 in the group, these take the share that
//! the nicer threads give up, and a long transfer gets a fraction of its rate.

use std::fs;
use std::path::{Path, PathBuf};

use types::limits::STEADY_NICENESS;

/// Makes this thread nicer than the process by so many steps, regardless of which thread started
/// it. Where the system refuses, the thread goes on as it is, which costs others time only.
pub(crate) fn give_way(more: i32) {
    if more == 0 {
        return;
    }
    // The priority of the first thread, which has the process's number, is what the process was
    // started with.
    let first = Some(rustix::process::getpid());
    if let Ok(niceness) = rustix::process::getpriority_process(first) {
        let this = Some(rustix::thread::gettid());
        let _ = rustix::process::setpriority_process(this, niceness + more);
    }
}

/// The nice increment of the threads of long transfers that suits the place where the process runs.
#[must_use]
pub fn of_long_transfers() -> i32 {
    match is_alone(Path::new("/"), std::process::id()) {
        true => STEADY_NICENESS,
        false => 0,
    }
}

/// Whether no other program shares what the scheduler divides the processors among. What cannot be
/// read counts as shared.
fn is_alone(root: &Path, own: u32) -> bool {
    let own_groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    match scheduling_group(root, &own_groups) {
        // The scheduler's own groups, one for each session, where they are on.
        None => {
            fs::read_to_string(root.join("proc/sys/kernel/sched_autogroup_enabled")).is_ok_and(|on| on.trim() == "1")
        }
        Some(group) => {
            let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            let mut members = members.lines();
            members.next().and_then(|id| id.trim().parse().ok()) == Some(own) && members.next().is_none()
        }
    }
}

/// The directory of the innermost group that has a weight of its own; `None` for the root of all.
/// See cgroups(7).
fn scheduling_group(root: &Path, own_groups: &str) -> Option<PathBuf> {
    let mounted = root.join("sys/fs/cgroup");
    let (mut base, mut path, mut weight) = (mounted.clone(), None, "cpu.weight");
    for line in own_groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(place)) = (parts.next(), parts.next()) else {
            continue;
        };
        if controllers.split(',').any(|name| name == "cpu") {
            // The first version: each controller is mounted by its own name.
            (base, path, weight) = (mounted.join(controllers), Some(place), "cpu.shares");
            break;
        }
        if controllers.is_empty() {
            path = Some(place);
        }
    }
    let place = path?.trim_matches('/');
    if weight == "cpu.shares" {
        return (!place.is_empty()).then(|| base.join(place));
    }
    // In a container the root that is seen is a group too, and has a weight; the root of all has
    // none.
    let mut groups = Path::new(place).ancestors().map(|place| base.join(place));
    groups.find(|group| group.join(weight).exists())
}

/// The nice value of this thread.
#[cfg(test)]
pub(crate) fn of_this_thread() -> i32 {
    rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 42;

    /// A file system with these files.
    fn alone(files: &[(&str, &str)]) -> bool {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        is_alone(root.path(), OWN)
    }

    #[test]
    fn a_service_of_its_own_is_alone() {
        let service = [
            ("proc/self/cgroup", "0::/system.slice/crossload.service\n"),
            ("sys/fs/cgroup/system.slice/crossload.service/cpu.weight", "100\n"),
            ("sys/fs/cgroup/system.slice/crossload.service/cgroup.procs", "42\n"),
        ];
        assert!(alone(&service));
    }

    #[test]
    fn a_container_with_other_processes_is_shared() {
        let container = |procs: &'static str| {
            [
                ("proc/self/cgroup", "0::/\n"),
                ("sys/fs/cgroup/cpu.weight", "100\n"),
                ("sys/fs/cgroup/cgroup.procs", procs),
                ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
            ]
        };
        assert!(!alone(&container("1\n42\n")));
        assert!(!alone(&container("0\n42\n")));
        assert!(alone(&container("42\n")));
    }

    #[test]
    fn a_group_without_a_weight_belongs_to_the_one_above() {
        let without = [
            ("proc/self/cgroup", "0::/pod/inner\n"),
            ("sys/fs/cgroup/pod/cpu.weight", "100\n"),
            // What is in it is seen in the groups below: they are two.
            ("sys/fs/cgroup/pod/cgroup.procs", ""),
            ("sys/fs/cgroup/pod/inner/cgroup.procs", "42\n"),
        ];
        assert!(!alone(&without));
    }

    #[test]
    fn without_a_group_the_session_is_one_where_the_system_makes_it() {
        let session = |on: &'static str| {
            [
                ("proc/self/cgroup", "0::/user.slice/session\n"),
                ("proc/sys/kernel/sched_autogroup_enabled", on),
            ]
        };
        assert!(alone(&session("1\n")));
        assert!(!alone(&session("0\n")));
        assert!(!alone(&[("proc/self/cgroup", "0::/user.slice/session\n")]));
    }

    #[test]
    fn the_first_version_of_control_groups_is_read_too() {
        let shared = [
            (
                "proc/self/cgroup",
                "3:cpu,cpuacct:/docker/x\n1:memory:/docker/x\n0::/\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/docker/x/cgroup.procs", "1\n42\n"),
        ];
        assert!(!alone(&shared));
        let root = [
            ("proc/self/cgroup", "1:cpu:/\n0::/\n"),
            ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
        ];
        assert!(alone(&root));
    }
}
