//! What an interrupted copy left at a server that writes files in place: the beginning of the file,
//! under its name. XRootD keeps it if it came over HTTP, or over its own protocol without
//! persistence at close.

use transfer::{Progress, RateLimit};
use types::{ByteRange, Error, ErrorCode, Phase, Result, Side};

use super::super::piece_reader::PieceReader;
use super::super::place::Place;
use super::super::session::{ClientContext, Info};
use super::super::tree::Pair;
use crate::limits::BEGINNING_BYTES_MAX;

/// Whether a destination is the beginning of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Shorter, and the same bytes up to its end: nothing is lost when the source replaces it.
    Yes,
    /// Anything else, or what cannot be read.
    No,
    /// Shorter, and the same up to [`BEGINNING_BYTES_MAX`], where the comparison ends.
    Perhaps,
}

/// Whether a file at a server is the beginning of its source. Both sides are read for that, within
/// the rate limit of the copies.
///
/// # Errors
/// A failure to read that may pass; `source_changed` if the source was replaced during the
/// comparison.
pub(super) async fn compare(session: &ClientContext, pair: &Pair, there: &Info, rate: &RateLimit) -> Result<Beginning> {
    let (Some(whole_bytes), Some(there_bytes)) = (pair.info.size_bytes, there.size_bytes) else {
        return Ok(Beginning::No);
    };
    let is_remote = matches!(pair.target, Place::Remote(_));
    if !is_remote || there_bytes >= whole_bytes {
        return Ok(Beginning::No);
    }
    if there_bytes == 0 {
        return Ok(Beginning::Yes);
    }
    match have_same_bytes(session, pair, there_bytes, rate).await {
        Ok(false) => Ok(Beginning::No),
        Ok(true) if there_bytes > BEGINNING_BYTES_MAX => Ok(Beginning::Perhaps),
        Ok(true) => Ok(Beginning::Yes),
        Err(error) if is_kept_from_us(&error) => Ok(Beginning::No),
        Err(error) => Err(error),
    }
}

/// Whether one side cannot be read, now or later.
fn is_kept_from_us(error: &Error) -> bool {
    let code = error.code();
    code.denies_access() || matches!(code, ErrorCode::PeerUnsupported | ErrorCode::NotImplemented)
}

/// Whether the destination has so many bytes, and the source begins with those that are compared.
async fn have_same_bytes(session: &ClientContext, pair: &Pair, count: u64, rate: &RateLimit) -> Result<bool> {
    let (mut source, mut copy) = tokio::try_join!(
        PieceReader::open(session, &pair.source, Side::Source),
        PieceReader::open(session, &pair.target, Side::Destination)
    )?;
    let mut is_same = copy.size_bytes() == count && source.size_bytes() > count;
    let mut rest = ByteRange::whole(count.min(BEGINNING_BYTES_MAX));
    let unnoted = Progress::new();
    while is_same && !rest.is_empty() {
        let range = rest.take_front(copy.step());
        rate.pass(range.len(), &unnoted).await;
        let (ours, theirs) = tokio::try_join!(source.read(range), copy.read(range))?;
        is_same = ours == theirs;
    }
    // The copy opens the source again, by its name.
    let is_named = source.is_still_named().await;
    source.close().await;
    copy.close().await;
    if is_same && !(is_named && is_unchanged(session, pair).await?) {
        let error = Error::new(ErrorCode::SourceChanged, Side::Source, Phase::Open).with_subject(&pair.source);
        return Err(error.with_detail("it was replaced while its beginning was compared with the destination"));
    }
    Ok(is_same)
}

/// Whether the source is what it was when it was found.
async fn is_unchanged(session: &ClientContext, pair: &Pair) -> Result<bool> {
    let Some(now) = session.look(&pair.source, Side::Source).await? else {
        return Ok(false);
    };
    let known = &pair.info;
    let may_be = |known: Option<i64>, now: Option<i64>| known.is_none() || now.is_none() || known == now;
    let is_same_tag = known.etag.is_none() || now.etag.is_none() || known.etag == now.etag;
    Ok(known.size_bytes == now.size_bytes && may_be(known.modified_s, now.modified_s) && is_same_tag)
}
