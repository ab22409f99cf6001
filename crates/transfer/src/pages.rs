//! Sends a file as pages with checksums: reads it into the gaps between the checksums, computes
//! these while the data is in the cache, and sends everything with one call.

use net::Outgoing;
use storage::{ReadHandle, RoomPart};
use types::{ByteRange, Result};

use crate::mover::Drain;
use crate::progress::Progress;

/// A part of an answer of pages, for its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesPart {
    /// Offset of its data in the file.
    pub offset: u64,
    /// Size of its data in bytes; 0 at or after the end of the file.
    pub data_bytes: usize,
    /// Size of data and checksums in bytes.
    pub wire_bytes: usize,
    /// Whether it is the last part.
    pub is_last: bool,
}

/// Sends a range of a file as parts of pages with checksums. A part fits into one buffer, so it
/// stays in the processor's cache, and is sent with one call after the head that `head` makes for
/// it. The last part ends the range, or the file if that is shorter.
///
/// Data that the drain has queued is sent before the first part. After an error that is not the
/// drain's, the connection is between two parts.
///
/// # Errors
/// Those of the drain; `storage_failed` if the file cannot be read.
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

/// Reads `want` bytes at `offset` into the buffer; fewer only at the end of the file. A part that
/// ended within a page would misalign the next one.
async fn fill_whole(reader: &dyn ReadHandle, room: Outgoing, offset: u64, want: usize) -> Result<(Outgoing, usize)> {
    let range = ByteRange::new(offset, offset.saturating_add(want as u64));
    reader.read_parts(room, vec![RoomPart { at: 0, range }]).await
}
