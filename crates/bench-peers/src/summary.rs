//! From repeated measurements to one figure with its spread.

/// Above this ratio of the largest to the smallest figure, a measurement says little.
const NOISY_RATIO: f64 = 1.5;

/// The spread of a figure over its repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Of `values`; `None` when there are none or one is not a number.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self {
            min: sorted[0],
            median,
            max: sorted[sorted.len() - 1],
        })
    }

    /// True when the repetitions differ so much that the median is doubtful.
    pub(crate) fn is_noisy(&self) -> bool {
        self.max > self.min * NOISY_RATIO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        let odd = Summary::of(&[3.0, 1.0, 2.0]).expect("values");
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).expect("values").median, 2.5);
        assert_eq!(Summary::of(&[7.0]).expect("values").median, 7.0);
    }

    #[test]
    fn nothing_and_nonsense_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn a_wide_spread_is_noisy() {
        assert!(!Summary::of(&[1.0, 1.5]).expect("values").is_noisy());
        assert!(Summary::of(&[1.0, 1.51]).expect("values").is_noisy());
        assert!(Summary::of(&[0.0, 0.1]).expect("values").is_noisy());
    }
}
