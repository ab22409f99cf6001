//! One connection: its first words, then a request after the other, until either side has enough.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::{XROOT_BURST_REQUESTS_MAX, XROOT_QUEUED_BYTES_MAX, XROOT_QUEUED_TIME_MAX};
use credentials::Credential;
use endpoint::ShareKind;
use net::{Frames, Role, Stream};
use tokio::net::TcpStream;
use types::{Error, ErrorCode, Phase, Result, Side};
use xroot_wire::Refusal;
use xroot_wire::limits::{HELLO_BYTES, PROTOCOL_VERSION, REQUEST_HEADER_BYTES};
use xroot_wire::request::{Access, Payload, Request, RequestHeader};
use xroot_wire::{Gate, HELLO, HelloReply, StreamId};

use crate::bound;
use crate::door::Shared;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::files::Files;
use crate::late::{LateAnswer, LateAnswers};
use crate::sessions::Binding;
use crate::setup::Session;
use crate::write;

/// What becomes of a connection behind a request.
pub(crate) enum Next {
    /// Another request may come.
    Request,
    /// The same; the answer to this one comes later.
    Later,
    /// The client begins TLS.
    Tls,
    /// It serves a session of another connection from now on.
    Bound(Binding),
    /// It ends, once the answer is sent.
    Close,
}

/// A connection and the session on it.
pub(crate) struct Connection {
    pub(crate) door: Arc<Shared>,
    pub(crate) frames: Frames,
    pub(crate) peer: SocketAddr,
    /// Who the certificates shown in the TLS handshake say that this is.
    pub(crate) visitor: Arc<Credential>,
    /// The session, from the login on.
    pub(crate) session: Option<Session>,
    pub(crate) late: LateAnswers,
    /// What may be asked when.
    pub(crate) gate: Gate,
}

/// Serves a connection until it ends. The error is one that belongs to no request.
pub(crate) async fn converse(door: &Arc<Shared>, tcp: TcpStream, peer: SocketAddr) -> Result<()> {
    let Some(frames) = greet(door, tcp).await? else {
        return Ok(());
    };
    // All that comes seldom has room elsewhere, so that a connection that waits stays small.
    let mut connection = Box::new(Connection {
        door: door.clone(),
        frames,
        peer,
        visitor: Arc::new(Credential::Anonymous),
        session: None,
        late: LateAnswers::default(),
        gate: Gate::new(false),
    });
    loop {
        let served = tokio::select! {
            biased;
            next = connection.serve() => next,
            () = door.gate.cut() => {
                connection.drop_files(ErrorCode::Cancelled);
                return Ok(());
            }
        };
        let next = served.inspect_err(|_| connection.drop_files(ErrorCode::ClientGone));
        connection = match next? {
            Next::Request | Next::Later | Next::Close => break,
            Next::Tls => Box::pin(connection.encrypt()).await?,
            Next::Bound(binding) => {
                Box::pin(connection.flush()).await?;
                let served = bound::serve(&connection.door, connection.frames, binding);
                Box::pin(served).await;
                return Ok(());
            }
        };
    }
    connection.drop_files(ErrorCode::ClientGone);
    // The client may be gone already; then there is nobody to say good-bye to.
    let _ = Box::pin(connection.frames.stream.close()).await;
    Ok(())
}

/// Hears the first words and queues the answer; `None` for whoever speaks something else, and would not
/// understand it.
async fn greet(door: &Shared, tcp: TcpStream) -> Result<Option<Frames>> {
    let mut frames = Frames::new(Stream::clear(tcp, Role::Client, door.settings.site.waits()));
    let wait = door.settings.site.limits.head_timeout;
    let hello = Box::pin(tokio::time::timeout(wait, says_hello(&mut frames, wait))).await;
    if !hello.map_err(|_| Error::new(ErrorCode::HeadTimeout, Side::Client, Phase::Connect))?? {
        return Ok(None);
    }
    let reply = HelloReply {
        version: PROTOCOL_VERSION,
        role: xroot_wire::Role::DataServer,
    };
    frames.stream.queue(&reply.encode());
    Ok(Some(frames))
}

/// Whether the first words are those of the protocol. The first few tell most strangers, which are not
/// kept waiting for the rest.
async fn says_hello(frames: &mut Frames, wait: Duration) -> Result<bool> {
    const FEW: usize = 4;
    let few = frames.head::<FEW>(wait).await?;
    if few.is_none_or(|few| few[..] != HELLO[..FEW]) {
        return Ok(false);
    }
    let rest = frames.head::<{ HELLO_BYTES - FEW }>(wait).await?;
    Ok(rest.is_some_and(|rest| rest[..] == HELLO[FEW..]))
}

impl Connection {
    /// Serves requests until something else than a request is to follow.
    async fn serve(&mut self) -> Result<Next> {
        while let Some(head) = self.next_head().await? {
            // A connection that waits keeps no room for what serving takes.
            match Box::pin(self.burst(head)).await? {
                Next::Request | Next::Later => {}
                next => return Ok(next),
            }
        }
        Ok(Next::Close)
    }

    /// Serves a request, and those behind it that have come already.
    async fn burst(&mut self, mut head: [u8; REQUEST_HEADER_BYTES]) -> Result<Next> {
        let mut served = 0;
        loop {
            let began = Instant::now();
            let next = self.one(&RequestHeader::parse(&head)).await?;
            if !matches!(next, Next::Request | Next::Later) {
                return Ok(next);
            }
            match began.elapsed() > XROOT_QUEUED_TIME_MAX {
                // Only sending shows that a client has gone; otherwise all of its requests would still be served.
                true => self.flush().await?,
                false => self.relieve().await?,
            }
            served += 1;
            if served == XROOT_BURST_REQUESTS_MAX || self.frames.buffered_bytes() < REQUEST_HEADER_BYTES {
                return Ok(next);
            }
            // It is there already, so that nothing is waited for.
            match self.frames.head(self.door.settings.site.limits.idle).await? {
                Some(next_head) => head = next_head,
                None => return Ok(Next::Close),
            }
        }
    }

    /// Waits for the next request, and sends late answers meanwhile; `None` when none will come, or none
    /// is taken any more.
    async fn next_head(&mut self) -> Result<Option<[u8; REQUEST_HEADER_BYTES]>> {
        self.flush_unless_buffered(REQUEST_HEADER_BYTES as u64).await?;
        let busy = self.session.as_ref().is_some_and(Session::has_open_files);
        if self.session.is_none() {
            return Box::pin(self.strangers_head()).await;
        }
        let (mut silent, patience, step) = (
            Duration::ZERO,
            self.patience(busy),
            self.door.settings.patience_step(busy),
        );
        loop {
            let idle = step.min(patience.saturating_sub(silent));
            let answer = tokio::select! {
                // Whoever has files open may end what it began.
                () = self.door.gate.draining(), if !busy => return Ok(None),
                head = self.frames.head::<REQUEST_HEADER_BYTES>(idle) => return match head {
                    // Whoever waits for our answer has nothing to say.
                    Err(error) if is_stall(&error) && self.late.is_working() => continue,
                    Err(error) if is_stall(&error) && self.frames.buffered_bytes() == 0 => {
                        silent += idle;
                        if silent >= patience || self.door.settings.is_short(busy) {
                            return Ok(None);
                        }
                        continue;
                    }
                    // A client that says nothing is not at fault.
                    Err(_) if self.frames.buffered_bytes() == 0 => Ok(None),
                    head => head,
                },
                answer = self.late.next() => answer,
            };
            self.answer_late(answer);
            self.flush().await?;
        }
    }

    /// How long the client may say nothing.
    fn patience(&self, has_files: bool) -> Duration {
        let settings = &self.door.settings;
        match has_files {
            true => settings.limits.open_idle,
            false => settings.site.limits.idle,
        }
    }

    /// The same for a client that has not logged in: it may not hold a connection for long, not even
    /// byte by byte.
    async fn strangers_head(&mut self) -> Result<Option<[u8; REQUEST_HEADER_BYTES]>> {
        let wait = self.door.settings.site.limits.head_timeout;
        tokio::select! {
            () = self.door.gate.draining() => Ok(None),
            head = tokio::time::timeout(wait, self.frames.head::<REQUEST_HEADER_BYTES>(wait)) => match head {
                Ok(head) => head,
                Err(_) => Ok(None),
            },
        }
    }

    /// The payload of a request that is to be had as a whole.
    async fn buffered(&mut self, length: usize) -> Result<Vec<u8>> {
        if length <= self.frames.buffered_bytes() {
            return self.frames.small(length, length).await;
        }
        self.flush().await?;
        let wait = self.door.settings.site.limits.head_timeout;
        match tokio::time::timeout(wait, self.frames.small(length, length)).await {
            Ok(payload) => payload,
            Err(_) => Err(Error::new(ErrorCode::HeadTimeout, Side::Client, Phase::Open)),
        }
    }

    /// One request and its answer.
    async fn one(&mut self, header: &RequestHeader) -> Result<Next> {
        let began = Instant::now();
        let payload = match self.gate.admit(header).and_then(|()| header.payload()) {
            Ok(payload) => payload,
            Err(refusal) => return self.turn_down(header, began, refusal).await,
        };
        let path = header.payload_path();
        if path > 0 {
            return Box::pin(self.one_elsewhere(path, header, payload, began)).await;
        }
        let buffered = self.buffered(payload.buffered_bytes()).await?;
        self.one_buffered(header, &buffered, payload, began).await
    }

    /// One request, with the part of its payload that is to be had as a whole.
    pub(crate) async fn one_buffered(
        &mut self,
        header: &RequestHeader,
        buffered: &[u8],
        payload: Payload,
        began: Instant,
    ) -> Result<Next> {
        match Request::parse(header, buffered) {
            Ok(request) => self.dispatch(header, request, payload, began).await,
            Err(refusal) => {
                if let Payload::Streamed(length) = payload {
                    self.frames.skip(length as u64).await?;
                }
                if let Some(path) = header.changed_path(buffered) {
                    write::refuse_named(&mut Exchange::begin(self, header, began), &path);
                }
                Ok(self.refuse(header, began, refusal.into()))
            }
        }
    }

    /// Answers a request that may not be asked now, or whose payload is too long. Where the connection
    /// goes on, the payload is passed over.
    async fn turn_down(&mut self, header: &RequestHeader, began: Instant, refusal: Refusal) -> Result<Next> {
        let payload = header.payload();
        let closes = refusal.closes || payload.is_err();
        if let (false, Ok(_)) = (closes, payload) {
            // Not negative, since it is a payload.
            self.frames.skip(header.length as u64).await?;
        }
        let refusal = if closes { refusal.closing() } else { refusal };
        Ok(self.refuse(header, began, refusal.into()))
    }

    async fn dispatch(
        &mut self,
        header: &RequestHeader,
        request: Request<'_>,
        payload: Payload,
        began: Instant,
    ) -> Result<Next> {
        if let Some(uploads) = is_upload(&request) {
            // Beside many uploads all others go first.
            let gives_way = uploads && self.door.uploads.are_many();
            self.frames.stream.give_way(gives_way).await;
        }
        match request {
            Request::Read(read) => self.read(header.stream, &read, began).await,
            Request::PageRead(read) => self.page_read(header.stream, &read, began).await,
            Request::ReadVector(vector) => self.read_vector(header.stream, &vector, began).await,
            Request::Write(write) => self.write(header.stream, &write, began).await,
            Request::PageWrite(write) => self.page_write(header.stream, &write, began).await,
            Request::WriteVector(vector) => self.write_vector(header.stream, &vector, began).await,
            request => {
                if let Payload::Embedded(_) = payload {
                    // What the embedded request announces follows it; nothing can be made of it here.
                    return Ok(self.refuse(header, began, not_offered().closing()));
                }
                Exchange::begin(self, header, began).serve(request).await
            }
        }
    }

    /// Answers a request that was refused before anything was done for it.
    pub(crate) fn refuse(&mut self, header: &RequestHeader, began: Instant, failure: Failure) -> Next {
        let closes = failure.closes;
        if let (Some(handle), Some(session)) = (header.changed_file(), &mut self.session) {
            session.files.refuse_change(handle);
        }
        Exchange::begin(self, header, began).finish(Err(failure));
        if closes { Next::Close } else { Next::Request }
    }

    /// Answers a request about data of an open file that failed.
    pub(crate) fn fail(&mut self, stream: StreamId, method: &'static str, began: Instant, failure: Failure) -> Next {
        Exchange::new(self, stream, method, began).finish(Err(failure))
    }

    /// The session, which there is behind the login.
    pub(crate) fn session(&mut self) -> std::result::Result<&mut Session, Failure> {
        let none = || Error::new(ErrorCode::OutOfSequence, Side::Client, Phase::Open);
        Ok(self.session.as_mut().ok_or_else(none)?)
    }

    /// The open files of the session.
    pub(crate) fn files(&mut self) -> std::result::Result<&mut Files, Failure> {
        Ok(&mut self.session()?.files)
    }

    fn answer_late(&mut self, answer: LateAnswer) {
        Exchange::resume(self, answer);
    }

    /// Answers what was being worked on and is given up.
    pub(crate) fn answer_all(&mut self, answers: Vec<LateAnswer>) {
        for answer in answers {
            self.answer_late(answer);
        }
    }

    /// Queues an answer.
    pub(crate) fn queue(&mut self, build: impl FnOnce(&mut Vec<u8>)) {
        self.frames.stream.queue_message(build);
    }

    /// Sends answers when there are many of them.
    pub(crate) async fn relieve(&mut self) -> Result<()> {
        if self.frames.stream.queued_bytes() > XROOT_QUEUED_BYTES_MAX {
            self.flush().await?;
        }
        Ok(())
    }

    /// Sends what is queued, unless so many bytes are there that nothing is waited for.
    pub(crate) async fn flush_unless_buffered(&mut self, bytes: u64) -> Result<()> {
        match self.frames.buffered_bytes() as u64 >= bytes {
            true => Ok(()),
            false => self.flush().await,
        }
    }

    /// Sends what is queued.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        if self.frames.stream.queued_bytes() > 0 {
            self.frames.stream.flush().await?;
        }
        Ok(())
    }

    /// Begins TLS behind the answer that announced it.
    async fn encrypt(self: Box<Self>) -> Result<Box<Self>> {
        let this = *self;
        let Some(tls) = this.door.settings.site.tls.clone() else {
            return Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Tls));
        };
        let mut connection = Box::new(Self {
            frames: this.frames.upgrade_server(&tls).await?,
            ..this
        });
        connection.gate.on_tls();
        connection.meet();
        Ok(connection)
    }

    /// Learns from the TLS handshake who the client is, also where its session began in clear text. A
    /// token by which it has said so before counts for more.
    fn meet(&mut self) {
        let shown = self.frames.stream.take_peer_certificates();
        self.visitor = self.door.settings.site.authenticator.certificates(shown.as_deref());
        if let Some(session) = &mut self.session
            && matches!(*session.credential, Credential::Anonymous)
        {
            session.credential = self.visitor.clone();
        }
    }

    /// Counts the connection for whom the session belongs to, beside the address that it comes from.
    pub(crate) fn identify(&mut self) -> std::result::Result<(), Failure> {
        let door = self.door.clone();
        let session = self.session()?;
        session.counted = None;
        session.counted = door
            .settings
            .fair_share
            .identify(ShareKind::Connections, &session.credential)?;
        Ok(())
    }

    /// Gives up all files that are open, and says why.
    fn drop_files(&mut self, why: ErrorCode) {
        let files = self.session.as_mut().map(Session::take_files).unwrap_or_default();
        for file in files {
            Exchange::closing(self, StreamId::ZERO, Instant::now()).abandon(file, why);
        }
    }
}

/// Whether a request is part of an upload; `None` when it says nothing about that.
fn is_upload(request: &Request<'_>) -> Option<bool> {
    match request {
        Request::Open(open) => Some(open.access() != Access::Read),
        Request::Write(_) | Request::PageWrite(_) | Request::WriteVector(_) => Some(true),
        Request::Close(_) | Request::Sync(_) | Request::Truncate(_) => None,
        _ => Some(false),
    }
}

fn is_stall(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::BodyStalled | ErrorCode::PeerStalled)
}

/// What this server does not do at all.
pub(crate) fn not_offered() -> Failure {
    Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open)
        .with_detail("the server does not offer this request")
        .into()
}
