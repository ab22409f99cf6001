//! What a server is still used for: an operator drains it, in steps, before it is taken away.

use serde::{Deserialize, Serialize};

use crate::operation::Operation;

/// What a server is still used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drain {
    /// Everything.
    #[default]
    Active,
    /// Reading, removing, and new content of the files that it has; it takes no new files.
    NoWrites,
    /// Nothing new; transfers that run finish. Names can still be looked up and removed.
    NoReads,
}

impl Drain {
    /// All steps, in order.
    pub const ALL: [Self; 3] = [Self::Active, Self::NoWrites, Self::NoReads];

    /// The name in configurations, statuses and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::NoWrites => "no_writes",
            Self::NoReads => "no_reads",
        }
    }

    /// The step of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|drain| drain.name() == name)
    }

    /// Whether an operation is no longer begun in this step. What is finished, looked up or removed
    /// always may be: a server that is being emptied must let clients do that.
    #[must_use]
    pub fn refuses(self, operation: &Operation) -> bool {
        let least = match operation {
            Operation::Create | Operation::CreateTree | Operation::MakeDirectory => Self::NoWrites,
            // The content of a file must not be stored elsewhere as long as the old one is here.
            Operation::Overwrite | Operation::Read | Operation::ReadTree => Self::NoReads,
            Operation::Stat
            | Operation::List
            | Operation::Delete
            | Operation::RemoveDirectory
            | Operation::RemoveTree
            | Operation::LockTree
            | Operation::ChangeMode
            | Operation::Rename { .. } => return false,
        };
        self >= least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_names_of_their_documents() {
        for drain in Drain::ALL {
            assert_eq!(serde_json::to_string(&drain).unwrap(), format!("\"{}\"", drain.name()));
            assert_eq!(Drain::from_name(drain.name()), Some(drain));
            assert_eq!(Drain::ALL[drain as usize], drain);
        }
        assert_eq!(Drain::from_name("empty"), None);
    }
}
