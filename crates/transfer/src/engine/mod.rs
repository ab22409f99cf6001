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
mod remote_sink;
mod remote_source;
mod sink;
mod source;
mod store_sink;
mod store_source;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use remote::Stored;
use types::{Checksum, Error, ErrorCode, Phase, Result};

use crate::budget::Budget;
use crate::options::{Order, Outcome, Verification, Verified};
use crate::progress::Progress;
use crate::verify::{check_announced, wanted};

pub use confirm::refuses_to_tell;
pub use program::{InputSource, OutputSink};
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
/// both sides are compared. Remains of a failed copy at a peer are removed if there was no such
/// file before. Dropping the future cancels the copy.
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
}

impl Asked {
    fn source_checksums(&self) -> &[Checksum] {
        self.facts.as_ref().map_or(&[], |facts| &facts.checksums)
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
        let moved = match self.sink.abilities().any_order {
            true => self.move_in_any_order(&asked).await,
            false => self.move_in_order(&asked).await,
        };
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                if self.sink.abilities().leaves_remains {
                    self.clean_up(&asked, &error).await;
                }
                return Err(error);
            }
        };
        let verified = match self.verify_stored(&moved).await {
            Ok(verified) => verified,
            Err(error) => {
                if is_wrong_there(&error) {
                    self.clean_up(&asked, &error).await;
                }
                return Err(error);
            }
        };
        Ok(Outcome {
            bytes: moved.bytes,
            replaced: asked.existed == Some(true),
            checksums: moved.ours,
            verified,
            resumed: self.progress.resumed(),
            streams: moved.streams,
        })
    }

    /// Not if the sink takes data in order: it may have stored some already.
    fn may_begin_again(&self) -> bool {
        self.sink.abilities().any_order || self.progress.moved_bytes() == 0
    }

    /// Whether the source's checksum is declared to the sink before the data moves.
    fn declares(&self) -> bool {
        let abilities = self.sink.abilities();
        abilities.is_remote && !abilities.any_order
    }

    /// The source's checksums, if they were not requested before the data; empty if it reports
    /// none.
    async fn late_checksums(&self, asked: &Asked) -> Vec<Checksum> {
        let facts = asked.facts.as_ref();
        let is_known = facts.is_some_and(|facts| !facts.checksums.is_empty() || asked.with_checksum);
        if is_known || self.order.verification == Verification::Never {
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
        Ok(Asked {
            facts,
            refusal,
            with_checksum,
            took,
            existed: self.sink.existed(self.order).await?,
            may_have_created: AtomicBool::new(false),
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

    /// Checks the source's checksums, if it reported any, against the expected one.
    fn check_announced(&self, checksums: &[Checksum]) -> Result<()> {
        match self.source.local() {
            None => check_announced(self.order, checksums),
            // A local source has no kept checksum: it is computed while the data moves.
            Some(_) => {
                let order = Order {
                    verification: Verification::WhenAvailable,
                    ..self.order.clone()
                };
                check_announced(&order, checksums)
            }
        }
    }

    /// The checksums to declare to the sink: the one that the client expects, or those of the
    /// source.
    fn declared(&self, told: &[Checksum]) -> Vec<Checksum> {
        match &self.order.expected {
            Some(expected) => vec![expected.clone()],
            None => told.iter().take(1).cloned().collect(),
        }
    }

    /// Verifies the file that a peer stored.
    async fn verify_stored(&self, moved: &Moved) -> Result<Verified> {
        if self.source.local().is_some() && !moved.computed.is_empty() {
            let _ = self.source.keep_checksums(&moved.computed).await;
        }
        match self.sink.abilities().is_remote {
            true => self.confirm(moved).await,
            false => Ok(moved.verified.clone()),
        }
    }

    /// Removes the remains of an upload at a peer that has no hidden parts. Only if there was no
    /// file before, and the peer does not report that the name was taken meanwhile. Otherwise it
    /// could be another client's file.
    async fn clean_up(&self, asked: &Asked, error: &Error) {
        if asked.existed != Some(false) || error.code() == ErrorCode::PeerExists {
            return;
        }
        self.progress.enter(Phase::Cleanup);
        match self.progress.moved_bytes() {
            0 => self.remove_empty(asked).await,
            _ => drop(self.sink.remove().await),
        }
    }

    /// Removes the empty file that a peer without hidden parts created before any data was sent.
    /// One that is not empty is another client's.
    async fn remove_empty(&self, asked: &Asked) {
        if asked.existed != Some(false) || !asked.may_have_created.load(Ordering::Relaxed) {
            return;
        }
        let found = self.sink.look(&[]).await;
        if found.is_ok_and(|facts| facts.size_bytes == Some(0)) {
            let _ = self.sink.remove().await;
        }
    }
}

/// Whether the stored file is known to differ from the data sent.
fn is_wrong_there(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::ChecksumMismatch | ErrorCode::PeerSizeDiffers)
}
