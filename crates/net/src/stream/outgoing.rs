//! Writing: payload is read or copied into the slots of records, sealed there, and sent with one
//! call together with the head in front of it.

use std::fs::File;
use std::io::{self, IoSliceMut};

use crate::limits::TLS_RECORD_BYTES;
use rustix::net::SendFlags;
use types::{Error, Phase};

use super::Stream;
use super::paged::Paging;
use crate::buffer::{Batch, Buffer, LARGE_BYTES};
use records::TAG_BYTES;
use records::{ContentType, HEADER_BYTES, Sealer};

/// What says, sent at once, that more of the kind will follow.
const MUCH_BYTES: usize = LARGE_BYTES / 2;

/// What a record takes beside its payload, at most: in TLS 1.2 a part of the nonce travels with it.
const RECORD_EXTRA_BYTES_MAX: usize = HEADER_BYTES + 8 + TAG_BYTES;

/// Room for payload on its way out. Fill the slots in order, then hand it to [`Stream::send`].
pub struct Outgoing {
    buffer: Buffer,
    /// Bytes at the front that are ready to go: the queued head.
    pub(super) ready: usize,
    frame: Frame,
    /// When the payload is laid out as pages with checksums.
    pub(super) paging: Option<Paging>,
    /// Most bytes that the caller may put in.
    limit_bytes: usize,
}

/// How payload is laid out in the buffer.
#[derive(Clone, Copy)]
enum Frame {
    /// One slot up to the end.
    Clear,
    /// A slot in each record.
    Records { prefix_bytes: usize, stride_bytes: usize },
}

impl Frame {
    fn records(sealer: &Sealer) -> Self {
        Self::Records {
            prefix_bytes: sealer.prefix_bytes(),
            stride_bytes: sealer.stride_bytes(),
        }
    }
}

impl Outgoing {
    /// A buffer that belongs to no connection, for payload that goes elsewhere: one slot in clear
    /// text.
    #[must_use]
    pub fn unconnected() -> Self {
        Self {
            buffer: Buffer::large(),
            ready: 0,
            frame: Frame::Clear,
            paging: None,
            limit_bytes: usize::MAX,
        }
    }

    /// Room for records with nothing in front.
    pub(super) fn records(sealer: &Sealer) -> Self {
        Self {
            buffer: Buffer::large(),
            ready: 0,
            frame: Frame::records(sealer),
            paging: None,
            limit_bytes: usize::MAX,
        }
    }

    /// The buffer as it goes over the wire.
    pub(super) fn wire(&self) -> &[u8] {
        &self.buffer
    }

    /// Payload bytes that fit; of pages, without their checksums.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let capacity = match &self.paging {
            None => self.room_bytes(),
            Some(paging) => paging.capacity(self.room_bytes()),
        };
        capacity.min(self.limit_bytes)
    }

    /// The same buffer for at most this many bytes, where the message ends behind them.
    #[must_use]
    pub fn limited(self, limit_bytes: u64) -> Self {
        Self {
            limit_bytes: usize::try_from(limit_bytes).unwrap_or(usize::MAX),
            ..self
        }
    }

    /// Bytes that fit behind the queued head.
    fn room_bytes(&self) -> usize {
        let room = self.buffer.len() - self.ready;
        match self.frame {
            Frame::Clear => room,
            Frame::Records { stride_bytes, .. } => room / stride_bytes * TLS_RECORD_BYTES,
        }
    }

    /// Slots for the first `want` bytes of payload (at most the capacity), for a vectored read.
    pub fn slots(&mut self, want: usize) -> Vec<IoSliceMut<'_>> {
        let want = want.min(self.capacity());
        let parts = match self.paging {
            None => self.room(want),
            Some(paging) => paging.gaps(self.room(paging.wire_bytes(want)), want),
        };
        parts.into_iter().map(IoSliceMut::new).collect()
    }

    /// Has `fill` put payload into the slots for the first `want` bytes of it, as a vectored read
    /// does.
    pub fn fill_slots<R>(&mut self, want: usize, fill: impl FnOnce(&mut [IoSliceMut<'_>]) -> R) -> R {
        match self.only_slot(want) {
            Some(slot) => fill(&mut [IoSliceMut::new(slot)]),
            None => fill(&mut self.slots(want)),
        }
    }

    /// The slot for the first `want` bytes of payload, if there is but one for them.
    fn only_slot(&mut self, want: usize) -> Option<&mut [u8]> {
        let want = want.min(self.capacity());
        let start = match self.frame {
            _ if self.paging.is_some() => return None,
            Frame::Clear => self.ready,
            Frame::Records { prefix_bytes, .. } if want <= TLS_RECORD_BYTES => self.ready + prefix_bytes,
            Frame::Records { .. } => return None,
        };
        self.buffer.get_mut(start..start + want)
    }

    /// The first `count` bytes of the room behind the queued head, where they lie.
    pub(super) fn room(&mut self, count: usize) -> Vec<&mut [u8]> {
        let mut left = count.min(self.room_bytes());
        let room = &mut self.buffer[self.ready..];
        match self.frame {
            Frame::Clear => vec![&mut room[..left]],
            Frame::Records {
                prefix_bytes,
                stride_bytes,
            } => {
                let mut slots = Vec::with_capacity(17);
                for record in room.chunks_mut(stride_bytes) {
                    let take = left.min(TLS_RECORD_BYTES);
                    if take == 0 {
                        break;
                    }
                    left -= take;
                    slots.push(&mut record[prefix_bytes..prefix_bytes + take]);
                }
                slots
            }
        }
    }

    /// Copies as much of `batch` in as fits and takes it off there. Returns how much.
    pub fn fill_from(&mut self, batch: &mut Batch) -> usize {
        let want = batch.len().min(self.capacity());
        for mut slot in self.slots(want) {
            let mut at = 0;
            while at < slot.len() {
                let Some(piece) = batch.front() else { break };
                let step = piece.len().min(slot.len() - at);
                slot[at..at + step].copy_from_slice(&piece[..step]);
                at += step;
                batch.advance(step);
            }
        }
        want
    }

    /// Copies as much of `bytes` in as fits. Returns how much.
    pub fn fill_with(&mut self, bytes: &[u8]) -> usize {
        let want = bytes.len().min(self.capacity());
        let mut at = 0;
        for slot in self.room(want) {
            slot.copy_from_slice(&bytes[at..at + slot.len()]);
            at += slot.len();
        }
        want
    }

    /// Seals the first `filled` bytes of payload; returns how many bytes of the buffer are to be
    /// sent.
    pub(super) fn seal(&mut self, filled: usize, sealer: Option<&mut Sealer>) -> Result<usize, records::RecordFault> {
        let Some(sealer) = sealer else {
            return Ok(self.ready + filled);
        };
        let (mut at, mut left) = (self.ready, filled);
        while left > 0 {
            let take = left.min(TLS_RECORD_BYTES);
            let record = at..at + sealer.record_bytes(take);
            sealer.seal(&mut self.buffer[record.clone()], ContentType::ApplicationData)?;
            at = record.end;
            left -= take;
        }
        Ok(at)
    }
}

impl Stream {
    /// Puts small plaintext in front of what is sent next; [`Stream::flush`] sends it by itself.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.queued.extend_from_slice(bytes);
    }

    /// The same for bytes that can be kept as they lie, which saves a copy when nothing is queued.
    pub fn queue_owned(&mut self, bytes: Vec<u8>) {
        if self.queued.is_empty() {
            self.queued = bytes;
        } else {
            self.queued.extend_from_slice(&bytes);
        }
    }

    /// The same for what `build` appends, which saves a copy.
    pub fn queue_with(&mut self, build: impl FnOnce(&mut Vec<u8>)) {
        build(&mut self.queued);
    }

    /// The same for a message that is to begin a TLS record, as XRootD's client needs it: of
    /// several messages in one record it reads the first, and the others only when more arrives.
    /// What is queued next without this continues the message.
    pub fn queue_message(&mut self, build: impl FnOnce(&mut Vec<u8>)) {
        if self.tls.is_some() && !self.queued.is_empty() {
            self.record_starts.push(self.queued.len());
        }
        build(&mut self.queued);
    }

    /// Queued plaintext in bytes, so that callers with many small answers send in time.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queued.len()
    }

    /// Room for payload, with what is queued already sealed in front of it. On a connection that
    /// sends much it is given when there is room in the socket too, so that of a thousand
    /// connections only those hold a buffer that can send.
    ///
    /// # Errors
    /// Connection lost or stalled; when the session's keys are worn out and cannot be changed.
    pub async fn outgoing(&mut self) -> Result<Outgoing, Error> {
        const QUEUED_BYTES_MAX: usize = TLS_RECORD_BYTES;
        if self.queued.len() + self.record_starts.len() * RECORD_EXTRA_BYTES_MAX > QUEUED_BYTES_MAX {
            self.flush().await?;
        }
        self.wait_to_send().await?;
        let mut buffer = Buffer::large();
        let mut ready = 0;
        let wrap = self.take_queued()?;
        buffer[..wrap.len()].copy_from_slice(&wrap);
        ready += wrap.len();
        let frame = match &self.tls {
            None => Frame::Clear,
            Some(tls) => Frame::records(&tls.session.sealer),
        };
        Ok(Outgoing {
            buffer,
            ready,
            frame,
            paging: None,
            limit_bytes: usize::MAX,
        })
    }

    /// Waits until payload may be taken into a buffer: other tasks had their turn, and a connection
    /// that sends much has room in its socket. Meanwhile no buffer is held.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub async fn wait_to_send(&mut self) -> Result<(), Error> {
        self.take_turns().await;
        match self.sends_much {
            true => self.wait_for_room().await,
            false => Ok(()),
        }
    }

    /// Sends what is queued, and a batch behind it from where it lies. In clear text only.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub async fn send_batch(&mut self, batch: &Batch) -> Result<(), Error> {
        debug_assert!(self.tls.is_none(), "a batch is not sealed");
        self.turn_bytes += batch.len();
        self.sends_much |= batch.len() >= MUCH_BYTES;
        self.flush_with_more().await?;
        let mut slices = batch.slices().peekable();
        while let Some(slice) = slices.next() {
            let flags = match slices.peek() {
                Some(_) => SendFlags::MORE,
                None => SendFlags::empty(),
            };
            self.write_flagged(slice, flags).await?;
        }
        Ok(())
    }

    /// Sends the first `filled` bytes of payload, and what was queued before them.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub async fn send(&mut self, mut outgoing: Outgoing, filled: usize) -> Result<(), Error> {
        self.turn_bytes += filled;
        self.sends_much |= filled >= MUCH_BYTES;
        let role = self.role;
        let sealer = self.tls.as_mut().map(|tls| &mut tls.session.sealer);
        let length = outgoing.seal(filled, sealer).map_err(|cause| role.tls(cause))?;
        self.write_all(&outgoing.buffer[..length]).await
    }

    /// Sends what is queued and `bytes` behind it: what is too long to be queued, which copies it
    /// twice.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub async fn send_copy(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        if self.tls.is_none() {
            self.flush_with_more().await?;
            return self.write_all(bytes).await;
        }
        while !bytes.is_empty() {
            let mut outgoing = self.outgoing().await?;
            let filled = outgoing.fill_with(bytes);
            self.send(outgoing, filled).await?;
            bytes = &bytes[filled..];
        }
        Ok(())
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub async fn flush(&mut self) -> Result<(), Error> {
        let wrapped = self.take_queued()?;
        self.write_all(&wrapped).await
    }

    /// What is queued, sealed where the connection is encrypted, with fresh keys where they are
    /// worn.
    pub(super) fn take_queued(&mut self) -> Result<Vec<u8>, Error> {
        let plain = std::mem::take(&mut self.queued);
        let role = self.role;
        let Some(tls) = &mut self.tls else { return Ok(plain) };
        let mut wrapped = tls.preamble(role)?;
        let mut start = 0;
        for end in self.record_starts.drain(..).chain([plain.len()]) {
            for piece in plain[start..end].chunks(TLS_RECORD_BYTES) {
                tls.session
                    .sealer
                    .seal_copy(piece, ContentType::ApplicationData, &mut wrapped)
                    .map_err(|cause| role.tls(cause))?;
            }
            start = end;
        }
        Ok(wrapped)
    }

    /// Sends a piece of a file without copying it through us. In clear text only.
    ///
    /// Returns how much was sent, `None` when the socket takes nothing right now (then
    /// [`Stream::writable`] waits). 0 means that the file has ended. The call may wait for the
    /// disk.
    ///
    /// # Errors
    /// Connection lost, or the file cannot be read.
    pub fn send_file(&mut self, file: &File, offset: u64, count: usize) -> Result<Option<usize>, Error> {
        debug_assert!(self.tls.is_none() && self.queued.is_empty());
        let mut position = offset;
        let sent = self.socket.try_send_up_to(count, |socket| {
            Ok(rustix::fs::sendfile(socket, file, Some(&mut position), count)?)
        });
        match sent {
            Ok(sent) => Ok(Some(sent)),
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(cause) => Err(self.role.broken(Phase::Transfer, &cause)),
        }
    }

    /// Waits until the socket takes more.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub async fn writable(&mut self) -> Result<(), Error> {
        self.wait_writable().await
    }

    /// Sends what is queued and tells the system that more follows at once, so that a head and the
    /// file behind it share a segment.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub async fn flush_with_more(&mut self) -> Result<(), Error> {
        let wrapped = self.take_queued()?;
        self.write_flagged(&wrapped, SendFlags::MORE).await
    }

    fn send_some(&mut self, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
        let flags = flags | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.socket
            .try_send(|socket| rustix::net::send(socket, bytes, flags).map_err(io::Error::from))
    }

    /// Nothing can be sent behind a send that failed, or that was given up in the middle because
    /// its future was dropped.
    pub(super) fn begin_send(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.mid_send, true) {
            let error = self.role.closed(Phase::Transfer);
            return Err(error.with_private("an earlier send was broken off"));
        }
        Ok(())
    }

    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write_flagged(bytes, SendFlags::empty()).await
    }

    pub(super) async fn write_flagged(&mut self, mut bytes: &[u8], flags: SendFlags) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.begin_send()?;
        while !bytes.is_empty() {
            match self.send_some(bytes, flags) {
                Ok(count) => bytes = &bytes[count..],
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => self.wait_writable().await?,
                Err(cause) => return Err(self.role.broken(Phase::Transfer, &cause)),
            }
        }
        self.mid_send = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpStream;
    use types::Side;

    use super::*;
    use crate::failure::Role;
    use crate::stream::Waits;

    #[tokio::test]
    async fn nothing_is_sent_behind_a_send_that_was_given_up() {
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // Accepted and never read from, so that the sender has to wait in the middle.
        let (_silent, _) = listener.accept().await.unwrap();
        let mut stream = Stream::clear(tcp, Role::Peer(Side::Destination), Waits::default());
        stream.queue(&vec![0; 64 * 1024 * 1024]);
        let sent = tokio::time::timeout(Duration::from_millis(100), stream.flush()).await;
        assert!(sent.is_err(), "64 MiB fit into the socket");
        stream.queue(b"more");
        let error = stream.flush().await.unwrap_err();
        assert!(error.private().unwrap().contains("broken off"), "{error:?}");
    }

    #[tokio::test]
    async fn whoever_sends_much_gets_a_buffer_when_there_is_room() {
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let mut stream = Stream::clear(tcp, Role::Peer(Side::Destination), Waits::default());
        let outgoing = stream.outgoing().await.unwrap();
        stream.send(outgoing, LARGE_BYTES).await.unwrap();
        let mut sent = LARGE_BYTES;
        while let Ok(count) = stream.send_some(&[0; 4096], SendFlags::empty()) {
            sent += count;
        }
        let wait = Duration::from_millis(100);
        assert!(tokio::time::timeout(wait, stream.outgoing()).await.is_err());
        let mut seen = vec![0; sent];
        let (read, given) = tokio::join!(far.read_exact(&mut seen), stream.outgoing());
        assert!(read.is_ok() && given.is_ok());
    }
}
