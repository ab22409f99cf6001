//! The entries of directories.

use types::{Result, Unlisted};

use super::stat::Stat;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name without slashes.
    pub name: String,
    /// Its properties; symbolic links are already followed.
    pub stat: Stat,
}

/// A directory that is read in batches.
pub trait Listing: Send {
    /// The next entries in no particular order, at most
    /// [`LISTING_BATCH_ENTRIES`](types::limits::LISTING_BATCH_ENTRIES); empty at the end.
    ///
    /// # Errors
    /// `storage_failed` when the rest of the directory cannot be read.
    fn next_batch(&mut self) -> Result<Vec<Entry>>;

    /// The names of the next entries, as [`Listing::next_batch`] would return them. A store
    /// overrides it where properties take a call for each entry.
    ///
    /// # Errors
    /// As [`Listing::next_batch`].
    fn next_names(&mut self) -> Result<Vec<String>> {
        Ok(self.next_batch()?.into_iter().map(|entry| entry.name).collect())
    }

    /// What has been left out so far, not counting hidden names.
    fn unlisted(&self) -> Unlisted {
        Unlisted::default()
    }
}
