//! The server's secret files, which a store never hands out under any name: a hard link or a bind
//! mount can show them under a path that the configuration does not mention.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs;
use types::{ErrorCode, LogicalPath, Phase, Result};

use crate::fault::fault;

/// The identities of these files. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct SecretFiles(Arc<RwLock<Vec<(u64, u64)>>>);

impl SecretFiles {
    /// Replaces the list of secret files. Paths without a file are ignored.
    pub fn replace(&self, paths: impl IntoIterator<Item = impl AsRef<Path>>) {
        let facts = paths.into_iter().filter_map(|path| std::fs::metadata(path).ok());
        let files = facts.filter(std::fs::Metadata::is_file);
        let identities = files.map(|facts| (facts.dev(), facts.ino())).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = identities;
    }

    /// Refuses a secret file.
    #[allow(
        clippy::unnecessary_cast,
        reason = "the widths of these fields differ between machines"
    )]
    pub(super) fn check(&self, raw: &fs::Stat, path: &LogicalPath) -> Result<()> {
        let identity = (raw.st_dev as u64, raw.st_ino as u64);
        match self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&identity)
        {
            false => Ok(()),
            true => Err(fault(ErrorCode::Forbidden, Phase::Open)
                .with_subject(path)
                .with_private("a secret of the server under another name")),
        }
    }
}
