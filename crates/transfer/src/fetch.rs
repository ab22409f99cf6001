//! Fetching a file over one connection after another until all of it has come.

use net::Batch;
use remote::{Download, Facts, GetOptions, Validator};
use storage::{FileReader, Hasher};
use types::limits::{BUFFER_BYTES, STREAM_BLOCK_BYTES};
use types::{ByteRange, Checksum, Error, ErrorCode, Phase, Result, Side};

use crate::job::{Fetched, Job};
use crate::mover::{Payload, Received, receive};
use crate::options::Order;
use crate::patience::Patience;
use crate::streams::receive_ranges;
use crate::verify::{blame_store, computed};

impl Job<'_> {
    /// Brings the data into the part, over as many connections as were asked for and make sense.
    pub(crate) async fn fetch(&self, facts: Option<&Facts>) -> Result<Fetched> {
        self.progress.enter(Phase::Transfer);
        let size = facts.and_then(|facts| facts.size_bytes);
        let streams = stream_count(self.order.streams, size, facts.and_then(|facts| facts.accepts_ranges));
        match (facts, size) {
            (Some(facts), Some(size)) if streams > 1 => match receive_ranges(self, facts, size, streams).await {
                // A source that has no ranges, without having said so.
                Err(error) if error.code() == ErrorCode::PeerMisbehaved => {
                    self.progress.set_moved(0);
                    self.fetch_in_order(Some(facts), Some(size)).await
                }
                done => done,
            },
            _ => self.fetch_in_order(facts, size).await,
        }
    }

    /// One connection after another until everything has come.
    async fn fetch_in_order(&self, facts: Option<&Facts>, size: Option<u64>) -> Result<Fetched> {
        let mut validator = facts.and_then(Facts::validator);
        let mut received = self.take_up(validator.as_ref(), size).await?;
        let mut patience = Patience::new(self.order.attempts);
        let mut told = Vec::new();
        let mut has_ranges = true;
        let mut reason = None;
        loop {
            let before = received.bytes();
            let attempt = self.attempt(&mut received, size, &mut validator, &mut told).await;
            let Err(mut error) = attempt else { break };
            if before > 0 && received.bytes() == before && error.code() == ErrorCode::PeerMisbehaved {
                // It sends the whole file whatever part is asked for. What matters is why the
                // first connection broke.
                has_ranges = false;
                error = reason.take().unwrap_or(error);
            }
            if !error.retry() || error.side() != Side::Source {
                return Err(error);
            }
            reason = Some(error.clone());
            // Without these nothing tells whether the rest would belong to the same file.
            let continues = has_ranges && validator.is_some() && size.is_some();
            patience.wait(error, continues && received.bytes() > before).await?;
            self.progress.count_attempt();
            if !continues {
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
        let here = |error| blame_store(error, Side::Destination);
        let lane = self.store.lane();
        let held = lane
            .run(move || Ok(upload.take_up(&mark).min(size)))
            .await
            .map_err(here)?;
        if held == 0 {
            return Ok(Received::new(self.store, self.upload.clone(), hasher));
        }
        let upload = self.upload.clone();
        let reread = move || {
            let mut hasher = hasher;
            read_back(upload.reader()?.as_ref(), held, &mut hasher)?;
            Ok(hasher)
        };
        let hasher = lane.run_blocking(reread).await.map_err(here)?;
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
        check_size(&download, size)?;
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
        receive(&mut limited, received, self.progress)
            .await
            .map_err(|error| blame_store(error, Side::Destination))?;
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

/// The whole file must be as long as the source said when it was asked, also where only a part comes:
/// not every source knows validators.
pub(crate) fn check_size(download: &Download, size: Option<u64>) -> Result<()> {
    match (size, download.facts().size_bytes) {
        (Some(asked), Some(now)) if asked != now => {
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
}
