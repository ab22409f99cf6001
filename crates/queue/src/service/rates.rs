//! Rate limits of storages, shared by the copies whose data this process moves itself.

use std::collections::HashMap;

use schedule::optimizer::End;
use transfer::RateLimit;

use crate::limits::RATE_LIMITS_MAX;

/// The limits that copies hold, by the name of the setting and the direction.
#[derive(Debug, Default)]
pub(super) struct Rates(HashMap<(String, bool), RateLimit>);

/// The key of a limit.
fn key(name: &str, end: End) -> (String, bool) {
    (name.to_owned(), end == End::Destination)
}

impl Rates {
    /// The limit of this name. A new one begins with this rate.
    pub(super) fn limit(&mut self, name: &str, end: End, bytes_s: Option<u64>) -> RateLimit {
        if self.0.len() >= RATE_LIMITS_MAX {
            self.0.retain(|_, limit| !limit.is_unused());
        }
        let limit = self.0.entry(key(name, end));
        limit.or_insert_with(|| RateLimit::new(bytes_s)).clone()
    }

    /// Gives the limits the rates of changed settings, for copies that run as well.
    pub(super) fn take(&mut self, rate: impl Fn(&str, End) -> Option<u64>) {
        self.0.retain(|_, limit| !limit.is_unused());
        for ((name, is_inbound), limit) in &self.0 {
            let end = if *is_inbound { End::Destination } else { End::Source };
            limit.set(rate(name, end));
        }
    }
}
