//! Targets for the message bus of a cluster: whatever nodes and redirectors send.

use cluster::nats::announcement::Announcement;
use cluster::nats::limits::{CHANGES_MAX, OPEN_TREES_MAX, PATH_BYTES_MAX, PIECE_BYTES};
use cluster::nats::message::{Changes, NameChange, Reply, Request};

/// Pieces of announcements.
pub(crate) const ANNOUNCEMENT_WORDS: &[&str] = &[
    "{\"format\":1",
    "\"status\":{\"processors\":1e999}",
    "\"names\":{\"generation\":\"1f\",\"blocks\":4294967295",
    "\"open\":[\"/\"]",
    "\"is_leaving\":true",
    "\"exports\":[\"/../\"]",
    "}",
];

/// Pieces of messages.
pub(crate) const MESSAGE_WORDS: &[&str] = &[
    "\x01q\0\0\0\0\0\0\0\0\x01\0r/a",
    "\x01f\0\0\0\0\0\0\0\0\x01\0r",
    "\x01a\0\0\0\0\0\0\0\0\x01",
    "\x01p\0\0\0\0\0\0\0\0",
    "\x01c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    "f\x02\0/a",
    "t\x02\0/a",
    "o\x01\0/",
    "m",
];

/// What is read has bounds, and can be written and read as the same.
pub(crate) fn announcement(data: &[u8]) {
    let Some(read) = Announcement::decode(data) else { return };
    assert!(read.names.open_trees().len() <= OPEN_TREES_MAX);
    let again = Announcement::decode(&read.encode());
    // One that grows when it is written may have to be shortened.
    if let Some(again) = again.filter(|again| again.exports == read.exports && again.doors == read.doors) {
        assert_eq!(again.names.build(), read.names.build());
        assert_eq!(again.is_leaving, read.is_leaving);
    }
}

/// The same for messages in their binary form. Each is read in one way only: what was read is
/// written with the same bytes.
pub(crate) fn message(data: &[u8]) {
    if let Some(request) = Request::decode(data) {
        assert_eq!(request.encode(), data);
        if let Request::Who { path, .. } = request {
            assert!(path.as_str().len() <= PATH_BYTES_MAX);
        }
    }
    if let Some(reply) = Reply::decode(data) {
        assert_eq!(reply.encode(), data);
        if let Reply::Piece(piece) = reply {
            assert!(piece.data.len() <= PIECE_BYTES);
        }
    }
    if let Some(changes) = Changes::decode(data) {
        assert_eq!(changes.encode(), data);
        assert!(changes.list.len() <= CHANGES_MAX);
        let bytes: usize = changes.list.iter().map(NameChange::bytes).sum();
        assert!(bytes < data.len());
    }
}
