//! What goes wrong, and where.

use crate::dice::Dice;
use crate::ledger::Named;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    Source,
    Destination,
}

/// What goes wrong in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// A server is killed (SIGKILL) and started again.
    Kill(Victim),
    /// A server is stopped (SIGSTOP), and goes on after a while.
    Stop(Victim),
    /// The client is killed.
    KillClient,
    /// The connections to a server are reset.
    Cut(Victim),
    /// One bit of a payload turns over.
    Flip(Victim),
    /// The destination's disk is full before the end.
    Full,
}

impl Fault {
    const ALL: [Self; 12] = [
        Self::None,
        Self::Kill(Victim::Destination),
        Self::Kill(Victim::Destination),
        Self::Kill(Victim::Source),
        Self::Stop(Victim::Destination),
        Self::Stop(Victim::Source),
        Self::KillClient,
        Self::Cut(Victim::Destination),
        Self::Cut(Victim::Source),
        Self::Flip(Victim::Destination),
        Self::Flip(Victim::Source),
        Self::Full,
    ];

    pub(crate) fn draw(dice: &mut Dice) -> Self {
        dice.pick(&Self::ALL)
    }
}

impl Named for Fault {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Kill(Victim::Source) => "source killed",
            Self::Kill(Victim::Destination) => "destination killed",
            Self::Stop(Victim::Source) => "source stopped",
            Self::Stop(Victim::Destination) => "destination stopped",
            Self::KillClient => "client killed",
            Self::Cut(Victim::Source) => "source cut off",
            Self::Cut(Victim::Destination) => "destination cut off",
            Self::Flip(Victim::Source) => "bit flipped, source",
            Self::Flip(Victim::Destination) => "bit flipped, destination",
            Self::Full => "disk full",
        }
    }
}
