//! The new and the previous program.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::limits::{UPGRADE_PROGRAM_LOOK_PERIOD, UPGRADE_PROGRAM_WAIT};
use crate::server::configured::CREDENTIALS;

/// Exit code of `crossload check` with errors.
const ERRORS: i32 = 2;
/// The least exit code of a shell for a program that does not start.
const NOT_STARTED: i32 = 126;

/// Exit code of a program that has panicked.
const PANICKED: i32 = 101;

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
        let said = ended(Command::new(&self.path).arg("--version"), UPGRADE_PROGRAM_WAIT);
        let said = said.ok().filter(|said| said.status.success());
        said.map_or_else(
            || format!("the program {}", self.path.display()),
            |said| said.printed.trim().to_owned(),
        )
    }

    /// The errors that it finds in a configuration, without connections; `None` without any. The
    /// configuration may name credentials in this directory.
    pub(super) fn refuses(&self, config: &Path, credentials: &Path) -> Option<String> {
        let mut check = Command::new(&self.path);
        check.args(["check", "--offline", "--quiet", "--config"]).arg(config);
        check.env(CREDENTIALS, credentials);
        match ended(&mut check, UPGRADE_PROGRAM_WAIT) {
            Ok(said) if said.status.code() == Some(ERRORS) => Some(said.printed.trim_end().to_owned()),
            Ok(said) if said.status.code() == Some(PANICKED) => Some(format!("its check crashed: {}", said.status)),
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
        ended(&mut healthy, UPGRADE_PROGRAM_WAIT).is_ok_and(|said| said.status.success())
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

/// How a program ended.
struct Ended {
    status: ExitStatus,
    /// What it wrote to standard output.
    printed: String,
}

/// Runs a program to its end, but not for longer than this.
///
/// # Errors
/// It does not start, or was ended after this time.
fn ended(command: &mut Command, limit: Duration) -> io::Result<Ended> {
    let mut output = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(output.try_clone()?).spawn()?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() < limit => std::thread::sleep(UPGRADE_PROGRAM_LOOK_PERIOD),
            None => {
                child.kill()?;
                child.wait()?;
                let words = format!("it did not end within {} s", limit.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, words));
            }
        }
    };
    let mut bytes = Vec::new();
    output.seek(SeekFrom::Start(0))?;
    output.read_to_end(&mut bytes)?;
    Ok(Ended {
        status,
        printed: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended() {
        let hangs = ended(Command::new("sleep").arg("1000"), Duration::ZERO);
        assert_eq!(hangs.err().unwrap().kind(), ErrorKind::TimedOut);
        let said = ended(Command::new("echo").arg("1.2"), UPGRADE_PROGRAM_WAIT).unwrap();
        assert_eq!((said.status.success(), said.printed.as_str()), (true, "1.2\n"));
    }
}
