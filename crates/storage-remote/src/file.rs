//! A file of the server that is open for reading.
//!
//! A sequential reader takes its bytes from an open download, whose length adapts to the round trip
//! ([`Window`]): what is read ahead waits in the buffers of the connection and takes no memory
//! here. A reader that seeks gets exactly its range. All requests are for the same version of the
//! file: it is the same file even if its name is overwritten, or reading fails.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use net::buffer::LARGE_BYTES;
use net::{Batch, Outgoing};
use remote::{Download, Facts, GetOptions, Ranges, Resource, Validator};
use storage::{Answer, ReadHandle, RoomPart, Stat, place};
use tokio::time::timeout;
use types::{ByteRange, Error, ErrorCode, LogicalPath, Phase, Result};

use crate::fault::fault;
use crate::limits::{CLOSE_TIME, DOWNLOADS_KEPT_MAX, RANGE_READERS_KEPT_MAX, RESUMPTIONS_MAX, SKIPPED_BYTES_MAX};
use crate::minter::READ;
use crate::readable::Reading;
use crate::stat::stat;
use crate::upstream::Upstream;
use crate::window::Window;

/// An open file.
pub(crate) struct RemoteFile {
    upstream: Upstream,
    path: LogicalPath,
    stat: Stat,
    /// The entity tag with which it was found.
    etag: Option<String>,
    state: Mutex<State>,
}

/// What is open at the server, and not in use now.
#[derive(Default)]
struct State {
    window: Window,
    downloads: Vec<Running>,
    rangers: Vec<Ranges>,
    /// The version that the first answer was about.
    validator: Option<Validator>,
    /// How often a download broke and was resumed.
    resumed: u32,
    /// The server that has answered, if it is another one.
    redirected_to: Option<String>,
}

/// A download that has come to a position.
struct Running {
    download: Download,
    /// What came and was not taken; its first byte is at `at`.
    held: Batch,
    at: u64,
    end: u64,
    began: Instant,
    /// How long the first byte took.
    waited: Duration,
}

impl Running {
    /// Waits until something is held.
    async fn fill(&mut self) -> Result<()> {
        while self.held.is_empty() {
            match self.download.next().await? {
                Some(batch) => self.held = batch,
                None => return Err(self.download_ended()),
            }
        }
        Ok(())
    }

    fn download_ended(&self) -> Error {
        let location = &self.download.facts().location;
        fault(
            ErrorCode::PeerSizeDiffers,
            Phase::Transfer,
            location,
            "the file ended too early",
        )
    }

    /// Goes forward to a position within the download.
    async fn skip_to(&mut self, offset: u64) -> Result<()> {
        loop {
            self.fill().await?;
            let step = (offset - self.at).min(self.held.len() as u64);
            self.advance(step);
            if self.at == offset {
                return self.fill().await;
            }
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.held.advance(usize::try_from(bytes).unwrap_or(usize::MAX));
        self.at += bytes;
    }

    /// Takes the next `want` bytes at most.
    fn take(&mut self, want: u64) -> Batch {
        let batch = match usize::try_from(want) {
            Ok(want) if want < self.held.len() => front(&mut self.held, want),
            _ => std::mem::replace(&mut self.held, Batch::copied(&[])),
        };
        self.at += batch.len() as u64;
        batch
    }
}

/// Cuts the first `count` bytes off.
fn front(batch: &mut Batch, count: usize) -> Batch {
    let mut bytes = Vec::with_capacity(count);
    for slice in batch.slices() {
        let left = count - bytes.len();
        bytes.extend_from_slice(&slice[..slice.len().min(left)]);
    }
    batch.advance(count);
    Batch::copied(&bytes)
}

impl RemoteFile {
    /// A file that the server has just described.
    pub(crate) fn new(upstream: Upstream, path: &LogicalPath, entry: &remote::Entry) -> Self {
        Self {
            upstream,
            path: path.clone(),
            stat: stat(entry),
            etag: entry.etag.clone(),
            state: Mutex::default(),
        }
    }

    /// The file with a credential for reading it: a minted one is made for each request, since the
    /// file may be open for longer than one is valid.
    fn resource(&self) -> Resource {
        self.upstream.resource_for(&self.path, READ)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blame(&self, error: &Error) -> Error {
        self.upstream.blame(error, &self.path)
    }

    /// The download from which the byte at `range.start` comes next; it holds some. `None`: the
    /// reader seeks, and the protocol has a better way than a download for so little.
    async fn running(&self, range: ByteRange) -> Result<Option<Running>> {
        let kept = self.state().take_download(range.start);
        if let Some(mut running) = kept {
            match running.skip_to(range.start).await {
                Ok(()) => return Ok(Some(running)),
                // The server may have closed it while its reader paused.
                Err(error) if error.retry() && self.state().may_resume() => {}
                Err(error) => return Err(self.blame(&error)),
            }
        }
        let extent = self.state().window.extent(range, self.stat.size_bytes);
        let is_little = range.len() <= LARGE_BYTES as u64;
        if extent.is_none() && is_little && self.upstream.abilities().opens_once {
            return Ok(None);
        }
        let begun = self.download(extent.unwrap_or(range)).await;
        begun.map(Some).map_err(|error| self.blame(&error))
    }

    async fn download(&self, extent: ByteRange) -> Result<Running> {
        let options = GetOptions {
            range: (extent != ByteRange::whole(self.stat.size_bytes)).then_some(extent),
            validator: self.state().validator.clone(),
            is_asked: true,
            size_bytes: Some(self.stat.size_bytes),
            is_compared: !self.upstream.page_checksums,
            ..GetOptions::default()
        };
        self.upstream.counts().requests.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let download = self.upstream.client.get(&self.resource(), &options).await?;
        self.check_version(download.facts())?;
        let mut running = Running {
            download,
            held: Batch::copied(&[]),
            at: extent.start,
            end: extent.end,
            began,
            waited: Duration::ZERO,
        };
        running.fill().await?;
        running.waited = began.elapsed();
        Ok(running)
    }

    /// Whether an answer is about the file that was opened. The first one fixes the version for all
    /// others.
    fn check_version(&self, facts: &Facts) -> Result<()> {
        let other_size = facts.size_bytes.is_some_and(|size| size != self.stat.size_bytes);
        let is_other = |(then, now): (&String, &String)| then != now;
        let other_tag = self.etag.as_ref().zip(facts.etag.as_ref()).is_some_and(is_other);
        if other_size || other_tag {
            return Err(self.changed());
        }
        let mut state = self.state();
        if state.validator.is_none() {
            state.validator = facts.validator();
        }
        if !facts.location.same_origin(self.upstream.root()) {
            state.redirected_to = Some(facts.location.authority());
        }
        Ok(())
    }

    fn changed(&self) -> Error {
        let words = "the file was replaced while it was read";
        fault(ErrorCode::SourceChanged, Phase::Transfer, self.upstream.root(), words)
    }

    /// Puts a download back after its reader took `read` from it.
    fn put_back(&self, running: Running, read: ByteRange) {
        self.note_received(read.len());
        let mut state = self.state();
        state.window.note_read(read);
        if running.at < running.end {
            state.downloads.push(running);
            if state.downloads.len() > DOWNLOADS_KEPT_MAX {
                state.downloads.remove(0);
            }
            return;
        }
        state.window.note_window(running.waited, running.began.elapsed());
        drop(state);
        let mut download = running.download;
        // Hearing the end lets the next request use the connection.
        tokio::spawn(async move { timeout(CLOSE_TIME, download.next()).await.map(drop) });
    }

    fn note_received(&self, bytes: u64) {
        let counts = self.upstream.counts();
        counts.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What of a range is in the file.
    fn within(&self, range: ByteRange) -> ByteRange {
        ByteRange::new(range.start, range.end.min(self.stat.size_bytes).max(range.start))
    }

    async fn batch(&self, range: ByteRange) -> Result<Batch> {
        let range = self.within(range);
        if range.is_empty() {
            return Ok(Batch::copied(&[]));
        }
        let Some(mut running) = self.running(range).await? else {
            let content = self.ranges(&[range]).await?;
            self.state().window.note_read(range);
            return Ok(Batch::copied(content.first().map_or(&[], Vec::as_slice)));
        };
        let batch = running.take(range.len());
        let read = ByteRange::new(range.start, running.at);
        self.put_back(running, read);
        Ok(batch)
    }

    /// The content of ranges, which are together no longer than a buffer.
    async fn ranges(&self, ranges: &[ByteRange]) -> Result<Vec<Vec<u8>>> {
        let kept = self.state().rangers.pop();
        if let Some(mut kept) = kept {
            match kept.read(ranges).await {
                Ok(content) => return Ok(self.keep(kept, content)),
                Err(error) if error.retry() => {}
                Err(error) => return Err(self.blame(&error)),
            }
        }
        let read = async {
            let mut ranger = self.ranger().await?;
            let content = ranger.read(ranges).await?;
            Ok(self.keep(ranger, content))
        };
        read.await.map_err(|error| self.blame(&error))
    }

    async fn ranger(&self) -> Result<Ranges> {
        let ranger = self.upstream.client.open_ranges(&self.resource()).await?;
        self.check_version(ranger.facts())?;
        Ok(ranger)
    }

    /// Opens the file for ranges, if it is not open so.
    async fn open_ranger(&self) -> Result<()> {
        if self.state().rangers.is_empty() {
            let ranger = self.ranger().await.map_err(|error| self.blame(&error))?;
            self.state().rangers.push(ranger);
        }
        Ok(())
    }

    fn keep(&self, ranger: Ranges, content: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        self.note_received(content.iter().map(|piece| piece.len() as u64).sum());
        let mut state = self.state();
        if state.rangers.len() < RANGE_READERS_KEPT_MAX {
            state.rangers.push(ranger);
        }
        content
    }

    /// Reads one byte, which needs the right to read the file.
    async fn read_first_byte(&self) -> Result<()> {
        let first = ByteRange::new(0, 1);
        if self.upstream.abilities().opens_once {
            return self.ranges(&[first]).await.map(drop);
        }
        let begun = self.download(first).await;
        let mut download = begun.map_err(|error| self.blame(&error))?.download;
        self.note_received(first.len());
        tokio::spawn(async move { timeout(CLOSE_TIME, download.next()).await.map(drop) });
        Ok(())
    }

    async fn parts(&self, room: &mut Outgoing, parts: &[RoomPart]) -> Result<usize> {
        let ranges: Vec<ByteRange> = parts.iter().map(|part| self.within(part.range)).collect();
        let content = match ranges.as_slice() {
            [] | [_] => None,
            many => match self.ranges(many).await {
                Ok(content) => Some(content),
                // It takes one range a request.
                Err(error) if error.code() == ErrorCode::NotImplemented => None,
                Err(error) => return Err(error),
            },
        };
        let mut filled = 0;
        for (index, (part, range)) in parts.iter().zip(ranges).enumerate() {
            let (mut at, mut left) = (part.at, range);
            let mut content = content
                .as_ref()
                .and_then(|content| content.get(index))
                .map(Vec::as_slice);
            while !left.is_empty() {
                let batch = match &mut content {
                    None => self.batch(left).await?,
                    Some(bytes) => {
                        let (now, later) = bytes.split_at(bytes.len().min(LARGE_BYTES));
                        *bytes = later;
                        Batch::copied(now)
                    }
                };
                if batch.is_empty() {
                    return Ok(filled);
                }
                place(room, at, &batch);
                at += batch.len();
                filled += batch.len();
                left.take_front(batch.len() as u64);
            }
        }
        Ok(filled)
    }
}

impl State {
    /// Whether a download that broke is resumed once more.
    fn may_resume(&mut self) -> bool {
        self.resumed += 1;
        self.resumed <= RESUMPTIONS_MAX
    }

    /// A download that can go on at `offset`.
    fn take_download(&mut self, offset: u64) -> Option<Running> {
        let is_near = |running: &Running| {
            running.at <= offset && offset < running.end && offset - running.at <= SKIPPED_BYTES_MAX
        };
        let at = self.downloads.iter().position(is_near)?;
        Some(self.downloads.remove(at))
    }
}

impl ReadHandle for RemoteFile {
    fn stat(&self) -> &Stat {
        &self.stat
    }

    fn read_batch(&self, range: ByteRange) -> Answer<'_, Batch> {
        Box::pin(self.batch(range))
    }

    fn read_parts(&self, mut room: Outgoing, parts: Vec<RoomPart>) -> Answer<'_, (Outgoing, usize)> {
        Box::pin(async move {
            let filled = self.parts(&mut room, &parts).await?;
            Ok((room, filled))
        })
    }

    fn begin(&self, range: ByteRange) -> Answer<'_, ()> {
        Box::pin(async move {
            let range = self.within(range);
            self.state().window.announce(range);
            if range.is_empty() {
                return Ok(());
            }
            match self.running(range).await? {
                Some(running) => self.state().downloads.push(running),
                None => self.open_ranger().await?,
            }
            Ok(())
        })
    }

    fn check_readable(&self, age: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            let reading = Reading::new(self.upstream.shown(), &self.path, self.etag.as_deref(), &self.stat);
            let is_known = || self.upstream.readable.knows(&reading, age);
            if !self.upstream.is_clients() || self.stat.size_bytes == 0 || is_known() {
                return Ok(());
            }
            let asked_at = Instant::now();
            self.read_first_byte().await?;
            self.upstream.readable.note(&reading, asked_at);
            Ok(())
        })
    }

    fn check_unchanged(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let now = self.upstream.client.stat(&self.resource()).await;
            let now = now.map_err(|error| self.blame(&error))?;
            // Not every server tells the length here.
            let size_bytes = now.size_bytes.or(Some(self.stat.size_bytes));
            let now = stat(&remote::Entry { size_bytes, ..now });
            match now.same_content(&self.stat) {
                true => Ok(()),
                false => Err(self.changed().with_subject(&self.path)),
            }
        })
    }

    fn checks_locally(&self) -> bool {
        false
    }

    fn redirected_to(&self) -> Option<String> {
        self.state().redirected_to.clone()
    }

    fn advise_sequential(&self, range: ByteRange) {
        self.state().window.announce(range);
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        let rangers = std::mem::take(&mut self.state().rangers);
        // Outside of a runtime the connections are just closed.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        for ranger in rangers {
            runtime.spawn(async move { timeout(CLOSE_TIME, ranger.close()).await });
        }
    }
}
