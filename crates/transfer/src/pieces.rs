//! Sends many ranges of files, each with a head, in few calls: small ones are copied, longer ones
//! in clear text are gathered by the kernel.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use net::Bundle;
use storage::{Patience, ReadHandle, RoomPart};
use types::limits::BUNDLE_BYTES;
use types::{ByteRange, Error, ErrorCode, Phase, Result, Side};

use crate::mover::{COPIED_BYTES_MAX, Drain, serve};
use crate::progress::Progress;

/// Ranges of files to send in this order, each with a short head.
#[derive(Default)]
pub struct Pieces(Arc<List>);

#[derive(Default, Clone)]
struct List {
    /// The heads of all ranges, concatenated.
    heads: Vec<u8>,
    pieces: Vec<Piece>,
}

#[derive(Clone)]
struct Piece {
    head: Range<usize>,
    /// Whether its head begins a message, and so a TLS record.
    begins_message: bool,
    reader: Arc<dyn ReadHandle>,
    range: ByteRange,
}

/// The position up to which the pieces have been sent.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct PiecePosition {
    piece: usize,
    /// Bytes sent of that piece, head and range together.
    done: u64,
}

impl Pieces {
    /// Appends a range with a `head` that begins another message of the protocol, and over TLS
    /// another record.
    pub fn add_message(&mut self, head: &[u8], reader: &Arc<dyn ReadHandle>, range: ByteRange) {
        self.add(head, reader, range);
        let list = Arc::make_mut(&mut self.0);
        if let Some(piece) = list.pieces.last_mut() {
            piece.begins_message = true;
        }
    }

    /// Appends a range with a `head`.
    pub fn add(&mut self, head: &[u8], reader: &Arc<dyn ReadHandle>, range: ByteRange) {
        let list = Arc::make_mut(&mut self.0);
        let start = list.heads.len();
        list.heads.extend_from_slice(head);
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

    /// Whether a part of the range is in memory.
    fn is_cached(&self, part: ByteRange) -> io::Result<bool> {
        self.reader.as_file().map_or(Ok(true), |file| file.is_cached(part))
    }

    /// Puts the last `left` bytes of the range into the bundle, as many as fit; `None` if it is
    /// full.
    fn put_into(&self, bundle: &mut Bundle, left: u64) -> io::Result<Option<u64>> {
        let Some(file) = self.reader.as_file() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let count = usize::try_from(left).unwrap_or(usize::MAX);
        match bundle.put_file(file.file(), self.range.end - left, count)? {
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            put => Ok(put.map(|count| count as u64)),
        }
    }

    /// Whether it is better sent by the kernel.
    fn bypasses(&self, copied_max: u64) -> bool {
        self.range.len() > copied_max && self.reader.as_file().is_some()
    }
}

/// Sends all pieces, after data that the drain has queued.
///
/// # Errors
/// Those of the drain; `source_changed` if a file is shorter than its range, `storage_failed` if it
/// cannot be read. The connection is then within a message.
pub async fn serve_pieces(pieces: &Pieces, drain: &mut impl Drain, progress: &Progress) -> Result<()> {
    let list = &pieces.0;
    if list.pieces.is_empty() {
        return Ok(());
    }
    if drain.clear_stream().is_none() {
        return copy_pieces(list, u64::MAX, drain, progress).await;
    }
    let bundle = if list.is_worth_a_bundle() { Bundle::take() } else { None };
    match bundle {
        Some(bundle) => bundle_pieces(list, bundle, drain, progress).await,
        None => copy_pieces(list, COPIED_BYTES_MAX, drain, progress).await,
    }
}

/// Lets the kernel gather all pieces and send them in few calls.
async fn bundle_pieces(
    list: &Arc<List>,
    mut bundle: Bundle,
    drain: &mut impl Drain,
    progress: &Progress,
) -> Result<()> {
    let internal = |why| Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer).with_private(why);
    let mut place = PiecePosition::default();
    while let Some(piece) = list.pieces.get(place.piece) {
        let file = piece.reader.as_file().ok_or_else(|| internal("not a file"))?;
        let own = list.clone();
        let gather = move |bundle: &mut Bundle, patience: Patience| own.gather(bundle, place, patience);
        let gathered;
        (bundle, gathered) = file.run(bundle, gather).await?;
        let (payload_bytes, reached) = gathered.map_err(failed)?;
        if reached == place {
            return Err(failed(io::Error::other("an empty pipe accepts no data")));
        }
        let stream = drain.clear_stream().ok_or_else(|| internal("not a clear stream"))?;
        stream
            .send_bundle(&mut bundle, reached.piece < list.pieces.len())
            .await?;
        progress.add_moved(payload_bytes);
        place = reached;
    }
    Ok(())
}

/// Sends pieces up to a certain length from buffers, and longer ones directly from the file.
async fn copy_pieces(list: &List, copied_max: u64, drain: &mut impl Drain, progress: &Progress) -> Result<()> {
    let mut place = PiecePosition::default();
    while let Some(piece) = list.pieces.get(place.piece) {
        if place.done == 0
            && piece.bypasses(copied_max)
            && let Some(stream) = drain.clear_stream()
        {
            stream.queue(&list.heads[piece.head.clone()]);
            serve(piece.reader.as_ref(), piece.range, drain, None, progress).await?;
            place.piece += 1;
            continue;
        }
        let mut room = drain.outgoing().await?;
        let mut load = Load::at(place);
        loop {
            let ranges = room.fill_slots(room.capacity(), |slots| list.load(slots, &mut load, copied_max));
            if let Some(Ranges { reader, parts }) = ranges {
                let wanted: u64 = parts.iter().map(|part| part.range.len()).sum();
                let filled;
                (room, filled) = reader.read_parts(room, parts).await?;
                if filled as u64 != wanted {
                    return Err(failed(io::ErrorKind::UnexpectedEof.into()));
                }
            }
            if load.is_complete {
                break;
            }
        }
        drain.send(room, load.bytes).await?;
        progress.add_moved(load.payload_bytes);
        place = load.place;
    }
    Ok(())
}

/// The contents of a buffer.
struct Load {
    bytes: usize,
    payload_bytes: u64,
    /// Behind what is in it.
    place: PiecePosition,
    /// Nothing more goes in.
    is_complete: bool,
}

impl Load {
    fn at(place: PiecePosition) -> Self {
        Self {
            bytes: 0,
            payload_bytes: 0,
            place,
            is_complete: false,
        }
    }
}

/// Ranges of one file for a buffer.
struct Ranges<'a> {
    reader: &'a Arc<dyn ReadHandle>,
    parts: Vec<RoomPart>,
}

fn failed(cause: io::Error) -> Error {
    let code = match cause.kind() {
        io::ErrorKind::UnexpectedEof => ErrorCode::SourceChanged,
        _ => ErrorCode::StorageFailed,
    };
    Error::new(code, Side::Active, Phase::Transfer).with_private(cause)
}

impl List {
    /// Whether gathering by the kernel costs less than copying.
    fn is_worth_a_bundle(&self) -> bool {
        self.pieces.len() > 1
            && self.pieces.iter().all(|piece| piece.reader.as_file().is_some())
            && self.pieces.iter().any(|piece| piece.bypasses(COPIED_BYTES_MAX))
    }

    /// Puts pieces into the bundle, beginning at `place`, until it is full or, without patience,
    /// data is not in memory. Returns the number of payload bytes, and the next position.
    fn gather(
        &self,
        bundle: &mut Bundle,
        mut place: PiecePosition,
        patience: Patience,
    ) -> io::Result<(u64, PiecePosition)> {
        let mut payload_bytes = 0;
        while let Some(piece) = self.pieces.get(place.piece) {
            let (head_bytes, length) = (piece.head.len() as u64, piece.len());
            while place.done < head_bytes {
                // Fits into `usize`: it is not longer than the head.
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
            place = PiecePosition {
                piece: place.piece + 1,
                done: 0,
            };
        }
        Ok((payload_bytes, place))
    }

    /// Continues to fill a buffer: puts heads into the slots, and returns the ranges of the next
    /// file that belong between them. Ends at a piece that begins a message (a buffer begins a TLS
    /// record) or whose range is too long to be copied.
    fn load(&self, mut rest: &mut [IoSliceMut<'_>], load: &mut Load, copied_max: u64) -> Option<Ranges<'_>> {
        load.is_complete = true;
        IoSliceMut::advance_slices(&mut rest, load.bytes);
        let mut free: usize = rest.iter().map(|slot| slot.len()).sum();
        let mut ranges: Option<Ranges<'_>> = None;
        while free > 0
            && let Some(piece) = self.pieces.get(load.place.piece)
            && !(load.place.done == 0 && (piece.bypasses(copied_max) || (piece.begins_message && load.bytes > 0)))
        {
            let head = &self.heads[piece.head.clone()];
            let left = usize::try_from(piece.len() - load.place.done).unwrap_or(usize::MAX);
            let step = match usize::try_from(load.place.done).ok().and_then(|done| head.get(done..)) {
                Some(head) if !head.is_empty() => copy(head, rest),
                _ if left == 0 => 0,
                _ => {
                    let reader = &piece.reader;
                    let ranges = ranges.get_or_insert_with(|| Ranges {
                        reader,
                        parts: Vec::new(),
                    });
                    if !Arc::ptr_eq(ranges.reader, reader) {
                        load.is_complete = false;
                        break;
                    }
                    let (start, step) = (piece.range.end - left as u64, left.min(free));
                    let (at, range) = (load.bytes, ByteRange::new(start, start + step as u64));
                    ranges.parts.push(RoomPart { at, range });
                    load.payload_bytes += step as u64;
                    step
                }
            };
            IoSliceMut::advance_slices(&mut rest, step);
            (free, load.bytes) = (free - step, load.bytes + step);
            load.place.done += step as u64;
            if load.place.done == piece.len() {
                load.place = PiecePosition {
                    piece: load.place.piece + 1,
                    done: 0,
                };
            }
        }
        ranges
    }
}

/// Copies the bytes that fit.
fn copy(bytes: &[u8], slots: &mut [IoSliceMut<'_>]) -> usize {
    let mut left = bytes;
    for slot in slots {
        let (front, behind) = left.split_at(left.len().min(slot.len()));
        slot[..front.len()].copy_from_slice(front);
        left = behind;
    }
    bytes.len() - left.len()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::IoSlice;

    use storage::{BlockingReader, CommitFacts, Memory, Storage, UploadOptions};
    use types::LogicalPath;

    use super::*;

    pub(crate) fn reader_of(content: &[u8]) -> Arc<dyn ReadHandle> {
        let memory = Memory::new(1 << 20);
        let path = LogicalPath::parse("/f").unwrap();
        let upload = memory.create(&path, &UploadOptions::default()).unwrap();
        upload.write_vectored_at(&[IoSlice::new(content)], 0).unwrap();
        let facts = CommitFacts {
            size_bytes: content.len() as u64,
            ..CommitFacts::default()
        };
        upload.commit(&facts).unwrap();
        Arc::new(BlockingReader::new(memory.open(&path).unwrap()))
    }

    /// The bytes of all buffers, each of three slots of two bytes. `files` has the readers'
    /// contents.
    fn loaded(pieces: &Pieces, files: &[(&Arc<dyn ReadHandle>, &[u8])]) -> Vec<u8> {
        let (mut place, mut all) = (PiecePosition::default(), Vec::new());
        while place.piece < pieces.0.pieces.len() {
            let (mut room, mut load) = ([0; 6], Load::at(place));
            while !load.is_complete {
                let mut slots: Vec<_> = room.chunks_mut(2).map(IoSliceMut::new).collect();
                let Some(ranges) = pieces.0.load(&mut slots, &mut load, u64::MAX) else {
                    continue;
                };
                let file = files.iter().find(|(reader, _)| Arc::ptr_eq(reader, ranges.reader));
                for RoomPart { at, range } in ranges.parts {
                    let bytes = &file.unwrap().1[range.start as usize..range.end as usize];
                    room[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            all.extend_from_slice(&room[..load.bytes]);
            place = load.place;
        }
        all
    }

    #[test]
    fn heads_and_ranges_follow_each_other_across_rooms() {
        let (digits, letters) = (reader_of(b"0123456789"), reader_of(b"abcdefghij"));
        let mut pieces = Pieces::default();
        for (head, reader, start, end) in [
            ("<a>", &digits, 2, 9),
            ("", &digits, 0, 1),
            ("", &letters, 0, 1),
            ("<long head>", &digits, 5, 5),
            ("<b>", &digits, 9, 10),
            ("", &letters, 3, 9),
        ] {
            pieces.add(head.as_bytes(), reader, ByteRange::new(start, end));
        }
        let all = loaded(&pieces, &[(&digits, b"0123456789"), (&letters, b"abcdefghij")]);
        assert_eq!(String::from_utf8(all).unwrap(), "<a>23456780a<long head><b>9defghi");
    }
}
