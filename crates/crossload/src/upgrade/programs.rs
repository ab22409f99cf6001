//! The new and the previous program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::server::configured::CREDENTIALS;

/// Exit code of `crossload check` with errors.
const ERRORS: i32 = 2;
/// The least exit code of a shell for a program that does not start.
const NOT_STARTED: i32 = 126;

/// A program, as a file.
pub(super) struct Program {
    pub(super) path: PathBuf,
}

impl Program {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn exists(&self) -> bool {
        self.path.is_file()
    }

    /// Its name and version, as it says itself.
    pub(super) fn version(&self) -> String {
        let said = Command::new(&self.path).arg("--version").output();
        let said = said.ok().filter(|said| said.status.success());
        said.map_or_else(
            || format!("the program {}", self.path.display()),
            |said| String::from_utf8_lossy(&said.stdout).trim().to_owned(),
        )
    }

    /// The errors that it finds in a configuration, without connections; `None` without any. The
    /// configuration may name credentials in this directory.
    pub(super) fn refuses(&self, config: &Path, credentials: &Path) -> Option<String> {
        let mut check = Command::new(&self.path);
        check.args(["check", "--offline", "--quiet", "--config"]).arg(config);
        check.env(CREDENTIALS, credentials);
        match check.output() {
            Ok(said) if said.status.code() == Some(ERRORS) => {
                Some(String::from_utf8_lossy(&said.stdout).trim_end().to_owned())
            }
            // Warnings, or a program that has no such check.
            Ok(said) if said.status.code().is_some_and(|code| code < NOT_STARTED) => None,
            Ok(said) => Some(format!("the program does not start: {}", said.status)),
            Err(cause) => Some(format!("the program does not start: {cause}")),
        }
    }

    /// Whether a server is ready, by its admin address.
    pub(super) fn finds_ready(&self, admin: &str) -> bool {
        let mut healthy = Command::new(&self.path);
        healthy.args(["healthy", admin, "--timeout", "5s"]);
        healthy.output().is_ok_and(|said| said.status.success())
    }

    /// Replaces another program, which may run, by this one.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn put_in_place_of(&self, other: &Self) -> Result<(), Failure> {
        let place = &other.path;
        let directory = place.parent().unwrap_or(Path::new("/"));
        let put = || -> std::io::Result<()> {
            let beside = tempfile::NamedTempFile::new_in(directory)?;
            std::fs::copy(&self.path, beside.path())?;
            beside.as_file().sync_all()?;
            beside.persist(place).map_err(|error| error.error)?;
            File::open(directory)?.sync_all()
        };
        put().map_err(|cause| {
            let words = format!("cannot put {} back as {}", self.path.display(), place.display());
            Failure::system(words, &cause)
        })
    }
}
