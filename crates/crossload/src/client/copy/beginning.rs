//! What an interrupted copy left at a server that writes files in place: the beginning of the file,
//! under its name. XRootD keeps it if it came over HTTP, or over its own protocol without
//! persistence at close.

use types::{ByteRange, Result, Side};

use super::super::piece_reader::PieceReader;
use super::super::place::Place;
use super::super::session::{ClientContext, Info};
use super::super::tree::Pair;
use crate::limits::BEGINNING_BYTES_MAX;

/// Whether a file at a server is shorter than its source and has the same bytes up to its end. Each
/// of its bytes is in the source, so that nothing is lost when the source replaces it.
///
/// Both sides are read for that. `false` if one cannot be read, or if the file is longer than
/// [`BEGINNING_BYTES_MAX`].
pub(super) async fn is_beginning(session: &ClientContext, pair: &Pair, there: &Info) -> bool {
    let (Some(whole_bytes), Some(there_bytes)) = (pair.info.size_bytes, there.size_bytes) else {
        return false;
    };
    let is_remote = matches!(pair.target, Place::Remote(_));
    if !is_remote || there_bytes >= whole_bytes || there_bytes > BEGINNING_BYTES_MAX {
        return false;
    }
    there_bytes == 0 || have_same_bytes(session, pair, there_bytes).await.unwrap_or(false)
}

/// Whether the destination has so many bytes, and the source begins with them.
async fn have_same_bytes(session: &ClientContext, pair: &Pair, count: u64) -> Result<bool> {
    let (mut source, mut copy) = tokio::try_join!(
        PieceReader::open(session, &pair.source, Side::Source),
        PieceReader::open(session, &pair.target, Side::Destination)
    )?;
    let mut is_same = copy.size_bytes() == count && source.size_bytes() > count;
    let mut rest = ByteRange::whole(count);
    while is_same && !rest.is_empty() {
        let range = rest.take_front(copy.step());
        let (ours, theirs) = tokio::try_join!(source.read(range), copy.read(range))?;
        is_same = ours == theirs;
    }
    source.close().await;
    copy.close().await;
    Ok(is_same)
}
