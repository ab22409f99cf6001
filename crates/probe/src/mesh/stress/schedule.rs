//! When the copies of a link begin: ever faster during the ramp, then evenly.

use std::time::Duration;

/// How many copies a link gets, and when.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Copies that begin on each link in the time `per`, at the full rate.
    pub copies: u32,
    /// The time for these copies.
    pub per: Duration,
    /// Time in which the rate grows from nothing to the full one.
    pub ramp: Duration,
    /// Time at the full rate.
    pub hold: Duration,
}

impl Load {
    /// The time in which copies begin.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.ramp + self.hold
    }

    /// Copies that begin on a link in all.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    pub fn copies_of_link(&self) -> u64 {
        self.copies_until(self.duration()).floor() as u64
    }

    /// Copies per second at the full rate.
    fn rate(&self) -> f64 {
        f64::from(self.copies) / self.per.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Copies that begin before a moment, with fractions.
    fn copies_until(&self, moment: Duration) -> f64 {
        let (ramp, moment) = (self.ramp.as_secs_f64(), moment.as_secs_f64());
        let climbing = moment.min(ramp);
        let during_ramp = match ramp > 0.0 {
            true => self.rate() * climbing * climbing / (2.0 * ramp),
            false => 0.0,
        };
        during_ramp + self.rate() * (moment - ramp).max(0.0)
    }

    /// When the copy of this number begins, counted from zero. `phase`, from 0 to 1, shifts it
    /// within the time between two copies, so that links do not begin at the same moment.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far fewer copies")]
    pub fn begin(&self, number: u64, phase: f64) -> Duration {
        let (ramp, rate) = (self.ramp.as_secs_f64(), self.rate());
        let count = number as f64 + phase;
        let of_ramp = rate * ramp / 2.0;
        let seconds = match count < of_ramp {
            true => (2.0 * count * ramp / rate).sqrt(),
            false => ramp + (count - of_ramp) / rate,
        };
        Duration::from_secs_f64(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn the_rate_grows_and_then_stays() {
        let load = Load {
            copies: 250,
            per: HOUR,
            ramp: HOUR,
            hold: HOUR,
        };
        assert_eq!(load.copies_of_link(), 375);
        let begins: Vec<f64> = (0..375).map(|number| load.begin(number, 0.5).as_secs_f64()).collect();
        assert!(begins.is_sorted() && begins[374] < 7200.0, "{begins:?}");
        let until = |seconds: f64| begins.iter().filter(|begin| **begin < seconds).count();
        // A quarter of the ramp's copies in its first half.
        assert!((30..=32).contains(&until(1800.0)), "{}", until(1800.0));
        assert!((124..=126).contains(&until(3600.0)), "{}", until(3600.0));
        assert!((249..=251).contains(&until(5400.0)), "{}", until(5400.0));
    }

    #[test]
    fn without_a_ramp_copies_begin_evenly() {
        let load = Load {
            copies: 4,
            per: Duration::from_secs(8),
            ramp: Duration::ZERO,
            hold: Duration::from_secs(16),
        };
        assert_eq!(load.copies_of_link(), 8);
        let begins: Vec<f64> = (0..4).map(|number| load.begin(number, 0.25).as_secs_f64()).collect();
        assert_eq!(begins, [0.5, 2.5, 4.5, 6.5]);
    }
}
