//! One engine for every copy: a source is copied into a sink.
//!
//! [`copy`] asks the source, asks the sink, moves the data, compares the checksums of both sides, gives the file its name and
//! cleans up after a failure. What it may do depends on what source and sink say of themselves: several streams and resumption
//! where the sink takes data in any order, files that the kernel sends where the source lies on this machine.

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
pub use sink::{BeginOptions, Begun, PartFile, Sink, SinkAbilities, SinkFacts, UploadStream};
pub use source::{Incoming, Source, SourceAbilities, SourceFacts};
pub use store_sink::StoreSink;
pub use store_source::StoreSource;

/// Copies `source` to `sink`.
///
/// The source is asked first; nothing is written when it is missing or refuses. Then the sink reserves space, and the data
/// moves: where the sink takes it in any order, over several streams if these help, and a broken connection goes on where it
/// stopped while the source's validator is unchanged. The checksums of both sides are compared. What a failed copy left at a
/// peer is removed if there was no such file before. Dropping the future ends the copy.
///
/// # Errors
/// With the side and phase at which it failed.
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
        // What was begun belongs to a file that is no more; the new one deserves one fresh start.
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

/// What the two sides said before the data moved.
struct Asked {
    /// What the source says; `None` when it was not asked, or refused.
    facts: Option<SourceFacts>,
    /// Its refusal to say, although it may still be readable.
    refusal: Option<Error>,
    /// Whether it was asked for its checksum.
    with_checksum: bool,
    /// How long it took to answer.
    took: Duration,
    /// Whether the sink had a file of this name.
    existed: Option<bool>,
}

impl Asked {
    fn source_checksums(&self) -> &[Checksum] {
        self.facts.as_ref().map_or(&[], |facts| &facts.checksums)
    }
}

/// Data that has reached the sink.
struct Moved {
    bytes: u64,
    streams: u32,
    /// Checksums that were computed here.
    computed: Vec<Checksum>,
    /// Checksums of the data: computed, or kept with a source on this machine.
    ours: Vec<Checksum>,
    /// What was compared with the source.
    verified: Verified,
    /// What the sink said when it had stored the file.
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

    /// A sink that takes data in order may have stored some of it already.
    fn may_begin_again(&self) -> bool {
        self.sink.abilities().any_order || self.progress.moved_bytes() == 0
    }

    /// Whether the source's checksum is declared to the sink before the data moves.
    fn declares(&self) -> bool {
        let abilities = self.sink.abilities();
        abilities.is_remote && !abilities.any_order
    }

    /// The source's checksums when they were not asked for before the data; none when it tells none.
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

    /// Asks both sides what stands there.
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
        })
    }

    async fn ask_source(&self, with_checksum: bool) -> Result<(Option<SourceFacts>, Option<Error>)> {
        if !self.order.ask_first && self.source.local().is_none() {
            return Ok((None, None));
        }
        // Some sources compute their checksum when asked. Where it can be asked for while the data moves, it is.
        let algorithms = if with_checksum { wanted(self.order) } else { Vec::new() };
        match self.source.ask(&algorithms).await {
            Ok(facts) => Ok((Some(facts), None)),
            Err(error) if self.may_go_on_unasked() && self.source.may_be_read_after(&error) => Ok((None, Some(error))),
            Err(error) => Err(error),
        }
    }

    /// Whether the data may be read without a word about the file: unless its checksum is needed, and does not come with it.
    fn may_go_on_unasked(&self) -> bool {
        let needs_checksum = self.order.verification == Verification::Required && self.order.expected.is_none();
        !needs_checksum || !self.sink.abilities().any_order
    }

    /// Whether the source has what is expected, as far as it says.
    fn check_announced(&self, checksums: &[Checksum]) -> Result<()> {
        match self.source.local() {
            None => check_announced(self.order, checksums),
            // What is not kept is computed.
            Some(_) => {
                let order = Order {
                    verification: Verification::WhenAvailable,
                    ..self.order.clone()
                };
                check_announced(&order, checksums)
            }
        }
    }

    /// What is declared to the sink with the data: the client's expectation, or what the source says.
    fn declared(&self, told: &[Checksum]) -> Vec<Checksum> {
        match &self.order.expected {
            Some(expected) => vec![expected.clone()],
            None => told.iter().take(1).cloned().collect(),
        }
    }

    /// Compares what a peer has stored.
    async fn verify_stored(&self, moved: &Moved) -> Result<Verified> {
        if self.source.local().is_some() && !moved.computed.is_empty() {
            let _ = self.source.keep_checksums(&moved.computed).await;
        }
        match self.sink.abilities().is_remote {
            true => self.confirm(moved).await,
            false => Ok(moved.verified.clone()),
        }
    }

    /// Removes what an upload left at a peer without hidden parts: only where nothing was before, something was sent, and the
    /// peer does not say that the name was taken meanwhile. Anything else could be somebody else's file.
    async fn clean_up(&self, asked: &Asked, error: &Error) {
        if asked.existed == Some(false) && self.progress.moved_bytes() > 0 && error.code() != ErrorCode::PeerExists {
            self.progress.enter(Phase::Cleanup);
            let _ = self.sink.remove().await;
        }
    }
}

/// Whether what is stored is known to be something else than what was sent.
fn is_wrong_there(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::ChecksumMismatch | ErrorCode::PeerSizeDiffers)
}
