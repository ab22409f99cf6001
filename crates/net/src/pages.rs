//! Pages with checksums on their way in: the checksums are cut out of the batches in which they
//! came, and compared with the data between them, which stay where they are.
//!
//! Two ways: a server stores damaged pages all the same and tells which they were ([`Pages`]), a
//! client hands out only what is sound ([`SoundPages`]).

use types::ByteRange;
use xroot_wire::limits::{BAD_PAGES_MAX, PAGE_CHECKSUM_BYTES};
use xroot_wire::pages::{Piece, UnitDecoder, bytes_to_border, checksum, data_bytes};

use crate::buffer::Batch;

/// Bytes that a whole page takes on the wire.
const PAGE_WIRE_BYTES: usize = xroot_wire::limits::PAGE_BYTES + PAGE_CHECKSUM_BYTES;

/// Pages as they come. Damaged ones are noted and handed on like the others.
#[derive(Debug)]
pub struct Pages {
    decoder: UnitDecoder,
    damaged: Vec<ByteRange>,
}

impl Pages {
    /// For `wire_bytes` of data and checksums; the data belongs at `offset` of a file. `None` if
    /// this is no whole number of units.
    #[must_use]
    pub fn new(offset: u64, wire_bytes: usize) -> Option<Self> {
        Some(Self {
            decoder: UnitDecoder::new(offset, wire_bytes)?,
            damaged: Vec::new(),
        })
    }

    /// Reduces `batch`, the next bytes from the wire, to the data in it.
    pub fn strip(&mut self, batch: &mut Batch) {
        strip(&mut self.decoder, batch, |unit, sound| {
            if !sound && self.damaged.len() <= BAD_PAGES_MAX {
                self.damaged.push(unit);
            }
        });
    }

    /// Bytes that are still to come from the wire.
    #[must_use]
    pub fn left_bytes(&self) -> usize {
        self.decoder.left_bytes()
    }

    /// Where the units lie in the file whose checksums were wrong so far. When there are more than
    /// [`BAD_PAGES_MAX`], only the first of them, one more than that.
    #[must_use]
    pub fn damaged(&self) -> &[ByteRange] {
        &self.damaged
    }

    /// The same, at the end.
    #[must_use]
    pub fn into_damaged(self) -> Vec<ByteRange> {
        self.damaged
    }
}

fn strip(decoder: &mut UnitDecoder, batch: &mut Batch, mut ended: impl FnMut(ByteRange, bool)) {
    let done = batch.refine(|piece, keep| {
        let mut input = piece;
        while let Some(part) = decoder.next(&mut input) {
            match part {
                Piece::Data { data, .. } => {
                    let end = piece.len() - input.len();
                    keep.push(end - data.len()..end);
                }
                Piece::UnitEnd { offset, length, sound } => {
                    ended(ByteRange::new(offset, offset + length as u64), sound);
                }
            }
        }
        Ok::<(), std::convert::Infallible>(())
    });
    match done {
        Ok(()) => {}
        Err(never) => match never {},
    }
}

/// Pages that are handed out only when their checksums are right, in order, up to the first damaged
/// one.
#[derive(Debug)]
pub struct SoundPages {
    /// Where the next unit belongs in the file.
    offset: u64,
    /// Bytes from the wire, from the beginning of that unit on.
    left: usize,
    /// What has come of a unit that lies across batches: it is checked, and handed out, as a copy.
    begun: Vec<u8>,
    is_damaged: bool,
}

/// What [`SoundPages::take`] hands out.
#[derive(Debug, Default)]
pub struct Sound {
    /// At most two batches of data, in order, none of them empty.
    pub batches: Vec<Batch>,
    /// The first damaged unit, which ends it. All from its start on has to be asked for again; what
    /// still comes of this answer has to be skipped.
    pub damaged: Option<ByteRange>,
}

impl SoundPages {
    /// As [`Pages::new`].
    #[must_use]
    pub fn new(offset: u64, wire_bytes: usize) -> Option<Self> {
        let data = data_bytes(offset, wire_bytes)?;
        offset.checked_add(data as u64)?;
        Some(Self {
            offset,
            left: wire_bytes,
            begun: Vec::new(),
            is_damaged: false,
        })
    }

    /// Where in the file that begins which was not handed out yet.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the next bytes from the wire; nothing more comes out once a page was damaged.
    pub fn take(&mut self, mut batch: Batch) -> Sound {
        let mut sound = Sound::default();
        if self.is_damaged {
            return sound;
        }
        if !self.begun.is_empty() && !self.complete_begun(&mut batch, &mut sound) {
            return sound;
        }
        let whole = self.whole_units(batch.len());
        self.begun = batch.tail(whole);
        batch.truncate(whole);
        self.check_whole(batch, &mut sound);
        sound
    }

    /// Bytes that the next unit takes on the wire.
    fn unit_wire_bytes(&self) -> usize {
        (bytes_to_border(self.offset) + PAGE_CHECKSUM_BYTES).min(self.left)
    }

    /// Bytes of whole units among the next `count` from the wire.
    fn whole_units(&self, count: usize) -> usize {
        if count >= self.left {
            return self.left;
        }
        match count.checked_sub(self.unit_wire_bytes()) {
            Some(behind) => count - behind % PAGE_WIRE_BYTES,
            None => 0,
        }
    }

    /// Whether the unit that had begun is whole and sound now.
    fn complete_begun(&mut self, batch: &mut Batch, sound: &mut Sound) -> bool {
        let length = self.unit_wire_bytes();
        while self.begun.len() < length
            && let Some(front) = batch.front()
        {
            let step = front.len().min(length - self.begun.len());
            self.begun.extend_from_slice(&front[..step]);
            batch.advance(step);
        }
        if self.begun.len() < length {
            return false;
        }
        let unit = std::mem::take(&mut self.begun);
        let Some((sum, data)) = unit.split_first_chunk::<PAGE_CHECKSUM_BYTES>() else {
            return false;
        };
        if checksum(data) != u32::from_be_bytes(*sum) {
            self.is_damaged = true;
            sound.damaged = Some(ByteRange::new(self.offset, self.offset + data.len() as u64));
            return false;
        }
        sound.batches.push(Batch::copied(data));
        self.offset += data.len() as u64;
        self.left -= length;
        true
    }

    fn check_whole(&mut self, mut batch: Batch, sound: &mut Sound) {
        let whole = batch.len();
        // That the units are whole was found before.
        let Some(mut decoder) = UnitDecoder::new(self.offset, whole) else {
            return;
        };
        let mut damaged = None;
        strip(&mut decoder, &mut batch, |unit, is_sound| {
            if !is_sound {
                damaged.get_or_insert(unit);
            }
        });
        if let Some(unit) = damaged {
            batch.truncate((unit.start - self.offset) as usize);
            self.is_damaged = true;
            self.begun = Vec::new();
        }
        sound.damaged = damaged;
        self.offset += batch.len() as u64;
        self.left -= whole;
        if !batch.is_empty() {
            sound.batches.push(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use xroot_wire::pages::encode_units;

    use super::*;

    fn pattern(length: usize) -> Vec<u8> {
        (0..length)
            .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
            .collect()
    }

    fn encoded(offset: u64, data: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        encode_units(offset, data, &mut wire);
        wire
    }

    /// A batch of `wire` in pieces that end at these places.
    fn pieces(wire: &[u8], ends: &[usize]) -> Batch {
        let mut buffer = crate::Buffer::large();
        let (mut ranges, mut from, mut at) = (Vec::new(), 0, 0);
        for &end in ends.iter().chain([&wire.len()]) {
            buffer[at..at + end - from].copy_from_slice(&wire[from..end]);
            ranges.push(at..at + end - from);
            // A gap, as between the payloads of records.
            at += end - from + 3;
            from = end;
        }
        Batch::new(buffer, ranges)
    }

    fn bytes(batches: &[Batch]) -> Vec<u8> {
        batches.iter().flat_map(Batch::slices).flatten().copied().collect()
    }

    /// Places to cut at: every one near a border, and some between.
    fn cuts(length: usize) -> impl Iterator<Item = usize> {
        (0..=length).filter(|cut| cut % 4100 < 12 || cut % 4100 > 4090 || cut % 331 == 0)
    }

    #[test]
    fn pages_cut_anywhere_come_out_as_their_data() {
        for (offset, length) in [(0, 9000), (4000, 200), (2048, 2048), (4095, 4098), (8192, 1)] {
            let data = pattern(length);
            let wire = encoded(offset, &data);
            for cut in cuts(wire.len()) {
                let mut pages = Pages::new(offset, wire.len()).unwrap();
                let mut batch = pieces(&wire, &[cut]);
                pages.strip(&mut batch);
                assert_eq!(bytes(&[batch]), data, "{length} at {offset}, pieces cut at {cut}");

                let mut pages = Pages::new(offset, wire.len()).unwrap();
                let mut batches = [pieces(&wire[..cut], &[]), pieces(&wire[cut..], &[])];
                batches.iter_mut().for_each(|batch| pages.strip(batch));
                assert_eq!(bytes(&batches), data, "{length} at {offset}, batches cut at {cut}");
                assert_eq!((pages.left_bytes(), pages.damaged()), (0, &[][..]));
            }
        }
    }

    #[test]
    fn a_damaged_page_is_named_and_its_data_kept() {
        let data = pattern(9000);
        let good = encoded(4000, &data);
        // The first unit is of 96 bytes: 100 on the wire.
        for (at, unit) in [
            (0, ByteRange::new(4000, 4096)),
            (99, ByteRange::new(4000, 4096)),
            (100, ByteRange::new(4096, 8192)),
            (4200, ByteRange::new(8192, 12288)),
            (good.len() - 1, ByteRange::new(12288, 13000)),
        ] {
            let mut wire = good.clone();
            wire[at] ^= 0x10;
            for cut in cuts(wire.len()) {
                let mut pages = Pages::new(4000, wire.len()).unwrap();
                let mut batches = [pieces(&wire[..cut], &[]), pieces(&wire[cut..], &[])];
                batches.iter_mut().for_each(|batch| pages.strip(batch));
                assert_eq!(bytes(&batches).len(), data.len());
                assert_eq!(pages.into_damaged(), [unit], "byte {at}, cut at {cut}");
            }
        }
    }

    #[test]
    fn damaged_pages_are_not_listed_without_end() {
        let mut wire = encoded(0, &pattern(60 * 4096));
        wire.chunks_mut(4100).for_each(|unit| unit[0] ^= 1);
        let mut pages = Pages::new(0, 3 * wire.len()).unwrap();
        for _ in 0..3 {
            pages.strip(&mut pieces(&wire, &[]));
        }
        assert_eq!(pages.damaged().len(), BAD_PAGES_MAX + 1);
    }

    #[test]
    fn sound_pages_come_out_whole_wherever_the_wire_is_cut() {
        for (offset, length) in [(0, 9000), (4000, 200), (4095, 4098), (8192, 1)] {
            let data = pattern(length);
            let wire = encoded(offset, &data);
            for cut in cuts(wire.len()) {
                let mut pages = SoundPages::new(offset, wire.len()).unwrap();
                let mut got = Vec::new();
                let middle = cut + (wire.len() - cut) / 2;
                for part in [&wire[..cut], &wire[cut..middle], &wire[middle..]] {
                    let inner = part.len() / 3;
                    let sound = pages.take(pieces(part, &[inner]));
                    assert!(sound.damaged.is_none() && sound.batches.iter().all(|batch| !batch.is_empty()));
                    got.extend(bytes(&sound.batches));
                    assert_eq!(pages.offset(), offset + got.len() as u64);
                }
                assert!(got == data, "{length} at {offset}, cut at {cut}");
            }
        }
    }

    #[test]
    fn nothing_of_a_damaged_page_is_handed_out_nor_anything_behind_it() {
        let data = pattern(20_000);
        let good = encoded(4000, &data);
        for at in [0, 50, 100, 4199, 4200, 9000, good.len() - 1] {
            let mut wire = good.clone();
            wire[at] ^= 1;
            let start = if at < 100 {
                4000
            } else {
                4096 * (1 + (at as u64 - 100) / 4100)
            };
            for cut in cuts(wire.len()) {
                let mut pages = SoundPages::new(4000, wire.len()).unwrap();
                let sounds = [&wire[..cut], &wire[cut..]].map(|part| pages.take(pieces(part, &[])));
                let damaged: Vec<_> = sounds.iter().filter_map(|sound| sound.damaged).collect();
                assert_eq!(damaged.len(), 1, "byte {at}, cut at {cut}");
                assert_eq!((damaged[0].start, pages.offset()), (start, start));
                let got: Vec<u8> = sounds.iter().flat_map(|sound| bytes(&sound.batches)).collect();
                assert!(got == data[..(start - 4000) as usize], "byte {at}, cut at {cut}");
            }
        }
    }

    #[test]
    fn lengths_that_are_no_whole_units_are_refused() {
        for (offset, length) in [(0, 4), (0, 4104), (4095, 9), (u64::MAX, 100)] {
            assert!(Pages::new(offset, length).is_none() && SoundPages::new(offset, length).is_none());
        }
        assert!(Pages::new(0, 0).is_some_and(|pages| pages.left_bytes() == 0));
    }
}
