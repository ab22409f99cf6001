//! Server-sent events (WHATWG HTML §9.2.6) from pieces of a body.

use types::{Error, ErrorCode, Phase, Result, Side};

use crate::limits::{QUEUE_EVENT_BYTES_MAX, QUEUE_EVENT_ID_BYTES_MAX};

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its kind; empty if the server gives none.
    pub(super) kind: String,
    /// Its data.
    pub(super) data: String,
}

/// Reads events.
#[derive(Debug, Default)]
pub(super) struct Reader {
    buffer: Vec<u8>,
    event: Event,
    /// The identifier of the event that is being read.
    id: Option<String>,
    /// The identifier of the latest whole event: after it the server goes on.
    pub(super) last_id: Option<String>,
}

impl Reader {
    /// Forgets what came of an event before the connection broke.
    pub(super) fn restart(&mut self) {
        self.buffer.clear();
        self.event = Event::default();
        self.id = None;
    }

    /// Takes a piece; the events that it completes.
    ///
    /// # Errors
    /// `peer_misbehaved` for an event that is too long.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Vec<Event>> {
        let mut complete = Vec::new();
        self.buffer.extend_from_slice(piece);
        let mut start = 0;
        while let Some(length) = self.buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.buffer[start..start + length]).into_owned();
            start += length + 1;
            complete.extend(self.line(line.trim_end_matches('\r')));
        }
        self.buffer.drain(..start);
        if self.buffer.len() + self.event.data.len() > QUEUE_EVENT_BYTES_MAX {
            let error = Error::new(ErrorCode::PeerMisbehaved, Side::Queue, Phase::Queued);
            return Err(error.with_detail(format!("an event is longer than {QUEUE_EVENT_BYTES_MAX} bytes")));
        }
        Ok(complete)
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            self.last_id = self.id.take().or(self.last_id.take());
            return (!event.data.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.kind = value.to_owned(),
            // It goes into a header: a queue of ours counts its events.
            "id" if is_id(value) => self.id = Some(value.to_owned()),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // A comment, which keeps the connection alive, or a field that we do not need.
            _ => {}
        }
        None
    }
}

fn is_id(text: &str) -> bool {
    text.len() <= QUEUE_EVENT_ID_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_any_pieces() {
        let text = ": hello\n\nid: 7\nevent: state\ndata: {\"a\":\ndata:1}\r\n\r\nid: 8\ndata: x\n\nevent: none\n\nid: 9\ndata: cut";
        for size in 1..text.len() {
            let mut reader = Reader::default();
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                events.extend(reader.feed(piece).unwrap());
            }
            assert_eq!(events.len(), 2, "pieces of {size}");
            assert_eq!(
                (events[0].kind.as_str(), events[0].data.as_str()),
                ("state", "{\"a\":\n1}")
            );
            assert_eq!((events[1].kind.as_str(), events[1].data.as_str()), ("", "x"));
            assert_eq!(reader.last_id.as_deref(), Some("8"));
            reader.restart();
            let next = reader.feed(b"data: y\n\n").unwrap();
            assert_eq!(next[0].data, "y");
        }
    }

    #[test]
    fn an_identifier_that_is_no_header_is_not_kept() {
        let mut reader = Reader::default();
        let long = "7".repeat(QUEUE_EVENT_ID_BYTES_MAX + 1);
        reader
            .feed(format!("id: 5\rX: y\ndata: x\n\nid: {long}\ndata: x\n\n").as_bytes())
            .unwrap();
        assert_eq!(reader.last_id, None);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = Reader::default();
        let piece = [b'x'; 1 << 16];
        let fed = (0..=QUEUE_EVENT_BYTES_MAX / piece.len()).find_map(|_| reader.feed(&piece).err());
        assert_eq!(fed.map(|error| error.code()), Some(ErrorCode::PeerMisbehaved));
    }
}
