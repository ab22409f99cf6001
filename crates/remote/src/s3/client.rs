//! What all S3 requests of a client share: signing, repeating, and the regions of buckets.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http_wire::{ForwardedHeaders, Method, RequestBuilder};
use s3_wire::limits::ANSWER_BYTES_MAX;
use s3_wire::{Account, Place, Request, SumKind, header, signed};
use tokio::task::JoinSet;
use types::Result;

use super::patience::Patience;
use crate::client::{ClientOptions, PinnedHost};
use crate::http::{self, Answer, Ask, Body, Hop};
use crate::journal::Journal;
use crate::limits::{S3_REMOVAL_WAIT, SIGNED_LIFETIME};
use crate::resource::{Access, Resource};

/// A client for any number of S3 stores. Clones share connections and what they have learned.
#[derive(Clone)]
pub(crate) struct Client {
    pub(super) options: Arc<ClientOptions>,
    pub(super) http: http::Client,
    /// The regions of buckets that are not in the one that was tried first, by [`Place::root`].
    regions: Arc<Mutex<HashMap<String, String>>>,
    /// Removals of parts that failed uploads left.
    pub(super) removals: Arc<Mutex<JoinSet<()>>>,
    /// The checksums that servers compute of parts, by their addresses.
    checksums: Arc<Mutex<HashMap<String, Option<SumKind>>>>,
    /// Where begun uploads are noted, if anywhere.
    pub(super) journal: Option<Arc<Journal>>,
}

/// A request with a body of a few bytes at most.
pub(super) struct Small<'a> {
    pub(super) request: Request<'a>,
    pub(super) body: &'a [u8],
    /// The version that the object must have (`If-Match`).
    pub(super) version: Option<&'a str>,
    /// Refused if there is such an object (`If-None-Match: *`).
    pub(super) is_new: bool,
}

impl<'a> Small<'a> {
    /// A request without a body.
    pub(super) fn of(request: Request<'a>) -> Self {
        Self {
            request,
            body: b"",
            version: None,
            is_new: false,
        }
    }

    fn headers(&self, request: RequestBuilder) -> RequestBuilder {
        let mut request = request.accept_anything();
        if matches!(self.request.method, s3_wire::Method::Post | s3_wire::Method::Put) {
            request = request.content_length(self.body.len() as u64);
        }
        if let Some(tag) = self.version {
            request = request.if_match(tag);
        }
        match self.is_new {
            true => request.if_absent(),
            false => request,
        }
    }
}

impl Client {
    /// A client without connections.
    pub(crate) fn new(options: Arc<ClientOptions>) -> Self {
        Self::over(http::Client::new(Arc::clone(&options)), options)
    }

    /// A client that reaches a host only at one address.
    pub(crate) fn pinned(options: Arc<ClientOptions>, pin: PinnedHost) -> Self {
        Self::over(http::Client::pinned(Arc::clone(&options), pin), options)
    }

    fn over(http: http::Client, options: Arc<ClientOptions>) -> Self {
        Self {
            options,
            http,
            regions: Arc::default(),
            removals: Arc::default(),
            checksums: Arc::default(),
            journal: None,
        }
    }

    /// The same, which notes the uploads that it begins in a directory, and removes those that
    /// killed processes have noted there.
    pub(crate) fn with_journal(self, directory: &Path) -> Self {
        Self {
            journal: Some(Arc::new(Journal::new(directory, "uploads"))),
            ..self
        }
    }

    /// The checksum that the server of a place computes of parts, if that is known.
    pub(super) fn kept_sum(&self, place: &Place) -> Option<Option<SumKind>> {
        let known = self.checksums.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(place.server()).copied()
    }

    pub(super) fn note_kept_sum(&self, place: &Place, kept: Option<SumKind>) {
        let mut known = self.checksums.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(place.server().to_owned(), kept);
    }

    /// Bucket and key of a file. What killed processes left in the bucket is removed beside.
    pub(super) fn place(&self, file: &Resource) -> Result<Place> {
        let place = self.place_of(file)?;
        self.sweep(file, &place);
        Ok(place)
    }

    /// As [`Client::place`], without the removal.
    pub(super) fn place_of(&self, file: &Resource) -> Result<Place> {
        let host = file.location.host();
        let usual = s3_wire::Addressing::usual(host);
        let addressing = file
            .access
            .account
            .as_ref()
            .map_or(usual, |account| account.addressing(host));
        let place = Place::of(&file.location, addressing).map_err(|error| file.blame(error))?;
        Ok(match self.learned_region(&place) {
            Some(region) => place.in_region(&region),
            None => place,
        })
    }

    /// The resource of a request: the signed URL, with the headers that were signed and no other
    /// credential. `lifetime_s` seconds later the server refuses the URL.
    pub(super) fn aim(&self, file: &Resource, place: &Place, request: &Request<'_>) -> Result<Resource> {
        self.aim_for(file, place, request, SIGNED_LIFETIME.as_secs())
    }

    pub(super) fn aim_for(
        &self,
        file: &Resource,
        place: &Place,
        request: &Request<'_>,
        lifetime_s: u64,
    ) -> Result<Resource> {
        let account = file.access.account.as_deref();
        let region = self.learned_region(place);
        let region = region
            .as_deref()
            .or(account.and_then(|account| account.region.as_deref()));
        let region = region.unwrap_or(Account::REGION);
        let location = signed(account, region, place, request, now_s(), lifetime_s);
        let mut headers = ForwardedHeaders::default();
        for (name, value) in request.headers {
            headers.push(name, value).map_err(|error| file.blame(error))?;
        }
        let access = Access {
            forwarded: headers,
            returns_delays: file.access.returns_delays,
            signed_for: Some(Arc::new(file.location.clone())),
            trace: file.access.trace.clone(),
            activity: file.access.activity.clone(),
            ..Access::default()
        };
        Ok(Resource {
            location: location.map_err(|error| file.blame(error))?,
            access,
            side: file.side,
        })
    }

    /// Sends a request without payload, again where that helps, and returns the successful answer.
    ///
    /// # Errors
    /// The server's refusal.
    pub(super) async fn ask(&self, file: &Resource, place: &Place, small: &Small<'_>) -> Result<Answer> {
        let mut patience = Patience::default();
        loop {
            let error = match self.ask_once(file, place, small).await {
                Ok(answer) if answer.is_success() => return Ok(answer),
                Ok(answer) => answer.refused().await,
                Err(error) => error,
            };
            patience.after(self, file, place, error).await?;
        }
    }

    /// The answer, whatever its status.
    pub(super) async fn ask_once(&self, file: &Resource, place: &Place, small: &Small<'_>) -> Result<Answer> {
        let headers = |request: RequestBuilder, _: &Hop<'_>| small.headers(request);
        let ask = Ask {
            method: Method::from_name(small.request.method.to_str()),
            headers: &headers,
            body: match small.body {
                b"" => Body::Nothing,
                body => Body::Small(body),
            },
        };
        let aimed = self.aim(file, &self.moved(place), &small.request)?;
        self.http.ask(&aimed, &ask).await
    }

    /// As [`Client::ask`], with the whole body of the answer.
    pub(super) async fn ask_document(&self, file: &Resource, place: &Place, small: &Small<'_>) -> Result<Vec<u8>> {
        let mut answer = self.ask(file, place, small).await?;
        let body = answer.collect(ANSWER_BYTES_MAX).await?;
        answer.release();
        Ok(body)
    }

    /// Waits until the parts of failed uploads are removed, as long as that takes no longer than
    /// [`S3_REMOVAL_WAIT`].
    pub(super) async fn settle(&self) {
        let mut removals = std::mem::take(&mut *self.removals.lock().unwrap_or_else(PoisonError::into_inner));
        let removed = async { while removals.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(S3_REMOVAL_WAIT, removed).await;
        // What is still on its way goes on.
        removals.detach_all();
    }

    /// The place in the region that was learned meanwhile.
    pub(super) fn moved(&self, place: &Place) -> Place {
        match self.learned_region(place) {
            Some(region) => place.in_region(&region),
            None => place.clone(),
        }
    }

    fn learned_region(&self, place: &Place) -> Option<String> {
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions.get(&place.bucket).cloned()
    }

    /// Asks in which region a bucket is (`HeadBucket`), which servers say in refusals too. Whether
    /// that is news.
    pub(super) async fn learn_region(&self, file: &Resource, place: &Place) -> bool {
        let bucket = place.root();
        let small = Small::of(Request::plain(s3_wire::Method::Head));
        let Ok(answer) = Box::pin(self.ask_once(file, &bucket, &small)).await else {
            return false;
        };
        let region = answer.head.headers.get(header::BUCKET_REGION).map(str::to_owned);
        answer.finish().await;
        let Some(region) = region.filter(|region| s3_wire::is_region(region)) else {
            return false;
        };
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions.insert(place.bucket.clone(), region.clone()) != Some(region)
    }
}

/// The time, in seconds since 1970.
pub(super) fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}
