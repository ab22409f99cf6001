//! The search for the number of copies that a link, or one direction of a storage, sustains.
//!
//! Both use the same search: *load* is the link's own copies and goodput, or the sum over the
//! storage's links. It has two states:
//!
//! * *Open*: no limit is known. Copies double while goodput follows them, grow by a quarter while
//!   it follows half-heartedly, and stop where it does not: there is the limit.
//! * *Limited*: from time to time a *trial* uses an eighth more or less for a few samples. More is
//!   kept if goodput gained at least half as much; less is kept if goodput lost at most a quarter
//!   as much. Between these the limit stays, so noise does not move it.

use super::limits;

/// What ran during a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Copies.
    pub(super) copies: f64,
    /// Goodput in bytes/s.
    pub(super) goodput: f64,
    /// Whether files waited, so that more copies could have run.
    pub(super) is_hungry: bool,
    /// Whether this limit, and no other, kept them waiting.
    pub(super) is_binding: bool,
    /// Whether a trial may start: not while another one runs on the same storage.
    pub(super) may_try: bool,
}

/// Goodput gained, relative to copies added, from which doubling goes on.
const GAIN_DOUBLE: f64 = 0.75;
/// Goodput gained, relative to copies added, that makes growth worth it while no limit is known.
const GAIN_OPEN: f64 = 0.4;
/// Goodput gained, relative to copies added, that keeps a trial with more copies.
const GAIN_KEEP: f64 = 0.5;
/// Goodput lost, relative to copies removed, up to which a trial with fewer copies is kept.
const LOSS_KEEP: f64 = 0.25;
/// Fewer copies are kept only while goodput stays above this part of what it was at first.
const LOSS_TOTAL: f64 = 0.96;
/// The first step of a trial.
const STEP: f64 = 1.125;
/// The factor after overload, stalls and a fall of goodput.
const CUT: f64 = 0.7;
/// Growth of copies from which goodput is compared.
pub(super) const GROWTH_JUDGED: f64 = 1.12;
/// Copies above the estimated knee: an estimate that is too low costs goodput.
const KNEE_MARGIN: f64 = 1.1;
/// A change of goodput with the same copies by this much means that the world has changed.
const FALL: f64 = 0.75;
const RISE: f64 = 1.12;

#[derive(Clone, Copy, Debug)]
struct Base {
    copies: f64,
    goodput: f64,
    at_ms: i64,
    /// Whether one sample after the growth has been seen already.
    is_second: bool,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    is_up: bool,
    factor: f64,
    /// The limit before.
    from: f64,
    copies: f64,
    goodput: f64,
    /// Goodput before the first of a series of kept trials downwards.
    series_goodput: f64,
    at_ms: i64,
    samples: u32,
    sum_copies: f64,
    sum_goodput: f64,
}

#[derive(Clone, Copy, Debug)]
struct Avoid {
    copies: f64,
    until_ms: i64,
    time_ms: i64,
}

/// The state of a search.
#[derive(Clone, Debug, Default)]
pub(super) struct Climb {
    /// Copies that are sustained; `None` until found.
    pub(super) limit: Option<f64>,
    /// By which factor copies may grow until the next sample, while no limit is known.
    pub(super) appetite: f64,
    /// What happened last, in words.
    pub(super) why: String,
    base: Option<Base>,
    trial: Option<Trial>,
    next_trial_ms: i64,
    interval_ms: i64,
    is_next_up: bool,
    best_rate: f64,
    /// The last loads under the present limit, newest last.
    recent: Vec<Load>,
    changed: u32,
    settled_goodput: Option<f64>,
    cut_ms: Option<i64>,
    avoid: Option<Avoid>,
    /// Bytes/s gained by the trial that was kept with the last sample.
    pub(super) gained: Option<f64>,
    not_before_ms: i64,
}

/// Loads kept as the basis of a trial.
const RECENT: usize = 3;

impl Climb {
    /// Whether a trial is running.
    pub(super) fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Whether it waits for a second sample, or found its limit just now.
    pub(super) fn is_undecided(&self) -> bool {
        self.base.is_some_and(|base| base.is_second) || (self.limit.is_some() && self.recent.is_empty())
    }

    /// Starts anew from the present number, without a limit.
    pub(super) fn reopen(&mut self, why: &str) {
        self.limit = None;
        self.trial = None;
        self.best_rate = 0.0;
        self.appetite = 2.0;
        self.why = why.to_owned();
        self.forget_measurements();
    }

    /// Forgets measurements that no longer compare.
    pub(super) fn forget_measurements(&mut self) {
        self.base = None;
        self.recent.clear();
        self.settled_goodput = None;
        self.changed = 0;
    }

    /// Ends a running trial at the number before it.
    pub(super) fn call_off(&mut self, now_ms: i64) {
        if let Some(trial) = self.trial.take() {
            self.limit = Some(trial.from);
            self.next_trial_ms = now_ms + self.interval_ms;
        }
        self.forget_measurements();
    }

    /// Copies at most `max` may run: that is the limit until trials find a lower one.
    pub(super) fn accept_maximum(&mut self, now_ms: i64, max: f64) {
        if self.limit.is_none() {
            self.settle(now_ms, max, "the configured maximum is reached".to_owned());
        }
    }

    /// Sets the limit to `copies` for a reason that no trial found.
    pub(super) fn throttle(&mut self, now_ms: i64, copies: f64, why: String) {
        self.settle(now_ms, copies.max(1.0), why);
    }

    /// Takes the load since the last sample.
    pub(super) fn observe(&mut self, now_ms: i64, load: Load) {
        self.gained = None;
        if !load.is_hungry || load.copies < 0.5 {
            self.call_off(now_ms);
            self.appetite = 2.0;
            return;
        }
        match self.limit {
            None => self.open(now_ms, load),
            Some(_) if self.trial.is_some() => self.judge(now_ms, load),
            Some(_) if load.is_binding => self.limited(now_ms, load),
            Some(_) => self.forget_measurements(),
        }
    }

    /// Overload or stalls with `copies` running: fewer, and not that many again for a while.
    /// Returns whether it changed anything.
    pub(super) fn cut(&mut self, now_ms: i64, copies: f64, retry_after_ms: i64, why: &str) -> bool {
        let delay = retry_after_ms.clamp(0, limits::RETRY_AFTER_MAX_MS);
        self.not_before_ms = self.not_before_ms.max(now_ms + delay);
        if self.cut_ms.is_some_and(|cut| now_ms - cut < limits::CUT_INTERVAL_MS) {
            return false;
        }
        self.cut_ms = Some(now_ms);
        let time_ms = match self.avoid {
            Some(avoid) if now_ms < avoid.until_ms + avoid.time_ms => (avoid.time_ms * 2).min(limits::AVOID_MAX_MS),
            _ => limits::AVOID_MS,
        };
        self.avoid = Some(Avoid {
            copies: 0.9 * copies,
            until_ms: now_ms + time_ms,
            time_ms,
        });
        let limit = (CUT * copies).max(1.0);
        self.settle(now_ms, limit, why.to_owned());
        self.is_next_up = true;
        true
    }

    fn settle(&mut self, now_ms: i64, limit: f64, why: String) {
        self.limit = Some(limit.max(1.0));
        self.trial = None;
        self.appetite = 1.25;
        self.forget_measurements();
        self.interval_ms = limits::TRIAL_INTERVAL_MS;
        self.next_trial_ms = now_ms + self.interval_ms;
        self.is_next_up = false;
        self.why = why;
    }

    fn open(&mut self, now_ms: i64, load: Load) {
        self.best_rate = self.best_rate.max(load.goodput / load.copies);
        let fresh = Base {
            copies: load.copies,
            goodput: load.goodput,
            at_ms: now_ms,
            is_second: false,
        };
        let Some(base) = self.base else {
            self.base = Some(fresh);
            self.appetite = 2.0;
            return;
        };
        if load.copies < GROWTH_JUDGED * base.copies {
            let is_stale = now_ms - base.at_ms > limits::BASE_MAX_AGE_MS;
            if load.copies < 0.9 * base.copies || is_stale {
                self.base = Some(fresh);
            }
            self.appetite = self.appetite.max(1.25);
            return;
        }
        let gain = gain(base.copies, base.goodput, load.copies, load.goodput);
        let grown = percent(load.copies / base.copies - 1.0);
        let goodput = percent(load.goodput / base.goodput.max(1.0) - 1.0);
        if gain >= GAIN_DOUBLE || (gain >= GAIN_OPEN && base.is_second) {
            self.appetite = if gain >= GAIN_DOUBLE { 2.0 } else { 1.25 };
            self.base = Some(fresh);
            self.why = format!("{grown} more copies moved {goodput} more bytes");
        } else if base.is_second {
            let knee = self.knee(base, load);
            let why = format!("{grown} more copies moved only {goodput} more bytes");
            self.settle(now_ms, knee, why);
        } else {
            self.appetite = 1.0;
            self.base = Some(Base {
                is_second: true,
                ..base
            });
        }
    }

    /// The number of copies where goodput stopped to follow.
    fn knee(&self, base: Base, load: Load) -> f64 {
        let estimate = KNEE_MARGIN * load.goodput.max(base.goodput) / self.best_rate.max(1.0);
        if load.goodput >= base.goodput {
            estimate.clamp(base.copies, load.copies)
        } else {
            estimate.clamp(CUT * base.copies, base.copies)
        }
    }

    fn limited(&mut self, now_ms: i64, load: Load) {
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(load);
        if self.recent.len() < 2 {
            return;
        }
        if let Some(settled) = self.settled_goodput {
            let change = load.goodput / settled.max(1.0);
            if (FALL..RISE).contains(&change) {
                self.changed = 0;
            } else {
                self.changed += 1;
            }
            if self.changed >= 2 && load.may_try {
                self.react(now_ms, load, settled);
                return;
            }
        }
        if self.changed == 0 {
            let settled = self.settled_goodput.unwrap_or_else(|| self.mean().goodput);
            self.settled_goodput = Some(0.8 * settled + 0.2 * load.goodput);
        }
        if load.may_try && now_ms >= self.next_trial_ms.max(self.not_before_ms) {
            let basis = self.mean();
            self.try_step(now_ms, basis, self.is_next_up, STEP, basis.goodput);
        }
    }

    /// Goodput changed by itself: tries at once whether fewer or more copies fit now.
    fn react(&mut self, now_ms: i64, load: Load, settled: f64) {
        self.interval_ms = limits::TRIAL_INTERVAL_MS;
        self.settled_goodput = None;
        self.changed = 0;
        let is_up = load.goodput > settled;
        if is_up && now_ms < self.not_before_ms {
            return;
        }
        let factor = if is_up { 1.25 } else { 1.0 / CUT };
        self.try_step(now_ms, load, is_up, factor, load.goodput);
    }

    fn mean(&self) -> Load {
        let count = self.recent.len().max(1) as f64;
        Load {
            copies: self.recent.iter().map(|load| load.copies).sum::<f64>() / count,
            goodput: self.recent.iter().map(|load| load.goodput).sum::<f64>() / count,
            is_hungry: true,
            is_binding: true,
            may_try: true,
        }
    }

    fn try_step(&mut self, now_ms: i64, basis: Load, is_up: bool, factor: f64, series: f64) {
        let Some(from) = self.limit else { return };
        let mut goal = if is_up {
            (from * factor).max(from + 1.0)
        } else {
            (from / factor).min(from - 1.0).max(1.0)
        };
        if let Some(avoid) = self.avoid
            && is_up
            && now_ms < avoid.until_ms
        {
            goal = goal.min(avoid.copies);
        }
        self.is_next_up = !is_up;
        self.next_trial_ms = now_ms + self.interval_ms;
        if (goal > from) != is_up || (goal - from).abs() < 0.5 {
            return;
        }
        self.limit = Some(goal);
        let percent = percent((goal / from - 1.0).abs());
        self.why = format!("trial with {percent} {}", if is_up { "more" } else { "fewer" });
        self.trial = Some(Trial {
            is_up,
            factor,
            from,
            copies: basis.copies,
            goodput: basis.goodput,
            series_goodput: series,
            at_ms: now_ms,
            samples: 0,
            sum_copies: 0.0,
            sum_goodput: 0.0,
        });
    }

    fn judge(&mut self, now_ms: i64, load: Load) {
        let (Some(mut trial), Some(limit)) = (self.trial, self.limit) else {
            return;
        };
        let is_reached = if trial.is_up {
            load.copies >= trial.copies + 0.5 * (limit - trial.from).min(limit - trial.copies)
        } else {
            load.copies <= limit * 1.03 + 0.5
        };
        if !is_reached {
            let age_ms = now_ms - trial.at_ms;
            if trial.is_up && age_ms > limits::TRIAL_INTERVAL_MS {
                // Another limit is lower: with this one above it, trials of that one take effect.
                self.trial = None;
                self.forget_measurements();
            } else if age_ms > limits::TRIAL_MAX_MS {
                self.call_off(now_ms);
            }
            return;
        }
        trial.samples += 1;
        let gain = gain(trial.copies, trial.goodput, load.copies, load.goodput);
        if trial.is_up && gain >= 0.8 {
            self.trial = Some(trial);
            self.keep(now_ms, load);
            return;
        }
        if trial.samples > 1 {
            trial.sum_copies += load.copies;
            trial.sum_goodput += load.goodput;
        }
        self.trial = Some(trial);
        if trial.samples >= 3 {
            let count = f64::from(trial.samples - 1);
            let mean = Load {
                copies: trial.sum_copies / count,
                goodput: trial.sum_goodput / count,
                ..load
            };
            self.conclude(now_ms, trial, mean);
        }
    }

    fn conclude(&mut self, now_ms: i64, trial: Trial, mean: Load) {
        let gain = gain(trial.copies, trial.goodput, mean.copies, mean.goodput);
        let is_kept = if trial.is_up {
            gain >= GAIN_KEEP
        } else {
            gain <= LOSS_KEEP && mean.goodput >= LOSS_TOTAL * trial.series_goodput
        };
        if is_kept {
            self.keep(now_ms, mean);
            return;
        }
        self.limit = Some(trial.from);
        self.trial = None;
        self.forget_measurements();
        self.interval_ms = (self.interval_ms * 3 / 2).min(limits::TRIAL_INTERVAL_MAX_MS);
        self.next_trial_ms = now_ms + self.interval_ms;
        let goodput = percent((mean.goodput / trial.goodput.max(1.0) - 1.0).abs());
        self.why = if trial.is_up {
            format!("the trial with more copies moved only {goodput} more bytes")
        } else {
            format!("the trial with fewer copies moved {goodput} fewer bytes")
        };
    }

    /// A trial was right: goes on in the same direction at once, upwards faster.
    fn keep(&mut self, now_ms: i64, load: Load) {
        let Some(trial) = self.trial.take() else { return };
        self.forget_measurements();
        self.interval_ms = limits::TRIAL_INTERVAL_MS;
        self.gained = trial.is_up.then_some(load.goodput - trial.goodput);
        let factor = if trial.is_up {
            (trial.factor * 1.12).min(1.5)
        } else {
            trial.factor
        };
        self.try_step(now_ms, load, trial.is_up, factor, trial.series_goodput);
        if let Some(next) = self.trial {
            let change = percent((next.copies / trial.copies - 1.0).abs());
            let (word, result) = if trial.is_up {
                ("more", "moved more bytes")
            } else {
                ("fewer", "moved as many bytes")
            };
            self.why = format!("{change} {word} copies {result}: trying further");
        }
    }
}

/// Goodput gained relative to copies gained: 1 where each copy brings as much as those before.
pub(super) fn gain(copies: f64, goodput: f64, new_copies: f64, new_goodput: f64) -> f64 {
    let more_copies = new_copies / copies.max(0.1) - 1.0;
    let more_goodput = new_goodput / goodput.max(1.0) - 1.0;
    if more_copies.abs() < 0.01 {
        return 0.0;
    }
    more_goodput / more_copies
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
