//! Free memory that stays: cut into small pieces.
//!
//! A virtual machine gives free memory back to its host within seconds, in blocks of 2 MiB, and the
//! next writer pays for its return: up to the cost of a whole upload, in one sample of four.
//! Holding a page in every quarter of such a block leaves no free blocks to give back. The kernel
//! hands out small pieces first, so samples reuse this memory.

use std::fs::File;
use std::io::Write as _;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use testkit::Result;

const BLOCK_BYTES: u64 = 1 << 20;
/// A page of each so many bytes is held.
const STRIDE_BYTES: u64 = 512 << 10;
const PAGE_BYTES: u64 = 4096;

/// The pages that are held.
#[derive(Debug)]
pub(crate) struct Fragments {
    pages: File,
}

impl Fragments {
    /// Cuts so much memory into pieces, in whole MiB, or half of what the machine has to give.
    pub(crate) fn of(size_bytes: u64) -> Result<Self> {
        let blocks = size_bytes.min(available_bytes()? / 2) / BLOCK_BYTES;
        let mut pages = File::from(memfd_create("fragments", MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?);
        let block = vec![0x5A; BLOCK_BYTES as usize];
        for _ in 0..blocks {
            pages.write_all(&block)?;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for start in (0..blocks * BLOCK_BYTES).step_by(STRIDE_BYTES as usize) {
            let free = (start + PAGE_BYTES, STRIDE_BYTES - PAGE_BYTES);
            fallocate(&pages, flags, free.0, free.1).map_err(std::io::Error::from)?;
        }
        Ok(Self { pages })
    }

    /// How much is in pieces.
    pub(crate) fn size_bytes(&self) -> Result<u64> {
        Ok(self.pages.metadata()?.len())
    }
}

/// Memory available without swapping, as the kernel estimates it.
fn available_bytes() -> Result<u64> {
    let facts = std::fs::read_to_string("/proc/meminfo")?;
    let line = facts.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|words| words.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.unwrap_or(0) * 1024)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn one_page_of_each_stride_is_held() {
        let fragments = Fragments::of(8 * BLOCK_BYTES + 5).expect("cut");
        let facts = fragments.pages.metadata().expect("facts");
        assert_eq!(fragments.size_bytes().expect("told"), 8 * BLOCK_BYTES);
        assert_eq!(facts.blocks() * 512, 8 * BLOCK_BYTES / STRIDE_BYTES * PAGE_BYTES);
    }

    #[test]
    fn a_machine_has_memory_to_give() {
        assert!(available_bytes().expect("read") > BLOCK_BYTES);
    }
}
