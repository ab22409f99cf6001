//! How a round ended.

use crate::ledger::Named;

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The client got success, and the file is there.
    Acknowledged,
    /// The client got success, but something else is there.
    Lost,
    /// The client got a failure or no answer, and the old file is there.
    Refused,
    /// The client got a failure or no answer, and the whole new file is there.
    Unheard,
    /// The name holds content that no client stored.
    Broken,
}

/// In the order of the table.
pub(crate) const OUTCOMES: [Outcome; 5] = [
    Outcome::Acknowledged,
    Outcome::Refused,
    Outcome::Unheard,
    Outcome::Lost,
    Outcome::Broken,
];

impl Named for Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::Refused => "refused",
            Self::Unheard => "unheard",
            Self::Lost => "LOST",
            Self::Broken => "BROKEN",
        }
    }
}
