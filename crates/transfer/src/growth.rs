//! How many streams a transfer takes when nobody says: it begins with one, or with as many as were worth it not long ago,
//! and takes more while that makes it faster.
//!
//! One stream carries a window in each round trip. On a long line, from [`CHOSEN_STREAMS_RTT_MIN`] on, that is less than the
//! line carries. The rate is looked at until it no longer rises by itself; then the streams are doubled. If the rate
//! grows by half of what that could bring, it goes on so; if it does not for some time, the new streams are taken
//! back, and the number stays. The rate of everything under the same budget has to grow as much, so that transfers that
//! share a full line, or a busy machine, do not take from each other by adding streams; and the streams that were
//! added are counted over all of them.
//!
//! On a short line one stream is as fast as the processor that receives it, and a second one is for a second processor. So
//! there are no more of them than processors for each copy that runs; they are tried only where a stream is faster than
//! disks and common lines are ([`CHOSEN_STREAMS_NEAR_RATE_MIN`]), since two readers of one disk take turns to move its
//! head; and less of a gain is asked for, as two processors that are one core do the work of one and a quarter at the best.

use std::time::Duration;

use crate::limits::{CHOSEN_STREAMS_NEAR_RATE_MIN, CHOSEN_STREAMS_RTT_MIN, STREAM_BLOCK_BYTES};
use tokio::time::{Instant, sleep_until};

use crate::budget::{Budget, ExtraStream};

/// Round trips between two looks: a new stream's connection takes as many to begin.
const LOOK_ROUND_TRIPS: u32 = 3;
/// Shortest time between two looks at a far source: shorter, it is the moment that is measured.
const LOOK_MIN: Duration = Duration::from_millis(200);
/// Time between two looks at a near source, which sends some MB in it, and whose file has come within a second.
const NEAR_LOOK: Duration = Duration::from_millis(10);
/// Longest such time, when a source is slow to answer for other reasons than its distance.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// A rate that has not grown by this much since the last look does not rise any more, in percent.
const RISE_PERCENT: u64 = 25;
/// New streams to a far source have to bring this part of what as many carried before, in percent.
const GAIN_PERCENT: u64 = 50;
/// Those to a near one: at the same processor time any gain is one, if it is more than rates vary by themselves.
const NEAR_GAIN_PERCENT: u64 = 5;
/// Looks until which they must have done so. A new connection begins slowly: on a line without losses it
/// reaches a window of 4 MiB in eight round trips.
const TRIAL_LOOKS_MAX: u32 = 5;

/// What has moved until a moment, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// For this transfer.
    pub(crate) own: u64,
    /// For everything under the same budget.
    pub(crate) all: u64,
}

/// Bytes per second.
type Rates = Sample;

impl Rates {
    /// The higher of each.
    fn or(self, other: Self) -> Self {
        Self {
            own: self.own.max(other.own),
            all: self.all.max(other.all),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Until the source has answered once, so that its distance is known.
    Distance,
    /// What had moved at the last look, and the highest rates that were seen with this number of streams. It is the
    /// highest that counts, because between two blocks a stream rests for a moment.
    Watch(Instant, Sample, Option<Rates>),
    /// The number stays.
    Done,
}

/// Streams that were added and have not proved themselves yet.
#[derive(Clone, Copy, Debug)]
struct Trial {
    before: Rates,
    added: u32,
    looks: u32,
}

/// What is to be done about the number of streams.
#[derive(Debug)]
pub(crate) enum Change {
    /// These are to begin.
    Add(Vec<ExtraStream>),
    /// They are to be this many again.
    Return(u32),
    /// Nothing.
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
    /// Begins with `first`, and with `joined` more that another transfer has found to be worth it. There are at most
    /// `streams_max`, and the budget grants each that is added.
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

    /// Whether the number stays as it is.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// The number that was found to be worth it, if more were tried.
    pub(crate) fn settled(&self) -> Option<u32> {
        self.settled
    }

    /// Waits until it is time to look again; for ever when the number stays.
    pub(crate) async fn due(&self) {
        match self.step {
            Step::Done => std::future::pending().await,
            _ => sleep_until(self.next).await,
        }
    }

    /// Looks at what has moved, with `rest_bytes` that no stream has taken and the shortest time `rtt` in which
    /// the source has answered. To a near source there are `near_max` streams at the most.
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

    /// Whether the streams that were added have proved themselves.
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

    /// Twice as many, `most` at the most, as far as there is work for them that lasts until they are in full swing.
    fn grow(&mut self, rates: Rates, rest_bytes: u64, most: u32) -> Change {
        if self.is_near && self.streams > self.first && rates.own < CHOSEN_STREAMS_NEAR_RATE_MIN {
            // It was another file that came faster than from a disk.
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
    // A transfer that was told to start over counts from nothing again.
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

    /// Follows a transfer whose rate depends on its streams, until the number stays. There are four processors for it.
    async fn settled(max: u32, rtt: Duration, rest_bytes: u64, rate: impl Fn(u32) -> u64) -> u32 {
        let growth = followed((0, max), rtt, rest_bytes, rate).await;
        assert!(growth.settled.is_none_or(|settled| settled == growth.streams));
        growth.streams
    }

    /// The same for one with streams that have joined at the beginning, and with all that is known in the end.
    async fn followed((joined, max): (u32, u32), rtt: Duration, rest_bytes: u64, rate: impl Fn(u32) -> u64) -> Growth {
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
        // A line that three streams fill: eight are too many.
        assert_eq!(settled(16, FAR, 1 << 40, |streams| alike(streams.min(3))).await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn moments_without_data_between_blocks_mislead_nobody() {
        // Every third look sees a quarter of the rate.
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
    async fn the_end_of_a_file_gets_none() {
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
        // Two processors that are one core.
        assert_eq!(
            settled(2, NEAR, 1 << 40, |streams| 800 * MEGA
                + u64::from(streams - 1) * 80 * MEGA)
            .await,
            2
        );
        // A line that one stream fills.
        assert_eq!(settled(16, NEAR, 1 << 40, |_| 1200 * MEGA).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_near_source_that_a_disk_may_hold_back_keeps_one_stream() {
        let slow = CHOSEN_STREAMS_NEAR_RATE_MIN - MEGA;
        assert_eq!(settled(16, NEAR, 1 << 40, |streams| u64::from(streams) * slow).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_worth_it_for_another_is_a_beginning() {
        let alike = |streams| u64::from(streams) * 40 * MEGA;
        let of = |growth: Growth| (growth.streams, growth.settled);
        assert_eq!(of(followed((3, 8), FAR, 1 << 40, alike).await), (8, Some(8)));
        assert_eq!(of(followed((7, 8), FAR, 1 << 40, alike).await), (8, None));
        assert_eq!(of(followed((3, 8), FAR, 1 << 40, |_| 160 * MEGA).await), (4, Some(4)));
        // As many as there can be to a near source, and as fast as was expected; and a file that lies on a disk.
        assert_eq!(of(followed((1, 2), NEAR, 1 << 40, |_| 900 * MEGA).await), (2, None));
        assert_eq!(of(followed((1, 2), NEAR, 1 << 40, |_| 200 * MEGA).await), (1, Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_transfer_takes_from_another_is_no_gain() {
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
