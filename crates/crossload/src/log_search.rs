//! Searching lines of a log for an identifier.

use std::collections::VecDeque;

use endpoint::ids::is_traced_id;
use memchr::memmem::Finder;
use types::is_traceparent;

use crate::limits::{RECENT_LINES_BYTES, TRACE_LINES_MAX};

/// Fields whose values are identifiers of a transfer.
pub(crate) const ID_FIELDS: [&str; 4] = ["transfer_id", "request_id", "redirect_id", "job"];
/// Length of a UUID, as a job of a queue has it.
const UUID_BYTES: usize = 36;
/// Bytes of a traceparent before its trace: the version and a hyphen.
const VERSION_BYTES: usize = 3;

/// The event of the line that says how many lines were left out.
pub(crate) const LEFT_OUT: &str = "lines_left_out";

/// The field and the value by which an operator's action is found with the transfer or job that it
/// is about; `None` if it is about none, or the operator named no identifier.
pub(crate) fn id_of_action(action: &str, subject: &str) -> Option<(&'static str, String)> {
    let field = match action {
        "cancel_copy" => "transfer_id",
        "cancel_job" => "job",
        _ => return None,
    };
    // Jobs are found in any spelling, lines of a log in this one only.
    is_traced_id(subject).then(|| (field, subject.to_ascii_lowercase()))
}

/// An identifier to search for.
pub(crate) struct Wanted<'a> {
    id: &'a str,
    finder: Finder<'a>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(id: &'a str) -> Self {
        Self {
            id,
            finder: Finder::new(id),
        }
    }

    /// Whether a line names it: as a whole value of a field for identifiers, as the trace of a
    /// traceparent, or as a job in the path of a request. Anything else would be a search in what
    /// the log says of others.
    pub(crate) fn is_named_in(&self, line: &[u8]) -> bool {
        self.finder.find_iter(line).any(|at| {
            let (before, after) = (&line[..at], &line[at + self.id.len()..]);
            let is_value = after.starts_with(b"\"") && ID_FIELDS.iter().any(|field| opens(before, field));
            is_value || self.is_trace(before, after) || self.is_job(before, after)
        })
    }

    fn is_trace(&self, before: &[u8], after: &[u8]) -> bool {
        let version = before.len().checked_sub(VERSION_BYTES).map(|at| before.split_at(at));
        let end = after.iter().position(|byte| *byte == b'"').map(|at| &after[..at]);
        let (Some((before, version)), Some(end)) = (version, end) else {
            return false;
        };
        let value = [version, self.id.as_bytes(), end].concat();
        before.ends_with(b":\"") && std::str::from_utf8(&value).is_ok_and(is_traceparent)
    }

    fn is_job(&self, before: &[u8], after: &[u8]) -> bool {
        let ends = after.first().is_some_and(|byte| b"\"/".contains(byte));
        self.id.len() == UUID_BYTES && before.ends_with(b"/jobs/") && ends
    }
}

/// Whether the text value of a field begins behind this part of a line.
fn opens(before: &[u8], field: &str) -> bool {
    let name = before
        .strip_suffix(b"\"")
        .map(<[u8]>::trim_ascii_end)
        .and_then(|before| before.strip_suffix(b":"))
        .and_then(|before| before.strip_suffix(b"\""))
        .and_then(|before| before.strip_suffix(field.as_bytes()));
    name.is_some_and(|before| before.ends_with(b"\""))
}

/// The last of the lines that were found, and how many before them were left out.
pub(crate) struct LastLines<T> {
    lines: VecDeque<T>,
    bytes: usize,
    left_out: u64,
}

impl<T: AsRef<[u8]>> LastLines<T> {
    pub(crate) fn new() -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
            left_out: 0,
        }
    }

    pub(crate) fn push(&mut self, line: T) {
        self.bytes += line.as_ref().len();
        self.lines.push_back(line);
        while self.lines.len() > TRACE_LINES_MAX || self.bytes > RECENT_LINES_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.as_ref().len();
            self.left_out += 1;
        }
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(crate) fn into_lines(self) -> VecDeque<T> {
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operators_action_is_found_with_what_it_is_about() {
        let job = "0af76519-16cd-43dd-8448-eb211c80319c";
        assert_eq!(
            id_of_action("cancel_job", &job.to_uppercase()),
            Some(("job", job.to_owned()))
        );
        let copy = id_of_action("cancel_copy", "65f2a1c09b3d");
        assert_eq!(copy, Some(("transfer_id", "65f2a1c09b3d".to_owned())));
        for (action, subject) in [
            ("drain_worker", "cafecafe"),
            ("cancel_copy", "none"),
            ("cancel_copy", ""),
            ("cancel_job", "../metrics"),
        ] {
            assert_eq!(id_of_action(action, subject), None, "{action} {subject}");
        }
        for action in ["cancel_copy", "cancel_job"] {
            let field = id_of_action(action, job).map(|(field, _)| field);
            assert!(field.is_some_and(|field| ID_FIELDS.contains(&field)), "{action}");
        }
    }

    #[test]
    fn only_whole_values_of_identifiers_are_found() {
        let (uuid, trace) = (
            "0af76519-16cd-43dd-8448-eb211c80319c",
            "0af7651916cd43dd8448eb211c80319c",
        );
        let is_named = |id: &str, line: &str| Wanted::new(id).is_named_in(line.as_bytes());
        for (id, line) in [
            ("65f2a1c09b3d", r#"{"event":"request","request_id":"65f2a1c09b3d"}"#),
            ("65f2a1c09b3d", r#"{"transfer_id": "65f2a1c09b3d"}"#),
            ("65f2a1c09b3d", r#"{"redirect_id":"65f2a1c09b3d","path":"/f"}"#),
            (uuid, r#"{"job":"0af76519-16cd-43dd-8448-eb211c80319c"}"#),
            (uuid, r#"{"path":"/jobs/0af76519-16cd-43dd-8448-eb211c80319c"}"#),
            (uuid, r#"{"path":"/jobs/0af76519-16cd-43dd-8448-eb211c80319c/files"}"#),
            (
                trace,
                r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#,
            ),
        ] {
            assert!(is_named(id, line), "{id} in {line}");
        }
        for (id, line) in [
            (
                "2026-11-30",
                r#"{"time":"2026-11-30T06:00:01.500Z","path":"/d/2026-11-30/f"}"#,
            ),
            ("2026-11-30", r#"{"path":"/jobs/2026-11-30/f"}"#),
            ("65f2a1c0", r#"{"request_id":"65f2a1c09b3d"}"#),
            ("a1c09b3d", r#"{"request_id":"65f2a1c09b3d"}"#),
            ("cafecafe", r#"{"subject":"cafecafe","user":"cafecafe"}"#),
            ("cafecafe", r#"{"path":"\"job\":\"cafecafe\""}"#),
            (
                "b7ad6b7169203331",
                r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#,
            ),
        ] {
            assert!(!is_named(id, line), "{id} in {line}");
        }
    }
}
