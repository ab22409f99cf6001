//! Launcher for the transfer queue of the Crossload binary under test.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Clock, Crossload, HostCertificate, Process, Result};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How to start it.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// A short name for its files.
    pub name: String,
    /// Where its configuration, state and logs go; made if need be.
    pub directory: PathBuf,
    /// The port of its API; 0 takes a free one.
    pub port: u16,
    /// Certificate and key; without, it speaks clear text only.
    pub certificate: Option<HostCertificate>,
    /// Authorities of the storages. The system's are not trusted.
    pub ca_file: PathBuf,
    /// Authorities of clients.
    pub trust_directory: PathBuf,
    /// The VOMS servers that speak for virtual organisations; without, clients are of none.
    pub voms_directory: Option<PathBuf>,
    /// Further lines of `[queue]`.
    pub queue: String,
    /// Further sections of TOML, put at the end.
    pub more: String,
}

/// A running queue.
#[derive(Debug)]
pub struct Queue {
    options: QueueOptions,
    /// What is started.
    program: PathBuf,
    process: Process,
    port: u16,
    messages_port: Option<u16>,
    admin_port: u16,
}

impl Queue {
    /// Writes the configuration, starts it and waits until it says that it is ready.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] without a binary; [`crate::Error::Failed`] with its log when it
    /// does not come up.
    pub fn start(options: QueueOptions) -> Result<Self> {
        Self::start_program(options, Crossload::binary()?)
    }

    /// Starts it with a clock of its own.
    ///
    /// # Errors
    /// As [`Queue::start`].
    pub fn start_with(options: QueueOptions, clock: &Clock) -> Result<Self> {
        let program = clock.wrap(&Crossload::binary()?)?;
        Self::start_program(options, program)
    }

    fn start_program(options: QueueOptions, program: PathBuf) -> Result<Self> {
        let (process, ports) = launch(&program, &options, options.port)?;
        Ok(Self {
            options,
            program,
            process,
            port: ports.api,
            messages_port: ports.messages,
            admin_port: ports.admin,
        })
    }

    /// Starts it again on the same port with the same state, after [`Process::kill_hard`] or
    /// [`Process::terminate`].
    ///
    /// # Errors
    /// As [`Queue::start`].
    pub fn start_again(&mut self) -> Result<()> {
        self.process.terminate()?;
        self.process.demand_no_secrets();
        let (process, ports) = launch(&self.program, &self.options, self.port)?;
        self.process = process;
        self.messages_port = ports.messages;
        self.admin_port = ports.admin;
        Ok(())
    }

    /// The URL of its API, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.options.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://localhost:{}", self.port)
    }

    /// The port of its API.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of `path` on the admin listener.
    #[must_use]
    pub fn admin_url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.admin_port)
    }

    /// The port for subscribers to messages.
    #[must_use]
    pub fn messages_port(&self) -> Option<u16> {
        self.messages_port
    }

    /// Its state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.options.directory.join("state")
    }

    /// The process. Its log is [`Process::stderr`].
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.stderr()
    }
}

struct Ports {
    api: u16,
    messages: Option<u16>,
    admin: u16,
}

fn launch(program: &Path, options: &QueueOptions, port: u16) -> Result<(Process, Ports)> {
    fs::create_dir_all(&options.directory)?;
    let file = options.directory.join("queue.toml");
    fs::write(&file, configuration(options, port))?;
    let mut command = Command::new(program);
    command
        .args(["queue", "serve", "--config"])
        .arg(&file)
        .current_dir(&options.directory);
    let mut process = Process::spawn(&options.name, &mut command, &options.directory)?;
    let ports = process.wait_for("ready", START_TIMEOUT, |process| ports(&process.stdout()))?;
    Ok((process, ports))
}

/// Reads the lines that it prints when it starts; `None` until it is ready.
fn ports(stdout: &str) -> Option<Ports> {
    let (lines, _) = stdout.split_once("ready\n")?;
    let after = |prefix: &str| -> Option<u16> {
        let place = lines.lines().find_map(|line| line.strip_prefix(prefix))?;
        place.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()
    };
    Some(Ports {
        api: after("listening on ")?,
        messages: after("messages on "),
        admin: after("admin on ")?,
    })
}

fn configuration(options: &QueueOptions, port: u16) -> String {
    let mut text = String::from("[server]\nadmin_listen = \"127.0.0.1:0\"\n");
    if !crate::is_superuser() {
        text.push_str("core_dumps = true\n");
    }
    if let Some(host) = &options.certificate {
        let _ = writeln!(text, "certificate = {}", quoted(&host.certificate));
        let _ = writeln!(text, "key = {}", quoted(&host.key));
    }
    let state = quoted(&options.directory.join("state"));
    let voms = options.voms_directory.iter();
    let voms = voms.map(|directory| format!("voms_directory = {}\n", quoted(directory)));
    let _ = write!(
        text,
        "[queue]\nlisten = [\"127.0.0.1:{port}\"]\nstate_directory = {state}\n{}\n[x509]\ntrust_directory = {}\n{}\
         [tpc]\nallow_local_peers = true\n[trust]\nca_files = [{}]\nsystem = false\n{}",
        options.queue,
        quoted(&options.trust_directory),
        voms.collect::<String>(),
        quoted(&options.ca_file),
        options.more
    );
    text
}

/// A path as a TOML string. Test paths are plain text, in which Rust's and TOML's escapes agree.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_lines_are_read_once_ready() {
        let lines =
            "listening on https://127.0.0.1:40001\nmessages on 127.0.0.1:40002\nadmin on http://127.0.0.1:40003\n";
        assert!(ports(lines).is_none());
        let read = ports(&format!("{lines}ready\n")).unwrap();
        assert_eq!((read.api, read.messages, read.admin), (40_001, Some(40_002), 40_003));
    }
}
