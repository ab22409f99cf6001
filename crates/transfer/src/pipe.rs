//! Payload from the input of a program.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::pin::pin;
use std::task::Poll;

use storage::Hasher;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::mover::Drain;
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

/// Waits for input, then fills the slots with as much as there is. Returns how much it was; 0 is the end.
pub(crate) async fn fill_slots(
    input: &mut (impl AsyncRead + Unpin + Send),
    slots: Vec<IoSliceMut<'_>>,
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
        filled += count;
        if count < slot.len() {
            break;
        }
    }
    Ok(filled)
}

/// Trouble with a program's input or output.
pub(crate) fn broken(side: Side, cause: &io::Error) -> Error {
    Error::new(ErrorCode::StorageFailed, side, Phase::Transfer).with_private(cause)
}
