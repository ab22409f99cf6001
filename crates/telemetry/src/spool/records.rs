//! Packets as they lie in a file: length, checksum and bytes.

use std::io;

/// The longest packet: more than a datagram holds.
const PACKET_BYTES_MAX: usize = 64 * 1024;
/// Length and checksum of a packet.
pub(super) const HEAD_BYTES: usize = 8;
/// The longest packet with its head. Pieces of a file are longer.
const RECORD_BYTES_MAX: usize = HEAD_BYTES + PACKET_BYTES_MAX;

/// What a piece of a file begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Whole packets, in order.
    Packets(Vec<Vec<u8>>),
    /// So many bytes that are no packet.
    Damage {
        bytes: u64,
        /// How many packets they were, at least.
        packets: u64,
    },
}

/// A packet as it is written.
///
/// # Errors
/// It is empty or too long.
pub(super) fn record(packet: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(packet.len()).ok().filter(|length| *length > 0);
    let length = length.filter(|_| packet.len() <= PACKET_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("the packet is empty or too long"))?;
    let mut record = Vec::with_capacity(HEAD_BYTES + packet.len());
    record.extend(length.to_be_bytes());
    record.extend(crc_fast::crc32_iscsi(packet).to_be_bytes());
    record.extend(packet);
    Ok(record)
}

/// What a piece begins with. `is_last`: nothing follows it in its file.
pub(super) fn piece(bytes: &[u8], is_last: bool) -> Piece {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some(packet) = first(rest) {
        found.push(packet.to_vec());
        rest = &rest[HEAD_BYTES + packet.len()..];
    }
    match found.is_empty() {
        true => damage(bytes, is_last),
        false => Piece::Packets(found),
    }
}

/// The damage at the beginning of a piece ends where a whole packet begins.
fn damage(bytes: &[u8], is_last: bool) -> Piece {
    // A packet that begins behind this may be cut off by the end of the piece.
    let searched = match is_last {
        true => bytes.len(),
        false => bytes.len().saturating_sub(RECORD_BYTES_MAX - 1).max(1),
    };
    let next = (1..searched).find(|start| first(&bytes[*start..]).is_some());
    let damaged = &bytes[..next.unwrap_or(searched).min(bytes.len())];
    Piece::Damage {
        bytes: damaged.len() as u64,
        packets: packets_of(damaged),
    }
}

/// The whole packet at the beginning of some bytes.
fn first(bytes: &[u8]) -> Option<&[u8]> {
    let length = length(bytes)?;
    let (sum, after) = bytes.get(4..)?.split_first_chunk::<4>()?;
    let packet = after.get(..length)?;
    (crc_fast::crc32_iscsi(packet) == u32::from_be_bytes(*sum)).then_some(packet)
}

/// The length of the packet at the beginning, if it can be one.
fn length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*bytes.first_chunk::<4>()?);
    let length = usize::try_from(length).ok()?;
    (1..=PACKET_BYTES_MAX).contains(&length).then_some(length)
}

/// How many packets damaged bytes were, if their lengths lead to the end; otherwise one.
fn packets_of(damaged: &[u8]) -> u64 {
    let (mut count, mut rest) = (0, damaged);
    while let Some(after) = length(rest).and_then(|length| rest.get(HEAD_BYTES + length..)) {
        count += 1;
        rest = after;
    }
    match rest.is_empty() {
        true => count,
        false => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(packets: &[&[u8]]) -> Vec<u8> {
        packets.iter().flat_map(|packet| record(packet).unwrap()).collect()
    }

    #[test]
    fn damage_ends_where_the_next_packet_begins() {
        let whole = file(&[b"first", b"second", b"third"]);
        let all = [&b"first"[..], b"second", b"third"].map(<[u8]>::to_vec);
        assert_eq!(piece(&whole, true), Piece::Packets(all.to_vec()));
        let (first_bytes, second_bytes) = (HEAD_BYTES + 5, HEAD_BYTES + 6);
        for at in 0..first_bytes {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            let Piece::Damage { bytes, packets } = piece(&flipped, true) else {
                panic!("byte {at} is not missed");
            };
            assert_eq!((bytes, packets), (first_bytes as u64, 1), "byte {at}");
        }
        // Two that lie side by side are two.
        let mut flipped = whole.clone();
        flipped[HEAD_BYTES] ^= 1;
        flipped[first_bytes + HEAD_BYTES] ^= 1;
        let bytes = (first_bytes + second_bytes) as u64;
        assert_eq!(piece(&flipped, true), Piece::Damage { bytes, packets: 2 });
    }

    #[test]
    fn what_follows_a_piece_is_not_judged_by_it() {
        let torn = &file(&[b"packet"])[..10];
        assert_eq!(piece(torn, true), Piece::Damage { bytes: 10, packets: 1 });
        // Zeros, and a packet that the end of the piece cuts off.
        let zeros = vec![0; 2 * RECORD_BYTES_MAX];
        let Piece::Damage { bytes, .. } = piece(&zeros, false) else {
            panic!("zeros are no packets");
        };
        assert_eq!(bytes, (RECORD_BYTES_MAX + 1) as u64);
        assert_eq!(
            piece(&[], true),
            Piece::Damage { bytes: 0, packets: 0 },
            "nothing is nothing"
        );
    }
}
