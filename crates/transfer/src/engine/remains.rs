//! Removes what a failed copy left at a server that writes in place.
//!
//! Many servers keep the beginning of a broken upload under its name, where it blocks the next
//! attempt. But another client may have stored its file under the name meanwhile, so [`remove`] is
//! the only way to remove anything at a destination, and it removes only what is proven ours:
//!
//! 1. The destination reported before the copy that it had no such file, or created ours on the
//!    condition that it had none.
//! 2. It did not refuse the copy with an answer after which nothing of it can be there.
//! 3. The server ties the file to our request: it names it as when it created it for us (XRootD
//!    protocol), or it said that it stored it, by its version if it names one.
//! 4. The file was last written to while our copy ran. Over the XRootD protocol it was not written
//!    to since the copy failed. Over HTTP its last change is not before our copy began, nor after
//!    it ended, by the server's own clock, if it tells these times.
//! 5. Its content is ours: a part begins like the source's; a whole file, which is read for this,
//!    has the checksum that the comparison found wrong. The server's word about its checksum is not
//!    enough: XRootD keeps checksums by the second of the last change, and so gives that of our
//!    file for one that another client has stored within the same second.
//! 6. It does not change between two looks, so no client is writing it. Over HTTP they are further
//!    apart. A part that the server lets no other client open is looked at for some seconds: a busy
//!    server still writes what it had received when the connection broke.
//!
//! So a part that a broken upload or copy leaves over HTTP stays. That it equals ours and is of our
//! time proves nothing: another client may copy the same file to the same name, and pause.
//! `If-None-Match: *` with `100 Continue` proves no more: many servers answer so before they look
//! at conditions, and create the file later.
//!
//! An empty file has no content that proves it ours. It stays, unless the server names it.
//!
//! The request names the version that was proven (`If-Match`). Servers that ignore this, such as
//! XRootD, could still receive another file between the second look and the request: one round
//! trip.
//!
//! XRootD keeps a broken upload for ten minutes before it removes it (`ofs.persist`), and lets no
//! client read it in this time; `remote` removes it so that a later file of the name stays. It
//! names files by device and inode. As an inode can be given to a new file, and another client can
//! replace the content of ours in place, the time of the last change counts too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use remote::{Client, CreatedFile, FileIdentity, GetOptions, Resource, Stored, Validator, is_in_use};
use storage::Hasher;
use tokio::time::{sleep, timeout};
use types::{ByteRange, Checksum, Error, ErrorCode, Location, PeerStatus, Phase, Result, Side};

use super::remote_sink::RemoteSink;
use super::remote_source::RemoteSource;
use super::sink::{Sink, SinkFacts};
use super::source::{Incoming, Source};
use crate::limits::{
    REMAINS_DRAIN, REMAINS_IN_USE_TIME, REMAINS_PAUSE, REMAINS_PROOF_BYTES, REMAINS_QUIET, REMAINS_TICK, REMAINS_TIME,
};
use crate::progress::{Progress, Replaced};

/// Who writes to the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// This program. What the source answers says nothing of what the destination has.
    Ourselves,
    /// The destination fetches the file. What it relays of the source's refusal says nothing of
    /// what it has created: XRootD creates the file first.
    Destination,
    /// The source sends it, and its answer to the order says whether it has begun.
    Source,
}

/// A failed copy.
pub(crate) struct FailedCopy<'a> {
    /// Why it failed.
    pub(crate) error: &'a Error,
    /// Who wrote to the destination.
    pub(crate) writer: Writer,
    /// The destination was not asked for this attempt, or refused it.
    pub(crate) is_refused: bool,
    /// An earlier attempt has perhaps left something.
    pub(crate) has_left: bool,
    /// The destination reported before the copy that it had no such file.
    pub(crate) was_absent: bool,
    /// The file that the copy created there, if the server named it.
    pub(crate) created: Option<CreatedFile>,
    /// The file that the copy would have replaced, if the server named its version.
    pub(crate) replaced: Option<Replaced>,
    /// When the copy began, which may have created the file; `None` if it did not come so far.
    pub(crate) begun: Option<Instant>,
    /// When it ended: nothing of it was sent after that.
    pub(crate) ended: Instant,
    /// Most bytes that a part of the file can have; `None` if no part can be recognised.
    pub(crate) part_bytes_max: Option<u64>,
    /// Whether a longer file cannot be of the copy. Else it may be, but is not removed.
    pub(crate) is_longest_known: bool,
    /// The server's answer that it stored the file.
    pub(crate) stored: Option<&'a Stored>,
    /// Checksums of what it stored, which the source's file does not have: as the server reported
    /// them, or of what was sent if that was wrong already.
    pub(crate) wrong: &'a [Checksum],
}

/// What is at the destination after a failed copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    /// Nothing of the copy, or nothing any more.
    Nothing,
    /// A part that the server removes by itself, because it was never closed.
    Unclosed,
    /// Perhaps a part of the file, and how many bytes are there, if known.
    Perhaps(Option<u64>),
}

impl Remains {
    /// The error, with a word about a part that may be left at the destination.
    pub(crate) fn told(self, error: Error, location: Option<&Location>) -> Error {
        let left = match (self, location) {
            (Self::Nothing, _) | (_, None) => return error,
            (Self::Unclosed, _) => "the destination removes the part of the file by itself, later".to_owned(),
            (Self::Perhaps(None), Some(location)) => format!("a part of the file may remain at {location}"),
            (Self::Perhaps(Some(bytes)), Some(location)) => {
                format!("a part of the file may remain at {location}: {bytes} bytes are there")
            }
        };
        let detail = match error.detail() {
            Some(detail) => format!("{detail}; {left}"),
            None => left,
        };
        error.with_detail(detail)
    }
}

/// Removes what the copy left at the destination if it is proven ours.
pub(crate) async fn remove(sink: &dyn Sink, source: &Arc<dyn Source>, failed: &FailedCopy<'_>) -> Remains {
    let removal = Removal {
        sink,
        source,
        failed,
        began: Instant::now(),
    };
    let has_written = failed.stored.is_some() || !failed.is_refused && !wrote_nothing(failed);
    let removed = match has_written {
        true => timeout(REMAINS_TIME, removal.run()).await,
        false if failed.has_left => timeout(REMAINS_TIME, removal.report()).await,
        false => return Remains::Nothing,
    };
    removed.unwrap_or_else(|_| failed.remains(None))
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
    remove(&sink, &source, failed).await
}

/// As [`remove`], after a copy that was ended from outside with `error`. A server that still writes
/// shows by the growth of its file.
pub(crate) async fn remove_ended(
    sink: &dyn Sink,
    source: &Arc<dyn Source>,
    progress: &Progress,
    was_absent: bool,
    error: &Error,
) -> Remains {
    let whole_bytes = progress.total_bytes();
    let failed = FailedCopy {
        error,
        writer: Writer::Ourselves,
        is_refused: false,
        has_left: false,
        created: progress.created(),
        replaced: progress.replaced(),
        begun: progress.begun(),
        ended: Instant::now(),
        was_absent,
        part_bytes_max: part_bytes_max(whole_bytes),
        is_longest_known: whole_bytes.is_some(),
        stored: None,
        wrong: &[],
    };
    progress.enter(Phase::Cleanup);
    remove(sink, source, &failed).await
}

/// Most bytes of a part of a file of this size. Of an unknown size only an empty file is removed.
pub(crate) fn part_bytes_max(whole_bytes: Option<u64>) -> Option<u64> {
    whole_bytes.map_or(Some(0), |bytes| bytes.checked_sub(1))
}

/// Whether the destination answered that it has none of the file, because it may not have it or has
/// another, or was never reached. Answers that can also come in the middle of the data do not
/// count.
fn wrote_nothing(failed: &FailedCopy<'_>) -> bool {
    let error = failed.error;
    let is_unconnected = matches!(error.phase(), Phase::Connect | Phase::Tls) && error.peer_words().is_none();
    match error.peer_status() {
        _ if error.code() == ErrorCode::PeerExists => true,
        _ if failed.writer == Writer::Destination && error.side() == Side::Source => false,
        _ if failed.writer == Writer::Ourselves && error.side() != Side::Destination => false,
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
        created.is_some_and(|created| created.identity.is_unclosed) && self.stored.is_none()
    }

    /// What remains if it cannot be removed: where the file is kept only if it is closed, nothing
    /// of a copy that failed, or was given up because of its checksum, before it was to be closed.
    fn remains(&self, size_bytes: Option<u64>) -> Remains {
        match self.is_never_closed() && matches!(self.error.phase(), Phase::Transfer | Phase::Checksum) {
            true => Remains::Unclosed,
            false => Remains::Perhaps(size_bytes),
        }
    }

    fn was_absent(&self) -> bool {
        self.was_absent || self.created.as_ref().is_some_and(|created| created.is_new)
    }
}

/// The removal of what a copy left.
struct Removal<'a> {
    sink: &'a dyn Sink,
    source: &'a Arc<dyn Source>,
    failed: &'a FailedCopy<'a>,
    began: Instant,
}

impl Removal<'_> {
    async fn run(&self) -> Remains {
        loop {
            match self.once().await {
                Ok(Seen::Changing(_)) if self.began.elapsed() < REMAINS_IN_USE_TIME => {}
                Ok(Seen::Settled(remains) | Seen::Changing(remains)) => return remains,
                Err(error) if error.code() == ErrorCode::PeerNotFound => return Remains::Nothing,
                Err(error) if is_in_use(&error) && self.began.elapsed() < REMAINS_IN_USE_TIME => {
                    sleep(REMAINS_PAUSE).await;
                }
                Err(_) => return self.failed.remains(None),
            }
        }
    }

    /// What an earlier attempt may have left. Nothing is removed: another client may have stored
    /// its file since.
    async fn report(&self) -> Remains {
        match self.look().await {
            Ok(found) if self.is_too_long(&found) || self.is_as_before(&found) => Remains::Nothing,
            Ok(found) => Remains::Perhaps(found.file.size_bytes),
            Err(error) if error.code() == ErrorCode::PeerNotFound => Remains::Nothing,
            Err(_) => Remains::Perhaps(None),
        }
    }

    /// Whether the file that was to be replaced is still there, untouched.
    fn is_as_before(&self, found: &Found) -> bool {
        let file = &found.file;
        self.failed.replaced.as_ref().is_some_and(|before| {
            file.version.as_ref() == Some(&before.version) && file.size_bytes == before.size_bytes
        })
    }

    /// Whether a file is longer than a part of ours can be.
    fn is_too_long(&self, found: &Found) -> bool {
        self.failed.is_longest_known && found.file.size_bytes > self.failed.part_bytes_max
    }

    async fn once(&self) -> Result<Seen> {
        let found = self.look().await?;
        let file = &found.file;
        // The name is that of another file now, or still, so none of ours is there.
        if found.is_same == Some(false) || self.is_as_before(&found) {
            return Ok(Seen::Settled(Remains::Nothing));
        }
        let is_unclosed = file.identity.as_ref().is_some_and(|file| file.is_unclosed);
        let is_part =
            found.is_same == Some(true) && found.is_of_our_time && is_unclosed && self.failed.is_never_closed();
        let left = Remains::Perhaps(file.size_bytes);
        if file.size_bytes > self.failed.part_bytes_max && !is_part {
            // A whole file that was closed is complete, although its server could not say so.
            let is_whole = self.is_too_long(&found);
            return Ok(Seen::Settled(if is_whole { Remains::Nothing } else { left }));
        }
        if !self.failed.was_absent() {
            return Ok(Seen::Settled(match is_part {
                true => self.failed.remains(file.size_bytes),
                false => left,
            }));
        }
        if !found.is_of_our_time || !(is_part || self.is_ours(&found).await?) {
            return Ok(Seen::Settled(left));
        }
        let is_whole = !is_part && self.is_whole(file) && self.is_stored_version(file).is_none();
        sleep(match &file.identity {
            Some(_) if is_whole => REMAINS_TICK,
            Some(_) => REMAINS_PAUSE,
            None => REMAINS_QUIET,
        })
        .await;
        let now = self.look().await?;
        if !now.is_of_our_time || !now.is_unchanged_since(&found) {
            let left = Remains::Perhaps(now.file.size_bytes);
            return Ok(match now.is_same {
                Some(true) if is_part && now.is_of_our_time => Seen::Changing(left),
                // Another client stores its file there.
                _ => Seen::Settled(left),
            });
        }
        if is_whole && !self.is_wrong(&now).await? {
            return Ok(Seen::Settled(left));
        }
        self.sink.remove(now.file.version.as_ref()).await?;
        Ok(Seen::Settled(Remains::Nothing))
    }

    /// Whether a file is as long as what was sent, and the server said that it stored that.
    fn is_whole(&self, file: &SinkFacts) -> bool {
        let sent_bytes = self.failed.part_bytes_max.filter(|_| self.failed.stored.is_some());
        sent_bytes.is_some_and(|bytes| bytes > 0 && file.size_bytes == Some(bytes))
    }

    async fn look(&self) -> Result<Found> {
        let asked = Instant::now();
        let file = self.sink.look(&[]).await?;
        let (is_same, is_of_our_time) = match &file.identity {
            Some(identity) => self.compare(identity),
            None => (None, self.is_aged_as_ours(&file, asked)),
        };
        let is_of_our_time = match self.is_stored_version(&file) {
            Some(is_stored) => is_stored,
            None => is_of_our_time,
        };
        Ok(Found {
            file,
            is_same,
            is_of_our_time,
        })
    }

    /// Whether it is the file that the server created for us (`None`: that cannot be said), and
    /// whether it is unchanged since the copy failed. Both times are whole seconds.
    fn compare(&self, found: &FileIdentity) -> (Option<bool>, bool) {
        let Some(created) = &self.failed.created else {
            return (None, true);
        };
        let file = &created.identity;
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

    /// Whether it is the version that the server said it stored; `None` if it named none.
    fn is_stored_version(&self, found: &SinkFacts) -> Option<bool> {
        match self.failed.stored?.version.as_ref()? {
            tag @ Validator::Tag(_) => Some(found.version.as_ref() == Some(tag)),
            Validator::Modified(_) | Validator::Weak { .. } => None,
        }
    }

    /// Whether a file without identity was last written to between the begin of our copy and its
    /// end. `asked`: before the server was asked for its age.
    fn is_aged_as_ours(&self, found: &SinkFacts, asked: Instant) -> bool {
        // Its answer that it stored the whole file was the last news of it.
        let Some(age_s) = found.age_s else {
            return self.failed.stored.is_some();
        };
        let Some(begun) = self.failed.begun else {
            return false;
        };
        let since_end = asked.saturating_duration_since(self.failed.ended);
        let drain = match self.failed.stored {
            Some(_) => Duration::ZERO,
            None => REMAINS_DRAIN,
        };
        let least_s = since_end.saturating_sub(drain).as_secs();
        let most_s = begun.elapsed().as_secs() + 1;
        u64::try_from(age_s).is_ok_and(|age_s| (least_s..=most_s).contains(&age_s))
    }

    /// Whether the file there has our content, or is what the server said it stored.
    async fn is_ours(&self, found: &Found) -> Result<bool> {
        let file = &found.file;
        if let Some(is_stored) = self.is_stored_version(file) {
            return Ok(is_stored);
        }
        let (is_named, is_stored) = (found.is_same == Some(true), self.failed.stored.is_some());
        match file.size_bytes {
            None => Ok(false),
            // Nothing in it shows whose it is.
            Some(0) => Ok(is_named),
            // Its content is read after the pause: until then another client may replace it unseen.
            Some(_) if self.is_whole(file) => Ok(!self.failed.wrong.is_empty()),
            // Its name or the server's answer prove the rest.
            Some(bytes) if is_named || is_stored => self.has_our_bytes(bytes.min(REMAINS_PROOF_BYTES)).await,
            // Another client may copy the same file.
            Some(_) => Ok(false),
        }
    }

    /// Whether a whole file has the content that was found wrong, and stays unchanged while it is
    /// read.
    ///
    /// # Errors
    /// The file is in use, or the connection is lost.
    async fn is_wrong(&self, found: &Found) -> Result<bool> {
        let (wrong, bytes) = (self.failed.wrong, found.file.size_bytes.unwrap_or(0));
        let Some(mut there) = self.open_there(bytes).await? else {
            return Ok(false);
        };
        let algorithms: Vec<_> = wrong.iter().map(Checksum::algorithm).collect();
        let (mut hasher, mut count) = (Hasher::new(&algorithms), 0);
        while let Some(batch) = there.next().await? {
            batch.slices().for_each(|slice| hasher.update(slice));
            count += batch.len() as u64;
        }
        if count != bytes || !hasher.finish().iter().any(|sum| wrong.contains(sum)) {
            return Ok(false);
        }
        let now = self.look().await?;
        Ok(now.is_of_our_time && now.is_unchanged_since(found))
    }

    /// The first `count` bytes of what is there; `None` if it cannot be read.
    ///
    /// # Errors
    /// The file is in use.
    async fn open_there(&self, count: u64) -> Result<Option<Box<dyn Incoming>>> {
        // Some servers let a client wait for a file that is in use.
        match timeout(REMAINS_IN_USE_TIME, self.sink.read_back(count)).await {
            Ok(Ok(there)) => Ok(Some(there)),
            Ok(Err(error)) if is_in_use(&error) => Err(error),
            _ => Ok(None),
        }
    }

    /// Whether the first `count` bytes are the same on both sides.
    ///
    /// # Errors
    /// The file is in use.
    async fn has_our_bytes(&self, count: u64) -> Result<bool> {
        let Some(there) = self.open_there(count).await? else {
            return Ok(false);
        };
        let options = GetOptions {
            range: Some(ByteRange::new(0, count)),
            ..GetOptions::default()
        };
        match self.source.read(&options).await {
            Ok(ours) => Ok(same_bytes(ours, there, count).await.unwrap_or(false)),
            Err(_) => Ok(false),
        }
    }
}

/// What two looks show.
enum Seen {
    /// It will not be another one.
    Settled(Remains),
    /// The part that only we could write changes: the server still writes what it had received.
    Changing(Remains),
}

/// What a look finds.
struct Found {
    file: SinkFacts,
    /// Whether it is the file that was created for us; `None` if that cannot be said.
    is_same: Option<bool>,
    /// Whether our copy can have written its last change.
    is_of_our_time: bool,
}

impl Found {
    fn is_unchanged_since(&self, before: &Self) -> bool {
        let (now, before) = (&self.file, &before.file);
        now.size_bytes == before.size_bytes && now.version == before.version && now.identity == before.identity
    }
}

/// Whether both sides deliver the same first `count` bytes.
async fn same_bytes(mut ours: Box<dyn Incoming>, mut theirs: Box<dyn Incoming>, count: u64) -> Result<bool> {
    let (mut our_bytes, mut their_bytes) = (VecDeque::<u8>::new(), VecDeque::new());
    let mut compared = 0;
    while compared < count {
        for (side, bytes) in [(&mut ours, &mut our_bytes), (&mut theirs, &mut their_bytes)] {
            if bytes.is_empty() {
                let Some(batch) = side.next().await? else {
                    return Ok(false);
                };
                batch.slices().for_each(|slice| bytes.extend(slice));
            }
        }
        let step = our_bytes.len().min(their_bytes.len());
        if !our_bytes.drain(..step).eq(their_bytes.drain(..step)) {
            return Ok(false);
        }
        compared += step as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_closed_is_removed_by_its_server() {
        let part = CreatedFile {
            identity: FileIdentity {
                server: Location::parse("root://h//f").unwrap(),
                id: 1,
                modified_s: 0,
                is_unclosed: true,
            },
            is_new: false,
            at: Instant::now(),
        };
        let remains = |phase, part: &CreatedFile, stored: Option<&Stored>| {
            let failed = FailedCopy {
                error: &Error::new(ErrorCode::ChecksumMismatch, Side::Source, phase),
                writer: Writer::Ourselves,
                is_refused: false,
                has_left: false,
                created: Some(part.clone()),
                replaced: None,
                begun: None,
                ended: Instant::now(),
                was_absent: false,
                part_bytes_max: Some(1),
                is_longest_known: true,
                stored,
                wrong: &[],
            };
            failed.remains(Some(1))
        };
        let perhaps = Remains::Perhaps(Some(1));
        // Also if it was given up before it was closed.
        assert_eq!(remains(Phase::Transfer, &part, None), Remains::Unclosed);
        assert_eq!(remains(Phase::Checksum, &part, None), Remains::Unclosed);
        // It may have been closed, or was.
        assert_eq!(remains(Phase::Commit, &part, None), perhaps);
        let stored = Stored::default();
        assert_eq!(remains(Phase::Checksum, &part, Some(&stored)), perhaps);
        // The server keeps what is not closed.
        let mut kept = part.clone();
        kept.identity.is_unclosed = false;
        assert_eq!(remains(Phase::Checksum, &kept, None), perhaps);
    }
}
