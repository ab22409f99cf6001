//! Standard input and output as a source and a sink.

use std::future::ready;
use std::sync::{Mutex, PoisonError};

use net::{Batch, Buffer};
use remote::{GetOptions, Stored};
use storage::Answer;
use storage::local::fault;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use types::{ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::sink::{BeginOptions, Begun, Sink, SinkAbilities, UploadStream};
use super::source::{Incoming, Source, SourceAbilities, SourceFacts};
use crate::options::Order;
use crate::pipe::{broken, fill_slots};
use crate::progress::Progress;

/// Most bytes per read: the capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// An input or output that can be used once.
type Once<T> = Mutex<Option<T>>;

fn take<T>(end: &Once<T>, side: Side) -> Result<T> {
    let taken = end.lock().unwrap_or_else(PoisonError::into_inner).take();
    taken.ok_or_else(|| Error::new(ErrorCode::StorageFailed, side, Phase::Open).with_detail("it can be used only once"))
}

/// What errors call the input of a program.
pub const INPUT_NAME: &str = "standard input";

type Input = Box<dyn AsyncRead + Send + Unpin>;
type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// An input, read to its end.
pub struct InputSource(Once<Input>);

impl InputSource {
    /// Reads `input`, once.
    #[must_use]
    pub fn new(input: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(input))))
    }
}

impl Source for InputSource {
    fn abilities(&self) -> SourceAbilities {
        SourceAbilities {
            has_no_checksum: true,
            ..SourceAbilities::default()
        }
    }

    fn ask<'a>(&'a self, _wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SourceFacts> {
        Box::pin(ready(Ok(SourceFacts::default())))
    }

    fn read<'a>(&'a self, _options: &'a GetOptions) -> Answer<'a, Box<dyn Incoming>> {
        let input = take(&self.0, Side::Source);
        Box::pin(ready(input.map(|input| Box::new(Reading(input)) as Box<dyn Incoming>)))
    }
}

struct Reading(Input);

impl Incoming for Reading {
    fn next(&mut self) -> Answer<'_, Option<Batch>> {
        Box::pin(async {
            let mut buffer = Buffer::large();
            let slots = buffer.chunks_mut(READ_BYTES).map(std::io::IoSliceMut::new).collect();
            let filled = fill_slots(&mut self.0, slots).await;
            let filled = filled.map_err(|cause| broken(Side::Source, &cause).with_subject(INPUT_NAME))?;
            Ok((filled > 0).then(|| Batch::new(buffer, std::iter::once(0..filled))))
        })
    }
}

/// An output.
pub struct OutputSink(Once<Output>);

impl OutputSink {
    /// Writes to `output`, once.
    #[must_use]
    pub fn new(output: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(output))))
    }
}

impl Sink for OutputSink {
    fn abilities(&self) -> SinkAbilities {
        SinkAbilities::default()
    }

    fn existed<'a>(&'a self, _order: &'a Order) -> Answer<'a, Option<bool>> {
        Box::pin(ready(Ok(None)))
    }

    fn begin<'a>(&'a self, _options: &'a BeginOptions<'a>) -> Answer<'a, Begun> {
        let begun = take(&self.0, Side::Destination).map(|output| Writing {
            output,
            gathered: Vec::new(),
        });
        Box::pin(ready(begun.map(|writing| Begun::Stream(Box::new(writing)))))
    }
}

struct Writing {
    output: Output,
    gathered: Vec<u8>,
}

impl UploadStream for Writing {
    fn append<'a>(&'a mut self, batch: Batch, progress: &'a Progress) -> Answer<'a, ()> {
        Box::pin(async move {
            // One write for the whole batch: pages with checksums come in pieces of 4 KiB, and each
            // write to the output goes through another thread.
            self.gathered.clear();
            batch.append_to(&mut self.gathered);
            let written = self.output.write_all(&self.gathered).await;
            written.map_err(|cause| unwritten(&cause))?;
            progress.add_moved(batch.len() as u64);
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> Answer<'static, Stored> {
        Box::pin(async move {
            let flushed = self.output.flush().await;
            flushed.map_err(|cause| unwritten(&cause))?;
            Ok(Stored::default())
        })
    }
}

/// Output that cannot be written, such as to a full disk.
fn unwritten(cause: &std::io::Error) -> Error {
    fault(cause, Phase::Transfer, "standard output").at_side(Side::Destination)
}
