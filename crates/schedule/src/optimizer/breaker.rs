//! Endpoints that cannot be reached: nothing is sent to them except one copy from time to time.

use std::collections::BTreeMap;

use super::input::Link;
use super::limits;

/// Whether an endpoint, or a single link, is down.
#[derive(Clone, Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    open: Option<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    interval_ms: i64,
    next_probe_ms: i64,
    probe: Option<Link>,
    /// The last link probed: the next one has its turn.
    last: Option<Link>,
    /// Copies of each link before.
    before: BTreeMap<Link, u32>,
}

impl Breaker {
    /// Whether it is down.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the last copies failed to reach it.
    pub(super) fn has_failures(&self) -> bool {
        self.failures > 0
    }

    /// The link with the present probe.
    pub(super) fn probe(&self) -> Option<&Link> {
        self.open.as_ref()?.probe.as_ref()
    }

    /// Takes a failure to reach it on `link`. Returns whether that makes it count as down.
    pub(super) fn fail(&mut self, now_ms: i64, link: &Link) -> bool {
        self.failures = self.failures.saturating_add(1);
        match &mut self.open {
            Some(open) => {
                if open.probe.as_ref() == Some(link) {
                    open.probe = None;
                    open.interval_ms = (open.interval_ms * 3 / 2).min(limits::PROBE_INTERVAL_MAX_MS);
                    open.next_probe_ms = now_ms + open.interval_ms;
                }
                false
            }
            None => self.failures >= limits::DOWN_FAILURES,
        }
    }

    /// Marks it as down; `before` are the copies to come back to.
    pub(super) fn open(&mut self, now_ms: i64, before: BTreeMap<Link, u32>) {
        self.open = Some(Open {
            interval_ms: limits::PROBE_INTERVAL_MS,
            next_probe_ms: now_ms + limits::PROBE_INTERVAL_MS,
            probe: None,
            last: None,
            before,
        });
    }

    /// Chooses the link of the next probe if its time has come. `candidates` have waiting files.
    pub(super) fn choose_probe(&mut self, now_ms: i64, candidates: &[Link]) {
        let Some(open) = &mut self.open else { return };
        let left_ms = open.next_probe_ms.saturating_sub(now_ms);
        // More is left only if the clock was set back since.
        let is_early = left_ms > 0 && left_ms <= open.interval_ms;
        if is_early || candidates.is_empty() {
            return;
        }
        if open.probe.as_ref().is_some_and(|link| candidates.contains(link)) {
            return;
        }
        let next = candidates
            .iter()
            .find(|link| open.last.as_ref().is_none_or(|last| *link > last))
            .or(candidates.first());
        open.probe = next.cloned();
        open.last = next.cloned();
    }

    /// It answered. Returns the copies from before, if it was down.
    pub(super) fn answer(&mut self) -> Option<BTreeMap<Link, u32>> {
        self.failures = 0;
        self.open.take().map(|open| open.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_delays_no_probe() {
        let link = Link {
            source: "https://a:443".to_owned(),
            destination: "https://b:443".to_owned(),
        };
        let hour_ms = 3_600_000;
        for (now_ms, is_probed) in [
            (2 * hour_ms, false),
            (2 * hour_ms + limits::PROBE_INTERVAL_MS, true),
            (hour_ms, true),
        ] {
            let mut breaker = Breaker::default();
            breaker.open(2 * hour_ms, BTreeMap::new());
            breaker.choose_probe(now_ms, std::slice::from_ref(&link));
            assert_eq!(breaker.probe().is_some(), is_probed, "{now_ms}");
        }
    }
}
