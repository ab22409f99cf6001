//! The final answer to a request, while its body still comes.

use std::iter;
use std::time::Duration;

use crate::limits::{DRAIN_BYTES_MAX, PEER_WORDS_WAIT};
use http_wire::{Headers, Method, ResponseHead, shown_answer};
use net::Batch;
use net::http::Incoming;
use types::limits::PEER_WORDS_BYTES_MAX;
use types::{Error, ErrorCode, PeerStatus, Phase, Result};

use super::exchange::Live;
use super::verdict::{code_of, plain_words, refusal, says_checksum_differs};
use crate::resource::Resource;

/// Bytes read for each byte of a server's words, since markup may surround them.
const MARKUP_FACTOR: usize = 4;

/// The final answer to a request. Dropping it before its body is whole closes the connection.
pub(crate) struct Answer {
    pub(crate) head: ResponseHead,
    /// The file after all redirects.
    pub(crate) file: Resource,
    live: Live,
    incoming: Incoming,
    is_last: bool,
}

impl Answer {
    /// The answer to a request with this method.
    pub(crate) fn new(live: Live, file: Resource, head: ResponseHead, method: &Method) -> Result<Self> {
        let framing = head.framing(method).map_err(|error| file.blame(error))?;
        let incoming = live.connection.incoming(framing);
        file.access.trace.tell(|| {
            let fields = shown_answer(&head.headers).into_iter().map(|line| format!("< {line}"));
            iter::once(format!("< {}", head.status)).chain(fields).collect()
        });
        Ok(Self {
            head,
            file,
            live,
            incoming,
            is_last: false,
        })
    }

    /// Marks the answer to a question for checksums: XRootD gets no further request on its
    /// connection. Before 5.9.1 the thread that computed the checksum still uses the connection
    /// when the answer is out; a request that comes then gets no answer, or ends the server (its
    /// issue 2602).
    pub(crate) fn close_behind_checksums(&mut self) {
        self.is_last |= self.head.is_from_xrootd();
    }

    /// Whether the status is a success.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.head.status)
    }

    /// The pause that the server asks for (RFC 9110 §10.2.3), if it has too much to do.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let seconds = self
            .head
            .retry_after()
            .filter(|_| matches!(self.head.status, 429 | 503));
        seconds.map(Duration::from_secs)
    }

    /// The next payload.
    pub(crate) async fn next(&mut self) -> Result<Option<Batch>> {
        let batch = self.incoming.next(&mut self.live.connection).await;
        batch.map_err(|error| self.file.blame(error))
    }

    /// Whether the body has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.incoming.is_done()
    }

    /// Trailers, once the body is done.
    pub(crate) fn trailers(&self) -> &Headers {
        self.incoming.trailers()
    }

    /// Its addresses.
    pub(crate) fn ends(&self) -> Option<net::Ends> {
        self.live.connection.stream.ends()
    }

    /// The longest wait for a byte of the body.
    pub(crate) fn set_stall(&mut self, stall: Duration) {
        self.live.connection.stream.set_stall(stall);
    }

    /// Collects a small body, of at most `limit_bytes`.
    pub(crate) async fn collect(&mut self, limit_bytes: usize) -> Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(batch) = self.next().await? {
            whole.extend(batch.slices().flatten());
            if whole.len() > limit_bytes {
                let error = self.file.error(ErrorCode::PeerMisbehaved, Phase::Transfer);
                return Err(error.with_detail(format!("the answer is longer than {limit_bytes} bytes")));
            }
        }
        Ok(whole)
    }

    /// Returns the connection to the pool if it can be used again.
    pub(crate) fn release(self) {
        if self.incoming.is_done() && self.head.keep_alive() && !self.is_last {
            self.live.keep();
        }
    }

    /// Reads the rest, if it is short and comes soon, and returns the connection to the pool.
    pub(crate) async fn finish(mut self) {
        let drain = async {
            let mut seen = 0;
            while seen <= DRAIN_BYTES_MAX {
                match self.next().await {
                    Ok(Some(batch)) => seen += batch.len() as u64,
                    Ok(None) | Err(_) => return,
                }
            }
        };
        let _ = tokio::time::timeout(PEER_WORDS_WAIT, drain).await;
        self.release();
    }

    /// The server's own words: what comes of the body within [`PEER_WORDS_WAIT`].
    pub(crate) async fn words(mut self) -> String {
        let words = self.read_words().await.0;
        self.release();
        words
    }

    /// As [`Answer::words`], for a request that was not sent completely. Closes the connection.
    pub(crate) async fn words_and_close(mut self) -> String {
        self.read_words().await.0
    }

    /// The server's words, and what they mean where they say more than the status: S3 has an XML
    /// document for each refusal.
    async fn read_words(&mut self) -> (String, Option<ErrorCode>) {
        let mut body = Vec::new();
        let read = async {
            while body.len() < PEER_WORDS_BYTES_MAX * MARKUP_FACTOR {
                match self.next().await {
                    Ok(Some(batch)) => body.extend(batch.slices().flatten()),
                    Ok(None) | Err(_) => return,
                }
            }
        };
        let _ = tokio::time::timeout(PEER_WORDS_WAIT, read).await;
        let kind = self.head.content_type().unwrap_or_default().to_ascii_lowercase();
        let is_markup = kind.contains("html") || kind.contains("xml");
        body.truncate(PEER_WORDS_BYTES_MAX * MARKUP_FACTOR);
        if let Some(refusal) = s3_wire::refusal(&body) {
            return (refusal.words(), refusal.meaning);
        }
        let words = plain_words(&body, is_markup);
        match words.is_empty() {
            true => (self.head.reason.clone(), None),
            false => (words, None),
        }
    }

    /// This answer as an error, by the common table.
    pub(crate) async fn refused(mut self) -> Error {
        let (words, meaning) = self.read_words().await;
        let error = self.refusal(meaning.unwrap_or(code_of(self.head.status)), &words);
        self.release();
        error
    }

    /// As [`Answer::refused`], for a file that was sent: a server that compares it with a checksum
    /// says in words that it differs.
    pub(crate) async fn refused_content(mut self) -> Error {
        let (words, meaning) = self.read_words().await;
        let differs = (400..500).contains(&self.head.status) && says_checksum_differs(&words);
        let meaning = meaning.or(differs.then_some(ErrorCode::ChecksumMismatch));
        let error = self.refusal(meaning.unwrap_or(code_of(self.head.status)), &words);
        self.release();
        error
    }

    /// As [`Answer::refused`], for a request that was not sent completely: closes the connection.
    pub(crate) async fn refused_and_close(mut self) -> Error {
        let (words, meaning) = self.read_words().await;
        self.refusal(meaning.unwrap_or(code_of(self.head.status)), &words)
    }

    fn refusal(&self, code: ErrorCode, words: &str) -> Error {
        refusal(&self.file, code, self.head.status, words).with_retry_after(self.delay())
    }

    /// This answer as an error with another code than that of the table.
    pub(crate) async fn refused_as(self, code: ErrorCode) -> Error {
        let (file, status, delay) = (self.file.clone(), self.head.status, self.delay());
        let words = self.words().await;
        refusal(&file, code, status, &words).with_retry_after(delay)
    }

    /// The answer if it is a success, else its error.
    pub(crate) async fn success(self) -> Result<Self> {
        if self.is_success() {
            Ok(self)
        } else {
            Err(self.refused().await)
        }
    }

    /// The error for an answer that breaks the rules.
    pub(crate) fn misbehaved(&self, why: impl Into<String>) -> Error {
        let error = self.file.error(ErrorCode::PeerMisbehaved, Phase::Open);
        error
            .with_detail(why)
            .with_peer(Some(PeerStatus::Http(self.head.status)), "")
    }
}
