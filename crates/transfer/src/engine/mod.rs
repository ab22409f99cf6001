//! The engine of all copies, from a source into a sink.
//!
//! [`copy`] asks source and sink, moves the data, compares checksums, commits the file, and cleans
//! up after a failure. It uses the abilities that source and sink declare: several streams and
//! resuming if the sink takes data in any order, sending by the kernel if the source is a local
//! file.

mod any_order;
mod confirm;
mod in_order;
mod limited;
mod program;
pub(crate) mod remains;
mod remote_parts;
mod remote_sink;
mod remote_source;
mod sink;
mod source;
mod store_sink;
mod store_source;
mod streams;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use remote::Stored;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result};

use crate::budget::Budget;
use crate::limits::SEALED_TURN_BYTES;
use crate::options::{Order, Outcome, Verification, Verified};
use crate::progress::Progress;
use crate::verify::{check_announced, computed, wanted};
use remains::{FailedCopy, Remains, Writer};

pub use confirm::refuses_to_tell;
pub use program::{INPUT_NAME, InputSource, OutputSink};
pub use remote_sink::RemoteSink;
pub use remote_source::{RemoteSource, refusal_or};
pub use sink::{BeginOptions, Begun, Sink, SinkAbilities, SinkFacts, UploadStream};
pub use source::{Incoming, Source, SourceAbilities, SourceFacts};
pub use store_sink::StoreSink;
pub use store_source::StoreSource;

/// Copies `source` to `sink`.
///
/// The source is asked first; if it is missing or refuses, nothing is written. Then the sink
/// reserves space, and the data moves. If the sink takes data in any order, several streams may be
/// used, and a broken transfer resumes while the source's validator is unchanged. The checksums of
/// both sides are compared. What a failed copy left at a peer is removed if it is proven ours.
/// Dropping the future cancels the copy.
///
/// # Errors
/// The failure with its side and phase.
pub async fn copy(
    source: &Arc<dyn Source>,
    sink: &dyn Sink,
    order: &Order,
    budget: &Budget,
    progress: &Progress,
) -> Result<Outcome> {
    let copy = Copy {
        source,
        sink,
        order,
        budget,
        progress,
    };
    match Box::pin(copy.once()).await {
        // The part belongs to an old version of the file. Start once more with the new version.
        Err(error) if error.code() == ErrorCode::SourceChanged && copy.may_begin_again() => {
            progress.set_moved(0);
            Box::pin(copy.once()).await
        }
        done => done,
    }
}

/// One copy.
#[derive(Clone, Copy)]
struct Copy<'a> {
    source: &'a Arc<dyn Source>,
    sink: &'a dyn Sink,
    order: &'a Order,
    budget: &'a Budget,
    progress: &'a Progress,
}

/// The answers of both sides before the data moves.
struct Asked {
    /// The source's answer; `None` if it was not asked, or refused.
    facts: Option<SourceFacts>,
    /// Its refusal to answer. The data may still be readable.
    refusal: Option<Error>,
    /// Whether it was asked for its checksum.
    with_checksum: bool,
    /// The time until it answered.
    took: Duration,
    /// Whether the sink had a file of this name.
    existed: Option<bool>,
    /// The sink was asked to store the file and did not refuse, so the name may exist now.
    may_have_created: AtomicBool,
    /// An attempt before the last one has perhaps left something.
    has_left: AtomicBool,
    /// The bytes of the file that the sink has stored, and its answer.
    stored: OnceLock<(u64, Stored)>,
    /// The checksums in which the stored file was found to differ from what was sent.
    wrong: OnceLock<Vec<Checksum>>,
}

impl Asked {
    fn source_checksums(&self) -> &[Checksum] {
        self.facts.as_ref().map_or(&[], |facts| &facts.checksums)
    }

    /// Notes in which checksums of the stored file it differs from what was sent.
    fn note_wrong(&self, sent: &[Checksum], stored: &[Checksum]) {
        let differs = |sum: &&Checksum| {
            let same = sent.iter().find(|sent| sent.algorithm() == sum.algorithm());
            same.is_some_and(|sent| sent != *sum)
        };
        let _ = self.wrong.set(stored.iter().filter(differs).cloned().collect());
    }
}

/// The result of the data phase.
struct Moved {
    bytes: u64,
    streams: u32,
    /// Checksums that were computed here.
    computed: Vec<Checksum>,
    /// Checksums of the data: computed, or kept with a local source.
    ours: Vec<Checksum>,
    /// The result of the comparison with the source.
    verified: Verified,
    /// The sink's answer after it stored the file.
    stored: Stored,
}

impl Copy<'_> {
    async fn once(&self) -> Result<Outcome> {
        let asked = self.ask().await?;
        let moved = match self.sink.abilities().any_order || self.goes_in_parts(&asked) {
            true => self.move_in_any_order(&asked).await,
            false => self.move_in_order(&asked).await,
        };
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                let ended = Instant::now();
                return Err(match self.sink.abilities().leaves_remains {
                    true => self
                        .clean_up(&asked, &error, ended)
                        .await
                        .told(error, self.sink.location()),
                    false => error,
                });
            }
        };
        let stored_at = Instant::now();
        let _ = asked.stored.set((moved.bytes, moved.stored.clone()));
        let verified = match self.verify_stored(&asked, &moved).await {
            Ok(verified) => verified,
            Err(error) => {
                return Err(match is_wrong_there(&error) {
                    true => self
                        .clean_up(&asked, &error, stored_at)
                        .await
                        .told(error, self.sink.location()),
                    false => error,
                });
            }
        };
        Ok(Outcome {
            bytes: moved.bytes,
            replaced: asked.existed == Some(true),
            checksums: moved.ours,
            verified,
            resumed: self.progress.resumed(),
            streams: moved.streams,
            keeps_modified: moved.stored.keeps_modified,
        })
    }

    /// Whether the file is stored in parts: it is long enough, and its checksums can be put
    /// together from those of parts.
    fn goes_in_parts(&self, asked: &Asked) -> bool {
        let size = asked.facts.as_ref().and_then(|facts| facts.size_bytes);
        let is_long = self
            .sink
            .abilities()
            .stores_parts_above
            .is_some_and(|least| size > Some(least));
        is_long && self.order.rates.is_empty() && self.combines()
    }

    /// Whether the checksums of the file can be put together from those of blocks.
    fn combines(&self) -> bool {
        computed(self.order).into_iter().all(ChecksumAlgorithm::combines)
    }

    /// Not if the sink takes data in order: it may have stored some already. Nor if the source is
    /// an open file, which stays the version that it was.
    fn may_begin_again(&self) -> bool {
        let is_unstored = self.sink.abilities().any_order || self.progress.moved_bytes() == 0;
        is_unstored && self.source.local().is_none()
    }

    /// Whether the source's checksum is declared to the sink before the data moves.
    fn declares(&self) -> bool {
        let abilities = self.sink.abilities();
        abilities.is_remote && !abilities.any_order && self.believes_source()
    }

    /// Whether the source's checksums count. A source that reports wrong ones can be copied without
    /// them.
    fn believes_source(&self) -> bool {
        self.order.verification != Verification::Never
    }

    /// The source's checksums, if they were not requested before the data; empty if it reports
    /// none.
    async fn late_checksums(&self, asked: &Asked) -> Vec<Checksum> {
        let facts = asked.facts.as_ref();
        let is_known = facts.is_some_and(|facts| !facts.checksums.is_empty() || asked.with_checksum);
        if is_known || !self.believes_source() {
            return Vec::new();
        }
        let algorithms = wanted(self.order);
        let told = self.source.checksums(&algorithms, facts.is_some()).await;
        told.unwrap_or_default()
    }

    /// Asks both sides about the file.
    async fn ask(&self) -> Result<Asked> {
        self.progress.enter(Phase::Open);
        let began = Instant::now();
        let with_checksum = self.order.needs_checksum_first() || self.declares();
        let (facts, refusal) = self.ask_source(with_checksum).await?;
        let took = began.elapsed();
        let size = match &facts {
            Some(facts) => facts.size_bytes,
            None => self.order.announced_bytes,
        };
        if let Some(bytes) = size {
            self.progress.set_total(bytes);
            self.order.check_size(bytes)?;
        }
        if let Some(facts) = &facts {
            self.check_announced(&facts.checksums)?;
        }
        let existed = self.sink.existed(self.order).await?;
        self.progress.note_replaced(self.sink.replaced());
        Ok(Asked {
            facts,
            refusal,
            with_checksum,
            took,
            existed,
            may_have_created: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            stored: OnceLock::new(),
            wrong: OnceLock::new(),
        })
    }

    async fn ask_source(&self, with_checksum: bool) -> Result<(Option<SourceFacts>, Option<Error>)> {
        if !self.order.ask_first && self.source.local().is_none() {
            return Ok((None, None));
        }
        // Some sources compute a checksum on request. If possible, it is requested while data
        // moves.
        let algorithms = if with_checksum { wanted(self.order) } else { Vec::new() };
        match self.source.ask(&algorithms).await {
            Ok(facts) => Ok((Some(facts), None)),
            Err(error) if self.may_go_on_unasked() && self.source.may_be_read_after(&error) => Ok((None, Some(error))),
            Err(error) => Err(error),
        }
    }

    /// Whether the data may be read without an answer about the file. Not if its checksum is needed
    /// and does not come with the data.
    fn may_go_on_unasked(&self) -> bool {
        let needs_checksum = self.order.verification == Verification::Required && self.order.expected.is_none();
        !needs_checksum || !self.sink.abilities().any_order
    }

    /// Whether the checksums to compare are those that are computed here while the data moves: of a
    /// local file, and of an input.
    fn sums_come_from_here(&self) -> bool {
        self.source.local().is_some() || self.source.abilities().has_no_checksum
    }

    /// The order as it holds for the source: where only checksums that are computed here can be
    /// compared, the source need not report any.
    fn order_at_source(&self) -> Cow<'_, Order> {
        match self.order.verification {
            Verification::Required if self.sums_come_from_here() => Cow::Owned(Order {
                verification: Verification::WhenAvailable,
                ..self.order.clone()
            }),
            _ => Cow::Borrowed(self.order),
        }
    }

    /// Checks the source's checksums, if it reported any, against the expected one.
    fn check_announced(&self, checksums: &[Checksum]) -> Result<()> {
        check_announced(&self.order_at_source(), checksums)
    }

    /// The checksums to declare to the sink: the one that the client expects, or the first of the
    /// source, and its MD5, which object stores compare.
    fn declared(&self, told: &[Checksum]) -> Vec<Checksum> {
        match &self.order.expected {
            Some(expected) => vec![expected.clone()],
            None if !self.believes_source() => Vec::new(),
            None => {
                // One that only object stores know is declared if there is no other.
                let is_common = |checksum: &&Checksum| ChecksumAlgorithm::ALL.contains(&checksum.algorithm());
                let common = told.iter().find(is_common);
                let first = common.or(told.first());
                let md5 = told.iter().find(|sum| sum.algorithm() == ChecksumAlgorithm::Md5);
                let md5 = md5.filter(|md5| first != Some(md5));
                first.into_iter().chain(md5).cloned().collect()
            }
        }
    }

    /// Verifies the file that a peer stored.
    async fn verify_stored(&self, asked: &Asked, moved: &Moved) -> Result<Verified> {
        if !self.sink.abilities().any_order {
            // The last piece, or the data behind a limit, may be newer than the rest.
            self.source.check_unchanged().await?;
        }
        if self.source.local().is_some() && !moved.computed.is_empty() {
            let _ = self.source.keep_checksums(&moved.computed).await;
        }
        match self.sink.abilities().is_remote {
            true => self.confirm(asked, moved).await,
            false => Ok(moved.verified.clone()),
        }
    }

    /// Removes what the copy left at the sink, if it is proven ours: a part of the file, or all of
    /// it with wrong content. The copy ended at `ended`.
    async fn clean_up(&self, asked: &Asked, error: &Error, ended: Instant) -> Remains {
        let stored = asked.stored.get();
        let failed = FailedCopy {
            error,
            writer: Writer::Ourselves,
            is_refused: !asked.may_have_created.load(Ordering::Relaxed),
            has_left: asked.has_left.load(Ordering::Relaxed),
            created: self.progress.created(),
            replaced: self.progress.replaced(),
            begun: self.progress.begun(),
            ended,
            was_absent: asked.existed == Some(false),
            part_bytes_max: match stored {
                Some((bytes, _)) => Some(*bytes),
                None => self.part_bytes_max(),
            },
            is_longest_known: true,
            stored: stored.map(|(_, answer)| answer),
            wrong: match (asked.wrong.get(), stored) {
                (Some(found), _) => found,
                (None, Some((_, answer))) => &answer.sent,
                (None, None) => &[],
            },
        };
        self.progress.enter(Phase::Cleanup);
        remains::remove(self.sink, self.source, &failed).await
    }

    /// Most bytes of a part of the file: fewer than the whole file has, and no more than were sent.
    /// `None` for an empty file, which has no parts.
    fn part_bytes_max(&self) -> Option<u64> {
        let moved = self.progress.moved_bytes();
        let sent = moved + SEALED_TURN_BYTES;
        match self.progress.total_bytes() {
            Some(total) => Some(total.checked_sub(1)?.min(sent)),
            // All of it may have arrived.
            None if self.progress.phase() == Phase::Commit => moved.checked_sub(1),
            None => Some(sent),
        }
    }
}

/// Whether the stored file is known to differ from the data sent, or from every version of it.
fn is_wrong_there(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::ChecksumMismatch | ErrorCode::PeerSizeDiffers | ErrorCode::SourceChanged
    )
}
