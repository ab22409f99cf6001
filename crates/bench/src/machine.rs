//! The machine on which the client runs, and how busy its processors are with whom: read from
//! `/proc` (proc(5)).

use std::fs;

use rustix::param::clock_ticks_per_second;
use serde::{Deserialize, Serialize};

/// What figures were measured on, so that they can be read later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that this program may use.
    pub cores: usize,
    /// The name of the first one.
    pub processor: String,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// The release of the kernel.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = value_of(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: value_of(&processors, "model name").unwrap_or("unknown").to_owned(),
            memory_bytes: kib.unwrap_or(0) * 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
        }
    }

    /// One line.
    #[must_use]
    pub fn words(&self) -> String {
        let cores = match self.cores {
            1 => "1 processor".to_owned(),
            cores => format!("{cores} processors"),
        };
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        format!(
            "{cores} ({}), {gib:.0} GiB memory, Linux {}",
            self.processor, self.kernel
        )
    }
}

/// The value behind `key` in text of the form `key : value`.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

/// What all processors together have done since the machine was started, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorTime {
    /// For programs and the kernel.
    pub busy_s: f64,
    /// Nothing.
    pub idle_s: f64,
    /// Waited for the host of a virtual machine.
    pub stolen_s: f64,
}

impl ProcessorTime {
    /// Now; `None` where `/proc/stat` cannot be read.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal. Guests are contained in user and
    /// nice.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, waiting, irq, soft_irq, stolen] = *ticks.first_chunk()?;
        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second() as f64;
        Some(Self {
            busy_s: seconds(user + nice + system + irq + soft_irq),
            idle_s: seconds(idle + waiting),
            stolen_s: seconds(stolen),
        })
    }
}

/// Processor seconds, user and system, that a process, its living descendants and the children it
/// has waited for have used; `None` when there is no such process here. Descendants count because
/// nginx and XRootD's copies work in children.
#[must_use]
pub fn cpu_seconds(process: u32) -> Option<f64> {
    let mut ticks = ticks_of(process)?;
    for other in tree(process).into_iter().skip(1) {
        // A descendant that has just ended is counted by its parent from now on.
        ticks += ticks_of(other).unwrap_or(0);
    }
    Some(ticks as f64 / clock_ticks_per_second() as f64)
}

/// Resident memory of a process and its living descendants, in bytes; shared pages count in each.
#[must_use]
pub fn resident_bytes(process: u32) -> Option<u64> {
    let of = |process: u32| {
        let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let kib: u64 = value_of(&text, "VmRSS")?.split(' ').next()?.parse().ok()?;
        Some(kib * 1024)
    };
    let own = of(process)?;
    Some(own + tree(process).into_iter().skip(1).filter_map(of).sum::<u64>())
}

fn ticks_of(process: u32) -> Option<u64> {
    parse_ticks(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// utime + stime + cutime + cstime of a line of `/proc/PID/stat` (fields 14 to 17).
fn parse_ticks(line: &str) -> Option<u64> {
    // The second field is the command in brackets, and may itself hold blanks and brackets.
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// A process and all its living descendants.
fn tree(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while next < found.len() {
        let more = children(found[next]);
        found.extend(more);
        next += 1;
    }
    found
}

fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| ids(&list)).collect()
}

fn ids(list: &str) -> Vec<u32> {
    list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_divided_into_busy_idle_and_stolen() {
        let tick = 1.0 / clock_ticks_per_second() as f64;
        let text = "cpu  10 1 20 300 40 2 3 50 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let time = ProcessorTime::parse(text).unwrap();
        let close = |seconds: f64, ticks: f64| (seconds - ticks * tick).abs() < 1e-9;
        assert!(close(time.busy_s, 36.0) && close(time.idle_s, 340.0) && close(time.stolen_s, 50.0));
        assert_eq!(ProcessorTime::parse("intr 1 2\n"), None);
    }

    #[test]
    fn ticks_are_found_behind_a_hostile_command_name() {
        let line = "42 (a b) R) S 1 42 42 0 -1 4194560 10 0 0 0 7 5 3 2 20 0 1 0 100 0 0";
        assert_eq!(parse_ticks(line), Some(17));
        assert_eq!(parse_ticks("42 (short) S 1"), None);
    }

    #[test]
    fn this_process_can_be_read_and_a_missing_one_not() {
        let own = std::process::id();
        assert!(tree(own).contains(&own));
        assert!(cpu_seconds(own).is_some_and(|seconds| seconds >= 0.0));
        assert!(resident_bytes(own).is_some_and(|bytes| bytes > 1 << 16));
        assert_eq!(cpu_seconds(u32::MAX), None);
        assert!(Machine::here().cores > 0);
    }
}
