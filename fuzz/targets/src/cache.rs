//! Targets for the files of a cache: what a crash or a failing disk may leave there.

use ::cache::layout::{ENTRY_BYTES, Entry, Header, decode_entry, encode_entry};
use ::cache::limits::BLOCK_BYTES;

/// Pieces of headers.
pub(crate) const WORDS: &[&str] = &["CrossBl1", "directory /srv", "/a/b", "\0\0\0\0", "\x09\0\x04\0"];

/// A header that is read is written as the same, and its parts lie one behind the other. The bytes
/// are also tried with a fitting length and checksum, which no mutation would find.
pub(crate) fn header(data: &[u8]) {
    check_header(data);
    let mut fitting = data.to_vec();
    let length = u32::try_from(data.len() + 4).expect("a short input");
    if let Some(place) = fitting.get_mut(8..12) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    fitting.extend_from_slice(&crc_fast::crc32_iscsi(&fitting).to_le_bytes());
    check_header(&fitting);
    entry(data);
}

fn check_header(data: &[u8]) {
    let Some(header) = Header::decode(data) else { return };
    let written = header.encode().expect("what was read can be written");
    assert!(data.starts_with(&written));
    let places = header.places();
    let blocks = places.blocks();
    assert!(places.entry(0) == written.len() as u64 && places.entry(blocks) <= places.byte(0));
    let last = (0..blocks)
        .next_back()
        .map_or(0, |block| block * BLOCK_BYTES + places.block_bytes(block));
    assert_eq!(last, header.version.size_bytes);
}

/// An entry counts only for its own file and block.
fn entry(data: &[u8]) {
    let Some(bytes) = data.first_chunk::<ENTRY_BYTES>() else {
        return;
    };
    if let Entry::Stored(sums) = decode_entry(1, 2, bytes) {
        assert_eq!(encode_entry(1, 2, &sums), *bytes);
        assert_eq!(decode_entry(1, 3, bytes), Entry::Damaged);
    }
}
