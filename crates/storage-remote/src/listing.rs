//! A directory of the server, in batches as they come.

use remote::Listing;
use storage::{Answer, DirectoryReader, Entry};
use types::{LogicalPath, Result, Unlisted};

use crate::stat::stat;
use crate::upstream::Upstream;

/// A listing that is on its way.
pub(crate) struct Directory {
    upstream: Upstream,
    path: LogicalPath,
    /// `None` at the end and after an error.
    listing: Option<Listing>,
    /// What the server sent before it was asked for.
    first: Vec<Entry>,
    unlisted: Unlisted,
}

impl Directory {
    /// Begins to list. Waits for the first entries: that it is no directory may come with them.
    pub(crate) async fn begin(upstream: &Upstream, path: &LogicalPath) -> Result<Self> {
        let blamed = |error| upstream.blame(&error, path);
        let listing = upstream.client.list(&upstream.resource(path)).await.map_err(blamed)?;
        let mut this = Self {
            upstream: upstream.clone(),
            path: path.clone(),
            listing: Some(listing),
            first: Vec::new(),
            unlisted: Unlisted::default(),
        };
        this.first = this.read().await?;
        Ok(this)
    }

    /// The next entries; empty at the end.
    async fn read(&mut self) -> Result<Vec<Entry>> {
        while let Some(listing) = &mut self.listing {
            match listing.next().await {
                Ok(Some(batch)) => {
                    let entries = self.shown(batch);
                    if !entries.is_empty() {
                        return Ok(entries);
                    }
                }
                Ok(None) => {
                    self.unlisted.remark = listing.description().map(str::to_owned);
                    self.listing = None;
                }
                Err(error) => {
                    self.listing = None;
                    return Err(self.upstream.blame(&error, &self.path));
                }
            }
        }
        Ok(Vec::new())
    }

    /// The entries that a path can name.
    fn shown(&mut self, batch: Vec<remote::Entry>) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(batch.len());
        for entry in batch {
            let name = entry.name();
            if entry.is_special || self.path.check_join(name).is_err() {
                self.unlisted.names.add(name.as_bytes());
            } else {
                let (name, stat) = (name.to_owned(), stat(&entry));
                entries.push(Entry { name, stat });
            }
        }
        entries
    }
}

impl DirectoryReader for Directory {
    fn next_batch(&mut self) -> Answer<'_, Vec<Entry>> {
        Box::pin(async {
            match self.first.is_empty() {
                true => self.read().await,
                false => Ok(std::mem::take(&mut self.first)),
            }
        })
    }

    fn unlisted(&self) -> Unlisted {
        self.unlisted.clone()
    }
}
