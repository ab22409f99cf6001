//! Uploads in parts that have not ended: a list of them, and the removal of those that processes of
//! this program left which were killed.

use std::fmt;
use std::sync::PoisonError;

use s3_wire::{Place, Request, UploadMarker, uploads};
use types::{ErrorCode, Location, Phase, Result, Side};

use super::client::{Client, Small};
use super::listing::Tokens;
use crate::journal::{JournalEntry, in_journal};
use crate::limits::{LISTING_PAGE_BYTES, S3_SWEEP_INTERVAL};
use crate::listing::Extent;
use crate::protocol::Pending;
use crate::resource::Resource;
use crate::unfinished::{UnfinishedUpload, UploadListing};

/// Uploads below a place, a page at a time.
pub(crate) struct Uploads {
    client: Client,
    file: Resource,
    place: Place,
    next: Option<UploadMarker>,
    tokens: Tokens,
    extent: Extent,
    is_over: bool,
}

impl Client {
    /// The uploads of objects at a place or below it.
    ///
    /// # Errors
    /// `bad_url` for a server without a bucket.
    pub(crate) async fn unfinished(&self, file: &Resource) -> Result<Uploads> {
        let place = self.place(file)?;
        if place.bucket.is_empty() {
            let error = file.error(ErrorCode::BadUrl, Phase::Open);
            return Err(error.with_detail("the URL names no bucket"));
        }
        Ok(Uploads {
            client: self.clone(),
            file: file.clone(),
            place,
            next: None,
            tokens: Tokens::default(),
            extent: Extent::default(),
            is_over: false,
        })
    }

    /// Notes an upload. That it cannot be noted is no reason to refuse it.
    pub(super) async fn journal_begin(&self, file: &Resource, id: &str) {
        if let Some(journal) = &self.journal {
            let entry = JournalEntry::upload(&file.location, id);
            in_journal(journal, move |journal| journal.begin(&entry)).await;
        }
    }

    /// Notes that an upload has ended.
    pub(super) async fn journal_end(&self, id: &str) {
        if let Some(journal) = &self.journal {
            let id = id.to_owned();
            in_journal(journal, move |journal| journal.end(&id)).await;
        }
    }

    /// Removes in the background what killed processes left in a bucket, with the credentials that
    /// are used there now.
    pub(super) fn sweep(&self, file: &Resource, place: &Place) {
        let Some(journal) = self.journal.as_ref().filter(|_| file.access.account.is_some()) else {
            return;
        };
        let bucket = format!("{}/{}", place.server(), place.bucket);
        let runtime = tokio::runtime::Handle::try_current();
        let Ok(runtime) = runtime.as_ref() else { return };
        if !journal.is_due(&bucket, S3_SWEEP_INTERVAL) {
            return;
        }
        let (client, file, place) = (self.clone(), file.clone(), place.clone());
        let mut removals = self.removals.lock().unwrap_or_else(PoisonError::into_inner);
        removals.spawn_on(async move { client.remove_lost(&file, &place).await }, runtime);
    }

    async fn remove_lost(&self, user: &Resource, bucket: &Place) {
        let Some(journal) = &self.journal else { return };
        let (client, user, bucket) = (self.clone(), user.clone(), bucket.clone());
        let there = move |location: &Location| client.object_in(&bucket, location, &user);
        let is_wanted = there.clone();
        let found = in_journal(journal, move |journal| {
            journal.lost(|location| is_wanted(location).is_some())
        });
        for mut lost in found.await.unwrap_or_default() {
            for upload in lost.entries.clone() {
                let Some((file, place)) = there(&upload.location) else {
                    continue;
                };
                if self.abort(&file, &place, &upload.id).await.is_ok() {
                    let ended = execution::blocking(move || {
                        // Another process will not find it either.
                        let _ = lost.end(&upload.id);
                        lost
                    });
                    let Ok(still) = ended.await else { return };
                    lost = still;
                }
            }
        }
    }

    /// An object, to be asked for with the credentials of `user`, if it is in this bucket.
    fn object_in(&self, bucket: &Place, location: &Location, user: &Resource) -> Option<(Resource, Place)> {
        let file = Resource {
            location: location.clone(),
            access: user.access.clone(),
            side: Side::Client,
        };
        // `place` would begin the removal again.
        let place = self.place_of(&file).ok()?;
        let is_here = place.shares_server(bucket) && place.bucket == bucket.bucket;
        is_here.then_some((file, place))
    }
}

impl Uploads {
    async fn page(&mut self) -> Result<Vec<UnfinishedUpload>> {
        let mut query = vec![("uploads", ""), ("max-uploads", "1000")];
        if !self.place.key.is_empty() {
            query.push(("prefix", &self.place.key));
        }
        if let Some(next) = &self.next {
            query.push(("key-marker", &next.key));
            if !next.id.is_empty() {
                query.push(("upload-id-marker", &next.id));
            }
        }
        let request = Request {
            query: &query,
            ..Request::plain(s3_wire::Method::Get)
        };
        let root = self.place.root();
        let body = self.client.ask_document(&self.file, &root, &Small::of(request)).await?;
        let page = uploads(&body).map_err(|error| self.file.blame(error))?;
        // It would never end.
        let token = |next: &UploadMarker| format!("{} {}", next.key, next.id);
        if page.next.as_ref().is_some_and(|next| self.tokens.repeat(&token(next))) {
            let error = self.file.error(ErrorCode::PeerMisbehaved, Phase::Transfer);
            return Err(error.with_detail("the list of uploads does not advance"));
        }
        self.extent.note(page.uploads.len(), LISTING_PAGE_BYTES, &self.file)?;
        self.is_over = page.next.is_none();
        self.next = page.next;
        let mut found = Vec::with_capacity(page.uploads.len());
        for upload in page
            .uploads
            .into_iter()
            .filter(|upload| self.place.contains(&upload.key))
        {
            found.push(UnfinishedUpload {
                location: self.location(&upload.key),
                id: upload.id,
                begun_s: upload.begun_s,
            });
        }
        Ok(found)
    }

    /// The URL of a key in the same bucket.
    fn location(&self, key: &str) -> Location {
        self.file.location.with_path(&self.place.with_key(key).path())
    }
}

impl UploadListing for Uploads {
    fn next(&mut self) -> Pending<'_, Option<Vec<UnfinishedUpload>>> {
        Box::pin(async move {
            while !self.is_over {
                let found = self.page().await?;
                if !found.is_empty() {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }
}

impl fmt::Debug for Uploads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Uploads({})", self.file.location)
    }
}
