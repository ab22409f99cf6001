//! Reading objects, and what is said of them.

use http_wire::{Method, RequestBuilder};
use s3_wire::limits::PART_BYTES_MAX;
use s3_wire::{Place, Request, header};
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, PeerStatus, Phase, Result, Side};

use super::client::{Client, Small};
use super::patience::Patience;
use crate::http::{Answer, Ask, Body, Download, Hop};
use crate::limits::SIGNED_FOR_COPY_LIFETIME;
use crate::options::{Direction, GetOptions};
use crate::resource::{Facts, Resource, Validator};

impl Client {
    /// Asks what an object is (HEAD), with the checksums that the store keeps.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn head(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Result<Facts> {
        let place = self.place(file)?;
        let mode = [(header::CHECKSUM_MODE, "ENABLED")];
        // What a source keeps comes at no cost, and saves a second question.
        let wants = !wanted.is_empty() || file.side == Side::Source;
        let request = Request {
            headers: if wants { &mode } else { &[] },
            ..Request::plain(s3_wire::Method::Head)
        };
        let answer = self.ask_head(file, &place, &request).await?;
        let mut facts = Facts::of(&answer.head, &answer.file);
        let tags = answer.head.headers.get(header::TAGGING_COUNT).map(str::to_owned);
        answer.release();
        let is_untold = |algorithm| facts.checksums.iter().all(|known| known.algorithm() != algorithm);
        // What an export tells must be of this version: it reads the tags by itself.
        if file.side != Side::Upstream
            && wanted.contains(&ChecksumAlgorithm::Adler32)
            && is_untold(ChecksumAlgorithm::Adler32)
            && tags.is_some_and(|count| count != "0")
        {
            let etag = facts.etag.as_deref().unwrap_or_default();
            let told = self.tagged_adler32(file, &place, etag).await;
            facts.checksums.extend(told);
        }
        Ok(facts)
    }

    /// The Adler-32 that a tag of the object tells. Not everyone may read tags.
    async fn tagged_adler32(&self, file: &Resource, place: &Place, etag: &str) -> Option<Checksum> {
        s3_wire::tagged_adler32(&self.tags(file, place).await.ok()?, etag)
    }

    /// The answer to HEAD. A refusal has no words there, so the first byte is asked for, too: its
    /// refusal says whether the key, the signature or the clock is wrong, or the bucket is missing.
    pub(super) async fn ask_head(&self, file: &Resource, place: &Place, request: &Request<'_>) -> Result<Answer> {
        match self.ask_head_or_list(file, place, request).await {
            Err(error) if error.peer_status() == Some(PeerStatus::Http(404)) => self.worded(file, error).await,
            answered => answered,
        }
    }

    /// As [`Client::ask_head`], for a caller that lists the place if it is missing: the listing
    /// then says what else may be wrong.
    pub(super) async fn ask_head_or_list(
        &self,
        file: &Resource,
        place: &Place,
        request: &Request<'_>,
    ) -> Result<Answer> {
        match self.ask(file, place, &Small::of(request.clone())).await {
            Err(error) if matches!(error.peer_status(), Some(PeerStatus::Http(400 | 403))) => {
                self.worded(file, error).await
            }
            answered => answered,
        }
    }

    /// The refusal with the server's words, if it refuses GET in the same way.
    async fn worded(&self, file: &Resource, error: Error) -> Result<Answer> {
        let options = GetOptions {
            range: Some(ByteRange::new(0, 1)),
            ..GetOptions::default()
        };
        match self.get(file, &options).await {
            Err(told) if told.peer_status() == error.peer_status() => Err(told),
            _ => Err(error),
        }
    }

    /// Begins to read an object or a part of it, of the wanted version.
    ///
    /// # Errors
    /// The server's refusal; `source_changed`; `peer_misbehaved` for other bytes.
    pub(crate) async fn get(&self, file: &Resource, options: &GetOptions) -> Result<Download> {
        let place = self.place(file)?;
        let mode = [(header::CHECKSUM_MODE, "ENABLED")];
        let wants_checksum = options.range.is_none() && !options.wanted.is_empty();
        let request = Request {
            headers: if wants_checksum { &mode } else { &[] },
            ..Request::plain(s3_wire::Method::Get)
        };
        let headers = |request: RequestBuilder, _: &Hop<'_>| get_headers(request, options);
        let ask = Ask {
            method: Method::Get,
            headers: &headers,
            body: Body::Nothing,
        };
        let mut patience = Patience::default();
        loop {
            let aimed = self.aim(file, &self.moved(&place), &request)?;
            let answered = self.http.ask(&aimed, &ask).await;
            let error = match answered {
                Ok(answer) => match Download::accept(answer, options).await {
                    Ok(download) => return Ok(download),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            patience.after(self, file, &place, error).await?;
        }
    }

    /// A URL with which another server can read the object, or store it by one request.
    ///
    /// # Errors
    /// `peer_unsupported` for more bytes than one request can store.
    pub(super) fn signed_for_copy(
        &self,
        file: &Resource,
        direction: Direction,
        size_bytes: Option<u64>,
    ) -> Result<Location> {
        let method = match direction {
            Direction::Pull => s3_wire::Method::Get,
            Direction::Push if size_bytes > Some(PART_BYTES_MAX) => {
                let error = file.error(ErrorCode::PeerUnsupported, Phase::Open);
                return Err(error.with_detail("by a signed URL another server stores at most 5 GiB"));
            }
            Direction::Push => s3_wire::Method::Put,
        };
        let place = self.place(file)?;
        let lifetime_s = SIGNED_FOR_COPY_LIFETIME.as_secs();
        Ok(self
            .aim_for(file, &place, &Request::plain(method), lifetime_s)?
            .location)
    }
}

fn get_headers(request: RequestBuilder, options: &GetOptions) -> RequestBuilder {
    let mut request = request.accept_file();
    if let Some(range) = options.range {
        request = request.range(range);
    }
    match &options.validator {
        Some(Validator::Tag(tag)) => request.if_match(tag),
        _ => request,
    }
}
