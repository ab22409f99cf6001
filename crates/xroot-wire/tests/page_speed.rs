//! How fast the checksums of pages are computed. The numbers are printed (`cargo test -p xroot-wire
//! --release --test page_speed -- --nocapture`); the test itself only demands that they are right.

#![allow(clippy::print_stdout, reason = "the measured speed is what this test is for")]

use std::time::Instant;

use xroot_wire::limits::PAGE_BYTES;
use xroot_wire::pages;

/// Gigabytes per second of `work`, which takes `bytes` each time: the best of many rounds, since
/// other programs run on the machine, too.
fn rate(bytes: usize, rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    bytes as f64 / best / 1e9
}

#[test]
fn checksums_of_pages_are_right_and_their_speed_is_printed() {
    let rounds = if cfg!(debug_assertions) { 4 } else { 512 };
    for buffer_bytes in [256 * 1024, 8 * 1024 * 1024] {
        let data: Vec<u8> = (0..buffer_bytes).map(|at: usize| ((at * 31) >> 3) as u8).collect();
        let pieces: Vec<&[u8]> = data.chunks(256 * 1024 - 100).collect();
        let mut sums = Vec::new();
        let computed = rate(buffer_bytes, rounds, || {
            sums.clear();
            pages::unit_checksums(0, &pieces, &mut sums);
        });
        assert_eq!(sums.len(), buffer_bytes / PAGE_BYTES);
        let expected: Vec<u32> = data.chunks(PAGE_BYTES).map(pages::checksum).collect();
        assert_eq!(sums, expected);
        let mut damaged = Vec::new();
        let verified = rate(buffer_bytes, rounds, || {
            pages::verify_units(0, &pieces, &sums, &mut damaged)
        });
        assert!(damaged.is_empty());
        let mut encoded = Vec::new();
        pages::encode_units(0, &data, &mut encoded);
        let mut sound = 0;
        let decoded = rate(buffer_bytes, rounds, || sound += decode(&encoded));
        assert_eq!(sound, rounds * buffer_bytes / PAGE_BYTES);
        println!(
            "{} KiB: computed {computed:.1} GB/s, verified {verified:.1} GB/s, decoded {decoded:.1} GB/s",
            buffer_bytes / 1024
        );
    }
}

/// Decodes units and counts the sound ones.
fn decode(encoded: &[u8]) -> usize {
    let mut decoder = pages::UnitDecoder::new(0, encoded.len()).expect("whole units");
    let mut sound = 0;
    for mut piece in encoded.chunks(100_000) {
        while let Some(next) = decoder.next(&mut piece) {
            sound += usize::from(matches!(next, pages::Piece::UnitEnd { sound: true, .. }));
        }
    }
    // The end of the last unit needs no more input.
    while let Some(next) = decoder.next(&mut &[][..]) {
        sound += usize::from(matches!(next, pages::Piece::UnitEnd { sound: true, .. }));
    }
    assert!(decoder.is_done());
    sound
}
