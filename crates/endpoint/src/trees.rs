//! Operations on whole directory trees. Each occupies a thread of the blocking pool, and a unit of
//! the client's share.

use std::sync::Arc;

use storage::{Replacing, TreeFailure};
use types::{LogicalPath, Result};

use crate::fair_share::Share;
use crate::store::Store;

impl Store {
    /// The same files, whose calls hold the share until they end.
    fn with_share(&self, share: Share) -> Arc<dyn storage::Store> {
        self.holding(Arc::new((self.changing.clone(), share)))
    }

    /// Removes a directory with everything in it. Continues to the end even if the caller stops
    /// waiting.
    ///
    /// # Errors
    /// As [`storage::Storage::remove_tree`].
    pub async fn remove_tree(&self, path: &LogicalPath, share: Share) -> Result<Option<TreeFailure>> {
        self.with_share(share).remove_tree(path).await
    }

    /// Copies a file or a directory. Continues to the end even if the caller stops waiting.
    ///
    /// # Errors
    /// As [`storage::Storage::copy_tree`].
    pub async fn copy_tree(
        &self,
        from: &LogicalPath,
        to: &LogicalPath,
        members: bool,
        replacing: Replacing,
        share: Share,
    ) -> Result<bool> {
        self.with_share(share).copy_tree(from, to, members, replacing).await
    }

    /// Renames something over a name that may be a directory.
    ///
    /// # Errors
    /// As [`storage::Storage::move_over`].
    pub async fn move_over(
        &self,
        from: &LogicalPath,
        to: &LogicalPath,
        replacing: Replacing,
        share: Share,
    ) -> Result<bool> {
        self.with_share(share).move_over(from, to, replacing).await
    }
}
