//! Checksums stored with a file, in extended attributes.
//!
//! They are written in two formats. XRootD's own (`user.XrdCks.<algorithm>`, 96 bytes) lets XRootD
//! servers over the same files use our values, and us theirs. Ours (`user.crossload.digest`) binds
//! the values to size and modification time in nanoseconds, where XRootD's has whole seconds only.
//! On a file system without such attributes nothing is stored.

use std::os::fd::BorrowedFd;
use std::time::SystemTime;

use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
use types::{Checksum, ChecksumAlgorithm};

use crate::api::{Stat, seconds_and_nanoseconds};

const OWN_NAME: &str = "user.crossload.digest";
const OWN_BYTES_MAX: usize = 1024;
const XROOTD_BYTES: usize = 96;

fn xrootd_algorithm(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Sha256 => "sha256",
        other => other.name(),
    }
}

fn xrootd_name(algorithm: ChecksumAlgorithm) -> String {
    format!("user.XrdCks.{}", xrootd_algorithm(algorithm))
}

/// XRootD's record: name (16 bytes), the file's modification time in seconds (8), seconds from then
/// to the computation (4), reserved (3), length of the value (1), value (64); numbers are
/// big-endian.
fn encode_xrootd(checksum: &Checksum, modified: SystemTime, now: SystemTime) -> [u8; XROOTD_BYTES] {
    let mut record = [0; XROOTD_BYTES];
    let name = xrootd_algorithm(checksum.algorithm()).as_bytes();
    let seconds = seconds_and_nanoseconds(modified).0;
    let delay = i32::try_from(seconds_and_nanoseconds(now).0 - seconds).unwrap_or(0);
    let value = checksum.value();
    record[..name.len()].copy_from_slice(name);
    record[16..24].copy_from_slice(&seconds.to_be_bytes());
    record[24..28].copy_from_slice(&delay.to_be_bytes());
    record[31] = value.len() as u8;
    record[32..32 + value.len()].copy_from_slice(value);
    record
}

fn decode_xrootd(algorithm: ChecksumAlgorithm, record: &[u8], modified: SystemTime) -> Option<Checksum> {
    let name = xrootd_algorithm(algorithm).as_bytes();
    let fits = record.len() == XROOTD_BYTES
        && record.starts_with(name)
        && record[name.len()] == 0
        && record[16..24] == seconds_and_nanoseconds(modified).0.to_be_bytes()
        && usize::from(record[31]) == algorithm.value_bytes();
    fits.then(|| Checksum::new(algorithm, &record[32..32 + algorithm.value_bytes()]))
        .flatten()
}

/// Our record: `size=… mtime=SECONDS.NANOSECONDS` and one `algorithm:hex` for each value.
struct Own {
    size_bytes: u64,
    modified: (i64, u32),
    checksums: Vec<Checksum>,
}

impl Own {
    fn encode(&self) -> String {
        let (seconds, nanoseconds) = self.modified;
        let mut text = format!("size={} mtime={seconds}.{nanoseconds:09}", self.size_bytes);
        for checksum in &self.checksums {
            text.push_str(&format!(" {checksum}"));
        }
        text
    }

    fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let size_bytes = words.next()?.strip_prefix("size=")?.parse().ok()?;
        let (seconds, nanoseconds) = words.next()?.strip_prefix("mtime=")?.split_once('.')?;
        let modified = (seconds.parse().ok()?, nanoseconds.parse().ok()?);
        Some(Self {
            size_bytes,
            modified,
            checksums: words.filter_map(Checksum::from_pair).collect(),
        })
    }

    fn of(stat: &Stat, checksums: Vec<Checksum>) -> Self {
        Self {
            size_bytes: stat.size_bytes,
            modified: seconds_and_nanoseconds(stat.modified),
            checksums,
        }
    }

    fn is_of(&self, stat: &Stat) -> bool {
        self.size_bytes == stat.size_bytes && self.modified == seconds_and_nanoseconds(stat.modified)
    }
}

fn read_attribute(file: BorrowedFd<'_>, name: &str, buffer: &mut [u8]) -> Option<usize> {
    fgetxattr(file, name, buffer).ok()
}

fn read_own(file: BorrowedFd<'_>) -> Option<Own> {
    let mut buffer = [0; OWN_BYTES_MAX];
    let length = read_attribute(file, OWN_NAME, &mut buffer)?;
    Own::decode(std::str::from_utf8(&buffer[..length]).ok()?)
}

/// The checksums that are still valid for the file in state `stat`.
pub(super) fn read(file: BorrowedFd<'_>, stat: &Stat) -> Vec<Checksum> {
    let mut checksums = Vec::new();
    if let Some(own) = read_own(file) {
        let same_second = own.modified.0 == seconds_and_nanoseconds(stat.modified).0;
        if own.is_of(stat) {
            checksums = own.checksums;
        } else if same_second {
            // The file changed within the second of our record: XRootD's timestamp cannot tell
            // either.
            return checksums;
        }
    }
    for algorithm in ChecksumAlgorithm::ALL {
        let mut record = [0; XROOTD_BYTES];
        if checksums.iter().all(|have| have.algorithm() != algorithm)
            && let Some(length) = read_attribute(file, &xrootd_name(algorithm), &mut record)
            && let Some(checksum) = decode_xrootd(algorithm, &record[..length], stat.modified)
        {
            checksums.push(checksum);
        }
    }
    checksums
}

/// Stores checksums of the file in state `stat`, beside valid ones that are already stored. Returns
/// whether it worked: a file system may store no attributes, or deny us access.
pub(super) fn write(file: BorrowedFd<'_>, stat: &Stat, checksums: &[Checksum]) -> bool {
    if checksums.is_empty() {
        return true;
    }
    let mut all = read_own(file)
        .filter(|own| own.is_of(stat))
        .map(|own| own.checksums)
        .unwrap_or_default();
    all.retain(|old| checksums.iter().all(|new| new.algorithm() != old.algorithm()));
    all.extend_from_slice(checksums);
    write_records(file, stat, all, checksums)
}

/// The same for a file that has none yet.
pub(super) fn write_first(file: BorrowedFd<'_>, stat: &Stat, checksums: &[Checksum]) -> bool {
    checksums.is_empty() || write_records(file, stat, checksums.to_vec(), checksums)
}

/// Writes `all` to our record, and each of the `new` ones to XRootD's.
fn write_records(file: BorrowedFd<'_>, stat: &Stat, all: Vec<Checksum>, new: &[Checksum]) -> bool {
    let own = Own::of(stat, all).encode();
    let is_written = fsetxattr(file, OWN_NAME, own.as_bytes(), XattrFlags::empty()).is_ok();
    for checksum in new {
        let record = encode_xrootd(checksum, stat.modified, SystemTime::now());
        let _ = fsetxattr(file, xrootd_name(checksum.algorithm()), &record, XattrFlags::empty());
    }
    is_written
}

/// Removes all of them, because the file is about to change.
pub(super) fn remove(file: BorrowedFd<'_>) {
    // What does not exist need not be removed.
    let _ = fremovexattr(file, OWN_NAME);
    for algorithm in ChecksumAlgorithm::ALL {
        let _ = fremovexattr(file, xrootd_name(algorithm));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// What XRootD 5.5.3 wrote for a file of `hello checksum world\n` changed at 1795297847, 634
    /// seconds later.
    fn recorded() -> [u8; XROOTD_BYTES] {
        let mut record = [0; XROOTD_BYTES];
        record[..32].copy_from_slice(&[
            0x61, 0x64, 0x6c, 0x65, 0x72, 0x33, 0x32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x6b, 0x02, 0x12, 0x37, 0,
            0, 0x02, 0x7a, 0, 0, 0, 4,
        ]);
        record[32..36].copy_from_slice(&[0x59, 0x0d, 0x07, 0xda]);
        record
    }

    #[test]
    fn xrootds_own_record_is_read_and_written_to_the_byte() {
        let modified = UNIX_EPOCH + Duration::new(1_795_297_847, 650_709_177);
        let checksum = Checksum::adler32(0x590d_07da);
        let read = decode_xrootd(ChecksumAlgorithm::Adler32, &recorded(), modified);
        assert_eq!(read, Some(checksum.clone()));
        assert_eq!(
            encode_xrootd(&checksum, modified, modified + Duration::from_secs(634)),
            recorded()
        );
    }

    #[test]
    fn a_record_with_another_second_name_or_length_is_ignored() {
        let modified = UNIX_EPOCH + Duration::from_secs(1_795_297_847);
        let algorithm = ChecksumAlgorithm::Adler32;
        assert_eq!(
            decode_xrootd(algorithm, &recorded(), modified + Duration::from_secs(1)),
            None
        );
        assert_eq!(decode_xrootd(ChecksumAlgorithm::Crc32c, &recorded(), modified), None);
        assert_eq!(decode_xrootd(algorithm, &recorded()[..95], modified), None);
        let mut long = recorded();
        long[31] = 5;
        assert_eq!(decode_xrootd(algorithm, &long, modified), None);
    }

    #[test]
    fn our_own_record_survives_writing_and_reading() {
        let own = Own {
            size_bytes: 7,
            modified: (5, 42),
            checksums: vec![Checksum::adler32(9), Checksum::crc32c(8)],
        };
        assert_eq!(
            own.encode(),
            "size=7 mtime=5.000000042 adler32:00000009 crc32c:00000008"
        );
        let read = Own::decode(&own.encode()).unwrap();
        assert_eq!(
            (read.size_bytes, read.modified, read.checksums),
            (7, (5, 42), own.checksums)
        );
        assert!(Own::decode("size=7").is_none());
    }
}
