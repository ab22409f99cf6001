//! One TCP connection, in clear text or TLS, driven without an adapter between socket and records.

mod bundle;
mod incoming;
mod low_water;
mod outgoing;
mod paged;
mod session;
mod socket;
mod steady;
#[cfg(test)]
mod testing;

use std::net::SocketAddr;
use std::time::Duration;

use crate::limits::FOREGROUND_TURNS;
use execution::background;
use rustls_pki_types::CertificateDer;
use tokio::net::TcpStream;
use types::limits::{LINGER_TIMEOUT, STALL_TIMEOUT, TASK_TURN_BYTES, TLS_HANDSHAKE_TIMEOUT};
use types::{Error, Phase};

use crate::failure::Role;
pub use bundle::Bundle;
pub(crate) use incoming::Appetite;
use incoming::Carry;
pub use outgoing::Outgoing;
pub(crate) use session::EARLY_BYTES;
use session::TlsState;
use socket::Socket;
pub use steady::Turn;

/// How long a connection may keep us waiting.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// For a TLS handshake, all of it.
    pub handshake: Duration,
    /// For the next byte in either direction once data flows.
    pub stall: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            handshake: TLS_HANDSHAKE_TIMEOUT,
            stall: STALL_TIMEOUT,
        }
    }
}

/// The two addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Our own.
    pub local: SocketAddr,
    /// The other end's.
    pub peer: SocketAddr,
}

/// A connection. Reading yields [`Batch`](crate::Batch)es of plaintext; writing goes through
/// [`Outgoing`] for payload and [`Stream::queue`] for heads.
///
/// All waits end after the stall time with an error that blames the other end.
pub struct Stream {
    socket: Socket,
    role: Role,
    tls: Option<Box<TlsState>>,
    /// Received and not yet handed out: ciphertext, with its place in the buffer.
    carry: Option<Carry>,
    /// Small plaintext that goes out in front of what is sent next.
    queued: Vec<u8>,
    /// Where in it messages begin that need a TLS record of their own, in order.
    record_starts: Vec<usize>,
    end_seen: End,
    /// A send has begun and not ended: a part of a record may be on the wire, and whatever follows
    /// it would be taken for its rest.
    mid_send: bool,
    /// Whether it has sent a large batch: from then on there has to be room for one before a buffer
    /// is taken.
    sends_much: bool,
    /// Payload since others had their turn.
    turn_bytes: usize,
    /// Turns since the task came to the foreground.
    turns: u32,
    /// Whether it stays in the background also while it waits for something small.
    gives_way: bool,
    waits: Waits,
}

/// How far the other end has closed its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// The TCP stream ended without TLS saying so: what came last may be missing.
    Torn,
    /// Ended as it should.
    Clean,
}

impl Stream {
    /// A connection in clear text.
    #[must_use]
    pub fn clear(tcp: TcpStream, role: Role, waits: Waits) -> Self {
        Self {
            socket: Socket::new(tcp),
            role,
            tls: None,
            carry: None,
            queued: Vec::new(),
            record_starts: Vec::new(),
            end_seen: End::Open,
            mid_send: false,
            sends_much: false,
            turn_bytes: 0,
            turns: 0,
            gives_way: false,
            waits,
        }
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// What the other end is to us.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The other end's address.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.socket.peer_address()
    }

    /// Our own address on this connection.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_address()
    }

    /// Both addresses of this connection.
    #[must_use]
    pub fn ends(&self) -> Option<Ends> {
        let (local, peer) = (self.local_address()?, self.peer_address()?);
        Some(Ends { local, peer })
    }

    /// Negotiated protocol, for the log: `TLSv1.3`, `TLSv1.2` or `clear`.
    #[must_use]
    pub fn security(&self) -> &'static str {
        self.tls.as_ref().map_or("clear", |tls| tls.version_name())
    }

    /// Whether its TLS goes on with an earlier session, without a full handshake.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.is_resumed)
    }

    /// The certificates that the other end showed in its handshake, its own first, whose key it has
    /// proved to hold. On a resumed session those of the first one.
    #[must_use]
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.tls.as_ref()?.session.peer_certificates.as_deref()
    }

    /// As [`Stream::peer_certificates`], and keeps them no longer: an idle connection would
    /// otherwise hold several times as many bytes as it needs.
    pub fn take_peer_certificates(&mut self) -> Option<Vec<CertificateDer<'static>>> {
        self.tls.as_mut()?.session.peer_certificates.take()
    }

    /// Changes how long the connection may keep us waiting.
    pub fn set_stall(&mut self, stall: Duration) {
        self.waits.stall = stall;
    }

    /// How long the connection may keep us waiting for the next byte.
    #[must_use]
    pub fn stall(&self) -> Duration {
        self.waits.stall
    }

    /// Whether the other end finished its direction properly. A body that is framed by the end of
    /// the connection is whole only then (RFC 9112 §9.8).
    #[must_use]
    pub fn ended_cleanly(&self) -> bool {
        self.end_seen == End::Clean
    }

    /// Waits until the other end closes or resets the connection, without reading from it.
    ///
    /// Data that arrives meanwhile (a pipelined request) stays where it is.
    pub async fn peer_closed(&mut self) {
        const LOOK_AGAIN: Duration = Duration::from_millis(100);
        let Ok(tcp) = self.socket.watched() else { return };
        loop {
            match tcp.ready(tokio::io::Interest::READABLE).await {
                Ok(ready) if ready.is_read_closed() || ready.is_error() => return,
                Ok(_) => {}
                Err(_) => return,
            }
            if session::is_hung_up(tcp) {
                return;
            }
            // Readable but open: something was pipelined. Readiness will not change until it is
            // read, so the state of the connection is looked at now and then.
            let empty = tcp.try_io(tokio::io::Interest::READABLE, || session::peek_one(tcp));
            if matches!(empty, Ok(0)) {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends our direction: what is queued, then the TLS farewell, then the TCP one.
    ///
    /// # Errors
    /// When the rest cannot be sent.
    pub async fn close(mut self) -> Result<(), Error> {
        self.say_goodbye().await
    }

    /// As [`Stream::close`], then reads and drops what still comes, up to `limit_bytes`, a second
    /// of silence or [`LINGER_TIMEOUT`] in all, so that a final answer is not lost to a reset (RFC
    /// 9112 §9.6).
    pub async fn close_lingering(mut self, limit_bytes: usize) {
        let quiet = Duration::from_secs(1);
        if self.say_goodbye().await.is_err() {
            return;
        }
        self.carry = None;
        let mut scratch = crate::Buffer::small();
        let drain = async {
            let mut seen = 0;
            while seen < limit_bytes {
                match tokio::time::timeout(quiet, self.read_raw(&mut scratch)).await {
                    Ok(Ok(count)) if count > 0 => seen += count,
                    _ => return,
                }
            }
        };
        // A sender that drips would otherwise never be silent long enough.
        let _ = tokio::time::timeout(LINGER_TIMEOUT, drain).await;
    }

    /// The last words share a segment with the end of our direction, which sends them.
    async fn say_goodbye(&mut self) -> Result<(), Error> {
        let mut last = self.take_queued()?;
        if let Some(tls) = &mut self.tls {
            last.extend(tls.farewell());
        }
        self.write_flagged(&last, rustix::net::SendFlags::MORE).await?;
        if let Some(socket) = self.socket.fd() {
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
        }
        Ok(())
    }

    /// Lets other tasks run when this one has moved enough. The runtime counts steps for that, and
    /// one here is a batch of 256 KiB: where nothing ever makes it wait, a task would hold its
    /// worker for 10 ms. One that has had some turns goes on in the background.
    async fn take_turns(&mut self) {
        if self.turn_bytes < TASK_TURN_BYTES {
            tokio::task::coop::consume_budget().await;
            return;
        }
        self.turn_bytes = 0;
        self.turns = self.turns.saturating_add(1);
        if self.turns < FOREGROUND_TURNS {
            tokio::task::yield_now().await;
        } else if background::enter().await {
            // From now on the runtime that it is in looks after the socket.
            self.socket.let_go();
        }
    }

    /// Comes back to the foreground, to wait for something small.
    async fn come_back(&mut self) {
        self.turns = 0;
        if !self.gives_way && background::leave().await {
            self.socket.let_go();
        }
    }

    /// Goes on in the background from now on, or no longer. For a connection that asks for more
    /// than others do at the same time, such as one small upload after the other: it stays there
    /// while it waits for the next one, since to go to and fro for each costs the foreground as
    /// much as to serve it.
    pub async fn give_way(&mut self, gives_way: bool) {
        if self.gives_way == gives_way {
            return;
        }
        self.gives_way = gives_way;
        let has_moved = match gives_way {
            true => background::enter().await,
            false => background::leave().await,
        };
        if has_moved {
            self.socket.let_go();
        }
    }

    async fn read_raw(&mut self, into: &mut [u8]) -> Result<usize, Error> {
        loop {
            match self.socket.read(into) {
                Ok(count) => return Ok(count),
                Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => {
                    self.wait_readable(self.waits.stall).await?
                }
                Err(cause) => return Err(self.role.broken(Phase::Transfer, &cause)),
            }
        }
    }

    async fn wait_readable(&mut self, limit: Duration) -> Result<(), Error> {
        let outcome = tokio::time::timeout(limit, self.socket.readable()).await;
        self.waited(outcome)
    }

    async fn wait_writable(&mut self) -> Result<(), Error> {
        let outcome = tokio::time::timeout(self.waits.stall, self.socket.writable()).await;
        self.waited(outcome)
    }

    /// Waits until there is room for about a batch.
    async fn wait_for_room(&mut self) -> Result<(), Error> {
        let outcome = tokio::time::timeout(self.waits.stall, self.socket.roomy()).await;
        self.waited(outcome)
    }

    fn waited(&self, outcome: Result<std::io::Result<()>, tokio::time::error::Elapsed>) -> Result<(), Error> {
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(cause)) => Err(self.role.broken(Phase::Transfer, &cause)),
            Err(_) => Err(self.role.stalled(Phase::Transfer)),
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Stream({:?}, {}, {:?})",
            self.peer_address(),
            self.security(),
            self.end_seen
        )
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::task::Poll;

    use tokio::io::AsyncWriteExt;
    use types::limits::STEADY_NICENESS;

    use super::*;
    use testing::niceness;

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_drips_does_not_keep_a_closing_connection() {
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        let stream = Stream::clear(near, Role::Client, Waits::default());
        let dripping = tokio::spawn(async move {
            while far.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        let began = tokio::time::Instant::now();
        stream.close_lingering(10_000).await;
        assert!(
            began.elapsed() <= LINGER_TIMEOUT + Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
        dripping.await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_that_gives_way_waits_in_the_background_until_it_does_no_longer() {
        testing::start_background();
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        let usual = niceness();
        let (sender, mut places) = tokio::sync::mpsc::unbounded_channel();
        let serving = tokio::spawn(background::movable(async move {
            let mut frames = crate::Frames::new(Stream::clear(near, Role::Client, Waits::default()));
            for gives_way in [false, true, true, false] {
                assert_eq!(frames.head(STALL_TIMEOUT).await.unwrap(), Some(*b"next"));
                sender.send(niceness()).unwrap();
                frames.stream.give_way(gives_way).await;
                sender.send(niceness()).unwrap();
            }
        }));
        let nicer = (usual + STEADY_NICENESS).min(19);
        for expected in [[usual, usual], [usual, nicer], [nicer, nicer], [nicer, usual]] {
            far.write_all(b"next").await.unwrap();
            for place in expected {
                assert_eq!(places.recv().await, Some(place));
            }
        }
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn much_is_moved_in_the_background_and_the_next_request_heard_in_the_foreground() {
        const LONG_BYTES: usize = 4 * FOREGROUND_TURNS as usize * TASK_TURN_BYTES;
        testing::start_background();
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        let usual = niceness();
        let (waits, mut waiting) = tokio::sync::mpsc::unbounded_channel();
        let serving = tokio::spawn(background::movable(async move {
            let mut frames = crate::Frames::new(Stream::clear(near, Role::Client, Waits::default()));
            for _ in 0..2 {
                let mut payload = frames.payload(LONG_BYTES as u64);
                let mut seen = Vec::new();
                while let Some(batch) = payload.next().await.unwrap() {
                    assert!(batch.slices().flatten().all(|byte| *byte == 7));
                    seen.push(niceness());
                }
                assert_eq!(seen.first(), Some(&usual));
                assert_eq!(seen.last(), Some(&(usual + STEADY_NICENESS).min(19)));
                let mut head = Box::pin(frames.head(STALL_TIMEOUT));
                let mut told = false;
                let next = std::future::poll_fn(|context| {
                    let polled = head.as_mut().poll(context);
                    if polled.is_pending() && niceness() == usual && !std::mem::replace(&mut told, true) {
                        waits.send(()).unwrap();
                    }
                    polled
                });
                assert_eq!(next.await.unwrap(), Some(*b"what next"));
                assert_eq!(niceness(), usual);
            }
        }));
        for _ in 0..2 {
            far.write_all(&vec![7; LONG_BYTES]).await.unwrap();
            // If the next request has come already, the task need not return to wait for it.
            let waits = tokio::time::timeout(STALL_TIMEOUT, waiting.recv()).await;
            waits.expect("it comes back").unwrap();
            far.write_all(b"what next").await.unwrap();
        }
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_task_that_has_moved_enough_lets_others_run() {
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let _far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        let mut stream = Stream::clear(near, Role::Client, Waits::default());
        let room = stream.outgoing().await.unwrap();
        stream.send(room, 1000).await.unwrap();
        assert_eq!(stream.turn_bytes, 1000);
        for (turn_bytes, is_pending) in [(TASK_TURN_BYTES - 1, false), (TASK_TURN_BYTES, true)] {
            stream.turn_bytes = turn_bytes;
            let mut turn = Box::pin(stream.take_turns());
            let first = std::future::poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await;
            assert_eq!(first.is_pending(), is_pending, "after {turn_bytes} bytes");
        }
    }
}
