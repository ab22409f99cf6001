//! One request and its answer: what every door knows of it, its body, and its end.
//!
//! What becomes of the connection is decided when the head of the answer is written: it is kept
//! when the client wants that and the request's body is read, or short enough to be discarded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use credentials::Credential;
use endpoint::{ClientId, ErrorFacts, Holder, RequestRecord, elapsed_us};
use http_wire::{CONTINUE, Framing, Method, RequestHead, Version};
use net::http::{Connection, Incoming};
use types::limits::LINGER_TIMEOUT;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::limits::REFUSED_BODY_BYTES_MAX;
use crate::record::record_of;
use crate::server::Server;

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Another request may come.
    KeepOpen,
    /// Everything is read and answered.
    Close,
    /// The client may still be sending.
    Linger,
    /// Broken in the middle: the end must not look like a proper one.
    Tear,
}

/// Who sent a request.
pub(crate) struct Sender {
    pub(crate) peer: SocketAddr,
    /// The credential of the request, or why it was refused.
    pub(crate) credential: Result<Arc<Credential>>,
    /// The holder of the connection's certificate.
    pub(crate) certificate_holder: Arc<Credential>,
}

/// One request and its answer.
pub struct Exchange<'c> {
    /// What the connections of the door share.
    pub server: &'c Server,
    /// The connection, for payload that the door moves itself.
    pub connection: &'c mut Connection,
    /// The body of the request.
    pub incoming: Incoming,
    /// The client's address.
    pub peer: SocketAddr,
    /// The path of the request, decoded; the root when it cannot be read.
    pub path: LogicalPath,
    /// The credential of the request, or why it was refused.
    pub credential: Result<Arc<Credential>>,
    /// The holder of the connection's certificate.
    pub certificate_holder: Arc<Credential>,
    /// What the log will get.
    pub record: RequestRecord,
    /// Whether a browser waits for a page about its request, which cannot be acted on.
    pub is_refused_browser: bool,
    pub(crate) is_head: bool,
    pub(crate) version: Version,
    /// Whether the client wants to keep the connection and its framing can be trusted.
    pub(crate) may_keep: bool,
    pub(crate) keeps: bool,
    pub(crate) chunked: bool,
    began: Instant,
    /// Whether the client still waits for `100 Continue` before it sends its body.
    owes_continue: bool,
    /// Whether reading the body has begun; then what is left of it belongs to something broken.
    body_begun: bool,
    is_logged: bool,
}

impl<'c> Exchange<'c> {
    /// Begins with a head, or with what was wrong with it. Also returns the head when the request
    /// can be acted on, and the error otherwise. Where paths name no files, one that no file can
    /// have is no error.
    pub(crate) fn begin(
        server: &'c Server,
        connection: &'c mut Connection,
        sender: Sender,
        began: Instant,
        head: Result<RequestHead>,
        names_files: bool,
    ) -> (Self, Result<RequestHead>) {
        let facts = head.as_ref().ok();
        let framing = facts.map_or(Ok(Framing::Empty), RequestHead::framing);
        let path = facts.map_or_else(|| Ok(LogicalPath::root()), path_of);
        let exchange = Self {
            server,
            incoming: connection.incoming(*framing.as_ref().unwrap_or(&Framing::Empty)),
            peer: sender.peer,
            path: path.as_ref().cloned().unwrap_or_else(|_| LogicalPath::root()),
            credential: sender.credential,
            certificate_holder: sender.certificate_holder,
            record: record_of(facts, path.as_ref().ok(), connection, sender.peer, began, &*server.log),
            is_refused_browser: (framing.is_err() || path.is_err()) && facts.is_some_and(RequestHead::wants_page),
            is_head: facts.is_some_and(|head| head.method == Method::Head),
            version: facts.map_or(Version::Http11, |head| head.version),
            may_keep: framing.is_ok() && facts.is_some_and(RequestHead::keep_alive),
            keeps: false,
            chunked: false,
            began,
            owes_continue: facts.is_some_and(RequestHead::expects_continue),
            body_begun: false,
            is_logged: false,
            connection,
        };
        let ready = head.and_then(|head| {
            framing?;
            match path {
                Err(error) if names_files => Err(error),
                _ => Ok(head),
            }
        });
        (exchange, ready)
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.connection.stream.is_encrypted()
    }

    /// Whether secrets may be sent on this connection.
    ///
    /// # Errors
    /// `tls_required`: they may not.
    pub fn admit_secrets(&self) -> Result<()> {
        self.server
            .authenticator
            .admit_secrets(self.is_encrypted(), self.peer.ip())
    }

    /// Whether the request came with a credential that grants something by itself.
    #[must_use]
    pub fn bears_token(&self) -> bool {
        self.credential
            .as_ref()
            .is_ok_and(|credential| credential.grant().is_some())
    }

    /// Whether the client understands chunks, and so trailers.
    #[must_use]
    pub fn knows_chunks(&self) -> bool {
        self.version == Version::Http11
    }

    /// The client, as its fair share is counted.
    #[must_use]
    pub fn client(&self) -> ClientId {
        ClientId::at(self.peer.ip()).showing(&self.credential)
    }

    /// Microseconds since the head began to arrive.
    #[must_use]
    pub fn elapsed_us(&self) -> u64 {
        elapsed_us(self.began)
    }

    /// For the log: the request is decided by its own credential.
    pub fn note_credential(&mut self) {
        self.note(Holder::of(&self.credential));
    }

    /// For the log: the request is decided by the connection's certificate.
    pub fn note_certificate_holder(&mut self) {
        self.note(Holder::of(&Ok(self.certificate_holder.clone())));
    }

    /// For the log: the door knows the client by this credential.
    pub(crate) fn note_known_by(&mut self, credential: &Arc<Credential>) {
        self.note(Holder::of(&Ok(credential.clone())));
    }

    fn note(&mut self, holder: Holder) {
        self.record.authorized_us = Some(self.elapsed_us());
        self.record.note_holder(holder);
    }

    /// Asks for the body when the client waits for that (RFC 9110 §10.1.1). Call it after all
    /// checks that could refuse the request.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn invite_body(&mut self) -> Result<()> {
        self.body_begun = true;
        if std::mem::take(&mut self.owes_continue) && !self.incoming.is_done() {
            self.connection.stream.queue(CONTINUE);
            self.connection.stream.flush().await?;
        }
        Ok(())
    }

    /// Reads a small body.
    ///
    /// # Errors
    /// `body_too_large` over `limit_bytes`; a body that breaks its framing, ends early, or stalls.
    pub async fn small_body(&mut self, limit_bytes: usize) -> Result<Vec<u8>> {
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

    /// Whether nothing, or little enough to discard, is left of the body.
    pub(crate) fn is_body_disposable(&self) -> bool {
        let is_short = |rest| rest <= REFUSED_BODY_BYTES_MAX;
        self.incoming.is_done() || (!self.owes_continue && self.incoming.remaining().is_some_and(is_short))
    }

    /// Notes why the request failed. Returns whether the error can be answered: the client is
    /// there, and no answer has begun.
    pub fn fail(&mut self, error: &Error) -> bool {
        self.record.error = Some(ErrorFacts::from(error));
        self.may_keep &= !self.body_begun || self.incoming.is_done();
        self.record.status.is_none() && error.code() != ErrorCode::ClientGone
    }

    /// Ends the exchange: logs it, and returns what becomes of the connection. `answered` is an
    /// error when no answer was sent, or not all of it.
    pub async fn finish(&mut self, answered: Result<()>) -> Fate {
        self.log();
        match (answered.is_err(), self.keeps) {
            (true, _) => Fate::Tear,
            (false, false) if self.incoming.is_done() && self.record.error.is_none() => Fate::Close,
            (false, false) => Fate::Linger,
            (false, true) if self.incoming.is_done() => Fate::KeepOpen,
            (false, true) => Box::pin(self.discard_body()).await,
        }
    }

    fn log(&mut self) {
        self.is_logged = true;
        self.record.total_us = self.elapsed_us();
        self.server.log.request(&self.record);
    }

    /// Discards the rest of a short body, within the time for which a closing connection is kept.
    async fn discard_body(&mut self) -> Fate {
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
    /// Logs a request that is cut off because the server ends or has a defect.
    fn drop(&mut self) {
        if self.is_logged {
            return;
        }
        let code = match std::thread::panicking() {
            true => ErrorCode::Internal,
            false => ErrorCode::Cancelled,
        };
        let error = Error::new(code, Side::Active, Phase::Transfer).with_subject(&self.path);
        self.record.error = Some(ErrorFacts::from(&error));
        self.log();
    }
}

/// The path of the request; `OPTIONS *` is about the server, so about its root.
fn path_of(head: &RequestHead) -> Result<LogicalPath> {
    if head.method == Method::Options && head.target.path_raw == "*" {
        return Ok(LogicalPath::root());
    }
    head.target.path()
}
