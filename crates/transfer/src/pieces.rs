//! Sending many ranges of files with something in front of each, together in few calls: small ones copied through us,
//! longer ones, in clear text, gathered by the kernel.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use endpoint::Store;
use net::{Bundle, Outgoing};
use storage::{FileReader, Patience};
use types::limits::BUNDLE_BYTES;
use types::{ByteRange, Error, ErrorCode, Phase, Result, Side};

use crate::mover::{COPIED_BYTES_MAX, Drain, serve, touch};
use crate::progress::Progress;

/// Pieces up to this length are in memory if their last byte is. It is what Linux reads ahead where nobody has set another length.
const SHORT_BYTES: u64 = 128 * 1024;

/// Ranges of files in the order in which they are to be sent, each with a few bytes in front.
#[derive(Default)]
pub struct Pieces(Arc<List>);

#[derive(Default, Clone)]
struct List {
    /// What stands in front of the ranges, one behind the other.
    heads: Vec<u8>,
    pieces: Vec<Piece>,
    store: Option<Store>,
}

#[derive(Clone)]
struct Piece {
    head: Range<usize>,
    /// Whether its head begins a message, and so a TLS record.
    begins_message: bool,
    reader: Arc<dyn FileReader>,
    range: ByteRange,
}

/// How far the pieces have been sent.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    piece: usize,
    /// Bytes of that piece, head and range together.
    done: u64,
}

impl Pieces {
    /// Appends a range with `head` in front of it, which begins another message of the protocol. Over TLS it begins
    /// a record.
    pub fn add_message(&mut self, head: &[u8], store: &Store, reader: &Arc<dyn FileReader>, range: ByteRange) {
        self.add(head, store, reader, range);
        let list = Arc::make_mut(&mut self.0);
        if let Some(piece) = list.pieces.last_mut() {
            piece.begins_message = true;
        }
    }

    /// Appends a range with `head` in front of it.
    pub fn add(&mut self, head: &[u8], store: &Store, reader: &Arc<dyn FileReader>, range: ByteRange) {
        let list = Arc::make_mut(&mut self.0);
        let start = list.heads.len();
        list.heads.extend_from_slice(head);
        list.store.get_or_insert_with(|| store.clone());
        list.pieces.push(Piece {
            head: start..list.heads.len(),
            begins_message: false,
            reader: reader.clone(),
            range,
        });
    }
}

impl Piece {
    fn len(&self) -> u64 {
        self.head.len() as u64 + self.range.len()
    }

    /// Whether the range is in memory, by its ends. Of a short one the last byte says it: the system reads ahead from where it
    /// has to read at all. Where it cannot be told, the lane notices how long it takes.
    fn is_cached(&self, range: ByteRange) -> io::Result<bool> {
        if range.is_empty() || !self.reader.tells_what_is_cached() {
            return Ok(true);
        }
        let sample = match range.len() <= SHORT_BYTES {
            true => ByteRange::new(range.end - 1, range.end),
            false => range,
        };
        match touch(self.reader.as_ref(), sample, Patience::CachedOnly) {
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Ok(false),
            touched => touched.map(|()| true),
        }
    }

    /// Puts the last `left` bytes of the range, or as much of their beginning as there is room for, into the bundle;
    /// `None` when there is none.
    fn put_into(&self, bundle: &mut Bundle, left: u64) -> io::Result<Option<u64>> {
        let Some(file) = self.reader.as_file() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let count = usize::try_from(left).unwrap_or(usize::MAX);
        match bundle.put_file(file, self.range.end - left, count)? {
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            put => Ok(put.map(|count| count as u64)),
        }
    }

    /// Whether the kernel had better send it itself.
    fn bypasses(&self, copied_max: u64) -> bool {
        self.range.len() > copied_max && self.reader.as_file().is_some()
    }
}

/// Sends all pieces. What the drain has queued goes out in front of them.
///
/// # Errors
/// Those of the drain; `source_changed` when a file is shorter than its range, `storage_failed` when it
/// cannot be read. The connection is then in the middle of a message.
pub async fn serve_pieces(pieces: &Pieces, drain: &mut impl Drain, progress: &Progress) -> Result<()> {
    let list = &pieces.0;
    let Some(store) = &list.store else { return Ok(()) };
    if drain.clear_stream().is_none() {
        return copy_pieces(list, store, u64::MAX, drain, progress).await;
    }
    let bundle = if list.is_worth_a_bundle() { Bundle::take() } else { None };
    match bundle {
        Some(bundle) => bundle_pieces(list, store, bundle, drain, progress).await,
        None => copy_pieces(list, store, COPIED_BYTES_MAX, drain, progress).await,
    }
}

/// Has the kernel gather all pieces, and send them in few calls.
async fn bundle_pieces(
    list: &Arc<List>,
    store: &Store,
    mut bundle: Bundle,
    drain: &mut impl Drain,
    progress: &Progress,
) -> Result<()> {
    let mut place = Place::default();
    while place.piece < list.pieces.len() {
        let gather = |mut bundle: Bundle, patience| {
            let list = list.clone();
            move || {
                let gathered = list.gather(&mut bundle, place, patience);
                Ok((bundle, gathered))
            }
        };
        let mut gathered;
        (bundle, gathered) = store.lane().run(gather(bundle, Patience::CachedOnly)).await?;
        if matches!(&gathered, Err(cause) if cause.kind() == io::ErrorKind::WouldBlock) {
            (bundle, gathered) = store.lane().run_blocking(gather(bundle, Patience::Wait)).await?;
        }
        let (payload_bytes, reached) = gathered.map_err(failed)?;
        if reached == place {
            return Err(failed(io::Error::other("an empty pipe takes nothing")));
        }
        let Some(stream) = drain.clear_stream() else {
            return Err(
                Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private("not a clear stream")
            );
        };
        stream
            .send_bundle(&mut bundle, reached.piece < list.pieces.len())
            .await?;
        progress.add_moved(payload_bytes);
        place = reached;
    }
    Ok(())
}

/// Sends pieces up to a length from buffers, and longer ones straight from the file.
async fn copy_pieces(
    list: &Arc<List>,
    store: &Store,
    copied_max: u64,
    drain: &mut impl Drain,
    progress: &Progress,
) -> Result<()> {
    let mut place = Place::default();
    while let Some(piece) = list.pieces.get(place.piece) {
        if place.done == 0
            && piece.bypasses(copied_max)
            && let Some(stream) = drain.clear_stream()
        {
            stream.queue(&list.heads[piece.head.clone()]);
            serve(store, &piece.reader, piece.range, drain, None, progress).await?;
            place.piece += 1;
            continue;
        }
        let room = drain.outgoing().await?;
        let fill = |mut room: Outgoing, patience| {
            let list = list.clone();
            move || {
                let filled = list.fill(&mut room.slots(room.capacity()), (place, copied_max), patience);
                Ok((room, filled))
            }
        };
        let (mut room, mut filled) = store.lane().run(fill(room, Patience::CachedOnly)).await?;
        if matches!(&filled, Err(cause) if cause.kind() == io::ErrorKind::WouldBlock) {
            (room, filled) = store.lane().run_blocking(fill(room, Patience::Wait)).await?;
        }
        let (bytes, payload_bytes, reached) = filled.map_err(failed)?;
        drain.send(room, bytes).await?;
        progress.add_moved(payload_bytes);
        place = reached;
    }
    Ok(())
}

fn failed(cause: io::Error) -> Error {
    let code = match cause.kind() {
        io::ErrorKind::UnexpectedEof => ErrorCode::SourceChanged,
        _ => ErrorCode::StorageFailed,
    };
    Error::new(code, Side::Active, Phase::Transfer).with_private(cause)
}

impl List {
    /// Whether the kernel had better gather these pieces than have them copied through us.
    fn is_worth_a_bundle(&self) -> bool {
        self.pieces.len() > 1
            && self.pieces.iter().all(|piece| piece.reader.as_file().is_some())
            && self.pieces.iter().any(|piece| piece.bypasses(COPIED_BYTES_MAX))
    }

    /// Puts pieces from a place on into the bundle, until it is full or, without patience, something is not in memory. Gives
    /// how many bytes of payload that is, and the place behind them.
    fn gather(&self, bundle: &mut Bundle, mut place: Place, patience: Patience) -> io::Result<(u64, Place)> {
        let mut payload_bytes = 0;
        while let Some(piece) = self.pieces.get(place.piece) {
            let (head_bytes, length) = (piece.head.len() as u64, piece.len());
            while place.done < head_bytes {
                // It is not longer than the head.
                let left = &self.heads[piece.head.start + place.done as usize..piece.head.end];
                match bundle.put(left)? {
                    0 => return Ok((payload_bytes, place)),
                    step => place.done += step as u64,
                }
            }
            let start = piece.range.end - (length - place.done);
            let ahead = ByteRange::new(start, piece.range.end.min(start + BUNDLE_BYTES as u64));
            if patience == Patience::Wait {
                piece.reader.advise_sequential(ahead);
            } else if !piece.is_cached(ahead)? {
                return match bundle.held_bytes() {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok((payload_bytes, place)),
                };
            }
            while place.done < length {
                match piece.put_into(bundle, length - place.done)? {
                    None => return Ok((payload_bytes, place)),
                    Some(step) => {
                        payload_bytes += step;
                        place.done += step;
                    }
                }
            }
            place = Place {
                piece: place.piece + 1,
                done: 0,
            };
        }
        Ok((payload_bytes, place))
    }

    /// Fills the slots from a place on, up to a piece that begins a message (a buffer begins a TLS record) or whose
    /// range is longer than what is copied at all. Gives how many bytes that is, how many of them are payload, and the
    /// place behind them.
    fn fill(
        &self,
        mut rest: &mut [IoSliceMut<'_>],
        (mut place, copied_max): (Place, u64),
        patience: Patience,
    ) -> io::Result<(usize, u64, Place)> {
        let (mut bytes, mut payload_bytes) = (0, 0);
        while !rest.is_empty()
            && let Some(piece) = self.pieces.get(place.piece)
            && !(place.done == 0 && (piece.bypasses(copied_max) || (piece.begins_message && bytes > 0)))
        {
            let head = &self.heads[piece.head.clone()];
            let step = match usize::try_from(place.done).ok().and_then(|done| head.get(done..)) {
                Some(left) if !left.is_empty() => copy(left, rest),
                _ => {
                    let left = piece.len() - place.done;
                    let offset = piece.range.end - left;
                    let step = if left == 0 {
                        0
                    } else {
                        read(piece, offset, left, rest, patience)?
                    };
                    payload_bytes += step as u64;
                    step
                }
            };
            IoSliceMut::advance_slices(&mut rest, step);
            bytes += step;
            place.done += step as u64;
            if place.done == piece.len() {
                place = Place {
                    piece: place.piece + 1,
                    done: 0,
                };
            }
        }
        Ok((bytes, payload_bytes, place))
    }
}

/// Copies as much as fits.
fn copy(bytes: &[u8], slots: &mut [IoSliceMut<'_>]) -> usize {
    let mut left = bytes;
    for slot in slots {
        let (front, behind) = left.split_at(left.len().min(slot.len()));
        slot[..front.len()].copy_from_slice(front);
        left = behind;
    }
    bytes.len() - left.len()
}

/// Reads from `offset` on, at most `left` bytes, as much as fits into the slots.
fn read(piece: &Piece, offset: u64, left: u64, slots: &mut [IoSliceMut<'_>], patience: Patience) -> io::Result<usize> {
    let mut left = usize::try_from(left).unwrap_or(usize::MAX);
    let mut target = Vec::with_capacity(slots.len());
    for slot in slots {
        let take = left.min(slot.len());
        if take == 0 {
            break;
        }
        left -= take;
        target.push(IoSliceMut::new(&mut slot[..take]));
    }
    match piece.reader.read_vectored_at(&mut target, offset, patience)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use storage::{CommitFacts, Memory, Storage, UploadOptions};
    use types::LogicalPath;

    use super::*;

    fn store_with(content: &[u8]) -> (Store, Arc<dyn FileReader>) {
        let memory = Memory::new(1 << 20);
        let path = LogicalPath::parse("/f").unwrap();
        let upload = memory.create(&path, &UploadOptions::default()).unwrap();
        upload.write_vectored_at(&[IoSlice::new(content)], 0).unwrap();
        let facts = CommitFacts {
            size_bytes: content.len() as u64,
            ..CommitFacts::default()
        };
        upload.commit(&facts).unwrap();
        let reader = memory.open(&path).unwrap();
        (Store::new(Arc::new(memory)), reader)
    }

    /// All that is filled in, in slots of two bytes each time, however the pieces lie.
    fn filled(pieces: &Pieces) -> io::Result<Vec<u8>> {
        let (mut place, mut all) = (Place::default(), Vec::new());
        while place.piece < pieces.0.pieces.len() {
            let mut room = [0; 6];
            let mut slots: Vec<_> = room.chunks_mut(2).map(IoSliceMut::new).collect();
            let (bytes, _, reached) = pieces.0.fill(&mut slots, (place, u64::MAX), Patience::Wait)?;
            all.extend_from_slice(&room[..bytes]);
            place = reached;
        }
        Ok(all)
    }

    #[test]
    fn heads_and_ranges_follow_each_other_across_rooms() {
        let (store, reader) = store_with(b"0123456789");
        let mut pieces = Pieces::default();
        for (head, start, end) in [("<a>", 2, 9), ("", 0, 1), ("<long head>", 5, 5), ("<b>", 9, 10)] {
            pieces.add(head.as_bytes(), &store, &reader, ByteRange::new(start, end));
        }
        let all = filled(&pieces).unwrap();
        assert_eq!(String::from_utf8(all).unwrap(), "<a>23456780<long head><b>9");
    }

    #[test]
    fn a_file_that_is_shorter_than_its_range_is_noticed() {
        let (store, reader) = store_with(b"0123456789");
        let mut pieces = Pieces::default();
        pieces.add(b"x", &store, &reader, ByteRange::new(8, 12));
        let error = failed(filled(&pieces).unwrap_err());
        assert_eq!(error.code(), ErrorCode::SourceChanged);
    }
}
