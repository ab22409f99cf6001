//! Packets on disk: what survives, and what makes room.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use telemetry::Spool;

const LIMIT_BYTES: u64 = 1 << 20;

fn packet(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[7; 1000]].concat()
}

fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(*packet.first_chunk().expect("a number"))
}

fn open(directory: &Path) -> Spool {
    Spool::open(directory, LIMIT_BYTES).expect("a spool")
}

fn append(spool: &mut Spool, numbers: std::ops::Range<u32>) {
    for number in numbers {
        spool.append(&packet(number)).expect("appended");
    }
}

/// Takes and confirms all packets.
fn drain(spool: &mut Spool) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(spooled) = spool.oldest().expect("read") {
        numbers.extend(spooled.packets.iter().map(|packet| number(packet)));
        spool.confirm(&spooled).expect("noted");
    }
    numbers
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "packets"))
        .collect();
    files.sort();
    files
}

#[test]
fn packets_come_in_order_and_again_until_they_are_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..300);
    let first = spool.oldest().unwrap().unwrap();
    assert_eq!(spool.oldest().unwrap().unwrap(), first, "not confirmed");
    spool.confirm(&first).unwrap();
    let count = u32::try_from(first.packets.len()).unwrap();
    assert!(count > 1 && count < 300, "{count}");
    // The process is killed.
    drop(spool);
    let mut spool = open(directory.path());
    append(&mut spool, 300..310);
    assert_eq!(drain(&mut spool), (count..310).collect::<Vec<_>>());
    assert_eq!((spool.waiting_bytes(), spool.lost()), (0, 0));
    assert_eq!(files(directory.path()).len(), 1, "the others were removed");
    append(&mut spool, 310..311);
    assert_eq!(drain(&mut spool), [310]);
}

#[test]
fn at_the_limit_the_oldest_are_dropped_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..3000);
    let held: u64 = files(directory.path())
        .iter()
        .map(|file| file.metadata().unwrap().len())
        .sum();
    assert!(held <= LIMIT_BYTES && held > LIMIT_BYTES / 2, "{held}");
    let lost = u32::try_from(spool.lost()).unwrap();
    assert!(lost > 1500, "{lost}");
    assert_eq!(drain(&mut spool), (lost..3000).collect::<Vec<_>>());
}

#[test]
fn packets_that_made_room_while_they_were_sent_are_not_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..10);
    let sent = spool.oldest().unwrap().unwrap();
    append(&mut spool, 10..3000);
    spool.confirm(&sent).unwrap();
    let numbers = drain(&mut spool);
    assert_eq!(numbers.len() as u64 + spool.lost(), 3000);
    assert_eq!(numbers.last(), Some(&2999));
}

#[test]
fn what_a_crash_tore_is_skipped_and_all_else_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..3);
    drop(spool);
    let torn = &files(directory.path())[0];
    let mut file = OpenOptions::new().append(true).open(torn).unwrap();
    file.write_all(&[0, 0, 4, 0, 1, 2]).unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 3..6);
    assert_eq!(drain(&mut spool), [0, 1, 2, 3, 4, 5]);
    assert_eq!(spool.lost(), 1);
}

#[test]
fn a_damaged_file_costs_no_other_and_a_damaged_place_sends_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..200);
    assert!(files(directory.path()).len() > 2);
    drop(spool);
    let second = &files(directory.path())[1];
    let mut bytes = std::fs::read(second).unwrap();
    bytes[3] ^= 0xff;
    std::fs::write(second, &bytes).unwrap();
    std::fs::write(directory.path().join("confirmed"), "nonsense that is long enough").unwrap();
    let mut spool = open(directory.path());
    let numbers = drain(&mut spool);
    assert_eq!((numbers.first(), numbers.last()), (Some(&0), Some(&199)));
    assert!(numbers.len() > 100, "{}", numbers.len());
    assert_eq!(spool.lost(), 1);
}

#[test]
fn one_process_uses_a_spool() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path());
    let error = Spool::open(directory.path(), LIMIT_BYTES).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    drop(first);
    drop(open(directory.path()));
}

#[test]
fn a_packet_that_is_too_long_is_lost_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    spool.append(&[0; 100_000]).unwrap_err();
    spool.append(&[]).unwrap_err();
    append(&mut spool, 0..1);
    assert_eq!((drain(&mut spool), spool.lost()), (vec![0], 2));
}
