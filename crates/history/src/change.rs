//! Changes of level: since when is a figure worse or better than before, and by how much?
//!
//! # The test
//! The values of the last runs are cut in two at each place, and the values after the cut are
//! compared with those before by their ranks (Mann and Whitney). Ranks, because times of copies
//! have long tails, and one slow run is no change; and because the probability of each sum of ranks
//! is then known, whatever the values are distributed like. It is computed exactly for up to
//! twelve values on the shorter side, and by the normal distribution above, which is the greater of
//! both in the tail. Of `n` values, the probability that the last `m` are all worse than the others
//! is 1 : C(n, m), so a few runs after a change are enough. A test for a change somewhere in the
//! middle (Pettitt) needs many more.
//!
//! # The level
//! A cut is taken by its smallest probability, which is multiplied by the number of cuts and by the
//! number of series that are looked at (Bonferroni). A change is reported below [`LEVEL`]: of a
//! hundred checks of histories in which nothing changes, one at most reports anything. The bound
//! holds if runs do not depend on each other. A load that comes and goes for hours is no noise but
//! a change, and is reported as one.
//!
//! The place of a change is the cut at which two levels fit best, by the sum of the distances from
//! their medians. Both parts are searched for further changes, so an outage and its end are two.
//! How much has changed is the difference of the medians on both sides. A change that is proven but
//! small is not reported ([`Threshold`]), nor is one after which the newest values are again as
//! they were before.

use serde::{Deserialize, Serialize};

/// The probability that a check reports a change although nothing has changed.
pub const LEVEL: f64 = 0.01;
/// Values that are looked at, the newest.
pub(crate) const VALUES_MAX: usize = 120;
/// The fewest values before a change; with fewer, no level is known.
const BEFORE_MIN: usize = 5;
/// The fewest values after a change.
const AFTER_MIN: usize = 3;
/// Standard deviations below which no cut reaches the level: with the last three values of 35 it
/// does at 2.83, and with others only at more.
const DEVIATIONS_MIN: f64 = 2.8;
/// Up to so many values on the shorter side the probability is exact.
const EXACT_MAX: usize = 12;

/// How much must change before it matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// As a part of the median before.
    pub relative: f64,
    /// In the unit of the values.
    pub absolute: f64,
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The place of the first value after the change.
    pub at: usize,
    /// The median before.
    pub before: f64,
    /// The median after.
    pub after: f64,
    /// How many values there are after it.
    pub values_after: usize,
    /// The probability that a check of unchanged values finds such a change.
    pub probability: f64,
}

/// The last change of level in values, oldest first; only the newest are looked at. `series`: how
/// many series the check looks at in all.
#[must_use]
pub fn change(values: &[f64], threshold: Threshold, series: usize) -> Option<Change> {
    let skipped = values.len().saturating_sub(VALUES_MAX);
    let values = &values[skipped..];
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut all = Vec::new();
    proven(values, 0, series.max(1), &mut all);
    join_alike(values, threshold, &mut all);
    let last = all.last()?;
    let begin = all.iter().nth_back(1).map_or(0, |earlier| earlier.at);
    let (before, after) = (median(&values[begin..last.at]), median(&values[last.at..]));
    let is_as_before = |value: &f64| {
        let distance = (value - before).abs();
        distance < (value - after).abs() && threshold.is_small(before, *value)
    };
    if values[values.len() - AFTER_MIN..].iter().all(is_as_before) {
        return None;
    }
    Some(Change {
        at: skipped + last.at,
        before,
        after,
        values_after: values.len() - last.at,
        probability: last.probability,
    })
}

impl Threshold {
    /// Whether a difference does not matter.
    fn is_small(self, before: f64, after: f64) -> bool {
        let difference = (after - before).abs();
        difference < self.absolute || difference < self.relative * before.abs()
    }
}

/// Where values change their level.
#[derive(Clone, Copy)]
struct Cut {
    at: usize,
    probability: f64,
}

/// All proven changes in a part of the values that begins at this place, in order. Values in which
/// nothing changes have none more often than without the search in both parts, which begins only
/// once a change is found.
fn proven(values: &[f64], begin: usize, series: usize, found: &mut Vec<Cut>) {
    if values.len() < BEFORE_MIN + AFTER_MIN {
        return;
    }
    let chances = cuts(values).count() * series;
    let probability = (Ranks::of(values).probability(cuts(values)) * chances as f64).min(1.0);
    if probability >= LEVEL {
        return;
    }
    // Ranks favour cuts in the middle; the place is where two levels fit best.
    let Some(at) = best_cut(values) else { return };
    proven(&values[..at], begin, series, found);
    found.push(Cut {
        at: begin + at,
        probability,
    });
    proven(&values[at..], begin + at, series, found);
}

/// Joins levels that differ too little to matter, the most alike first.
fn join_alike(values: &[f64], threshold: Threshold, cuts: &mut Vec<Cut>) {
    loop {
        let begins = std::iter::once(0).chain(cuts.iter().map(|cut| cut.at));
        let ends = cuts.iter().map(|cut| cut.at).chain(std::iter::once(values.len()));
        let levels: Vec<f64> = begins
            .zip(ends)
            .map(|(begin, end)| median(&values[begin..end]))
            .collect();
        let steps = levels.windows(2).enumerate();
        let small = steps.filter(|(_, pair)| threshold.is_small(pair[0], pair[1]));
        let smallest = small.min_by(|(_, one), (_, other)| {
            let step = |pair: &[f64]| (pair[1] - pair[0]).abs();
            step(one).total_cmp(&step(other))
        });
        match smallest {
            Some((index, _)) => drop(cuts.remove(index)),
            None => return,
        }
    }
}

/// Where values can be cut.
fn cuts(values: &[f64]) -> impl Iterator<Item = usize> {
    BEFORE_MIN..=values.len() - AFTER_MIN
}

/// The cut at which the values are nearest to the medians on both sides, by the sum of their
/// distances.
fn best_cut(values: &[f64]) -> Option<usize> {
    let distance = |values: &[f64]| {
        let middle = median(values);
        values.iter().map(|value| (value - middle).abs()).sum::<f64>()
    };
    let costs = cuts(values).map(|at| (at, distance(&values[..at]) + distance(&values[at..])));
    let best = costs.reduce(|best, next| if next.1 < best.1 { next } else { best });
    best.map(|(at, _)| at)
}

/// The middle value; of an even count, the mean of both.
#[must_use]
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 0 => f64::midpoint(sorted[half - 1], sorted[half]),
        _ => sorted[half],
    }
}

/// Ranks, doubled so that the ranks of equal values, which are their mean, are whole numbers.
struct Ranks {
    doubled: Vec<usize>,
    /// The variance of one rank of a value that is chosen by chance; smaller with equal values.
    variance: f64,
}

/// A cut, seen from its shorter side.
struct Side {
    /// Values on this side.
    count: usize,
    /// The sum of their ranks, less what is expected.
    excess: f64,
    /// The same in standard deviations, without the sign.
    deviations: f64,
}

impl Ranks {
    fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let doubled: Vec<usize> = values
            .iter()
            .map(|value| {
                let first = sorted.partition_point(|other| other < value);
                let end = sorted.partition_point(|other| other <= value);
                // The mean of the ranks first + 1 to end.
                first + 1 + end
            })
            .collect();
        let middle = values.len() as f64 + 1.0;
        let variance = doubled.iter().map(|rank| (*rank as f64 - middle).powi(2)).sum::<f64>() / values.len() as f64;
        Self { doubled, variance }
    }

    fn side(&self, at: usize) -> Side {
        let all = self.doubled.len();
        let (first, last) = self.doubled.split_at(at);
        let own = if last.len() <= first.len() { last } else { first };
        let count = own.len();
        let excess = own.iter().sum::<usize>() as f64 - (count * (all + 1)) as f64;
        let variance = self.variance * (count * (all - count)) as f64 / (all as f64 - 1.0);
        let deviations = if variance > 0.0 {
            excess.abs() / variance.sqrt()
        } else {
            0.0
        };
        Side {
            count,
            excess,
            deviations,
        }
    }

    /// The probability that so great a difference comes by chance, in either direction, at the cut
    /// where it is smallest.
    fn probability(&self, cuts: impl Iterator<Item = usize>) -> f64 {
        let sides = cuts.map(|at| self.side(at));
        let sides: Vec<Side> = sides.filter(|side| side.deviations >= DEVIATIONS_MIN).collect();
        let (few, many): (Vec<Side>, Vec<Side>) = sides.into_iter().partition(|side| side.count <= EXACT_MAX);
        let (up, down): (Vec<Side>, Vec<Side>) = few.into_iter().partition(|side| side.excess > 0.0);
        let by_normal = many.iter().map(|side| normal_tail(side.deviations));
        let mut ranks = self.doubled.clone();
        ranks.sort_unstable_by(|one, other| other.cmp(one));
        let upward = exact_tails(&ranks, &up);
        // Downward is upward on mirrored ranks.
        let mirrored: Vec<usize> = ranks.iter().rev().map(|rank| 2 * (ranks.len() + 1) - rank).collect();
        let downward = exact_tails(&mirrored, &down);
        let tails = by_normal.chain(upward).chain(downward);
        (2.0 * tails.fold(0.5, f64::min)).min(1.0)
    }
}

/// For each side, the share of all choices of so many of the ranks whose sum is at least as great.
/// `ranks`: the greatest first.
fn exact_tails(ranks: &[usize], sides: &[Side]) -> Vec<f64> {
    let Some(count_max) = sides.iter().map(|side| side.count).max() else {
        return Vec::new();
    };
    // How much less a sum is than the greatest: small in the tail, which is all that is counted.
    let missing = |side: &Side| {
        let greatest: usize = ranks[..side.count].iter().sum();
        greatest.saturating_sub(side.count * (ranks.len() + 1) + side.excess.abs() as usize)
    };
    let missing_max = sides.iter().map(missing).max().unwrap_or(0);
    // ways[k][m]: choices of k ranks whose sum misses m.
    let mut ways = vec![vec![0.0_f64; missing_max + 1]; count_max + 1];
    ways[0][0] = 1.0;
    for (seen, rank) in ranks.iter().enumerate() {
        for chosen in (1..=count_max.min(seen + 1)).rev() {
            let less = ranks[chosen - 1] - rank;
            let (fewer, more) = ways.split_at_mut(chosen);
            for (to, from) in more[0].iter_mut().skip(less).zip(&fewer[chosen - 1]) {
                *to += from;
            }
        }
    }
    let tail = |side: &Side| {
        let choices: f64 = (0..side.count)
            .map(|at| (ranks.len() - at) as f64 / (at + 1) as f64)
            .product();
        ways[side.count][..=missing(side)].iter().sum::<f64>() / choices
    };
    sides.iter().map(tail).collect()
}

/// The probability that a normal variable exceeds this many standard deviations: the bound of
/// Mills' ratio for large ones, at most a half.
fn normal_tail(deviations: f64) -> f64 {
    let density = (-deviations * deviations / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (density / deviations).min(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    const ANY: Threshold = Threshold {
        relative: 0.0,
        absolute: 0.0,
    };

    /// A value with the shape of a noise around 100: of figures, times, times with outliers, and
    /// whole numbers with many equal ones.
    fn noise(random: &mut Rng, shape: u64) -> f64 {
        let normal = |random: &mut Rng| (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        match shape % 4 {
            0 => 100.0 + 5.0 * normal(random),
            1 => 100.0 * (0.5 * normal(random)).exp(),
            2 => 100.0 + 5.0 * normal(random) / (random.f64() + 0.01),
            _ => (100.0 + 2.0 * normal(random)).round(),
        }
    }

    fn flat(random: &mut Rng, shape: u64) -> Vec<f64> {
        let count = random.usize(8..150);
        (0..count).map(|_| noise(random, shape)).collect()
    }

    #[test]
    fn flat_series_raise_no_alarm_above_the_level() {
        let mut random = Rng::with_seed(41);
        let series: Vec<Vec<f64>> = (0..1_000).map(|at| flat(&mut random, at)).collect();
        let alarms: Vec<Change> = series.iter().filter_map(|values| change(values, ANY, 1)).collect();
        // A thousand checks of one series: 1 % of them; and one check of a thousand: nothing.
        assert!(alarms.len() <= (1_000.0 * LEVEL) as usize, "{alarms:?}");
        let least = alarms.iter().map(|found| found.probability).fold(1.0, f64::min);
        assert!(least * 1_000.0 > LEVEL, "{least}");
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        let mut random = Rng::with_seed(42);
        let threshold = Threshold {
            relative: 0.05,
            absolute: 0.0,
        };
        for round in 0..200 {
            let after = random.usize(5..60);
            let before = 120 - after;
            let mut values: Vec<f64> = (0..120).map(|_| noise(&mut random, 0)).collect();
            values[before..].iter_mut().for_each(|value| *value *= 1.4);
            let found = change(&values, threshold, 20).unwrap_or_else(|| panic!("round {round}: {after}"));
            assert!(found.at.abs_diff(before) <= 1, "{round}: {found:?}, not {before}");
            assert!((found.after / found.before - 1.4).abs() < 0.15, "{round}: {found:?}");
        }
    }

    /// Shares of failures: so many runs with each.
    fn shares(parts: &[(usize, f64)]) -> Vec<f64> {
        let parts = parts.iter().map(|(count, share)| std::iter::repeat_n(*share, *count));
        parts.flatten().collect()
    }

    #[test]
    fn an_outage_and_its_end_are_two_changes() {
        let threshold = Threshold {
            relative: 0.0,
            absolute: 10.0,
        };
        let among = |series: usize, parts: &[(usize, f64)]| {
            let found = change(&shares(parts), threshold, series);
            found.map(|found| (found.at, found.before, found.after, found.values_after))
        };
        let found = |parts: &[(usize, f64)]| among(40, parts);
        assert_eq!(found(&[(60, 0.0), (30, 100.0)]), Some((60, 0.0, 100.0, 30)));
        // As long as it lasted, and shorter and longer.
        for good in [20, 29, 30] {
            let all = [(60, 0.0), (30, 100.0), (good, 0.0)];
            assert_eq!(found(&all), Some((90, 100.0, 0.0, good)), "{good}");
        }
        // Too few good runs to prove the end, and enough not to call it worse.
        assert_eq!(found(&[(60, 0.0), (30, 100.0), (2, 0.0)]), Some((60, 0.0, 100.0, 32)));
        assert_eq!(found(&[(60, 0.0), (30, 100.0), (3, 0.0)]), None);
        for good in 3..=6 {
            assert_eq!(among(1, &[(60, 0.0), (6, 100.0), (good, 0.0)]), None, "{good}");
        }
        // The second of two steps, and a second outage.
        assert_eq!(
            found(&[(40, 0.0), (30, 30.0), (20, 100.0)]),
            Some((70, 30.0, 100.0, 20))
        );
        let twice = [(40, 0.0), (20, 100.0), (30, 0.0), (20, 100.0)];
        assert_eq!(found(&twice), Some((90, 0.0, 100.0, 20)));
        // It is better than in the outage, if not as before it.
        let less = [(40, 0.0), (20, 100.0), (40, 20.0)];
        assert_eq!(found(&less), Some((60, 100.0, 20.0, 40)));
    }

    #[test]
    fn few_values_and_small_changes_are_none() {
        let level = |before: usize, after: usize| {
            let values = std::iter::repeat_n(1.0, before).chain(std::iter::repeat_n(2.0, after));
            values.collect::<Vec<f64>>()
        };
        let found = |values: &[f64]| change(values, ANY, 1);
        assert_eq!(found(&level(50, 2)), None);
        let three = found(&level(50, 3)).unwrap();
        assert_eq!(
            (three.at, three.before, three.after, three.values_after),
            (50, 1.0, 2.0, 3)
        );
        assert_eq!(found(&level(5, 3)), None, "1 of 56 choices is no proof");
        assert_eq!(found(&level(9, 4)), None);
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[f64::NAN; 50]), None);
        let small = Threshold {
            relative: 1.5,
            absolute: 0.0,
        };
        assert_eq!(change(&level(50, 20), small, 1), None);
        // Only the newest values count.
        assert_eq!(found(&level(100, VALUES_MAX)), None);
        assert_eq!(found(&level(400, 60)).unwrap().at, 400);
    }

    #[test]
    fn probabilities_are_those_of_choices() {
        let at = |values: &[f64], at: usize| Ranks::of(values).probability(std::iter::once(at));
        // Without equal values: 1 : C(20, 4) in either direction.
        let rising: Vec<f64> = (0..20).map(f64::from).collect();
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        for values in [&rising, &falling] {
            for cut in [4, 16] {
                let found = at(values, cut);
                assert!((found - 2.0 / 4845.0).abs() < 1e-12, "{cut}: {found}");
            }
        }
        // Only one choice is greater.
        let mut other = rising.clone();
        other.swap(15, 16);
        assert!(
            (at(&other, 16) - 2.0 * 2.0 / 4845.0).abs() < 1e-12,
            "{}",
            at(&other, 16)
        );
        // All equal: certain. Half of them: 1 of C(10, 5) among equal ones.
        assert_eq!(at(&[7.0; 20], 16), 1.0);
        let halves: Vec<f64> = (0..10).map(|at| f64::from(at / 5)).collect();
        assert!((at(&halves, 5) - 2.0 / 252.0).abs() < 1e-12, "{}", at(&halves, 5));
        // The normal tail is the greater one, so that the bound holds for more values too.
        let many: Vec<f64> = (0..40).map(f64::from).collect();
        let side = Ranks::of(&many).side(27);
        let ranks: Vec<usize> = (1..=40).rev().map(|rank| 2 * rank).collect();
        assert!(normal_tail(side.deviations) > exact_tails(&ranks, &[side])[0]);
    }
}
