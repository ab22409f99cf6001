//! Finding programs, and saying plainly when a test cannot run because one is missing.

use std::env;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result};

/// Places that are searched after `PATH`: Debian keeps servers here, and the `PATH` of a plain user
/// may not name them.
const SERVER_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Names the Python that has what Debian's lacks.
const PYTHON_VARIABLE: &str = "CROSSLOAD_PYTHON";
/// Names the Python with the clients of the transfer queue.
const QUEUE_PYTHON_VARIABLE: &str = "CROSSLOAD_QUEUE_PYTHON";
/// The Python that Debian's bindings are built for, whatever else is first in `PATH`.
const DEBIAN_PYTHON: &str = "/usr/bin/python3";

/// The variable that turns "skipped" into "failed", for machines on which every peer must be there.
const NO_SKIP_VARIABLE: &str = "CROSSLOAD_NO_SKIP";

/// What the variable `RES_OPTIONS` says to programs that look names up without need: a lost packet
/// costs a second.
pub const RESOLVER_OPTIONS: &str = "timeout:1 attempts:2";

/// The path of the program `name`.
///
/// # Errors
/// [`Error::Missing`] when it is not installed.
pub fn require(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SERVER_DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))
        .ok_or_else(|| Error::Missing(format!("the program {name} is not installed")))
}

/// A Python that has `module`: the one that `./dev` prepares with what Debian lacks
/// (`CROSSLOAD_PYTHON` names it), or Debian's.
///
/// # Errors
/// [`Error::Missing`] when neither has it.
pub fn require_python(module: &str) -> Result<PathBuf> {
    [prepared_python(), PathBuf::from(DEBIAN_PYTHON)]
        .into_iter()
        .find(|python| has_module(python, module))
        .ok_or_else(|| {
            Error::Missing(format!(
                "no Python has the module {module}; ./dev setup test installs it"
            ))
        })
}

/// The directory of the Python that `./dev` prepares with the clients of the transfer queue
/// (`CROSSLOAD_QUEUE_PYTHON` names the program), with `program` in it.
///
/// # Errors
/// [`Error::Missing`] when it is not there.
pub fn require_queue_python(program: &str) -> Result<PathBuf> {
    let python = env::var_os(QUEUE_PYTHON_VARIABLE)
        .map_or_else(|| target_directory().join("python-queue/bin/python3"), PathBuf::from);
    let path = python.with_file_name(program);
    if is_executable(&path) {
        return Ok(path);
    }
    Err(Error::Missing(format!(
        "{program} of the queue's clients is not there; ./dev setup test installs it"
    )))
}

/// Debian's own Python, if it has `module`.
///
/// # Errors
/// [`Error::Missing`] when it has not.
pub fn require_debian_python(module: &str) -> Result<PathBuf> {
    let python = PathBuf::from(DEBIAN_PYTHON);
    if has_module(&python, module) {
        return Ok(python);
    }
    Err(Error::Missing(format!(
        "Debian's package of the Python module {module} is not installed"
    )))
}

/// A program that `./dev` has installed beside the Python modules that Debian lacks.
///
/// # Errors
/// [`Error::Missing`] when it is not there.
pub(crate) fn require_beside_python(program: &str) -> Result<PathBuf> {
    let path = prepared_python().with_file_name(program);
    if is_executable(&path) {
        return Ok(path);
    }
    Err(Error::Missing(format!(
        "the later {program} is not there; ./dev setup test installs it"
    )))
}

/// The Python that `./dev` prepares with what Debian lacks.
fn prepared_python() -> PathBuf {
    env::var_os(PYTHON_VARIABLE).map_or_else(|| target_directory().join("python/bin/python3"), PathBuf::from)
}

fn has_module(python: &Path, module: &str) -> bool {
    let looks = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)");
    Command::new(python)
        .args(["-c", &looks])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from)
}

pub(crate) fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Whether this process runs as the superuser.
#[must_use]
pub fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

/// Turns [`Error::Missing`] into `None` after reporting `test` as skipped, so that a test can begin
/// with `let Some(x) = available("name", …) else { return };`.
///
/// # Panics
/// On [`Error::Failed`], and on [`Error::Missing`] too when `CROSSLOAD_NO_SKIP` is set: where every
/// peer was installed, a test must not pass by being absent.
pub fn available<T>(test: &str, wanted: Result<T>) -> Option<T> {
    match wanted {
        Ok(value) => Some(value),
        Err(Error::Missing(reason)) if env::var_os(NO_SKIP_VARIABLE).is_none() => {
            // Straight to the stream: the test harness would hide what goes through the print
            // macros.
            let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

/// Runs `command` to its end and returns its standard output.
///
/// # Errors
/// [`Error::Failed`] with its standard error when it cannot be started or does not exit with 0.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| Error::during(&name, e))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let words = String::from_utf8_lossy(&output.stderr);
        Err(Error::during(name, format!("{}: {}", output.status, words.trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_found_and_nonsense_is_missing() {
        assert!(require("sh").is_ok_and(|path| path.is_absolute()));
        let refused = require("no-such-program-anywhere");
        assert!(matches!(refused, Err(Error::Missing(reason)) if reason.contains("no-such-program")));
    }

    #[test]
    #[should_panic(expected = "broken")]
    fn a_failure_is_never_a_skip() {
        available::<()>("demo", Err(Error::Failed("broken".to_owned())));
    }

    #[test]
    fn output_is_returned_and_a_bad_exit_carries_the_words() {
        assert_eq!(output_of(Command::new("echo").arg("hello")), Ok("hello\n".to_owned()));
        let failed = output_of(Command::new("sh").args(["-c", "echo sorry >&2; exit 3"]));
        assert!(matches!(failed, Err(Error::Failed(words)) if words.contains("sorry")));
    }
}
