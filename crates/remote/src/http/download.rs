//! HEAD and GET: the properties of a file, and its bytes.

use crate::limits::{CHECKSUM_ASKED_AGAIN_AFTER, CHECKSUM_PAUSE, CHECKSUM_PAUSE_MAX};
use http_wire::{Method, RequestBuilder, trailer_digests, transfer_status};
use net::{Batch, Ends};
use types::{ByteRange, ChecksumAlgorithm, Error, ErrorCode, Phase, Result};

use super::answer::Answer;
use super::client::Client;
use super::content::Known;
use super::exchange::{Ask, Body, Hop};
use super::verdict::{code_of, refusal};
use crate::download::FileDownload;
use crate::options::GetOptions;
use crate::protocol::Pending;
use crate::resource::{Facts, Resource, Validator};

/// For the answer to HEAD itself.
pub(super) const HEAD_ASKED: Known = Known {
    is_asked: true,
    size_bytes: None,
};

impl Client {
    /// Asks what a file is (HEAD), with the `wanted` checksums. A signed URL allows GET alone, and
    /// is not asked for checksums. A server that still computes them
    /// (202) is asked again, for some minutes. One that is silent for
    /// [`CHECKSUM_ASKED_AGAIN_AFTER`] is asked over another connection too, and the first answer
    /// counts.
    ///
    /// # Errors
    /// The server's refusal, or an answer that cannot be understood.
    pub(crate) async fn head(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Result<Facts> {
        if file.signature().is_some() {
            return self.facts_by_get(file).await;
        }
        let mut first = Box::pin(self.ask_facts(file, wanted));
        if wanted.is_empty() {
            return first.await;
        }
        if let Ok(facts) = tokio::time::timeout(CHECKSUM_ASKED_AGAIN_AFTER, first.as_mut()).await {
            return facts;
        }
        let mut second = Box::pin(self.ask_facts(file, wanted));
        tokio::select! {
            facts = first.as_mut() => match facts {
                Err(_) => second.await,
                facts => facts,
            },
            facts = second.as_mut() => match facts {
                Err(_) => first.await,
                facts => facts,
            },
        }
    }

    /// Asks XRootD at once again if the checksum is missing from its answer. The bug that makes it
    /// lose an answer can cause this too, and by then the checksum is computed.
    async fn ask_facts(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Result<Facts> {
        let (facts, is_from_xrootd) = self.ask_facts_once(file, wanted).await?;
        if wanted.is_empty() || !facts.checksums.is_empty() || !is_from_xrootd {
            return Ok(facts);
        }
        let again = self.ask_facts_once(file, wanted).await;
        Ok(again.map_or(facts, |(facts, _)| facts))
    }

    /// The facts, and whether the server is XRootD. As over its own protocol, it fails (`Program
    /// failed`, here a 500 without words) while it computes checksums of several files, and is
    /// asked again after a pause.
    async fn ask_facts_once(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Result<(Facts, bool)> {
        let headers = |request: RequestBuilder, _: &Hop<'_>| request.accept_file().want_digests(wanted);
        let ask = Ask {
            method: Method::Head,
            headers: &headers,
            body: Body::Nothing,
        };
        let mut pause = CHECKSUM_PAUSE;
        let answer = loop {
            let answer = self.ask_patiently(file, &ask).await?;
            let may_pass = answer.head.status == 500 && answer.head.is_from_xrootd() && !wanted.is_empty();
            if !may_pass || pause > CHECKSUM_PAUSE_MAX {
                break answer;
            }
            answer.finish().await;
            tokio::time::sleep(pause).await;
            pause *= 2;
        };
        let mut answer = self.check_content(answer, file, HEAD_ASKED).await?.success().await?;
        let facts = facts_of(&answer, !wanted.is_empty());
        let is_from_xrootd = answer.head.is_from_xrootd();
        if !wanted.is_empty() {
            answer.close_behind_checksums();
        }
        answer.release();
        Ok((facts, is_from_xrootd))
    }

    /// Begins to read a file. The answer for the whole file is 200; for a part it is 206 with
    /// exactly that part, or 200 when the part is the whole file.
    ///
    /// # Errors
    /// The server's refusal; `source_changed` when the validator no longer holds; `peer_misbehaved`
    /// when anything but the requested bytes would come.
    pub(crate) async fn get(&self, file: &Resource, options: &GetOptions) -> Result<Download> {
        if options.range.is_some_and(|range| range.is_empty()) {
            let error = file.error(ErrorCode::Internal, Phase::Open);
            return Err(error.with_detail("an empty range was to be read"));
        }
        let headers = |request: RequestBuilder, _: &Hop<'_>| get_headers(request, options);
        let ask = Ask {
            method: Method::Get,
            headers: &headers,
            body: Body::Nothing,
        };
        let answer = self.ask_patiently(file, &ask).await?;
        let known = Known {
            is_asked: options.is_asked,
            size_bytes: options.size_bytes,
        };
        let mut answer = self.check_content(answer, file, known).await?;
        if !options.wanted.is_empty() {
            answer.close_behind_checksums();
        }
        Download::accept(answer, options).await
    }
}

/// What an answer says of its file. XRootD 5.5.3 sends the checksum of an earlier request, of any
/// client and for another file, with answers to requests that did not ask for one, as a `Digest`;
/// later releases send no other header unasked. It may stand behind a proxy, so a `Digest` without
/// a question (RFC 3230 §4.3.2) counts from no server.
fn facts_of(answer: &Answer, has_asked: bool) -> Facts {
    let mut facts = Facts::of(&answer.head, &answer.file);
    if !has_asked && answer.head.headers.contains("digest") {
        facts.checksums.clear();
    }
    facts
}

fn get_headers(request: RequestBuilder, options: &GetOptions) -> RequestBuilder {
    let request = request.accept_file().want_digests(&options.wanted);
    match (options.range, &options.validator) {
        (Some(range), Some(validator)) => request.range(range).if_range(validator.text()),
        (Some(range), None) => request.range(range),
        (None, Some(Validator::Tag(tag))) => request.if_match(tag),
        (None, _) => request,
    }
}

/// A file, or a part of it, on its way from a server. Dropping it early closes the connection.
pub(crate) struct Download {
    answer: Option<Answer>,
    file: Resource,
    facts: Facts,
    range: ByteRange,
    announced_bytes: Option<u64>,
    received_bytes: u64,
    ends: Option<Ends>,
    /// A fault that was found with the last payload, for the call after it.
    fault: Option<Error>,
}

impl Download {
    pub(crate) async fn accept(answer: Answer, options: &GetOptions) -> Result<Self> {
        let facts = facts_of(&answer, !options.wanted.is_empty());
        match (answer.head.status, &options.validator, options.range) {
            (200 | 206, ..) => {}
            (412, Some(_), _) | (416, _, Some(_)) => return Err(answer.refused_as(ErrorCode::SourceChanged).await),
            (300..400, ..) if answer.file.access.signed_for.is_some() => return Err(answer.refused().await),
            (200..400, ..) => return Err(answer.misbehaved("this is no answer to a request for a file")),
            _ => return Err(answer.refused().await),
        }
        if options
            .validator
            .as_ref()
            .is_some_and(|validator| validator.contradicts(&facts))
        {
            let error = answer.file.error(ErrorCode::SourceChanged, Phase::Open);
            return Err(error.with_detail("its tag or date is another one now"));
        }
        let range = match options.range {
            Some(range) => check_part(&answer, &facts, range, options.validator.as_ref())?,
            None if answer.head.status == 206 => {
                return Err(answer.misbehaved("a part of the file came though all of it was asked for"));
            }
            None => ByteRange::whole(facts.size_bytes.unwrap_or(u64::MAX)),
        };
        let announced_bytes = options.range.map(|range| range.len()).or(facts.size_bytes);
        if let (Some(announced), Some(length)) = (announced_bytes, answer.head.content_length())
            && announced != length
        {
            return Err(answer.misbehaved("the length of the body is not that of the range"));
        }
        Ok(Self {
            file: answer.file.clone(),
            ends: answer.ends(),
            answer: Some(answer),
            facts,
            range,
            announced_bytes,
            received_bytes: 0,
            fault: None,
        })
    }

    /// Checks the length of the body, which has ended, and what its trailers say.
    fn end(&mut self) -> Result<()> {
        let Some(answer) = self.answer.take() else {
            return Ok(());
        };
        let trailers = answer.trailers();
        if let Some((status, words)) = transfer_status(trailers)
            && !(200..300).contains(&status)
        {
            return Err(refusal(&self.file, code_of(status), status, words).in_phase(Phase::Transfer));
        }
        let is_part = answer.head.status == 206;
        let told = trailer_digests(trailers, is_part).map_err(|error| {
            let side = self.file.error(error.code(), Phase::Transfer).side();
            error.at_side(side).in_phase(Phase::Transfer)
        })?;
        // A checksum that contradicts the head stays beside it: then no data match both.
        for checksum in told {
            if !self.facts.checksums.contains(&checksum) {
                self.facts.checksums.push(checksum);
            }
        }
        if self
            .announced_bytes
            .is_some_and(|announced| self.received_bytes != announced)
        {
            return Err(self.size_differs());
        }
        answer.release();
        Ok(())
    }

    fn size_differs(&self) -> Error {
        let announced = self.announced_bytes.unwrap_or_default();
        let detail = format!("{announced} bytes were announced, {} came", self.received_bytes);
        self.file
            .error(ErrorCode::PeerSizeDiffers, Phase::Transfer)
            .with_detail(detail)
    }
}

impl FileDownload for Download {
    /// Checksums in trailers are there once [`FileDownload::next`] has returned `None`.
    fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The end is `u64::MAX` when the whole file was requested and its size is unknown.
    fn range(&self) -> ByteRange {
        self.range
    }

    fn ends(&self) -> Option<Ends> {
        self.ends
    }

    /// The server's own verdict may come in a trailer (`X-Transfer-Status`).
    fn next(&mut self) -> Pending<'_, Option<Batch>> {
        Box::pin(async move {
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            let Some(answer) = &mut self.answer else {
                return Ok(None);
            };
            let next = answer.next().await;
            let done = answer.is_done();
            match next {
                Err(error) => {
                    self.answer = None;
                    Err(error)
                }
                Ok(None) => self.end().map(|()| None),
                Ok(Some(batch)) => {
                    self.received_bytes += batch.len() as u64;
                    if self
                        .announced_bytes
                        .is_some_and(|announced| self.received_bytes > announced)
                    {
                        self.answer = None;
                        return Err(self.size_differs());
                    }
                    if done {
                        self.fault = self.end().err();
                    }
                    Ok(Some(batch))
                }
            }
        })
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Download({} {:?})", self.file.location, self.range)
    }
}

/// Whether exactly the requested part comes.
fn check_part(answer: &Answer, facts: &Facts, wanted: ByteRange, validator: Option<&Validator>) -> Result<ByteRange> {
    if answer.head.status == 206 {
        return match answer.head.content_range().and_then(|part| part.range) {
            Some(range) if range == wanted => Ok(range),
            Some(range) => Err(answer.misbehaved(format!(
                "bytes {}-{} were asked for, {}-{} came",
                wanted.start,
                wanted.end - 1,
                range.start,
                range.end - 1
            ))),
            None => Err(answer.misbehaved("a partial answer that does not say which part it is")),
        };
    }
    if wanted.start == 0 && facts.size_bytes == Some(wanted.end) {
        return Ok(wanted);
    }
    // The whole file instead of a part: the condition failed, or the server does no ranges.
    if validator.is_some_and(|validator| !validator.confirmed_by(facts)) {
        return Err(answer.file.error(ErrorCode::SourceChanged, Phase::Open));
    }
    Err(answer.misbehaved("the peer ignores ranges"))
}
