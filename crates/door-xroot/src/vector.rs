//! Reads of many ranges.

use std::sync::Arc;
use std::time::Instant;

use endpoint::Moved;
use storage::ReadHandle;
use transfer::{Pieces, Progress, serve_pieces};
use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::limits::{PART_BYTES, VECTOR_ITEM_BYTES};
use xroot_wire::request::{ReadVector, VectorItem};
use xroot_wire::response::ResponseHeader;
use xroot_wire::{ErrorNumber, FileHandle, Status, StreamId};

use crate::answer::fail;
use crate::connection::{Connection, Next};
use crate::failure::{Failure, Result};
use crate::send::ending;

/// Answers a read of many ranges. All are checked before the first byte is sent.
pub(crate) async fn read_vector(
    connection: &mut Connection,
    stream: StreamId,
    request: &ReadVector<'_>,
    began: Instant,
) -> types::Result<Next> {
    let pieces = match pieces(connection, stream, request).await {
        Ok(pieces) => pieces,
        Err(failure) => return Ok(fail(connection, stream, "read_vector", began, failure)),
    };
    let progress = Progress::new();
    let sent = serve_pieces(&pieces, &mut connection.frames.stream, &progress).await;
    let moved = progress.moved_bytes();
    connection.door.settings.site.report_moved(&Moved {
        method: "read_vector",
        bytes_in: 0,
        bytes_out: moved,
        took: began.elapsed(),
        ending: ending(&sent),
    });
    sent?;
    Ok(Next::Request)
}

/// The answer as pieces: heads and ranges, split into parts between two ranges.
async fn pieces(connection: &mut Connection, stream: StreamId, request: &ReadVector<'_>) -> Result<Pieces> {
    let items: Vec<VectorItem> = request.items().collect();
    let mut pieces = Pieces::default();
    // Ranges of one file usually follow each other, and each reader of a file that is being written
    // takes a descriptor.
    let mut latest: Option<(FileHandle, Arc<dyn ReadHandle>)> = None;
    let mut rest = items.as_slice();
    while !rest.is_empty() {
        let (count, part_bytes) = part_of(rest);
        let (part, behind) = rest.split_at(count);
        let status = if behind.is_empty() { Status::Ok } else { Status::Partial };
        let mut head = ResponseHeader::new(stream, status, part_bytes).encode().to_vec();
        let mut began_part = false;
        for item in part {
            head.extend_from_slice(&item.encode());
            let file = connection.files()?.file(item.handle)?;
            let reader = match &latest {
                Some((handle, reader)) if *handle == item.handle => reader.clone(),
                _ => file.reader().await?,
            };
            latest = Some((item.handle, reader.clone()));
            check(item, reader.as_ref())?;
            let range = types::ByteRange::new(item.offset, item.offset + u64::from(item.length));
            match began_part {
                false => pieces.add_message(&head, &reader, range),
                true => pieces.add(&head, &reader, range),
            }
            began_part = true;
            head.clear();
        }
        rest = behind;
    }
    for items in items.chunk_by(|one, next| one.handle == next.handle) {
        let bytes = items.iter().map(|item| u64::from(item.length)).sum();
        let file = connection.files()?.file(items[0].handle)?;
        file.traffic.read_vector(bytes, items.len() as u64);
    }
    Ok(pieces)
}

/// How many of these items go into one part (at least one), and the length of that part.
fn part_of(items: &[VectorItem]) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for item in items {
        let more = VECTOR_ITEM_BYTES + item.length as usize;
        if count > 0 && bytes + more > PART_BYTES {
            break;
        }
        count += 1;
        bytes += more;
    }
    (count, bytes)
}

/// A range must lie within its file.
fn check(item: &VectorItem, reader: &dyn ReadHandle) -> Result<()> {
    let end = item.offset.checked_add(u64::from(item.length));
    if end.is_some_and(|end| end <= reader.stat().size_bytes) {
        return Ok(());
    }
    let error = Error::new(ErrorCode::RangeUnsatisfiable, Side::Client, Phase::Transfer);
    Err(Failure::from(error).numbered(ErrorNumber::FILE_SYSTEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_between_two_ranges() {
        let item = |length| VectorItem {
            handle: xroot_wire::FileHandle::new(0),
            length,
            offset: 0,
        };
        let half = (PART_BYTES / 2) as u32;
        assert_eq!(part_of(&[item(half); 3]), (1, PART_BYTES / 2 + 16));
        assert_eq!(part_of(&[item(half - 16); 3]), (2, PART_BYTES));
        assert_eq!(part_of(&[item(3), item(0)]), (2, 35));
        let largest = xroot_wire::limits::READV_ITEM_BYTES_MAX as u32;
        assert_eq!(part_of(&[item(largest), item(1)]), (1, PART_BYTES));
    }
}
