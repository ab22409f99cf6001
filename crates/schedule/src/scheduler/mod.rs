//! Which queues may start how many copies now, and what keeps the rest.
//!
//! Slots are handed out one at a time, storage first: destinations take turns, then the links into
//! one, then the virtual organisations of a link, then their activities, then the users of an
//! activity; of a user's files the highest priority goes first. A turn goes to the branch that has
//! used least of its share. Use is counted in the time that copies hold slots ([`ShareUnit`]), so
//! it does not depend on who starts them; the scheduler keeps it between decisions. A link weighs
//! twice as much for each step of the highest priority that waits there, so an urgent link does not
//! starve behind a busy one.
//!
//! Where users contend for the slots of a storage, of an organisation or of the worker, these are
//! shared among the organisations and users first, whatever the number of their links
//! (`contention`).
//!
//! Nothing starves, by three rules:
//! 1. A queue counts one priority higher for each [`AGING_MS`](crate::limits::AGING_MS) without a
//!    turn, up to the highest priority. Among equals of an activity of a user the one that waits
//!    longest has its turn.
//! 2. A virtual organisation on a link (a *flow*) is overdue once others had
//!    [`OVERTAKING_FACTOR`](crate::limits::OVERTAKING_FACTOR) times as many turns in its place as
//!    its share implies. Overdue flows go first, the one that was overtaken most before the others.
//! 3. If an overdue flow lacks one of its slots, the others are kept for it: else a link between
//!    two busy storages would never find both free at the same time. Each limit keeps one slot at
//!    most, which is the only case where a slot stays empty although a file could use it.
//!
//! A decision over 3000 queues with 1000 grants takes 4 ms in a release build if they are those of
//! one user, and 6 to 11 ms with up to a hundred users; over 30,000 queues it takes 0.1 s.

mod accounts;
mod contention;
mod input;
mod key;
mod tree;
mod turn;

#[cfg(test)]
mod tests;

pub use input::{Decision, Grant, Inputs, LinkPolicy, Policy, Queue, ShareUnit, Shortfall};

use accounts::Accounts;
use tree::Tree;
use turn::Round;

use crate::limits::{ACTIVE_WEIGHT_MS, COPY_TIMES_STARTS, ELAPSED_MAX_MS};

/// Shares slots out among queues. It keeps what each branch has used.
///
/// With several workers each has its own: use is seen in the running copies of all, so shares hold
/// across workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scheduler {
    accounts: Accounts,
    decisions: u64,
    last_ms: Option<i64>,
    copies: CopyTimes,
}

/// How long copies run, seen by the slots that they hold (Little's law).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CopyTimes {
    /// Time of slots in which copies ran.
    slots_ms: f64,
    /// Copies that started.
    starts: f64,
}

impl CopyTimes {
    fn take(&mut self, slots_ms: f64, starts: f64) {
        self.slots_ms += slots_ms;
        self.starts += starts;
        if self.starts > COPY_TIMES_STARTS {
            self.slots_ms /= 2.0;
            self.starts /= 2.0;
        }
    }

    /// The mean, up to [`ACTIVE_WEIGHT_MS`].
    fn mean_ms(&self) -> f64 {
        match self.starts > 0.0 {
            true => (self.slots_ms / self.starts).min(ACTIVE_WEIGHT_MS),
            false => ACTIVE_WEIGHT_MS,
        }
    }
}

impl Scheduler {
    /// Decides what may start now.
    ///
    /// No limit is exceeded, and no slot that a waiting file could use stays free while there are
    /// places, except those kept for overdue flows.
    pub fn decide(&mut self, inputs: &Inputs<'_>) -> Vec<Grant> {
        self.decide_with(inputs, |round| round.grants())
    }

    /// As [`Scheduler::decide`], and says what keeps the rest.
    pub fn explain(&mut self, inputs: &Inputs<'_>) -> Decision {
        self.decide_with(inputs, |round| Decision {
            grants: round.grants(),
            shortfalls: round.shortfalls(),
        })
    }

    fn decide_with<T>(&mut self, inputs: &Inputs<'_>, report: impl FnOnce(&Round<'_, '_>) -> T) -> T {
        self.decisions += 1;
        let since_ms = self.last_ms.map_or(0, |last| inputs.now_ms.saturating_sub(last));
        self.last_ms = Some(inputs.now_ms);
        let tree = Tree::of(inputs, &mut self.accounts);
        let present = tree.present.len();
        let mut round = Round::new(inputs, tree, &mut self.accounts, self.decisions);
        let elapsed_ms = since_ms.clamp(0, ELAPSED_MAX_MS);
        self.copies.take(round.slots_ms(elapsed_ms), 0.0);
        round.active_weight_ms = self.copies.mean_ms();
        round.charge_elapsed(elapsed_ms);
        round.serve_overdue();
        round.serve_by_share();
        self.copies.take(0.0, round.started());
        round.remember();
        let reported = report(&round);
        self.accounts.forget_idle(self.decisions, present);
        reported
    }
}
