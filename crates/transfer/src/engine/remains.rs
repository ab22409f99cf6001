//! Removes what a failed copy left at a server that writes in place.
//!
//! Many servers keep the beginning of a broken upload under its name, where it blocks the next
//! attempt. But another client may have stored its file under the name meanwhile, so [`remove`] is
//! the only way to remove anything at a destination, and it removes only what is proven ours:
//!
//! 1. The destination reported before the copy that it had no such file.
//! 2. It did not refuse the copy with an answer after which nothing of it can be there.
//! 3. The file there is a part of ours: shorter than the whole file, with the same beginning. A
//!    whole file may be there only if the server answered that it stored ours.
//! 4. It does not change between two looks, so no client is writing it.
//!
//! The request names the version that was seen (`If-Match`). Servers that ignore this, such as
//! XRootD, could still receive another file between the second look and the request: one round
//! trip.

use std::sync::{Arc, Mutex, PoisonError};

use net::Batch;
use remote::{Client, GetOptions, Resource, Stored, Validator};
use tokio::time::{sleep, timeout};
use types::{ByteRange, Error, ErrorCode, Location, PeerStatus, Phase, Side};

use super::remote_sink::RemoteSink;
use super::remote_source::RemoteSource;
use super::sink::{Sink, SinkFacts};
use super::source::Source;
use crate::limits::{REMAINS_PAUSE, REMAINS_PROOF_BYTES, REMAINS_TIME};
use crate::mover::Payload;

/// A failed copy.
pub(crate) struct FailedCopy<'a> {
    /// Why it failed.
    pub(crate) error: &'a Error,
    /// The destination was to fetch the file. What it relays of the source's refusal says nothing
    /// of what it has created: XRootD creates the file first.
    pub(crate) is_pull: bool,
    /// The destination reported before the copy that it had no such file.
    pub(crate) was_absent: bool,
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
    /// Perhaps a part of the file.
    Perhaps,
}

impl Remains {
    /// The error, with a word about a part that may be left at the destination.
    pub(crate) fn told(self, error: Error, location: Option<&Location>) -> Error {
        let Some(location) = location.filter(|_| self == Self::Perhaps) else {
            return error;
        };
        let left = format!("a part of the file may remain at {location}");
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
    let removing = timeout(REMAINS_TIME, remove_own(sink, original, failed));
    removing.await.unwrap_or(Remains::Perhaps)
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

async fn remove_own(sink: &dyn Sink, original: &Original<'_>, failed: &FailedCopy<'_>) -> Remains {
    let found = match sink.look(&[]).await {
        Ok(found) => found,
        Err(error) if error.code() == ErrorCode::PeerNotFound => return Remains::Nothing,
        Err(_) => return Remains::Perhaps,
    };
    if found.size_bytes > failed.part_bytes_max {
        return Remains::Nothing;
    }
    if !failed.was_absent || !is_ours(sink, original, failed, &found).await {
        return Remains::Perhaps;
    }
    sleep(REMAINS_PAUSE).await;
    match sink.look(&[]).await {
        Ok(now) if now.size_bytes == found.size_bytes && now.version == found.version => {
            match sink.remove(now.version.as_ref()).await {
                Ok(()) => Remains::Nothing,
                Err(_) => Remains::Perhaps,
            }
        }
        Err(error) if error.code() == ErrorCode::PeerNotFound => Remains::Nothing,
        // Another client stores its file there.
        _ => Remains::Perhaps,
    }
}

/// Whether the file there has our content, or is the version that the server said it stored.
async fn is_ours(sink: &dyn Sink, original: &Original<'_>, failed: &FailedCopy<'_>, found: &SinkFacts) -> bool {
    let stored = failed.stored.and_then(|stored| stored.version.as_ref());
    if let Some(stored @ Validator::Tag(_)) = stored {
        return found.version.as_ref() == Some(stored);
    }
    let Some(size_bytes) = found.size_bytes else {
        return false;
    };
    let count = size_bytes.min(REMAINS_PROOF_BYTES);
    if count == 0 {
        return true;
    }
    let (there, ours) = tokio::join!(sink.beginning(count), original.first(count));
    there.is_ok_and(|there| there.len() as u64 == count && Some(there) == ours)
}
