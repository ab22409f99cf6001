//! A pull over several connections at once: each fetches blocks of the file by range and writes
//! them where they belong, so nothing waits in memory to be put in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use remote::{Client, Download, Facts, GetOptions, Resource, Validator};
use storage::{Hasher, RangeSums, Upload};
use tokio::task::JoinSet;
use types::limits::{STREAM_BLOCK_BYTES, STREAMS_MAX};
use types::{ByteRange, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use crate::fetch::check_size;
use crate::job::{Fetched, Job};
use crate::mover::write;
use crate::patience::Patience;
use crate::progress::Progress;
use crate::store::Store;
use crate::verify::computed;

/// What the streams of one transfer share.
struct Shared {
    client: Client,
    source: Resource,
    store: Store,
    upload: Arc<dyn Upload>,
    validator: Option<Validator>,
    size_bytes: u64,
    attempts: u32,
    /// What no stream has taken yet.
    rest: Mutex<ByteRange>,
    /// Checksums of finished pieces.
    sums: Mutex<RangeSums>,
    progress: Progress,
}

impl Shared {
    fn sums(&self) -> MutexGuard<'_, RangeSums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fetches the whole file over `streams` connections.
pub(crate) async fn receive_ranges(job: &Job<'_>, facts: &Facts, size: u64, streams: u32) -> Result<Fetched> {
    let streams = streams.min(STREAMS_MAX as u32);
    let algorithms = computed(job.order);
    let combining: Vec<ChecksumAlgorithm> = algorithms
        .iter()
        .copied()
        .filter(|algorithm| algorithm.combines())
        .collect();
    let shared = Arc::new(Shared {
        client: job.client.clone(),
        source: job.source.clone(),
        store: job.store.clone(),
        upload: job.upload.clone(),
        validator: facts.validator(),
        size_bytes: size,
        attempts: job.order.attempts,
        rest: Mutex::new(ByteRange::whole(size)),
        sums: Mutex::new(RangeSums::new(&combining)),
        progress: job.progress.clone(),
    });
    let mut workers = JoinSet::new();
    for _ in 0..streams {
        workers.spawn(work(shared.clone()));
    }
    while let Some(ended) = workers.join_next().await {
        let broken = |cause| Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private(cause);
        if let Err(error) = ended.map_err(broken).and_then(|result| result) {
            // What comes after this must not meet a stream that is still writing.
            workers.shutdown().await;
            return Err(error);
        }
    }
    let sums = std::mem::replace(&mut *shared.sums(), RangeSums::new(&[]));
    let combined = sums.finish(size);
    // What does not combine is read again, as is all of it should a range have been lost.
    let rest: Vec<_> = algorithms
        .into_iter()
        .filter(|algorithm| combined.is_none() || !algorithm.combines())
        .collect();
    let mut checksums = combined.unwrap_or_default();
    if !rest.is_empty() {
        checksums.extend(job.store.reread(job.upload, &rest).await?);
    }
    Ok(Fetched {
        bytes: size,
        checksums,
        told: Vec::new(),
        streams,
    })
}

/// One stream: block after block until none is left.
async fn work(shared: Arc<Shared>) -> Result<()> {
    loop {
        let mut block = shared
            .rest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take_front(STREAM_BLOCK_BYTES);
        if block.is_empty() {
            return Ok(());
        }
        let mut patience = Patience::new(shared.attempts);
        while !block.is_empty() {
            let before = block.start;
            let Err(error) = fetch_block(&shared, &mut block).await else {
                break;
            };
            if !error.retry() || error.side() != Side::Source || shared.validator.is_none() {
                return Err(error);
            }
            patience.wait(error, block.start > before).await?;
            shared.progress.count_attempt();
        }
    }
}

/// Fetches what is left of `block`; after an error its start tells how far it came.
async fn fetch_block(shared: &Shared, block: &mut ByteRange) -> Result<()> {
    let options = GetOptions {
        range: Some(*block),
        validator: shared.validator.clone(),
        wanted: Vec::new(),
    };
    let mut download = shared.client.get(&shared.source, &options).await?;
    check_size(&download, Some(shared.size_bytes))?;
    let _connected = shared.progress.connected(download.peer_address());
    let start = block.start;
    let mut hasher = shared.sums().range_hasher();
    let received = receive_block(shared, &mut download, block, &mut hasher).await;
    shared.sums().add(start, hasher);
    received
}

async fn receive_block(
    shared: &Shared,
    download: &mut Download,
    block: &mut ByteRange,
    hasher: &mut Hasher,
) -> Result<()> {
    while let Some(batch) = download.next().await? {
        let length = batch.len() as u64;
        for slice in batch.slices() {
            hasher.update(slice);
        }
        write(&shared.store, &shared.upload, batch, block.start).await?;
        block.take_front(length);
        shared.progress.add_moved(length);
    }
    Ok(())
}
