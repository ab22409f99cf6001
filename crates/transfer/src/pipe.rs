//! Payload from a program's input.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::pin::pin;
use std::task::Poll;

use storage::Hasher;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::mover::Drain;
use crate::progress::Progress;

/// Sends `input` to its end, and hashes it. Returns its size in bytes.
///
/// # Errors
/// Those of the drain; `storage_failed` at the source if the input cannot be read.
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
        let filled = fill_slots(input, outgoing.slots(room)).await;
        let filled = filled.map_err(|cause| broken(Side::Source, &cause))?;
        if filled == 0 {
            return Ok(total);
        }
        for slot in outgoing.slots(filled) {
            hasher.update(&slot);
        }
        drain.send(outgoing, filled).await?;
        progress.add_moved(filled as u64);
        total += filled as u64;
    }
}

/// Waits for input, then fills the slots with what is available. Returns the number of bytes; 0 at
/// the end.
pub(crate) async fn fill_slots(
    input: &mut (impl AsyncRead + Unpin + Send),
    slots: Vec<IoSliceMut<'_>>,
) -> io::Result<usize> {
    let mut filled = 0;
    for mut slot in slots {
        let mut reading = pin!(input.read(&mut slot));
        let read = poll_fn(|context| match reading.as_mut().poll(context) {
            // Data is not held back until more arrives.
            Poll::Pending if filled > 0 => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let Some(count) = read.await.transpose()? else { break };
        filled += count;
        if count < slot.len() {
            break;
        }
    }
    Ok(filled)
}

/// An error of a program's input or output.
pub(crate) fn broken(side: Side, cause: &io::Error) -> Error {
    Error::new(ErrorCode::StorageFailed, side, Phase::Transfer).with_private(cause)
}
