//! The data phase of a copy into a sink that takes data in any order: over several streams, or over
//! one connection after another until the file is complete.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::limits::{CHOSEN_STREAMS_BYTES_MIN, CHOSEN_STREAMS_RTT_MIN, EARLY_CHECKSUM_WAIT, STREAM_BLOCK_BYTES};
use remote::{GetOptions, Opened, Validator};
use storage::{Hasher, WriteOrder};
use tokio::task::yield_now;
use tokio::time::timeout;
use types::limits::STREAMS_MAX;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::in_order::merge;
use super::limited::{Limited, changed, differs};
use super::sink::{BeginOptions, Begun};
use super::source::{Incoming, SourceFacts};
use super::streams::{Origin, receive_ranges};
use super::{Asked, Copy, Moved, refusal_or};
use crate::mover::{Received, receive};
use crate::options::{Streams, Verification};
use crate::pace::keep_pace;
use crate::part_file::PartFile;
use crate::patience::Patience;
use crate::verify::{compare, computed, missing, wanted};

/// The result of the data phase.
pub(super) struct Fetched {
    pub(super) bytes: u64,
    pub(super) checksums: Vec<Checksum>,
    /// Checksums that the source reported with the data.
    pub(super) told: Vec<Checksum>,
    pub(super) streams: u32,
}

/// The data phase of one copy.
pub(super) struct DataPhase<'a> {
    pub(super) copy: Copy<'a>,
    pub(super) part: &'a Arc<dyn PartFile>,
    /// The source has answered before the data phase.
    is_asked: bool,
    /// The time until the source answered, which may include that of the connection.
    pub(super) asked_for: Duration,
    /// The source has reported its checksum, and it will be compared.
    pub(super) is_compared: bool,
    /// Set when the source reports its checksum while data moves.
    pub(super) is_told: Arc<AtomicBool>,
}

impl Copy<'_> {
    pub(super) async fn move_in_any_order(&self, asked: &Asked) -> Result<Moved> {
        let facts = asked.facts.as_ref();
        let part = self.begin_part(asked).await?;
        // Some sources compute a checksum on request, which takes as long as reading the file. So
        // it is requested while the data moves.
        let mut digests = pin!(self.late_checksums(asked));
        let early = self.early_digests(digests.as_mut()).await;
        let is_told = Arc::new(AtomicBool::new(false));
        let known = early.iter().flatten().count() + asked.source_checksums().len();
        let job = DataPhase {
            copy: *self,
            part: &part,
            is_asked: facts.is_some(),
            asked_for: asked.took,
            is_compared: self.order.verification != Verification::Never && known > 0,
            is_told: Arc::clone(&is_told),
        };
        let told = async {
            let told = match early {
                Some(told) => told,
                None => {
                    // The data come first, over the connection that is there already.
                    yield_now().await;
                    digests.await
                }
            };
            is_told.fetch_or(!told.is_empty(), Ordering::Relaxed);
            told
        };
        let (fetched, told) = tokio::join!(keep_pace(self.progress, Side::Source, job.fetch(facts)), told);
        let fetched = fetched.map_err(|error| refusal_or(asked.refusal.clone(), error))?;
        let mut theirs = asked.source_checksums().to_vec();
        theirs.extend(told);
        self.publish(&part, fetched, theirs).await
    }

    async fn begin_part(&self, asked: &Asked) -> Result<Arc<dyn PartFile>> {
        let begin = BeginOptions {
            order: self.order,
            size_bytes: match &asked.facts {
                Some(facts) => facts.size_bytes,
                None => self.order.announced_bytes,
            },
            declared: &self.declared(asked.source_checksums()),
            declares_behind: false,
            progress: self.progress,
            is_absent: asked.existed == Some(false),
            in_parts: self.order.rates.is_empty() && self.combines(),
        };
        self.progress.note_begun();
        match self.sink.begin(&begin).await? {
            Begun::Part(part) => Ok(part),
            Begun::Stream(_) => Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Open).with_private("no part")),
        }
    }

    /// The source's checksums if they come at once. `None` if they do not, or if it does not
    /// matter.
    async fn early_digests(&self, digests: Pin<&mut impl Future<Output = Vec<Checksum>>>) -> Option<Vec<Checksum>> {
        if !self.source.abilities().prefers_checksum_first || self.order.verification == Verification::Never {
            return None;
        }
        timeout(EARLY_CHECKSUM_WAIT, digests).await.ok()
    }

    /// Compares the data with the source's checksums, and commits the file.
    async fn publish(&self, part: &Arc<dyn PartFile>, fetched: Fetched, mut theirs: Vec<Checksum>) -> Result<Moved> {
        self.progress.enter(Phase::Checksum);
        theirs.extend(fetched.told);
        if self.order.verification == Verification::Never {
            theirs.clear();
        }
        let mut ours = fetched.checksums;
        // Needed only if all checksums of the source are of algorithms that were not computed so
        // far.
        let reread = missing(&ours, &theirs);
        if !reread.is_empty() && part.is_readable() {
            ours.extend(part.reread(&reread).await?);
        }
        let verified = compare(self.order, &ours, &theirs, Side::Source)?;
        self.source.check_unchanged().await?;
        self.progress.begin_to_store()?;
        let stored = part.commit(fetched.bytes, ours.clone()).await?;
        Ok(Moved {
            bytes: fetched.bytes,
            streams: fetched.streams,
            computed: ours.clone(),
            ours: merge(ours, &stored.sent),
            verified,
            stored,
        })
    }
}

impl DataPhase<'_> {
    /// Fetches the data into the part, over the requested number of connections if that makes
    /// sense.
    pub(super) async fn fetch(&self, facts: Option<&SourceFacts>) -> Result<Fetched> {
        self.copy.progress.enter(Phase::Transfer);
        self.copy.progress.count_in(self.copy.budget);
        let _running = self.copy.budget.begin_copy();
        if self.opens_once() {
            let opened = self.copy.source.open_once().await?;
            return self.fetch_opened(opened).await;
        }
        let size = facts.and_then(|facts| facts.size_bytes);
        let ranges = facts.and_then(|facts| facts.accepts_ranges);
        let near_max = self
            .copy
            .budget
            .near_streams_max(facts.is_some_and(|facts| self.shares_processors(facts)));
        let mut span = span(self.copy.order.streams, size, ranges, self.asked_for, near_max);
        if let (Some(size), Some(block_bytes)) = (size, self.block_bytes()) {
            let blocks = u32::try_from(size.div_ceil(block_bytes)).unwrap_or(u32::MAX);
            span.most = span.most.min(blocks.max(1));
            span.first = span.first.min(span.most);
        }
        // Otherwise a source that is replaced meanwhile would leave a mixture.
        let is_divisible = self.tells_versions_apart(facts.and_then(|facts| facts.validator.as_ref()));
        match (facts, size) {
            (Some(facts), Some(size))
                if is_divisible && (span.most > 1 || self.sends_blocks(facts)) && !self.front_to_back() =>
            {
                let origin = Origin::Each(Arc::clone(self.copy.source));
                match receive_ranges(self, origin, facts, size, span).await {
                    // The source turned out not to support ranges.
                    Err(error) if error.code() == ErrorCode::PeerMisbehaved => {
                        self.copy.progress.set_moved(0);
                        self.fetch_in_order(Some(facts), Some(size), None).await
                    }
                    done => done,
                }
            }
            _ => self.fetch_in_order(facts, size, None).await,
        }
    }

    /// Whether the file goes to its destination block by block, so that one that is lost there can
    /// be read and sent again.
    fn sends_blocks(&self, facts: &SourceFacts) -> bool {
        self.block_bytes().is_some() && facts.accepts_ranges != Some(false)
    }

    /// The length of the blocks in which the destination takes the file, if it does.
    pub(super) fn block_bytes(&self) -> Option<u64> {
        match self.part.order() {
            WriteOrder::Blocks(bytes) => Some(bytes),
            WriteOrder::Any | WriteOrder::FrontToBack => None,
        }
    }

    /// The algorithms to compute while the data moves, and one that only the source has, if it
    /// combines: the file need not be read again.
    pub(super) fn algorithms(&self, facts: Option<&SourceFacts>) -> Vec<ChecksumAlgorithm> {
        let mut algorithms = computed(self.copy.order);
        let told = facts.map_or(&[][..], |facts| &facts.checksums);
        let is_compared = told.iter().any(|told| algorithms.contains(&told.algorithm()));
        if self.copy.order.verification != Verification::Never && !is_compared {
            let combining = told
                .iter()
                .map(Checksum::algorithm)
                .find(|algorithm| algorithm.combines());
            algorithms.extend(combining);
        }
        algorithms
    }

    /// Whether the data has to come from front to back, for the destination or for a checksum that
    /// can be computed in no other way.
    fn front_to_back(&self) -> bool {
        let order = self.part.order();
        order == WriteOrder::FrontToBack || !self.part.is_readable() && !self.copy.combines()
    }

    /// Whether the destination takes bytes again that were sent before.
    fn takes_again(&self) -> bool {
        self.part.is_readable() || self.block_bytes().is_some()
    }

    /// Whether the source can be opened only once, but read over several connections.
    fn opens_once(&self) -> bool {
        let is_one = matches!(self.copy.order.streams, Streams::Fixed(0 | 1) | Streams::Chosen(0 | 1));
        let alone = is_one || self.front_to_back();
        !self.copy.order.ask_first && self.copy.order.attempts == 1 && self.copy.source.abilities().opens_once && !alone
    }

    /// Whether streams may be added by choice on a short line. Not in clear text, where the source
    /// has little work for a second processor. Not if two versions of the file could be mixed
    /// unnoticed. Not if the checksum cannot be combined from those of blocks: the file would be
    /// read again.
    pub(super) fn shares_processors(&self, facts: &SourceFacts) -> bool {
        self.copy.source.abilities().is_encrypted && facts.validator.is_some() && self.copy.combines()
    }

    /// Fetches the data of a file that is open already, over further connections if the source
    /// accepts them.
    async fn fetch_opened(&self, opened: Opened) -> Result<Fetched> {
        let facts = SourceFacts::from(opened.facts());
        let size = facts.size_bytes;
        if let Some(bytes) = size {
            self.copy.progress.set_total(bytes);
            self.copy.order.check_size(bytes)?;
        }
        // Between near servers a second stream serves to use a second processor. If all are busy,
        // it only costs.
        let crowded = self.copy.budget.processors_each() == 0;
        let distance_matters = match self.copy.order.streams {
            Streams::Chosen(_) => size >= Some(CHOSEN_STREAMS_BYTES_MIN),
            Streams::Fixed(_) => crowded && size > Some(STREAM_BLOCK_BYTES),
        };
        let distance = match distance_matters {
            true => opened.distance().await?,
            false => Duration::ZERO,
        };
        let near_max = self.copy.budget.near_streams_max(self.shares_processors(&facts));
        let span = span(self.copy.order.streams, size, facts.accepts_ranges, distance, near_max);
        let pays = span.most > 1 && (!crowded || distance >= CHOSEN_STREAMS_RTT_MIN);
        match size {
            Some(size) if pays && opened.bind().await => {
                let mut fetched = receive_ranges(self, Origin::Bound(opened.clone()), &facts, size, span).await?;
                fetched.told.extend(opened.checksum(&self.asked_at_end()).await);
                opened.close().await;
                Ok(fetched)
            }
            _ => {
                let begun = opened.read_alone(self.is_compared, self.asked_at_end()).await?;
                self.fetch_in_order(None, None, Some(Box::new(begun))).await
            }
        }
    }

    /// Checksums to request over the connection of the data: a rendezvous key allows it only there,
    /// and only while the file is open. A source that was not asked before may send them with the
    /// data.
    fn asked_at_end(&self) -> Vec<ChecksumAlgorithm> {
        let is_untold = self.copy.order.digests_from.is_some() || !self.is_asked;
        let needs = is_untold && self.copy.order.verification != Verification::Never;
        let is_told = self.is_compared || self.is_told.load(Ordering::Relaxed);
        match needs && !is_told {
            true => wanted(self.copy.order),
            false => Vec::new(),
        }
    }

    /// Fetches over one connection after another until the file is complete. The first may have
    /// `begun`.
    async fn fetch_in_order(
        &self,
        facts: Option<&SourceFacts>,
        size: Option<u64>,
        mut begun: Option<Box<dyn Incoming>>,
    ) -> Result<Fetched> {
        let mut validator = facts.and_then(|facts| facts.validator.clone());
        let (held, hasher) = self.resume(validator.as_ref(), size, &self.algorithms(facts)).await?;
        let mut received = Received::into_part(self.part, hasher, held);
        let mut patience = Patience::new(self.copy.order.attempts);
        let mut told = Vec::new();
        let mut has_ranges = true;
        let mut reason = None;
        loop {
            let before = received.bytes();
            let attempt = match begun.take() {
                Some(download) => {
                    self.take_in(download, &mut received, size, &mut validator, &mut told)
                        .await
                }
                None => self.attempt(&mut received, size, &mut validator, &mut told).await,
            };
            let Err(mut error) = attempt else { break };
            if before > 0 && received.bytes() == before && error.code() == ErrorCode::PeerMisbehaved {
                // It ignores ranges and sends the whole file. Report why the first connection
                // broke.
                has_ranges = false;
                error = reason.take().unwrap_or(error);
            }
            if !error.retry() || error.side() != Side::Source {
                return Err(error);
            }
            reason = Some(error.clone());
            let continues = has_ranges && size.is_some() && self.tells_versions_apart(validator.as_ref());
            patience.wait(error, continues && received.bytes() > before).await?;
            // The source may have reported its checksum meanwhile.
            let continues = has_ranges && size.is_some() && self.tells_versions_apart(validator.as_ref());
            if continues && received.bytes() > 0 {
                self.copy.progress.count_resumption();
            }
            if !continues && received.bytes() > 0 && !self.takes_again() {
                // What was sent on cannot be taken back.
                return Err(reason.unwrap_or_else(|| differs(0, received.bytes())));
            }
            if !continues {
                received.start_over(Hasher::new(&self.algorithms(facts)));
                self.copy.progress.set_moved(0);
            }
        }
        let bytes = received.bytes();
        if let Some(size) = size.filter(|size| *size != bytes) {
            return Err(differs(bytes, size));
        }
        Ok(Fetched {
            bytes,
            checksums: received.finish(),
            told,
            streams: 1,
        })
    }

    /// Whether it would be detected that the rest belongs to another version of the file: by a
    /// validator, or by the checksum of the file at the end.
    fn tells_versions_apart(&self, validator: Option<&Validator>) -> bool {
        let is_told = self.is_compared || self.is_told.load(Ordering::Relaxed);
        let compares = is_told && self.copy.order.verification != Verification::Never;
        validator.is_some() || compares || self.copy.order.expected.is_some()
    }

    /// Resumes the part that an earlier transfer left of this version of the file. The bytes are
    /// read for the checksums, not fetched again. Returns their number and the hasher.
    pub(super) async fn resume(
        &self,
        validator: Option<&Validator>,
        size: Option<u64>,
        algorithms: &[ChecksumAlgorithm],
    ) -> Result<(u64, Hasher)> {
        let mut hasher = Hasher::new(algorithms);
        let (Some(validator), Some(size)) = (validator, size) else {
            return Ok((0, hasher));
        };
        let held = self.part.resume(&format!("{size} {validator:?}")).await?.min(size);
        if held > 0 {
            // This must not count as slowness of the source.
            self.copy.progress.enter(Phase::Open);
            hasher = self.part.reread_front(held, hasher).await?;
            self.copy.progress.enter(Phase::Transfer);
            self.copy.progress.set_moved(held);
            self.copy.progress.count_resumption();
        }
        Ok((held, hasher))
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
            is_asked: self.is_asked,
            size_bytes: size,
            wanted: self.asked_at_end(),
            is_compared: self.is_compared,
        };
        let download = self.copy.source.read(&options).await?;
        self.take_in(download, received, size, validator, told).await
    }

    /// Receives the data of one connection.
    async fn take_in(
        &self,
        mut incoming: Box<dyn Incoming>,
        received: &mut Received,
        size: Option<u64>,
        validator: &mut Option<Validator>,
        told: &mut Vec<Checksum>,
    ) -> Result<()> {
        let facts = incoming.facts();
        check_size(&facts, size)?;
        if validator.is_none() {
            *validator = facts.validator;
        }
        if size.is_none()
            && let Some(announced) = facts.size_bytes
        {
            self.copy.progress.set_total(announced);
        }
        self.is_told.fetch_or(!facts.checksums.is_empty(), Ordering::Relaxed);
        told.extend(facts.checksums);
        let connected = self.copy.progress.connected(incoming.ends(), None);
        let mut limited = Limited {
            incoming: &mut incoming,
            order: self.copy.order,
            progress: self.copy.progress,
            bytes: received.bytes(),
            least_bytes: 0,
            most_bytes: size,
        };
        receive(&mut limited, received, &connected).await?;
        told.extend(incoming.facts().checksums);
        Ok(())
    }
}

/// The file must have the size that the source reported before, even if only a range is fetched:
/// not every source sends validators.
pub(super) fn check_size(facts: &SourceFacts, size: Option<u64>) -> Result<()> {
    match (size, facts.size_bytes) {
        (Some(asked), Some(now)) if asked != now => Err(changed(asked, now, Phase::Transfer)),
        _ => Ok(()),
    }
}

/// The number of streams of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// At the beginning, unless earlier transfers settled on more.
    pub(super) first: u32,
    /// The maximum.
    pub(super) most: u32,
}

/// The number of streams that makes sense: at most one per block, one without ranges, and no growth
/// for short files. From a near source at most `near_max`.
fn span(asked: Streams, size: Option<u64>, ranges: Option<bool>, asked_for: Duration, near_max: u32) -> Span {
    let (Some(size), None | Some(true)) = (size, ranges) else {
        return Span { first: 1, most: 1 };
    };
    let blocks = u32::try_from(size.div_ceil(STREAM_BLOCK_BYTES)).unwrap_or(u32::MAX);
    let most = |count: u32| count.min(STREAMS_MAX as u32).clamp(1, blocks.max(1));
    match asked {
        Streams::Fixed(count) => Span {
            first: most(count),
            most: most(count),
        },
        Streams::Chosen(max) if size >= CHOSEN_STREAMS_BYTES_MIN => Span {
            first: 1,
            most: match asked_for >= CHOSEN_STREAMS_RTT_MIN {
                true => most(max),
                false => most(max.min(near_max)),
            },
        },
        Streams::Chosen(_) => Span { first: 1, most: 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_millis(100);

    #[test]
    fn streams_are_limited_by_blocks_and_by_the_source() {
        let block = STREAM_BLOCK_BYTES;
        let fixed = |count, size, ranges| {
            let span = span(Streams::Fixed(count), size, ranges, Duration::ZERO, 1);
            assert_eq!(span.first, span.most);
            span.most
        };
        assert_eq!(fixed(4, Some(10 * block), Some(true)), 4);
        assert_eq!(fixed(4, Some(block + 1), None), 2);
        assert_eq!(fixed(4, Some(0), None), 1);
        assert_eq!(fixed(4, Some(10 * block), Some(false)), 1);
        assert_eq!(fixed(4, None, Some(true)), 1);
        assert_eq!(fixed(0, Some(10 * block), Some(true)), 1);
        assert_eq!(fixed(99, Some(1000 * block), Some(true)), STREAMS_MAX as u32);
    }

    #[test]
    fn a_choice_begins_with_one_and_is_made_for_long_files() {
        let chosen = |size, ranges, asked_for| span(Streams::Chosen(8), size, ranges, asked_for, 4);
        let alone = Span { first: 1, most: 1 };
        let long = Some(CHOSEN_STREAMS_BYTES_MIN * 2);
        assert_eq!(chosen(long, Some(true), FAR), Span { first: 1, most: 8 });
        let near = Duration::from_millis(1);
        assert_eq!(chosen(long, Some(true), near), Span { first: 1, most: 4 });
        for processors in [0, 1] {
            assert_eq!(span(Streams::Chosen(8), long, Some(true), near, processors), alone);
        }
        assert_eq!(chosen(long, Some(false), FAR), alone);
        assert_eq!(chosen(Some(CHOSEN_STREAMS_BYTES_MIN - 1), Some(true), FAR), alone);
        assert_eq!(chosen(None, Some(true), FAR), alone);
    }
}
