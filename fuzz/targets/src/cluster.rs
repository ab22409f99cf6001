//! Target for the cluster protocol: whatever a manager sends.

use xroot_wire::cms::{Decoded, Duty, Message, Reply, Session, decode};

/// Pieces of messages.
pub(crate) const CLUSTER_WORDS: &[&str] = &[
    "\0\0\0\x07\x14\x20\0\x03/a\0",
    "\0\0\0\0\x11\0\0\0",
    "\0\0\0\0\x1a\0\0\0",
    "\0\0\0\0\x18\x01\0\x06\0\x04h:1\0",
    "\0\0\0\0\x01\0\0\x05\0\0\0\x02\0",
    "\0\x03/a\0",
    "\0\0",
];

/// A stream is cut into frames in one way only; what was read can be written, and reads as the
/// same; an ended session stays ended; and every path and host is within its message.
pub(crate) fn stream(data: &[u8]) {
    let (mut rest, mut session) = (data, Session::LoggingIn);
    while let Decoded::Frame(frame, used) = decode(rest) {
        assert_eq!(used, 8 + frame.data.len());
        assert!(matches!(decode(&rest[..used - 1]), Decoded::Partial(1)));
        if let Some(Reply::Login(login)) = Reply::parse(&frame) {
            let mut out = Vec::new();
            if login.encode(&mut out).is_ok() {
                let Decoded::Frame(again, _) = decode(&out) else {
                    panic!("a frame was written");
                };
                assert_eq!(Reply::parse(&again), Some(Reply::Login(login)));
            }
        }
        if let Some(message) = Message::parse(&frame) {
            again(message);
        }
        let has_ended = session == Session::Ended;
        match session.take(&frame) {
            Ok(Duty::Look { path, .. }) => assert!(!path.is_empty() && path.len() <= frame.data.len()),
            Ok(Duty::GoTo(others)) => assert!(others.hosts().all(|host| !host.is_empty())),
            Ok(_) | Err(_) => {}
        }
        assert!(!has_ended || session == Session::Ended);
        rest = &rest[used..];
    }
}

/// Loads above a hundred percent are written as a hundred, so they are left out.
fn again(message: Message<'_>) {
    if let Message::Load(load) = message {
        let values = [
            load.processors,
            load.network,
            load.runnable,
            load.memory,
            load.paging,
            load.disk,
        ];
        if values.iter().any(|value| *value > 100) {
            return;
        }
    }
    let mut out = Vec::new();
    if message.encode(&mut out) && !matches!(message, Message::Statistics { .. }) {
        let Decoded::Frame(frame, used) = decode(&out) else {
            panic!("a frame was written");
        };
        assert_eq!(used, out.len());
        let read = Message::parse(&frame).expect("what was written can be read");
        match (read, message) {
            // A message without a question has no mark.
            (Message::Gone(one), Message::Gone(other)) => assert_eq!(one, other),
            (one, other) => assert_eq!(one, other),
        }
    }
}
