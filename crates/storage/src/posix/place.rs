//! Where directories are: what decides whether a rename works, and whether two are the same.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

/// Where a directory is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    device: u64,
    mount: u64,
    inode: u64,
}

impl Place {
    /// File system and mount: a rename works only within both.
    pub(super) fn home(self) -> (u64, u64) {
        (self.device, self.mount)
    }

    /// File system and inode, which stay the same wherever the directory is moved.
    pub(super) fn identity(self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// A directory that is open, and where it is.
pub(super) struct Directory {
    pub(super) opened: OwnedFd,
    pub(super) place: Place,
}

/// Where an open directory is.
pub(super) fn place_of(directory: impl AsFd) -> Result<Place, Errno> {
    let flags = fs::StatxFlags::BASIC_STATS | fs::StatxFlags::MNT_ID;
    match fs::statx(&directory, "", AtFlags::EMPTY_PATH, flags) {
        Ok(raw) => Ok(Place {
            device: fs::makedev(raw.stx_dev_major, raw.stx_dev_minor),
            mount: raw.stx_mnt_id,
            inode: raw.stx_ino,
        }),
        Err(Errno::NOSYS | Errno::PERM) => {
            let raw = fs::fstat(&directory)?;
            Ok(Place {
                device: raw.st_dev,
                mount: 0,
                inode: raw.st_ino as u64,
            })
        }
        Err(errno) => Err(errno),
    }
}
