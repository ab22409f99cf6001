//! Chooses the number of streams of a transfer whose order leaves it open. It begins with one, or
//! with the number that recently paid off for this server, and grows while that makes the transfer
//! faster.
//!
//! A stream carries one window per round trip. On a long line, from [`CHOSEN_STREAMS_RTT_MIN`] on,
//! that is less than the line's capacity. When the rate no longer rises by itself, the number of
//! streams is doubled. If the rate then grows by at least half of the possible gain, this
//! continues; if not within some time, the new streams are given up and the number is final. The
//! total rate of the budget must grow by as much, so that transfers on a full line or a busy
//! machine do not take from each other by adding streams. The budget limits the streams added over
//! all transfers.
//!
//! On a short line a stream is as fast as the processor that receives it; a second stream uses a
//! second processor. So there are at most as many streams as processors per running copy. They are
//! tried only if a stream is faster than disks and common lines ([`CHOSEN_STREAMS_NEAR_RATE_MIN`]),
//! because two readers of one disk make its head seek. A smaller gain is enough, because two
//! hyper-threads of a core do the work of 1.25 at best.

use std::time::Duration;

use crate::limits::{CHOSEN_STREAMS_NEAR_RATE_MIN, CHOSEN_STREAMS_RTT_MIN, STREAM_BLOCK_BYTES};
use tokio::time::{Instant, sleep_until};

use crate::budget::{Budget, ExtraStream};

/// Round trips between two samples. A new stream's connection needs as many to begin.
const LOOK_ROUND_TRIPS: u32 = 3;
/// Shortest time between two samples of a far source. Shorter samples vary too much.
const LOOK_MIN: Duration = Duration::from_millis(200);
/// Time between two samples of a near source, which sends some MB in it, and a file within a
/// second.
const NEAR_LOOK: Duration = Duration::from_millis(10);
/// Longest time between two samples, for a source that is slow for other reasons than distance.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// A rate that grows by less than this between two samples has stopped rising, in percent.
const RISE_PERCENT: u64 = 25;
/// Gain that new streams from a far source must bring, in percent of what as many carried before.
const GAIN_PERCENT: u64 = 50;
/// The same for a near source. Any gain above the variation of rates is worth it, since the
/// processor time stays the same.
const NEAR_GAIN_PERCENT: u64 = 5;
/// Samples within which they must bring it. A new connection starts slowly: without losses it
/// reaches a window of 4 MiB in eight round trips.
const TRIAL_LOOKS_MAX: u32 = 5;

/// Bytes moved so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// By this transfer.
    pub(crate) own: u64,
    /// By everything under the same budget.
    pub(crate) all: u64,
}

/// Bytes per second.
type Rates = Sample;

impl Rates {
    /// The maximum of each.
    fn or(self, other: Self) -> Self {
        Self {
            own: self.own.max(other.own),
            all: self.all.max(other.all),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Waits for the first answer of the source, which shows its distance.
    Distance,
    /// The last sample, and the highest rates with this number of streams. The highest counts
    /// because a stream pauses between two blocks.
    Watch(Instant, Sample, Option<Rates>),
    /// The number is final.
    Done,
}

/// Added streams that must still prove their worth.
#[derive(Clone, Copy, Debug)]
struct Trial {
    before: Rates,
    added: u32,
    looks: u32,
}

/// A change of the number of streams.
#[derive(Debug)]
pub(crate) enum Change {
    /// Start these.
    Add(Vec<ExtraStream>),
    /// Go back to this number.
    Return(u32),
    /// No change.
    None,
}

/// The number of streams of one transfer.
#[derive(Debug)]
pub(crate) struct Growth {
    budget: Budget,
    first: u32,
    streams: u32,
    streams_max: u32,
    is_near: bool,
    step: Step,
    trial: Option<Trial>,
    settled: Option<u32>,
    period: Duration,
    next: Instant,
}

impl Growth {
    /// Begins with `first` streams and `joined` more that paid off for an earlier transfer. There
    /// are at most `streams_max`, and the budget must grant each added one.
    pub(crate) fn new(budget: &Budget, first: u32, joined: u32, streams_max: u32) -> Self {
        let changes = first < streams_max;
        Self {
            budget: budget.clone(),
            first,
            streams: first + joined,
            streams_max,
            is_near: false,
            step: if changes { Step::Distance } else { Step::Done },
            trial: None,
            settled: None,
            period: NEAR_LOOK,
            next: Instant::now() + NEAR_LOOK,
        }
    }

    /// Whether the number is final.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// The number that paid off, if more were tried.
    pub(crate) fn settled(&self) -> Option<u32> {
        self.settled
    }

    /// Waits until the next sample is due; forever if the number is final.
    pub(crate) async fn due(&self) {
        match self.step {
            Step::Done => std::future::pending().await,
            _ => sleep_until(self.next).await,
        }
    }

    /// Evaluates a sample. `rest_bytes` are not taken by any stream yet; `rtt` is the source's
    /// shortest response time; a near source gets at most `near_max` streams.
    pub(crate) fn look(&mut self, moved: Sample, rest_bytes: u64, rtt: Option<Duration>, near_max: u32) -> Change {
        let now = Instant::now();
        let change = match (self.step, rtt) {
            (Step::Distance, Some(rtt)) => {
                self.is_near = rtt < CHOSEN_STREAMS_RTT_MIN;
                if !self.is_near {
                    self.period = (rtt * LOOK_ROUND_TRIPS).clamp(LOOK_MIN, LOOK_MAX);
                }
                self.step = Step::Watch(now, moved, None);
                Change::None
            }
            (Step::Watch(since, from, highest), _) => {
                let rates = rates(from, moved, now - since);
                let best = highest.map_or(rates, |highest| highest.or(rates));
                self.step = Step::Watch(now, moved, Some(best));
                match (self.trial, highest) {
                    (Some(trial), _) => self.judge(trial, rates),
                    (None, Some(highest)) if !rises(highest.own, rates.own) => {
                        let most = if self.is_near { near_max } else { u32::MAX };
                        self.grow(best, rest_bytes, most.min(self.streams_max))
                    }
                    (None, _) => Change::None,
                }
            }
            (Step::Distance, None) | (Step::Done, _) => Change::None,
        };
        self.next = now + self.period;
        change
    }

    /// Judges the added streams.
    fn judge(&mut self, trial: Trial, now: Rates) -> Change {
        if self.pays(trial, now) {
            self.trial = None;
            self.settled = Some(self.streams);
        } else if trial.looks + 1 < TRIAL_LOOKS_MAX {
            let looks = trial.looks + 1;
            self.trial = Some(Trial { looks, ..trial });
        } else {
            return self.give_back(self.streams - trial.added);
        }
        Change::None
    }

    fn give_back(&mut self, streams: u32) -> Change {
        self.step = Step::Done;
        self.streams = streams;
        self.settled = Some(streams);
        Change::Return(streams)
    }

    fn pays(&self, trial: Trial, now: Rates) -> bool {
        let of_each = trial.before.own / u64::from((self.streams - trial.added).max(1));
        let gain_percent = if self.is_near { NEAR_GAIN_PERCENT } else { GAIN_PERCENT };
        let least = of_each * u64::from(trial.added) * gain_percent / 100;
        now.own >= trial.before.own + least && now.all >= trial.before.all + least
    }

    /// Doubles the streams, up to `most`, if the rest lasts until they reach full speed.
    fn grow(&mut self, rates: Rates, rest_bytes: u64, most: u32) -> Change {
        if self.is_near && self.streams > self.first && rates.own < CHOSEN_STREAMS_NEAR_RATE_MIN {
            // The joined streams are from a faster file; this file may come from a disk.
            return self.give_back(self.first);
        }
        let soon = 2 * u64::try_from(self.period.as_millis()).unwrap_or(u64::MAX / 2);
        let lasts = rates.own > 0 && rest_bytes / (rates.own / 1000).max(1) > soon;
        let is_fast = rates.own / u64::from(self.streams.max(1)) >= CHOSEN_STREAMS_NEAR_RATE_MIN;
        let work = u32::try_from(rest_bytes / STREAM_BLOCK_BYTES).unwrap_or(u32::MAX);
        let wanted = self.streams.min(most.saturating_sub(self.streams)).min(work);
        let tries = lasts && (is_fast || !self.is_near);
        let granted = if tries {
            self.budget.add_streams(wanted)
        } else {
            Vec::new()
        };
        if granted.is_empty() {
            self.step = Step::Done;
            return Change::None;
        }
        let added = granted.len() as u32;
        self.streams += added;
        self.trial = Some(Trial {
            before: rates,
            added,
            looks: 0,
        });
        Change::Add(granted)
    }
}

fn rises(before: u64, now: u64) -> bool {
    now > before + before * RISE_PERCENT / 100
}

fn rates(from: Sample, to: Sample, time: Duration) -> Rates {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    // A transfer that starts over counts from 0 again.
    let rate = |from: u64, to: u64| to.saturating_sub(from) * 1000 / millis;
    Rates {
        own: rate(from.own, to.own),
        all: rate(from.all, to.all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_millis(100);
    const NEAR: Duration = Duration::from_micros(200);
    const MEGA: u64 = 1_000_000;

    /// Simulates a transfer whose rate depends on its streams, on four processors, until the number
    /// is final.
    async fn settled(max: u32, rtt: Duration, rest_bytes: u64, rate: impl Fn(u32) -> u64) -> u32 {
        let growth = followed(0, max, rtt, rest_bytes, rate).await;
        assert!(growth.settled.is_none_or(|settled| settled == growth.streams));
        growth.streams
    }

    /// The same with streams that joined at the beginning. Returns the final state.
    async fn followed(joined: u32, max: u32, rtt: Duration, rest_bytes: u64, rate: impl Fn(u32) -> u64) -> Growth {
        let budget = Budget::for_processors(4);
        let mut growth = Growth::new(&budget, 1, joined, max);
        let (mut moved, mut last) = (0, Instant::now());
        while !growth.is_done() {
            growth.due().await;
            moved += rate(growth.streams) * u64::try_from(last.elapsed().as_millis()).unwrap() / 1000;
            last = Instant::now();
            let sample = Sample { own: moved, all: moved };
            growth.look(sample, rest_bytes, Some(rtt), 4);
        }
        growth
    }

    #[tokio::test(start_paused = true)]
    async fn streams_are_added_while_each_brings_its_part() {
        let alike = |streams| u64::from(streams) * 40 * MEGA;
        assert_eq!(settled(8, FAR, 1 << 40, alike).await, 8);
        assert_eq!(settled(6, FAR, 1 << 40, alike).await, 6);
        assert_eq!(settled(1, FAR, 1 << 40, alike).await, 1);
        // Three streams fill the line.
        assert_eq!(settled(16, FAR, 1 << 40, |streams| alike(streams.min(3))).await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_between_blocks_do_not_mislead() {
        // Every third sample has a quarter of the rate.
        let looks = std::cell::Cell::new(0);
        let uneven = |streams: u32| {
            looks.set(looks.get() + 1);
            u64::from(streams) * if looks.get() % 3 == 0 { 10 } else { 40 } * MEGA
        };
        assert_eq!(settled(8, FAR, 1 << 40, uneven).await, 8);
        looks.set(0);
        assert_eq!(settled(8, FAR, 1 << 40, |_| uneven(1)).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_one_stream_fills_is_left_to_it() {
        assert_eq!(settled(16, FAR, 1 << 40, |_| 40 * MEGA).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_file_gets_no_streams() {
        let alike = |streams| u64::from(streams) * 40 * MEGA;
        assert_eq!(settled(16, FAR, STREAM_BLOCK_BYTES, alike).await, 1);
        let fast = |streams| u64::from(streams) * 800 * MEGA;
        assert_eq!(settled(16, NEAR, STREAM_BLOCK_BYTES, fast).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_near_source_gets_a_stream_for_each_processor() {
        let alike = |streams| u64::from(streams) * 800 * MEGA;
        assert_eq!(settled(16, NEAR, 1 << 40, alike).await, 4);
        assert_eq!(settled(3, NEAR, 1 << 40, alike).await, 3);
        // Two hyper-threads of one core.
        assert_eq!(
            settled(2, NEAR, 1 << 40, |streams| 800 * MEGA
                + u64::from(streams - 1) * 80 * MEGA)
            .await,
            2
        );
        // One stream fills the line.
        assert_eq!(settled(16, NEAR, 1 << 40, |_| 1200 * MEGA).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_near_source_that_a_disk_may_hold_back_keeps_one_stream() {
        let slow = CHOSEN_STREAMS_NEAR_RATE_MIN - MEGA;
        assert_eq!(settled(16, NEAR, 1 << 40, |streams| u64::from(streams) * slow).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_an_earlier_transfer_is_the_start() {
        let alike = |streams| u64::from(streams) * 40 * MEGA;
        let of = |growth: Growth| (growth.streams, growth.settled);
        assert_eq!(of(followed(3, 8, FAR, 1 << 40, alike).await), (8, Some(8)));
        assert_eq!(of(followed(7, 8, FAR, 1 << 40, alike).await), (8, None));
        assert_eq!(of(followed(3, 8, FAR, 1 << 40, |_| 160 * MEGA).await), (4, Some(4)));
        // The maximum for a near source, at the expected rate; then a file on a disk.
        assert_eq!(of(followed(1, 2, NEAR, 1 << 40, |_| 900 * MEGA).await), (2, None));
        assert_eq!(of(followed(1, 2, NEAR, 1 << 40, |_| 200 * MEGA).await), (1, Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn taking_from_another_transfer_is_no_gain() {
        let mut growth = Growth::new(&Budget::for_processors(4), 1, 0, 8);
        growth.streams = 2;
        let before = Rates { own: 40, all: 400 };
        let trial = Trial {
            before,
            added: 1,
            looks: 0,
        };
        assert!(growth.pays(trial, Rates { own: 60, all: 420 }));
        assert!(!growth.pays(trial, Rates { own: 60, all: 400 }));
        assert!(!growth.pays(trial, Rates { own: 40, all: 500 }));
    }
}
