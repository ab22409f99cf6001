//! The last request of a command, for the user whose `--timeout` has ended it.

use std::fmt;

use remote::{Activity, ActivityNote};
use types::Location;

/// The last request of a command.
#[derive(Clone, Debug)]
pub(crate) struct LastAsked {
    pub(super) place: Location,
    pub(super) activity: ActivityNote,
}

impl fmt::Display for LastAsked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing = match self.activity.latest() {
            Activity::Connect => "connecting to the server of",
            Activity::Ask => "asking about",
            Activity::Transfer => "transferring",
            Activity::Checksum => "waiting for the checksum of",
            Activity::Remove => "removing",
        };
        write!(formatter, "{doing} {}", self.place)
    }
}
