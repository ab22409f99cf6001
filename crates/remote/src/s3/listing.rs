//! The entries of a prefix, a page at a time.

use std::collections::VecDeque;
use std::fmt;

use s3_wire::{BUCKET_ELSEWHERE, BucketEntry, Page, Place, Request, page};
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use super::client::{Client, Small};
use crate::Entry;
use crate::limits::LISTING_PAGE_BYTES;
use crate::listing::{DirectoryListing, Extent};
use crate::protocol::Pending;
use crate::resource::Resource;

/// A listing on its way from a server. It holds one page of at most a thousand entries.
pub(crate) struct Listing {
    client: Client,
    directory: Resource,
    place: Place,
    /// The first page, if it was asked for already.
    first: Option<Page>,
    next: Option<String>,
    tokens: Tokens,
    extent: Extent,
    is_over: bool,
    /// Keys that no path can name.
    omitted: VecDeque<String>,
    omitted_count: u64,
    description: Option<String>,
}

impl Client {
    /// One page of what is directly below a prefix, of at most `most` entries.
    pub(super) async fn page(
        &self,
        file: &Resource,
        place: &Place,
        prefix: &str,
        token: Option<&str>,
        most: &str,
    ) -> Result<Page> {
        let mut query = vec![("list-type", "2"), ("delimiter", "/"), ("max-keys", most)];
        if !prefix.is_empty() {
            query.push(("prefix", prefix));
        }
        query.extend(token.map(|token| ("continuation-token", token)));
        let request = Request {
            query: &query,
            ..Request::plain(s3_wire::Method::Get)
        };
        let asked = self.ask_document(file, &place.root(), &Small::of(request)).await;
        let body = asked.map_err(|error| match is_about_object(&error) {
            true => file
                .error(ErrorCode::PeerMisbehaved, Phase::Open)
                .with_detail(BUCKET_ELSEWHERE),
            false => error,
        })?;
        page(&body).map_err(|error| file.blame(error))
    }

    /// Begins to list a directory: what has its name and a slash as prefix. The server itself has
    /// its buckets as entries.
    ///
    /// # Errors
    /// `not_directory` for an object, `peer_not_found` for nothing, another refusal.
    pub(crate) async fn list(&self, directory: &Resource) -> Result<Listing> {
        let place = self.place(directory)?;
        let mut listing = Listing {
            client: self.clone(),
            directory: directory.clone(),
            place: place.clone(),
            first: None,
            next: None,
            tokens: Tokens::default(),
            extent: Extent::default(),
            is_over: false,
            omitted: VecDeque::new(),
            omitted_count: 0,
            description: None,
        };
        if place.bucket.is_empty() {
            let request = Request::plain(s3_wire::Method::Get);
            let body = self.ask_document(directory, &place, &Small::of(request)).await?;
            let entries = s3_wire::buckets(&body).map_err(|error| directory.blame(error))?;
            listing.first = Some(Page { entries, next: None });
            return Ok(listing);
        }
        let first = self
            .page(directory, &place, &place.prefix(), None, PAGE_ENTRIES)
            .await?;
        if first.entries.is_empty() && !place.key.is_empty() {
            let refused = match self.head(directory, &[]).await {
                Ok(_) => directory.error(ErrorCode::NotDirectory, Phase::Open),
                Err(error) => error,
            };
            return Err(refused);
        }
        listing.first = Some(first);
        Ok(listing)
    }
}

/// Whether the server took the bucket in the path for an object: it has the bucket in the host.
fn is_about_object(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default();
    error.code() == ErrorCode::PeerNotFound && words.starts_with("NoSuchKey")
}

/// The most that servers give.
const PAGE_ENTRIES: &str = "1000";

/// Names of omitted keys that are shown.
const OMITTED_SHOWN_MAX: usize = 3;

impl Listing {
    async fn next_page(&mut self) -> Result<Option<Page>> {
        if let Some(first) = self.first.take() {
            if let Some(next) = &first.next {
                self.tokens.repeat(next);
            }
            return Ok(Some(first));
        }
        let Some(token) = self.next.take() else { return Ok(None) };
        let prefix = self.place.prefix();
        let page = self
            .client
            .page(&self.directory, &self.place, &prefix, Some(&token), PAGE_ENTRIES);
        let page = page.await?;
        // It would never end.
        if page.next.as_ref().is_some_and(|next| self.tokens.repeat(next)) {
            let error = self.directory.error(ErrorCode::PeerMisbehaved, Phase::Transfer);
            return Err(error.with_detail("the listing does not advance"));
        }
        Ok(Some(page))
    }

    fn entry(&mut self, prefix: &str, found: BucketEntry) -> Option<Entry> {
        // The object with the name of the directory stands for the directory itself.
        let name = found.key.strip_prefix(prefix).filter(|name| !name.is_empty())?;
        let name = if found.is_prefix {
            name.strip_suffix('/').unwrap_or(name)
        } else {
            name
        };
        if LogicalPath::root().join(name).is_err() {
            self.omitted_count += 1;
            if self.omitted.len() < OMITTED_SHOWN_MAX {
                self.omitted.push_back(found.key.escape_debug().to_string());
            }
            return None;
        }
        let above = match self.place.bucket.is_empty() {
            true => String::new(),
            false => format!("/{}/{prefix}", self.place.bucket),
        };
        Some(Entry {
            path: format!("{}/{name}", above.trim_end_matches('/')),
            is_directory: found.is_prefix,
            size_bytes: found.size_bytes,
            modified_s: found.modified_s,
            etag: found.etag,
            ..Entry::default()
        })
    }
}

/// Notices that a listing goes round in circles, in little memory: of the tokens for further pages
/// it remembers one, and another after twice as many pages (Brent's algorithm).
#[derive(Debug)]
pub(super) struct Tokens {
    remembered: String,
    pages: u64,
    pages_max: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            remembered: String::new(),
            pages: 0,
            pages_max: 1,
        }
    }
}

impl Tokens {
    /// Whether the token came before.
    pub(super) fn repeat(&mut self, token: &str) -> bool {
        if self.remembered == token {
            return true;
        }
        self.pages += 1;
        if self.pages == self.pages_max {
            token.clone_into(&mut self.remembered);
            (self.pages, self.pages_max) = (0, self.pages_max * 2);
        }
        false
    }
}

impl DirectoryListing for Listing {
    fn next(&mut self) -> Pending<'_, Option<Vec<Entry>>> {
        Box::pin(async move {
            while !self.is_over {
                let Some(page) = self.next_page().await? else { break };
                self.next = page.next;
                self.extent
                    .note(page.entries.len(), LISTING_PAGE_BYTES, &self.directory)?;
                let prefix = self.place.prefix();
                let mut entries: Vec<Entry> = Vec::with_capacity(page.entries.len());
                for found in page.entries {
                    entries.extend(self.entry(&prefix, found));
                }
                if !entries.is_empty() {
                    return Ok(Some(entries));
                }
            }
            self.is_over = true;
            if self.omitted_count > 0 {
                let names: Vec<_> = self.omitted.iter().map(String::as_str).collect();
                let words = format!(
                    "{} keys that are no paths are left out: {}",
                    self.omitted_count,
                    names.join(", ")
                );
                self.description = Some(words);
            }
            Ok(None)
        })
    }

    fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Listing({})", self.directory.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_of_tokens_are_noticed() {
        for length in [1, 2, 3, 100] {
            let mut tokens = Tokens::default();
            let mut pages = (0..10_000).map(|page| format!("t{}", page % length));
            assert!(pages.any(|token| tokens.repeat(&token)), "{length}");
        }
        let mut tokens = Tokens::default();
        assert!((0..10_000).all(|page| !tokens.repeat(&format!("t{page}"))));
    }
}
