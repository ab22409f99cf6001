//! A connection after login. Requests carry stream ids, and answers the id of their request.
//!
//! A session has one owner, which may have any number of requests under way. No task and no queue
//! stand behind it: the owner reads answers in the order in which they come, and gets data without
//! a copy.

use std::time::{Duration, Instant};

use super::gsi::Delegated;
use crate::limits::{ROOT_ANSWER_WAITS_MAX, ROOT_ATTENTIONS_MAX, ROOT_PATIENCE, ROOT_REFUSAL_WAIT, ROOT_UNHEARD_MAX};
use net::Frames;
use types::{Error, ErrorCode, Phase, Result, Side};
use xroot_wire::limits::{ANSWER_BYTES_MAX, RESPONSE_HEADER_BYTES, STATUS_HEAD_BYTES};
use xroot_wire::request::Stat;
use xroot_wire::response::{Attention, Body, PageStatus, PageStatusKind, Redirect, StatText};
use xroot_wire::{Answer, ErrorNumber, Established, FileHandle, Request, ResponseHeader, Status, StreamId};

/// Bits of a request's id that count. Above them stands the number of a bound connection: the
/// requests for all connections go out on the session's own one, and each needs an id of its own.
const ID_BITS: u32 = 12;

/// An answer, or the head of one whose data follow on the connection.
#[derive(Debug)]
pub(super) enum Event {
    /// So many bytes follow; they are the whole answer or, unless `last`, a part of it.
    Body { id: StreamId, length: usize, last: bool },
    /// Pages with their checksums follow, or the list of those that arrived damaged.
    Pages(PageStatus),
    /// An answer without data on the connection, or one that came late as a whole.
    Reply(StreamId, Reply),
}

impl Event {
    /// The id of its request.
    pub(super) fn id(&self) -> StreamId {
        match self {
            Self::Body { id, .. } | Self::Reply(id, _) => *id,
            Self::Pages(status) => status.stream,
        }
    }
}

/// A complete answer.
#[derive(Debug)]
pub(super) enum Reply {
    /// The request was carried out.
    Done(Vec<u8>),
    /// It was refused.
    Refused(Refused),
    /// The request shall go to another server.
    Redirect(Redirect),
    /// The request shall be repeated after this time.
    Wait(Duration),
    /// An authentication continues.
    More,
}

/// A server's refusal.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) number: ErrorNumber,
    pub(super) words: String,
}

/// A connection on which a session is open.
#[derive(Debug)]
pub(super) struct ServerSession {
    pub(super) frames: Frames,
    pub(super) server: Established,
    /// Whether the server has a proxy of ours.
    pub(super) delegated: Delegated,
    /// It was idle before: the server may just have closed it.
    pub(super) is_reused: bool,
    /// Bytes have come since the last request was queued.
    heard: bool,
    next_id: u16,
    /// Requests under way.
    pending: Vec<StreamId>,
    /// Requests whose answers are ignored.
    unheard: Vec<StreamId>,
    /// The longest wait for the first byte of an answer.
    patience: Duration,
    /// The time by which the server has promised a late answer.
    promised: Option<Instant>,
    /// The latest answer that it may promise.
    promise_max: Duration,
}

impl ServerSession {
    /// A session on a connection that has just been set up.
    pub(super) fn new(frames: Frames, server: Established, patience: Duration, delegated: Delegated) -> Self {
        Self {
            frames,
            server,
            delegated,
            is_reused: false,
            heard: false,
            next_id: 0,
            pending: Vec::new(),
            unheard: Vec::new(),
            patience,
            promised: None,
            promise_max: ROOT_PATIENCE,
        }
    }

    /// Whether the server redirects its clients.
    pub(super) fn is_redirector(&self) -> bool {
        self.server.is_manager()
    }

    /// Whether the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.frames.stream.is_encrypted()
    }

    /// Whether no byte has come since the last request was sent.
    pub(super) fn is_unanswered(&self) -> bool {
        !self.heard
    }

    /// Sets the longest wait for the first byte of an answer.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// How long the server may take for an answer that it promises.
    pub(super) fn limit_promises(&mut self, promise_max: Duration) {
        self.promise_max = promise_max;
    }

    /// Queues a request; its answer carries the returned id.
    pub(super) fn queue(&mut self, request: &Request<'_>) -> StreamId {
        self.queue_with(|id, out| request.encode(id, out))
    }

    /// Queues the bytes that `encode` makes for an id.
    pub(super) fn queue_with(&mut self, encode: impl FnOnce(StreamId, &mut Vec<u8>)) -> StreamId {
        let id = self.announce();
        let mut bytes = Vec::with_capacity(64);
        encode(id, &mut bytes);
        self.frames.stream.queue(&bytes);
        id
    }

    /// The id for a request that the caller sends.
    pub(super) fn announce(&mut self) -> StreamId {
        let id = self.fresh_id();
        self.pending.push(id);
        self.heard = false;
        id
    }

    /// Sends a request and all that was queued before it.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub(super) async fn send(&mut self, request: &Request<'_>) -> Result<StreamId> {
        let id = self.queue(request);
        self.frames.stream.flush().await?;
        Ok(id)
    }

    /// Sends a request and ignores its answer.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub(super) async fn send_unheard(&mut self, request: &Request<'_>) -> Result<()> {
        let id = self.send(request).await?;
        self.pending.retain(|pending| *pending != id);
        self.unheard.push(id);
        Ok(())
    }

    fn fresh_id(&mut self) -> StreamId {
        loop {
            self.next_id = self.next_id.wrapping_add(1);
            let id = StreamId::new(match u16::from(self.server.path) {
                0 => self.next_id,
                path => path << ID_BITS | self.next_id & ((1 << ID_BITS) - 1),
            });
            if id != StreamId::ZERO && !self.pending.contains(&id) && !self.unheard.contains(&id) {
                return id;
            }
        }
    }

    /// Whether the session can be used again: no answer is awaited, and no unexpected byte is on
    /// the connection.
    pub(super) fn is_quiet(&mut self) -> bool {
        if !self.pending.is_empty() || self.unheard.len() > ROOT_UNHEARD_MAX {
            return false;
        }
        loop {
            match self.frames.head_available::<RESPONSE_HEADER_BYTES>() {
                Ok(None) => return self.frames.buffered_bytes() == 0,
                Err(_) => return false,
                Ok(Some(head)) => {
                    let is_plain = |head: &ResponseHeader| head.status == Status::Ok.number() && head.length == 0;
                    let head = ResponseHeader::parse(&head);
                    let known = self.unheard.iter().position(|id| *id == head.stream);
                    match known.filter(|_| is_plain(&head)) {
                        Some(at) => drop(self.unheard.swap_remove(at)),
                        None => return false,
                    }
                }
            }
        }
    }

    /// An error that blames the server.
    pub(super) fn error(&self, code: ErrorCode, phase: Phase) -> Error {
        Error::new(code, self.side(), phase)
    }

    /// An answer that breaks the rules.
    pub(super) fn misbehaved(&self, why: &'static str) -> Error {
        self.error(ErrorCode::PeerMisbehaved, Phase::Open).with_detail(why)
    }

    /// The next answer, or the head of one, to any request.
    ///
    /// # Errors
    /// Connection lost, no answer in time, or one that is malformed or unexpected.
    pub(super) async fn event(&mut self) -> Result<Event> {
        for _ in 0..ROOT_ATTENTIONS_MAX {
            let now = Instant::now();
            let promised = self.promised.map(|end| end.saturating_duration_since(now));
            let patience = promised.map_or(self.patience, |left| left.max(self.patience));
            let Some(head) = self.frames.head(patience).await? else {
                return Err(self.error(ErrorCode::PeerClosed, Phase::Transfer));
            };
            if let Some(event) = self.take(ResponseHeader::parse(&head)).await? {
                return Ok(event);
            }
        }
        Err(self.misbehaved("too many unsolicited messages"))
    }

    /// As [`ServerSession::event`] without waiting for one to begin.
    ///
    /// # Errors
    /// As [`ServerSession::event`].
    pub(super) async fn event_available(&mut self) -> Result<Option<Event>> {
        while let Some(head) = self.frames.head_available()? {
            if let Some(event) = self.take(ResponseHeader::parse(&head)).await? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// The next answer, which must be for this request.
    ///
    /// # Errors
    /// As [`ServerSession::event`].
    pub(super) async fn event_of(&mut self, id: StreamId) -> Result<Event> {
        let event = self.event().await?;
        if event.id() == id {
            Ok(event)
        } else {
            Err(self.misbehaved("the answer is for another request"))
        }
    }

    /// Gathers the answer to the only request under way.
    ///
    /// # Errors
    /// As [`ServerSession::event`].
    pub(super) async fn answer(&mut self, id: StreamId) -> Result<Reply> {
        match self.event_of(id).await? {
            Event::Body { length, last, .. } => self.gather(id, length, last).await.map(Reply::Done),
            Event::Reply(_, reply) => Ok(reply),
            Event::Pages(_) => Err(self.misbehaved("this is no answer to such a request")),
        }
    }

    /// Gathers the parts of an answer whose first part has begun.
    ///
    /// # Errors
    /// As [`ServerSession::event`]; `peer_misbehaved` for more than [`ANSWER_BYTES_MAX`], and
    /// `peer_stalled` for parts without end.
    pub(super) async fn gather(&mut self, id: StreamId, mut length: usize, mut last: bool) -> Result<Vec<u8>> {
        let mut whole = Vec::new();
        let (began, wait_max) = (Instant::now(), self.patience.saturating_mul(ROOT_ANSWER_WAITS_MAX));
        loop {
            if whole.len() + length > ANSWER_BYTES_MAX {
                return Err(self.misbehaved("the answer is too long"));
            }
            whole.extend(self.frames.small(length, ANSWER_BYTES_MAX).await?);
            if last {
                return Ok(whole);
            }
            if began.elapsed() > wait_max {
                let error = self.error(ErrorCode::PeerStalled, Phase::Transfer);
                return Err(error.with_detail("the parts of its answer do not end"));
            }
            match self.event_of(id).await? {
                Event::Body {
                    length: next,
                    last: ends,
                    ..
                } => (length, last) = (next, ends),
                Event::Reply(_, Reply::Refused(refused)) => {
                    return Err(refused.number.to_peer_error(&refused.words).at_side(self.side()));
                }
                _ => return Err(self.misbehaved("the answer does not go on as it began")),
            }
        }
    }

    /// The server's refusal of a request for a bound connection, if it has come here instead.
    pub(super) async fn misplaced_refusal(&mut self) -> Option<Refused> {
        while let Some(head) = self.frames.head(ROOT_REFUSAL_WAIT).await.ok()? {
            let header = ResponseHeader::parse(&head);
            let length = header.body().ok()?.bytes();
            let body = self.frames.small(length, ANSWER_BYTES_MAX).await.ok()?;
            if let Ok(Answer::Error { number, message }) = Answer::parse(&header, &body) {
                return Some(Refused { number, words: message });
            }
        }
        None
    }

    /// What an open file is.
    ///
    /// # Errors
    /// As [`ServerSession::event`], and the server's refusal.
    pub(super) async fn stat_handle(&mut self, handle: FileHandle) -> Result<StatText> {
        let id = self.send(&Request::Stat(Stat::handle(handle))).await?;
        match self.answer(id).await? {
            Reply::Done(body) => StatText::parse(&body).map_err(|error| self.blame(error)),
            Reply::Refused(refused) => Err(self.blame(refused.number.to_peer_error(&refused.words))),
            _ => Err(self.misbehaved("this is no answer about a file")),
        }
    }

    /// Reads the response to a header that has come. `None` for one without an event.
    async fn take(&mut self, header: ResponseHeader) -> Result<Option<Event>> {
        self.heard = true;
        let body = header.body().map_err(|error| self.blame(error))?;
        if header.kind().map_err(|error| self.blame(error))? == Status::Attention {
            return self.take_attention(&header, body.bytes()).await;
        }
        let id = header.stream;
        if let Some(at) = self.unheard.iter().position(|unheard| *unheard == id) {
            self.frames.skip(body.bytes() as u64).await?;
            if header.status != Status::WaitForAnswer.number() {
                self.unheard.swap_remove(at);
            }
            return Ok(None);
        }
        if !self.pending.contains(&id) {
            return Err(self.misbehaved("an answer to a request that was not made"));
        }
        match body {
            Body::Data(length) => {
                // What comes next is most likely of the same kind.
                self.frames.expect_heads(RESPONSE_HEADER_BYTES);
                let last = header.status == Status::Ok.number();
                if last {
                    self.settle(id);
                }
                Ok(Some(Event::Body { id, length, last }))
            }
            Body::Buffered(length) | Body::Pages(length) => {
                if matches!(body, Body::Pages(_)) {
                    self.frames.expect_heads(STATUS_HEAD_BYTES);
                }
                let bytes = self.frames.small(length, ANSWER_BYTES_MAX).await?;
                self.take_answer(&header, &bytes)
            }
        }
    }

    async fn take_attention(&mut self, header: &ResponseHeader, length: usize) -> Result<Option<Event>> {
        let bytes = self.frames.small(length, ANSWER_BYTES_MAX).await?;
        let late = match Answer::parse(header, &bytes).map_err(|error| self.blame(error))? {
            Answer::Attention(Attention::Answer(late)) => late,
            _ => return Ok(None),
        };
        let id = late.header.stream;
        if let Some(at) = self.unheard.iter().position(|unheard| *unheard == id) {
            self.unheard.swap_remove(at);
            return Ok(None);
        }
        if !self.pending.contains(&id) {
            return Err(self.misbehaved("a late answer to a request that was not made"));
        }
        self.promised = None;
        self.take_answer(&late.header, late.body)
    }

    fn take_answer(&mut self, header: &ResponseHeader, body: &[u8]) -> Result<Option<Event>> {
        let id = header.stream;
        let reply = match Answer::parse(header, body).map_err(|error| self.blame(error))? {
            Answer::Ok(body) => Reply::Done(body.to_vec()),
            Answer::Error { number, message } => Reply::Refused(Refused { number, words: message }),
            Answer::Redirect(redirect) => Reply::Redirect(redirect),
            Answer::Wait { seconds, .. } => Reply::Wait(Duration::from_secs(u64::from(seconds))),
            Answer::MoreAuthentication(_) => Reply::More,
            Answer::WaitForAnswer { seconds, .. } => {
                let promised = Duration::from_secs(u64::from(seconds)).min(self.promise_max);
                self.promised = Some(Instant::now() + promised);
                return Ok(None);
            }
            Answer::Pages(status) if status.kind == PageStatusKind::Progress => return Ok(None),
            Answer::Pages(status) => {
                if status.kind == PageStatusKind::Final {
                    self.settle(id);
                }
                return Ok(Some(Event::Pages(status)));
            }
            Answer::Partial(_) | Answer::Attention(_) => {
                return Err(self.misbehaved("a late answer holds what it cannot hold"));
            }
        };
        self.settle(id);
        Ok(Some(Event::Reply(id, reply)))
    }

    /// The answer to this request is complete, or all of it comes next.
    fn settle(&mut self, id: StreamId) {
        self.pending.retain(|pending| *pending != id);
    }

    fn side(&self) -> Side {
        self.frames.stream.role().side()
    }

    fn blame(&self, error: Error) -> Error {
        error.at_side(self.side())
    }
}
