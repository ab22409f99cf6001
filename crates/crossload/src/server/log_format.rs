//! The forms of log lines besides JSON: text for people, and entries of systemd's journal.

use std::fmt;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use markup::visible;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Where systemd's journal takes entries.
pub(super) const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
/// Longest name of a field in the journal, in bytes.
const FIELD_NAME_BYTES_MAX: usize = 64;
/// Priorities of syslog.
const CRITICAL: u8 = 2;
const ERROR: u8 = 3;
const WARNING: u8 = 4;
const INFORMATION: u8 = 6;

/// Lines of JSON as text: time, event, fields.
pub(super) fn text(lines: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(lines.len());
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match parse(line) {
            Some(fields) => {
                let line = format!("{} {}", fields.text("time"), message(&fields));
                text.extend_from_slice(line.as_bytes());
            }
            None => text.extend_from_slice(visible(&String::from_utf8_lossy(line)).as_bytes()),
        }
        text.push(b'\n');
    }
    text
}

/// The fields of a line, in their order: what people look for comes first.
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn text(&self, name: &str) -> &str {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        found.next().and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(line: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = members.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        line.deserialize_map(Members)
    }
}

fn parse(line: &[u8]) -> Option<Fields> {
    serde_json::from_slice(line).ok()
}

/// The event and its fields, without the time.
fn message(fields: &Fields) -> String {
    let mut message = fields.text("event").to_owned();
    let shown = fields
        .0
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "time" | "event"));
    for (name, value) in shown {
        push(&mut message, name, value);
    }
    message
}

/// Appends ` name=value`; the members of an object as `name.member=value`.
fn push(message: &mut String, name: &str, value: &Value) {
    let shown = match value {
        Value::Null => return,
        Value::Object(members) => {
            for (member, value) in members {
                push(message, &format!("{name}.{member}"), value);
            }
            return;
        }
        Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '=', '\\']) => text.clone(),
        value => value.to_string(),
    };
    message.push(' ');
    message.push_str(&visible(name));
    message.push('=');
    message.push_str(&visible(&shown));
}

/// systemd's journal.
pub(super) struct Journal {
    own: UnixDatagram,
    /// Looked up for each entry, as `sd_journal_send` does: the journal may make it anew.
    socket: PathBuf,
}

impl Journal {
    /// Makes sure that the socket takes entries.
    ///
    /// # Errors
    /// There is no journal.
    pub(super) fn find(socket: &Path) -> io::Result<Self> {
        UnixDatagram::unbound()?.connect(socket)?;
        Ok(Self {
            own: UnixDatagram::unbound()?,
            socket: socket.to_owned(),
        })
    }

    /// Sends each line of JSON as an entry. Returns how many are lost.
    pub(super) fn send(&self, lines: &[u8]) -> u64 {
        let mut lost = 0;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let sent = parse(line).map(|fields| self.own.send_to(&entry(&fields), &self.socket));
            lost += u64::from(!matches!(sent, Some(Ok(_))));
        }
        lost
    }
}

/// An entry in the journal's own form: `NAME=value` lines, and values with line ends by their
/// length.
fn entry(fields: &Fields) -> Vec<u8> {
    let mut entry = Vec::new();
    add(&mut entry, "MESSAGE", &message(fields));
    add(&mut entry, "PRIORITY", &priority(fields).to_string());
    add(&mut entry, "SYSLOG_IDENTIFIER", "crossload");
    for (name, value) in fields.0.iter().filter(|(name, _)| name != "time") {
        add_value(&mut entry, name, value);
    }
    entry
}

/// Adds a field, or one for each member of an object.
fn add_value(entry: &mut Vec<u8>, name: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (member, value) in members {
                add_value(entry, &format!("{name}_{member}"), value);
            }
        }
        Value::String(text) => add(entry, &field_name(name), text),
        value => add(entry, &field_name(name), &value.to_string()),
    }
}

fn add(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    match value.contains('\n') {
        false => entry.push(b'='),
        true => {
            entry.push(b'\n');
            entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        }
    }
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

/// `CROSSLOAD_` and the name, in the letters that the journal allows.
fn field_name(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter.is_ascii_alphanumeric() {
        true => letter.to_ascii_uppercase(),
        false => '_',
    });
    "CROSSLOAD_".chars().chain(letters).take(FIELD_NAME_BYTES_MAX).collect()
}

fn priority(fields: &Fields) -> u8 {
    let event = fields.text("event");
    let ends = |ends: &[&str]| ends.iter().any(|end| event.ends_with(end));
    let mut errors = fields.0.iter().filter(|(name, _)| name == "error");
    let has_error = errors.any(|(_, error)| !error.is_null());
    match event {
        "panic" => CRITICAL,
        _ if ends(&["_failed", "_expired"]) => ERROR,
        _ if has_error
            || ends(&[
                "_refused",
                "_lost",
                "_unusable",
                "_dropped",
                "_used_up",
                "_ignored",
                "_away",
            ]) =>
        {
            WARNING
        }
        _ => INFORMATION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = concat!(
        "{\"time\":\"2026-11-21T18:41:47.000Z\",\"event\":\"request\",\"method\":\"GET\",\"path\":\"/a b\\n\\u001b[31m\\u202e\",",
        "\"status\":404,\"user\":null,\"error\":{\"code\":\"not_found\",\"side\":\"client\"}}\n"
    );

    #[test]
    fn text_is_one_line_that_a_terminal_does_not_obey() {
        let shown = String::from_utf8(text(LINE.as_bytes())).unwrap();
        assert_eq!(shown.lines().count(), 1, "{shown}");
        let begin = "2026-11-21T18:41:47.000Z request method=GET path=";
        assert!(shown.starts_with(begin), "the order of the line: {shown}");
        for part in [
            " method=GET",
            " status=404",
            " error.code=not_found",
            " path=\"/a b\\n\\u001b[31m\\u{202e}\"",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(
            !shown.contains(['\u{1b}', '\u{202e}']) && !shown.contains("user"),
            "{shown}"
        );
        assert_eq!(text(b"no JSON\x1b\n"), b"no JSON\\x1b\n");
    }

    #[test]
    fn the_journal_gets_a_field_for_each_of_ours() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::find(&path).unwrap();
        assert_eq!(journal.send(LINE.as_bytes()), 0);
        let mut buffer = [0; 4096];
        let length = receiver.recv(&mut buffer).unwrap();
        let entry = String::from_utf8_lossy(&buffer[..length]).into_owned();
        for line in [
            "PRIORITY=4",
            "SYSLOG_IDENTIFIER=crossload",
            "CROSSLOAD_EVENT=request",
            "CROSSLOAD_STATUS=404",
            "CROSSLOAD_ERROR_CODE=not_found",
            "CROSSLOAD_ERROR_SIDE=client",
        ] {
            assert!(entry.lines().any(|have| have == line), "{line}: {entry}");
        }
        // The path has a line end, so its length stands before it.
        let value = "/a b\n\u{1b}[31m\u{202e}";
        let mut expected = b"CROSSLOAD_PATH\n".to_vec();
        expected.extend_from_slice(&(value.len() as u64).to_le_bytes());
        expected.extend_from_slice(value.as_bytes());
        assert!(
            buffer[..length].windows(expected.len()).any(|part| part == expected),
            "{entry}"
        );
    }

    #[test]
    fn a_journal_that_comes_back_gets_entries_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert!(Journal::find(&path).is_err(), "there is none yet");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::find(&path).unwrap();
        drop(receiver);
        assert_eq!(journal.send(LINE.as_bytes()), 1);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(journal.send(LINE.as_bytes()), 1);
        let receiver = UnixDatagram::bind(&path).unwrap();
        assert_eq!(journal.send(LINE.as_bytes()), 0);
        assert!(receiver.recv(&mut [0; 4096]).is_ok());
    }

    #[test]
    fn priorities_follow_the_event() {
        let of = |line: &str| priority(&parse(line.as_bytes()).unwrap());
        assert_eq!(of("{\"event\":\"panic\"}"), CRITICAL);
        assert_eq!(of("{\"event\":\"reload_failed\",\"error\":\"x\"}"), ERROR);
        assert_eq!(of("{\"event\":\"node_lost\"}"), WARNING);
        assert_eq!(of("{\"event\":\"request\",\"error\":null}"), INFORMATION);
        assert_eq!(field_name("vo-name"), "CROSSLOAD_VO_NAME");
        assert_eq!(field_name(&"x".repeat(99)).len(), FIELD_NAME_BYTES_MAX);
    }
}
