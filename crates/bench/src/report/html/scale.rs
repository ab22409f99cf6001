//! From figures to places on paper.

/// Least distance of two marks: there is room for a figure of five digits between them, in a narrow
/// window.
const TICKS_APART: f64 = 34.0;

/// Figures along one direction of a plot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Where the lowest and the highest figure lie, in units of the plot.
    from: f64,
    to: f64,
    /// Figures that get a mark.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// From zero to at least `highest`, with round marks.
    pub(super) fn from_zero(highest: f64, from: f64, to: f64) -> Self {
        let highest = if highest > 0.0 && highest.is_finite() {
            highest
        } else {
            1.0
        };
        let step = round_step(highest / 6.0);
        let count = (highest / step - 1e-9).ceil().max(1.0);
        Self {
            low: 0.0,
            high: count * step,
            logarithmic: false,
            from,
            to,
            ticks: (0..=count as u32).map(|tick| f64::from(tick) * step).collect(),
        }
    }

    /// From zero to just `highest`, with round marks.
    pub(super) fn from_zero_until(highest: f64, from: f64, to: f64) -> Self {
        let mut scale = Self::from_zero(highest, from, to);
        if highest > 0.0 && highest.is_finite() {
            scale.high = highest;
            scale.ticks.retain(|tick| *tick <= highest);
        }
        scale
    }

    /// Over just these figures, each with a mark where there is room for it. Equal steps are equal
    /// factors when that is wanted and can be: not with zero among the figures.
    pub(super) fn over(figures: &[f64], logarithmic: bool, from: f64, to: f64) -> Self {
        let mut ticks = figures.to_vec();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let (low, high) = (
            ticks.first().copied().unwrap_or(0.0),
            ticks.last().copied().unwrap_or(1.0),
        );
        let mut scale = Self {
            low,
            high,
            logarithmic: logarithmic && low > 0.0,
            from,
            to,
            ticks: Vec::new(),
        };
        for tick in ticks {
            let apart = scale
                .ticks
                .last()
                .is_none_or(|last| (scale.place(tick) - scale.place(*last)).abs() > TICKS_APART);
            if apart {
                scale.ticks.push(tick);
            }
        }
        scale
    }

    /// Where a figure lies.
    pub(super) fn place(&self, figure: f64) -> f64 {
        let of = |figure: f64| if self.logarithmic { figure.ln() } else { figure };
        let span = of(self.high) - of(self.low);
        let share = if span > 0.0 {
            (of(figure) - of(self.low)) / span
        } else {
            0.5
        };
        self.from + share * (self.to - self.from)
    }
}

/// The next of 1, 2, 5, 10, 20, … that is not smaller.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let rounds = [1.0, 2.0, 5.0, 10.0];
    let factor = rounds.into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_reach_the_highest() {
        assert_eq!(Scale::from_zero(13.0, 0.0, 1.0).ticks, [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(Scale::from_zero(1.0, 0.0, 1.0).ticks.len(), 6);
        assert_eq!(Scale::from_zero(40_000.0, 0.0, 1.0).ticks.last(), Some(&40_000.0));
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Scale::from_zero(odd, 0.0, 1.0).place(1.0).is_finite(), "{odd}");
        }
    }

    #[test]
    fn time_ends_where_the_last_point_is() {
        let scale = Scale::from_zero_until(3.05, 0.0, 305.0);
        assert_eq!(scale.ticks, [0.0, 1.0, 2.0, 3.0]);
        assert!((scale.place(3.05) - 305.0).abs() < 1e-9);
    }

    #[test]
    fn equal_factors_are_equal_steps_unless_there_is_a_zero() {
        let scale = Scale::over(&[16.0, 1.0, 4.0], true, 0.0, 100.0);
        assert_eq!(scale.ticks, [1.0, 4.0, 16.0]);
        assert!((scale.place(4.0) - 50.0).abs() < 1e-9);
        let scale = Scale::over(&[0.0, 50.0, 100.0], true, 0.0, 100.0);
        assert!((scale.place(50.0) - 50.0).abs() < 1e-9);
        assert!((Scale::over(&[7.0], false, 0.0, 100.0).place(7.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn marks_do_not_lie_on_each_other() {
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(Scale::over(&many, false, 0.0, 100.0).ticks.len() < 5);
    }
}
