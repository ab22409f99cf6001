//! Fair shares of a storage's copies among its links: weighted max-min in goodput.
//!
//! Two links with the same weight shall get the same bytes per second, not the same number of
//! copies: a distant link needs more copies for the same goodput. A link that cannot use its share
//! leaves the rest to the others.

/// A link as a candidate for copies of one storage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Copies now.
    pub(super) current: f64,
    /// Copies that it can use.
    pub(super) wanted: f64,
    /// Goodput per copy, in bytes/s; 0 where unknown.
    pub(super) rate: f64,
    /// Its weight.
    pub(super) weight: f64,
}

/// Rates further from the mean than this factor count as this far: a link whose copies hardly move
/// must not collect all copies of the storage.
const RATE_RATIO_MAX: f64 = 8.0;
/// Part of the way to the fair share that is taken in one step.
const STEP: f64 = 0.5;
/// Deviations from the fair share below this are left alone.
const DEADBAND: f64 = 0.1;

/// Divides `total` copies among `claims`, moving from the present numbers towards the fair ones.
/// While a trial runs (`is_trial`), proportions stay: the trial compares totals only.
pub(super) fn divide(total: f64, claims: &[Claim], is_trial: bool) -> Vec<f64> {
    let fair = fair(total, claims);
    let present: Vec<f64> = claims.iter().map(|claim| claim.current.min(claim.wanted)).collect();
    let sum: f64 = present.iter().sum();
    let scale = if sum > total { total / sum } else { 1.0 };
    let mut steps: Vec<f64> = Vec::with_capacity(claims.len());
    for (now, goal) in present.iter().zip(&fair) {
        let now = now * scale;
        let is_close = is_trial || (goal - now).abs() <= (DEADBAND * goal).max(0.6);
        steps.push(if is_close { now } else { now + STEP * (goal - now) });
    }
    fill_up(total, claims, &mut steps);
    steps
}

/// Gives copies that are left to links below their fair share or, if none, in proportion.
fn fill_up(total: f64, claims: &[Claim], steps: &mut [f64]) {
    for _ in 0..4 {
        let left = total - steps.iter().sum::<f64>();
        let open: f64 = steps
            .iter()
            .zip(claims)
            .filter(|(step, claim)| **step < claim.wanted)
            .map(|(step, _)| step.max(0.5))
            .sum();
        if left <= 0.01 || open <= 0.0 {
            return;
        }
        for (step, claim) in steps.iter_mut().zip(claims) {
            if *step < claim.wanted {
                *step = (*step + left * step.max(0.5) / open).min(claim.wanted);
            }
        }
    }
}

/// The weighted max-min shares themselves.
fn fair(total: f64, claims: &[Claim]) -> Vec<f64> {
    let known: Vec<f64> = claims
        .iter()
        .map(|claim| claim.rate)
        .filter(|rate| *rate > 0.0)
        .collect();
    let mean = if known.is_empty() {
        1.0
    } else {
        (known.iter().map(|rate| rate.ln()).sum::<f64>() / known.len() as f64).exp()
    };
    let per_level = |claim: &Claim| {
        let rate = if claim.rate > 0.0 { claim.rate } else { mean };
        claim.weight * mean / rate.clamp(mean / RATE_RATIO_MAX, mean * RATE_RATIO_MAX)
    };
    let shares = |level: f64| -> Vec<f64> {
        claims
            .iter()
            .map(|claim| claim.wanted.min(level * per_level(claim)))
            .collect()
    };
    let (mut low, mut high) = (0.0, total * RATE_RATIO_MAX * 1e3);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if shares(middle).iter().sum::<f64>() > total {
            high = middle;
        } else {
            low = middle;
        }
    }
    shares(low)
}

/// Rounds shares so that their sum does not exceed `total`, and none with a share gets nothing
/// while `total` allows it.
pub(super) fn round(total: f64, shares: &[f64]) -> Vec<u32> {
    let mut rounded: Vec<u32> = shares.iter().map(|share| share.floor() as u32).collect();
    for (whole, share) in rounded.iter_mut().zip(shares) {
        if *whole == 0 && *share > 0.0 {
            *whole = 1;
        }
    }
    let goal = (shares.iter().sum::<f64>().min(total) + 0.01).floor() as u32;
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let fraction = |index: usize| shares[index] - shares[index].floor();
    order.sort_by(|a, b| fraction(*b).total_cmp(&fraction(*a)).then(a.cmp(b)));
    let mut sum: u32 = rounded.iter().sum();
    for index in order {
        if sum < goal && f64::from(rounded[index]) < shares[index] {
            rounded[index] += 1;
            sum += 1;
        }
    }
    while sum > goal.max(1) {
        let Some(largest) = (0..rounded.len()).max_by_key(|index| rounded[*index]) else {
            break;
        };
        rounded[largest] -= 1;
        sum -= 1;
    }
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(current: f64, wanted: f64, rate: f64) -> Claim {
        Claim {
            current,
            wanted,
            rate,
            weight: 1.0,
        }
    }

    #[test]
    fn distant_links_get_more_copies() {
        let claims = [claim(15.0, 90.0, 20.0), claim(15.0, 90.0, 10.0)];
        let shares = fair(30.0, &claims);
        assert!((shares[0] - 10.0).abs() < 0.01, "{shares:?}");
        assert!((shares[1] - 20.0).abs() < 0.01, "{shares:?}");
    }

    #[test]
    fn a_modest_link_leaves_the_rest() {
        let claims = [claim(3.0, 3.0, 10.0), claim(10.0, 90.0, 10.0)];
        let shares = fair(30.0, &claims);
        assert!((shares[0] - 3.0).abs() < 0.01, "{shares:?}");
        assert!((shares[1] - 27.0).abs() < 0.01, "{shares:?}");
    }

    #[test]
    fn the_sum_never_exceeds_the_total() {
        let claims = [claim(40.0, 90.0, 1.0), claim(1.0, 5.0, 90.0), claim(9.0, 9.0, 0.0)];
        for total in [1.0, 2.0, 3.5, 10.0, 60.0, 400.0] {
            let steps = divide(total, &claims, false);
            assert!(steps.iter().sum::<f64>() <= total + 0.1, "{total} {steps:?}");
            let sum: u32 = round(total, &steps).iter().sum();
            assert!(f64::from(sum) <= total.max(1.0), "{total} {steps:?}");
        }
    }
}
