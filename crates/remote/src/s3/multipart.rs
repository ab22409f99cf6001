//! Multipart uploads: an object is stored in parts, in any order, and appears when all are there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use s3_wire::limits::{ANSWER_BYTES_MAX, PARTS_MAX};
use s3_wire::{Place, Refusal, Request, complete_body, completed, upload_id};
use types::{Error, ErrorCode, PeerStatus, Phase, Result};

use super::client::{Client, Small};
use super::patience::Patience;
use crate::http;
use crate::limits::S3_REMOVAL_PAUSES;
use crate::options::Stored;
use crate::outlet::FileUpload;
use crate::resource::{Resource, Validator};

/// An upload in parts. Dropping it before its end removes the parts in the background.
pub(super) struct Multipart {
    client: Client,
    file: Resource,
    place: Place,
    id: String,
    overwrite: bool,
    /// The entity tags of the parts that are stored, by their index from 0.
    tags: Mutex<BTreeMap<u64, String>>,
    is_open: bool,
}

impl Multipart {
    /// Begins an upload.
    ///
    /// # Errors
    /// The server's refusal.
    pub(super) async fn begin(client: &Client, file: &Resource, place: &Place, overwrite: bool) -> Result<Self> {
        let request = Request {
            query: &[("uploads", "")],
            ..Request::plain(s3_wire::Method::Post)
        };
        let body = client.ask_document(file, place, &Small::of(request)).await?;
        let upload = upload_id(&body).map_err(|error| file.blame(error))?;
        Ok(Self {
            client: client.clone(),
            file: file.clone(),
            place: place.clone(),
            id: upload.id,
            overwrite,
            tags: Mutex::default(),
            is_open: true,
        })
    }

    /// Begins to send a part of known size; parts are counted from 0.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for more parts than an object may have.
    pub(super) async fn part(&self, index: u64, size_bytes: u64) -> Result<http::Outlet> {
        if index >= PARTS_MAX {
            let error = self.file.error(ErrorCode::PeerUnsupported, Phase::Transfer);
            return Err(error.with_detail("the object would have more than 10000 parts: its size must be known before"));
        }
        let number = (index + 1).to_string();
        let request = Request {
            query: &[("partNumber", &number), ("uploadId", &self.id)],
            ..Request::plain(s3_wire::Method::Put)
        };
        self.client
            .put_at(&self.file, &self.place, &request, size_bytes, true)
            .await
    }

    /// Ends a part.
    ///
    /// # Errors
    /// The server's refusal; an answer without an entity tag.
    pub(super) async fn finish_part(&self, index: u64, outlet: http::Outlet) -> Result<()> {
        self.end_part(index, outlet.finish().await)
    }

    /// Notes how a part was stored.
    ///
    /// # Errors
    /// As [`Multipart::finish_part`].
    pub(super) fn end_part(&self, index: u64, stored: Result<Stored>) -> Result<()> {
        let stored = stored.map_err(|error| self.file.blame(error))?;
        let Some(Validator::Tag(tag)) = stored.version else {
            let error = self.file.error(ErrorCode::PeerMisbehaved, Phase::Transfer);
            return Err(error.with_detail("the server did not name the part"));
        };
        self.tags().insert(index, tag);
        Ok(())
    }

    fn tags(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, String>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an object of the parts. A status of 200 is no success yet: the body decides.
    ///
    /// # Errors
    /// `internal` if a part is missing; the server's refusal; `peer_exists`.
    pub(super) async fn complete(mut self) -> Result<Stored> {
        let body = {
            let tags = self.tags();
            if tags.keys().copied().ne(0..tags.len() as u64) || tags.is_empty() {
                return Err(self
                    .file
                    .error(ErrorCode::Internal, Phase::Commit)
                    .with_private("a part is missing"));
            }
            complete_body(tags.values().map(String::as_str))
        };
        let request = Request {
            query: &[("uploadId", &self.id)],
            ..Request::plain(s3_wire::Method::Post)
        };
        let small = Small {
            body: body.as_bytes(),
            is_new: !self.overwrite,
            ..Small::of(request)
        };
        let mut patience = Patience::default();
        loop {
            let error = match self.complete_once(&small).await {
                Ok(stored) => {
                    self.is_open = false;
                    return Ok(stored);
                }
                Err(error) => error.in_phase(Phase::Commit),
            };
            patience.after(&self.client, &self.file, &self.place, error).await?;
        }
    }

    async fn complete_once(&self, small: &Small<'_>) -> Result<Stored> {
        let mut answer = self.client.ask_once(&self.file, &self.place, small).await?;
        match answer.head.status {
            412 if !self.overwrite => return Err(answer.refused_as(ErrorCode::PeerExists).await),
            200..300 => {}
            _ => return Err(answer.refused().await),
        }
        let body = answer.collect(ANSWER_BYTES_MAX).await?;
        answer.release();
        match completed(&body) {
            Ok(tag) => Ok(Stored {
                version: tag.map(Validator::Tag),
                ..Stored::default()
            }),
            Err(Some(refusal)) => Err(self.refused_late(&refusal)),
            Err(None) => {
                let error = self.file.error(ErrorCode::PeerMisbehaved, Phase::Commit);
                Err(error.with_detail("the answer does not say whether the object is stored"))
            }
        }
    }

    /// A refusal behind the status 200.
    fn refused_late(&self, refusal: &Refusal) -> Error {
        let status = match refusal.code.as_str() {
            "SlowDown" | "ServiceUnavailable" => 503,
            _ if refusal.may_pass() => 500,
            _ => 200,
        };
        let code = refusal.meaning.unwrap_or(ErrorCode::PeerFailed);
        let error = self.file.error(code, Phase::Commit);
        error.with_peer(Some(PeerStatus::Http(status)), &refusal.words())
    }
}

async fn remove(client: &Client, file: &Resource, place: &Place, id: &str) {
    let request = Request {
        query: &[("uploadId", id)],
        ..Request::plain(s3_wire::Method::Delete)
    };
    // A part that is still on its way may be stored after the removal ("AbortMultipartUpload" in
    // the Amazon S3 API reference), so it is repeated until there is no such upload. Nothing refers
    // to the parts: if this fails, they are left until the bucket's rules remove them.
    for pause in S3_REMOVAL_PAUSES {
        match client.ask(file, place, &Small::of(request.clone())).await {
            Ok(answer) => answer.finish().await,
            Err(_) => return,
        }
        tokio::time::sleep(pause).await;
    }
}

impl Drop for Multipart {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let (client, file, place) = (self.client.clone(), self.file.clone(), self.place.clone());
        let id = std::mem::take(&mut self.id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let removals = Arc::clone(&client.removals);
            let mut removals = removals.lock().unwrap_or_else(PoisonError::into_inner);
            while removals.try_join_next().is_some() {}
            removals.spawn_on(async move { remove(&client, &file, &place, &id).await }, &runtime);
        }
    }
}

impl fmt::Debug for Multipart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Multipart({}, {} parts)",
            self.file.location,
            self.tags().len()
        )
    }
}
