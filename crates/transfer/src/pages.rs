//! Sending a file as pages with checksums: it is read into the gaps between the checksums, these are
//! computed while the data are in the cache, and all goes out with one call.

use net::Outgoing;
use storage::{ReadHandle, RoomPart};
use types::{ByteRange, Result};

use crate::mover::Drain;
use crate::progress::Progress;

/// One part of an answer of pages: what its head has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesPart {
    /// Where its data begin in the file.
    pub offset: u64,
    /// Data in it, in bytes; 0 at or behind the end of the file.
    pub data_bytes: usize,
    /// Data and checksums, in bytes.
    pub wire_bytes: usize,
    /// Whether it is the last part.
    pub is_last: bool,
}

/// Sends a range of a file as parts of pages with checksums. Each part fits into one buffer, so that it
/// stays in the processor's cache, and is sent with one call, the head that `head` makes for it in
/// front. The last part is the one that ends the range, or the file if that ends before.
///
/// What the drain has queued goes out in front of the first part. Whoever gets an error finds the
/// connection between two parts, unless the error is the drain's.
///
/// # Errors
/// Those of the drain; `storage_failed` when the file cannot be read.
pub async fn serve_pages<const HEAD_BYTES: usize>(
    reader: &dyn ReadHandle,
    range: ByteRange,
    drain: &mut impl Drain,
    mut head: impl FnMut(&PagesPart) -> [u8; HEAD_BYTES],
    progress: &Progress,
) -> Result<()> {
    reader.advise_sequential(range);
    let mut left = range;
    loop {
        let room = drain.outgoing().await?.paged(left.start, HEAD_BYTES);
        let want = room.capacity().min(usize::try_from(left.len()).unwrap_or(usize::MAX));
        let (mut room, filled) = fill_whole(reader, room, left.start, want).await?;
        let part = PagesPart {
            offset: left.start,
            data_bytes: filled,
            wire_bytes: xroot_wire::pages::encoded_bytes(left.start, filled),
            is_last: filled < want || filled as u64 == left.len(),
        };
        let length = room.close_pages(filled, &head(&part));
        drain.send(room, length).await?;
        progress.add_moved(filled as u64);
        left.take_front(filled as u64);
        if part.is_last {
            return Ok(());
        }
    }
}

/// Reads `want` bytes from `offset` on into the room, fewer only where the file ends: a part that ended
/// within a page would leave the next one out of step.
async fn fill_whole(reader: &dyn ReadHandle, room: Outgoing, offset: u64, want: usize) -> Result<(Outgoing, usize)> {
    let range = ByteRange::new(offset, offset.saturating_add(want as u64));
    reader.read_parts(room, vec![RoomPart { at: 0, range }]).await
}
