//! Binary messages on a connection, for servers and clients alike: heads of fixed length and small
//! bodies are copied out, payload of known length is handed on as batches where it lies.
//!
//! Nothing is lost when a future of this module is dropped: what had come of a head or of a small
//! body is kept, and the next call goes on from there.

use std::time::{Duration, Instant};

use crate::limits::{BODY_BYTES_PER_STALL, TLS_RECORD_BYTES};
use types::{Error, ErrorCode, Phase};

use crate::buffer::{Batch, LARGE_BYTES};
use crate::stream::{Appetite, EARLY_BYTES, Stream};
use crate::tls::{ClientTls, ServerTls};

/// A connection that speaks a protocol of binary messages with lengths.
#[derive(Debug)]
pub struct Frames {
    /// The connection below, for writing.
    pub stream: Stream,
    /// The beginning of a head or small body that is not whole yet. It precedes `held`.
    begun: Vec<u8>,
    /// Plaintext that was read with what came before it. Never empty.
    held: Option<Batch>,
    /// Bytes of the head that usually follows a payload, to be read with it.
    head_ahead_bytes: usize,
}

impl Frames {
    /// Speaks in messages on `stream`.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            begun: Vec::new(),
            held: None,
            head_ahead_bytes: 0,
        }
    }

    /// Says how long the head is that usually follows a payload. In clear text it is then read with
    /// the payload before it, and the next payload begins where a buffer begins, instead of behind
    /// what was read with its head.
    pub fn expect_heads(&mut self, head_bytes: usize) {
        self.head_ahead_bytes = head_bytes;
    }

    /// Plaintext that has been read and not been taken, in bytes. While there is a whole head among
    /// it, more requests are at hand, and answers may be queued instead of sent one by one.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.begun.len() + self.held.as_ref().map_or(0, Batch::len)
    }

    /// Waits until something has come, holding no buffer meanwhile. May be dropped.
    ///
    /// # Errors
    /// A stall after `limit`.
    pub async fn wait_for_input(&mut self, limit: Duration) -> Result<(), Error> {
        if self.buffered_bytes() > 0 {
            return Ok(());
        }
        self.stream.wait_for_input(limit).await
    }

    /// The next `N` bytes; `None` when the other end closed the connection in front of them.
    ///
    /// The first of them may take `idle`, all others together the stall time. May be dropped.
    ///
    /// # Errors
    /// A stall, or a connection that ends in the middle.
    pub async fn head<const N: usize>(&mut self, idle: Duration) -> Result<Option<[u8; N]>, Error> {
        let mut end = None;
        loop {
            if let Some(head) = self.take_head() {
                return Ok(Some(head));
            }
            let limit = if self.begun.is_empty() {
                idle
            } else {
                let end = *end.get_or_insert_with(|| Instant::now() + self.stream.stall());
                end.saturating_duration_since(Instant::now())
            };
            match self.stream.read_within(Appetite::Small, limit).await? {
                Some(batch) => self.held = Some(batch),
                None if self.begun.is_empty() => return Ok(None),
                None => return Err(self.stream.role().closed(Phase::Transfer)),
            }
        }
    }

    /// As [`Frames::head`] without waiting: `None` when the bytes are not all there. This is how a
    /// sender hears answers between what it sends.
    ///
    /// # Errors
    /// The connection ended although an answer was due.
    pub fn head_available<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Error> {
        loop {
            if let Some(head) = self.take_head() {
                return Ok(Some(head));
            }
            match self.stream.read_available()? {
                Some(batch) => self.held = Some(batch),
                None => return Ok(None),
            }
        }
    }

    /// A small body of `length` bytes, copied out. It may take the stall time, and as long again
    /// for each [`BODY_BYTES_PER_STALL`]. May be dropped.
    ///
    /// # Errors
    /// `body_too_large` over `limit_bytes`, and then nothing of it has been taken; a stall; a
    /// connection that ends before it is whole.
    pub async fn small(&mut self, length: usize, limit_bytes: usize) -> Result<Vec<u8>, Error> {
        let role = self.stream.role();
        if length > limit_bytes {
            let error = Error::new(ErrorCode::BodyTooLarge, role.side(), Phase::Transfer);
            return Err(error.with_detail(format!("at most {limit_bytes} bytes are read here")));
        }
        let times = u32::try_from(1 + length / BODY_BYTES_PER_STALL).unwrap_or(u32::MAX);
        let end = Instant::now() + self.stream.stall().saturating_mul(times);
        loop {
            self.gather(length);
            if self.begun.len() >= length {
                let rest = self.begun.split_off(length);
                return Ok(std::mem::replace(&mut self.begun, rest));
            }
            let left = end.saturating_duration_since(Instant::now());
            let limit = left.min(self.stream.stall());
            match self.stream.read_within(Appetite::Small, limit).await? {
                Some(batch) => self.held = Some(batch),
                None => return Err(role.closed(Phase::Transfer)),
            }
        }
    }

    /// The next `length` bytes as payload, as a view that borrows the connection.
    #[must_use]
    pub fn payload(&mut self, length: u64) -> Payload<'_> {
        Payload {
            frames: self,
            expected: Expected::new(length),
        }
    }

    /// Reads `length` bytes and drops them.
    ///
    /// # Errors
    /// As [`Expected::next`].
    pub async fn skip(&mut self, length: u64) -> Result<(), Error> {
        let mut expected = Expected::new(length);
        expected.skip(self).await
    }

    /// Sends what is queued, then answers the client's TLS handshake on this connection.
    ///
    /// # Errors
    /// As [`Stream::upgrade_server`].
    pub async fn upgrade_server(self, tls: &ServerTls) -> Result<Self, Error> {
        Ok(Self::new(self.into_stream()?.upgrade_server(tls).await?))
    }

    /// Sends what is queued, then begins TLS with the server that calls itself `host`.
    ///
    /// # Errors
    /// As [`Stream::upgrade_client`].
    pub async fn upgrade_client(self, tls: &ClientTls, host: &str) -> Result<Self, Error> {
        Ok(Self::new(self.into_stream()?.upgrade_client(tls, host).await?))
    }

    fn into_stream(self) -> Result<Stream, Error> {
        if self.buffered_bytes() > 0 {
            return Err(self.stream.role().tls(EARLY_BYTES));
        }
        Ok(self.stream)
    }

    fn take_head<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut head = [0; N];
        if self.begun.is_empty()
            && let Some(front) = self.held.as_ref().and_then(Batch::front)
            && let Some((first, _)) = front.split_first_chunk::<N>()
        {
            head = *first;
            self.drop_held(N);
            return Some(head);
        }
        self.gather(N);
        if self.begun.len() < N {
            return None;
        }
        head.copy_from_slice(&self.begun[..N]);
        self.begun.drain(..N);
        Some(head)
    }

    /// Moves held bytes to what has begun until that is `length` bytes long.
    fn gather(&mut self, length: usize) {
        while self.begun.len() < length
            && let Some(front) = self.held.as_ref().and_then(Batch::front)
        {
            let step = front.len().min(length - self.begun.len());
            self.begun.extend_from_slice(&front[..step]);
            self.drop_held(step);
        }
    }

    fn drop_held(&mut self, count: usize) {
        self.held = self.held.take().and_then(|mut batch| {
            batch.advance(count);
            (!batch.is_empty()).then_some(batch)
        });
    }

    /// Takes what has arrived of the next `left` bytes of payload.
    fn take_held(&mut self, left: usize) -> Option<Batch> {
        if !self.begun.is_empty() {
            let count = left.min(self.begun.len()).min(LARGE_BYTES);
            let batch = Batch::copied(&self.begun[..count]);
            self.begun.drain(..count);
            return Some(batch);
        }
        let (front, rest) = self.held.take()?.split(left);
        self.held = rest;
        Some(front)
    }
}

/// How much of a payload is still to come: a state that is kept beside the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    left: u64,
}

impl Expected {
    /// All `length` bytes are still to come.
    #[must_use]
    pub fn new(length: u64) -> Self {
        Self { left: length }
    }

    /// Bytes still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next of the payload; `None` at its end. What follows the payload stays in `frames`. May
    /// be dropped.
    ///
    /// # Errors
    /// A stall, or a connection that ends before the payload does.
    pub async fn next(&mut self, frames: &mut Frames) -> Result<Option<Batch>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        loop {
            if let Some(batch) = frames.take_held(left) {
                self.left -= batch.len() as u64;
                return Ok(Some(batch));
            }
            // Behind a small payload the next message is welcome in the same call.
            let appetite = if left <= TLS_RECORD_BYTES {
                Appetite::Small
            } else {
                // Records are read whole anyway.
                let is_encrypted = frames.stream.is_encrypted();
                let ahead = if is_encrypted { 0 } else { frames.head_ahead_bytes };
                Appetite::AtMost(left.saturating_add(ahead))
            };
            frames.held = frames.stream.read(appetite).await?;
            if frames.held.is_none() {
                return Err(frames.stream.role().closed(Phase::Transfer));
            }
        }
    }

    /// Reads what is left and drops it. May be dropped and called again.
    ///
    /// # Errors
    /// As [`Expected::next`].
    pub async fn skip(&mut self, frames: &mut Frames) -> Result<(), Error> {
        while self.next(frames).await?.is_some() {}
        Ok(())
    }
}

/// A payload on its way in, with its connection. What is not read of it stays in the connection.
#[derive(Debug)]
pub struct Payload<'a> {
    frames: &'a mut Frames,
    expected: Expected,
}

impl Payload<'_> {
    /// As [`Expected::next`].
    ///
    /// # Errors
    /// As [`Expected::next`].
    pub async fn next(&mut self) -> Result<Option<Batch>, Error> {
        self.expected.next(self.frames).await
    }

    /// Bytes still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.expected.left
    }

    /// Reads the rest and drops it, so that the next message can be read.
    ///
    /// # Errors
    /// As [`Expected::next`].
    pub async fn skip(&mut self) -> Result<(), Error> {
        self.expected.skip(self.frames).await
    }
}
