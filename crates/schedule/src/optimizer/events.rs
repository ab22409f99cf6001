//! Ends of copies: sizes of files, and errors by their side.

use std::collections::BTreeMap;

use super::input::{Decision, End, FailureClass, Link, Outcome};
use super::{LinkState, Optimizer, Side, Sizes, limits};

/// Weight of the newest file in the mean size.
const SIZE_SMOOTHING: f64 = 0.03;
/// Files of a new size until the mean counts.
const SIZES_MIN: u32 = 20;
/// A change of the mean size by this factor makes goodput incomparable.
const SIZE_FACTOR: f64 = 4.0;
/// Stalls within [`STALL_WINDOW_MS`] that count, at least.
const STALLS_MIN: u32 = 2;
/// Stalls that count, as a part of the link's copies.
const STALLS_PART: f64 = 0.05;
/// The time over which stalls are counted.
const STALL_WINDOW_MS: i64 = 60_000;

impl Optimizer {
    /// Takes the end of a copy. The decisions hold at once.
    pub fn ended(&mut self, now_ms: i64, link: &Link, outcome: Outcome) -> Vec<Decision> {
        if self.link_state(link).is_none() {
            return Vec::new();
        }
        let has_changed = match outcome {
            Outcome::Copied { size_bytes } => {
                if let Some(state) = self.links.get_mut(link) {
                    state.take_size(size_bytes);
                }
                self.answered(now_ms, link, &[End::Source, End::Destination])
            }
            Outcome::Failed {
                class,
                end,
                retry_after_ms,
            } => self.failed(now_ms, link, class, end, retry_after_ms.unwrap_or(0)),
        };
        if has_changed {
            self.allocate(now_ms, false)
        } else {
            Vec::new()
        }
    }

    fn failed(&mut self, now_ms: i64, link: &Link, class: FailureClass, end: Option<End>, retry_after_ms: i64) -> bool {
        if class == FailureClass::EndpointDown {
            return self.unreachable(now_ms, link, end);
        }
        let answered = end.is_some_and(|end| self.answered(now_ms, link, &[end]));
        let has_cut = match (class, end) {
            (FailureClass::Overload, Some(end)) => {
                let side = Side {
                    storage: link.storage(end).to_owned(),
                    end,
                };
                self.cut_side(now_ms, &side, retry_after_ms)
            }
            (FailureClass::Overload, None) => self.links.get_mut(link).is_some_and(|state| {
                let copies = f64::from(state.target);
                let why = "a server asked for less";
                state.climb.cut(now_ms, copies, retry_after_ms, why)
            }),
            (FailureClass::Stall, _) => self.links.get_mut(link).is_some_and(|state| state.stalled(now_ms)),
            _ => false,
        };
        answered || has_cut
    }

    fn cut_side(&mut self, now_ms: i64, side: &Side, retry_after_ms: i64) -> bool {
        let copies: u32 = self.links_of(side).map(|(_, state)| state.target).sum();
        let Some(state) = self.sides.get_mut(side) else {
            return false;
        };
        let why = format!("it asked for less with {copies} copies");
        state.climb.cut(now_ms, f64::from(copies), retry_after_ms, &why)
    }

    fn unreachable(&mut self, now_ms: i64, link: &Link, end: Option<End>) -> bool {
        if let Some(end) = end {
            let storage = link.storage(end).to_owned();
            let breaker = self.breakers.entry(storage.clone()).or_default();
            let was_open = breaker.is_open();
            let had_probe = breaker.probe().is_some();
            if breaker.fail(now_ms, link) {
                self.open_storage(now_ms, &storage);
                return true;
            }
            if was_open {
                return had_probe;
            }
        }
        let Some(state) = self.links.get_mut(link) else {
            return false;
        };
        let had_probe = state.breaker.probe().is_some();
        if state.breaker.fail(now_ms, link) {
            let before = BTreeMap::from([(link.clone(), state.target)]);
            state.breaker.open(now_ms, before);
            state.climb.call_off(now_ms);
            return true;
        }
        had_probe
    }

    fn open_storage(&mut self, now_ms: i64, storage: &str) {
        let mut before = BTreeMap::new();
        for (link, state) in &mut self.links {
            if link.source == storage || link.destination == storage {
                before.insert(link.clone(), state.target);
                state.breaker.answer();
                state.climb.call_off(now_ms);
            }
        }
        for (side, state) in &mut self.sides {
            if side.storage == storage {
                state.climb.call_off(now_ms);
            }
        }
        if let Some(breaker) = self.breakers.get_mut(storage) {
            breaker.open(now_ms, before);
        }
    }

    /// The ends answered on `link`. Returns whether one of them was down until now.
    fn answered(&mut self, now_ms: i64, link: &Link, ends: &[End]) -> bool {
        let mut before = BTreeMap::new();
        for end in ends {
            if let Some(breaker) = self.breakers.get_mut(link.storage(*end))
                && (!breaker.is_open() || breaker.probe() == Some(link))
            {
                before.extend(breaker.answer().unwrap_or_default());
            }
        }
        if let Some(state) = self.links.get_mut(link)
            && (!state.breaker.is_open() || state.breaker.probe() == Some(link))
        {
            before.extend(state.breaker.answer().unwrap_or_default());
        }
        let was_down = !before.is_empty();
        for (link, copies) in before {
            if let Some(state) = self.links.get_mut(&link) {
                state.target = (copies / 2).max(limits::INITIAL_COPIES).min(copies.max(1));
                state.climb.call_off(now_ms);
                "its endpoint answers again".clone_into(&mut state.climb.why);
            }
        }
        self.breakers
            .retain(|_, breaker| breaker.is_open() || breaker.has_failures());
        was_down
    }

    /// Closes breakers whose probe moves bytes, and chooses the next probes.
    pub(super) fn probe(&mut self, now_ms: i64) {
        let moving: Vec<Link> = self
            .links
            .iter()
            .filter(|(link, state)| state.active == 1 && state.goodput > 0.0 && self.is_link_down(link, state))
            .map(|(link, _)| link.clone())
            .collect();
        for link in moving {
            self.answered(now_ms, &link, &[End::Source, End::Destination]);
        }
        let waiting: Vec<Link> = self
            .links
            .iter()
            .filter(|(_, state)| state.waiting > 0 || state.active > 0)
            .map(|(link, _)| link.clone())
            .collect();
        for (storage, breaker) in &mut self.breakers {
            let candidates: Vec<Link> = waiting
                .iter()
                .filter(|link| link.source == *storage || link.destination == *storage)
                .cloned()
                .collect();
            breaker.choose_probe(now_ms, &candidates);
        }
        for (link, state) in &mut self.links {
            if state.waiting > 0 || state.active > 0 {
                state.breaker.choose_probe(now_ms, std::slice::from_ref(link));
            }
        }
    }
}

impl LinkState {
    fn stalled(&mut self, now_ms: i64) -> bool {
        if now_ms - self.stalls_since_ms > STALL_WINDOW_MS {
            self.stalls = 0;
            self.stalls_since_ms = now_ms;
        }
        self.stalls = self.stalls.saturating_add(1);
        let copies = f64::from(self.target);
        if self.stalls < STALLS_MIN || f64::from(self.stalls) < STALLS_PART * copies {
            return false;
        }
        let why = format!("{} copies stalled within a minute", self.stalls);
        self.stalls = 0;
        self.climb.cut(now_ms, copies, 0, &why)
    }

    /// Takes the size of a file; a new kind of files begins a new search.
    fn take_size(&mut self, size_bytes: u64) {
        let size = size_bytes.max(1) as f64;
        self.size.take(size.ln());
        if self.climb.limit.is_some() && self.size.has_changed() {
            let mean = self.size.mean_ln.exp() / limits::BYTES_PER_MIB;
            let why = format!("files are of another size now: {mean:.1} MiB in the mean");
            self.climb.reopen(&why);
            self.size.settled_ln = self.size.mean_ln;
        }
    }
}

impl Sizes {
    fn take(&mut self, size_ln: f64) {
        self.count = self.count.saturating_add(1);
        let weight = SIZE_SMOOTHING.max(1.0 / f64::from(self.count));
        self.mean_ln += weight * (size_ln - self.mean_ln);
        if self.count <= SIZES_MIN {
            self.settled_ln = self.mean_ln;
        }
    }

    fn has_changed(&self) -> bool {
        (self.mean_ln - self.settled_ln).abs() > SIZE_FACTOR.ln()
    }
}
