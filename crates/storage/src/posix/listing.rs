//! Reading a directory a batch at a time: memory does not grow with the number of entries.

use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FileType};
use types::limits::LISTING_BATCH_ENTRIES;
use types::{LogicalPath, Phase, Result};

use super::identity::Acting;
use super::resolve::{HIDDEN_DIRECTORY, Root, is_part_beside, stat_of};
use crate::api::{Entry, Listing};
use crate::fault::about;
use crate::owner::LocalUser;

pub(crate) struct PosixListing {
    pub(crate) root: Arc<Root>,
    pub(crate) path: LogicalPath,
    pub(crate) directory: Dir,
    /// Who looks.
    pub(crate) user: Option<Arc<LocalUser>>,
}

impl Listing for PosixListing {
    fn next_batch(&mut self) -> Result<Vec<Entry>> {
        let user = self.user.clone();
        let _acting = Acting::begin(user.as_ref())?;
        let mut batch = Vec::new();
        while batch.len() < LISTING_BATCH_ENTRIES {
            let Some(read) = self.directory.read() else { break };
            let read = read.map_err(|errno| about(errno, Phase::Open, &self.path))?;
            // A name that is no text, or that no path can hold, cannot be addressed: not shown.
            if let Ok(name) = read.file_name().to_str()
                && let Some(entry) = self.entry(name)
            {
                batch.push(entry);
            }
        }
        Ok(batch)
    }
}

impl PosixListing {
    /// `None` for what is not shown: hidden names, pipes, links that lead nowhere or out, and
    /// files that went away meanwhile.
    fn entry(&self, name: &str) -> Option<Entry> {
        if matches!(name, "." | "..") || is_part_beside(name) || (self.path.is_root() && name == HIDDEN_DIRECTORY) {
            return None;
        }
        let path = self.path.join(name).ok()?;
        let raw = fs::statat(self.directory.fd().ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let stat = match FileType::from_raw_mode(raw.st_mode) {
            FileType::Symlink => self.root.stat(&path).ok()?,
            _ => stat_of(&raw, &path).ok()?,
        };
        Some(Entry {
            name: name.to_owned(),
            stat,
        })
    }
}
