//! Removes what a failed copy left at a server that writes in place.
//!
//! Many servers keep the beginning of a broken upload under its name, where it blocks the next
//! attempt. But another client may have stored its file under the name meanwhile, so [`remove`] is
//! the only way to remove anything at a destination, and it removes only what is proven ours:
//!
//! 1. The destination reported before the copy that it had no such file, or created ours on the
//!    condition that it had none.
//! 2. It did not refuse the copy with an answer after which nothing of it can be there.
//! 3. The file there is ours: the server names the same file as when it created it for us, and it
//!    was not written to since the copy failed. Where servers name no files, it is shorter than
//!    the whole file and has the same beginning. A whole file may be there only if the server
//!    answered that it stored ours.
//! 4. It does not change between two looks, so no client is writing it.
//!
//! The request names the version that was seen (`If-Match`). Servers that ignore this, such as
//! XRootD, could still receive another file between the second look and the request: one round
//! trip.
//!
//! XRootD keeps a broken upload for ten minutes before it removes it (`ofs.persist`), and lets no
//! client read it in this time. It names files by device and inode. As an inode can be given to a
//! new file, and another client can replace the content of ours in place, the time of the last
//! change counts too.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use net::Batch;
use remote::{Client, GetOptions, Resource, Stored, Validator, is_in_use};
use tokio::time::{sleep, timeout};
use types::{ByteRange, Error, ErrorCode, Location, PeerStatus, Phase, Result, Side};

use super::remote_sink::RemoteSink;
use super::remote_source::RemoteSource;
use super::sink::{Sink, SinkFacts};
use super::source::Source;
use crate::limits::{REMAINS_IN_USE_TIME, REMAINS_PAUSE, REMAINS_PROOF_BYTES, REMAINS_TIME};
use crate::mover::Payload;
use crate::progress::Created;

/// A failed copy.
pub(crate) struct FailedCopy<'a> {
    /// Why it failed.
    pub(crate) error: &'a Error,
    /// The destination was to fetch the file. What it relays of the source's refusal says nothing
    /// of what it has created: XRootD creates the file first.
    pub(crate) is_pull: bool,
    /// The destination reported before the copy that it had no such file.
    pub(crate) was_absent: bool,
    /// The file that the copy created there, if the server named it.
    pub(crate) created: Option<Created>,
    /// Most bytes that a part of the file can have; `None` if no part can be recognised.
    pub(crate) part_bytes_max: Option<u64>,
    /// The server's answer that it stored the file.
    pub(crate) stored: Option<&'a Stored>,
}

/// What is at the destination after a failed copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    /// Nothing of the copy, or nothing any more.
    Nothing,
    /// A part that the server removes by itself, because it was never closed.
    Unclosed,
    /// Perhaps a part of the file.
    Perhaps,
}

impl Remains {
    /// The error, with a word about a part that may be left at the destination.
    pub(crate) fn told(self, error: Error, location: Option<&Location>) -> Error {
        let left = match (self, location) {
            (Self::Nothing, _) | (_, None) => return error,
            (Self::Unclosed, _) => "the destination removes the part of the file by itself, later".to_owned(),
            (Self::Perhaps, Some(location)) => format!("a part of the file may remain at {location}"),
        };
        let detail = match error.detail() {
            Some(detail) => format!("{detail}; {left}"),
            None => left,
        };
        error.with_detail(detail)
    }
}

/// The first bytes of the file as they were sent.
#[derive(Debug, Default)]
pub(super) struct SentBeginning(Mutex<Vec<u8>>);

impl SentBeginning {
    /// Keeps what belongs to the beginning of a batch that starts at `offset`.
    pub(super) fn pass(&self, offset: u64, batch: &Batch) {
        if offset >= REMAINS_PROOF_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(usize::try_from(offset).unwrap_or(usize::MAX));
        extend(&mut kept, batch, REMAINS_PROOF_BYTES);
    }

    fn first(&self, count: u64) -> Option<Vec<u8>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(..usize::try_from(count).ok()?).map(<[u8]>::to_vec)
    }
}

/// Appends a batch, up to `most` bytes in all.
fn extend(bytes: &mut Vec<u8>, batch: &Batch, most: u64) {
    for slice in batch.slices() {
        let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(bytes.len());
        bytes.extend_from_slice(&slice[..slice.len().min(room)]);
    }
}

/// The file that was to be copied.
pub(crate) struct Original<'a> {
    source: &'a Arc<dyn Source>,
    sent: Option<&'a SentBeginning>,
}

impl<'a> Original<'a> {
    /// The file of this source, which is read again.
    pub(crate) fn new(source: &'a Arc<dyn Source>) -> Self {
        Self { source, sent: None }
    }

    /// The same, whose beginning was kept when it was sent.
    pub(super) fn with_sent(self, sent: &'a SentBeginning) -> Self {
        Self {
            sent: Some(sent),
            ..self
        }
    }

    async fn first(&self, count: u64) -> Option<Vec<u8>> {
        if let Some(sent) = self.sent.and_then(|sent| sent.first(count)) {
            return Some(sent);
        }
        let options = GetOptions {
            range: Some(ByteRange::new(0, count)),
            ..GetOptions::default()
        };
        let mut incoming = self.source.read(&options).await.ok()?;
        collect(&mut incoming, count).await
    }
}

/// The next `count` bytes; `None` if fewer arrive.
pub(super) async fn collect(incoming: &mut impl Payload, count: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < count {
        let batch = incoming.next().await.ok()??;
        extend(&mut bytes, &batch, count);
    }
    Some(bytes)
}

/// Removes what the copy left at the destination if it is proven ours.
pub(crate) async fn remove(sink: &dyn Sink, original: &Original<'_>, failed: &FailedCopy<'_>) -> Remains {
    if failed.stored.is_none() && wrote_nothing(failed) {
        return Remains::Nothing;
    }
    let removal = Removal {
        sink,
        original,
        failed,
        began: Instant::now(),
    };
    let removed = timeout(REMAINS_TIME, removal.run()).await;
    removed.unwrap_or_else(|_| failed.remains())
}

/// As [`remove`], after a copy between two servers of one client.
pub(crate) async fn remove_between(
    client: &Client,
    source: &Resource,
    destination: &Resource,
    failed: &FailedCopy<'_>,
) -> Remains {
    let source: Arc<dyn Source> = Arc::new(RemoteSource::new(client, source));
    let sink = RemoteSink::new(client, destination);
    remove(&sink, &Original::new(&source), failed).await
}

/// Whether the destination answered that it has none of the file, because it may not have it or has
/// another, or was never reached. Answers that can also come in the middle of the data do not
/// count.
fn wrote_nothing(failed: &FailedCopy<'_>) -> bool {
    let error = failed.error;
    let is_unconnected = matches!(error.phase(), Phase::Connect | Phase::Tls) && error.peer_words().is_none();
    match error.peer_status() {
        _ if error.code() == ErrorCode::PeerExists => true,
        _ if failed.is_pull && error.side() == Side::Source => false,
        None => is_unconnected,
        Some(PeerStatus::Http(status)) => {
            (400..500).contains(&status) && !matches!(status, 400 | 408 | 413 | 422 | 429)
        }
        _ => false,
    }
}

impl FailedCopy<'_> {
    /// Whether the server keeps the file only if it is closed.
    fn is_never_closed(&self) -> bool {
        let created = self.created.as_ref();
        created.is_some_and(|created| created.file.identity.is_unclosed) && self.stored.is_none()
    }

    /// What remains if it cannot be removed: where the file is kept only if it is closed, nothing
    /// of a copy that failed before its end.
    fn remains(&self) -> Remains {
        match self.is_never_closed() && self.error.phase() == Phase::Transfer {
            true => Remains::Unclosed,
            false => Remains::Perhaps,
        }
    }

    fn was_absent(&self) -> bool {
        self.was_absent || self.created.as_ref().is_some_and(|created| created.file.is_new)
    }
}

/// The removal of what a copy left.
struct Removal<'a> {
    sink: &'a dyn Sink,
    original: &'a Original<'a>,
    failed: &'a FailedCopy<'a>,
    began: Instant,
}

impl Removal<'_> {
    async fn run(&self) -> Remains {
        loop {
            match self.once().await {
                Ok(remains) => return remains,
                Err(error) if error.code() == ErrorCode::PeerNotFound => return Remains::Nothing,
                Err(error) if is_in_use(&error) && self.began.elapsed() < REMAINS_IN_USE_TIME => {
                    sleep(REMAINS_PAUSE).await;
                }
                Err(_) => return self.failed.remains(),
            }
        }
    }

    async fn once(&self) -> Result<Remains> {
        let found = self.sink.look(&[]).await?;
        let (is_same, is_unchanged) = self.compare(&found);
        // The name is that of another file now, so ours is gone.
        if is_same == Some(false) {
            return Ok(Remains::Nothing);
        }
        let is_unclosed = found.identity.as_ref().is_some_and(|file| file.is_unclosed);
        let is_part = is_same == Some(true) && is_unchanged && is_unclosed && self.failed.is_never_closed();
        // A whole file that was closed is complete, although its server could not say so.
        if found.size_bytes > self.failed.part_bytes_max && !is_part {
            return Ok(Remains::Nothing);
        }
        if !self.failed.was_absent() {
            return Ok(match is_part {
                true => self.failed.remains(),
                false => Remains::Perhaps,
            });
        }
        if !is_unchanged || !(is_part || self.is_ours(&found).await?) {
            return Ok(Remains::Perhaps);
        }
        sleep(REMAINS_PAUSE).await;
        let now = self.sink.look(&[]).await?;
        if now.size_bytes != found.size_bytes || now.version != found.version || now.identity != found.identity {
            // Another client stores its file there.
            return Ok(Remains::Perhaps);
        }
        self.sink.remove(now.version.as_ref()).await?;
        Ok(Remains::Nothing)
    }

    /// Whether it is the file that the server created for us (`None`: no server names files), and
    /// whether it is unchanged since the copy failed. Both times are whole seconds.
    fn compare(&self, found: &SinkFacts) -> (Option<bool>, bool) {
        let (Some(created), Some(found)) = (&self.failed.created, &found.identity) else {
            return (None, true);
        };
        let file = &created.file.identity;
        let is_same = match (file.is_same(found), self.failed.stored) {
            (None, _) => return (None, true),
            // Storing may have given the name to another file.
            (Some(false), Some(_)) => return (None, true),
            (Some(is_same), _) => is_same,
        };
        let open_s = self.began.saturating_duration_since(created.at).as_secs() + 1;
        let latest_s = file.modified_s.saturating_add_unsigned(open_s);
        (Some(is_same), found.modified_s <= latest_s)
    }

    /// Whether the file there has our content, or is the version that the server said it stored.
    async fn is_ours(&self, found: &SinkFacts) -> Result<bool> {
        let stored = self.failed.stored.and_then(|stored| stored.version.as_ref());
        if let Some(stored @ Validator::Tag(_)) = stored {
            return Ok(found.version.as_ref() == Some(stored));
        }
        let Some(size_bytes) = found.size_bytes else {
            return Ok(false);
        };
        let count = size_bytes.min(REMAINS_PROOF_BYTES);
        if count == 0 {
            return Ok(true);
        }
        let reading = timeout(REMAINS_IN_USE_TIME, self.sink.beginning(count));
        let (there, ours) = tokio::join!(reading, self.original.first(count));
        // Some servers let a client wait for a file that is in use.
        let Ok(there) = there else { return Ok(false) };
        match there {
            Ok(there) => Ok(there.len() as u64 == count && Some(there) == ours),
            Err(error) if is_in_use(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
