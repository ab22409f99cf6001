//! The data phase of a copy into a sink that takes data in order.

use std::sync::atomic::Ordering;
use std::time::Instant;

use remote::{GetOptions, Outlet, Stored};
use storage::{Answer, Hasher, ReadHandle};
use types::error::REPLACED_IS_LOST;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, PeerStatus, Phase, Result, Side};

use super::limited::{Limited, changed};
use super::remains::Remains;
use super::remote_source::refusal_or;
use super::sink::{BeginOptions, Begun, UploadStream};
use super::source::Incoming;
use super::store_source::Reading;
use super::{Asked, Copy, Moved};
use crate::limits::LAST_PIECE_BYTES;
use crate::mover::{Payload, relay, serve};
use crate::options::{Uncompared, Verification, Verified};
use crate::pace::keep_pace;
use crate::patience::Patience;
use crate::progress::Progress;
use crate::verify::{blame_store, compare, computed, wanted};

/// What one attempt sent to the sink, and what the source reported.
struct Sent {
    moved: Moved,
    theirs: Vec<Checksum>,
}

impl Copy<'_> {
    pub(super) async fn move_in_order(&self, asked: &Asked) -> Result<Moved> {
        // Between two peers it is unknown which is slow. The source gets the blame.
        let side = match self.source.local() {
            Some(_) => Side::Destination,
            None => Side::Source,
        };
        let sending = keep_pace(self.progress, side, self.sending(asked));
        // After a failure, do not wait for a checksum that may take long.
        let late = async { Ok(self.late_checksums(asked).await) };
        let (Sent { mut moved, mut theirs }, late) = tokio::try_join!(sending, late)?;
        theirs.extend(late);
        if !self.believes_source() {
            theirs.clear();
        }
        if self.source.local().is_none() {
            moved.verified = compare(&self.order_at_source(), &moved.ours, &theirs, Side::Source)?;
        }
        Ok(moved)
    }

    /// Boxed: the future is large, because it holds the peer's answers, and has one type for all
    /// copies.
    fn sending<'a>(&'a self, asked: &'a Asked) -> Answer<'a, Sent> {
        Box::pin(self.send_all(asked))
    }

    /// Sends the file. Retries from the start while the sink has taken none of it.
    async fn send_all(&self, asked: &Asked) -> Result<Sent> {
        let mut patience = Patience::new(self.order.attempts);
        let mut is_absent = asked.existed == Some(false);
        loop {
            // Only for the first attempt: during a pause, another client may store the file.
            let error = match self.send(asked, std::mem::take(&mut is_absent)).await {
                Ok(sent) => return Ok(sent),
                Err(error) => error,
            };
            if !error.retry()
                || error.asks_to_wait()
                || error.side() != Side::Destination
                || self.progress.moved_bytes() > 0
            {
                return Err(error);
            }
            let ended = Instant::now();
            patience.wait(error.clone(), false).await?;
            // Otherwise the next attempt would take it for another client's file.
            let left = self.clean_up(asked, &error, ended).await;
            asked.has_left.store(left != Remains::Nothing, Ordering::Relaxed);
        }
    }

    async fn send(&self, asked: &Asked, is_absent: bool) -> Result<Sent> {
        let local = self.source.local();
        let mut incoming = match local {
            // Opened before the sink begins to store.
            None => Some(self.read(asked).await?),
            Some(_) => None,
        };
        let mut facts = asked.facts.clone().unwrap_or_default();
        let mut least_bytes = facts.size_bytes.unwrap_or(0);
        if let Some(incoming) = &incoming {
            let now = incoming.facts();
            if asked.facts.is_none() {
                self.check_announced(&now.checksums)?;
                facts = now;
            } else {
                check_same_size(least_bytes, now.size_bytes)?;
                // Announce only the size that comes with the data: some sources report 0 to a HEAD.
                facts.size_bytes = now.size_bytes;
            }
            least_bytes = facts.size_bytes.unwrap_or(least_bytes);
        }
        let declared = self.declared(&facts.checksums);
        let mut hasher = self.hasher(&declared, &facts.checksums, facts.size_bytes);
        let begin = BeginOptions {
            order: self.order,
            size_bytes: facts.size_bytes,
            declared: &declared,
            declares_behind: !declared.iter().any(is_compared) && hasher.is_some(),
            progress: self.progress,
            is_absent,
            in_parts: false,
        };
        self.progress.note_begun();
        let begun = self.sink.begin(&begin).await;
        let is_refused = begun.as_ref().is_err_and(|error| error.peer_status().is_some());
        asked.may_have_created.store(!is_refused, Ordering::Relaxed);
        let Begun::Stream(mut upload) = begun? else {
            return Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Open).with_private("no stream"));
        };
        self.progress.note_created(upload.created());
        self.progress.enter(Phase::Transfer);
        if let Some(bytes) = facts.size_bytes {
            self.progress.set_total(bytes);
        }
        let bytes = match local {
            Some(file) if self.order.rates.is_empty() => self.send_file(file, upload.as_mut(), hasher.as_mut()).await?,
            Some(file) => self.send_limited(file, upload.as_mut(), hasher.as_mut()).await?,
            None => {
                self.send_stream(incoming.as_mut(), upload.as_mut(), hasher.as_mut(), least_bytes)
                    .await?
            }
        };
        send_damaged_again(local, upload.outlet()).await?;
        let computed = hasher.map(Hasher::finish).unwrap_or_default();
        let kept = local.map(|_| facts.checksums.clone()).unwrap_or_default();
        let mut theirs = facts.checksums;
        theirs.extend(incoming.into_iter().flat_map(|incoming| incoming.facts().checksums));
        self.check_before_close(upload.as_mut(), &computed, &theirs).await?;
        let stored = self.close(asked, upload, &computed, &theirs).await?;
        let _ = asked.stored.set((bytes, stored.with_sent(&computed)));
        let moved = Moved {
            bytes,
            streams: 1,
            ours: merge(merge(kept, &computed), &stored.sent),
            computed,
            verified: Verified::SizeOnly(Uncompared::NotAsked),
            stored,
        };
        Ok(Sent { moved, theirs })
    }

    /// Ends the upload, and waits until the file is stored.
    async fn close(
        &self,
        asked: &Asked,
        mut upload: Box<dyn UploadStream>,
        computed: &[Checksum],
        theirs: &[Checksum],
    ) -> Result<Stored> {
        upload.declare(computed);
        self.progress.begin_to_store()?;
        let finished = upload.finish().await;
        if finished.as_ref().is_err_and(is_compared_first) {
            asked.may_have_created.store(false, Ordering::Relaxed);
        }
        finished.map_err(|error| self.refused_at_end(error, computed, theirs))
    }

    /// Why the destination refused what it got. It compares that with what the source declared, and
    /// we have read the same bytes: where they differ, the source is at fault.
    fn refused_at_end(&self, error: Error, computed: &[Checksum], declared: &[Checksum]) -> Error {
        if error.peer_status().is_none() || self.source.local().is_some() {
            return error;
        }
        self.source_differs(computed, declared).unwrap_or(error)
    }

    /// Checks the data and the source once more if the server keeps only what is closed.
    async fn check_before_close(
        &self,
        upload: &mut dyn UploadStream,
        computed: &[Checksum],
        theirs: &[Checksum],
    ) -> Result<()> {
        if !upload.created().is_some_and(|created| created.identity.is_unclosed) {
            return Ok(());
        }
        match self.source_differs(computed, theirs) {
            Some(differs) => Err(differs),
            None => self.source.check_unchanged().await,
        }
    }

    /// The mismatch, if the data that came does not have a checksum that the source declared, or
    /// that the order expects.
    fn source_differs(&self, computed: &[Checksum], declared: &[Checksum]) -> Option<Error> {
        let declared = if self.believes_source() { declared } else { &[] };
        let compared = compare(self.order, computed, declared, Side::Source);
        compared
            .err()
            .filter(|error| error.code() == ErrorCode::ChecksumMismatch)
    }

    async fn read(&self, asked: &Asked) -> Result<Box<dyn Incoming>> {
        let facts = asked.facts.as_ref();
        let options = GetOptions {
            is_asked: facts.is_some(),
            size_bytes: facts.and_then(|facts| facts.size_bytes),
            wanted: match facts {
                None if self.order.verification != Verification::Never => wanted(self.order),
                _ => Vec::new(),
            },
            ..GetOptions::default()
        };
        let incoming = self.source.read(&options).await;
        incoming.map_err(|error| refusal_or(asked.refusal.clone(), error))
    }

    /// A local file is hashed only if no checksum is kept, so that the kernel can send it.
    /// MD5 is computed where the sink will report it, and nothing else.
    fn hasher(&self, declared: &[Checksum], told: &[Checksum], size: Option<u64>) -> Option<Hasher> {
        let mut algorithms = computed(self.order);
        let abilities = self.sink.abilities();
        let is_in_one = size.is_some_and(|size| abilities.stores_parts_above.is_none_or(|most| size <= most));
        if abilities.reports_md5 && is_in_one && self.order.verification != Verification::Never {
            algorithms.push(ChecksumAlgorithm::Md5);
            return Some(Hasher::new(&with_told(algorithms, told)));
        }
        if self.source.local().is_some() {
            let is_needed = self.order.verification != Verification::Never && declared.is_empty();
            return is_needed.then(|| Hasher::new(&algorithms));
        }
        Some(Hasher::new(&with_told(algorithms, told)))
    }

    /// Sends a local file. A peer that has all of it may store it at once, so its last piece is
    /// sent only if the file is unchanged.
    async fn send_file(
        &self,
        file: &dyn ReadHandle,
        upload: &mut dyn UploadStream,
        mut hasher: Option<&mut Hasher>,
    ) -> Result<u64> {
        let connected = self.progress.connected(None, upload.ends());
        let size = file.stat().size_bytes;
        match upload.outlet() {
            Some(outlet) => {
                let front = size.saturating_sub(LAST_PIECE_BYTES);
                for range in [ByteRange::new(0, front), ByteRange::new(front, size)] {
                    let sent = serve(file, range, outlet, hasher.as_deref_mut(), &connected);
                    sent.await.map_err(|error| blame_store(error, Side::Source))?;
                    if range.end < size {
                        self.source.check_unchanged().await?;
                    }
                }
                Ok(size)
            }
            None => {
                let mut reading = Reading::new(file, ByteRange::whole(size));
                self.append_all(&mut reading, upload, hasher, &connected).await
            }
        }
    }

    /// Sends a local file within the order's rates, which the kernel cannot enforce; its last piece
    /// as [`Self::send_file`] does.
    async fn send_limited(
        &self,
        file: &dyn ReadHandle,
        upload: &mut dyn UploadStream,
        hasher: Option<&mut Hasher>,
    ) -> Result<u64> {
        let mut unasked = Hasher::new(&[]);
        let hasher = hasher.unwrap_or(&mut unasked);
        let size = file.stat().size_bytes;
        let front = size.saturating_sub(LAST_PIECE_BYTES);
        for range in [ByteRange::new(0, front), ByteRange::new(front, size)] {
            if range.is_empty() {
                continue;
            }
            let part = GetOptions {
                range: Some(range),
                ..GetOptions::default()
            };
            let mut reading = self.source.read(&part).await?;
            let sent = self.send_stream(Some(&mut reading), upload, Some(&mut *hasher), range.len());
            sent.await.map_err(|error| blame_store(error, Side::Source))?;
            if range.end < size {
                self.source.check_unchanged().await?;
            }
        }
        Ok(size)
    }

    async fn send_stream(
        &self,
        incoming: Option<&mut Box<dyn Incoming>>,
        upload: &mut dyn UploadStream,
        hasher: Option<&mut Hasher>,
        least_bytes: u64,
    ) -> Result<u64> {
        let (Some(incoming), Some(hasher)) = (incoming, hasher) else {
            return Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private("nothing to send"));
        };
        let connected = self.progress.connected(incoming.ends(), upload.ends());
        let mut limited = Limited {
            incoming,
            order: self.order,
            progress: self.progress,
            least_bytes,
            // Some sources report 0 for an unknown length.
            most_bytes: [Some(least_bytes), self.order.listed_bytes]
                .into_iter()
                .flatten()
                .find(|bytes| *bytes > 0),
            bytes: 0,
        };
        match upload.outlet() {
            Some(outlet) => relay(&mut limited, outlet, hasher, &connected).await,
            None => self.append_all(&mut limited, upload, Some(hasher), &connected).await,
        }
    }

    /// Passes batches to a sink that is not a peer's connection.
    async fn append_all(
        &self,
        incoming: &mut impl Payload,
        upload: &mut dyn UploadStream,
        mut hasher: Option<&mut Hasher>,
        progress: &Progress,
    ) -> Result<u64> {
        let mut total = 0;
        while let Some(batch) = incoming.next().await? {
            if let Some(hasher) = hasher.as_deref_mut() {
                batch.slices().for_each(|slice| hasher.update(slice));
            }
            total += batch.len() as u64;
            upload.append(batch, progress).await?;
        }
        Ok(total)
    }
}

/// Whether servers compare a checksum that is declared before the data: not those that only object
/// stores know.
fn is_compared(declared: &Checksum) -> bool {
    ChecksumAlgorithm::ALL.contains(&declared.algorithm())
}

/// Whether the server has compared the file before it gave it its name, so that the name is as it
/// was. Ours do, and say so where the server behind them does not.
fn is_compared_first(refusal: &Error) -> bool {
    let is_lost = || {
        refusal
            .peer_words()
            .is_some_and(|words| words.contains(REPLACED_IS_LOST))
    };
    refusal.code() == ErrorCode::ChecksumMismatch && refusal.peer_status() == Some(PeerStatus::Http(422)) && !is_lost()
}

/// The algorithms, and those of the source's checksums.
fn with_told(mut algorithms: Vec<ChecksumAlgorithm>, told: &[Checksum]) -> Vec<ChecksumAlgorithm> {
    algorithms.extend(told.iter().map(Checksum::algorithm));
    algorithms.sort_unstable();
    algorithms.dedup();
    algorithms
}

/// The data must be as long as the source reported before. Some report 0 for an unknown length.
fn check_same_size(asked: u64, now: Option<u64>) -> Result<()> {
    match now.filter(|now| *now != asked && asked > 0) {
        None => Ok(()),
        Some(now) => Err(changed(asked, now, Phase::Open)),
    }
}

pub(super) fn merge(mut known: Vec<Checksum>, more: &[Checksum]) -> Vec<Checksum> {
    for checksum in more {
        if known.iter().all(|known| known.algorithm() != checksum.algorithm()) {
            known.push(checksum.clone());
        }
    }
    known
}

/// Sends pages again that arrived damaged. Only a file on this machine can be read once more.
async fn send_damaged_again(file: Option<&dyn ReadHandle>, outlet: Option<&mut Outlet>) -> Result<()> {
    let (Some(file), Some(outlet)) = (file, outlet) else {
        return Ok(());
    };
    loop {
        let damaged = outlet.damaged().await?;
        if damaged.is_empty() {
            return Ok(());
        }
        for page in damaged {
            let (mut left, mut data) = (page, Vec::new());
            while !left.is_empty() {
                let batch = file
                    .read_batch(left)
                    .await
                    .map_err(|error| blame_store(error, Side::Source))?;
                if batch.is_empty() {
                    return Err(changed(page.end, left.start, Phase::Transfer));
                }
                left.take_front(batch.len() as u64);
                batch.append_to(&mut data);
            }
            outlet.send_again(page.start, &data).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use net::Outgoing;
    use remote::FileUpload;

    use super::*;

    /// A server that says once that a page was damaged.
    #[derive(Debug, Default)]
    struct Damaging(Vec<(u64, usize)>);

    impl FileUpload for Damaging {
        fn sent_bytes(&self) -> u64 {
            0
        }

        async fn outgoing(&mut self) -> Result<Outgoing> {
            unreachable!("all was sent")
        }

        async fn send(&mut self, _: Outgoing, _: usize) -> Result<()> {
            unreachable!("all was sent")
        }

        async fn damaged(&mut self) -> Result<Vec<ByteRange>> {
            let damaged = [ByteRange::new(4096, 8192), ByteRange::new(8192, 8200)];
            Ok(damaged.into_iter().skip(self.0.len()).collect())
        }

        async fn send_again(&mut self, offset: u64, page: &[u8]) -> Result<()> {
            // Each page has bytes of its own.
            assert!(page.iter().all(|byte| u64::from(*byte) == offset / 4096));
            self.0.push((offset, page.len()));
            Ok(())
        }

        async fn finish(self) -> Result<Stored> {
            assert_eq!(self.0, [(4096, 4096), (8192, 8)]);
            Ok(Stored::default())
        }
    }

    #[tokio::test]
    async fn pages_that_arrived_damaged_are_read_and_sent_again() {
        let content: Vec<u8> = (0..8200u32).map(|at| (at / 4096) as u8).collect();
        let file = crate::pieces::tests::reader_of(&content);
        let mut outlet = Outlet::new(Damaging::default());
        send_damaged_again(Some(file.as_ref()), Some(&mut outlet))
            .await
            .unwrap();
        outlet.finish().await.unwrap();
        // A file that has become shorter is not sent as if it were whole.
        let shorter = crate::pieces::tests::reader_of(&content[..5000]);
        let mut outlet = Outlet::new(Damaging::default());
        let refused = send_damaged_again(Some(shorter.as_ref()), Some(&mut outlet))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), ErrorCode::SourceChanged);
    }
}
