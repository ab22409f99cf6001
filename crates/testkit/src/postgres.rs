//! A PostgreSQL server of its own for a test.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Error, Process, Result, Scratch, free_port, is_superuser};

/// Debian's packages put each release below this directory.
const RELEASES: &str = "/usr/lib/postgresql";
/// The server refuses to run as the superuser; it then runs as this user, `nobody`.
const NOBODY: u32 = 65_534;
const START_TIME_MAX: Duration = Duration::from_secs(30);
const START_ATTEMPTS: u32 = 3;

/// A server with one superuser, `pg`, who needs no password. It does not wait for disks. Dropping
/// it ends it.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Process>,
    programs: PathBuf,
    scratch: Scratch,
    port: u16,
}

impl Postgres {
    /// Starts a server.
    ///
    /// # Errors
    /// [`Error::Missing`] when PostgreSQL is not installed.
    pub fn start() -> Result<Self> {
        let programs = programs()?;
        let scratch = Scratch::new("postgres")?;
        let data = scratch.join("data");
        fs::create_dir(&data)?;
        if is_superuser() {
            for path in [scratch.path(), &data] {
                chown(path, Some(NOBODY), Some(NOBODY))?;
            }
        }
        let mut initdb = as_user(&programs.join("initdb"));
        initdb.args(["-A", "trust", "-U", "pg", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
        let output = initdb.arg(&data).current_dir(scratch.path()).output()?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::Failed(format!("initdb: {words}")));
        }
        let mut server = Self {
            process: None,
            programs,
            scratch,
            port: 0,
        };
        let mut attempt = 1;
        loop {
            server.port = free_port()?;
            match server.resume() {
                Err(_) if attempt < START_ATTEMPTS => attempt += 1,
                outcome => return outcome.map(|()| server),
            }
        }
    }

    /// Lines for `[queue]` of queues that share a database: its URL, and the one key that all of
    /// them have.
    #[must_use]
    pub fn queue_lines(&self, url: &str) -> String {
        format!("database = {url:?}\nkey_file = {:?}", self.scratch.join("queue.key"))
    }

    /// Starts the server again after [`Postgres::stop`], at the same port.
    ///
    /// # Errors
    /// [`Error::Failed`] when it does not serve.
    pub fn resume(&mut self) -> Result<()> {
        let mut command = as_user(&self.programs.join("postgres"));
        command.arg("-D").arg(self.scratch.join("data"));
        command
            .arg("-p")
            .arg(self.port.to_string())
            .arg("-k")
            .arg(self.scratch.path());
        for setting in ["listen_addresses=127.0.0.1", "fsync=off", "full_page_writes=off"] {
            command.args(["-c", setting]);
        }
        command.current_dir(self.scratch.path());
        let mut process = Process::spawn("postgres", &mut command, &self.scratch.join("log"))?;
        process.wait_for("ready", START_TIME_MAX, |process| {
            let words = "database system is ready to accept connections";
            process.stderr().contains(words).then_some(())
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends the server; its data stays.
    pub fn stop(&mut self) {
        self.process.take();
    }

    /// Makes a database, and returns its URL.
    ///
    /// # Errors
    /// [`Error::Failed`] when there is one of this name.
    pub fn database(&self, name: &str) -> Result<String> {
        let url = |name: &str| format!("postgres://pg@{}/{name}?sslmode=disable", self.address());
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-q", "-c", &format!("CREATE DATABASE {name}"), &url("postgres")]);
        let output = psql.current_dir("/").output()?;
        match output.status.success() {
            true => Ok(url(name)),
            false => Err(Error::Failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }

    /// Where it serves.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

/// Where the programs of the latest installed release are.
fn programs() -> Result<PathBuf> {
    let releases = fs::read_dir(RELEASES).into_iter().flatten().flatten();
    let directories = releases.map(|release| release.path().join("bin"));
    let installed = directories.filter(|directory| directory.join("initdb").exists());
    let missing = || Error::Missing("PostgreSQL is not installed".to_owned());
    installed.max().ok_or_else(missing)
}

fn as_user(program: &Path) -> Command {
    if !is_superuser() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    command.args(user).arg("--clear-groups").arg(program);
    command
}
