//! How far a copy is, as pages say it: it moves when a byte has moved, and not before.

use transfer::Progress;
use types::Phase;

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The servers are asked about the file; the connection to them may not be open yet.
    Asking,
    /// The other server is asked for the data, or to take it, and has not answered.
    Requested,
    /// The other server has answered, and no byte has moved.
    FirstByte,
    Moving,
    /// It should move, and has not for a while.
    Stalled,
    Checksum,
    Commit,
    Cleanup,
}

impl Stage {
    /// `stands_still`: no byte has moved for longer than is usual.
    pub(crate) fn of(progress: &Progress, stands_still: bool) -> Self {
        match progress.phase() {
            Phase::Checksum => Self::Checksum,
            Phase::Commit | Phase::Archiving => Self::Commit,
            Phase::Cleanup => Self::Cleanup,
            Phase::Transfer if stands_still => Self::Stalled,
            Phase::Transfer => Self::of_data(progress),
            _ => Self::Asking,
        }
    }

    fn of_data(progress: &Progress) -> Self {
        let is_connected = progress.is_connected();
        // A copy between two stores of this server never has a connection.
        let is_interrupted = !is_connected && progress.was_connected();
        match progress.moved_bytes() {
            0 if is_connected => Self::FirstByte,
            0 => Self::Requested,
            _ if is_interrupted => Self::Requested,
            _ => Self::Moving,
        }
    }

    /// The word for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Asking => "asking",
            Self::Requested => "requested",
            Self::FirstByte => "first_byte",
            Self::Moving => "moving",
            Self::Stalled => "stalled",
            Self::Checksum => "checksum",
            Self::Commit => "commit",
            Self::Cleanup => "cleanup",
        }
    }

    /// The words for people.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Asking => "○ connecting, asking about the file",
            Self::Requested => "○ waiting for an answer",
            Self::FirstByte => "○ waiting for the first byte",
            Self::Moving => "✓ moving",
            Self::Stalled => "✕ stalled",
            Self::Checksum => "○ comparing checksums",
            Self::Commit => "○ storing under its name",
            Self::Cleanup => "○ cleaning up",
        }
    }

    /// The class of its colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Moving => "good",
            Self::Stalled => "bad",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use net::Ends;

    use super::*;

    #[test]
    fn a_copy_moves_when_a_byte_has_moved() {
        let progress = Progress::new();
        let stage = |stands_still| Stage::of(&progress, stands_still);
        assert_eq!(stage(true), Stage::Asking, "nothing moves yet");
        progress.enter(Phase::Transfer);
        assert_eq!(stage(false), Stage::Requested);
        let peer = "192.0.2.1:443".parse().unwrap();
        let ends = Ends { local: peer, peer };
        let connected = progress.connected(Some(ends), None);
        assert_eq!(stage(false), Stage::FirstByte);
        assert_eq!(stage(true), Stage::Stalled);
        progress.add_moved(1);
        assert_eq!(stage(false), Stage::Moving);
        drop(connected);
        assert_eq!(stage(false), Stage::Requested, "it is interrupted");
        progress.enter(Phase::Commit);
        assert_eq!(stage(true), Stage::Commit);
    }

    #[test]
    fn a_copy_within_this_server_needs_no_connection() {
        let progress = Progress::new();
        progress.enter(Phase::Transfer);
        progress.add_moved(1);
        assert_eq!(Stage::of(&progress, false), Stage::Moving);
    }
}
