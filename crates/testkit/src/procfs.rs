//! Reading `/proc`: processor time and memory of a process and all its descendants, because nginx
//! does its work in children.

use std::fs;
use std::ops::Range;

use crate::{Error, Result};

/// Memory of a process tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now (`VmRSS`), in bytes. Pages shared between processes count in each.
    pub resident_bytes: u64,
    /// What of it is no page of a file (`RssAnon`), in bytes: the memory that the process has asked
    /// for. Pages of its program come and go as the system likes.
    pub anonymous_bytes: u64,
    /// The sum of each process's highest resident size so far (`VmHWM`), in bytes.
    pub peak_bytes: u64,
}

/// A thread of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its name, cut by the system after 15 bytes.
    pub name: String,
    /// Processor time, user and system, in the system's ticks.
    pub ticks: u64,
    /// How nice it is, from -20 to 19.
    pub niceness: i32,
}

/// `id` and the ids of all its living descendants.
pub(crate) fn tree(id: u32) -> Vec<u32> {
    let mut found = vec![id];
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

fn children(id: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// Processor seconds, user and system, that `id`, its descendants and the children it has waited
/// for have used.
pub(crate) fn cpu_seconds(id: u32) -> Result<f64> {
    let own = read(id, "stat")?;
    let mut ticks = stat_ticks(&own).ok_or_else(|| Error::Failed(format!("cannot read /proc/{id}/stat")))?;
    for other in tree(id).into_iter().skip(1) {
        // A descendant that has just ended is counted by its parent from now on.
        ticks += read(other, "stat").ok().and_then(|text| stat_ticks(&text)).unwrap_or(0);
    }
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Memory of the process `id` and its descendants.
///
/// # Errors
/// [`Error::Failed`] when it has ended.
pub fn memory_of(id: u32) -> Result<Memory> {
    let mut sum = status_memory(&read(id, "status")?);
    for other in tree(id).into_iter().skip(1) {
        let more = read(other, "status")
            .map(|text| status_memory(&text))
            .unwrap_or_default();
        sum.resident_bytes += more.resident_bytes;
        sum.anonymous_bytes += more.anonymous_bytes;
        sum.peak_bytes += more.peak_bytes;
    }
    Ok(sum)
}

fn read(id: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{id}/{file}");
    fs::read_to_string(&path).map_err(|e| Error::during(path, e))
}

/// The threads of `id`, but for those that end meanwhile.
pub(crate) fn threads(id: u32) -> Result<Vec<Thread>> {
    let path = format!("/proc/{id}/task");
    let tasks = fs::read_dir(&path).map_err(|e| Error::during(path, e))?;
    let thread = |task: fs::DirEntry| stat_thread(&fs::read_to_string(task.path().join("stat")).ok()?);
    Ok(tasks.flatten().filter_map(thread).collect())
}

/// Processor seconds, user and system, of the children of this process that have ended and been
/// waited for.
///
/// # Errors
/// [`Error::Failed`] when the system does not say.
pub fn ended_children_cpu_seconds() -> Result<f64> {
    let path = "/proc/self/stat";
    let line = fs::read_to_string(path).map_err(|e| Error::during(path, e))?;
    // cutime + cstime: fields 16 and 17.
    let ticks = stat_fields(&line).and_then(|(_, fields)| ticks(&fields, 13..15));
    let ticks = ticks.ok_or_else(|| Error::Failed(format!("{path} has no processor times")))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The name in a line of `/proc/PID/stat`, and the fields from the third on (proc(5)).
fn stat_fields(line: &str) -> Option<(&str, Vec<&str>)> {
    // The second field is the command in brackets, and may itself hold blanks and brackets.
    let (front, rest) = line.rsplit_once(')')?;
    Some((front.split_once('(')?.1, rest.split_whitespace().collect()))
}

/// The sum of some of these fields.
fn ticks(fields: &[&str], which: Range<usize>) -> Option<u64> {
    fields.get(which)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// utime + stime + cutime + cstime: fields 14 to 17.
fn stat_ticks(line: &str) -> Option<u64> {
    ticks(&stat_fields(line)?.1, 11..15)
}

/// comm, utime + stime, and nice: fields 2, 14, 15 and 19.
fn stat_thread(line: &str) -> Option<Thread> {
    let (name, fields) = stat_fields(line)?;
    Some(Thread {
        name: name.to_owned(),
        ticks: ticks(&fields, 11..13)?,
        niceness: fields.get(16)?.parse().ok()?,
    })
}

fn status_memory(text: &str) -> Memory {
    let kib = |key: &str| -> u64 {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    };
    Memory {
        resident_bytes: kib("VmRSS:") * 1024,
        anonymous_bytes: kib("RssAnon:") * 1024,
        peak_bytes: kib("VmHWM:") * 1024,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_hostile_command_name() {
        let line = "42 (a b) R) S 1 42 42 0 -1 4194560 10 0 0 0 7 5 3 2 20 0 1 0 100 0 0";
        assert_eq!(stat_ticks(line), Some(17));
        assert_eq!(stat_ticks("42 (short) S 1"), None);
        let thread = Thread {
            name: "a b) R".to_owned(),
            ticks: 12,
            niceness: 0,
        };
        assert_eq!(stat_thread(line), Some(thread));
    }

    #[test]
    fn memory_lines_are_read_in_bytes() {
        let text = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t     512 kB\n";
        let expected = Memory {
            resident_bytes: 1 << 20,
            anonymous_bytes: 512 << 10,
            peak_bytes: 2 << 20,
        };
        assert_eq!(status_memory(text), expected);
    }

    #[test]
    fn this_process_can_be_read() {
        let id = std::process::id();
        assert!(tree(id).contains(&id));
        assert!(cpu_seconds(id).is_ok_and(|seconds| seconds >= 0.0));
        assert!(threads(id).is_ok_and(|threads| !threads.is_empty()));
        let memory = memory_of(id).expect("own memory");
        assert!(memory.peak_bytes >= memory.resident_bytes);
        assert!(memory.resident_bytes > memory.anonymous_bytes && memory.anonymous_bytes > 0);
    }
}
