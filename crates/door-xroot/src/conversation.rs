//! The course of a connection: hello, then requests, until it ends or is bound to a session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::{XROOT_BURST_REQUESTS_MAX, XROOT_QUEUED_TIME_MAX};
use credentials::Credential;
use endpoint::{ClientId, IdleConnection};
use net::{Frames, Role, Stream};
use tokio::net::TcpStream;
use types::{Error, ErrorCode, Phase, Result, Side};
use xroot_wire::limits::{HELLO_BYTES, PROTOCOL_VERSION, REQUEST_HEADER_BYTES};
use xroot_wire::request::RequestHeader;
use xroot_wire::{ConnectionState, HELLO, HelloReply, Refusal};

use crate::answer::{abandon_files, refuse};
use crate::bound;
use crate::connection::{Connection, Next};
use crate::dispatch::dispatch;
use crate::elsewhere;
use crate::exchange::Exchange;
use crate::late::LateAnswers;
use crate::session::Session;
use crate::shared::Shared;

/// Serves a connection until it ends.
///
/// # Errors
/// A failure outside of any request.
pub(crate) async fn converse(door: &Arc<Shared>, tcp: TcpStream, peer: SocketAddr) -> Result<()> {
    let Some(frames) = greet(door, tcp).await? else {
        return Ok(());
    };
    // On the heap, as is everything rare, so that an idle connection stays small.
    let mut connection = Box::new(Connection {
        door: door.clone(),
        frames,
        peer,
        certificate_holder: Arc::new(Credential::Anonymous),
        session: None,
        late: LateAnswers::default(),
        idle: door.settings.site.fair_share.open_connection(&ClientId::at(peer.ip())),
        state: ConnectionState::new(false),
    });
    loop {
        let served = tokio::select! {
            biased;
            next = connection.serve() => next,
            () = door.gate.cut() => {
                abandon_files(&mut connection, ErrorCode::Cancelled);
                return Ok(());
            }
        };
        let next = served.inspect_err(|_| abandon_files(&mut connection, ErrorCode::ClientGone));
        connection = match next? {
            Next::Request | Next::Later | Next::Close => break,
            Next::Tls => Box::pin(connection.encrypt()).await?,
            Next::Bound(binding) => {
                Box::pin(connection.flush()).await?;
                let served = bound::serve(&connection.door.settings.site, connection.frames, binding);
                Box::pin(served).await;
                return Ok(());
            }
        };
    }
    abandon_files(&mut connection, ErrorCode::ClientGone);
    // The client may have closed the connection already.
    let _ = Box::pin(connection.frames.stream.close()).await;
    Ok(())
}

/// Reads the hello and queues the answer; `None` for a client of another protocol, which would not
/// understand one.
async fn greet(door: &Shared, tcp: TcpStream) -> Result<Option<Frames>> {
    let mut frames = Frames::new(Stream::clear(tcp, Role::Client, door.settings.site.limits.waits()));
    let wait = door.settings.site.limits.head_timeout;
    let hello = Box::pin(tokio::time::timeout(wait, says_hello(&mut frames, wait))).await;
    if !hello.map_err(|_| Error::new(ErrorCode::HeadTimeout, Side::Client, Phase::Connect))?? {
        return Ok(None);
    }
    let reply = HelloReply {
        version: PROTOCOL_VERSION,
        role: match elsewhere::is_redirector(&door.settings.site.exports.current()) {
            true => xroot_wire::Role::Redirector,
            false => xroot_wire::Role::DataServer,
        },
    };
    frames.stream.queue(&reply.encode());
    Ok(Some(frames))
}

/// Whether the first bytes are those of the protocol. A client of another protocol is recognised by
/// four, and need not send the rest.
async fn says_hello(frames: &mut Frames, wait: Duration) -> Result<bool> {
    const FEW: usize = 4;
    let few = frames.head::<FEW>(wait).await?;
    if few.is_none_or(|few| few[..] != HELLO[..FEW]) {
        return Ok(false);
    }
    let rest = frames.head::<{ HELLO_BYTES - FEW }>(wait).await?;
    Ok(rest.is_some_and(|rest| rest[..] == HELLO[FEW..]))
}

/// The next request header, within `limit`; `None` when the connection is idle and must end.
async fn head_within(
    frames: &mut Frames,
    idle: Option<&IdleConnection>,
    limit: Duration,
) -> Option<Result<Option<[u8; REQUEST_HEADER_BYTES]>>> {
    let head = frames.head(limit);
    match idle {
        Some(idle) => idle.wait(head).await,
        None => Some(head.await),
    }
}

impl Connection {
    /// Serves requests until something else must follow.
    async fn serve(&mut self) -> Result<Next> {
        while let Some(head) = self.next_head().await? {
            // On the heap, so that an idle connection stays small.
            match Box::pin(self.burst(head)).await? {
                Next::Request | Next::Later => {}
                next => return Ok(next),
            }
        }
        Ok(Next::Close)
    }

    /// Serves a request, and those behind it that have arrived already.
    async fn burst(&mut self, mut head: [u8; REQUEST_HEADER_BYTES]) -> Result<Next> {
        let mut served = 0;
        loop {
            let began = Instant::now();
            let next = self.one(&RequestHeader::parse(&head)).await?;
            if !matches!(next, Next::Request | Next::Later) {
                return Ok(next);
            }
            match began.elapsed() > XROOT_QUEUED_TIME_MAX {
                // Sending shows whether the client is still there; otherwise all its requests would
                // be served.
                true => self.flush().await?,
                false => self.relieve().await?,
            }
            served += 1;
            if served == XROOT_BURST_REQUESTS_MAX || self.frames.buffered_bytes() < REQUEST_HEADER_BYTES {
                return Ok(next);
            }
            // It has arrived already, so this does not wait.
            match self.frames.head(self.door.settings.site.limits.idle).await? {
                Some(next_head) => head = next_head,
                None => return Ok(Next::Close),
            }
        }
    }

    /// Waits for the next request, and sends late answers meanwhile; `None` when the connection
    /// must end.
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
            let limit = step.min(patience.saturating_sub(silent));
            let idle = (!busy && !self.late.is_working()).then_some(&self.idle);
            let answer = tokio::select! {
                // A client with open files may finish.
                () = self.door.gate.draining(), if !busy => return Ok(None),
                head = head_within(&mut self.frames, idle, limit) => return match head {
                    // Another connection needs the room.
                    None => Ok(None),
                    // A client that waits for our answer sends nothing.
                    Some(Err(error)) if is_stall(&error) && self.late.is_working() => continue,
                    Some(Err(error)) if is_stall(&error) && self.frames.buffered_bytes() == 0 => {
                        silent += limit;
                        if silent >= patience || self.door.settings.is_short(busy) {
                            return Ok(None);
                        }
                        continue;
                    }
                    // A silent client is not at fault.
                    Some(Err(_)) if self.frames.buffered_bytes() == 0 => Ok(None),
                    Some(head) => head,
                },
                answer = self.late.next() => answer,
            };
            Exchange::resume(self, answer);
            self.flush().await?;
        }
    }

    /// How long the client may send nothing.
    fn patience(&self, has_files: bool) -> Duration {
        let settings = &self.door.settings;
        match has_files {
            true => settings.limits.open_idle,
            false => settings.site.limits.idle,
        }
    }

    /// The same before login: such a client may not hold a connection for long, not even by sending
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

    /// Reads a payload that is needed as a whole.
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
        let payload = match self.state.admit(header).and_then(|()| header.payload()) {
            Ok(payload) => payload,
            Err(refusal) => return self.turn_down(header, began, refusal).await,
        };
        let path = header.payload_path();
        if path > 0 {
            return Box::pin(bound::one_elsewhere(self, path, header, payload, began)).await;
        }
        let buffered = self.buffered(payload.buffered_bytes()).await?;
        dispatch(self, header, &buffered, payload, began).await
    }

    /// Answers a request that is not allowed now, or whose payload is too long. If the connection
    /// continues, the payload is skipped.
    async fn turn_down(&mut self, header: &RequestHeader, began: Instant, refusal: Refusal) -> Result<Next> {
        let payload = header.payload();
        let closes = refusal.closes || payload.is_err();
        if let (false, Ok(_)) = (closes, payload) {
            // The length of a payload is not negative.
            self.frames.skip(header.length as u64).await?;
        }
        let refusal = if closes { refusal.closing() } else { refusal };
        Ok(refuse(self, header, began, refusal.into()))
    }
}

fn is_stall(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::BodyStalled | ErrorCode::PeerStalled)
}
