//! The releases of XRootD that tests and benchmarks start, and where their programs are.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::programs::{is_executable, target_directory};
use crate::{Error, Result, is_superuser, require};

/// Names the directory of the release that `./dev` builds, where that is not below `target/`.
const PREFIX_VARIABLE: &str = "CROSSLOAD_XROOTD";

/// A release of XRootD, server and clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum XrootdVersion {
    /// Debian's packages.
    #[default]
    V5,
    /// The newest, which `./dev setup test` builds.
    V6,
}

impl XrootdVersion {
    /// All, the oldest first.
    pub const ALL: [Self; 2] = [Self::V5, Self::V6];

    /// Its number.
    #[must_use]
    pub fn number(self) -> &'static str {
        match self {
            Self::V5 => "5.5.3",
            Self::V6 => "6.2.1",
        }
    }

    /// The path of its program `name`.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not installed.
    pub fn require(self, name: &str) -> Result<PathBuf> {
        if self == Self::V5 {
            return require(name);
        }
        let program = self.prefix().join("bin").join(name);
        if !is_executable(&program) {
            return Err(Error::Missing(format!(
                "XRootD {} has not been built; ./dev setup test does it",
                self.number()
            )));
        }
        match closed_ancestor(&program) {
            Some(directory) if is_superuser() => Err(Error::Missing(format!(
                "XRootD does not run as root, and other users may not enter {}",
                directory.display()
            ))),
            _ => Ok(program),
        }
    }

    /// Demands its plug-in `name`, such as `libXrdVoms`, which may be in a package of its own.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not installed.
    pub fn require_plug_in(self, name: &str) -> Result<()> {
        let (directory, major) = match self {
            Self::V5 => (format!("/usr/lib/{}-linux-gnu", env::consts::ARCH).into(), 5),
            Self::V6 => (self.prefix().join("lib"), 6),
        };
        if directory.join(format!("{name}-{major}.so")).is_file() {
            return Ok(());
        }
        Err(Error::Missing(format!(
            "the plug-in {name} of XRootD {} is not installed",
            self.number()
        )))
    }

    fn prefix(self) -> PathBuf {
        let below_target = || target_directory().join(format!("xrootd-{}", self.number()));
        env::var_os(PREFIX_VARIABLE).map_or_else(below_target, PathBuf::from)
    }
}

/// A directory above `path` that only its owner may enter.
fn closed_ancestor(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let is_closed = |directory: &&Path| {
        directory
            .metadata()
            .is_ok_and(|facts| facts.permissions().mode() & 0o001 == 0)
    };
    path.ancestors().skip(1).find(is_closed).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn the_newest_is_the_one_that_dev_builds() {
        let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/requirements.txt");
        let requirements = fs::read_to_string(requirements).expect("the list");
        let line = format!("xrootd=={}", XrootdVersion::V6.number());
        assert!(requirements.lines().any(|found| found == line), "{line}");
    }

    #[test]
    fn a_plug_in_that_no_release_has_is_missing() {
        for version in XrootdVersion::ALL {
            let missing = version.require_plug_in("libXrdNothing");
            assert!(matches!(missing, Err(Error::Missing(reason)) if reason.contains(version.number())));
        }
    }

    #[test]
    fn a_directory_that_others_may_not_enter_is_found() {
        let scratch = Scratch::new("closed").expect("scratch");
        let inner = scratch.create("outer/inner").expect("directories");
        let outer = scratch.join("outer");
        fs::set_permissions(&outer, fs::Permissions::from_mode(0o700)).expect("closed");
        let outer = fs::canonicalize(outer).expect("a path");
        assert_eq!(closed_ancestor(&inner), Some(outer));
    }
}
