//! This program, started again: as a server that is measured, and as the client that orders copies.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::authority::{CERTIFICATE, KEY};
use crate::failure::Failure;

/// How long a server may take to come up or to stop.
const PATIENCE: Duration = Duration::from_secs(15);

/// A running server of the demo. It is stopped when this is dropped.
pub(super) struct Endpoint {
    child: Child,
    /// Where its files are reached.
    pub(super) url: String,
    /// Where its files are.
    pub(super) data: PathBuf,
}

impl Endpoint {
    /// Starts one on a free port, with TLS and open to everybody on this machine.
    pub(super) async fn start(name: &str, directory: &Path, authority: &Path) -> Result<Self, Failure> {
        let system = |cause: std::io::Error| Failure::system(format!("endpoint {name}"), &cause);
        let own = directory.join(name);
        let data = own.join("data");
        fs::create_dir_all(data.join("in")).map_err(system)?;
        let file = own.join("crossload.toml");
        fs::write(&file, configuration(directory, &data, authority, &own)).map_err(system)?;
        let mut child = Command::new(own_program()?)
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            // Ctrl-C is for the demo, which then stops its servers in good order.
            .process_group(0)
            .spawn()
            .map_err(system)?;
        let stdout = child.stdout.take();
        let port = tokio::time::timeout(PATIENCE, read_port(stdout)).await.ok().flatten();
        let port = port.ok_or_else(|| {
            let log = fs::read_to_string(own.join("log")).unwrap_or_default();
            Failure::invalid(format!("endpoint {name} did not come up\n{log}"))
        })?;
        Ok(Self {
            child,
            url: format!("https://localhost:{port}/data"),
            data,
        })
    }

    /// Processor time so far, user and system, in seconds.
    pub(super) fn cpu_s(&self) -> f64 {
        let stat = self
            .child
            .id()
            .and_then(|id| fs::read_to_string(format!("/proc/{id}/stat")).ok());
        stat.and_then(|stat| cpu_of(&stat)).unwrap_or(0.0)
    }

    /// Stops it in good order.
    pub(super) async fn stop(mut self) {
        if let Some(id) = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
        {
            let _ = kill_process(id, Signal::TERM);
        }
        // What does not stop by itself is killed when it is dropped.
        let _ = tokio::time::timeout(PATIENCE, self.child.wait()).await;
    }
}

/// Runs this program as a client; its output is the demo's.
pub(super) async fn client(arguments: &[&OsStr]) -> Result<(), Failure> {
    let started = Command::new(own_program()?)
        .args(arguments)
        .kill_on_drop(true)
        .status()
        .await;
    let ended = started.map_err(|cause| Failure::system("the client cannot be started", &cause))?;
    if ended.success() {
        return Ok(());
    }
    let exit_code = ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure {
        words: "the copy failed".to_owned(),
        advice: None,
        exit_code,
    })
}

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|cause| Failure::system("this program cannot be found", &cause))
}

fn configuration(directory: &Path, data: &Path, authority: &Path, own: &Path) -> String {
    let quoted = |path: &Path| toml::Value::String(path.to_string_lossy().into_owned()).to_string();
    format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\ncertificate = {}\nkey = {}\ngrace_time = \"2s\"\n\
         [[export]]\npath = \"/data\"\ndirectory = {}\nanonymous = \"write\"\n\
         [macaroons]\nsecret_file = {}\n\
         [tpc]\nallow_local_peers = true\n[trust]\nca_files = [{}]\nsystem = false\n[log]\nfile = {}\n",
        quoted(&directory.join(CERTIFICATE)),
        quoted(&directory.join(KEY)),
        quoted(data),
        // One secret for both: a token of one opens the other too, as gfal's programs need it.
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

/// Fields 14 and 15 of proc(5)'s `stat`, in clock ticks of which Linux has 100 in a second.
fn cpu_of(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some((user + system) / 100.0)
}
