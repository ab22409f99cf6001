//! Remembers which range of an open file was in memory a moment ago, so that the next read need not
//! check again.
//!
//! A client reads a file in pieces of some hundred KiB. Checking both ends of each piece takes two
//! system calls, and sending it takes two.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use types::ByteRange;

use crate::api::{FileReader, Patience};

/// How much further the check reaches: the same length that is checked before a whole file is sent.
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;
/// How long an answer is good for. Pages that are given up meanwhile are fetched by the call that
/// sends them.
const GOOD_FOR: Duration = Duration::from_millis(100);

/// The last answer about a file.
#[derive(Debug, Default)]
pub(crate) struct Residency(Mutex<Option<(ByteRange, Instant)>>);

impl Residency {
    /// Whether a range was found in memory a moment ago.
    pub(crate) fn covers(&self, range: ByteRange) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .is_some_and(|(held, seen)| held.start <= range.start && range.end <= held.end && seen.elapsed() < GOOD_FOR)
    }

    /// Notes that a range is in memory.
    pub(crate) fn note(&self, range: ByteRange) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((range, Instant::now()));
    }
}

/// Reads both ends of a non-empty range: if they are in memory, the bytes between them most likely
/// are too. Without patience the end may be one further on. Returns what is in memory.
pub(crate) fn touch(reader: &dyn FileReader, range: ByteRange, patience: Patience) -> io::Result<ByteRange> {
    touch_byte(reader, range.start, patience)?;
    let ahead_end = range.start.saturating_add(AHEAD_BYTES).min(reader.stat().size_bytes);
    // Where the system cannot tell, the call would fetch data that no client asked for.
    let asks_ahead = patience == Patience::CachedOnly && reader.tells_what_is_cached() && ahead_end > range.end;
    if asks_ahead && touch_byte(reader, ahead_end - 1, patience).is_ok() {
        return Ok(ByteRange::new(range.start, ahead_end));
    }
    if range.len() > 1 {
        touch_byte(reader, range.end - 1, patience)?;
    }
    Ok(range)
}

/// Reads one byte.
pub(crate) fn touch_byte(reader: &dyn FileReader, offset: u64, patience: Patience) -> io::Result<()> {
    let mut byte = [0_u8; 1];
    reader
        .read_vectored_at(&mut [io::IoSliceMut::new(&mut byte)], offset, patience)
        .map(drop)
}
