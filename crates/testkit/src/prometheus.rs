//! Launcher for Debian's Prometheus, on loopback.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::{Process, Result, require};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const PROGRAM: &str = "prometheus";

/// A running Prometheus that asks its targets each second.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    port: u16,
}

impl Prometheus {
    /// Starts one with its files in `directory`. A target is a job and its `host:port`.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when it is not installed.
    pub fn start(directory: &Path, rules: &Path, targets: &[(&str, String)]) -> Result<Self> {
        let program = require(PROGRAM)?;
        fs::create_dir_all(directory)?;
        let file = directory.join("prometheus.yml");
        fs::write(&file, configuration(rules, targets))?;
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0");
        let mut process = Process::spawn(PROGRAM, &mut command, directory)?;
        let port = process.wait_for("ready", START_TIMEOUT, |process| port(&process.stderr()))?;
        Ok(Self { process, port })
    }

    /// The URL of a path of its API, without the server: `/api/v1/query`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    /// The process. Its log is [`Process::stderr`].
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The port in the log, once it answers.
fn port(log: &str) -> Option<u16> {
    log.contains("Server is ready").then_some(())?;
    let line = log.lines().find(|line| line.contains("msg=\"Listening on\""))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

fn configuration(rules: &Path, targets: &[(&str, String)]) -> String {
    let mut text = format!(
        "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: [{:?}]\nscrape_configs:\n",
        rules.display().to_string()
    );
    for (job, target) in targets {
        // Writing into a text cannot fail.
        let _ = writeln!(
            text,
            "- job_name: {job:?}\n  static_configs: [{{targets: [{target:?}]}}]"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_once_it_is_ready() {
        let line = "ts=2026 component=web msg=\"Listening on\" address=127.0.0.1:45901\n";
        assert_eq!(port(line), None);
        let ready = "ts=2026 msg=\"Server is ready to receive web requests.\"\n";
        assert_eq!(port(&format!("{line}{ready}")), Some(45_901));
    }
}
