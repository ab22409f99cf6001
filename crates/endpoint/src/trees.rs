//! What doors do to a directory of a store with everything in it. Each takes a thread of the blocking pool, and the client's share
//! of those meanwhile.

use storage::{Replacing, Storage, TreeFailure};
use types::{LogicalPath, Result};

use crate::fair_share::Share;
use crate::store::Store;

impl Store {
    async fn run_with_share<T: Send + 'static>(
        &self,
        share: Share,
        call: impl FnOnce(&dyn Storage) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_blocking(move |storage| {
            let _held = share;
            call(storage)
        })
        .await
    }

    /// Removes a directory with everything in it, to the end even if its caller has gone.
    ///
    /// # Errors
    /// As [`Storage::remove_tree`].
    pub async fn remove_tree(&self, path: &LogicalPath, share: Share) -> Result<Option<TreeFailure>> {
        let path = path.clone();
        self.run_with_share(share, move |storage| storage.remove_tree(&path))
            .await
    }

    /// Copies a file or a directory, to the end even if its caller has gone.
    ///
    /// # Errors
    /// As [`Storage::copy_tree`].
    pub async fn copy_tree(
        &self,
        (from, to): (&LogicalPath, &LogicalPath),
        members: bool,
        replacing: Replacing,
        share: Share,
    ) -> Result<bool> {
        let (from, to) = (from.clone(), to.clone());
        self.run_with_share(share, move |storage| storage.copy_tree(&from, &to, members, replacing))
            .await
    }

    /// Gives something the name of what may be a directory.
    ///
    /// # Errors
    /// As [`Storage::move_over`].
    pub async fn move_over(
        &self,
        (from, to): (&LogicalPath, &LogicalPath),
        replacing: Replacing,
        share: Share,
    ) -> Result<bool> {
        let (from, to) = (from.clone(), to.clone());
        self.run_with_share(share, move |storage| storage.move_over(&from, &to, replacing))
            .await
    }
}
