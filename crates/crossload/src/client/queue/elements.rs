//! The objects of a long list in JSON, one at a time: a job may have 100 000 files, and neither
//! their list nor what a hostile server sends instead is held in memory as a whole.

use serde_json::Value;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::jobs::checked;
use super::service::{Queue, told_of_tls};
use crate::limits::{QUEUE_FILE_BYTES_MAX, QUEUE_FILES_MAX};

/// Where the reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the list.
    #[default]
    Before,
    /// Between two objects.
    Between,
    /// Within an object.
    Object,
    /// Behind the list.
    After,
}

/// Takes a list of objects apart, whatever pieces it comes in.
#[derive(Debug, Default)]
struct Elements {
    place: Place,
    /// The object so far.
    text: Vec<u8>,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    count: usize,
}

impl Elements {
    /// Takes a piece; the objects that it completes.
    ///
    /// # Errors
    /// `peer_misbehaved` for what is no list of objects, and for one that is too long.
    fn feed(&mut self, piece: &[u8]) -> Result<Vec<Value>> {
        let mut complete = Vec::new();
        for byte in piece {
            match (self.place, byte) {
                (Place::Object, byte) => complete.extend(self.within(*byte)?),
                (_, b' ' | b'\t' | b'\r' | b'\n') => {}
                (Place::Before, b'[') => self.place = Place::Between,
                (Place::Between, b',') => {}
                (Place::Between, b']') => self.place = Place::After,
                (Place::Between, b'{') => {
                    self.place = Place::Object;
                    self.within(b'{')?;
                }
                _ => return Err(misbehaved("its answer is no list of objects")),
            }
        }
        Ok(complete)
    }

    /// A byte of an object; the object, if it ends there.
    fn within(&mut self, byte: u8) -> Result<Option<Value>> {
        self.text.push(byte);
        if self.text.len() > QUEUE_FILE_BYTES_MAX {
            return Err(misbehaved(&format!(
                "an object of its list is longer than {QUEUE_FILE_BYTES_MAX} bytes"
            )));
        }
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            b'{' | b'[' if !self.in_string => self.depth += 1,
            b'}' | b']' if !self.in_string => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.depth > 0 {
            return Ok(None);
        }
        self.count += 1;
        if self.count > QUEUE_FILES_MAX {
            return Err(misbehaved(&format!("its list has more than {QUEUE_FILES_MAX} objects")));
        }
        self.place = Place::Between;
        let text = std::mem::take(&mut self.text);
        let read = serde_json::from_slice(&text);
        read.map(Some)
            .map_err(|cause| misbehaved(&format!("its answer is not JSON: {cause}")))
    }

    /// # Errors
    /// `peer_misbehaved` for a list that broke off.
    fn end(&self) -> Result<()> {
        match self.place {
            Place::After => Ok(()),
            _ => Err(misbehaved("its answer broke off")),
        }
    }
}

fn misbehaved(words: &str) -> Error {
    Error::new(ErrorCode::PeerMisbehaved, Side::Queue, Phase::Open).with_detail(words)
}

/// Hands over the files of a job, in their order, as FTS's API shows them.
///
/// # Errors
/// The queue's refusal; `peer_misbehaved` for what is no list.
pub(super) async fn files(queue: &Queue<'_>, job: &str, mut take: impl FnMut(Value)) -> Result<()> {
    let place = queue.place(&format!("/jobs/{}/files", checked(job)?))?;
    let asked = queue.session.client.document(&place).await;
    let mut stream = asked.map_err(told_of_tls)?;
    let mut elements = Elements::default();
    let blame = |error: Error| error.with_subject(&place.location);
    while let Some(piece) = stream.next().await? {
        for element in elements.feed(&piece).map_err(blame)? {
            take(element);
        }
    }
    elements.end().map_err(blame)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_read_from_any_pieces() {
        let list = json!([{"a": "]}\\\"{["}, {"b": [1, {"c": {}}]}, {}]);
        let text = format!(" {list}\n");
        for size in 1..text.len() {
            let mut elements = Elements::default();
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                found.extend(elements.feed(piece).unwrap());
            }
            elements.end().unwrap();
            assert_eq!(Value::Array(found), list, "pieces of {size}");
        }
        for (bad, words) in [
            ("[1]", "no list of objects"),
            ("{}", "no list of objects"),
            ("[{\"a\":1}] x", "no list of objects"),
            ("[{a}]", "not JSON"),
        ] {
            let error = Elements::default().feed(bad.as_bytes()).unwrap_err();
            assert!(error.public().contains(words), "{bad}: {error}");
        }
        let mut cut = Elements::default();
        cut.feed(b"[{\"a\": 1}, {").unwrap();
        assert!(cut.end().is_err());
    }

    #[test]
    fn an_endless_list_or_object_is_refused() {
        let piece = b"{\"a\": 1},".repeat(1000);
        let mut elements = Elements::default();
        elements.feed(b"[").unwrap();
        let refused = (0..=QUEUE_FILES_MAX / 1000).find_map(|_| elements.feed(&piece).err());
        assert_eq!(refused.map(|error| error.code()), Some(ErrorCode::PeerMisbehaved));
        let mut elements = Elements::default();
        elements.feed(b"[{\"a\": \"").unwrap();
        let refused = (0..=QUEUE_FILE_BYTES_MAX / 1000).find_map(|_| elements.feed(&[b'x'; 1000]).err());
        assert_eq!(refused.map(|error| error.code()), Some(ErrorCode::PeerMisbehaved));
    }
}
