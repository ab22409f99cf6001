//! Copies over several connections. Each fetches blocks by range and writes them at their offsets,
//! so no data waits in memory for its turn.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{CHOSEN_STREAMS_RTT_MIN, STREAM_BLOCK_BYTES};
use remote::{GetOptions, Opened, Validator};
use storage::{Hasher, RangeSums};
use tokio::sync::watch;
use tokio::task::JoinSet;
use types::{ByteRange, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Side};

use super::any_order::{DataPhase, Fetched, Span, check_size};
use super::source::{Incoming, Source, SourceFacts};
use crate::budget::{Budget, ExtraStream};
use crate::growth::{Change, Growth, Sample};
use crate::mover::write_part;
use crate::part_file::PartFile;
use crate::patience::Patience;
use crate::progress::Progress;
use crate::rest::{Rest, least_block_bytes};

/// The origin of the data of all streams.
pub(super) enum Origin {
    /// Each stream opens the file.
    Each(Arc<dyn Source>),
    /// Each stream is a further connection to an open file; the first is connected already.
    Bound(Opened),
}

impl Origin {
    /// Whether the stream with this number can begin.
    async fn admits(&self, number: u32) -> bool {
        match self {
            Self::Bound(opened) if number > 0 => opened.bind().await,
            _ => true,
        }
    }

    async fn read(&self, range: ByteRange, options: &GetOptions) -> Result<Box<dyn Incoming>> {
        match self {
            Self::Bound(opened) => Ok(Box::new(opened.get(range, options.is_compared).await?)),
            Self::Each(source) => source.read(options).await,
        }
    }
}

/// State that the streams of one transfer share.
struct Shared {
    origin: Origin,
    budget: Budget,
    part: Arc<dyn PartFile>,
    /// The length of the blocks in which the destination takes the file, if it does.
    block_bytes: Option<u64>,
    validator: Option<Validator>,
    size_bytes: u64,
    attempts: u32,
    /// The file will be compared with the source's checksum.
    is_compared: bool,
    /// The source has reported that checksum.
    is_told: Arc<AtomicBool>,
    is_far: bool,
    /// Streams may be added on a short line too.
    shares_processors: bool,
    rest: Mutex<Rest>,
    /// A stream found no block left.
    is_spent: watch::Sender<bool>,
    /// Checksums of finished blocks.
    sums: Mutex<RangeSums>,
    progress: Progress,
    /// The number of streams among which the rest is divided.
    sharers: AtomicU32,
    /// Streams with this number or a higher one take no more blocks.
    wanted: AtomicU32,
    /// The number of streams that brought nothing, for any reason.
    idle: AtomicU32,
    /// The source refused one of the streams.
    is_limited: AtomicBool,
    /// Shortest response time of the source, in microseconds; all bits set before the first answer.
    nearest_us: AtomicU64,
}

impl Shared {
    fn new(
        job: &DataPhase<'_>,
        origin: Origin,
        facts: &SourceFacts,
        rest: ByteRange,
        sums: RangeSums,
        span: Span,
    ) -> Arc<Self> {
        let divided = Rest::new(rest).in_blocks(job.block_bytes());
        // Each block costs an idle round trip, and an answer that ends early a connection: worth it
        // if the source is far.
        let is_far = job.asked_for >= CHOSEN_STREAMS_RTT_MIN;
        let rest_of_file = match origin {
            Origin::Each(_) if is_far => divided.undivided(),
            _ => divided,
        };
        Arc::new(Self {
            origin,
            budget: job.copy.budget.clone(),
            part: Arc::clone(job.part),
            block_bytes: job.block_bytes(),
            validator: facts.validator.clone(),
            size_bytes: rest.end,
            attempts: job.copy.order.attempts,
            is_compared: job.is_compared,
            is_told: match job.copy.order.expected {
                Some(_) => Arc::new(AtomicBool::new(true)),
                None => Arc::clone(&job.is_told),
            },
            is_far,
            shares_processors: job.shares_processors(facts),
            rest: Mutex::new(rest_of_file),
            is_spent: watch::Sender::new(false),
            sums: Mutex::new(sums),
            progress: job.copy.progress.clone(),
            sharers: AtomicU32::new(span.most),
            wanted: AtomicU32::new(span.most),
            idle: AtomicU32::new(0),
            is_limited: AtomicBool::new(false),
            nearest_us: AtomicU64::new(u64::MAX),
        })
    }

    fn sums(&self) -> MutexGuard<'_, RangeSums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a block from another version of the file would be detected.
    fn tells_versions_apart(&self) -> bool {
        self.validator.is_some() || self.is_compared || self.is_told.load(Ordering::Relaxed)
    }

    fn sample(&self) -> Sample {
        Sample {
            own: self.progress.moved_bytes(),
            all: self.budget.moved_bytes(),
        }
    }

    fn take_block(&self, is_added: bool, least_bytes: u64) -> ByteRange {
        let sharers = self.sharers.load(Ordering::Relaxed);
        let mut rest = self.rest();
        if is_added && rest.is_held() {
            return rest.claim(sharers, least_bytes);
        }
        let block = rest.take_block(sharers, least_bytes);
        if block.is_empty() {
            self.is_spent.send_replace(true);
        }
        block
    }

    /// Whether a block can be stored once more after its destination failed.
    fn may_send_again(&self, error: &Error) -> bool {
        self.block_bytes.is_some() && error.side() == Side::Destination && error.retry()
    }

    fn nearest(&self) -> Option<Duration> {
        let nearest_us = self.nearest_us.load(Ordering::Relaxed);
        (nearest_us != u64::MAX).then_some(Duration::from_micros(nearest_us))
    }

    fn answered_in(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.nearest_us.fetch_min(micros, Ordering::Relaxed);
    }
}

/// Fetches the whole file over several connections.
pub(super) async fn receive_ranges(
    job: &DataPhase<'_>,
    origin: Origin,
    facts: &SourceFacts,
    size: u64,
    span: Span,
) -> Result<Fetched> {
    let algorithms = job.algorithms(Some(facts));
    let combining: Vec<ChecksumAlgorithm> = algorithms
        .iter()
        .copied()
        .filter(|algorithm| algorithm.combines())
        .collect();
    let (held, seen) = job.resume(facts.validator.as_ref(), Some(size), &combining).await?;
    job.part.limit_resume(held);
    let mut sums = RangeSums::new(&combining);
    sums.add(0, seen);
    let shared = Shared::new(job, origin, facts, ByteRange::new(held, size), sums, span);
    let streams = run(&shared, span, job.copy.source.location()).await?;
    let sums = std::mem::replace(&mut *shared.sums(), RangeSums::new(&[]));
    let combined = sums.finish(size);
    // Checksums that cannot be combined need reading the file; all do if a range is missing.
    let rest: Vec<_> = algorithms
        .into_iter()
        .filter(|algorithm| combined.is_none() || !algorithm.combines())
        .collect();
    let mut checksums = combined.unwrap_or_default();
    if !rest.is_empty() {
        // The time for this depends on the file's size. It must not count as slowness of the
        // source.
        job.copy.progress.enter(Phase::Checksum);
        checksums.extend(job.part.reread(&rest).await?);
    }
    Ok(Fetched {
        bytes: size,
        checksums,
        told: Vec::new(),
        streams,
    })
}

/// Runs the streams until nothing is left. Returns the most that ran at the same time.
async fn run(shared: &Arc<Shared>, span: Span, source: Option<&Location>) -> Result<u32> {
    let budget = &shared.budget;
    let joined = budget.add_streams(usual(budget, source, span) - span.first);
    let mut streams = span.first + joined.len() as u32;
    if streams > 1 {
        shared.rest().divide();
    }
    let is_one_enough = |source| budget.history().is_one_enough(source, budget.running_copies());
    let most = match shared.is_far && source.is_some_and(is_one_enough) {
        true => streams,
        false => span.most,
    };
    let mut growth = Growth::new(budget, span.first, joined.len() as u32, most);
    let mut streams_most = streams;
    let mut workers = JoinSet::new();
    let ordered = (0..span.first).map(|_| None);
    for (number, extra) in (0..).zip(ordered.chain(joined.into_iter().map(Some))) {
        workers.spawn(work(shared.clone(), number, extra));
    }
    loop {
        tokio::select! {
            ended = workers.join_next() => {
                let Some(ended) = ended else {
                    if shared.rest().bytes() == 0 {
                        let served = streams_most - shared.idle.load(Ordering::Relaxed).min(streams_most - 1);
                        let is_limited = shared.is_limited.load(Ordering::Relaxed);
                        let settled = growth.settled().or(is_limited.then_some(served));
                        if let (Some(settled), Some(source)) = (settled, source) {
                            budget.history().settle(source, settled.min(served), budget.running_copies());
                        }
                        return Ok(served);
                    }
                    workers.spawn(work(shared.clone(), 0, None));
                    continue;
                };
                let broken = |cause| Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private(cause);
                if let Err(error) = ended.map_err(broken).and_then(|result| result) {
                    // No stream may write after this returns.
                    workers.shutdown().await;
                    return Err(error);
                }
            }
            () = growth.due() => {
                let (rest_bytes, near_max) = (shared.rest().shareable_bytes(), budget.near_streams_max(shared.shares_processors));
                match growth.look(shared.sample(), rest_bytes, shared.nearest(), near_max) {
                    Change::Add(added) => {
                        for extra in added {
                            workers.spawn(work(shared.clone(), streams, Some(extra)));
                            streams += 1;
                        }
                        streams_most = streams_most.max(streams);
                    }
                    Change::Return(count) => {
                        streams = count;
                        shared.wanted.store(count, Ordering::Relaxed);
                    }
                    Change::None => {}
                }
                if growth.is_done() {
                    shared.sharers.store(streams, Ordering::Relaxed);
                }
            }
        }
    }
}

/// The number of streams with which a copy begins: if it may choose, its share of the number on
/// which recent copies settled.
fn usual(budget: &Budget, source: Option<&Location>, span: Span) -> u32 {
    let usual = source.map_or(1, |source| budget.history().streams(source));
    budget.share_of(usual).clamp(span.first, span.most)
}

/// One stream: fetches blocks until none is left.
async fn work(shared: Arc<Shared>, number: u32, extra: Option<ExtraStream>) -> Result<()> {
    if !shared.origin.admits(number).await {
        shared.idle.fetch_add(1, Ordering::Relaxed);
        shared.is_limited.store(true, Ordering::Relaxed);
        return Ok(());
    }
    let mut has_brought = false;
    let mut least_bytes = STREAM_BLOCK_BYTES;
    while number < shared.wanted.load(Ordering::Relaxed) {
        let mut block = shared.take_block(extra.is_some(), least_bytes);
        if block.is_empty() {
            if extra.is_some() && !has_brought {
                shared.idle.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(());
        }
        let (start, begun) = (block.start, Instant::now());
        match extra {
            None => fetch_all(&shared, &mut block, shared.attempts).await?,
            Some(_) => fetch_some(&shared, &mut block).await?,
        }
        let received = block.start > start;
        has_brought |= received;
        if extra.is_some() && (!received || !block.is_empty()) {
            if !has_brought {
                shared.idle.fetch_add(1, Ordering::Relaxed);
                let came_too_late = block.is_empty() || *shared.is_spent.borrow();
                shared.is_limited.fetch_or(!came_too_late, Ordering::Relaxed);
            }
            shared.rest().take_back(block);
            return Ok(());
        }
        least_bytes = least_block_bytes(block.start - start, begun.elapsed(), shared.nearest());
    }
    Ok(())
}

/// Fetches a block, with retries.
async fn fetch_all(shared: &Shared, block: &mut ByteRange, attempts: u32) -> Result<()> {
    let whole = *block;
    let mut hasher = shared.sums().range_hasher();
    let (mut patience, mut lost) = (Patience::new(attempts), Patience::new(shared.attempts));
    while !block.is_empty() {
        let before = block.start;
        let fetched = async {
            let mut download = open(shared, *block).await?;
            match shared.block_bytes {
                None => take_in(shared, download, block, false).await,
                Some(_) => {
                    let connected = shared.progress.connected(download.ends(), None);
                    let answer = Answer::to(block, false);
                    while receive_piece(shared, &connected, download.as_mut(), block, answer, &mut hasher).await? {}
                    Ok(())
                }
            }
        };
        let Err(error) = fetched.await else { break };
        if shared.may_send_again(&error) {
            // A block that its destination lost is stored from its beginning.
            lost.wait(error, false).await?;
            give_back(shared, block, whole);
            hasher = shared.sums().range_hasher();
            continue;
        }
        // A source that has never sent a range will not do so on a retry.
        let has_no_ranges = error.code() == ErrorCode::PeerMisbehaved && shared.nearest().is_none();
        if has_no_ranges || !error.retry() || error.side() != Side::Source || !shared.tells_versions_apart() {
            return Err(error);
        }
        patience.wait(error, block.start > before).await?;
        // Its end may have been taken over meanwhile.
        shared.rest().receive(block, 0, false);
        if block.start > before {
            shared.progress.count_resumption();
        }
    }
    if shared.block_bytes.is_some() {
        shared.sums().add(whole.start, hasher);
    }
    Ok(())
}

/// Makes a block as if nothing of it had been stored.
fn give_back(shared: &Shared, block: &mut ByteRange, whole: ByteRange) {
    shared.part.discard_block(whole.start);
    shared.progress.take_back(block.start - whole.start);
    *block = whole;
}

/// Fetches a block without retries, for a stream that was added by choice. If the source has no
/// further connection for us, the transfer must go on over the other streams, without waiting for
/// this one.
async fn fetch_some(shared: &Shared, block: &mut ByteRange) -> Result<()> {
    if shared.block_bytes.is_some() {
        let whole = *block;
        return match fetch_all(shared, block, 1).await {
            // Another stream stores all of it.
            Err(error) if error.side() == Side::Source && error.code() != ErrorCode::SourceChanged => {
                give_back(shared, block, whole);
                Ok(())
            }
            done => done,
        };
    }
    let mut is_spent = shared.is_spent.subscribe();
    let fetched = async {
        let download = tokio::select! {
            biased;
            opened = open(shared, *block) => opened?,
            _ = is_spent.wait_for(|is_spent| *is_spent) => return Ok(()),
        };
        take_in(shared, download, block, true).await
    };
    match fetched.await {
        Err(error) if error.side() == Side::Source && error.code() != ErrorCode::SourceChanged => Ok(()),
        done => done,
    }
}

/// Requests a block, and waits for the answer.
async fn open(shared: &Shared, block: ByteRange) -> Result<Box<dyn Incoming>> {
    let options = GetOptions {
        range: Some(block),
        validator: shared.validator.clone(),
        is_asked: true,
        size_bytes: Some(shared.size_bytes),
        wanted: Vec::new(),
        is_compared: shared.is_compared,
    };
    let asked = Instant::now();
    let incoming = shared.origin.read(block, &options).await?;
    shared.answered_in(asked.elapsed());
    check_size(&incoming.facts(), Some(shared.size_bytes))?;
    Ok(incoming)
}

/// A request that is being answered.
#[derive(Clone, Copy)]
struct Answer {
    /// Where it ends. The block may end before, if added streams took over the rest.
    end: u64,
    /// The stream was added by choice.
    is_added: bool,
}

impl Answer {
    fn to(block: &ByteRange, is_added: bool) -> Self {
        Self {
            end: block.end,
            is_added,
        }
    }
}

/// Receives the rest of `block`. After an error, its start shows what is still missing.
async fn take_in(
    shared: &Shared,
    mut incoming: Box<dyn Incoming>,
    block: &mut ByteRange,
    is_added: bool,
) -> Result<()> {
    let connected = shared.progress.connected(incoming.ends(), None);
    let answer = Answer::to(block, is_added);
    loop {
        let start = block.start;
        let mut hasher = shared.sums().range_hasher();
        let received = receive_piece(shared, &connected, incoming.as_mut(), block, answer, &mut hasher).await;
        let front_bytes = {
            let mut sums = shared.sums();
            sums.add(start, hasher);
            sums.front_bytes()
        };
        shared.part.limit_resume(front_bytes);
        if !received? {
            return Ok(());
        }
    }
}

/// Receives and stores a piece of a block, after which what is there can be resumed. Returns
/// whether more comes.
async fn receive_piece(
    shared: &Shared,
    progress: &Progress,
    incoming: &mut dyn Incoming,
    block: &mut ByteRange,
    answer: Answer,
    hasher: &mut Hasher,
) -> Result<bool> {
    let piece_end = block.start + STREAM_BLOCK_BYTES;
    while let Some(mut batch) = incoming.next().await? {
        let length = shared.rest().receive(block, batch.len() as u64, answer.is_added);
        batch.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        for slice in batch.slices() {
            hasher.update(slice);
        }
        write_part(shared.part.as_ref(), batch, block.start).await?;
        block.take_front(length);
        progress.add_moved(length);
        if block.is_empty() && block.end < answer.end {
            return Ok(false);
        }
        if block.start >= piece_end {
            return Ok(true);
        }
    }
    Ok(false)
}
