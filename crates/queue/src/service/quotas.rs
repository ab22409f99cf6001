//! When files come back whose user has no room left at a destination: one after the other, so that
//! a user with many of them does not keep a storage, and the slots of others, busy with questions.

use std::collections::HashMap;
use std::time::Duration;

use schedule::optimizer::Link;

use crate::clock::milliseconds;
use crate::limits::{HOLD_TIME_MAX, QUOTA_HOLDS_MAX, QUOTA_SPACING};

/// Users over their quotas, each on a link, and when the next of their files comes back.
#[derive(Debug, Default)]
pub(super) struct Quotas(HashMap<(Link, String), i64>);

impl Quotas {
    /// When a file comes back that would have waited for `wait` alone.
    pub(super) fn until_ms(&mut self, link: Link, user: String, now_ms: i64, wait: Duration) -> i64 {
        if self.0.len() >= QUOTA_HOLDS_MAX {
            self.0.retain(|_, next_ms| *next_ms > now_ms);
        }
        let first_ms = now_ms + milliseconds(wait);
        let latest_ms = now_ms + milliseconds(wait.max(HOLD_TIME_MAX));
        if self.0.len() >= QUOTA_HOLDS_MAX {
            return first_ms;
        }
        let next_ms = self.0.entry((link, user)).or_insert(first_ms);
        let until_ms = (*next_ms).clamp(first_ms, latest_ms);
        *next_ms = until_ms + milliseconds(QUOTA_SPACING);
        until_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HOLD_TIME;

    #[test]
    fn files_of_one_user_come_back_one_after_the_other() {
        let mut quotas = Quotas::default();
        let link = Link {
            source: "https://a:443".to_owned(),
            destination: "https://b:443".to_owned(),
        };
        let mut until = |user: &str, now_ms| quotas.until_ms(link.clone(), user.to_owned(), now_ms, HOLD_TIME) - now_ms;
        let (wait_ms, space_ms) = (milliseconds(HOLD_TIME), milliseconds(QUOTA_SPACING));
        assert_eq!(until("jane", 0), wait_ms);
        assert_eq!(until("jane", 0), wait_ms + space_ms);
        assert_eq!(until("john", 0), wait_ms);
        assert_eq!(until("jane", 2 * space_ms), wait_ms, "never sooner than a file alone");
        let last = (0..100_000).map(|_| until("jane", 0)).last();
        assert_eq!(last, Some(milliseconds(HOLD_TIME_MAX)));
    }
}
