//! Load of this machine, from `/proc` (proc(5)). A file that cannot be read counts as no load.

use std::fs;
use std::sync::{Mutex, PoisonError};

use super::report::Vitals;

/// Differences are taken between two calls of [`Machine::vitals`].
#[derive(Debug, Default)]
pub struct Machine {
    last: Mutex<Ticks>,
}

/// Time of all processors since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

impl Machine {
    /// The load since the last call, without space. It reads four small files.
    #[must_use]
    pub fn vitals(&self) -> Vitals {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let now = ticks(&read("/proc/stat"));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *last, now);
        drop(last);
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        Vitals {
            processors: percent(now.busy.saturating_sub(before.busy), now.all.saturating_sub(before.all)),
            runnable: waiting(&read("/proc/loadavg"), count as u64),
            memory: memory(&read("/proc/meminfo")),
            paging: pressure(&read("/proc/pressure/memory")),
            ..Vitals::default()
        }
    }
}

fn percent(part: u64, whole: u64) -> u8 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u8::try_from(percent).unwrap_or(100).min(100)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(text: &str) -> Ticks {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let values = line.unwrap_or_default().split_ascii_whitespace().take(8);
    let values: Vec<u64> = values.map_while(|word| word.parse().ok()).collect();
    let all = values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
    let idle = values
        .iter()
        .skip(3)
        .take(2)
        .fold(0, |sum: u64, value| sum.saturating_add(*value));
    Ticks { busy: all - idle, all }
}

/// The part `R/ALL` of `/proc/loadavg`: tasks that could run, beyond those that do.
fn waiting(text: &str, processors: u64) -> u8 {
    let runnable = text
        .split_ascii_whitespace()
        .nth(3)
        .and_then(|word| word.split('/').next());
    let runnable: u64 = runnable.and_then(|word| word.parse().ok()).unwrap_or(0);
    percent(runnable.saturating_sub(processors), processors)
}

fn memory(text: &str) -> u8 {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    match (value("MemTotal:"), value("MemAvailable:")) {
        (Some(total), Some(available)) => percent(total.saturating_sub(available), total),
        _ => 0,
    }
}

/// `some avg10=1.23 …`: percent of the last ten seconds in which a task waited.
fn pressure(text: &str) -> u8 {
    let value = text
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("avg10="));
    let whole = value.and_then(|value| value.split('.').next());
    whole.and_then(|whole| whole.parse().ok()).unwrap_or(0).min(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        let stat = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n";
        assert_eq!(ticks(stat), Ticks { busy: 150, all: 1000 });
        assert_eq!(waiting("0.20 0.18 0.12 5/80 11206", 2), 100);
        assert_eq!(waiting("0.20 0.18 0.12 3/80 11206", 2), 50);
        assert_eq!(waiting("0.20 0.18 0.12 1/80 11206", 2), 0);
        assert_eq!(memory("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"), 75);
        assert_eq!(pressure("some avg10=12.99 avg60=0.00 avg300=0.00 total=5\n"), 12);
    }

    #[test]
    fn what_cannot_be_read_is_no_load() {
        assert_eq!(ticks("cpu x"), Ticks::default());
        assert_eq!((waiting("", 2), memory("MemTotal: x"), pressure("")), (0, 0, 0));
        assert_eq!(percent(u64::MAX, 1), 100);
        let machine = Machine::default();
        let vitals = machine.vitals();
        assert!(vitals.processors <= 100 && vitals.memory <= 100);
    }
}
