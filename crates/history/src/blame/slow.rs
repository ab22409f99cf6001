//! Which links and endpoints are slow, although their copies pass.
//!
//! The times of copies are fitted by the additive model of rows and columns: the logarithm of the
//! time per byte is a sum of what the protocols and the mode need, what the source adds, what the
//! destination adds, and a residue of the link. It is fitted by median polish (J. W. Tukey,
//! *Exploratory Data Analysis*, 1977), which fewer than half of the cells of a row
//! cannot mislead; the spread of the residues is estimated by their median absolute deviation. A
//! machine that is busy slows all copies, and so blames none.

use std::collections::{BTreeMap, BTreeSet};

use super::hypothesis::{Evidence, Observation};
use super::subject::{Role, Scope, Subject};
use super::{Finding, Slowness, Verdict};

/// A link is slow that needs so many times as long as its ends let expect.
const LINK_FACTOR: f64 = 3.0;
/// An endpoint is slow that needs so many times as long as others. Sites differ more than links.
const ENDPOINT_FACTOR: f64 = 5.0;
/// Standard deviations that it must be away, divided by the root of its copies: of a thousand
/// links, chance is to accuse none.
const DEVIATIONS: f64 = 4.0;
/// A smaller spread is not believed: of copies within milliseconds, all may be alike by chance.
const SPREAD_MIN: f64 = 0.2;
/// Time that copies must take longer than expected. The times of shorter ones say how busy the
/// machine was.
const LONGER_MS_MIN: f64 = 1_000.0;
/// Copies of a link: two are late together by chance in one mesh of some.
const CELLS_MIN: usize = 3;
/// Partners that an end must have, so that their median is its own.
const PARTNERS_MIN: usize = 4;
/// Rounds of the polish; it hardly moves after the third.
const ROUNDS: usize = 6;
/// The standard deviation of a normal distribution, in median absolute deviations.
const DEVIATION: f64 = 1.4826;

/// An end of a copy, in copies that can be compared with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'a> {
    source_protocol: &'a str,
    destination_protocol: &'a str,
    mode: &'a str,
}

/// The time of a copy that passed.
struct Time<'a> {
    source: &'a str,
    destination: &'a str,
    kind: Kind<'a>,
    took_ms: f64,
    rate_mbps: f64,
    /// The logarithm of the time per byte, less what is explained.
    residue: f64,
}

impl Time<'_> {
    /// How much longer it took than without a factor.
    fn longer_ms(&self, logarithm: f64) -> f64 {
        self.took_ms * (1.0 - (-logarithm).exp())
    }
}

/// The slow ones among links and endpoints.
pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut times: Vec<Time<'_>> = evidence.observations.iter().filter_map(time).collect();
    let effects = polish(&mut times);
    let mut found = endpoints(&times, &effects);
    found.extend(links(&times));
    found
}

fn time<'a>(observation: &Observation<'a>) -> Option<Time<'a>> {
    let rate_mbps = observation.rate_mbps.filter(|_| !observation.has_failed())?;
    let link = observation.link;
    (link.source != link.destination).then(|| Time {
        source: &link.source,
        destination: &link.destination,
        kind: Kind {
            source_protocol: &link.source_protocol,
            destination_protocol: &link.destination_protocol,
            mode: link.mode.name(),
        },
        took_ms: observation.took_ms,
        rate_mbps,
        residue: -rate_mbps.ln(),
    })
}

/// What an end of copies of one kind adds to the logarithm of the time.
type Effects<'a> = BTreeMap<(Role, &'a str, Kind<'a>), f64>;

/// Explains the times by their kinds and ends, and leaves the residues.
fn polish<'a>(times: &mut [Time<'a>]) -> Effects<'a> {
    let mut effects = Effects::new();
    take_median(times, |time| (Role::Both, "", time.kind));
    for _ in 0..ROUNDS {
        for (key, median) in take_median(times, |time| (Role::Source, time.source, time.kind)) {
            *effects.entry(key).or_default() += median;
        }
        for (key, median) in take_median(times, |time| (Role::Destination, time.destination, time.kind)) {
            *effects.entry(key).or_default() += median;
        }
    }
    effects
}

/// Takes the median of each group from its residues.
fn take_median<'a, K: Ord>(times: &mut [Time<'a>], key: impl Fn(&Time<'a>) -> K) -> Vec<(K, f64)> {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (at, time) in times.iter().enumerate() {
        groups.entry(key(time)).or_default().push(at);
    }
    let mut medians = Vec::with_capacity(groups.len());
    for (key, members) in groups {
        let median = median(members.iter().map(|at| times[*at].residue).collect());
        members.iter().for_each(|at| times[*at].residue -= median);
        medians.push((key, median));
    }
    medians
}

/// Links whose residues are large.
fn links(times: &[Time<'_>]) -> Vec<Finding> {
    let spread = spread(times.iter().map(|time| time.residue).collect());
    let partners = partners(times);
    let has_partners = |time: &&Time<'_>| {
        [
            (Role::Source, time.source, time.kind),
            (Role::Destination, time.destination, time.kind),
        ]
        .iter()
        .all(|end| partners[end].len() >= PARTNERS_MIN)
    };
    let mut of_links: BTreeMap<(&str, &str), Vec<&Time<'_>>> = BTreeMap::new();
    for time in times.iter().filter(has_partners) {
        of_links.entry((time.source, time.destination)).or_default().push(time);
    }
    let slow = |((source, destination), own): ((&str, &str), Vec<&Time<'_>>)| {
        let excess = low(own.iter().map(|time| time.residue).collect());
        let is_slow = own.len() >= CELLS_MIN
            && excess >= LINK_FACTOR.ln().max(DEVIATIONS * spread / (own.len() as f64).sqrt())
            && low(own.iter().map(|time| time.longer_ms(excess)).collect()) >= LONGER_MS_MIN;
        let subject = || Subject::Link {
            source: source.to_owned(),
            destination: destination.to_owned(),
            scope: Scope::default(),
        };
        is_slow.then(|| finding(subject(), &own, excess, own.len()))
    };
    of_links.into_iter().filter_map(slow).collect()
}

/// Endpoints whose effects are large, in most kinds of copies.
fn endpoints<'a>(times: &[Time<'a>], effects: &Effects<'a>) -> Vec<Finding> {
    let partners = partners(times);
    let mut found: Vec<(&str, Role, f64)> = Vec::new();
    for role in [Role::Source, Role::Destination] {
        let mut of_endpoints: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (end, effect) in effects.iter().filter(|(end, _)| end.0 == role) {
            if partners[end].len() >= PARTNERS_MIN {
                of_endpoints.entry(end.1).or_default().push(*effect);
            }
        }
        let of_endpoints: Vec<(&str, f64)> = of_endpoints
            .into_iter()
            .map(|(name, effects)| (name, low(effects)))
            .collect();
        let all: Vec<f64> = of_endpoints.iter().map(|(_, effect)| *effect).collect();
        let spread = spread(all);
        for (name, effect) in of_endpoints {
            let own = own(times, name, role);
            let is_slow = effect >= ENDPOINT_FACTOR.ln().max(DEVIATIONS * spread)
                && median(own.iter().map(|time| time.longer_ms(effect)).collect()) >= LONGER_MS_MIN;
            if is_slow {
                found.push((name, role, effect));
            }
        }
    }
    let names: BTreeSet<&str> = found.iter().map(|(name, ..)| *name).collect();
    let finding_of = |name: &str| {
        let own_found = found.iter().filter(|(own, ..)| *own == name);
        let (role, effect) = own_found
            .map(|(_, role, effect)| (*role, *effect))
            .reduce(|(_, one), (_, other)| (Role::Both, one.min(other)))?;
        let own = own(times, name, role);
        let partners: BTreeSet<&str> = own.iter().flat_map(|time| [time.source, time.destination]).collect();
        let subject = Subject::Endpoint {
            name: name.to_owned(),
            role,
            scope: Scope::default(),
        };
        Some(finding(subject, &own, effect, partners.len() - 1))
    };
    names.into_iter().filter_map(finding_of).collect()
}

/// The copies of an endpoint in a role.
fn own<'t, 'a>(times: &'t [Time<'a>], name: &str, role: Role) -> Vec<&'t Time<'a>> {
    let is_own = |time: &&Time<'_>| {
        (role != Role::Destination && time.source == name) || (role != Role::Source && time.destination == name)
    };
    times.iter().filter(is_own).collect()
}

/// The partners of each end.
fn partners<'a>(times: &[Time<'a>]) -> BTreeMap<(Role, &'a str, Kind<'a>), BTreeSet<&'a str>> {
    let mut all: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for time in times {
        let ends = [
            (Role::Source, time.source, time.destination),
            (Role::Destination, time.destination, time.source),
        ];
        for (role, end, partner) in ends {
            all.entry((role, end, time.kind)).or_default().insert(partner);
        }
    }
    all
}

fn finding(subject: Subject, own: &[&Time<'_>], excess: f64, observations: usize) -> Finding {
    let rate_mbps = median(own.iter().map(|time| time.rate_mbps).collect());
    // More digits say nothing, and such numbers are the same after JSON.
    let rounded = |rate: f64| (rate * 1000.0).round() / 1000.0;
    Finding {
        subject,
        verdict: Verdict::Named,
        suspects: Vec::new(),
        tried: own.len() as u64,
        failed: 0,
        observations: observations as u64,
        rate_low: 0.0,
        rate_high: 0.0,
        symptom: None,
        slow: Some(Slowness {
            rate_mbps: rounded(rate_mbps),
            expected_mbps: rounded(rate_mbps * excess.exp()),
        }),
    }
}

/// The standard deviation, if the values are normal but for outliers.
fn spread(values: Vec<f64>) -> f64 {
    let middle = median(values.clone());
    let deviations = values.into_iter().map(|value| (value - middle).abs());
    (DEVIATION * median(deviations.collect())).max(SPREAD_MIN)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// A value that three quarters of the values reach: all of up to four copies must be slow, since
/// some are late by chance.
fn low(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 4).copied().unwrap_or(0.0)
}
