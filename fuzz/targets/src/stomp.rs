//! Target for the frames of STOMP.

use stomp_wire::{Decoded, Version, decode};

/// Pieces of frames.
pub(crate) const FRAME_WORDS: &[&str] = &[
    "CONNECT\n",
    "SUBSCRIBE\n",
    "accept-version:1.0,1.1,1.2\n",
    "content-length:1\n",
    "\\c",
    "\\r",
    "\\n",
    "\r\n",
    "\n\n\0",
];

/// A frame has no more bytes than there are, more bytes after it change nothing, fewer make it
/// partial, and what was read can be written and reads as the same.
pub(crate) fn frame(data: &[u8]) {
    for version in [Version::V10, Version::V11, Version::V12] {
        let Ok(Decoded::Frame(frame, count)) = decode(data, version) else {
            continue;
        };
        assert!(count > 0 && count <= data.len());
        assert_eq!(
            decode(&data[..count], version),
            Ok(Decoded::Frame(frame.clone(), count))
        );
        assert_eq!(decode(&data[..count - 1], version), Ok(Decoded::Partial));
        let mut out = Vec::new();
        frame.encode(version, &mut out);
        if let Ok(Decoded::Frame(again, written)) = decode(&out, version) {
            assert_eq!((again, written), (frame, out.len()));
        }
    }
}
