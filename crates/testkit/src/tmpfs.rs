//! A file system of a few megabytes, to see what happens when it is full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::output_of;
use crate::{Error, Result, is_superuser, require};

/// A small memory file system, mounted on a directory of its own and unmounted on drop.
#[derive(Debug)]
pub struct Tmpfs {
    directory: PathBuf,
}

impl Tmpfs {
    /// Mounts a file system of `size_bytes` on `directory`, which is created.
    ///
    /// # Errors
    /// [`Error::Missing`] without root's rights or where mounting is forbidden (containers).
    pub fn mount(directory: &Path, size_bytes: u64) -> Result<Self> {
        if !is_superuser() {
            return Err(Error::Missing("mounting a small file system needs root".to_owned()));
        }
        let mount = require("mount")?;
        fs::create_dir_all(directory)?;
        let options = format!("size={size_bytes},mode=0777");
        let mut command = Command::new(mount);
        command.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory);
        output_of(&mut command).map_err(|e| Error::Missing(format!("tmpfs cannot be mounted: {e}")))?;
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a server that is still ending must not keep the mount alive for ever.
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scratch, available};

    #[test]
    fn it_fills_up_and_goes_away() {
        let scratch = Scratch::new("tmpfs").expect("scratch");
        let mounted = Tmpfs::mount(&scratch.join("small"), 1 << 20);
        let Some(small) = available("it_fills_up_and_goes_away", mounted) else {
            return;
        };
        let file = small.path().join("file");
        let refused = fs::write(&file, vec![1; 2 << 20]).expect_err("two megabytes do not fit in one");
        assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
        drop(small);
        assert!(!file.exists());
    }
}
