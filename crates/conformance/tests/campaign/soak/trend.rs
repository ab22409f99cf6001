//! Whether a quantity keeps growing with the operations.
//!
//! What an allocator or a pool holds goes up in steps and stays there, and a single sample says
//! little. So the samples are put into [`GROUPS`] groups, one after the other, and only the medians
//! of the groups count: an outlier moves none of them, and neighbours that resemble each other
//! count once. The slope is the median of the slopes between all pairs of groups, and its interval
//! is Sen's (H. Theil, 1950; P. K. Sen, "Estimates of the regression coefficient based on Kendall's
//! tau", J. Am. Stat. Assoc. 63, 1968). A step between two levels leaves nearly half of the pairs
//! at zero, and the interval then reaches down to zero, whatever the height of the step.
//!
//! A growth that comes to rest is no leak either: the second half must grow too.

/// Groups of samples whose medians are compared.
const GROUPS: usize = 12;
/// Fewest samples that show a slope.
pub(crate) const SAMPLES_MIN: usize = 2 * GROUPS;
/// The quantile of the normal distribution for an interval that holds the slope in 9999 of
/// 10000 cases.
const WIDE: f64 = 3.891;
/// The same for 98 of 100, for the second half, which has fewer groups.
const NARROW: f64 = 2.326;

/// A quantity after so many operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) operations: f64,
    pub(crate) value: f64,
}

/// What growth is a trend. Both must be exceeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// The slope, for each thousand operations.
    pub(crate) per_thousand: f64,
    /// The growth from the first group to the last: below it the steps in which the quantity is
    /// handed out look like a slope.
    pub(crate) growth: f64,
}

/// How a quantity developed; slopes are for each thousand operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trend {
    /// The median of the first group, and of the last.
    pub(crate) first: f64,
    pub(crate) last: f64,
    pub(crate) slope: f64,
    /// Where the slope is in 9999 of 10000 cases.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The least slope of the second half, in 98 of 100 cases.
    pub(crate) late_low: f64,
}

impl Trend {
    /// `None` when the samples are too few.
    pub(crate) fn of(points: &[Point]) -> Option<Self> {
        if points.len() < SAMPLES_MIN {
            return None;
        }
        let groups: Vec<Point> = (0..GROUPS)
            .map(|group| {
                let bound = |group: usize| group * points.len() / GROUPS;
                middle(&points[bound(group)..bound(group + 1)])
            })
            .collect();
        let (low, slope, high) = interval(&groups, WIDE);
        let (late_low, ..) = interval(&groups[GROUPS / 2..], NARROW);
        Some(Self {
            first: groups[0].value,
            last: groups[GROUPS - 1].value,
            slope,
            low,
            high,
            late_low,
        })
    }

    /// Whether it keeps growing.
    pub(crate) fn exceeds(&self, limit: Limit) -> bool {
        self.low > limit.per_thousand && self.late_low > limit.per_thousand && self.last - self.first > limit.growth
    }
}

/// The slope with its interval: as many slopes are left out on either side as chance turns over
/// when there is no trend.
fn interval(groups: &[Point], quantile: f64) -> (f64, f64, f64) {
    let slopes = slopes(groups);
    let count = groups.len() as f64;
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let outside = ((slopes.len() as f64 - quantile * deviation) / 2.0).max(0.0) as usize;
    (slopes[outside], median(&slopes), slopes[slopes.len() - 1 - outside])
}

/// The slopes between all pairs, the lowest first.
fn slopes(groups: &[Point]) -> Vec<f64> {
    let mut slopes: Vec<f64> = groups
        .iter()
        .enumerate()
        .flat_map(|(index, from)| groups[index + 1..].iter().map(move |to| (from, to)))
        .map(|(from, to)| (to.value - from.value) / (to.operations - from.operations) * 1000.0)
        .collect();
    slopes.sort_by(f64::total_cmp);
    slopes
}

fn middle(points: &[Point]) -> Point {
    let sorted = |of: fn(&Point) -> f64| {
        let mut values: Vec<f64> = points.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        median(&values)
    };
    Point {
        operations: sorted(|point| point.operations),
        value: sorted(|point| point.value),
    }
}

/// The median of sorted values; there must be at least one.
fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[half - 1], sorted[half]),
        _ => sorted[half],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;

    /// Operations of a round.
    const ROUND: usize = 300;
    /// Rounds of a short run, and of a long one.
    const RUNS: [usize; 3] = [40, 100, 2000];
    /// KiB, as the memory is judged.
    const LIMIT: Limit = crate::soak::MEMORY;
    /// Memory of a server, in KiB.
    const BASE: f64 = 40_000.0;

    /// A series with noise of so many KiB, which is now and then ten times as much.
    fn series(rounds: usize, seed: u64, noise: f64, value: impl Fn(f64) -> f64) -> Vec<Point> {
        let mut dice = Dice::new(seed);
        (1..=rounds)
            .map(|round| {
                let outlier = if dice.below(20) == 0 { 10.0 } else { 1.0 };
                let random = dice.below(2001) as f64 / 1000.0 - 1.0;
                let operations = (round * ROUND) as f64;
                Point {
                    operations,
                    value: BASE + value(operations) + noise * outlier * random,
                }
            })
            .collect()
    }

    /// In how many of a hundred series a trend is seen. Noise is up to 300 KiB, outliers 3 MiB.
    fn found(rounds: usize, value: impl Fn(f64) -> f64) -> usize {
        (0..100)
            .filter(|seed| {
                let noise = [0.0, 50.0, 150.0, 300.0][*seed as usize % 4];
                let trend = Trend::of(&series(rounds, *seed, noise, &value)).expect("enough samples");
                trend.exceeds(LIMIT)
            })
            .count()
    }

    #[test]
    fn a_leak_of_a_kibibyte_in_each_operation_is_found() {
        for rounds in RUNS {
            assert_eq!(found(rounds, |operations| operations), 100, "{rounds} rounds");
        }
    }

    #[test]
    fn a_leak_of_a_kibibyte_in_twenty_operations_is_found_in_a_run_of_minutes() {
        assert!(found(100, |operations| operations / 20.0) > 50);
        assert_eq!(found(2000, |operations| operations / 20.0), 100);
    }

    /// An allocator takes memory from the system in large pieces.
    #[test]
    fn a_leak_in_a_staircase_is_found() {
        for rounds in RUNS {
            let end = (rounds * ROUND) as f64;
            let staircase = |operations: f64| (operations / end * 16.0).floor() * end / 16.0;
            assert_eq!(found(rounds, staircase), 100, "{rounds} rounds");
        }
    }

    #[test]
    fn noise_is_no_trend() {
        for rounds in RUNS {
            assert_eq!(found(rounds, |_| 0.0), 0, "{rounds} rounds");
        }
    }

    #[test]
    fn a_step_is_no_trend_wherever_and_however_high_it_is() {
        for rounds in RUNS {
            let end = (rounds * ROUND) as f64;
            for place in 1..20 {
                for height in [500.0, 20_000.0, 1_000_000.0] {
                    let at = end * f64::from(place) / 20.0;
                    let step = |operations: f64| if operations > at { height } else { 0.0 };
                    assert_eq!(found(rounds, step), 0, "{rounds} rounds, {height} at {place}/20");
                }
            }
        }
    }

    #[test]
    fn a_plateau_is_no_trend() {
        for rounds in RUNS {
            let end = (rounds * ROUND) as f64;
            // Straight up to a third or half, and then level.
            for share in [0.33, 0.5] {
                let ramp = |operations: f64| operations.min(end * share);
                assert_eq!(found(rounds, ramp), 0, "{rounds} rounds, {share}");
            }
            // Ever more slowly: caches that fill with what has not been seen yet.
            let saturating = |operations: f64| 10_000.0 * (1.0 - (-15.0 * operations / end).exp());
            assert_eq!(found(rounds, saturating), 0, "{rounds} rounds");
        }
    }

    #[test]
    fn up_and_down_is_no_trend() {
        for rounds in RUNS {
            let end = (rounds * ROUND) as f64;
            for waves in [1.5, 4.0, 11.0] {
                let wave = |operations: f64| 4000.0 * (operations / end * waves * std::f64::consts::TAU).cos();
                assert_eq!(found(rounds, wave), 0, "{rounds} rounds, {waves} waves");
            }
            assert_eq!(found(rounds, |operations| -operations), 0, "{rounds} rounds");
        }
    }

    #[test]
    fn the_interval_holds_the_slope() {
        for slope in [0.0, 0.01, 1.0, -0.5] {
            let held = (0..200).filter(|seed| {
                let points = series(100, *seed, 300.0, |operations| operations * slope);
                let trend = Trend::of(&points).expect("enough samples");
                trend.low <= slope * 1000.0 && slope * 1000.0 <= trend.high && trend.low <= trend.slope
            });
            assert!(held.count() > 190, "{slope}");
        }
    }

    #[test]
    fn descriptors_that_stay_open_are_found() {
        let limit = crate::soak::COUNT;
        let leak = |operations: f64| (operations / 300.0).floor();
        let trend = Trend::of(&series(60, 1, 0.0, leak)).expect("enough samples");
        assert!(trend.exceeds(limit), "{trend:?}");
        let none = |operations: f64| {
            if (operations as usize).is_multiple_of(700) {
                3.0
            } else {
                0.0
            }
        };
        let trend = Trend::of(&series(60, 2, 2.0, none)).expect("enough samples");
        assert!(!trend.exceeds(limit), "{trend:?}");
    }

    #[test]
    fn few_samples_tell_nothing() {
        let points = series(SAMPLES_MIN - 1, 1, 0.0, |operations| operations);
        assert_eq!(Trend::of(&points), None);
    }
}
