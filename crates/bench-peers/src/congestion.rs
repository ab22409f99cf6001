//! Which congestion control TCP uses while everything is measured.
//!
//! It decides what a byte costs over loopback: BBR spaces the segments of a connection by timers,
//! which on a machine without a network in between costs more than all else that a server does.
//! Linux' own choice, and Debian's, is CUBIC. On a machine that is set to another one, the
//! benchmark can have it in a network namespace of its own, where all servers and clients use the
//! same and nothing else on the machine is touched.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use testkit::{Error, Result};

const CHOSEN: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// Set in the environment of the program that runs in the namespace.
const INSIDE: &str = "CROSSLOAD_BENCH_NAMESPACE";

/// The congestion control of this machine, or of the namespace that this program is in.
pub(crate) fn current() -> String {
    let name = fs::read_to_string(CHOSEN).unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// Goes on in a network namespace in which `name` is used: the first call starts this program anew
/// there and does not return, the second, from there, makes the namespace ready.
///
/// # Errors
/// Who may not make a namespace (root may), or a congestion control that is not there or not
/// allowed.
pub(crate) fn enter(name: &str) -> Result<()> {
    if env::var_os(INSIDE).is_some() {
        return prepare(name);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Missing(
            "--congestion-control needs a network namespace, and only root may make one".to_owned(),
        ));
    }
    let unshare = testkit::require("unshare")?;
    let error = Command::new(unshare)
        .args(["--net", "--"])
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(error.into())
}

fn prepare(name: &str) -> Result<()> {
    let up = Command::new(testkit::require("ip")?)
        .args(["link", "set", "lo", "up"])
        .status()?;
    if !up.success() {
        return Err(Error::Failed(
            "the loopback of the network namespace cannot be switched on".to_owned(),
        ));
    }
    choose(name, Path::new(CHOSEN))
}

fn choose(name: &str, chosen: &Path) -> Result<()> {
    fs::write(chosen, name).map_err(|error| {
        let allowed = fs::read_to_string(ALLOWED).unwrap_or_default();
        Error::Failed(format!(
            "--congestion-control {name}: {error}; a namespace may use: {}. The machine's administrator adds others with sysctl \
             net.ipv4.tcp_allowed_congestion_control",
            allowed.trim()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_name_is_told_with_what_may_be_used() {
        let error = choose("bbr17", Path::new("/proc/sys/net/ipv4/none")).expect_err("there is no such file");
        let words = error.to_string();
        assert!(
            words.contains("--congestion-control bbr17") && words.contains("may use:"),
            "{words}"
        );
    }

    #[test]
    fn the_machine_says_what_it_uses() {
        assert!(!current().is_empty());
    }
}
