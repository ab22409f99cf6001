//! How often a key is made for one user: making one takes a fraction of a second of computing, and
//! a client could ask for one in each of its sessions.

use std::collections::HashMap;
use std::time::Instant;

use types::Result;

use super::{Delegator, full};
use crate::limits::{DELEGATION_KEY_INTERVAL, DELEGATION_KEY_USERS_MAX, DELEGATION_KEYS_AT_ONCE_MAX};

/// When the keys of each user would be used up, if they came at intervals. The same user with other
/// VOMS attributes counts as one.
#[derive(Debug, Default)]
pub struct KeyRate(HashMap<String, Instant>);

impl KeyRate {
    /// Counts a key.
    ///
    /// # Errors
    /// `overloaded`: the user has had too many lately.
    pub fn count(&mut self, owner: &Delegator, now: Instant) -> Result<()> {
        self.0.retain(|_, used_up| *used_up > now);
        let person = owner.person();
        let used_up = self.0.get(&person).copied();
        if used_up.is_none() && self.0.len() >= DELEGATION_KEY_USERS_MAX {
            return full("users who asked for keys lately", DELEGATION_KEY_USERS_MAX);
        }
        let used_up = used_up.unwrap_or(now) + DELEGATION_KEY_INTERVAL;
        if used_up > now + DELEGATION_KEY_INTERVAL * DELEGATION_KEYS_AT_ONCE_MAX {
            let what = format!(
                "keys for delegated proxies of one user, then one every {} s",
                DELEGATION_KEY_INTERVAL.as_secs()
            );
            return full(&what, DELEGATION_KEYS_AT_ONCE_MAX as usize);
        }
        self.0.insert(person, used_up);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delegation::tests::user;

    #[test]
    fn keys_come_back_one_after_the_other() {
        let mut rate = KeyRate::default();
        let start = Instant::now();
        let mut other = user("a");
        other.fqans.reverse();
        other.fqans.push("/vo/more".to_owned());
        for number in 0..DELEGATION_KEYS_AT_ONCE_MAX {
            let owner = if number % 2 == 0 { user("a") } else { other.clone() };
            rate.count(&owner, start).unwrap();
        }
        assert!(rate.count(&user("a"), start).is_err() && rate.count(&other, start).is_err());
        rate.count(&user("b"), start).unwrap();
        let later = start + DELEGATION_KEY_INTERVAL;
        rate.count(&other, later).unwrap();
        assert!(rate.count(&user("a"), later).is_err());
        let rested = later + DELEGATION_KEY_INTERVAL * DELEGATION_KEYS_AT_ONCE_MAX;
        rate.count(&user("a"), rested).unwrap();
        assert_eq!(rate.0.len(), 1, "users who have rested are forgotten");
    }

    #[test]
    fn the_number_of_users_is_limited() {
        let mut rate = KeyRate::default();
        let start = Instant::now();
        for number in 0..DELEGATION_KEY_USERS_MAX {
            rate.count(&user(&number.to_string()), start).unwrap();
        }
        rate.count(&user("one more"), start).unwrap_err();
        rate.count(&user("0"), start).unwrap();
    }
}
