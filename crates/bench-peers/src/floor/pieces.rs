//! The floor of vector reads over TLS: for each request the pieces are read to where their records
//! are sealed, and sent.

use std::fs::File;
use std::io::{IoSliceMut, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::Instant;

use testkit::{Error, Result};

use super::{
    BATCH_BYTES, RECORD_BYTES, RECORD_HEADER, RECORD_WIRE_BYTES, clocked, joined, key, read_records, sealed_batch,
    send_records,
};
use crate::root::{Piece, pieces};
use crate::workload::Sample;

/// What a request says of a piece.
const ITEM_BYTES: u64 = 16;

/// Requests for so many pieces each, one under way on each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub(crate) count: u64,
    pub(crate) connections: u64,
    pub(crate) requests: u64,
}

impl Pieces {
    /// MB/s of pieces, and the processor time of the server.
    pub(super) fn measure(self, source: &Path) -> Result<Sample> {
        let size_bytes = source.metadata()?.len();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let began = Instant::now();
        let (used, moved) = thread::scope(|scope| {
            let (mut servers, mut clients) = (Vec::new(), Vec::new());
            for connection in 0..self.connections {
                let far = TcpStream::connect(address)?;
                let (near, _) = listener.accept()?;
                let lists = move || {
                    let first = connection * self.requests;
                    (first..first + self.requests).map(move |round| pieces(size_bytes, self.count, round))
                };
                clients.push(scope.spawn(move || ask(far, lists())));
                servers.push(scope.spawn(move || clocked(|| serve(near, &File::open(source)?, lists()))));
            }
            let used = servers.into_iter().map(joined).sum::<Result<f64>>()?;
            let moved = clients.into_iter().map(joined).sum::<Result<u64>>()?;
            Ok::<_, Error>((used, moved as f64))
        })?;
        Ok(Sample {
            first: moved / 1e6 / began.elapsed().as_secs_f64(),
            second: used / moved * 1e9,
        })
    }
}

/// What is moved of these pieces: whole records, without the rest.
fn whole_bytes(list: &[Piece]) -> usize {
    let all: u64 = list.iter().map(|piece| piece.length).sum();
    all as usize / RECORD_BYTES * RECORD_BYTES
}

fn request_bytes(list: &[Piece]) -> usize {
    list.len() * ITEM_BYTES as usize
}

/// The client: asks, and opens what comes.
fn ask(mut stream: TcpStream, lists: impl Iterator<Item = Vec<Piece>>) -> Result<u64> {
    stream.set_nodelay(true)?;
    let (key, mut wire) = (key()?, sealed_batch());
    let mut moved = 0;
    for list in lists {
        stream.write_all(&vec![0; request_bytes(&list)])?;
        let mut records = whole_bytes(&list) / RECORD_BYTES;
        moved += (records * RECORD_BYTES) as u64;
        while records > 0 {
            let some = records.min(BATCH_BYTES / RECORD_BYTES);
            read_records(&mut stream, &key, &mut wire[..some * RECORD_WIRE_BYTES])?;
            records -= some;
        }
    }
    Ok(moved)
}

fn serve(mut stream: TcpStream, file: &File, lists: impl Iterator<Item = Vec<Piece>>) -> Result<()> {
    stream.set_nodelay(true)?;
    let (key, mut wire) = (key()?, sealed_batch());
    let mut request = Vec::new();
    for list in lists {
        request.resize(request_bytes(&list), 0);
        stream.read_exact(&mut request)?;
        let mut left = whole_bytes(&list);
        let mut filled = 0;
        for piece in list {
            let mut at = 0;
            while at < piece.length && left > 0 {
                let want = left.min(BATCH_BYTES - filled).min((piece.length - at) as usize);
                read_into(file, piece.offset + at, &mut wire, filled..filled + want)?;
                at += want as u64;
                filled += want;
                left -= want;
                if filled == BATCH_BYTES || left == 0 {
                    send_records(&stream, &key, &mut wire[..filled / RECORD_BYTES * RECORD_WIRE_BYTES])?;
                    filled = 0;
                }
            }
        }
    }
    Ok(())
}

/// Reads what lies at `offset` to where the payload `range` of the batch has its place in records,
/// with one call.
fn read_into(file: &File, offset: u64, wire: &mut [u8], range: Range<usize>) -> Result<()> {
    let first = range.start / RECORD_BYTES;
    let records = wire.chunks_exact_mut(RECORD_WIRE_BYTES).enumerate().skip(first);
    let mut slots: Vec<IoSliceMut<'_>> = records
        .map_while(|(index, record)| {
            let start = range.start.max(index * RECORD_BYTES) - index * RECORD_BYTES;
            let end = range.end.checked_sub(index * RECORD_BYTES)?.min(RECORD_BYTES);
            let payload = &mut record[RECORD_HEADER.len()..][..RECORD_BYTES];
            (start < end).then(|| IoSliceMut::new(&mut payload[start..end]))
        })
        .collect();
    match rustix::io::preadv(file, &mut slots, offset).map_err(std::io::Error::from)? {
        count if count == range.len() => Ok(()),
        _ => Err(Error::Failed("a piece of the floor's was read in part".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::Scratch;

    use super::*;

    #[test]
    fn all_pieces_come() {
        let scratch = Scratch::in_memory("floor-pieces").expect("scratch");
        let source = scratch.join("source");
        fs::write(&source, vec![1; 64 << 20]).expect("written");
        for count in [1, 16, 128] {
            let all = Pieces {
                count,
                connections: 2,
                requests: 3,
            };
            let sample = all.measure(&source).expect("measured");
            assert!(sample.first > 0.0 && sample.second > 0.0, "{all:?}: {sample:?}");
        }
    }

    #[test]
    fn a_piece_is_read_to_its_place_across_records() {
        let scratch = Scratch::in_memory("floor-place").expect("scratch");
        let path = scratch.join("source");
        let content: Vec<u8> = (0..100_000u32).map(|index| (index / 3 % 251) as u8).collect();
        fs::write(&path, &content).expect("written");
        let mut wire = sealed_batch();
        let range = RECORD_BYTES - 5..3 * RECORD_BYTES + 7;
        read_into(&File::open(&path).expect("opened"), 11, &mut wire, range.clone()).expect("read");
        let payload: Vec<u8> = wire
            .chunks_exact(RECORD_WIRE_BYTES)
            .flat_map(|record| &record[RECORD_HEADER.len()..][..RECORD_BYTES])
            .copied()
            .collect();
        assert!(payload[range.clone()] == content[11..11 + range.len()]);
        assert!(
            payload[..range.start]
                .iter()
                .chain(&payload[range.end..])
                .all(|byte| *byte == 0)
        );
    }
}
