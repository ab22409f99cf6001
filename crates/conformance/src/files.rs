//! Test data, its checksums computed independently of the server, and looking at what lies in an
//! export.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::run::run_with_input;

/// The server's own directory at the top of an export.
const HIDDEN: &str = ".crossload";
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// `size` bytes that look random and are the same for the same `seed`.
#[must_use]
pub fn bytes(size: usize, seed: u64) -> Vec<u8> {
    // xorshift64*: G. Marsaglia, "Xorshift RNGs", 2003.
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut data = Vec::with_capacity(size + 8);
    while data.len() < size {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        data.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    data.truncate(size);
    data
}

/// A number that no other call in this process gets.
#[must_use]
pub(crate) fn unique() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Adler-32 (RFC 1950 §8.2).
#[must_use]
pub fn adler32(data: &[u8]) -> u32 {
    let (mut low, mut high) = (1_u32, 0_u32);
    // 5552 is the longest run in which the sums cannot overflow.
    for run in data.chunks(5552) {
        for byte in run {
            low += u32::from(*byte);
            high += low;
        }
        low %= 65_521;
        high %= 65_521;
    }
    high << 16 | low
}

/// CRC-32C (RFC 3720 appendix B.4), bit by bit.
#[must_use]
pub fn crc32c(data: &[u8]) -> u32 {
    let mut sum = !0_u32;
    for byte in data {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0x82F6_3B78 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

/// MD5 by coreutils.
///
/// # Panics
/// When the program is missing.
#[must_use]
pub fn md5_of(data: &[u8]) -> Vec<u8> {
    digest("md5sum", data)
}

/// SHA-256 by coreutils.
///
/// # Panics
/// When the program is missing.
#[must_use]
pub fn sha256_of(data: &[u8]) -> Vec<u8> {
    digest("sha256sum", data)
}

fn digest(program: &str, data: &[u8]) -> Vec<u8> {
    let text = run_with_input(&Command::new(program), data).succeeded().text();
    let digits = text.split_whitespace().next().expect("the digest comes first");
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal digits"))
        .collect()
}

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Base64 with padding.
#[must_use]
pub fn base64_of(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// True when the file holds exactly `data`.
#[must_use]
pub fn is_whole(path: &Path, data: &[u8]) -> bool {
    fs::read(path).is_ok_and(|found| found == data)
}

/// Writes files of several sizes into a tree below `directory`, with names that need care in URLs,
/// XML or shells.
///
/// # Panics
/// When they cannot be written.
pub fn put_tree(directory: &Path, names: &[&str]) {
    for (index, name) in names.iter().enumerate() {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("directories");
        let size = [0, 1, 4095, 70_000, 300_001][index % 5];
        fs::write(path, bytes(size, index as u64 + 1)).expect("file");
    }
}

/// All files below `directory`, the server's own left out, by relative name and sorted, with their
/// content.
#[must_use]
pub fn tree(directory: &Path) -> Vec<(String, Vec<u8>)> {
    visible(directory)
        .into_iter()
        .map(|name| {
            let content = fs::read(directory.join(&name)).unwrap_or_default();
            (name, content)
        })
        .collect()
}

/// The relative names of all files below `directory`, the server's own left out, sorted.
#[must_use]
pub fn visible(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = walk(directory)
        .iter()
        .filter_map(|path| path.strip_prefix(directory).ok())
        .filter(|path| !path.starts_with(HIDDEN))
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The server's own files below `directory` that are no locks: parts of uploads, and what tells
/// where others are.
#[must_use]
pub fn parts(directory: &Path) -> Vec<PathBuf> {
    walk(&directory.join(HIDDEN))
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name != "lock"))
        .collect()
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Waits until `condition` holds and says how long it took.
///
/// # Panics
/// With `what` when it does not hold within `limit`.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not {what} within {limit:?}");
        thread::sleep(POLL_INTERVAL);
    }
    start.elapsed()
}

/// Whether a file system is mounted there.
#[must_use]
pub fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let point = point.to_string_lossy();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(&point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_the_standards() {
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
        // RFC 3720 appendix B.4: 32 bytes of zeroes.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(hex(&md5_of(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert!(hex(&sha256_of(b"")).starts_with("e3b0c44298fc1c149afbf4c8996fb924"));
    }

    #[test]
    fn data_depends_on_the_seed_only() {
        assert_eq!(bytes(1000, 7), bytes(1000, 7));
        assert_ne!(bytes(1000, 7), bytes(1000, 8));
        assert_eq!(bytes(13, 1).len(), 13);
    }
}
