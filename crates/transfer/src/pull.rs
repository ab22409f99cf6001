//! Pull: a file elsewhere becomes a file here.

use std::sync::Arc;
use std::time::Duration;

use net::Batch;
use remote::{Client, Download, Facts, GetOptions, Resource, Validator};
use storage::{CommitFacts, FileReader, Hasher, Overwrite, Upload, UploadOptions};
use types::limits::{BUFFER_BYTES, STREAM_BLOCK_BYTES};
use types::{ByteRange, Checksum, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::mover::{Payload, Received, receive};
use crate::options::{Order, Outcome, Verification, Verified};
use crate::progress::Progress;
use crate::store::Store;
use crate::streams::receive_ranges;
use crate::verify::{check_announced, compare, computed, missing, wanted};

/// Copies `source` to `path`.
///
/// The source is asked first; nothing is written here when it is missing or refuses. Then space is
/// reserved, data streams into a hidden part, a broken connection is taken up where it stopped while
/// the source's validator is unchanged, the checksums of both sides are compared, and only then
/// does the file appear under its name. Dropping the future aborts and removes the part.
///
/// # Errors
/// With the side and phase at which it failed; the destination is then as it was before.
pub async fn pull(
    client: &Client,
    source: &Resource,
    store: &Store,
    path: &LogicalPath,
    order: &Order,
    progress: &Progress,
) -> Result<Outcome> {
    let first = pull_once(client, source, store, path, order, progress).await;
    match first {
        // What was begun belongs to a file that is no more; the new one deserves one fresh start.
        Err(error) if error.code() == ErrorCode::SourceChanged => {
            progress.count_attempt();
            progress.set_moved(0);
            pull_once(client, source, store, path, order, progress).await
        }
        other => other,
    }
}

async fn pull_once(
    client: &Client,
    source: &Resource,
    store: &Store,
    path: &LogicalPath,
    order: &Order,
    progress: &Progress,
) -> Result<Outcome> {
    progress.enter(Phase::Open);
    let facts = ask(client, source, order).await?;
    if let Some(bytes) = facts.as_ref().and_then(|facts| facts.size_bytes) {
        progress.set_total(bytes);
        order.check_size(bytes)?;
    }
    let replaced = existed(store, path, order).await?;
    let upload = store
        .create(path, &upload_options(order, facts.as_ref()))
        .await
        .map_err(here)?;
    let job = Job {
        client,
        source,
        store,
        order,
        progress,
        upload: &upload,
    };
    // Some sources compute their checksum when asked. That takes as long as reading the file, so
    // it is asked for while the data moves.
    let (moved, told) = tokio::join!(
        job.fetch(facts.as_ref()),
        late_digests(client, source, order, facts.as_ref())
    );
    let fetched = moved?;
    progress.enter(Phase::Checksum);
    let mut theirs = facts.map(|facts| facts.checksums).unwrap_or_default();
    theirs.extend(told);
    theirs.extend(fetched.told);
    let (ours, verified) = verify(store, &upload, order, fetched.checksums, theirs).await?;
    progress.enter(Phase::Commit);
    let facts = CommitFacts {
        size_bytes: fetched.bytes,
        checksums: ours.clone(),
        modified: None,
    };
    store.commit(&upload, facts).await.map_err(here)?;
    let (bytes, streams) = (fetched.bytes, fetched.streams);
    Ok(Outcome {
        bytes,
        replaced,
        checksums: ours,
        verified,
        resumed: progress.resumed(),
        streams,
    })
}

/// Compares what came with what the source told, reading the part again only when the source knows
/// nothing but a checksum that was not computed on the way.
async fn verify(
    store: &Store,
    upload: &Arc<dyn Upload>,
    order: &Order,
    mut ours: Vec<Checksum>,
    theirs: Vec<Checksum>,
) -> Result<(Vec<Checksum>, Verified)> {
    let theirs = if order.verification == Verification::Never {
        Vec::new()
    } else {
        theirs
    };
    let reread = missing(&ours, &theirs);
    if !reread.is_empty() {
        ours.extend(store.reread(upload, &reread).await.map_err(here)?);
    }
    let verified = compare(order, &ours, &theirs, Side::Source)?;
    Ok((ours, verified))
}

/// Trouble in our own store is the destination's in a pull.
fn here(error: Error) -> Error {
    if error.side() == Side::Active {
        error.at_side(Side::Destination)
    } else {
        error
    }
}

/// Asks the source for the file, and for its checksum where that decides whether to begin at all.
async fn ask(client: &Client, source: &Resource, order: &Order) -> Result<Option<Facts>> {
    if !order.ask_first {
        return Ok(None);
    }
    let algorithms = if decides_early(order) {
        wanted(order)
    } else {
        Vec::new()
    };
    let facts = client.head(source, &algorithms).await?;
    if decides_early(order) {
        check_announced(order, &facts.checksums)?;
    }
    Ok(Some(facts))
}

fn decides_early(order: &Order) -> bool {
    order.expected.is_some() || order.verification == Verification::Required
}

/// The source's checksums when they were not asked for before the data; none when it tells none.
async fn late_digests(client: &Client, source: &Resource, order: &Order, facts: Option<&Facts>) -> Vec<Checksum> {
    if order.verification == Verification::Never
        || facts.is_none_or(|facts| !facts.checksums.is_empty())
        || decides_early(order)
    {
        return Vec::new();
    }
    match client.head(source, &wanted(order)).await {
        Ok(answer) => answer.checksums,
        Err(_) => Vec::new(),
    }
}

/// Whether the destination exists, which decides about its rights and the answer's words.
async fn existed(store: &Store, path: &LogicalPath, order: &Order) -> Result<bool> {
    match store.stat(path).await {
        Ok(stat) if stat.is_directory() => {
            Err(Error::new(ErrorCode::IsDirectory, Side::Destination, Phase::Open).with_subject(path))
        }
        Ok(_) if order.overwrite == Overwrite::Refuse => {
            Err(Error::new(ErrorCode::Exists, Side::Destination, Phase::Open).with_subject(path))
        }
        Ok(_) => Ok(true),
        Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::ParentMissing) => Ok(false),
        Err(error) => Err(here(error)),
    }
}

fn upload_options(order: &Order, facts: Option<&Facts>) -> UploadOptions {
    UploadOptions {
        size_bytes: facts.and_then(|facts| facts.size_bytes),
        overwrite: order.overwrite,
        create_parents: order.create_parents,
        checksums: order.keep.clone(),
    }
}

/// What the data phase brought.
pub(crate) struct Fetched {
    pub(crate) bytes: u64,
    pub(crate) checksums: Vec<Checksum>,
    /// Checksums that the source told together with the data.
    pub(crate) told: Vec<Checksum>,
    pub(crate) streams: u32,
}

/// The data phase of one pull.
pub(crate) struct Job<'a> {
    pub(crate) client: &'a Client,
    pub(crate) source: &'a Resource,
    pub(crate) store: &'a Store,
    pub(crate) order: &'a Order,
    pub(crate) progress: &'a Progress,
    pub(crate) upload: &'a Arc<dyn Upload>,
}

impl Job<'_> {
    async fn fetch(&self, facts: Option<&Facts>) -> Result<Fetched> {
        self.progress.enter(Phase::Transfer);
        let size = facts.and_then(|facts| facts.size_bytes);
        let streams = stream_count(self.order.streams, size, facts.and_then(|facts| facts.accepts_ranges));
        match (facts, size) {
            (Some(facts), Some(size)) if streams > 1 => receive_ranges(self, facts, size, streams).await,
            _ => self.fetch_in_order(facts, size).await,
        }
    }

    /// One connection after another until everything has come.
    async fn fetch_in_order(&self, facts: Option<&Facts>, size: Option<u64>) -> Result<Fetched> {
        let mut validator = facts.and_then(Facts::validator);
        let mut received = self.take_up(validator.as_ref(), size).await?;
        let mut patience = Patience::new(self.order.attempts);
        let mut told = Vec::new();
        loop {
            let before = received.bytes();
            let attempt = self.attempt(&mut received, size, &mut validator, &mut told).await;
            let Err(error) = attempt else { break };
            if !error.retry() || error.side() != Side::Source {
                return Err(error);
            }
            patience.wait(error, received.bytes() > before).await?;
            self.progress.count_attempt();
            if validator.is_none() || size.is_none() {
                // Nothing tells whether the rest would belong to the same file.
                received.start_over(Hasher::new(&computed(self.order)));
                self.progress.set_moved(0);
            }
        }
        let bytes = received.bytes();
        if let Some(size) = size.filter(|size| *size != bytes) {
            let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Transfer);
            return Err(error.with_detail(format!("{bytes} bytes came, {size} were announced")));
        }
        Ok(Fetched {
            bytes,
            checksums: received.finish(),
            told,
            streams: 1,
        })
    }

    /// What an earlier transfer left of this very file is read back for its checksum, not fetched again.
    async fn take_up(&self, validator: Option<&Validator>, size: Option<u64>) -> Result<Received> {
        let hasher = Hasher::new(&computed(self.order));
        let (Some(validator), Some(size)) = (validator, size) else {
            return Ok(Received::new(self.store, self.upload.clone(), hasher));
        };
        let (mark, upload) = (format!("{size} {validator:?}"), self.upload.clone());
        let reread = move || {
            let held = upload.take_up(&mark).min(size);
            let mut hasher = hasher;
            if held > 0 {
                read_back(upload.reader()?.as_ref(), held, &mut hasher)?;
            }
            Ok((held, hasher))
        };
        let (held, hasher) = self.store.lane().run_blocking(reread).await.map_err(here)?;
        self.progress.set_moved(held);
        Ok(Received::continued(self.store, self.upload.clone(), hasher, held))
    }

    async fn attempt(
        &self,
        received: &mut Received,
        size: Option<u64>,
        validator: &mut Option<Validator>,
        told: &mut Vec<Checksum>,
    ) -> Result<()> {
        let from = received.bytes();
        if size == Some(from) && from > 0 {
            return Ok(());
        }
        let range = size.filter(|_| from > 0).map(|size| ByteRange::new(from, size));
        let options = GetOptions {
            range,
            validator: validator.clone().filter(|_| from > 0),
            wanted: Vec::new(),
        };
        let mut download: Download = self.client.get(self.source, &options).await?;
        check_size(&download, size, range)?;
        if validator.is_none() {
            *validator = download.facts().validator();
        }
        if size.is_none()
            && let Some(announced) = download.facts().size_bytes
        {
            self.progress.set_total(announced);
        }
        let _connected = self.progress.connected(download.peer_address());
        let mut limited = Limited {
            download: &mut download,
            order: self.order,
            bytes: from,
        };
        receive(&mut limited, received, self.progress).await.map_err(here)?;
        told.extend(download.facts().checksums.iter().cloned());
        Ok(())
    }
}

/// A source that does not tell its size, or lies about it, is stopped at the order's limit.
struct Limited<'a> {
    download: &'a mut Download,
    order: &'a Order,
    bytes: u64,
}

impl Payload for Limited<'_> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        let batch = self.download.next().await?;
        self.bytes += batch.as_ref().map_or(0, |batch| batch.len() as u64);
        self.order.check_size(self.bytes).map(|()| batch)
    }
}

fn read_back(reader: &dyn FileReader, held: u64, hasher: &mut Hasher) -> Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut offset = 0;
    while offset < held {
        let wanted = buffer.len().min(usize::try_from(held - offset).unwrap_or(usize::MAX));
        let mut slices = [std::io::IoSliceMut::new(&mut buffer[..wanted])];
        let read = reader.read_vectored_at(&mut slices, offset, storage::Patience::Wait);
        let failed = || Error::new(ErrorCode::StorageFailed, Side::Active, Phase::Open);
        match read.map_err(|cause| failed().with_private(cause))? {
            0 => return Err(failed().with_private("the part is shorter than it was")),
            count => {
                hasher.update(&buffer[..count]);
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// The whole file must be as long as the source said when it was asked.
fn check_size(download: &Download, size: Option<u64>, range: Option<ByteRange>) -> Result<()> {
    match (size, download.facts().size_bytes) {
        (Some(asked), Some(now)) if asked != now && range.is_none() => {
            let error = Error::new(ErrorCode::SourceChanged, Side::Source, Phase::Transfer);
            Err(error.with_detail(format!("it had {asked} bytes when asked and has {now} now")))
        }
        _ => Ok(()),
    }
}

/// Streams that make sense: at most one for each block, one where ranges are not offered.
fn stream_count(asked: u32, size: Option<u64>, ranges: Option<bool>) -> u32 {
    match (size, ranges) {
        (Some(size), None | Some(true)) => asked.clamp(
            1,
            u32::try_from(size.div_ceil(STREAM_BLOCK_BYTES))
                .unwrap_or(u32::MAX)
                .max(1),
        ),
        _ => 1,
    }
}

/// How often an interrupted transfer is taken up again: attempts without progress are counted, and
/// the pause between them doubles.
pub(crate) struct Patience {
    attempts_left: u32,
    attempts: u32,
    pause: Duration,
}

impl Patience {
    const FIRST_PAUSE: Duration = Duration::from_millis(200);
    const LONGEST_PAUSE: Duration = Duration::from_secs(10);

    pub(crate) fn new(attempts: u32) -> Self {
        Self {
            attempts_left: attempts.saturating_sub(1),
            attempts,
            pause: Self::FIRST_PAUSE,
        }
    }

    /// Pauses before the next attempt, or gives the error back when there is none left.
    pub(crate) async fn wait(&mut self, error: Error, progressed: bool) -> Result<()> {
        if progressed {
            *self = Self::new(self.attempts);
            self.attempts_left = self.attempts_left.max(1).min(self.attempts);
        }
        if self.attempts_left == 0 {
            return Err(error);
        }
        self.attempts_left -= 1;
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Self::LONGEST_PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_limited_by_blocks_and_by_the_source() {
        let block = STREAM_BLOCK_BYTES;
        assert_eq!(stream_count(4, Some(10 * block), Some(true)), 4);
        assert_eq!(stream_count(4, Some(block + 1), None), 2);
        assert_eq!(stream_count(4, Some(0), None), 1);
        assert_eq!(stream_count(4, Some(10 * block), Some(false)), 1);
        assert_eq!(stream_count(4, None, Some(true)), 1);
        assert_eq!(stream_count(0, Some(10 * block), Some(true)), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_without_progress_are_counted_and_progress_gives_new_ones() {
        let error = || Error::new(ErrorCode::PeerClosed, Side::Source, Phase::Transfer);
        let mut patience = Patience::new(3);
        assert!(patience.wait(error(), false).await.is_ok());
        assert!(patience.wait(error(), false).await.is_ok());
        assert!(patience.wait(error(), true).await.is_ok());
        assert!(patience.wait(error(), false).await.is_ok());
        assert!(patience.wait(error(), false).await.is_err());
    }
}
