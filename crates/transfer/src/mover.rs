//! The movers of payload: stream to file, file to stream, and stream to stream. Each holds one
//! buffer at a time.

use std::future::Future;
use std::sync::Arc;

use crate::limits::{SEALED_TURN_BYTES, STEADY_TURN_BYTES};
use net::http::Body;
use net::{Batch, Outgoing, Stream, Turn};
use remote::{Download, Outlet};
use storage::{Hasher, ReadHandle, SystemFile, WriteHandle};
use types::limits::STEADY_BYTES_MIN;
use types::{ByteRange, Checksum, Error, ErrorCode, Phase, Result, Side};

use crate::part_file::PartFile;
use crate::progress::Progress;
use crate::verify::blame_store;

/// Bytes of a file that are brought into memory before the kernel sends them, and passed to it in
/// one call. The kernel takes only as much as the socket accepts, so a transfer can be stopped and
/// others get their turn.
const RESIDENT_BYTES: u64 = 4 * 1024 * 1024;

/// Ranges up to this length are copied even if the kernel could send them: a read, and a send
/// together with the head, cost less than checking whether the file is in memory, and two sends.
pub(crate) const COPIED_BYTES_MAX: u64 = 32 * 1024;

/// Incoming payload, in order.
pub trait Payload: Send {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Batch>>> + Send;
}

impl Payload for Body<'_> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        Body::next(self).await
    }
}

impl Payload for net::frames::Payload<'_> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        net::frames::Payload::next(self).await
    }
}

impl Payload for Download {
    async fn next(&mut self) -> Result<Option<Batch>> {
        Download::next(self).await
    }
}

/// Outgoing payload.
pub trait Drain: Send {
    /// A buffer for payload.
    fn outgoing(&mut self) -> impl Future<Output = Result<Outgoing>> + Send;

    /// Sends the first `filled` bytes of the buffer.
    fn send(&mut self, outgoing: Outgoing, filled: usize) -> impl Future<Output = Result<()>> + Send;

    /// The bare connection, if a thread may send a file over it. Payload is contiguous there.
    fn bare_stream(&mut self) -> Option<&mut Stream>;

    /// The bare connection, if the kernel may send a file over it.
    fn clear_stream(&mut self) -> Option<&mut Stream> {
        self.bare_stream().filter(|stream| !stream.is_encrypted())
    }

    /// Counts bytes that went over the bare connection.
    fn sent(&mut self, _bytes: u64) {}

    /// Bytes that may go over the bare connection before [`Drain::check`] is called again, or
    /// another connection gets the thread.
    fn turn_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Fails if the other end has refused meanwhile. Called between pieces on the bare connection.
    fn check(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// The best explanation for an error on the bare connection.
    fn explain(&mut self, cause: Error) -> impl Future<Output = Error> + Send {
        async { cause }
    }
}

impl Drain for Stream {
    async fn outgoing(&mut self) -> Result<Outgoing> {
        Stream::outgoing(self).await
    }

    async fn send(&mut self, outgoing: Outgoing, filled: usize) -> Result<()> {
        Stream::send(self, outgoing, filled).await
    }

    fn bare_stream(&mut self) -> Option<&mut Stream> {
        Some(self)
    }

    fn turn_bytes(&self) -> u64 {
        match self.is_encrypted() {
            true => SEALED_TURN_BYTES,
            false => u64::MAX,
        }
    }
}

impl Drain for Outlet {
    async fn outgoing(&mut self) -> Result<Outgoing> {
        Outlet::outgoing(self).await
    }

    async fn send(&mut self, outgoing: Outgoing, filled: usize) -> Result<()> {
        Outlet::send(self, outgoing, filled).await
    }

    fn bare_stream(&mut self) -> Option<&mut Stream> {
        Outlet::bare_stream(self)
    }

    fn sent(&mut self, bytes: u64) {
        Outlet::sent(self, bytes);
    }

    fn turn_bytes(&self) -> u64 {
        STEADY_TURN_BYTES
    }

    async fn check(&mut self) -> Result<()> {
        self.check_answer().await
    }

    async fn explain(&mut self, cause: Error) -> Error {
        Outlet::explain(self, cause).await
    }
}

/// A file that is being received.
pub struct Received {
    target: Target,
    hasher: Hasher,
    offset: u64,
}

/// Its destination.
enum Target {
    Upload(Arc<dyn WriteHandle>),
    Part(Arc<dyn PartFile>),
}

impl Received {
    /// At the beginning of the file.
    #[must_use]
    pub fn new(upload: Arc<dyn WriteHandle>, hasher: Hasher) -> Self {
        Self {
            target: Target::Upload(upload),
            hasher,
            offset: 0,
        }
    }

    /// Continues after the first `offset` bytes, which `hasher` has seen.
    pub(crate) fn into_part(part: &Arc<dyn PartFile>, hasher: Hasher, offset: u64) -> Self {
        Self {
            target: Target::Part(Arc::clone(part)),
            hasher,
            offset,
        }
    }

    /// Starts over: the next payload is the beginning of the file.
    pub(crate) fn start_over(&mut self, hasher: Hasher) {
        self.hasher = hasher;
        self.offset = 0;
    }

    /// Bytes stored so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// The checksums of all data.
    #[must_use]
    pub fn finish(self) -> Vec<Checksum> {
        self.hasher.finish()
    }

    async fn take(&mut self, batch: Batch) -> Result<()> {
        // Hashed here, while decryption has left the bytes in the processor's cache.
        for slice in batch.slices() {
            self.hasher.update(slice);
        }
        let (length, offset) = (batch.len() as u64, self.offset);
        match &self.target {
            Target::Upload(upload) => upload.write(batch, offset).await?,
            Target::Part(part) => write_part(part.as_ref(), batch, offset).await?,
        }
        self.offset += length;
        Ok(())
    }
}

/// Writes a batch at `offset`. Errors of a local store are blamed on the destination.
pub(crate) async fn write_part(part: &dyn PartFile, batch: Batch, offset: u64) -> Result<()> {
    let written = part.write_at(batch, offset).await;
    written.map_err(|error| blame_store(error, Side::Destination))
}

/// Stores payload until it ends. After an error, `received` knows how far it got, and the next
/// payload may continue there.
///
/// # Errors
/// Those of the payload and of the store.
pub async fn receive(payload: &mut impl Payload, received: &mut Received, progress: &Progress) -> Result<()> {
    while let Some(batch) = payload.next().await? {
        let length = batch.len() as u64;
        received.take(batch).await?;
        progress.add_moved(length);
    }
    Ok(())
}

/// Sends a range of a file. With `hasher`, the bytes are copied and hashed. Without, a thread sends
/// a long range, as long as the reader keeps up, and in clear text nothing is copied.
///
/// # Errors
/// Those of the drain, and `source_changed` if the file is shorter than the range.
pub async fn serve(
    reader: &dyn ReadHandle,
    range: ByteRange,
    drain: &mut impl Drain,
    mut hasher: Option<&mut Hasher>,
    progress: &Progress,
) -> Result<()> {
    let is_long = range.len() > COPIED_BYTES_MAX;
    let file = reader.as_file().filter(|_| is_long && hasher.is_none());
    if let Some(file) = file
        && drain.clear_stream().is_some()
    {
        return serve_file(reader, file, range, drain, progress).await;
    }
    if is_long {
        reader.advise_sequential(range);
    }
    if is_long && hasher.is_none() && drain.clear_stream().is_some() {
        return serve_batches(reader, range, drain, progress).await;
    }
    let mut left = range;
    let mut steady = file;
    while !left.is_empty() {
        if let Some(file) = steady
            && let Some(turn) = send_steadily(file, left, drain, progress).await?
        {
            steady = steady.filter(|_| turn.keeps_up);
            left.take_front(turn.sent_bytes);
        }
        if left.is_empty() {
            break;
        }
        // Between two turns on a thread, so that other transfers can get it.
        let outgoing = drain.outgoing().await?;
        let (mut outgoing, filled) = fill(reader, outgoing, left).await?;
        if let Some(hasher) = hasher.as_deref_mut() {
            for slot in outgoing.slots(filled) {
                hasher.update(&slot);
            }
        }
        drain.send(outgoing, filled).await?;
        progress.add_moved(filled as u64);
        left.take_front(filled as u64);
    }
    Ok(())
}

/// In clear text what comes from another server or from a cache is sent from where it lies.
async fn serve_batches(
    reader: &dyn ReadHandle,
    range: ByteRange,
    drain: &mut impl Drain,
    progress: &Progress,
) -> Result<()> {
    let mut left = range;
    while !left.is_empty() {
        drain.check().await?;
        let waited = clear_stream(drain)?.wait_to_send().await;
        told(waited, drain).await?;
        let batch = reader.read_batch(left).await?;
        if batch.is_empty() {
            return Err(became_shorter());
        }
        let sent = clear_stream(drain)?.send_batch(&batch).await;
        told(sent, drain).await?;
        let bytes = batch.len() as u64;
        progress.add_moved(bytes);
        drain.sent(bytes);
        left.take_front(bytes);
    }
    Ok(())
}

fn clear_stream(drain: &mut impl Drain) -> Result<&mut Stream> {
    let none = || Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private("not a clear stream");
    drain.clear_stream().ok_or_else(none)
}

/// Reads the beginning of `range` into the buffer.
async fn fill(reader: &dyn ReadHandle, outgoing: Outgoing, range: ByteRange) -> Result<(Outgoing, usize)> {
    let left = usize::try_from(range.len()).unwrap_or(usize::MAX);
    let want = outgoing.capacity().min(left);
    match reader.read(outgoing, want, range.start).await? {
        (_, 0) => Err(became_shorter()),
        filled => Ok(filled),
    }
}

fn became_shorter() -> Error {
    Error::new(ErrorCode::SourceChanged, Side::Active, Phase::Transfer).with_detail("the file became shorter")
}

/// In clear text the kernel sends the file: from a thread while the reader keeps up, else as the
/// socket accepts data.
async fn serve_file(
    reader: &dyn ReadHandle,
    file: SystemFile<'_>,
    range: ByteRange,
    drain: &mut impl Drain,
    progress: &Progress,
) -> Result<()> {
    // For less, the hint costs more than it saves. Data that is not in memory is fetched anyway.
    if range.len() > RESIDENT_BYTES {
        reader.advise_sequential(range);
    }
    let mut left = range;
    let mut resident_end = range.start;
    let mut keeps_up = true;
    while !left.is_empty() {
        if keeps_up && let Some(turn) = send_steadily(file, left, drain, progress).await? {
            keeps_up = turn.keeps_up;
            left.take_front(turn.sent_bytes);
            continue;
        }
        drain.check().await?;
        resident_end = make_resident_to(file, left, resident_end).await?;
        let sent = send_piece(file, ByteRange::new(left.start, resident_end), drain).await;
        let sent = told(sent, drain).await?;
        progress.add_moved(sent);
        drain.sent(sent);
        left.take_front(sent);
    }
    Ok(())
}

/// One turn on a thread; `None` if none is free, or too little is left.
async fn send_steadily(
    file: SystemFile<'_>,
    left: ByteRange,
    drain: &mut impl Drain,
    progress: &Progress,
) -> Result<Option<Turn>> {
    let part = ByteRange::new(left.start, left.end.min(left.start.saturating_add(drain.turn_bytes())));
    if left.len() < STEADY_BYTES_MIN || drain.bare_stream().is_none() {
        return Ok(None);
    }
    drain.check().await?;
    let Some(stream) = drain.bare_stream() else {
        return Ok(None);
    };
    let progress = progress.clone();
    let sent = async {
        stream.flush_with_more().await?;
        stream
            .send_file_steadily(file.file(), part, move |bytes| progress.add_moved(bytes))
            .await
    };
    let sent = sent.await;
    match told(sent, drain).await? {
        Some(Turn {
            sent_bytes: 0,
            keeps_up: true,
        }) => Err(became_shorter()),
        Some(turn) => {
            drain.sent(turn.sent_bytes);
            Ok(Some(turn))
        }
        None => Ok(None),
    }
}

/// Errors of the file are ours. For an error of the bare connection the other end may have sent a
/// reason.
async fn told<T>(outcome: Result<T>, drain: &mut impl Drain) -> Result<T> {
    match outcome {
        Err(error) if error.side() != Side::Active => Err(drain.explain(error).await),
        outcome => outcome,
    }
}

/// Brings the beginning of `left` into memory, unless it is there already. Returns how far.
async fn make_resident_to(file: SystemFile<'_>, left: ByteRange, resident_end: u64) -> Result<u64> {
    if left.start < resident_end {
        return Ok(resident_end);
    }
    let ahead = ByteRange::new(left.start, left.end.min(left.start + RESIDENT_BYTES));
    file.make_resident(ahead).await?;
    Ok(ahead.end)
}

async fn send_piece(file: SystemFile<'_>, piece: ByteRange, drain: &mut impl Drain) -> Result<u64> {
    tokio::task::coop::consume_budget().await;
    let stream = clear_stream(drain)?;
    stream.flush_with_more().await?;
    loop {
        match stream.send_file(file.file(), piece.start, piece.len() as usize)? {
            Some(0) => return Err(became_shorter()),
            Some(count) => return Ok(count as u64),
            None => stream.writable().await?,
        }
    }
}

/// Passes payload on until it ends, and hashes it. Returns its size in bytes.
///
/// # Errors
/// Those of both ends.
pub async fn relay(
    payload: &mut impl Payload,
    drain: &mut impl Drain,
    hasher: &mut Hasher,
    progress: &Progress,
) -> Result<u64> {
    let mut total = 0;
    while let Some(batch) = payload.next().await? {
        for slice in batch.slices() {
            hasher.update(slice);
        }
        total += batch.len() as u64;
        send_batch(drain, batch, progress).await?;
    }
    Ok(total)
}

/// Sends a batch, and counts the bytes that were accepted.
pub(crate) async fn send_batch(drain: &mut impl Drain, mut batch: Batch, progress: &Progress) -> Result<()> {
    while !batch.is_empty() {
        let mut outgoing = drain.outgoing().await?;
        let filled = outgoing.fill_from(&mut batch);
        drain.send(outgoing, filled).await?;
        progress.add_moved(filled as u64);
    }
    Ok(())
}
