//! The properties of a file or directory on another server, as a store says them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, UNIX_EPOCH};

use remote::Entry as RemoteEntry;
use storage::{Kind, Stat};

/// Mode bits of files, which servers do not tell.
pub const FILE_MODE: u32 = 0o644;
/// Mode bits of directories.
pub const DIRECTORY_MODE: u32 = 0o755;

/// What a server says of a name, as a store says it. A file of our servers has the entity tag that
/// it has there.
#[must_use]
pub fn stat(entry: &RemoteEntry) -> Stat {
    let seconds = entry.modified_s.unwrap_or(0);
    let since = Duration::from_secs(seconds.unsigned_abs());
    let own = entry.etag.as_deref().filter(|_| !entry.is_directory).and_then(of_tag);
    // With the tag that the node has, conditions hold at both.
    if let Some(own) = own.filter(|own| Some(own.size_bytes) == entry.size_bytes) {
        return own;
    }
    let mut identity = DefaultHasher::new();
    entry.etag.hash(&mut identity);
    entry.path.hash(&mut identity);
    Stat {
        kind: if entry.is_directory {
            Kind::Directory
        } else {
            Kind::File
        },
        size_bytes: entry.size_bytes.filter(|_| !entry.is_directory).unwrap_or(0),
        modified: if seconds < 0 {
            UNIX_EPOCH - since
        } else {
            UNIX_EPOCH + since
        },
        mode: if entry.is_directory { DIRECTORY_MODE } else { FILE_MODE },
        inode: identity.finish(),
    }
}

/// A file by its entity tag, as [`Stat::etag`] makes it; `None` for one of another maker.
fn of_tag(tag: &str) -> Option<Stat> {
    let tag = tag.strip_prefix('"')?.strip_suffix('"')?;
    let (size, rest) = tag.split_once('-')?;
    let (time, inode) = rest.split_once('-')?;
    let (seconds, nanoseconds) = time.split_once('.')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let seconds = number(seconds)?.cast_signed();
    let since = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds < 0 {
        true => UNIX_EPOCH.checked_sub(since)?,
        false => UNIX_EPOCH.checked_add(since)?,
    };
    let nanoseconds = Duration::from_nanos(number(nanoseconds)?);
    let known = Stat {
        kind: Kind::File,
        size_bytes: number(size)?,
        modified: second.checked_add(nanoseconds)?,
        mode: FILE_MODE,
        inode: number(inode)?,
    };
    (known.etag() == tag).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: &str) -> RemoteEntry {
        RemoteEntry {
            path: "/data/f".to_owned(),
            size_bytes: Some(7),
            modified_s: Some(1_700_000_000),
            etag: Some(tag.to_owned()),
            ..RemoteEntry::default()
        }
    }

    #[test]
    fn a_file_has_the_tag_that_its_node_gives_it() {
        let times = [
            UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789),
            UNIX_EPOCH - Duration::new(3, 1),
        ];
        for modified in times {
            let there = Stat {
                kind: Kind::File,
                size_bytes: 7,
                modified,
                mode: FILE_MODE,
                inode: 99,
            };
            assert_eq!(stat(&entry(&format!("\"{}\"", there.etag()))), there);
        }
    }

    #[test]
    fn a_tag_of_another_maker_makes_a_file_another_one() {
        // A size that contradicts, another form, overflow, and none.
        let too_large = "7-7fffffffffffffff.ffffffffffffffff-1";
        for tag in ["8-1.0-9", "7-1.00-9", "7-1-9", "W/\"7-1.0-9\"", "5f3a", too_large, ""] {
            let (seen, other) = (stat(&entry(&format!("\"{tag}\""))), stat(&entry("\"other\"")));
            assert_eq!(seen.size_bytes, 7);
            assert_eq!(seen.modified, UNIX_EPOCH + Duration::from_secs(1_700_000_000), "{tag}");
            assert_ne!(seen.inode, other.inode, "{tag}");
        }
    }
}
