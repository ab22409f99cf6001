//! What a drained server refuses, at all doors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use policy::{Drain, Operation};
use types::{Error, ErrorCode, Phase, Result, Side};

/// What all doors of a server refuse because it is drained. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct DrainGate(Arc<AtomicU8>);

impl DrainGate {
    /// Refuses what this step refuses, from now on.
    pub fn set(&self, drain: Drain) {
        self.0.store(drain as u8, Ordering::Relaxed);
    }

    /// The step that is enforced.
    #[must_use]
    pub fn enforced(&self) -> Drain {
        let index = usize::from(self.0.load(Ordering::Relaxed));
        Drain::ALL.get(index).copied().unwrap_or_default()
    }

    /// Whether an operation may begin.
    ///
    /// # Errors
    /// `draining`.
    pub fn check(&self, operation: &Operation) -> Result<()> {
        let enforced = self.enforced();
        if !enforced.refuses(operation) {
            return Ok(());
        }
        let says = match enforced {
            Drain::NoReads => "it serves no new transfers",
            _ => "it takes no new files",
        };
        Err(Error::new(ErrorCode::Draining, Side::Active, Phase::Open).with_detail(says))
    }
}

#[cfg(test)]
mod tests {
    use types::LogicalPath;

    use super::*;

    #[test]
    fn each_step_refuses_more_and_removing_is_always_possible() {
        let gate = DrainGate::default();
        let rename = Operation::Rename {
            target: LogicalPath::root(),
            replaces: true,
            own: false,
        };
        let always = [
            Operation::Stat,
            Operation::List,
            Operation::Delete,
            Operation::RemoveTree,
            rename,
        ];
        let refused = |operation: &Operation| {
            gate.check(operation)
                .is_err_and(|error| error.code() == ErrorCode::Draining)
        };
        for (drain, writes, reads) in [
            (Drain::Active, false, false),
            (Drain::NoWrites, true, false),
            (Drain::NoReads, true, true),
        ] {
            gate.set(drain);
            assert_eq!(gate.enforced(), drain);
            for operation in [Operation::Create, Operation::CreateTree, Operation::MakeDirectory] {
                assert_eq!(refused(&operation), writes, "{drain:?} {operation:?}");
            }
            for operation in [Operation::Read, Operation::Overwrite] {
                assert_eq!(refused(&operation), reads, "{drain:?} {operation:?}");
            }
            assert!(!always.iter().any(refused), "{drain:?}");
        }
    }
}
