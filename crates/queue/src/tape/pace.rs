//! When tape systems are asked: the older a request, the rarer, so that a wait grows by a quarter
//! at most, and a request of a day costs some hundred questions.

use std::time::Duration;

use crate::clock::milliseconds;
use crate::limits::{TAPE_POLL_MAX, TAPE_POLL_MIN, TAPE_POLL_PART};

/// The bounds of the pauses between two questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The shortest, and the one before the first question.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            shortest: TAPE_POLL_MIN,
            longest: TAPE_POLL_MAX,
        }
    }
}

impl Pace {
    /// The pause before the next question, for a wait of this age, in milliseconds.
    #[must_use]
    pub fn pause_ms(self, age_ms: i64) -> i64 {
        let part = age_ms.max(0) / i64::from(TAPE_POLL_PART);
        part.clamp(
            milliseconds(self.shortest),
            milliseconds(self.longest.max(self.shortest)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_the_age_within_its_bounds() {
        let pace = Pace::default();
        let ages = [-5, 0, 8_000, 60_000, 1_200_000, 86_400_000];
        let pauses = ages.map(|age_ms| pace.pause_ms(age_ms));
        assert_eq!(pauses, [2_000, 2_000, 2_000, 15_000, 300_000, 300_000]);
        let mut age_ms = 0;
        let mut questions = 0;
        while age_ms < 86_400_000 {
            age_ms += pace.pause_ms(age_ms);
            questions += 1;
        }
        assert!(questions < 320, "{questions} questions in a day");
    }
}
