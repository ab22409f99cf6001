//! The small opaque values that tie requests, answers, files and connections together.

use std::fmt;

/// The two bytes by which a client recognises the answer to a request. A server only echoes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub [u8; 2]);

impl StreamId {
    /// The one used while a session is set up, and in unsolicited messages.
    pub const ZERO: Self = Self([0, 0]);

    /// The id with this number.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number.to_be_bytes())
    }

    /// The number of this id.
    #[must_use]
    pub const fn number(self) -> u16 {
        u16::from_be_bytes(self.0)
    }
}

/// The four bytes by which a server recognises an open file. Clients send them back as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileHandle(pub [u8; 4]);

impl FileHandle {
    /// The handle with this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number.to_be_bytes())
    }

    /// The number of this handle.
    #[must_use]
    pub const fn number(self) -> u32 {
        u32::from_be_bytes(self.0)
    }
}

/// The sixteen bytes that name a session. Knowing them is enough to bind a connection to the
/// session, so they must be unguessable, and never appear in logs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// The first bytes of every id that a Crossload server gives.
    const OWN_PREFIX: [u8; 4] = *b"CrLd";

    /// The id of a session of a Crossload server. `random` must not be guessed.
    #[must_use]
    pub fn own(random: [u8; 12]) -> Self {
        let mut id = [0; 16];
        let (prefix, rest) = id.split_at_mut(Self::OWN_PREFIX.len());
        prefix.copy_from_slice(&Self::OWN_PREFIX);
        rest.copy_from_slice(&random);
        Self(id)
    }

    /// Whether a Crossload server gave it. Such a server answers
    /// [`Query::unlisted`](crate::request::Query::unlisted), and a client knows it without asking.
    /// A wrong guess costs one refused question.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0.starts_with(&Self::OWN_PREFIX)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionId(…)")
    }
}
