//! Starts this program again: as the servers to measure, and as the client that orders copies.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::authority::{CERTIFICATE, KEY};
use crate::failure::Failure;

/// Time limit for a server to start or stop.
const START_STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A running process of this program that serves, stopped on drop.
pub(super) struct ServerProcess {
    child: Child,
    /// Where it listens.
    pub(super) port: u16,
}

impl ServerProcess {
    /// Starts one, and waits until it is ready. `log` is shown if it does not start.
    pub(super) async fn start(name: &str, arguments: &[OsString], log: &Path) -> Result<Self, Failure> {
        let system = |cause: std::io::Error| Failure::system(name, &cause);
        let mut child = Command::new(own_program()?)
            .args(arguments)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            // Ctrl-C must reach the demo only, which then stops its servers.
            .process_group(0)
            .spawn()
            .map_err(system)?;
        let stdout = child.stdout.take();
        let port = tokio::time::timeout(START_STOP_TIMEOUT, read_port(stdout))
            .await
            .ok()
            .flatten();
        let port = port.ok_or_else(|| {
            let log = fs::read_to_string(log).unwrap_or_default();
            Failure::invalid(format!("{name} did not start\n{log}"))
        })?;
        Ok(Self { child, port })
    }

    /// Stops it gracefully.
    pub(super) async fn stop(mut self) {
        if let Some(id) = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
        {
            let _ = kill_process(id, Signal::TERM);
        }
        // A server that does not stop in time is killed on drop.
        let _ = tokio::time::timeout(START_STOP_TIMEOUT, self.child.wait()).await;
    }
}

/// A running endpoint of the demo, stopped on drop.
pub(super) struct Endpoint {
    process: ServerProcess,
    /// The URL of its files.
    pub(super) url: String,
    /// The directory of its files.
    pub(super) data: PathBuf,
}

impl Endpoint {
    /// Starts one on a free loopback port, with TLS, open to everyone.
    pub(super) async fn start(name: &str, directory: &Path, authority: &Path) -> Result<Self, Failure> {
        let name = format!("endpoint {name}");
        let system = |cause: std::io::Error| Failure::system(&name, &cause);
        let own = directory.join(name.rsplit(' ').next().unwrap_or(&name));
        let data = own.join("data");
        fs::create_dir_all(data.join("in")).map_err(system)?;
        let file = own.join("crossload.toml");
        fs::write(&file, configuration(directory, &data, authority, &own)).map_err(system)?;
        let arguments = ["serve".into(), "--config".into(), file.into_os_string()];
        let process = ServerProcess::start(&name, &arguments, &own.join("log")).await?;
        let url = format!("https://localhost:{}/data", process.port);
        Ok(Self { process, url, data })
    }

    /// Its name in a transfer queue.
    pub(super) fn storage(&self) -> String {
        format!("https://localhost:{}", self.process.port)
    }

    /// Processor time so far, user and system, in seconds.
    pub(super) fn cpu_s(&self) -> f64 {
        let stat = self
            .process
            .child
            .id()
            .and_then(|id| fs::read_to_string(format!("/proc/{id}/stat")).ok());
        stat.and_then(|stat| cpu_of(&stat)).unwrap_or(0.0)
    }

    /// Stops it gracefully.
    pub(super) async fn stop(self) {
        self.process.stop().await;
    }
}

/// Runs this program as a client, with the demo's output.
pub(super) async fn client(arguments: &[impl AsRef<OsStr>]) -> Result<(), Failure> {
    let started = Command::new(own_program()?)
        .args(arguments)
        .kill_on_drop(true)
        .status()
        .await;
    succeeded(started.map_err(|cause| Failure::system("cannot start the client", &cause))?)
}

/// As [`client`]; what it prints on standard output is returned.
pub(super) async fn client_output(arguments: &[impl AsRef<OsStr>]) -> Result<String, Failure> {
    let started = Command::new(own_program()?)
        .args(arguments)
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await;
    let ended = started.map_err(|cause| Failure::system("cannot start the client", &cause))?;
    succeeded(ended.status)?;
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

fn succeeded(ended: ExitStatus) -> Result<(), Failure> {
    if ended.success() {
        return Ok(());
    }
    let exit_code = ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure {
        words: "a command of the client failed".to_owned(),
        advice: None,
        code: None,
        exit_code,
    })
}

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|cause| Failure::system("cannot find this program", &cause))
}

/// A path as a string of TOML.
pub(super) fn quoted(path: &Path) -> String {
    toml::Value::String(path.to_string_lossy().into_owned()).to_string()
}

fn configuration(directory: &Path, data: &Path, authority: &Path, own: &Path) -> String {
    format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\ncertificate = {}\nkey = {}\ngrace_time = \"2s\"\n\
         [[export]]\npath = \"/data\"\ndirectory = {}\nanonymous = \"write\"\n\
         [macaroons]\nsecret_file = {}\n\
         [tpc]\nallow_local_peers = true\n[trust]\nca_files = [{}]\nsystem = false\n[log]\nfile = {}\n",
        quoted(&directory.join(CERTIFICATE)),
        quoted(&directory.join(KEY)),
        quoted(data),
        // Both have the same secret, since gfal's programs send the same macaroon to both.
        quoted(&directory.join("macaroon.secret")),
        quoted(authority),
        quoted(&own.join("log")),
    )
}

/// Reads the start lines until the server is ready.
async fn read_port(stdout: Option<tokio::process::ChildStdout>) -> Option<u16> {
    let mut lines = BufReader::new(stdout?).lines();
    let mut port = None;
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(url) = line.strip_prefix("listening on ") {
            port = url.rsplit(':').next()?.parse().ok();
        }
        if line == "ready" {
            return port;
        }
    }
    None
}

/// Fields 14 and 15 of `stat` in proc(5), in clock ticks; Linux has 100 per second.
fn cpu_of(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some((user + system) / 100.0)
}
