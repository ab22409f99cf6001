//! What this process takes of the machine, from `/proc`.

use std::time::Duration;

/// Kernel clock ticks in a second in `/proc`; Linux fixes them for all its interfaces to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory, processor time, descriptors and threads of this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Resident memory.
    pub(crate) resident_bytes: u64,
    /// Virtual memory.
    pub(crate) virtual_bytes: u64,
    /// User and system time.
    pub(crate) cpu_s: f64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
    /// Most of them; `None` without a limit.
    pub(crate) descriptors_max: Option<u64>,
    /// Threads.
    pub(crate) threads: u64,
    /// When it started, in seconds since 1970.
    pub(crate) start_s: Option<f64>,
}

/// Processor time of this process since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Of its own code.
    pub user: Duration,
    /// Of the system for it.
    pub system: Duration,
}

/// The processor time until now, in steps of 10 ms; `None` where there is no `/proc`.
#[must_use]
pub fn processor_time() -> Option<ProcessorTime> {
    processor_time_of(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Reads them all; zeros where there is no `/proc`.
pub(crate) fn usage() -> Usage {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let (stat, status) = (read("/proc/self/stat"), read("/proc/self/status"));
    Usage {
        resident_bytes: memory_bytes(&status, "VmRSS:").unwrap_or(0),
        virtual_bytes: memory_bytes(&status, "VmSize:").unwrap_or(0),
        cpu_s: processor_time_of(&stat).map_or(0.0, |time| (time.user + time.system).as_secs_f64()),
        // One of them is the directory's own.
        descriptors: entries("/proc/self/fd").saturating_sub(1),
        descriptors_max: descriptors_max(&read("/proc/self/limits")),
        threads: entries("/proc/self/task"),
        start_s: start_s(&stat, &read("/proc/stat")),
    }
}

fn entries(directory: &str) -> u64 {
    std::fs::read_dir(directory).map_or(0, |entries| entries.count() as u64)
}

fn memory_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The soft limit, which comes first.
fn descriptors_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The fields of proc(5)'s `stat` from the third on. The name in field 2 may hold blanks.
fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

/// Fields 14 and 15.
fn processor_time_of(stat: &str) -> Option<ProcessorTime> {
    let mut fields = fields(stat)?.skip(11);
    let mut next = || {
        let ticks = fields.next()?.parse::<f64>().ok()?;
        Duration::try_from_secs_f64(ticks / TICKS_PER_SECOND).ok()
    };
    let (user, system) = (next()?, next()?);
    Some(ProcessorTime { user, system })
}

/// Field 22, which counts from the start of the machine.
fn start_s(stat: &str, machine: &str) -> Option<f64> {
    let ticks = fields(stat)?.nth(19)?.parse::<f64>().ok()?;
    let boot = machine.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + ticks / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_whatever_the_program_is_called() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 1050 1 1";
        let time = ProcessorTime {
            user: Duration::from_millis(2500),
            system: Duration::from_millis(500),
        };
        assert_eq!(processor_time_of(stat), Some(time));
        assert_eq!(start_s(stat, "cpu 1\nbtime 1000\n"), Some(1010.5));
        let status = "Name:\tx\nVmSize:\t  4096 kB\nVmRSS:\t  2048 kB\n";
        assert_eq!(memory_bytes(status, "VmRSS:"), Some(2048 * 1024));
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(descriptors_max(limits), Some(1024));
        assert_eq!(
            descriptors_max("Max open files   unlimited   unlimited   files\n"),
            None
        );
        let now = usage();
        assert!(now.resident_bytes > 0 && now.threads > 0 && now.virtual_bytes >= now.resident_bytes);
        let age_s = endpoint::clock::now_s() as f64 - now.start_s.expect("a start");
        assert!((-2.0..86_400.0).contains(&age_s), "{age_s}");
    }

    #[test]
    fn open_files_are_descriptors() {
        let before = usage().descriptors;
        // Tests beside this one open and close some.
        let files: Vec<_> = (0..100).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        assert!(usage().descriptors + 50 > before + files.len() as u64);
    }
}
