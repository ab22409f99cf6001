//! Hops that the queue has chosen: a third storage between two that share no protocol.

use serde::{Deserialize, Serialize};

/// How far a file is on its way by a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HopPart {
    /// It is copied from its source to the hop.
    Incoming,
    /// It is copied from the hop to its destination.
    Outgoing,
    /// The hop was of no use: it goes without.
    GivenUp,
}

/// A file at a hop, under one of the protocols that the hop speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopFile {
    /// Its URL.
    pub url: String,
    /// The storage.
    pub storage: String,
}

/// The hop of one file. The file is in the queue of the link that its present part uses, so both
/// copies count for links, shares and limits like any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The part of the way.
    pub part: HopPart,
    /// As the source's copy is written.
    pub incoming: HopFile,
    /// As the copy to the destination reads it.
    pub outgoing: HopFile,
    /// The storage of the file's source.
    pub source_storage: String,
    /// The storage of the file's destination.
    pub destination_storage: String,
    /// The checksum that was compared at the hop, such as `adler32:1a2b3c4d`.
    pub checksum: Option<String>,
    /// The size at the hop.
    pub size_bytes: Option<u64>,
    /// How often the hop had lost the file when its second copy began.
    pub losses: u8,
    /// A copy from the hop to the destination was begun by a worker that was lost before it stored
    /// how it ended.
    #[serde(default)]
    pub destination_interrupted: bool,
    /// Why the file goes without the hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up_for: Option<String>,
}

impl Hop {
    /// Whether the present part begins at an end where a lost worker may have left something. What
    /// is at a hop is the file's own, and is replaced.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.part != HopPart::Incoming && self.destination_interrupted
    }

    /// The storages of the present part: from, and to.
    #[must_use]
    pub fn link(&self) -> [&str; 2] {
        match self.part {
            HopPart::Incoming => [&self.source_storage, &self.incoming.storage],
            HopPart::Outgoing => [&self.outgoing.storage, &self.destination_storage],
            HopPart::GivenUp => [&self.source_storage, &self.destination_storage],
        }
    }
}
