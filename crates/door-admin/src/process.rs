//! What this process takes of the machine, from `/proc`.

/// Kernel clock ticks in a second in `/proc`; Linux fixes them for all its interfaces to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory, processor time, descriptors and threads of this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Resident memory.
    pub(crate) resident_bytes: u64,
    /// User and system time.
    pub(crate) cpu_s: f64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
    /// Threads.
    pub(crate) threads: u64,
}

/// Reads them all; zeros where there is no `/proc`.
pub(crate) fn usage() -> Usage {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Usage {
        resident_bytes: resident_bytes(&status).unwrap_or(0),
        cpu_s: cpu_s(&stat).unwrap_or(0.0),
        // One of them is the directory's own.
        descriptors: entries("/proc/self/fd").saturating_sub(1),
        threads: entries("/proc/self/task"),
    }
}

fn entries(directory: &str) -> u64 {
    std::fs::read_dir(directory).map_or(0, |entries| entries.count() as u64)
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Fields 14 and 15 of proc(5)'s `stat`; the name in field 2 may hold blanks, so counting starts
/// behind it.
fn cpu_s(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_whatever_the_program_is_called() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 100 1 1";
        assert_eq!(cpu_s(stat), Some(3.0));
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t  2048 kB\n"), Some(2048 * 1024));
        let before = usage();
        assert!(before.resident_bytes > 0 && before.threads > 0);
    }

    #[test]
    fn open_files_are_descriptors() {
        let before = usage().descriptors;
        // Tests beside this one open and close some.
        let files: Vec<_> = (0..100).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        assert!(usage().descriptors + 50 > before + files.len() as u64);
    }
}
