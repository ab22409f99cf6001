//! Load of this machine, from `/proc` (proc(5)). A file that cannot be read counts as no load.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{LOAD_TIME_MS, MEAN_TIME_MS};

/// How busy the machine is; shares are from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Busy share of the processors, a mean over some seconds.
    pub processors: f64,
    /// Tasks that wait for a processor, as a share of the processors.
    pub runnable: f64,
    /// Share of the memory in use.
    pub memory: f64,
    /// Share of the last ten seconds in which some task waited for memory.
    pub paging: f64,
    /// Share of the last ten seconds in which some task waited for a disk.
    pub disk_pressure: f64,
}

/// The machine. One task looks at it from time to time; others get what that saw last.
#[derive(Debug, Default)]
pub struct Machine {
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ticks: Ticks,
    at: Option<Instant>,
    load: Load,
}

/// Time of all processors since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

impl Machine {
    /// What was seen last.
    #[must_use]
    pub fn load(&self) -> Load {
        self.lock().load
    }

    /// Looks at the machine; it reads five small files. The load of processors is that since the
    /// last look, which was [`LOAD_TIME_MS`] ago at least.
    pub fn look(&self) {
        let now = Instant::now();
        let since = self.lock().at.map(|at| now.duration_since(at));
        if since.is_some_and(|since| since < Duration::from_millis(LOAD_TIME_MS)) {
            return;
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let ticks = ticks(&read("/proc/stat"));
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let rest = Load {
            processors: 0.0,
            runnable: waiting(&read("/proc/loadavg"), count as u64),
            memory: memory(&read("/proc/meminfo")),
            paging: pressure(&read("/proc/pressure/memory")),
            disk_pressure: pressure(&read("/proc/pressure/io")),
        };
        let mut seen = self.lock();
        let before = seen.ticks;
        let busy = share(
            ticks.busy.saturating_sub(before.busy),
            ticks.all.saturating_sub(before.all),
        );
        let processors = since.map_or(busy, |since| mean(seen.load.processors, busy, since));
        *seen = Seen {
            ticks,
            at: Some(now),
            load: Load { processors, ..rest },
        };
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The exponential mean of a quantity that was `before` and had this value for the last `time`;
/// what is older than [`MEAN_TIME_MS`] counts for about a third.
#[must_use]
pub fn mean(before: f64, value: f64, time: Duration) -> f64 {
    let weight = 1.0 - (-time.as_secs_f64() * 1000.0 / MEAN_TIME_MS as f64).exp();
    before + (value - before) * weight
}

fn share(part: u64, whole: u64) -> f64 {
    (part as f64 / whole.max(1) as f64).min(1.0)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(text: &str) -> Ticks {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let values = line.unwrap_or_default().split_ascii_whitespace().take(8);
    let values: Vec<u64> = values.map_while(|word| word.parse().ok()).collect();
    let sum = |values: &[u64]| values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
    let all = sum(&values);
    let idle = sum(values.get(3..values.len().min(5)).unwrap_or_default());
    Ticks { busy: all - idle, all }
}

/// The part `R/ALL` of `/proc/loadavg`: tasks that could run, beyond those that do.
fn waiting(text: &str, processors: u64) -> f64 {
    let runnable = text
        .split_ascii_whitespace()
        .nth(3)
        .and_then(|word| word.split('/').next());
    let runnable: u64 = runnable.and_then(|word| word.parse().ok()).unwrap_or(0);
    share(runnable.saturating_sub(processors), processors)
}

fn memory(text: &str) -> f64 {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    match (value("MemTotal:"), value("MemAvailable:")) {
        (Some(total), Some(available)) => share(total.saturating_sub(available), total),
        _ => 0.0,
    }
}

/// `some avg10=1.23 …`: percent of the last ten seconds in which a task waited.
fn pressure(text: &str) -> f64 {
    let value = text
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("avg10="));
    let percent: Option<f64> = value.and_then(|value| value.parse().ok());
    percent
        .filter(|percent| percent.is_finite())
        .map_or(0.0, |percent| (percent / 100.0).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        let stat = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n";
        assert_eq!(ticks(stat), Ticks { busy: 150, all: 1000 });
        assert_eq!(waiting("0.20 0.18 0.12 5/80 11206", 2), 1.0);
        assert_eq!(waiting("0.20 0.18 0.12 3/80 11206", 2), 0.5);
        assert_eq!(waiting("0.20 0.18 0.12 1/80 11206", 2), 0.0);
        assert_eq!(
            memory("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"),
            0.75
        );
        let pressed = "some avg10=12.50 avg60=0.00 avg300=0.00 total=5\nfull avg10=1.00 avg60=0\n";
        assert_eq!(pressure(pressed), 0.125);
    }

    #[test]
    fn what_cannot_be_read_is_no_load() {
        assert_eq!(ticks("cpu x"), Ticks::default());
        assert_eq!(ticks("cpu 1 2"), Ticks { busy: 3, all: 3 });
        assert_eq!((waiting("", 2), memory("MemTotal: x"), pressure("")), (0.0, 0.0, 0.0));
        assert_eq!(pressure("some avg10=NaN"), 0.0);
        assert_eq!(share(u64::MAX, 1), 1.0);
    }

    #[test]
    fn a_look_tells_the_load_and_a_second_one_at_once_changes_nothing() {
        let machine = Machine::default();
        assert_eq!(machine.load(), Load::default());
        machine.look();
        let seen = machine.load();
        assert!(seen.memory > 0.0 && (0.0..=1.0).contains(&seen.processors), "{seen:?}");
        machine.look();
        assert_eq!(machine.load(), seen);
    }

    #[test]
    fn the_mean_follows_a_change_within_seconds() {
        let step = Duration::from_secs(1);
        let mut rate = 0.0;
        for _ in 0..5 {
            rate = mean(rate, 100.0, step);
        }
        assert!((60.0..66.0).contains(&rate), "{rate}");
        assert!(mean(rate, 100.0, Duration::from_secs(3600)) > 99.9);
        assert_eq!(mean(rate, 0.0, Duration::ZERO), rate);
    }
}
