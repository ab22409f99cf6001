//! Reading: from the socket into a pooled buffer, records opened where they lie.

use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::limits::TLS_RECORD_BYTES;
use types::{Error, Phase};

use super::{End, Stream};
use crate::buffer::{Batch, Buffer, SMALL_BYTES};
use records::{ContentType, record_length};

/// Received bytes that are not handed out yet.
pub(super) struct Carry {
    pub(super) buffer: Buffer,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Carry {
    /// Nothing yet.
    pub(super) fn empty(buffer: Buffer) -> Self {
        Self {
            buffer,
            start: 0,
            end: 0,
        }
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether a small buffer would do for what is there.
    fn is_too_roomy(&self) -> bool {
        self.buffer.len() > SMALL_BYTES && self.len() <= SMALL_BYTES
    }

    /// The same bytes at the front of another buffer, which must be large enough.
    fn moved_to(&self, buffer: Buffer) -> Self {
        let mut moved = Self::empty(buffer);
        moved.end = self.len();
        moved.buffer[..moved.end].copy_from_slice(&self.buffer[self.start..self.end]);
        moved
    }
}

/// Which buffers to read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appetite {
    /// Heads and small bodies.
    Small,
    /// Payload; at least this many bytes are still to come.
    AtLeast(usize),
    /// Payload of this many bytes. What follows it is left in the kernel: read now, it would have
    /// to be copied.
    AtMost(usize),
}

impl Appetite {
    fn buffer(self) -> Buffer {
        match self {
            Self::Small => Buffer::small(),
            Self::AtLeast(_) | Self::AtMost(_) => Buffer::large(),
        }
    }

    /// Bytes that have not arrived yet; `carried` have. On the wire they are more if encrypted, and
    /// may include a few bytes of a head that follows.
    fn owed_bytes(self, carried: usize) -> usize {
        match self {
            Self::Small => 0,
            Self::AtLeast(owed) | Self::AtMost(owed) => owed.saturating_sub(carried),
        }
    }

    /// Bytes to read from the wire; `carried` have arrived already.
    fn wire_bytes(self, is_encrypted: bool, carried: usize) -> usize {
        match self {
            Self::Small | Self::AtLeast(_) => usize::MAX,
            Self::AtMost(wanted) if is_encrypted => {
                let records = wanted.div_ceil(TLS_RECORD_BYTES);
                let wire = wanted.saturating_add(records.saturating_mul(RECORD_OVERHEAD_BYTES));
                // Most senders fill their records. Where one does not, the rest comes with the next
                // read.
                wire.saturating_sub(carried).max(1)
            }
            Self::AtMost(wanted) => wanted.saturating_sub(carried).max(1),
        }
    }
}

/// What sealing adds to a full record: header, explicit nonce of TLS 1.2, tag.
const RECORD_OVERHEAD_BYTES: usize = 5 + 8 + 16;

impl Stream {
    /// Waits until something has come, and takes it in. While it waits no buffer is held. May be
    /// dropped at any moment; nothing is lost.
    ///
    /// # Errors
    /// A stall after `limit`, a lost connection.
    pub async fn wait_for_input(&mut self, limit: Duration) -> Result<(), Error> {
        if self.carry.is_some() || self.end_seen != End::Open {
            return Ok(());
        }
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            // It is read at once rather than looked for and then read: that would be a system call
            // more for each request.
            match self.fill(Appetite::Small) {
                Ok(0) => self.note_end(),
                Ok(_) => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    self.shrink();
                    self.come_back().await;
                    // What came before was not answered, or not yet.
                    self.socket.acknowledge(false);
                    let left = deadline.saturating_duration_since(tokio::time::Instant::now());
                    self.wait_readable(left).await?;
                    continue;
                }
                Err(cause) => return Err(self.role.broken(Phase::Transfer, &cause)),
            }
            return Ok(());
        }
    }

    /// The next plaintext, as much as has come, for protocols without lengths; `None` at the end of
    /// the connection. It may be dropped at any moment without losing anything.
    ///
    /// # Errors
    /// Connection lost, a stall after `limit`, or a TLS record that cannot be opened.
    pub async fn read_some(&mut self, limit: Duration) -> Result<Option<Batch>, Error> {
        self.read_within(Appetite::Small, limit).await
    }

    /// The next plaintext; `None` at the end of the connection.
    ///
    /// # Errors
    /// Connection lost, stall, or a TLS record that cannot be opened.
    pub(crate) async fn read(&mut self, appetite: Appetite) -> Result<Option<Batch>, Error> {
        self.read_within(appetite, self.waits.stall).await
    }

    /// As [`Stream::read`], with another patience than the stall time. It may be dropped at any
    /// moment without losing anything.
    pub(crate) async fn read_within(&mut self, appetite: Appetite, limit: Duration) -> Result<Option<Batch>, Error> {
        loop {
            // A socket that always has data would otherwise never let another task run.
            self.take_turns().await;
            if let Some(batch) = self.take_opened()? {
                self.turn_bytes += batch.len();
                return Ok(Some(batch));
            }
            if self.end_seen != End::Open {
                return Ok(None);
            }
            match self.fill(appetite) {
                Ok(0) => self.note_end(),
                Ok(_) => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    let owed_bytes = appetite.owed_bytes(self.carry.as_ref().map_or(0, Carry::len));
                    self.shrink();
                    if appetite == Appetite::Small {
                        self.come_back().await;
                    }
                    self.socket.acknowledge(appetite == Appetite::Small);
                    let gathered = self.socket.gathered(owed_bytes).await;
                    if !gathered.map_err(|cause| self.role.broken(Phase::Transfer, &cause))? {
                        self.wait_readable(limit).await?;
                    }
                }
                Err(cause) => return Err(self.role.broken(Phase::Transfer, &cause)),
            }
        }
    }

    /// Plaintext that has already arrived, without waiting; `None` when there is none.
    ///
    /// # Errors
    /// As reading; the end of the connection is an error here, since an answer is still owed.
    pub(crate) fn read_available(&mut self) -> Result<Option<Batch>, Error> {
        loop {
            if let Some(batch) = self.take_opened()? {
                return Ok(Some(batch));
            }
            match self.fill(Appetite::Small) {
                Ok(0) => return Err(self.role.closed(Phase::Transfer)),
                Ok(_) => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    self.shrink();
                    return Ok(None);
                }
                Err(cause) => return Err(self.role.broken(Phase::Transfer, &cause)),
            }
        }
    }

    fn note_end(&mut self) {
        self.carry = None;
        // In clear text there is no better farewell than the end itself.
        self.end_seen = if self.tls.is_some() { End::Torn } else { End::Clean };
    }

    /// One non-blocking read behind what is there already.
    pub(super) fn fill(&mut self, appetite: Appetite) -> io::Result<usize> {
        let mut carry = match self.carry.take() {
            // What was left while nothing came; now there may be much.
            Some(carry) if appetite != Appetite::Small && carry.buffer.len() <= SMALL_BYTES => {
                carry.moved_to(appetite.buffer())
            }
            Some(carry) => carry,
            None => Carry::empty(appetite.buffer()),
        };
        if carry.end == carry.buffer.len() {
            carry.buffer.copy_within(carry.start..carry.end, 0);
            carry.end -= carry.start;
            carry.start = 0;
        }
        if carry.end == carry.buffer.len() {
            // A handshake with a long chain of certificates spans records; nothing else fills a
            // small buffer without an end of a record in it.
            carry = carry.moved_to(Buffer::large());
        }
        let carry = self.carry.insert(carry);
        let limit = appetite.wire_bytes(self.tls.is_some(), carry.len());
        let room = carry.end..carry.buffer.len().min(carry.end.saturating_add(limit));
        let room = &mut carry.buffer[room];
        let count = match appetite {
            Appetite::Small => self.socket.read_message(room)?,
            Appetite::AtLeast(_) | Appetite::AtMost(_) => self.socket.read(room)?,
        };
        carry.end += count;
        Ok(count)
    }

    /// A connection that waits keeps no buffer unless a part of a record lies in it, and then a
    /// small one: of a hundred transfers nearly all wait at any moment.
    fn shrink(&mut self) {
        self.carry = match self.carry.take() {
            Some(carry) if carry.start == carry.end => None,
            Some(carry) if carry.is_too_roomy() => Some(carry.moved_to(Buffer::small())),
            carry => carry,
        };
    }

    /// What can be handed out of the received bytes.
    fn take_opened(&mut self) -> Result<Option<Batch>, Error> {
        if self.tls.is_none() {
            let Some(carry) = self.carry.take() else {
                return Ok(None);
            };
            let batch = Batch::new(carry.buffer, std::iter::once(carry.start..carry.end));
            return Ok((!batch.is_empty()).then_some(batch));
        }
        let Some(mut carry) = self.carry.take() else {
            return Ok(None);
        };
        let pieces = self.open_records(&mut carry)?;
        if pieces.is_empty() {
            self.carry = (carry.start < carry.end).then_some(carry);
            return Ok(None);
        }
        if carry.start < carry.end {
            // Part of a record, as a rule: the large buffer for what follows is taken when this one
            // is given back.
            let buffer = if carry.len() <= SMALL_BYTES {
                Buffer::small()
            } else {
                Buffer::large()
            };
            self.carry = Some(carry.moved_to(buffer));
        }
        Ok(Some(Batch::new(carry.buffer, pieces)))
    }

    /// Opens all whole records of `carry` in place; returns where payload lies.
    fn open_records(&mut self, carry: &mut Carry) -> Result<Vec<Range<usize>>, Error> {
        let mut pieces = Vec::with_capacity(17);
        let Some(tls) = &mut self.tls else { return Ok(pieces) };
        while self.end_seen == End::Open {
            let fault = |cause| self.role.tls(cause);
            let whole = record_length(&carry.buffer[carry.start..carry.end]).map_err(fault)?;
            let Some(length) = whole.filter(|length| carry.start + length <= carry.end) else {
                break;
            };
            let record = carry.start..carry.start + length;
            let (content, payload) = tls
                .session
                .opener
                .open(&mut carry.buffer[record.clone()])
                .map_err(fault)?;
            let payload = record.start + payload.start..record.start + payload.end;
            carry.start = record.end;
            let is_payload = content == ContentType::ApplicationData && !payload.is_empty();
            tls.count_record(!is_payload).map_err(fault)?;
            match content {
                ContentType::ApplicationData if !payload.is_empty() => pieces.push(payload),
                ContentType::ApplicationData | ContentType::ChangeCipherSpec => {}
                ContentType::Alert => self.end_seen = tls.alert(&carry.buffer[payload], self.role)?,
                ContentType::Handshake => tls.handshake_message(&carry.buffer[payload], self.role)?,
            }
        }
        Ok(pieces)
    }
}
