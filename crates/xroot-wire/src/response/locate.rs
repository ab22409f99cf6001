//! Where a file is.

use types::Error;

use crate::bytes::text_bytes;
use crate::refusal::misbehaved;

/// A server that has a file, or knows who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// It is a manager: ask there.
    pub is_manager: bool,
    /// The file is being brought there, or the manager is not sure.
    pub is_pending: bool,
    /// It can be written to.
    pub is_writable: bool,
    /// Host and port; addresses stand in brackets.
    pub address: String,
}

impl Location {
    fn parse(token: &str) -> Option<Self> {
        let mut letters = token.chars();
        let (kind, access) = letters.next().zip(letters.next())?;
        let (is_manager, is_pending) = match kind {
            'S' => (false, false),
            's' => (false, true),
            'M' => (true, false),
            'm' => (true, true),
            _ => return None,
        };
        let is_writable = match access {
            'w' => true,
            'r' => false,
            _ => return None,
        };
        let address = letters.as_str();
        (!address.is_empty()).then(|| Self {
            is_manager,
            is_pending,
            is_writable,
            address: address.to_owned(),
        })
    }
}

/// Builds the answer to a `locate`.
#[derive(Clone, Debug, Default)]
pub struct LocateWriter {
    text: String,
}

impl LocateWriter {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a server.
    pub fn add(&mut self, location: &Location) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push(match (location.is_manager, location.is_pending) {
            (false, false) => 'S',
            (false, true) => 's',
            (true, false) => 'M',
            (true, true) => 'm',
        });
        self.text.push(if location.is_writable { 'w' } else { 'r' });
        self.text.push_str(&location.address);
    }

    /// The text, without a NUL.
    #[must_use]
    pub fn build(self) -> String {
        self.text
    }
}

/// Reads the answer to a `locate`.
///
/// # Errors
/// `peer_misbehaved` when one of its words cannot be understood.
pub fn parse_locations(body: &[u8]) -> Result<Vec<Location>, Error> {
    let wrong = || misbehaved("the answer about a file's place cannot be understood");
    let text = std::str::from_utf8(text_bytes(body)).map_err(|_| wrong())?;
    let words = text.split_ascii_whitespace();
    words.map(|word| Location::parse(word).ok_or_else(wrong)).collect()
}
