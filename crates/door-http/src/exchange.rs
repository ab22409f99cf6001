//! One request and its answer: the state that every verb shares, and all ways to answer.
//!
//! What becomes of the connection is decided here, when the head of the answer is written: it is
//! kept when the client wants that and the request's body is read, or short enough to be read away.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use crate::limits::REFUSED_BODY_BYTES_MAX;
use credentials::Credential;
use credentials::capability::Redeemed;
use endpoint::{ClientId, ErrorFacts, Exports, Pages, Protocol, RequestRecord, elapsed_us};
use http_wire::webdav::{LastPropfind, LockFault, lock_error};
use http_wire::{
    Authorization, BearerChallenge, CHUNK_END, CONTINUE, ContentType, Framing, Headers, LAST_CHUNK, Method,
    RequestHead, ResponseBuilder, Version, chunk_head, last_chunk_with_trailers,
};
use identity::LastShown;
use net::http::{Connection, Incoming};
use types::limits::LINGER_TIMEOUT;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::door::{RETRY_AFTER_S, Shared};
use crate::options::methods;
use endpoint::clock::now_s;
use endpoint::ids::{child_trace, fresh_id};

/// As much of what a client says about itself, or of a path that is refused, goes to the log.
const LOGGED_CHARS: usize = 256;

/// A piece of an answer that is longer is sent from where it lies.
const QUEUED_PIECE_BYTES_MAX: usize = 4096;

/// What becomes of a connection behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Another request may come.
    KeepOpen,
    /// All is read and said.
    Close,
    /// The client may still be sending.
    Linger,
    /// Broken in the middle: the end must not look like a proper one.
    Tear,
}

/// One request and its answer.
pub(crate) struct Exchange<'c> {
    pub(crate) door: &'c Arc<Shared>,
    pub(crate) connection: &'c mut Connection,
    pub(crate) last_propfind: &'c mut LastPropfind,
    pub(crate) incoming: Incoming,
    pub(crate) peer: SocketAddr,
    /// The exports as they were when the request came.
    pub(crate) exports: Arc<Exports>,
    /// The path of the request.
    pub(crate) path: LogicalPath,
    pub(crate) credential: Result<Arc<Credential>>,
    /// Whom the certificate of the connection names.
    pub(crate) visitor: Arc<Credential>,
    /// The decision that the request brings along.
    pub(crate) capability: Option<Redeemed>,
    pub(crate) record: RequestRecord,
    /// Size of the file, when the asked-for range lies outside of it.
    pub(crate) unsatisfied_size: Option<u64>,
    /// The tokens of locks that the request submits.
    pub(crate) submitted: Vec<String>,
    /// What an error about locks is called there.
    lock_fault: Option<LockFault>,
    began: Instant,
    is_head: bool,
    version: Version,
    /// Whether the client wants the connection kept and the framing can be trusted.
    may_keep: bool,
    /// Whether the client still waits for our word before it sends its body.
    owes_continue: bool,
    /// Whether reading the body was begun; what is left of it then is the rest of something broken.
    body_begun: bool,
    keeps: bool,
    chunked: bool,
    /// Whether the log has been told.
    is_told: bool,
}

impl<'c> Exchange<'c> {
    /// Whether what must stay between client and server may be sent on this connection.
    ///
    /// # Errors
    /// `tls_required`: it may not.
    pub(crate) fn admit_secrets(&self) -> Result<()> {
        let is_encrypted = self.connection.stream.is_encrypted();
        self.door.settings.site.admit_secrets(is_encrypted, self.peer.ip())
    }

    /// Begins with a head, or with what was wrong with it. Also gives back the head when the request
    /// can be acted on, and the error when not.
    pub(crate) fn begin(
        door: &'c Arc<Shared>,
        (connection, last_propfind): (&'c mut Connection, &'c mut LastPropfind),
        peer: SocketAddr,
        began: Instant,
        head: Result<RequestHead>,
        (credential, visitor): (Result<Arc<Credential>>, &Arc<Credential>),
    ) -> (Self, Result<RequestHead>) {
        let facts = head.as_ref().ok();
        let framing = facts.map_or(Ok(Framing::Empty), RequestHead::framing);
        let path = facts.map_or_else(|| Ok(LogicalPath::root()), path_of);
        let exchange = Self {
            door,
            incoming: connection.incoming(*framing.as_ref().unwrap_or(&Framing::Empty)),
            peer,
            exports: door.settings.site.exports.current(),
            path: path.as_ref().cloned().unwrap_or_else(|_| LogicalPath::root()),
            credential,
            visitor: visitor.clone(),
            capability: None,
            record: record_of(facts, path.as_ref().ok(), connection, peer, began),
            unsatisfied_size: None,
            submitted: Vec::new(),
            lock_fault: None,
            began,
            is_head: facts.is_some_and(|head| head.method == Method::Head),
            version: facts.map_or(Version::Http11, |head| head.version),
            may_keep: framing.is_ok() && facts.is_some_and(RequestHead::keep_alive),
            owes_continue: facts.is_some_and(RequestHead::expects_continue),
            body_begun: false,
            keeps: false,
            chunked: false,
            is_told: false,
            connection,
            last_propfind,
        };
        let ready = head.and_then(|head| framing.and(path).map(|_| head));
        (exchange, ready)
    }

    /// Microseconds since the head began to arrive.
    pub(crate) fn elapsed_us(&self) -> u64 {
        elapsed_us(self.began)
    }

    /// The client, as its share is counted.
    pub(crate) fn client(&self) -> ClientId {
        ClientId::at(self.peer.ip()).showing(&self.credential)
    }

    /// Asks the client for its body, where it waits for that (RFC 9110 §10.1.1). To be called when
    /// everything that could refuse the request has been asked.
    pub(crate) async fn invite_body(&mut self) -> Result<()> {
        self.body_begun = true;
        if std::mem::take(&mut self.owes_continue) && !self.incoming.is_done() {
            self.connection.stream.queue(CONTINUE);
            self.connection.stream.flush().await?;
        }
        Ok(())
    }

    /// Reads a small body.
    pub(crate) async fn small_body(&mut self, limit_bytes: usize) -> Result<Vec<u8>> {
        let too_large = || {
            Error::new(ErrorCode::BodyTooLarge, Side::Client, Phase::Open).with_detail(format!("{limit_bytes} bytes"))
        };
        if self.incoming.remaining().is_some_and(|rest| rest > limit_bytes as u64) {
            return Err(too_large());
        }
        self.invite_body().await?;
        let mut whole = Vec::new();
        while let Some(batch) = self.incoming.next(self.connection).await? {
            self.record.bytes_in += batch.len() as u64;
            batch.append_to(&mut whole);
            if whole.len() > limit_bytes {
                return Err(too_large());
            }
        }
        Ok(whole)
    }

    /// Queues the head of the answer.
    pub(crate) fn head(&mut self, status: u16, fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder) {
        let unread_is_short = self.incoming.is_done()
            || (!self.owes_continue
                && self
                    .incoming
                    .remaining()
                    .is_some_and(|rest| rest <= REFUSED_BODY_BYTES_MAX));
        self.keeps = self.may_keep && unread_is_short && !self.door.gate.is_draining();
        let builder = ResponseBuilder::new(status)
            .date(now_s())
            .server(&self.door.settings.site.server_name)
            .request_id(&self.record.request_id);
        let builder = fill(builder);
        let builder = match (self.keeps, self.version) {
            (true, Version::Http10) => builder.keep_alive_http10(),
            (keeps, _) => builder.keep_alive(keeps),
        };
        self.connection.stream.queue_owned(builder.finish());
        self.record.status = Some(u32::from(status));
        self.record.first_byte_us = Some(self.elapsed_us());
    }

    /// Answers without a body: statuses that never have one, and answers to HEAD.
    pub(crate) async fn bare(
        &mut self,
        status: u16,
        fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder,
    ) -> Result<()> {
        self.head(status, fill);
        self.connection.stream.flush().await
    }

    /// Answers with a body that is at hand.
    pub(crate) async fn whole(
        &mut self,
        status: u16,
        body: &[u8],
        fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder,
    ) -> Result<()> {
        self.head(status, |head| fill(head).content_length(body.len() as u64));
        if !self.is_head {
            self.connection.stream.queue(body);
            self.record.bytes_out += body.len() as u64;
        }
        self.connection.stream.flush().await
    }

    /// Begins an answer whose length is not known: in chunks, or up to the end of the connection for
    /// a client that does not know chunks (RFC 9112 §6.1, §6.3).
    pub(crate) fn begin_pieces(&mut self, status: u16, fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder) {
        self.chunked = self.version == Version::Http11;
        self.may_keep &= self.chunked;
        let chunked = self.chunked;
        self.head(status, |head| if chunked { fill(head).chunked() } else { fill(head) });
    }

    /// Sends a piece of such an answer, empty ones excepted.
    pub(crate) async fn piece(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() <= QUEUED_PIECE_BYTES_MAX {
            self.queue_piece(bytes);
            return self.connection.stream.flush().await;
        }
        self.begin_piece(bytes.len());
        self.connection.stream.send_copy(bytes).await?;
        // What ends the chunk goes with what follows it.
        self.end_piece();
        Ok(())
    }

    /// Has a short piece of such an answer, which is not empty, sent together with what follows it.
    pub(crate) fn queue_piece(&mut self, bytes: &[u8]) {
        self.begin_piece(bytes.len());
        self.connection.stream.queue(bytes);
        self.end_piece();
    }

    fn begin_piece(&mut self, bytes: usize) {
        debug_assert!(bytes > 0, "an empty chunk ends the answer");
        self.record.bytes_out += bytes as u64;
        if self.chunked {
            self.connection.stream.queue(chunk_head(bytes).as_bytes());
        }
    }

    fn end_piece(&mut self) {
        if self.chunked {
            self.connection.stream.queue(CHUNK_END);
        }
    }

    /// Ends such an answer.
    pub(crate) async fn end_pieces(&mut self, trailers: Option<&Headers>) -> Result<()> {
        match (self.chunked, trailers) {
            (false, _) => {}
            (true, None) => self.connection.stream.queue(LAST_CHUNK),
            (true, Some(trailers)) => self.connection.stream.queue(&last_chunk_with_trailers(trailers)),
        }
        self.connection.stream.flush().await
    }

    /// Whether the client understands chunks, and so trailers.
    pub(crate) fn knows_chunks(&self) -> bool {
        self.version == Version::Http11
    }

    /// Answers with an error: its status, its sentence, what to do next, and the request's name.
    async fn refuse(&mut self, error: &Error, body: &str) -> Result<()> {
        let code = error.code();
        let challenge = match code {
            ErrorCode::Unauthenticated => Some(BearerChallenge::Missing),
            code if code.refuses_token() => Some(BearerChallenge::InvalidToken),
            ErrorCode::Forbidden if self.bears_token() && error.phase() == Phase::Authorize => {
                Some(BearerChallenge::InsufficientScope)
            }
            _ => None,
        };
        let realm = self.door.settings.site.server_name.clone();
        let unsatisfied = self.unsatisfied_size.filter(|_| code == ErrorCode::RangeUnsatisfiable);
        let tells_methods = matches!(
            code,
            ErrorCode::MethodNotAllowed | ErrorCode::DirectoryExists | ErrorCode::NotImplemented
        );
        let offered = tells_methods.then(|| methods(self.has_locks()));
        let kind = match self.lock_fault_of(code) {
            Some(_) => ContentType::Xml,
            None => ContentType::Text,
        };
        self.whole(code.http_status(), body.as_bytes(), |mut head| {
            head = head.content_type(kind);
            if let Some(challenge) = challenge {
                head = head.www_authenticate(&realm, challenge);
            }
            if let Some(size) = unsatisfied {
                head = head.content_range_unsatisfied(size);
            }
            if let Some(methods) = offered {
                head = head.allow(methods);
            }
            match code {
                ErrorCode::Overloaded | ErrorCode::ShareUsedUp | ErrorCode::ChecksumPending | ErrorCode::Cancelled => {
                    head.retry_after(RETRY_AFTER_S)
                }
                _ => head,
            }
        })
        .await
    }

    /// The body of an error's answer: of one about locks in XML, which says where the lock is.
    fn words_of(&self, error: &Error) -> String {
        let words = error_text(error, &self.record.request_id);
        match self.lock_fault_of(error.code()) {
            Some(fault) => {
                let at = error.subject().and_then(|subject| LogicalPath::parse(subject).ok());
                lock_error(fault, at.as_ref(), &words)
            }
            None => words,
        }
    }

    fn lock_fault_of(&self, code: ErrorCode) -> Option<LockFault> {
        let usual = (code == ErrorCode::Locked).then_some(LockFault::TokenNeeded);
        self.lock_fault.or(usual)
    }

    /// Remembers what WebDAV calls an error about locks.
    pub(crate) fn because(&mut self, fault: LockFault, error: Error) -> Error {
        self.lock_fault = Some(fault);
        error
    }

    fn bears_token(&self) -> bool {
        self.credential
            .as_ref()
            .is_ok_and(|credential| credential.grant().is_some())
    }

    /// Answers with an error whose body is given, such as the last line of a copy.
    pub(crate) async fn refuse_with(&mut self, error: &Error, body: &str) -> Result<()> {
        self.record.error = Some(error.into());
        self.refuse(error, body).await
    }

    /// Ends the exchange: answers with the error, if there is one and the answer has not begun;
    /// tells the log; and says what becomes of the connection.
    pub(crate) async fn finish(&mut self, result: Result<()>) -> Fate {
        let mut torn = false;
        if let Err(error) = result {
            let error = self.exports.shown(error, &self.path);
            self.record.error = Some(ErrorFacts::from(&error));
            self.may_keep &= !self.body_begun || self.incoming.is_done();
            let is_gone = error.code() == ErrorCode::ClientGone;
            if self.record.status.is_some() || is_gone {
                torn = true;
            } else {
                let body = self.words_of(&error);
                torn = Box::pin(self.refuse(&error, &body)).await.is_err();
            }
        }
        self.tell();
        match (torn, self.keeps) {
            (true, _) => Fate::Tear,
            (false, false) if self.incoming.is_done() && self.record.error.is_none() => Fate::Close,
            (false, false) => Fate::Linger,
            (false, true) if self.incoming.is_done() => Fate::KeepOpen,
            (false, true) => Box::pin(self.read_away()).await,
        }
    }

    /// Tells the log what a listing left out, and returns the words for the client.
    pub(crate) fn note_unlisted(&self, pages: &Pages) -> Option<String> {
        let unlisted = pages.unlisted()?;
        self.door.settings.site.events.names_unlisted(&self.path, unlisted);
        Some(unlisted.to_string())
    }

    fn tell(&mut self) {
        self.is_told = true;
        self.record.total_us = self.elapsed_us();
        self.door.settings.site.events.request(&self.record);
    }

    /// Reads what is left of a short body, for as long as a closing connection is waited for.
    async fn read_away(&mut self) -> Fate {
        let rest = async {
            loop {
                match self.incoming.next(self.connection).await {
                    Ok(Some(_)) => {}
                    Ok(None) if self.incoming.is_done() => return Fate::KeepOpen,
                    _ => return Fate::Tear,
                }
            }
        };
        tokio::time::timeout(LINGER_TIMEOUT, rest).await.unwrap_or(Fate::Tear)
    }
}

impl Drop for Exchange<'_> {
    /// A request that is cut off, because the server ends or has a defect, has its line in the log too.
    fn drop(&mut self) {
        if self.is_told {
            return;
        }
        let code = match std::thread::panicking() {
            true => ErrorCode::Internal,
            false => ErrorCode::Cancelled,
        };
        let error = Error::new(code, Side::Active, Phase::Transfer).with_subject(&self.path);
        self.record.error = Some(ErrorFacts::from(&error));
        self.tell();
    }
}

/// The body of an error's answer.
pub(crate) fn error_text(error: &Error, request_id: &str) -> String {
    format!(
        "{}\n{}\n[{}] {request_id}\n",
        error.public(),
        error.code().for_client(),
        error.code().name()
    )
}

/// The path of the request; `OPTIONS *` is about the server, so about its root.
fn path_of(head: &RequestHead) -> Result<LogicalPath> {
    if head.method == Method::Options && head.target.path_raw == "*" {
        return Ok(LogicalPath::root());
    }
    head.target.path()
}

/// Whose request it is: a token decides; without one `visitor`, whom the connection belongs to, is asked for.
/// What the connection showed last is known again. `clear_from`: the address of a client that speaks in clear text.
pub(crate) async fn credential_of(
    door: &Shared,
    head: &RequestHead,
    (visitor, clear_from): (&Arc<Credential>, Option<IpAddr>),
    last: &mut LastShown,
) -> Result<Arc<Credential>> {
    let authenticator = &door.settings.site.authenticator;
    let field = head.authorization_field();
    if let Some(peer) = clear_from.filter(|_| !matches!(head.authorization(), Authorization::Absent)) {
        authenticator.admits_in_clear_text(peer)?;
    }
    if let Some(credential) = field.and_then(|field| authenticator.again(field, last)) {
        return Ok(credential);
    }
    match head.authorization() {
        Authorization::Absent => Ok(visitor.clone()),
        // Without a field it came in the query.
        Authorization::Bearer(token) => Box::pin(authenticator.bearer_in(field, token.expose(), last)).await,
        Authorization::Unsupported => {
            let error = Error::new(ErrorCode::InvalidToken, Side::Client, Phase::Authenticate);
            Err(error.with_detail("the only scheme is Bearer, with a token behind it"))
        }
        Authorization::Contradictory => {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Authenticate);
            Err(error.with_detail("two different Authorization headers"))
        }
    }
}

fn for_log(text: &str) -> String {
    // The usual case without a look at each character.
    if text.len() <= LOGGED_CHARS {
        return text.to_owned();
    }
    text.chars().take(LOGGED_CHARS).collect()
}

fn record_of(
    head: Option<&RequestHead>,
    path: Option<&LogicalPath>,
    connection: &Connection,
    peer: SocketAddr,
    began: Instant,
) -> RequestRecord {
    let unread = || "-".to_owned();
    RequestRecord {
        request_id: fresh_id(),
        method: Cow::Owned(head.map_or_else(unread, |head| for_log(head.method.name()))),
        path: match (head, path) {
            (Some(_), Some(path)) => path.as_str().to_owned(),
            // As it was sent, since it cannot be read; the query, which may hold a secret, is not part of it.
            (Some(head), None) => for_log(&head.target.path_raw),
            (None, _) => unread(),
        },
        head_us: Some(elapsed_us(began)),
        user_agent: head.and_then(RequestHead::user_agent).map(for_log),
        client_info: head.and_then(RequestHead::client_info).map(for_log),
        traceparent: Some(child_trace(head.and_then(RequestHead::traceparent))),
        scitag: head.and_then(RequestHead::scitag),
        ..RequestRecord::new(Protocol::Http, peer, connection.stream.security())
    }
}
