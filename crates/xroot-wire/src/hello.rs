//! The first words: 20 bytes of the client, 16 of the server.

use crate::limits::{HELLO_BYTES, HELLO_REPLY_BYTES};

/// What every client says first: the numbers 0, 0, 0, 4 and 2012.
pub const HELLO: [u8; HELLO_BYTES] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 7, 0xdc];

/// Whether the first bytes of a connection may be a hello of this protocol. Neither HTTP nor TLS
/// begins with a zero byte, so one byte decides.
#[must_use]
pub fn looks_like_hello(first: &[u8]) -> bool {
    let known = first.len().min(HELLO_BYTES);
    !first.is_empty() && first[..known] == HELLO[..known]
}

/// What a server is to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It sends clients elsewhere.
    Redirector,
    /// It has files.
    DataServer,
}

/// The answer to the hello: an ordinary `ok` response on stream 0 with version and role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloReply {
    /// The protocol version of the server.
    pub version: u32,
    /// What the server is.
    pub role: Role,
}

impl HelloReply {
    /// The bytes to send.
    #[must_use]
    pub fn encode(self) -> [u8; HELLO_REPLY_BYTES] {
        let mut bytes = [0; HELLO_REPLY_BYTES];
        bytes[7] = 8;
        bytes[8..12].copy_from_slice(&self.version.to_be_bytes());
        bytes[15] = u8::from(self.role == Role::DataServer);
        bytes
    }

    /// Reads an answer; `None` when it is none.
    #[must_use]
    pub fn parse(bytes: &[u8; HELLO_REPLY_BYTES]) -> Option<Self> {
        let (front, body) = bytes.split_first_chunk::<8>()?;
        let (version, role) = body.split_first_chunk::<4>()?;
        if *front != [0, 0, 0, 0, 0, 0, 0, 8] {
            return None;
        }
        let role = match role {
            [0, 0, 0, 0] => Role::Redirector,
            [0, 0, 0, 1] => Role::DataServer,
            _ => return None,
        };
        Some(Self {
            version: u32::from_be_bytes(*version),
            role,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_told_from_other_protocols_by_its_beginning() {
        for end in 1..=HELLO_BYTES {
            assert!(looks_like_hello(&HELLO[..end]), "{end} bytes");
        }
        let mut more = HELLO.to_vec();
        more.extend_from_slice(b"\0\0\x0b\xbe");
        assert!(looks_like_hello(&more));
        for other in [&b""[..], b"GET / HTTP/1.1", b"\x16\x03\x01", &[0, 0, 0, 1], &[0; 16]] {
            assert!(!looks_like_hello(other), "{other:?}");
        }
    }

    #[test]
    fn a_reply_is_read_as_it_was_written_and_others_are_refused() {
        let reply = HelloReply {
            version: 0x511,
            role: Role::DataServer,
        };
        let bytes = reply.encode();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 5, 0x11, 0, 0, 0, 1]);
        assert_eq!(HelloReply::parse(&bytes), Some(reply));
        for at in [0, 3, 7, 15] {
            let mut bad = bytes;
            bad[at] = 9;
            assert_eq!(HelloReply::parse(&bad), None, "byte {at}");
        }
    }
}
