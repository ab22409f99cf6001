//! Samples: what ran since the last one, and what it says about limits.

use super::climb::{GROWTH_JUDGED, Load, gain};
use super::input::{Decision, Link, LinkSample};
use super::limits;
use super::{Before, LinkState, Optimizer, Side, Totals};

/// Weight of the newest sample in the rate of a copy.
const SMOOTHING: f64 = 0.4;
/// Goodput gained, relative to copies added, that clearly is growth, and that clearly is none.
const GAIN_CLEAR: f64 = 0.7;
const GAIN_NONE: f64 = 0.25;
/// Part of a link's gain that other links lost, from which it is no gain.
const DISPLACED: f64 = 0.5;

impl Optimizer {
    /// Takes the state of all links with running or waiting copies. Links left out have neither.
    ///
    /// To be called every 2 to 5 s, and as soon as a link gets its first files. `now_ms` must not
    /// decrease; a sample sooner than [`limits::SAMPLE_MIN_MS`] after another only adds up.
    pub fn sample(&mut self, now_ms: i64, samples: &[LinkSample]) -> Vec<Decision> {
        self.take(now_ms, samples);
        let elapsed_ms = self.sampled_ms.map_or(0, |last| now_ms - last);
        if self.sampled_ms.is_none() || elapsed_ms >= limits::SAMPLE_MIN_MS {
            self.sampled_ms = Some(now_ms);
            self.measure(elapsed_ms);
            self.probe(now_ms);
            self.observe_sides(now_ms);
            self.observe_links(now_ms);
            return self.allocate(now_ms, true);
        }
        self.allocate(now_ms, false)
    }

    fn take(&mut self, now_ms: i64, samples: &[LinkSample]) {
        for state in self.links.values_mut() {
            state.active = 0;
            state.waiting = 0;
        }
        for sample in samples {
            if sample.active > 0 {
                self.make_room(&sample.link);
            }
            if let Some(state) = self.link_state(&sample.link) {
                // Servers report how far a copy is, and may report anything.
                state.bytes_moved = state.bytes_moved.saturating_add(sample.bytes_moved);
                state.active = sample.active;
                state.waiting = sample.waiting;
                state.busy_ms = now_ms;
                if sample.active > 0 {
                    state.ran_ms = now_ms;
                }
            }
        }
        let is_idle = |state: &LinkState| state.busy_ms > 0 && now_ms - state.busy_ms >= limits::LINK_IDLE_MS;
        let idle = self.links.iter().filter(|(_, state)| is_idle(state));
        let idle: Vec<Link> = idle.map(|(link, _)| link.clone()).collect();
        for link in &idle {
            self.forget(link);
        }
    }

    /// A link whose copies run is remembered rather than one where nothing runs: a client that
    /// names many storages must not keep the optimizer from the links that work.
    fn make_room(&mut self, link: &Link) {
        if self.links.len() < limits::LINKS_MAX || self.links.contains_key(link) {
            return;
        }
        let idle = self.links.iter().filter(|(_, state)| state.active == 0);
        let longest = idle.min_by_key(|(_, state)| state.ran_ms).map(|(link, _)| link.clone());
        if let Some(longest) = longest {
            self.forget(&longest);
        }
    }

    fn forget(&mut self, link: &Link) {
        self.links.remove(link);
        for side in link.sides() {
            if let Some(state) = self.sides.get_mut(&side) {
                state.links.remove(link);
                if state.links.is_empty() {
                    self.sides.remove(&side);
                }
            }
        }
    }

    fn measure(&mut self, elapsed_ms: i64) {
        for state in self.links.values_mut() {
            let bytes = std::mem::take(&mut state.bytes_moved);
            let before = Before {
                copies: state.before.next_copies,
                goodput: state.goodput,
                next_copies: f64::from(state.active),
                gain: state.before.gain,
            };
            state.goodput = bytes as f64 * 1e3 / elapsed_ms.max(1) as f64;
            state.before = before.judge(state.goodput);
            if state.active == 0 {
                continue;
            }
            let copies = f64::from(state.active);
            if state.smooth_copies == 0.0 {
                state.smooth_goodput = state.goodput;
                state.smooth_copies = copies;
            }
            state.smooth_goodput += SMOOTHING * (state.goodput - state.smooth_goodput);
            state.smooth_copies += SMOOTHING * (copies - state.smooth_copies);
        }
        self.add_up();
    }

    /// The sums over the links of each side.
    fn add_up(&mut self) {
        for side in self.sides.values_mut() {
            side.totals = Totals::default();
        }
        for (link, state) in &self.links {
            for side in link.sides() {
                if let Some(side) = self.sides.get_mut(&side) {
                    side.totals.add(state);
                }
            }
        }
    }

    /// The links of a side, with their states.
    pub(super) fn links_of(&self, side: &Side) -> impl Iterator<Item = (&Link, &LinkState)> {
        let links = self.sides.get(side).map(|state| &state.links);
        let links = links.into_iter().flatten();
        links.filter_map(|link| self.links.get_key_value(link))
    }

    /// Whether a storage of `link`, or the link itself, counts as down.
    pub(super) fn is_link_down(&self, link: &Link, state: &LinkState) -> bool {
        state.breaker.is_open() || self.is_down(&link.source) || self.is_down(&link.destination)
    }

    /// The sum over the links of a side.
    fn load_of(&self, side: &Side) -> (Load, usize) {
        let mut load = Load {
            copies: 0.0,
            goodput: 0.0,
            is_hungry: false,
            is_binding: self.sides[side].is_binding,
            may_try: !self.has_trial(side),
        };
        let mut links = 0;
        let is_open = self.sides[side].climb.limit.is_none();
        for (link, state) in self.links_of(side) {
            if is_open && state.has_own_limit() {
                continue;
            }
            load.copies += f64::from(state.active);
            load.goodput += state.goodput;
            links += usize::from(state.active > 0);
            let is_elsewhere = state.shared.as_ref().is_some_and(|shared| shared != side);
            load.is_hungry |= state.is_hungry() && !is_elsewhere && !self.is_link_down(link, state);
        }
        (load, links)
    }

    /// Whether a link of the side is trying another number.
    fn has_trial(&self, side: &Side) -> bool {
        self.sides[side].totals.trials > 0
    }

    fn observe_sides(&mut self, now_ms: i64) {
        let mut loads: Vec<(Side, Load, usize)> = self
            .sides
            .keys()
            .map(|side| {
                let (load, links) = self.load_of(side);
                (side.clone(), load, links)
            })
            .collect();
        loads.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)));
        let mut settled: Vec<Side> = Vec::new();
        for (side, load, links) in loads {
            let is_explained = settled.iter().any(|other| self.covers(other, &side)) || self.is_mixed(&side);
            let Some(state) = self.sides.get_mut(&side) else {
                continue;
            };
            let was_open = state.climb.limit.is_none();
            if let Some(max) = state.bounds.max_goodput
                && load.goodput > 1.02 * max
            {
                let copies = load.copies * max / load.goodput;
                let why = "the configured goodput of the storage is reached".to_owned();
                state.climb.throttle(now_ms, copies, why);
                continue;
            }
            if was_open && (links < 2 || is_explained) {
                state.climb.forget_measurements();
                state.climb.appetite = 2.0;
                continue;
            }
            state.climb.observe(now_ms, load);
            if let Some(max) = state.bounds.max
                && load.copies >= 0.95 * f64::from(max)
                && load.is_hungry
            {
                state.climb.accept_maximum(now_ms, f64::from(max));
            }
            if was_open && state.climb.limit.is_some() {
                settled.push(side);
            }
        }
    }

    /// Whether growth brought bytes on one link of an open side and none on another: then it is
    /// not the storage that limits the second one.
    fn is_mixed(&self, side: &Side) -> bool {
        let gains = self
            .links_of(side)
            .filter(|(_, state)| state.active > 0 && !state.has_own_limit())
            .filter_map(|(_, state)| state.before.gain)
            .fold((f64::MAX, f64::MIN), |(low, high), gain| {
                (low.min(gain), high.max(gain))
            });
        self.sides[side].climb.limit.is_none() && gains.0 < GAIN_NONE && gains.1 > GAIN_CLEAR
    }

    /// Goodput of the other links of both sides.
    fn others(&self, link: &Link) -> [f64; 2] {
        let own = self.links[link].goodput;
        link.sides().map(|side| self.sides[&side].totals.goodput - own)
    }

    /// A trial of `link` gained what the other links of a storage lost: the storage is full, and
    /// its links must share it from now on.
    fn notice_displacement(&mut self, now_ms: i64, link: &Link, was_trying: bool) {
        let others = self.others(link);
        let state = &self.links[link];
        let before = state.others;
        let gained = state.climb.gained;
        if let Some(gained) = gained {
            for (index, side) in link.sides().into_iter().enumerate() {
                let copies = self.sides[&side].totals.copies;
                if let Some(state) = self.sides.get_mut(&side)
                    && state.climb.limit.is_none()
                    && before[index] - others[index] > DISPLACED * gained
                {
                    let why = "one link took bytes from another".to_owned();
                    state.climb.throttle(now_ms, f64::from(copies), why);
                }
            }
        }
        if let Some(state) = self.links.get_mut(link)
            && (gained.is_some() || !was_trying)
        {
            state.others = others;
        }
    }

    /// Whether every active link of `side` is also one of `other`.
    fn covers(&self, other: &Side, side: &Side) -> bool {
        let mut active = self.links_of(side).filter(|(_, state)| state.active > 0);
        active.all(|(link, _)| link.is_of(other))
    }

    fn observe_links(&mut self, now_ms: i64) {
        let links: Vec<Link> = self.links.keys().cloned().collect();
        for link in links {
            let sides = link.sides();
            let own = usize::from(self.links[&link].active > 0);
            let is_shared_alone = |side: &Side| self.sides[side].totals.active > own;
            let is_unclear = sides.iter().any(|side| {
                let climb = &self.sides[side].climb;
                (climb.is_trying() || climb.is_undecided()) && is_shared_alone(side)
            });
            let may_try = !is_unclear && !sides.iter().any(|side| self.has_trial(side));
            let state = &self.links[&link];
            let load = Load {
                copies: f64::from(state.active),
                goodput: state.goodput,
                is_hungry: state.is_hungry() && !self.is_link_down(&link, state),
                is_binding: state.shared.is_none()
                    && state
                        .climb
                        .limit
                        .is_some_and(|limit| f64::from(state.target) + 0.6 >= limit),
                may_try,
            };
            let was_trying = state.climb.is_trying();
            if let Some(state) = self.links.get_mut(&link) {
                state.observe(now_ms, load, is_unclear);
            }
            self.count_trial(&link, &sides, was_trying);
            self.notice_displacement(now_ms, &link, was_trying);
        }
    }
}

impl Optimizer {
    /// A link may have begun or ended a trial.
    fn count_trial(&mut self, link: &Link, sides: &[Side], was_trying: bool) {
        let is_trying = self.links[link].climb.is_trying();
        for side in sides {
            if let Some(state) = self.sides.get_mut(side) {
                let trials = state.totals.trials + usize::from(is_trying);
                state.totals.trials = trials.saturating_sub(usize::from(was_trying));
            }
        }
    }
}

impl Before {
    /// Notes whether goodput followed, if copies grew since the sample before.
    fn judge(mut self, goodput: f64) -> Self {
        if self.copies >= 1.0 && self.next_copies >= GROWTH_JUDGED * self.copies {
            let gain = gain(self.copies, self.goodput, self.next_copies, goodput);
            self.gain = Some(gain);
        }
        self
    }
}

impl LinkState {
    /// Whether a limit of its own, and no storage, keeps it where it is.
    fn has_own_limit(&self) -> bool {
        self.climb.limit.is_some() && self.shared.is_none()
    }

    fn observe(&mut self, now_ms: i64, load: Load, is_unclear: bool) {
        if is_unclear && load.is_hungry && !self.climb.is_trying() {
            self.climb.forget_measurements();
            return;
        }
        let was_open = self.climb.limit.is_none();
        self.climb.observe(now_ms, load);
        if load.is_hungry && load.copies >= f64::from(self.bounds.max) {
            self.climb.accept_maximum(now_ms, f64::from(self.bounds.max));
        }
        if was_open {
            self.size.settled_ln = self.size.mean_ln;
        }
    }
}
