//! How long an issuer that has failed is left alone.
//!
//! A token can be such that its issuer fails at it, so a failure counts against the user whose
//! token it was. Only when it fails for several users in a row, it counts against the issuer.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::limits::{FAILING_USERS_MAX, RENEWAL_PAUSE_MAX, RENEWAL_PAUSE_MIN};

/// The pauses of one issuer.
#[derive(Default)]
pub(super) struct Pauses {
    all: Pause,
    by_user: HashMap<String, Pause>,
    /// Users for whom it has failed since it last worked.
    failing: Vec<String>,
    /// What it failed with last, in words that name it.
    pub(super) why: String,
}

#[derive(Default)]
struct Pause {
    until: Option<Instant>,
    failures: u32,
}

impl Pauses {
    /// How long it is not asked for tokens of this user.
    pub(super) fn left(&self, user: &str, now: Instant) -> Duration {
        let own = self.by_user.get(user).map_or(Duration::ZERO, |pause| pause.left(now));
        own.max(self.all.left(now))
    }

    /// It has answered for this user.
    pub(super) fn works(&mut self, user: &str) {
        self.all = Pause::default();
        self.failing.clear();
        self.by_user.remove(user);
    }

    /// It has failed for this user, and perhaps says when to ask again. Returns whether a pause
    /// begins.
    pub(super) fn fails(&mut self, user: &str, after: Option<Duration>, why: &str, now: Instant) -> bool {
        let begins = self.left(user, now).is_zero();
        why.clone_into(&mut self.why);
        // A user who is due again and was not asked has left.
        self.by_user.retain(|_, pause| !pause.is_forgotten(now));
        self.by_user.entry(user.to_owned()).or_default().grow(after, now);
        if !self.failing.iter().any(|known| known == user) {
            self.failing.push(user.to_owned());
        }
        if self.failing.len() >= FAILING_USERS_MAX {
            self.all.grow(after, now);
            self.failing.clear();
        }
        begins
    }
}

impl Pause {
    fn left(&self, now: Instant) -> Duration {
        let until = self.until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until + RENEWAL_PAUSE_MAX < now)
    }

    /// Each failure doubles it. Requests that fail together count once.
    fn grow(&mut self, after: Option<Duration>, now: Instant) {
        if !self.left(now).is_zero() {
            return;
        }
        let doubled = RENEWAL_PAUSE_MIN * 2u32.saturating_pow(self.failures.min(16));
        let time = after.unwrap_or(doubled).min(RENEWAL_PAUSE_MAX);
        self.failures += 1;
        self.until = Some(now + time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_at_which_an_issuer_fails_delays_no_other_user() {
        let (mut pauses, mut now) = (Pauses::default(), Instant::now());
        for time in 1..=3 {
            now += pauses.left("eve", now);
            let begins = [(); 3].map(|()| pauses.fails("eve", None, "it fails", now));
            assert_eq!(begins, [true, false, false], "requests that fail together");
            assert_eq!(pauses.left("eve", now), RENEWAL_PAUSE_MIN * 2u32.pow(time - 1));
            assert_eq!(pauses.left("jane", now), Duration::ZERO);
        }
        pauses.works("jane");
        assert!(!pauses.left("eve", now).is_zero());
    }

    #[test]
    fn an_issuer_that_fails_for_several_users_is_left_alone() {
        let (mut pauses, now) = (Pauses::default(), Instant::now());
        for user in 0..FAILING_USERS_MAX {
            assert!(pauses.left("jane", now).is_zero());
            pauses.fails(&user.to_string(), None, "it fails", now);
        }
        assert_eq!(pauses.left("jane", now), RENEWAL_PAUSE_MIN);
        pauses.works("jane");
        assert!(pauses.left("jane", now).is_zero());
    }
}
