//! A directory of the server, in batches as they come.

use remote::Listing;
use storage::{Answer, DirectoryReader, Entry};
use types::{LogicalPath, Result, Unlisted};

use crate::minter::LIST;
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
    /// Files at a server of objects.
    above: Above,
}

impl Directory {
    /// Begins to list. Waits for the first entries: that it is no directory may come with them.
    pub(crate) async fn begin(upstream: &Upstream, path: &LogicalPath) -> Result<Self> {
        let blamed = |error| upstream.blame(&error, path);
        let listing = match upstream
            .client
            .list(&upstream.resource_for(path, LIST))
            .await
            .map_err(blamed)
        {
            Err(error) if upstream.is_empty_root(path, &error) => None,
            begun => Some(begun?),
        };
        let mut this = Self {
            upstream: upstream.clone(),
            path: path.clone(),
            listing,
            above: Above::default(),
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
    fn shown(&mut self, mut batch: Vec<remote::Entry>) -> Vec<Entry> {
        let are_objects = self.upstream.is_object_store();
        if are_objects {
            batch.sort_by_cached_key(key);
        }
        let mut entries = Vec::with_capacity(batch.len());
        for entry in batch {
            let name = entry.name();
            if are_objects && self.above.hides(&entry) {
                self.unlisted.names.add(format!("{name}/").as_bytes());
            } else if entry.is_special || self.path.check_join(name).is_err() {
                self.unlisted.names.add(name.as_bytes());
            } else {
                let (name, stat) = (name.to_owned(), stat(&entry));
                entries.push(Entry { name, stat });
            }
        }
        entries
    }
}

/// The last files whose names begin that of the last entry.
#[derive(Default)]
struct Above(Vec<String>);

impl Above {
    /// Whether an entry stands for objects below a name that is an object, too. The object has the
    /// name. Entries come in the order of their keys, so it came before.
    fn hides(&mut self, entry: &remote::Entry) -> bool {
        let key = key(entry);
        while self.0.pop_if(|name| !key.starts_with(name.as_str())).is_some() {}
        if entry.is_directory {
            return self.0.iter().any(|name| name == entry.name());
        }
        self.0.push(key);
        false
    }
}

/// The name as a part of its key.
fn key(entry: &remote::Entry) -> String {
    let mark = if entry.is_directory { "/" } else { "" };
    format!("{}{mark}", entry.name())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_the_name_and_hides_those_below_it() {
        let mut above = Above::default();
        let mut is_shown = |(path, is_directory): &(&str, bool)| {
            let entry = remote::Entry {
                path: format!("/b/{path}"),
                is_directory: *is_directory,
                ..remote::Entry::default()
            };
            !above.hides(&entry)
        };
        let keys = [
            ("a", false),
            ("a!", true),
            ("a-b", false),
            ("a-b.c", false),
            ("a", true),
            ("a0", true),
        ];
        let shown: Vec<bool> = keys.iter().map(&mut is_shown).collect();
        assert_eq!(shown, [true, true, true, true, false, true]);
    }
}
