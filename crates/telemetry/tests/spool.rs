//! Packets on disk: what survives, and what makes room.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use telemetry::{SPOOL_READ_TRIES, Spool};

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
        spool.confirm(&spooled, spooled.packets.len()).expect("noted");
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
    spool.confirm(&first, first.packets.len()).unwrap();
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
    spool.confirm(&sent, sent.packets.len()).unwrap();
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
    assert_eq!((numbers.len(), spool.lost()), (199, 1), "one packet is lost alone");
    let damage = spool.take_damage().expect("words");
    assert!(damage.contains("is damaged at byte 0"), "{damage}");
    assert_eq!(spool.take_damage(), None, "once");
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

#[test]
fn packets_are_confirmed_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..10);
    let sent = spool.oldest().unwrap().unwrap();
    spool.confirm(&sent, 0).unwrap();
    spool.confirm(&sent, 3).unwrap();
    spool.confirm(&sent, 4).unwrap();
    // Fewer than before take nothing back.
    spool.confirm(&sent, 2).unwrap();
    drop(spool);
    let mut spool = open(directory.path());
    assert_eq!(drain(&mut spool), (4..10).collect::<Vec<_>>());
    assert_eq!(spool.lost(), 0);
}

#[test]
fn a_file_that_others_remove_costs_what_was_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..10);
    let sent = spool.oldest().unwrap().unwrap();
    spool.confirm(&sent, 4).unwrap();
    std::fs::remove_file(&files(directory.path())[0]).unwrap();
    append(&mut spool, 10..20);
    assert_eq!(drain(&mut spool), (10..20).collect::<Vec<_>>());
    assert_eq!(spool.lost(), 6, "those that were not confirmed");
    let damage = spool.take_damage().expect("words");
    assert!(damage.contains("was removed by another program"), "{damage}");
    // One that holds nothing any more costs nothing.
    for file in files(directory.path()) {
        std::fs::remove_file(file).unwrap();
    }
    append(&mut spool, 20..30);
    assert_eq!((drain(&mut spool), spool.lost()), ((20..30).collect::<Vec<_>>(), 6));
}

#[test]
fn a_directory_that_others_remove_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("spool");
    let mut spool = open(&place);
    append(&mut spool, 0..10);
    std::fs::remove_dir_all(&place).unwrap();
    append(&mut spool, 10..20);
    // Once more, with nothing but the small files.
    std::fs::remove_file(place.join("confirmed")).unwrap();
    assert_eq!((drain(&mut spool), spool.lost()), ((10..20).collect::<Vec<_>>(), 10));
    drop(spool);
    let mut spool = open(&place);
    assert_eq!(drain(&mut spool), Vec::<u32>::new(), "the place is on disk again");
    let error = Spool::open(&place, LIMIT_BYTES).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
}

#[test]
fn a_file_that_others_cut_off_or_continue_takes_no_more_packets() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..10);
    let first = OpenOptions::new()
        .write(true)
        .open(&files(directory.path())[0])
        .unwrap();
    // The fifth is torn, and the others are gone.
    first.set_len(4 * 1012 + 100).unwrap();
    append(&mut spool, 10..12);
    let mut second = OpenOptions::new()
        .append(true)
        .open(&files(directory.path())[1])
        .unwrap();
    second.write_all(b"of another program").unwrap();
    append(&mut spool, 12..20);
    let expected: Vec<u32> = (0..4).chain(10..20).collect();
    assert_eq!((drain(&mut spool), spool.lost()), (expected, 6));
}

#[test]
fn a_file_that_cannot_be_read_is_put_aside_after_some_tries() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..10);
    drop(spool);
    let mut spool = open(directory.path());
    append(&mut spool, 10..20);
    // A directory cannot be read as a file, not even by root.
    let first = &files(directory.path())[0];
    std::fs::remove_file(first).unwrap();
    std::fs::create_dir(first).unwrap();
    for _ in 1..SPOOL_READ_TRIES {
        spool.oldest().unwrap_err();
    }
    assert_eq!(drain(&mut spool), (10..20).collect::<Vec<_>>());
    assert!(spool.lost() > 0);
    assert!(first.with_extension("unreadable").exists());
    let damage = spool.take_damage().expect("words");
    assert!(damage.contains("was put aside"), "{damage}");
}

#[test]
fn what_has_the_name_of_a_file_and_is_none_disturbs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let named = |name: &str| directory.path().join(name);
    std::fs::create_dir(named("00000000000000000001.packets")).unwrap();
    std::os::unix::fs::symlink("nowhere", named("00000000000000000002.packets")).unwrap();
    for name in ["18446744073709551615.packets", "3.packets", "+4.packets"] {
        std::fs::write(named(name), b"").unwrap();
    }
    let mut spool = open(directory.path());
    append(&mut spool, 0..10);
    assert_eq!((drain(&mut spool), spool.lost()), ((0..10).collect::<Vec<_>>(), 0));
    assert!(named("3.packets").exists());
}

/// Makes each write beyond so many bytes of a file fail, as a full disk does, in a process of its
/// own: the limit holds for all threads.
#[test]
fn a_full_disk_gets_back_what_was_confirmed() {
    const NAME: &str = "a_full_disk_gets_back_what_was_confirmed";
    if std::env::var_os("SPOOL_IS_LIMITED").is_none() {
        let test = std::env::current_exe().unwrap();
        // In blocks of 1 KiB. The signal of the limit would end the process.
        let limited = format!("ulimit -f 20; trap '' XFSZ; exec {test:?} --exact {NAME} --nocapture");
        let mut shell = std::process::Command::new("bash");
        let run = shell.args(["-c", &limited]).env("SPOOL_IS_LIMITED", "1").output();
        let run = run.expect("bash");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    append(&mut spool, 0..20);
    spool.append(&packet(20)).expect_err("it is full");
    spool.append(&packet(21)).expect_err("it stays full");
    assert_eq!(spool.lost(), 2);
    assert_eq!(drain(&mut spool), (0..20).collect::<Vec<_>>());
    append(&mut spool, 22..42);
    assert_eq!((drain(&mut spool), spool.lost()), ((22..42).collect::<Vec<_>>(), 2));
    assert_eq!(files(directory.path()).len(), 1);
}
