//! Payload from and to the streams of a program: standard input and output, mostly.

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
        let filled = match outgoing.slots(room).first_mut() {
            Some(slot) => {
                let read = input.read(slot).await;
                let filled = read.map_err(|cause| broken(Side::Source, &cause))?;
                hasher.update(&slot[..filled]);
                filled
            }
            None => 0,
        };
        if filled == 0 {
            return Ok(total);
        }
        drain.send(outgoing, filled).await?;
        progress.add_moved(filled as u64);
        total += filled as u64;
    }
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
    while let Some(batch) = payload.next().await? {
        for slice in batch.slices() {
            hasher.update(slice);
            let written = output.write_all(slice).await;
            written.map_err(|cause| broken(Side::Destination, &cause))?;
        }
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
