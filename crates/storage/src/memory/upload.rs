//! Uploads to files in memory.

use std::io::IoSlice;
use std::sync::{Arc, MutexGuard, PoisonError, RwLock};

use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::{Memory, MemoryReader, Tree, refuse};
use crate::api::{CommitFacts, FileReader, Kind, Overwrite, Stat, Storage, Upload};
use crate::fault::fault;

pub(super) struct Draft {
    pub(super) content: Vec<u8>,
    pub(super) promised: u64,
    pub(super) ended: bool,
}

pub(super) struct MemoryUpload {
    pub(super) store: Memory,
    pub(super) path: LogicalPath,
    pub(super) announced: Option<u64>,
    pub(super) overwrite: Overwrite,
    pub(super) draft: RwLock<Draft>,
}

impl Upload for MemoryUpload {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let Some(end) = offset.checked_add(length as u64) else {
            return Err(beyond_any_size(&self.path));
        };
        if self.announced.is_some_and(|size| end > size) {
            return Err(Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Transfer));
        }
        let mut draft = self.draft.write().unwrap_or_else(PoisonError::into_inner);
        if draft.ended {
            return Err(fault(ErrorCode::Cancelled, Phase::Transfer));
        }
        if end > draft.promised {
            self.store
                .tree()
                .promise(end - draft.promised, &self.path)
                .map_err(|error| error.in_phase(Phase::Transfer))?;
            draft.promised = end;
        }
        let mut at = offset as usize;
        let grown = draft.content.len().max(end as usize);
        draft.content.resize(grown, 0);
        for slice in slices {
            draft.content[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        Ok(())
    }

    fn set_length(&self, size_bytes: u64) -> Result<()> {
        // Extending takes the same space as writing there.
        self.write_vectored_at(&[], size_bytes)?;
        let mut draft = self.draft.write().unwrap_or_else(PoisonError::into_inner);
        draft.content.truncate(size_bytes as usize);
        Ok(())
    }

    fn reader(&self) -> Result<Arc<dyn FileReader>> {
        let content = self
            .draft
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .content
            .clone();
        let stat = self.store.tree().fresh(Kind::File, content);
        Ok(Arc::new(MemoryReader {
            content: stat.content,
            stat: stat.stat,
        }))
    }

    fn commit(&self, facts: &CommitFacts) -> Result<Stat> {
        let mut draft = self.draft.write().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut draft.ended, true) {
            return Err(fault(ErrorCode::Cancelled, Phase::Commit).with_subject(&self.path));
        }
        let mut tree = self.store.tree();
        tree.promised_bytes -= draft.promised;
        let content = std::mem::take(&mut draft.content);
        let size_bytes = content.len() as u64;
        if size_bytes != facts.size_bytes || self.announced.is_some_and(|size| size != size_bytes) {
            return Err(Error::new(ErrorCode::BodyIncomplete, Side::Source, Phase::Commit).with_subject(&self.path));
        }
        tree.check_parent(&self.path, false)?;
        tree.check_target(&self.path, self.overwrite)?;
        let mut node = tree.fresh(Kind::File, content);
        node.stat.modified = facts.modified.unwrap_or(node.stat.modified);
        node.stat.mode = facts.mode.unwrap_or(node.stat.mode);
        node.checksums.clone_from(&facts.checksums);
        let replaced = tree.find(&self.path);
        node.dead_properties = replaced.map_or_else(Vec::new, |old| old.dead_properties.clone());
        let stat = node.stat.clone();
        tree.insert(&self.path, node);
        Ok(stat)
    }

    fn abort(&self) {
        let mut draft = self.draft.write().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut draft.ended, true) {
            self.store.tree().promised_bytes -= draft.promised;
            draft.content = Vec::new();
        }
    }
}

impl Drop for MemoryUpload {
    fn drop(&mut self) {
        self.abort();
    }
}

fn beyond_any_size(path: &LogicalPath) -> Error {
    fault(ErrorCode::BodyTooLarge, Phase::Transfer)
        .with_detail(format!("a file can have at most {} bytes", u64::MAX))
        .with_subject(path)
}

/// A file that is changed in place.
pub(super) struct MemoryUpdate {
    pub(super) store: Memory,
    pub(super) path: LogicalPath,
    pub(super) inode: u64,
}

impl MemoryUpdate {
    /// The tree, if this file still has its name.
    fn tree(&self) -> Result<MutexGuard<'_, Tree>> {
        let tree = self.store.tree();
        match tree.file(&self.path)?.stat.inode == self.inode {
            true => Ok(tree),
            false => refuse(ErrorCode::NotFound, &self.path),
        }
    }
}

impl Upload for MemoryUpdate {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let Some(end) = offset.checked_add(length as u64) else {
            return Err(beyond_any_size(&self.path));
        };
        let mut tree = self.tree()?;
        let size_bytes = tree.file(&self.path)?.stat.size_bytes.max(end);
        tree.change(&self.path, size_bytes, |content| {
            let mut at = offset as usize;
            for slice in slices {
                content[at..at + slice.len()].copy_from_slice(slice);
                at += slice.len();
            }
        })
    }

    fn set_length(&self, size_bytes: u64) -> Result<()> {
        self.tree()?.change(&self.path, size_bytes, |_| {})
    }

    fn reader(&self) -> Result<Arc<dyn FileReader>> {
        self.store.open(&self.path)
    }

    fn commit(&self, _facts: &CommitFacts) -> Result<Stat> {
        self.tree()?.node(&self.path).map(|node| node.stat.clone())
    }

    fn abort(&self) {}
}
