//! Files that clients have opened with a capability. XRootD's clients ask for the checksum of such
//! a file afterwards, on another connection, and cannot send the capability with that question.
//!
//! They are known by address, user name and process number, as in third-party copies.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use types::LogicalPath;

use crate::limits::{CAPABILITY_USE_TIME, CAPABILITY_USES_MAX};

/// A client program with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) path: LogicalPath,
    /// Without the IPv6 form of IPv4 addresses.
    pub(crate) address: IpAddr,
    /// User name and process number of its login.
    pub(crate) caller: String,
}

/// The files that were opened lately; the oldest give way.
#[derive(Default)]
pub(crate) struct CapabilityUses(Mutex<VecDeque<(Use, Instant)>>);

impl CapabilityUses {
    /// The file is open, or was until now.
    pub(crate) fn note(&self, used: Use, now: Instant) {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        uses.retain(|(known, when)| *known != used && is_recent(*when, now));
        if uses.len() >= CAPABILITY_USES_MAX {
            uses.pop_front();
        }
        uses.push_back((used, now));
    }

    /// Whether the client had the file open lately.
    pub(crate) fn knows(&self, used: &Use, now: Instant) -> bool {
        let uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        uses.iter().any(|(known, when)| known == used && is_recent(*when, now))
    }
}

fn is_recent(when: Instant, now: Instant) -> bool {
    let age: Duration = now.saturating_duration_since(when);
    age < CAPABILITY_USE_TIME
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(path: &str, caller: &str) -> Use {
        Use {
            path: LogicalPath::parse(path).unwrap(),
            address: "192.0.2.7".parse().unwrap(),
            caller: caller.to_owned(),
        }
    }

    #[test]
    fn a_use_is_that_of_one_client_and_file_for_a_while() {
        let (uses, now) = (CapabilityUses::default(), Instant::now());
        uses.note(used("/f", "jane.1"), now);
        assert!(uses.knows(&used("/f", "jane.1"), now));
        assert!(!uses.knows(&used("/g", "jane.1"), now));
        assert!(!uses.knows(&used("/f", "jane.2"), now));
        let other = Use {
            address: "192.0.2.8".parse().unwrap(),
            ..used("/f", "jane.1")
        };
        assert!(!uses.knows(&other, now));
        assert!(!uses.knows(&used("/f", "jane.1"), now + CAPABILITY_USE_TIME));
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let (uses, now) = (CapabilityUses::default(), Instant::now());
        for number in 0..=CAPABILITY_USES_MAX {
            uses.note(used(&format!("/{number}"), "jane.1"), now);
        }
        assert!(!uses.knows(&used("/0", "jane.1"), now));
        assert!(uses.knows(&used("/1", "jane.1"), now));
    }
}
