//! A clock for programs under test that can be put forward, so that what lasts for hours ends in a
//! test. Only the time of day is moved: timeouts run as ever.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The time of day of the programs that are started with it, by Debian's libfaketime.
#[derive(Debug)]
pub struct Clock {
    offset: PathBuf,
    library: PathBuf,
}

impl Clock {
    /// A clock that shows the true time, with its files in `directory`; made if need be.
    ///
    /// # Errors
    /// [`Error::Missing`] without libfaketime.
    pub fn new(directory: &Path) -> Result<Self> {
        let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", env::consts::ARCH);
        let library = PathBuf::from(library);
        if !library.is_file() {
            return Err(Error::Missing("libfaketime is not installed".to_owned()));
        }
        fs::create_dir_all(directory)?;
        let clock = Self {
            offset: directory.join("offset"),
            library,
        };
        clock.advance(0)?;
        Ok(clock)
    }

    /// From now on it is so many hours ahead of the true time.
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be written.
    pub fn advance(&self, hours: u32) -> Result<()> {
        // A program reads it whole: the old or the new.
        let aside = self.offset.with_extension("new");
        fs::write(&aside, format!("+{hours}h\n"))?;
        Ok(fs::rename(aside, &self.offset)?)
    }

    /// A program that starts `program` with this clock, in its own place.
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be written.
    pub fn wrap(&self, program: &Path) -> Result<PathBuf> {
        let script = self.offset.with_file_name("start");
        let text = format!(
            "#!/bin/sh\nexport LD_PRELOAD={} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 \
             FAKETIME_DONT_FAKE_MONOTONIC=1\nexec {} \"$@\"\n",
            self.library.display(),
            self.offset.display(),
            program.display(),
        );
        fs::write(&script, text)?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))?;
        Ok(script)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::{Scratch, available, require};

    #[test]
    fn a_program_sees_the_clock_that_was_put_forward() {
        let scratch = Scratch::new("clock").expect("scratch");
        let Some(clock) = available("clock", Clock::new(scratch.path())) else {
            return;
        };
        let program = clock.wrap(&require("date").expect("date")).expect("a script");
        let hours_ahead = || {
            let shown = Command::new(&program).arg("+%s").output().expect("date");
            let shown: u64 = String::from_utf8_lossy(&shown.stdout).trim().parse().expect("a number");
            let true_s = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("after 1970")
                .as_secs();
            (shown + 60 - true_s) / 3600
        };
        assert_eq!(hours_ahead(), 0);
        clock.advance(13).expect("put forward");
        assert_eq!(hours_ahead(), 13);
    }
}
