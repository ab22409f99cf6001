//! A small Debian system in a directory, in which packages are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{is_superuser, output_of, require, target_directory};
use crate::{Error, Result};

/// All that programs inside find in their environment.
const ENVIRONMENT: [&str; 4] = [
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LC_ALL=C.UTF-8",
    "DEBIAN_FRONTEND=noninteractive",
];

/// The root directory of a Debian release, with what is essential there and dpkg's database of it.
/// Nothing in it was configured, and no service runs.
#[derive(Debug)]
pub struct DebianRoot {
    directory: PathBuf,
    chroot: PathBuf,
}

impl DebianRoot {
    /// Unpacks the archive of `suite` that `./dev` has made into `directory`, whose owner removes
    /// it.
    ///
    /// # Errors
    /// [`Error::Missing`] without root's rights, or where no archive could be made.
    pub fn unpack(suite: &str, directory: &Path) -> Result<Self> {
        let chroot = require("chroot")?;
        if !is_superuser() {
            return Err(Error::Missing("only root can enter another root directory".to_owned()));
        }
        let archive = target_directory().join(format!("debian-{suite}.tar"));
        if !archive.is_file() {
            return Err(Error::Missing(format!(
                "there is no {}; ./dev setup test makes it",
                archive.display()
            )));
        }
        std::fs::create_dir_all(directory)?;
        let mut tar = Command::new(require("tar")?);
        tar.arg("--extract").arg("--directory").arg(directory);
        output_of(tar.arg("--file").arg(&archive))?;
        Ok(Self {
            directory: directory.to_owned(),
            chroot,
        })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// A command of `program` inside, with nothing of the environment outside.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.chroot);
        // By `env`, so that it stays so when a caller adds a time limit.
        command
            .arg(&self.directory)
            .args(["/usr/bin/env", "-i"])
            .args(ENVIRONMENT)
            .arg(program);
        command
    }
}
