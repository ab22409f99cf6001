//! Payload from and to the streams of a program: standard input and output, mostly.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::pin::pin;
use std::task::Poll;

use storage::Hasher;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::mover::{Drain, Payload};
use crate::progress::Progress;

/// Sends all that `input` gives until its end, hashing it on the way. Returns how much it was.
///
/// # Errors
/// Those of the drain; `storage_failed` at the source when the input cannot be read.
pub async fn send_from(
    input: &mut (impl AsyncRead + Unpin + Send),
    drain: &mut impl Drain,
    hasher: &mut Hasher,
    progress: &Progress,
) -> Result<u64> {
    let mut total = 0;
    loop {
        let mut outgoing = drain.outgoing().await?;
        let room = outgoing.capacity();
        let filled = fill_from(input, outgoing.slots(room), hasher)
            .await
            .map_err(|cause| broken(Side::Source, &cause))?;
        if filled == 0 {
            return Ok(total);
        }
        drain.send(outgoing, filled).await?;
        progress.add_moved(filled as u64);
        total += filled as u64;
    }
}

/// Waits for input, then fills the slots with as much as there is. Returns how much it was; 0 is the end.
async fn fill_from(
    input: &mut (impl AsyncRead + Unpin + Send),
    slots: Vec<IoSliceMut<'_>>,
    hasher: &mut Hasher,
) -> io::Result<usize> {
    let mut filled = 0;
    for mut slot in slots {
        let mut reading = pin!(input.read(&mut slot));
        let read = poll_fn(|context| match reading.as_mut().poll(context) {
            // What has come is not kept back for what may take long to come.
            Poll::Pending if filled > 0 => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let Some(count) = read.await.transpose()? else { break };
        hasher.update(&slot[..count]);
        filled += count;
        if count < slot.len() {
            break;
        }
    }
    Ok(filled)
}

/// Writes payload to `output` until it ends, hashing it on the way. Returns how much it was.
///
/// # Errors
/// Those of the payload; `storage_failed` at the destination when the output cannot be written.
pub async fn write_to(
    payload: &mut impl Payload,
    output: &mut (impl AsyncWrite + Unpin + Send),
    hasher: &mut Hasher,
    progress: &Progress,
) -> Result<u64> {
    let mut total = 0;
    let mut gathered = Vec::new();
    while let Some(batch) = payload.next().await? {
        gathered.clear();
        for slice in batch.slices() {
            hasher.update(slice);
            gathered.extend_from_slice(slice);
        }
        // One write for all of it: pages with checksums come as pieces of 4 KiB, and each write to a
        // program's output takes a turn on another thread.
        let written = output.write_all(&gathered).await;
        written.map_err(|cause| broken(Side::Destination, &cause))?;
        progress.add_moved(batch.len() as u64);
        total += batch.len() as u64;
    }
    output
        .flush()
        .await
        .map_err(|cause| broken(Side::Destination, &cause))?;
    Ok(total)
}

fn broken(side: Side, cause: &std::io::Error) -> Error {
    Error::new(ErrorCode::StorageFailed, side, Phase::Transfer).with_private(cause)
}
