//! From limits to numbers of copies: what each link may use of the storages at its ends.

use std::collections::BTreeMap;

use super::input::{Decision, End, Inputs, Link};
use super::share::{Claim, divide, round};
use super::{LinkState, Optimizer, Side, limits};

/// Growth per sample towards a limit that is known already.
const GROWTH_KNOWN: f64 = 2.0;
/// Growth per sample of a link without a limit at a storage that has one.
const GROWTH_SHARED: f64 = 1.5;

impl Optimizer {
    /// Sets the targets of all links. `may_grow`: a new measurement allows growth.
    pub(super) fn allocate(&mut self, now_ms: i64, may_grow: bool) -> Vec<Decision> {
        let mut wanted: BTreeMap<Link, f64> = self
            .links
            .iter()
            .map(|(link, state)| (link.clone(), self.wanted(link, state, may_grow)))
            .collect();
        for state in self.links.values_mut() {
            state.shared = None;
        }
        let sides: Vec<Side> = self.sides.keys().cloned().collect();
        for side in &sides {
            self.share(side, &mut wanted);
        }
        let mut decisions = Vec::new();
        for (link, copies) in wanted {
            let to = copies.round() as u32;
            let from = self.links[&link].target;
            if to != from {
                decisions.push(self.decision(now_ms, &link, to));
            }
            if let Some(state) = self.links.get_mut(&link) {
                state.target = to;
            }
        }
        decisions
    }

    /// Copies that a link can use, apart from what it must share.
    fn wanted(&self, link: &Link, state: &LinkState, may_grow: bool) -> f64 {
        if self.is_link_down(link, state) {
            return f64::from(u8::from(self.is_probe(link, state)));
        }
        let target = f64::from(state.target);
        let max = f64::from(state.bounds.max);
        if !state.is_hungry() {
            return target.min(max);
        }
        let growth = match (may_grow, state.climb.limit) {
            (false, _) => 1.0,
            (true, Some(_)) => GROWTH_KNOWN,
            (true, None) => self.growth(link, state),
        };
        let mut goal = target * growth;
        if growth > 1.0 {
            goal = goal.max(target + 1.0);
        }
        goal = goal.max(f64::from(limits::INITIAL_COPIES));
        goal.min(state.climb.limit.unwrap_or(max))
            .max(f64::from(state.bounds.min))
            .min(max)
    }

    fn growth(&self, link: &Link, state: &LinkState) -> f64 {
        let mut growth = state.climb.appetite;
        // Without all copies running, more of them cannot be judged.
        if f64::from(state.active) < 0.8 * f64::from(state.target) {
            return 1.0;
        }
        for side in link.sides() {
            let climb = &self.sides[&side].climb;
            let links = self.sides[&side].totals.active;
            if climb.limit.is_some() {
                growth = growth.min(GROWTH_SHARED);
            } else if links > 1 {
                growth = growth.min(climb.appetite);
            }
        }
        growth.max(1.0)
    }

    fn is_probe(&self, link: &Link, state: &LinkState) -> bool {
        let is_open_without = |storage: &str| {
            self.breakers
                .get(storage)
                .is_some_and(|breaker| breaker.is_open() && breaker.probe() != Some(link))
        };
        let is_held = state.breaker.is_open() && state.breaker.probe().is_none();
        !is_held && !is_open_without(&link.source) && !is_open_without(&link.destination)
    }

    /// Divides the copies of one side among its links.
    fn share(&mut self, side: &Side, wanted: &mut BTreeMap<Link, f64>) {
        let Some(total) = self.sides[side].copies_max() else {
            return;
        };
        let mut links = Vec::new();
        let mut claims = Vec::new();
        for (link, state) in self.links_of(side) {
            let wanted = wanted[link];
            links.push(link.clone());
            claims.push(Claim {
                current: f64::from(state.target),
                // A link without waiting files needs only what runs.
                wanted: if state.is_hungry() {
                    wanted
                } else {
                    wanted.min(f64::from(state.active))
                },
                rate: state.rate(),
                weight: state.bounds.weight,
            });
        }
        let sum: f64 = claims.iter().map(|claim| claim.wanted).sum();
        let is_binding = sum > total + 0.01;
        if let Some(state) = self.sides.get_mut(side) {
            state.is_binding = is_binding;
        }
        if !is_binding {
            return;
        }
        let is_trial = self.sides[side].climb.is_trying();
        let shares = round(total, &divide(total, &claims, is_trial));
        for ((link, share), claim) in links.iter().zip(shares).zip(&claims) {
            let Some(state) = self.links.get_mut(link) else {
                continue;
            };
            let mut share = f64::from(share);
            if state.is_hungry() && claim.wanted >= 1.0 {
                share = share.max(f64::from(state.bounds.min).min(claim.wanted));
            }
            if share < claim.wanted - 0.5 {
                state.shared = Some(side.clone());
            }
            if let Some(goal) = wanted.get_mut(link) {
                *goal = goal.min(share);
            }
        }
    }

    fn decision(&self, now_ms: i64, link: &Link, to: u32) -> Decision {
        let state = &self.links[link];
        Decision {
            at_ms: now_ms,
            link: link.clone(),
            from: state.target,
            to,
            rationale: self.rationale(link, state, to),
            inputs: Inputs {
                goodput: state.goodput,
                active: state.active,
                waiting: state.waiting,
                mean_size: if state.size.count == 0 {
                    0.0
                } else {
                    state.size.mean_ln.exp()
                },
                source_limit: self.storage_limit(&link.source, End::Source),
                destination_limit: self.storage_limit(&link.destination, End::Destination),
            },
        }
    }

    fn rationale(&self, link: &Link, state: &LinkState, to: u32) -> String {
        for storage in [&link.destination, &link.source] {
            if self.is_down(storage) {
                return down(storage, to);
            }
        }
        if state.breaker.is_open() {
            return down("the other end", to);
        }
        if let Some(side) = &state.shared {
            let total = self.sides[side].copies_max().unwrap_or(0.0);
            let direction = match side.end {
                End::Source => "out of",
                End::Destination => "into",
            };
            let links = self.sides[side].totals.with_work;
            let why = &self.sides[side].climb.why;
            let storage = &side.storage;
            return format!("share of {total:.0} copies {direction} {storage} on {links} links ({why})");
        }
        let goodput = state.goodput / limits::BYTES_PER_MIB;
        format!("{} ({goodput:.1} MiB/s with {} copies)", state.climb.why, state.active)
    }
}

fn down(storage: &str, to: u32) -> String {
    if to == 0 {
        format!("{storage} cannot be reached: only one copy at a time, as a probe")
    } else {
        format!("{storage} could not be reached: one copy as a probe")
    }
}
