//! How far copies were and when, and the rate that all of them had together over time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most points of a curve: more cannot be distinguished on a page.
const POINTS_MAX: f64 = 120.0;
/// Shortest time over which a rate is taken, in seconds: markers come every few seconds, and what
/// lies between two of them is not known.
const STEP_MIN_S: f64 = 0.1;

/// What is known of one copy: at which time, in seconds since the beginning, how many bytes had
/// been moved.
pub(crate) type Trace = Vec<(f64, u64)>;

/// All copies of a level. Copies note how far they are as they hear of it.
#[derive(Debug)]
pub(crate) struct Timeline {
    began: Instant,
    traces: Mutex<Vec<Trace>>,
}

/// A copy in a [`Timeline`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy(usize);

impl Timeline {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self {
            began: Instant::now(),
            traces: Mutex::default(),
        }
    }

    /// Seconds since the beginning.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// A copy begins.
    pub(crate) fn begin(&self) -> Copy {
        let now = self.elapsed_s();
        let mut traces = self.lock();
        traces.push(vec![(now, 0)]);
        Copy(traces.len() - 1)
    }

    /// So many bytes of a copy have been moved by now.
    pub(crate) fn note(&self, copy: Copy, bytes: u64) {
        let now = self.elapsed_s();
        if let Some(trace) = self.lock().get_mut(copy.0) {
            trace.push((now, bytes));
        }
    }

    /// Bytes known to have been moved.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.lock()
            .iter()
            .filter_map(|trace| trace.last())
            .map(|last| last.1)
            .sum()
    }

    /// The rate of all copies together over time, in bytes per second.
    pub(crate) fn rates(&self) -> Vec<(f64, f64)> {
        rates(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Trace>> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Divides what each copy moved between two notes evenly over the time between them, and adds up
/// what falls into each step. A copy that goes back, which begins anew, has moved nothing
/// meanwhile.
fn rates(traces: &[Trace]) -> Vec<(f64, f64)> {
    let end = traces.iter().flatten().fold(0.0_f64, |end, (at, _)| end.max(*at));
    let step = (end / POINTS_MAX).max(STEP_MIN_S);
    let mut sums = vec![0.0; (end / step).ceil() as usize];
    for pair in traces.iter().flat_map(|trace| trace.windows(2)) {
        let [(from, before), (to, after)] = *pair else { continue };
        let bytes = after.saturating_sub(before) as f64;
        spread(&mut sums, step, from, to, bytes);
    }
    let whole = sums.len().saturating_sub(1);
    // The last step may be a short one.
    let width = |index: usize| {
        if index < whole {
            step
        } else {
            (end - step * whole as f64).max(STEP_MIN_S / 10.0)
        }
    };
    let point = |(index, sum): (usize, &f64)| (step * index as f64 + width(index) / 2.0, sum / width(index));
    sums.iter().enumerate().map(point).collect()
}

fn spread(sums: &mut [f64], step: f64, from: f64, to: f64, bytes: f64) {
    let last = sums.len().saturating_sub(1);
    let index = |at: f64| ((at / step) as usize).min(last);
    if to <= from {
        if let Some(sum) = sums.get_mut(index(from)) {
            *sum += bytes;
        }
        return;
    }
    let (first, final_one) = (index(from), index(to));
    for (number, sum) in sums.iter_mut().enumerate().take(final_one + 1).skip(first) {
        let begin = if number == first { from } else { step * number as f64 };
        let end = if number == final_one {
            to
        } else {
            step * (number + 1) as f64
        };
        *sum += bytes * (end - begin).max(0.0) / (to - from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_copies_add_up_where_they_run_together() {
        // One moves 100 bytes a second for two seconds, the other 50 in the second of them.
        let traces = [vec![(0.0, 0), (2.0, 200)], vec![(1.0, 0), (1.5, 10), (2.0, 50)]];
        let rates = rates(&traces);
        assert_eq!(rates.len(), 20);
        let close = |value: f64, wanted: f64| (value - wanted).abs() < 1e-6;
        assert!(rates[..10].iter().all(|(_, rate)| close(*rate, 100.0)), "{rates:?}");
        assert!(rates[10..15].iter().all(|(_, rate)| close(*rate, 120.0)), "{rates:?}");
        assert!(rates[15..].iter().all(|(_, rate)| close(*rate, 180.0)), "{rates:?}");
        assert!(close(rates[0].0, 0.05) && close(rates[19].0, 1.95), "{rates:?}");
    }

    #[test]
    fn no_byte_is_lost_whatever_the_steps() {
        for end in [0.04, 0.1, 1.234, 77.7] {
            let traces = [
                vec![(0.0, 0), (end / 3.0, 500), (end, 1000)],
                vec![(end / 2.0, 0), (end / 2.0, 7)],
            ];
            let rates = rates(&traces);
            assert!(rates.len() <= 121, "{}", rates.len());
            let step = (end / POINTS_MAX).max(STEP_MIN_S);
            let whole = rates.len() - 1;
            let last = (end - step * whole as f64).max(STEP_MIN_S / 10.0);
            let sum: f64 = rates.iter().take(whole).map(|(_, rate)| rate * step).sum::<f64>() + rates[whole].1 * last;
            assert!((sum - 1007.0).abs() < 1e-6, "{end}: {sum}");
        }
    }

    #[test]
    fn what_goes_back_counts_as_nothing_and_nothing_makes_no_curve() {
        let rates_of = rates(&[vec![(0.0, 0), (1.0, 100), (1.0, 0), (2.0, 100)]]);
        let moved: f64 = rates_of.iter().map(|(_, rate)| rate * 0.1).sum();
        assert!((moved - 200.0).abs() < 1e-6, "{moved}");
        assert!(rates(&[]).is_empty());
    }

    #[test]
    fn copies_are_told_apart() {
        let timeline = Timeline::start();
        let (one, other) = (timeline.begin(), timeline.begin());
        timeline.note(one, 5);
        timeline.note(other, 7);
        timeline.note(one, 6);
        assert_eq!(timeline.moved_bytes(), 13);
    }
}
