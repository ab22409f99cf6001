//! The properties of files and directories.

use std::time::{SystemTime, UNIX_EPOCH};

/// Whether a name is a file or a directory. Nothing else is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// The longest entity tag: three 64-bit numbers, the nanoseconds in 32 bits, and the separators.
const TAG_BYTES_MAX: usize = 3 * 16 + 8 + 3;

/// The properties of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File or directory.
    pub kind: Kind,
    /// Size of a file in bytes; 0 for a directory.
    pub size_bytes: u64,
    /// Last change of the content, in nanoseconds if the store records them.
    pub modified: SystemTime,
    /// Permission bits (`0o777` and below).
    pub mode: u32,
    /// Identity of the file within the store. A new file with the same name has another identity.
    pub inode: u64,
}

impl Stat {
    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// A strong validator without its quotes (RFC 9110 §8.8.3), made from size, modification time
    /// and identity. An overwriting rename changes all three.
    #[must_use]
    pub fn etag(&self) -> String {
        let mut tag = String::new();
        self.push_etag(&mut tag);
        tag
    }

    /// Appends the entity tag to `out`.
    pub fn push_etag(&self, out: &mut String) {
        let (seconds, nanoseconds) = seconds_and_nanoseconds(self.modified);
        let mut text = [0; TAG_BYTES_MAX];
        let mut start = text.len();
        start = put_hex(&mut text, start, self.inode);
        start = put_before(&mut text, start, b'-');
        start = put_hex(&mut text, start, nanoseconds.into());
        start = put_before(&mut text, start, b'.');
        start = put_hex(&mut text, start, seconds.cast_unsigned());
        start = put_before(&mut text, start, b'-');
        start = put_hex(&mut text, start, self.size_bytes);
        // It contains only ASCII.
        out.push_str(std::str::from_utf8(&text[start..]).unwrap_or_default());
    }

    /// Whether `other` has the same content: same size, modification time and identity.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        (self.size_bytes, self.modified, self.inode) == (other.size_bytes, other.modified, other.inode)
    }
}

/// Seconds since the epoch (negative before it), and the nanoseconds after that second.
pub(crate) fn seconds_and_nanoseconds(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => (-(before.as_secs() as i64), 0),
                nanoseconds => (-(before.as_secs() as i64) - 1, 1_000_000_000 - nanoseconds),
            }
        }
    }
}

/// Writes lower-case hexadecimal digits without leading zeros before `end`; returns their start.
/// Tags are built from the end, because a listing has thousands of them.
fn put_hex(text: &mut [u8; TAG_BYTES_MAX], end: usize, mut value: u64) -> usize {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut start = end;
    loop {
        start = put_before(text, start, DIGITS[(value % 16) as usize]);
        value /= 16;
        if value == 0 {
            return start;
        }
    }
}

fn put_before(text: &mut [u8; TAG_BYTES_MAX], end: usize, byte: u8) -> usize {
    text[end - 1] = byte;
    end - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 1, 15, 16, 0x6b03_34ee, u64::MAX >> 4, u64::MAX] {
            let mut text = [b'x'; TAG_BYTES_MAX];
            let end = TAG_BYTES_MAX - 1;
            let start = put_hex(&mut text, end, number);
            assert_eq!(text[start..end], *format!("{number:x}").as_bytes());
            assert_eq!((text[start - 1], text[end]), (b'x', b'x'), "nothing beside it");
        }
    }

    #[test]
    fn times_before_the_epoch_keep_their_nanoseconds_above_the_second() {
        assert_eq!(seconds_and_nanoseconds(UNIX_EPOCH + Duration::new(5, 7)), (5, 7));
        assert_eq!(seconds_and_nanoseconds(UNIX_EPOCH - Duration::new(5, 0)), (-5, 0));
        assert_eq!(
            seconds_and_nanoseconds(UNIX_EPOCH - Duration::new(4, 1)),
            (-5, 999_999_999)
        );
    }

    #[test]
    fn the_validator_changes_with_size_time_and_identity() {
        let stat = Stat {
            kind: Kind::File,
            size_bytes: 1,
            modified: UNIX_EPOCH,
            mode: 0o644,
            inode: 9,
        };
        let others = [
            Stat {
                size_bytes: 2,
                ..stat.clone()
            },
            Stat {
                modified: UNIX_EPOCH + Duration::from_nanos(1),
                ..stat.clone()
            },
            Stat {
                inode: 10,
                ..stat.clone()
            },
        ];
        for other in others {
            assert_ne!(stat.etag(), other.etag());
            assert!(!stat.same_content(&other));
        }
        let old = Stat {
            modified: UNIX_EPOCH - Duration::from_secs(1),
            inode: 0xabc,
            ..stat.clone()
        };
        assert_eq!(
            (stat.etag(), old.etag()),
            ("1-0.0-9".to_owned(), format!("1-{:x}.0-abc", -1_i64))
        );
        assert_eq!(
            stat.etag(),
            Stat {
                mode: 0o600,
                ..stat.clone()
            }
            .etag()
        );
    }
    #[test]
    fn the_longest_validator_fits() {
        let stat = Stat {
            kind: Kind::File,
            size_bytes: u64::MAX,
            modified: UNIX_EPOCH - Duration::from_nanos(1),
            mode: 0,
            inode: u64::MAX,
        };
        let ones = "f".repeat(16);
        assert_eq!(stat.etag(), format!("{ones}-{ones}.3b9ac9ff-{ones}"));
        let mut tag = "\"".to_owned();
        stat.push_etag(&mut tag);
        assert_eq!(tag, format!("\"{}", stat.etag()));
    }
}
