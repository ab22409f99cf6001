//! Memory for the files that a sample is about to make.
//!
//! A virtual machine gives memory that lies idle back to its host, within seconds, and whoever writes to it next pays for
//! its return: up to as much again as the whole upload costs otherwise, in one sample of four. So what a sample wrote is not
//! removed but held, as files in memory, and the next sample finds it free a moment before it needs it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testkit::{Error, Result};

const BLOCK_BYTES: usize = 1 << 20;
/// What is set free in one step.
const STEP_BYTES: u64 = 64 << 20;
/// What is free ahead of what the sample has written.
const AHEAD_BYTES: u64 = 256 << 20;
/// Between two looks at how much that is: at 50 Gbit/s a fifth of what is free ahead is written meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(8);

/// Files that hold memory.
#[derive(Debug)]
pub(crate) struct Reserve {
    directory: PathBuf,
    parts: Vec<Part>,
    made: u64,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    size_bytes: u64,
}

/// Memory that is being set free while a sample runs.
#[derive(Debug)]
pub(crate) struct Lending {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Part>>,
}

impl Reserve {
    /// An empty one, with its files in `directory`, which must be in memory.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            parts: Vec::new(),
            made: 0,
        }
    }

    /// Takes a file away from where it is.
    pub(crate) fn keep(&mut self, path: &Path) -> Result<()> {
        let size_bytes = fs::metadata(path)?.len();
        let target = self.next_path();
        fs::rename(path, &target)?;
        self.parts.push(Part {
            path: target,
            size_bytes,
        });
        Ok(())
    }

    /// Sets everything free.
    pub(crate) fn clear(&mut self) {
        set_free(&mut self.parts, u64::MAX);
    }

    /// Holds `size_bytes`, no more and no less, and begins to set them free as memory is needed.
    pub(crate) fn lend(&mut self, size_bytes: u64) -> Result<Lending> {
        let held = held_bytes(&self.parts);
        set_free(&mut self.parts, held.saturating_sub(size_bytes));
        if held < size_bytes {
            self.fill(size_bytes - held)?;
        }
        let (directory, mut parts) = (self.directory.clone(), std::mem::take(&mut self.parts));
        let used_before = used_bytes(&directory)?;
        let mut freed = set_free(&mut parts, AHEAD_BYTES);
        let ended = Arc::new(AtomicBool::new(false));
        let told = ended.clone();
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) && !parts.is_empty() {
                // Where it cannot be told, nothing more is set free, and the sample has what is.
                let Ok(used) = used_bytes(&directory) else { break };
                let written = (used + freed).saturating_sub(used_before);
                if freed < written + AHEAD_BYTES {
                    freed += set_free(&mut parts, STEP_BYTES);
                } else {
                    thread::sleep(LOOK_PERIOD);
                }
            }
            parts
        });
        Ok(Lending { ended, thread })
    }

    /// Takes back what was not needed.
    pub(crate) fn take_back(&mut self, lending: Lending) -> Result<()> {
        lending.ended.store(true, Ordering::Relaxed);
        let left = lending.thread.join();
        let left = left.map_err(|_| Error::Failed("what frees memory for a sample failed".to_owned()))?;
        self.parts.extend(left);
        Ok(())
    }

    fn fill(&mut self, size_bytes: u64) -> Result<()> {
        let path = self.next_path();
        let block = vec![0x5A; BLOCK_BYTES];
        let mut file = File::create_new(&path)?;
        // Held from here on, so that it goes away when it does not become whole.
        self.parts.push(Part { path, size_bytes });
        for _ in 0..size_bytes.div_ceil(BLOCK_BYTES as u64) {
            file.write_all(&block)?;
        }
        Ok(())
    }

    fn next_path(&mut self) -> PathBuf {
        self.made += 1;
        self.directory.join(format!("reserve-{}", self.made))
    }
}

fn held_bytes(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.size_bytes).sum()
}

/// Sets the last `size_bytes` of all parts free, or all there are; returns how much that was. Files that cannot be cut are removed.
fn set_free(parts: &mut Vec<Part>, size_bytes: u64) -> u64 {
    let mut left = size_bytes;
    while left > 0
        && let Some(part) = parts.last_mut()
    {
        let rest = part.size_bytes.saturating_sub(left);
        let is_cut = rest > 0 && cut(&part.path, rest).is_ok();
        if is_cut {
            part.size_bytes = rest;
            return size_bytes;
        }
        left = left.saturating_sub(part.size_bytes);
        let _ = fs::remove_file(&part.path);
        parts.pop();
    }
    size_bytes - left
}

fn cut(path: &Path, size_bytes: u64) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(path)?.set_len(size_bytes)
}

/// Memory that the file system holds.
fn used_bytes(directory: &Path) -> Result<u64> {
    let facts = rustix::fs::statvfs(directory).map_err(std::io::Error::from)?;
    Ok((facts.f_blocks - facts.f_bfree) * facts.f_frsize)
}

#[cfg(test)]
mod tests {
    use testkit::Scratch;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn files(directory: &Path) -> u64 {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn what_is_kept_is_cut_to_what_is_wanted_and_filled_up_to_it() {
        let scratch = Scratch::new("reserve").unwrap();
        let directory = scratch.create("held").unwrap();
        let mut reserve = Reserve::new(directory.clone());
        let file = scratch.join("uploaded");
        fs::write(&file, vec![1; 3 << 20]).unwrap();
        reserve.keep(&file).unwrap();
        assert!(!file.exists());
        assert_eq!((held_bytes(&reserve.parts), files(&directory)), (3 * MIB, 3 * MIB));
        assert_eq!(set_free(&mut reserve.parts, MIB), MIB);
        assert_eq!((held_bytes(&reserve.parts), files(&directory)), (2 * MIB, 2 * MIB));
        reserve.fill(4 * MIB).unwrap();
        assert_eq!((held_bytes(&reserve.parts), files(&directory)), (6 * MIB, 6 * MIB));
        // Across the end of a file.
        assert_eq!(set_free(&mut reserve.parts, 5 * MIB), 5 * MIB);
        assert_eq!((held_bytes(&reserve.parts), files(&directory)), (MIB, MIB));
        reserve.clear();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn a_small_sample_finds_all_of_it_free() {
        let scratch = Scratch::new("reserve").unwrap();
        let directory = scratch.create("held").unwrap();
        let mut reserve = Reserve::new(directory.clone());
        let lending = reserve.lend(8 * MIB).unwrap();
        assert_eq!(files(&directory), 0);
        reserve.take_back(lending).unwrap();
        assert_eq!(held_bytes(&reserve.parts), 0);
    }

    #[test]
    fn more_is_set_free_as_memory_is_written() {
        let scratch = Scratch::in_memory("reserve").unwrap();
        let directory = scratch.create("held").unwrap();
        let mut reserve = Reserve::new(directory.clone());
        let all = AHEAD_BYTES + 2 * STEP_BYTES;
        let lending = reserve.lend(all).unwrap();
        assert!(files(&directory) <= 2 * STEP_BYTES);
        // Others write to this file system too, so that only the end is sure: with as much written, nothing is held.
        fs::write(scratch.join("sample"), vec![2; 2 * STEP_BYTES as usize]).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while files(&directory) > 0 && std::time::Instant::now() < deadline {
            thread::sleep(LOOK_PERIOD);
        }
        let left = files(&directory);
        reserve.take_back(lending).unwrap();
        assert_eq!(left, 0);
    }
}
