//! How much room the writable exports have; file systems that several of them share count once.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use storage::Space;

use crate::server::exported::Disk;

/// Free and total bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

/// What is known of one writable export.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The file system.
    device: u64,
    /// All of that file system.
    whole: Room,
    /// What its exports may use, each.
    space: Space,
}

/// The room of these exports. One that cannot be looked at has none.
pub(crate) async fn room_of(disks: &[Disk]) -> Room {
    let mut parts = Vec::new();
    for disk in disks {
        let directory = disk.directory.clone();
        let file_system = execution::blocking(move || file_system(&directory)).await;
        if let (Ok(Some((device, whole))), Ok(space)) = (file_system, disk.store.space().await) {
            parts.push(Part { device, whole, space });
        }
    }
    sum(&parts)
}

fn file_system(directory: &Path) -> Option<(u64, Room)> {
    let device = std::fs::metadata(directory).ok()?.dev();
    let facts = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(facts.f_frsize);
    let whole = Room {
        free_bytes: bytes(facts.f_bavail),
        total_bytes: bytes(facts.f_blocks),
    };
    Some((device, whole))
}

/// On one file system, exports without quota can use what the freest of them can, and those with
/// quotas their sum; never more than the file system has.
fn sum(parts: &[Part]) -> Room {
    let mut by_device: BTreeMap<u64, (Room, Room, Room)> = BTreeMap::new();
    for part in parts {
        let (whole, shared, own) = by_device.entry(part.device).or_default();
        *whole = part.whole;
        let (free, total) = (part.space.free_bytes, part.space.total_bytes);
        match part.space.quota_bytes {
            None => {
                shared.free_bytes = shared.free_bytes.max(free);
                shared.total_bytes = shared.total_bytes.max(total);
            }
            Some(_) => {
                own.free_bytes = own.free_bytes.saturating_add(free);
                own.total_bytes = own.total_bytes.saturating_add(total);
            }
        }
    }
    let mut room = Room::default();
    for (whole, shared, own) in by_device.into_values() {
        let free = shared.free_bytes.max(own.free_bytes).min(whole.free_bytes);
        let total = shared.total_bytes.max(own.total_bytes).min(whole.total_bytes);
        room.free_bytes = room.free_bytes.saturating_add(free);
        room.total_bytes = room.total_bytes.saturating_add(total);
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(device: u64, free_bytes: u64, quota_bytes: Option<u64>) -> Part {
        Part {
            device,
            whole: Room {
                free_bytes: 1000,
                total_bytes: 2000,
            },
            space: Space {
                total_bytes: quota_bytes.unwrap_or(2000),
                free_bytes,
                used_bytes: 0,
                quota_bytes,
                device: None,
            },
        }
    }

    #[test]
    fn a_file_system_counts_once_and_quotas_add_up_within_it() {
        let room = |parts: &[Part]| {
            let room = sum(parts);
            (room.free_bytes, room.total_bytes)
        };
        assert_eq!(room(&[]), (0, 0));
        assert_eq!(room(&[part(1, 900, None), part(1, 800, None)]), (900, 2000));
        assert_eq!(room(&[part(1, 900, None), part(2, 800, None)]), (1700, 4000));
        assert_eq!(room(&[part(1, 100, Some(300)), part(1, 200, Some(300))]), (300, 600));
        assert_eq!(
            room(&[part(1, 900, Some(5000)), part(1, 900, Some(5000))]),
            (1000, 2000)
        );
        assert_eq!(room(&[part(1, 900, None), part(1, 50, Some(100))]), (900, 2000));
    }

    #[test]
    fn the_file_system_of_a_directory_is_found() {
        let site = tempfile::tempdir().unwrap();
        let (device, whole) = file_system(site.path()).unwrap();
        assert_eq!(device, std::fs::metadata(site.path()).unwrap().dev());
        assert!(whole.total_bytes >= whole.free_bytes && whole.total_bytes > 0);
        assert_eq!(file_system(&site.path().join("missing")), None);
    }
}
