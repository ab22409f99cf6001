//! The last lines of the log in memory, for questions about one transfer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::limits::{RECENT_LINES_BYTES, TRACE_LINES_MAX};

/// What stands in the lines of those who ask, with the identifier.
const QUESTION: &[u8] = b"\"event\":\"admin_request\"";

/// What stands in the lines about a session of the XRootD protocol, such as its login. They name no
/// transfer, and there are some for each connection that only waits.
const SESSION: &[u8] = b"\"path\":\"\"";

/// Lines, in the order in which they were written. Until [`RecentLines::keep`] it keeps none.
#[derive(Default)]
pub(super) struct RecentLines {
    is_kept: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Whole lines, several in each piece.
    pieces: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl RecentLines {
    /// Keeps lines from now on.
    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Takes lines, each with its end, but those about sessions. The oldest go when there are too
    /// many.
    pub(super) fn add(&self, lines: &[u8]) {
        if lines.is_empty() || !self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        let lines = lines.split_inclusive(|byte| *byte == b'\n');
        let wanted = lines.filter(|line| memchr::memmem::find(line, SESSION).is_none());
        let piece: Box<[u8]> = wanted.flatten().copied().collect();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += piece.len();
        kept.pieces.push_back(piece);
        while kept.bytes > RECENT_LINES_BYTES {
            let Some(oldest) = kept.pieces.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
    }

    /// The lines in which an identifier stands, the last ones if there are too many.
    pub(super) fn about(&self, id: &str) -> Vec<u8> {
        let finder = memchr::memmem::Finder::new(id);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = kept
            .pieces
            .iter()
            .flat_map(|piece| piece.split_inclusive(|byte| *byte == b'\n'));
        let mut found: VecDeque<&[u8]> = VecDeque::new();
        let is_question = |line: &[u8]| memchr::memmem::find(line, QUESTION).is_some();
        for line in lines.filter(|line| finder.find(line).is_some() && !is_question(line)) {
            found.push_back(line);
            if found.len() > TRACE_LINES_MAX {
                found.pop_front();
            }
        }
        Vec::from(found).concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &RecentLines, id: &str) -> String {
        String::from_utf8(lines.about(id)).unwrap()
    }

    #[test]
    fn lines_with_an_identifier_are_found_until_others_need_their_room() {
        let lines = RecentLines::default();
        lines.add(b"before a\n");
        lines.keep();
        lines.add(b"one a\n{\"method\":\"login\",\"path\":\"\",\"id\":\"a\"}\ntwo b\n");
        lines.add(b"three a\n{\"event\":\"admin_request\",\"path\":\"/trace/a\"}\n");
        assert_eq!(text(&lines, "a"), "one a\nthree a\n");
        assert_eq!(text(&lines, "c"), "");
        for _ in 0..=RECENT_LINES_BYTES / 1000 {
            lines.add(&[&[b'x'; 999][..], b"\n"].concat());
        }
        assert_eq!(text(&lines, "a"), "");
        assert!(lines.kept.lock().unwrap().bytes <= RECENT_LINES_BYTES);
    }

    #[test]
    fn an_answer_has_the_last_lines_only() {
        let lines = RecentLines::default();
        lines.keep();
        for number in 0..=TRACE_LINES_MAX {
            lines.add(format!("{number} id\n").as_bytes());
        }
        let found = text(&lines, "id");
        assert!(found.starts_with("1 id\n"), "{}", &found[..20]);
        assert_eq!(found.lines().count(), TRACE_LINES_MAX);
    }
}
