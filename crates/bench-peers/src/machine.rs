//! What was measured on and with, so that a table can be read later.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use testkit::Result;

use crate::congestion;
use crate::server::Kind;

/// Facts about the machine and the peers.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    memory_gib: u64,
    kernel: String,
    congestion_control: String,
    /// What each is called, and the version that it tells.
    programs: Vec<(&'static str, String)>,
}

impl Machine {
    /// Of the machine, these servers, and the clients.
    pub(crate) fn inspect(servers: &[Kind]) -> Self {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib: u64 = value_of(&memory, "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse().ok())
            .unwrap_or(0);
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: value_of(&processors, "model name").unwrap_or("unknown").to_owned(),
            memory_gib: memory_kib >> 20,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            congestion_control: congestion::current(),
            programs: programs(servers),
        }
    }

    /// One paragraph.
    pub(crate) fn text(&self) -> String {
        let programs: Vec<String> = self
            .programs
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        format!(
            "{} cores of {}, {} GiB memory, Linux {}, TCP with {}; {}.",
            self.cores,
            self.processor,
            self.memory_gib,
            self.kernel,
            self.congestion_control,
            programs.join(", ")
        )
    }

    pub(crate) fn json(&self) -> Value {
        let programs = self.programs.iter().map(|(name, version)| json!([name, version]));
        json!({
            "cores": self.cores,
            "processor": self.processor,
            "memory_gib": self.memory_gib,
            "kernel": self.kernel,
            "congestion_control": self.congestion_control,
            "programs": programs.collect::<Vec<_>>(),
        })
    }
}

/// The value behind `key` in text of the form `key : value`.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

fn programs(servers: &[Kind]) -> Vec<(&'static str, String)> {
    let peers = servers.iter().filter_map(|kind| match kind {
        Kind::Xrootd(release) => Some(("XRootD", version(release.require("xrootd"), "-v"))),
        Kind::Nginx => Some(("nginx", version(testkit::require("nginx"), "-v"))),
        Kind::Crossload | Kind::Client(_) | Kind::Floor => None,
    });
    let clients = [("curl", "--version"), ("wrk", "-v")];
    let clients = clients.map(|(name, option)| (name, version(testkit::require(name), option)));
    peers.chain(clients).collect()
}

fn version(program: Result<PathBuf>, option: &str) -> String {
    let output = program
        .ok()
        .and_then(|path| Command::new(path).arg(option).output().ok());
    output
        .and_then(|output| {
            let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            first_version(&text)
        })
        .unwrap_or_else(|| "(version unknown)".to_owned())
}

/// The first thing that looks like a version number.
fn first_version(text: &str) -> Option<String> {
    text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
        .map(|word| word.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(
            first_version("nginx version: nginx/1.22.1\n").as_deref(),
            Some("1.22.1")
        );
        assert_eq!(first_version("v5.5.3\n").as_deref(), Some("5.5.3"));
        assert_eq!(first_version("wrk debian/4.1.0-3+b2 [epoll]").as_deref(), Some("4.1.0"));
        assert_eq!(first_version("none"), None);
    }

    #[test]
    fn keys_of_proc_files_are_read() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.50GHz\n";
        assert_eq!(value_of(text, "model name"), Some("Some CPU @ 2.50GHz"));
        assert_eq!(value_of(text, "cores"), None);
    }
}
