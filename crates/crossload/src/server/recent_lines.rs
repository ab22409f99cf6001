//! The last lines of the log in memory, for questions about one transfer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::limits::RECENT_LINES_BYTES;
use crate::log_search::{LEFT_OUT, LastLines, Wanted};

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
        if piece.is_empty() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += piece.len();
        kept.pieces.push_back(piece);
        while kept.bytes > RECENT_LINES_BYTES {
            let Some(oldest) = kept.pieces.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
    }

    /// The lines that name an identifier: the last ones if there are too many, behind a line that
    /// says how many were left out.
    pub(super) fn about(&self, id: &str) -> Vec<u8> {
        let wanted = Wanted::new(id);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = kept
            .pieces
            .iter()
            .flat_map(|piece| piece.split_inclusive(|byte| *byte == b'\n'));
        let is_question = |line: &[u8]| memchr::memmem::find(line, QUESTION).is_some();
        let mut found = LastLines::new();
        lines
            .filter(|line| wanted.is_named_in(line) && !is_question(line))
            .for_each(|line| found.push(line));
        let mut text = match found.left_out() {
            0 => Vec::new(),
            count => format!("{}\n", json!({"event": LEFT_OUT, "lines": count})).into_bytes(),
        };
        text.extend(found.into_lines().into_iter().flatten());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TRACE_LINES_MAX;

    const ID: &str = "0123456789abcdef";

    fn text(lines: &RecentLines, id: &str) -> String {
        String::from_utf8(lines.about(id)).unwrap()
    }

    /// A line that names an identifier.
    fn line(event: &str, id: &str) -> String {
        format!("{{\"event\":\"{event}\",\"request_id\":\"{id}\"}}\n")
    }

    #[test]
    fn lines_with_an_identifier_are_found_until_others_need_their_room() {
        let lines = RecentLines::default();
        lines.add(line("before", ID).as_bytes());
        lines.keep();
        let login = "{\"method\":\"login\",\"path\":\"\",\"request_id\":\"0123456789abcdef\"}\n";
        lines.add(format!("{}{login}{}", line("one", ID), line("two", "fedcba9876543210")).as_bytes());
        lines.add((line("three", ID) + &line("admin_request", ID)).as_bytes());
        assert_eq!(text(&lines, ID), line("one", ID) + &line("three", ID));
        assert_eq!(text(&lines, "0123456789abcdee"), "");
        for _ in 0..=RECENT_LINES_BYTES / 1000 {
            lines.add(&[&[b'x'; 999][..], b"\n"].concat());
        }
        assert_eq!(text(&lines, ID), "");
        assert!(lines.kept.lock().unwrap().bytes <= RECENT_LINES_BYTES);
    }

    #[test]
    fn lines_about_sessions_take_no_memory() {
        let lines = RecentLines::default();
        lines.keep();
        lines.add(b"{\"method\":\"login\",\"path\":\"\"}\n");
        assert!(lines.kept.lock().unwrap().pieces.is_empty());
    }

    #[test]
    fn an_answer_has_the_last_lines_only_and_says_so() {
        let lines = RecentLines::default();
        lines.keep();
        for number in 0..=TRACE_LINES_MAX {
            lines.add(line(&number.to_string(), ID).as_bytes());
        }
        let found = text(&lines, ID);
        let expected = "{\"event\":\"lines_left_out\",\"lines\":1}\n".to_owned() + &line("1", ID);
        assert!(found.starts_with(&expected), "{}", &found[..100]);
        assert_eq!(found.lines().count(), 1 + TRACE_LINES_MAX);
    }
}
