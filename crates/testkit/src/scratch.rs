//! Directories that vanish when the test ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Error, Result};

/// The machine's memory file system.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// A directory of its own that everybody may enter (servers run as other users) and that is removed
/// on drop.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
}

impl Scratch {
    /// A new directory among the machine's temporary files.
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be created.
    pub fn new(name: &str) -> Result<Self> {
        Self::within(&std::env::temp_dir(), name)
    }

    /// A new directory in memory (`/dev/shm`), so that a measurement is not one of disks.
    ///
    /// # Errors
    /// [`Error::Missing`] when the machine has no such file system.
    pub fn in_memory(name: &str) -> Result<Self> {
        let parent = Path::new(MEMORY_DIRECTORY);
        if !parent.is_dir() {
            return Err(Error::Missing(format!("{MEMORY_DIRECTORY} does not exist")));
        }
        Self::within(parent, name)
    }

    fn within(parent: &Path, name: &str) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix(&format!("crossload-{name}-"))
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir_in(parent)?;
        Ok(Self { directory })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The path of `name` inside it; nothing is created.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Creates the directory `name` inside it, with its parents.
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be created.
    pub fn create(&self, name: &str) -> Result<PathBuf> {
        let path = self.join(name);
        fs::create_dir_all(&path).map_err(|e| Error::during(path.display(), e))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_may_enter_and_it_vanishes() {
        let scratch = Scratch::new("scratch").expect("temporary directory");
        let path = scratch.create("a/b").expect("inner directory");
        let mode = scratch.path().metadata().expect("facts").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        drop(scratch);
        assert!(!path.exists());
    }
}
