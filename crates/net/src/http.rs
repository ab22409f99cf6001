//! HTTP/1.1 messages on a connection, for servers and clients alike: heads are parsed out of small
//! buffers, bodies are handed on as batches with the framing cut out.

use std::time::Duration;

use crate::limits::TLS_RECORD_BYTES;
use http_wire::{
    BodyDecoder, Framing, HeadLimits, LastHeaders, RequestHead, ResponseHead, parse_next_request, parse_response,
};
use types::{Error, ErrorCode, Phase};

use crate::buffer::{Batch, Buffer, LARGE_BYTES, SMALL_BYTES};
use crate::failure::Role;
use crate::stream::{Appetite, Stream};

/// Room that a connection keeps for bytes that came with a head.
const LEFTOVER_KEPT_BYTES: usize = 4096;

/// A connection that speaks HTTP/1.1.
#[derive(Debug)]
pub struct Connection {
    /// The connection below, for writing heads and payload.
    pub stream: Stream,
    /// Plaintext that was read with a head or behind a body and belongs to what comes next.
    leftover: Vec<u8>,
    /// What the last request said, which the next one will most likely say again.
    last_headers: LastHeaders,
}

impl Connection {
    /// Speaks HTTP on `stream`.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            leftover: Vec::new(),
            last_headers: LastHeaders::default(),
        }
    }

    /// The next request; `None` when the client closed the connection instead.
    ///
    /// While nothing has arrived (at most `idle`) no buffer is held. From the first byte on, the
    /// head must be whole within `head_timeout`, however slowly it drips in.
    ///
    /// # Errors
    /// What [`parse_next_request`] finds wrong; `head_timeout`; connection lost in the middle.
    pub async fn request(
        &mut self,
        limits: &HeadLimits,
        idle: Duration,
        head_timeout: Duration,
    ) -> Result<Option<RequestHead>, Error> {
        if self.leftover.is_empty() {
            // A connection that waits gives back what its last head took.
            self.leftover = Vec::new();
            match self.stream.wait_for_input(idle).await {
                Ok(()) => {}
                Err(_) => return Ok(None),
            }
        }
        let last_headers = &mut self.last_headers;
        let parse = |bytes: &[u8]| parse_next_request(bytes, limits, last_headers);
        let head = read_head(&mut self.stream, &mut self.leftover, parse);
        match tokio::time::timeout(head_timeout, head).await {
            Ok(head) => head,
            Err(_) => Err(Error::new(
                ErrorCode::HeadTimeout,
                self.stream.role().side(),
                Phase::Open,
            )),
        }
    }

    /// The next response, interim ones included.
    ///
    /// # Errors
    /// What [`parse_response`] finds wrong; `peer_stalled` after `timeout`; connection lost.
    pub async fn response(&mut self, limits: &HeadLimits, timeout: Duration) -> Result<ResponseHead, Error> {
        let role = self.stream.role();
        let parse = |bytes: &[u8]| parse_response(bytes, limits).map_err(|error| error.at_side(role.side()));
        let head = read_head(&mut self.stream, &mut self.leftover, parse);
        match tokio::time::timeout(timeout, head).await {
            Ok(Ok(Some(head))) => Ok(head),
            Ok(Ok(None)) => Err(role.closed(Phase::Open)),
            Ok(Err(error)) => Err(error.in_phase(Phase::Open)),
            Err(_) => Err(role.stalled(Phase::Open)),
        }
    }

    /// A response that has already arrived, without waiting: how a sender notices that the other
    /// end refuses a body before it is all sent.
    ///
    /// # Errors
    /// As [`Connection::response`].
    pub fn response_available(&mut self, limits: &HeadLimits) -> Result<Option<ResponseHead>, Error> {
        loop {
            // Parsed first, so that neither an end behind the answer hides it nor a peer that never
            // stops sending fills the memory: beyond the limits the parser refuses.
            if let Some((head, used)) = parse_response(&self.leftover, limits)? {
                self.leftover.drain(..used);
                return Ok(Some(head));
            }
            match self.stream.read_available()? {
                Some(batch) => batch.append_to(&mut self.leftover),
                None => return Ok(None),
            }
        }
    }

    /// The body that follows the head just read, as a view that borrows the connection.
    #[must_use]
    pub fn body(&mut self, framing: Framing) -> Body<'_> {
        let incoming = self.incoming(framing);
        Body {
            connection: self,
            incoming,
        }
    }

    /// The body that follows the head just read, as a state that is kept beside the connection.
    #[must_use]
    pub fn incoming(&self, framing: Framing) -> Incoming {
        Incoming {
            decoder: match self.stream.role() {
                Role::Client => BodyDecoder::new(framing),
                Role::Peer(_) => BodyDecoder::for_response(framing),
            },
        }
    }

    /// Bytes that arrived behind the last message: a client that pipelines.
    #[must_use]
    pub fn has_leftover(&self) -> bool {
        !self.leftover.is_empty()
    }
}

/// Reads a head: out of what arrives where it lies, if nothing is left over and all of it is there.
async fn read_head<T>(
    stream: &mut Stream,
    leftover: &mut Vec<u8>,
    mut parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, Error>,
) -> Result<Option<T>, Error> {
    if !leftover.is_empty()
        && let Some((head, used)) = parse(leftover)?
    {
        leftover.drain(..used);
        return Ok(Some(head));
    }
    loop {
        let Some(mut batch) = stream.read(Appetite::Small).await? else {
            return match leftover.is_empty() {
                true => Ok(None),
                false => Err(stream.role().closed(Phase::Open)),
            };
        };
        if let Some(whole) = batch
            .front()
            .filter(|_| leftover.is_empty() && batch.slices().count() == 1)
        {
            let found = parse(whole)?;
            batch.advance(found.as_ref().map_or(0, |(_, used)| *used));
            batch.append_to(leftover);
            if let Some((head, _)) = found {
                return Ok(Some(head));
            }
            continue;
        }
        batch.append_to(leftover);
        if let Some((head, used)) = parse(leftover)? {
            leftover.drain(..used);
            return Ok(Some(head));
        }
    }
}

/// How far a body on its way in has come.
#[derive(Debug)]
pub struct Incoming {
    decoder: BodyDecoder,
}

impl Incoming {
    /// The next payload from `connection`, the one that this body arrives on; `None` at its end.
    ///
    /// # Errors
    /// A body that breaks its framing, ends early, or stalls.
    pub async fn next(&mut self, connection: &mut Connection) -> Result<Option<Batch>, Error> {
        while !self.decoder.is_done() {
            let Some(mut batch) = self.more(connection).await? else {
                self.check_end(connection)?;
                return Ok(None);
            };
            let decoder = &mut self.decoder;
            let leftover = &mut connection.leftover;
            batch.refine(|piece, keep| {
                let mut at = 0;
                while at < piece.len() && !decoder.is_done() {
                    let step = decoder.decode(&piece[at..])?;
                    keep.push(at + step.payload.start..at + step.payload.end);
                    at += step.consumed;
                }
                leftover.extend_from_slice(&piece[at..]);
                Ok::<(), Error>(())
            })?;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Payload bytes still to come, where the framing says so.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.decoder.remaining()
    }

    /// Whether the whole body has been handed out, so that the connection may carry another
    /// message.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// Trailers of a chunked body, once it has ended.
    #[must_use]
    pub fn trailers(&self) -> &http_wire::Headers {
        self.decoder.trailers()
    }

    async fn more(&mut self, connection: &mut Connection) -> Result<Option<Batch>, Error> {
        if connection.leftover.is_empty() {
            let appetite = match self.decoder.remaining() {
                Some(rest) if rest <= TLS_RECORD_BYTES as u64 => Appetite::Small,
                rest => Appetite::AtLeast(usize::try_from(rest.unwrap_or(0)).unwrap_or(usize::MAX)),
            };
            return connection.stream.read(appetite).await;
        }
        let count = connection.leftover.len().min(LARGE_BYTES);
        let mut buffer = if count <= SMALL_BYTES {
            Buffer::small()
        } else {
            Buffer::large()
        };
        buffer[..count].copy_from_slice(&connection.leftover[..count]);
        connection.leftover.drain(..count);
        if connection.leftover.is_empty() && count > LEFTOVER_KEPT_BYTES {
            // A record that came with a head is not to take its room as long as the body comes.
            connection.leftover = Vec::new();
        }
        Ok(Some(Batch::new(buffer, std::iter::once(0..count))))
    }

    fn check_end(&self, connection: &Connection) -> Result<(), Error> {
        let stream = &connection.stream;
        let side = stream.role().side();
        self.decoder.finish_at_eof().map_err(|error| error.at_side(side))?;
        if stream.ended_cleanly() {
            Ok(())
        } else {
            Err(stream.role().closed(Phase::Transfer))
        }
    }
}

/// A body on its way in, with its connection.
#[derive(Debug)]
pub struct Body<'a> {
    connection: &'a mut Connection,
    incoming: Incoming,
}

impl Body<'_> {
    /// As [`Incoming::next`].
    ///
    /// # Errors
    /// As [`Incoming::next`].
    pub async fn next(&mut self) -> Result<Option<Batch>, Error> {
        self.incoming.next(self.connection).await
    }

    /// Payload bytes still to come, where the framing says so.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.incoming.remaining()
    }

    /// The connection below, for answers while the body is still coming.
    pub fn connection(&mut self) -> &mut Connection {
        self.connection
    }

    /// Collects a small body.
    ///
    /// # Errors
    /// `body_too_large` over `limit_bytes`; otherwise as [`Body::next`].
    pub async fn collect(&mut self, limit_bytes: usize) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        while let Some(batch) = self.next().await? {
            batch.append_to(&mut whole);
            if whole.len() > limit_bytes {
                let side = self.connection.stream.role().side();
                let error = Error::new(ErrorCode::BodyTooLarge, side, Phase::Transfer);
                return Err(error.with_detail(format!("at most {limit_bytes} bytes are read here")));
            }
        }
        Ok(whole)
    }

    /// Reads the rest and drops it, as long as it is at most `limit_bytes`. Whether the connection
    /// can be used again.
    pub async fn drain(&mut self, limit_bytes: u64) -> bool {
        let mut seen = 0;
        if self.remaining().is_some_and(|rest| rest > limit_bytes) {
            return false;
        }
        while seen <= limit_bytes {
            match self.next().await {
                Ok(Some(batch)) => seen += batch.len() as u64,
                Ok(None) => return self.incoming.is_done(),
                Err(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use types::Side;

    use super::*;
    use crate::stream::Waits;

    async fn pair() -> (Connection, tokio::net::TcpStream) {
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let near = tokio::net::TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let stream = Stream::clear(near, Role::Peer(Side::Destination), Waits::default());
        (Connection::new(stream), far)
    }

    #[tokio::test]
    async fn an_early_answer_is_heard_although_its_sender_has_left() {
        let (mut connection, mut far) = pair().await;
        far.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        drop(far);
        connection.stream.peer_closed().await;
        let answer = connection.response_available(&HeadLimits::default()).unwrap();
        assert_eq!(answer.unwrap().status, 403);
    }

    #[tokio::test]
    async fn a_peer_that_only_talks_is_cut_off_at_the_limit() {
        let (mut connection, mut far) = pair().await;
        let limits = HeadLimits::default();
        let talk = vec![b'x'; 64 * limits.head_bytes];
        let sender = tokio::spawn(async move { far.write_all(&talk).await });
        let error = loop {
            match connection.response_available(&limits) {
                Ok(None) => tokio::task::yield_now().await,
                Ok(Some(head)) => panic!("{head:?}"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), ErrorCode::PeerMisbehaved);
        assert!(connection.leftover.len() <= limits.head_bytes + SMALL_BYTES);
        sender.abort();
    }
}
