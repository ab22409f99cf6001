//! An open file of the POSIX store.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};
use types::ByteRange;

use super::resolve::plain_stat;
use crate::api::{FileReader, Patience, Stat};

pub(crate) struct PosixReader {
    pub(crate) file: File,
    pub(crate) stat: Stat,
    is_in_memory: bool,
    /// The file system or kernel cannot tell what is in memory, so it is not asked again.
    cannot_tell: AtomicBool,
}

impl PosixReader {
    pub(crate) fn new(file: File, stat: Stat) -> Self {
        Self {
            file,
            stat,
            is_in_memory: false,
            cannot_tell: AtomicBool::new(false),
        }
    }

    /// The same for a file of a file system in memory, if `is_in_memory`.
    pub(crate) fn in_memory(self, is_in_memory: bool) -> Self {
        Self { is_in_memory, ..self }
    }
}

impl FileReader for PosixReader {
    fn stat(&self) -> &Stat {
        &self.stat
    }

    fn stat_now(&self) -> io::Result<Stat> {
        Ok(plain_stat(&rustix::fs::fstat(&self.file)?, self.stat.kind))
    }

    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, patience: Patience) -> io::Result<usize> {
        if patience == Patience::CachedOnly && !self.cannot_tell.load(Ordering::Relaxed) {
            match rustix::io::preadv2(&self.file, slices, offset, ReadWriteFlags::NOWAIT) {
                // The file system (tmpfs) or kernel cannot tell: read anyway.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.cannot_tell.store(true, Ordering::Relaxed),
                Err(Errno::INVAL) => {}
                done => return Ok(done?),
            }
        }
        loop {
            match rustix::io::preadv(&self.file, slices, offset) {
                Err(Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    fn tells_what_is_cached(&self) -> bool {
        !self.cannot_tell.load(Ordering::Relaxed)
    }

    fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn advise_sequential(&self, range: ByteRange) {
        if let Some(length) = NonZeroU64::new(range.len()) {
            // Hints may be refused (on a pipe, by a network file system), which does no harm.
            let _ = rustix::fs::fadvise(&self.file, range.start, Some(length), Advice::Sequential);
            let _ = rustix::fs::fadvise(&self.file, range.start, Some(length), Advice::WillNeed);
        }
    }
}
