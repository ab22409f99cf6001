//! A child process that is ready when its guard says so, can be measured and broken, and never
//! outlives the guard.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::procfs::{self, Memory, Thread};
use crate::{Crossload, Error, Result, secrets};

/// Between two looks at a condition. Every wait has a deadline and ends as soon as its condition
/// holds.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long a process may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How much of a log goes into an error.
const LOG_TAIL_LINES: usize = 20;

/// A running child with its output in files. Dropping it ends the process and its descendants.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    /// Whether it is a program of ours, which must not tell secrets.
    is_ours: bool,
}

impl Process {
    /// Starts `command`. Its standard output and error go to `NAME.stdout` and `NAME.stderr` in
    /// `log_directory`; its standard input is empty.
    ///
    /// # Errors
    /// [`Error::Failed`] when the files or the process cannot be created.
    pub fn spawn(name: &str, command: &mut Command, log_directory: &Path) -> Result<Self> {
        fs::create_dir_all(log_directory)?;
        let stdout = log_directory.join(format!("{name}.stdout"));
        let stderr = log_directory.join(format!("{name}.stderr"));
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()
            .map_err(|e| Error::during(format!("starting {name}"), e))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            stdout,
            stderr,
            is_ours: is_ours(command),
        })
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read_lossy(&self.stdout)
    }

    /// The URL of a program's pages for operators, as it printed it, by `scheme`.
    ///
    /// # Panics
    /// When it printed none.
    #[must_use]
    pub fn pages_url(&self, scheme: &str) -> String {
        let said = self.stdout();
        let address = said.lines().find_map(|line| line.strip_prefix("pages on https://"));
        let port = address.and_then(|address| address.rsplit_once(':'));
        let (_, port) = port.unwrap_or_else(|| panic!("no pages in {said}"));
        format!("{scheme}://localhost:{port}")
    }

    /// What it wrote to standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read_lossy(&self.stderr)
    }

    /// True until it has ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until `condition` gives a value; it is shown the process and asked again and again.
    ///
    /// # Errors
    /// [`Error::Failed`], with the end of the process's logs, when it ends first or `deadline`
    /// passes.
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        deadline: Duration,
        mut condition: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T> {
        let end = Instant::now() + deadline;
        loop {
            if let Some(value) = condition(self) {
                return Ok(value);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(self.failure(&format!("ended with {status} before {what}")));
            }
            if Instant::now() >= end {
                return Err(self.failure(&format!("not {what} after {deadline:?}")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until something accepts connections at `address`.
    ///
    /// # Errors
    /// As [`Process::wait_for`].
    pub fn wait_listening(&mut self, address: SocketAddr, deadline: Duration) -> Result<()> {
        self.wait_for("listening", deadline, |_| {
            TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).ok()
        })
        .map(drop)
    }

    /// Processor seconds, user and system, used so far by it and its descendants.
    ///
    /// # Errors
    /// [`Error::Failed`] when it has ended.
    pub fn cpu_seconds(&self) -> Result<f64> {
        procfs::cpu_seconds(self.id())
    }

    /// Its own threads, the first of them first.
    ///
    /// # Errors
    /// [`Error::Failed`] when it has ended.
    pub fn threads(&self) -> Result<Vec<Thread>> {
        procfs::threads(self.id())
    }

    /// Memory of it and its descendants.
    ///
    /// # Errors
    /// [`Error::Failed`] when it has ended.
    pub fn memory(&self) -> Result<Memory> {
        procfs::memory_of(self.id())
    }

    /// Sends SIGHUP, the customary request to read the configuration again.
    ///
    /// # Errors
    /// [`Error::Failed`] when it has ended.
    pub fn hang_up(&mut self) -> Result<()> {
        self.signal(Signal::HUP)
    }

    /// Sends SIGTERM and does not wait: a further [`Process::terminate`] is a second signal.
    ///
    /// # Errors
    /// [`Error::Failed`] when it has ended.
    pub fn ask_to_stop(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Stops it in its tracks (SIGSTOP) until [`Process::resume`]: a peer that neither answers nor
    /// closes.
    ///
    /// # Errors
    /// [`Error::Failed`] when it has ended.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it run on after [`Process::pause`].
    ///
    /// # Errors
    /// [`Error::Failed`] when it has ended.
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Limits the size of files that it may write (`ulimit -f`), in bytes; `None`: no limit.
    ///
    /// # Errors
    /// [`Error::Failed`] when it has ended.
    pub fn limit_file_size(&self, bytes: Option<u64>) -> Result<()> {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        let changed = prlimit(Some(pid(self.id())), Resource::Fsize, limit);
        changed.map(drop).map_err(|error| Error::during(&self.name, error))
    }

    /// Asks it to end (SIGTERM), kills it after ten seconds, and returns how it ended.
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be waited for.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.end(Signal::TERM)
    }

    /// The same with SIGINT, which Ctrl-C sends.
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be waited for.
    pub fn interrupt(&mut self) -> Result<ExitStatus> {
        self.end(Signal::INT)
    }

    /// The ids of it and of its living descendants.
    #[must_use]
    pub fn family(&self) -> Vec<u32> {
        procfs::tree(self.id())
    }

    fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let family = self.family();
        self.signal(signal)?;
        // A paused process would not see it.
        let _ = self.signal(Signal::CONT);
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(POLL_INTERVAL);
        }
        kill_all(&family);
        Ok(self.child.wait()?)
    }

    /// Kills it and its descendants at once (SIGKILL), as a crash would.
    pub fn kill_hard(&mut self) {
        // Once it has been waited for, its id may belong to another process.
        if self.is_running() {
            kill_all(&procfs::tree(self.id()));
            let _ = self.child.wait();
        }
    }

    /// Demands that a program of ours has told no secret (see [`secrets`]): neither in what it
    /// wrote nor in its command line, which everybody on the machine can see. It is done when it is
    /// dropped, too.
    ///
    /// # Panics
    /// When it has.
    pub fn demand_no_secrets(&self) {
        if self.is_ours {
            let name = &self.name;
            let line = fs::read(format!("/proc/{}/cmdline", self.id())).unwrap_or_default();
            secrets::demand_none(&format!("the command line of {name}"), &String::from_utf8_lossy(&line));
            secrets::demand_none(&format!("the standard output of {name}"), &self.stdout());
            secrets::demand_none(&format!("the log of {name}"), &self.stderr());
        }
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        if !self.is_running() {
            return Err(self.failure("has ended"));
        }
        kill_process(pid(self.id()), signal).map_err(|e| Error::during(&self.name, e))
    }

    fn failure(&self, what: &str) -> Error {
        let log = self.stdout() + &self.stderr();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n");
        Error::Failed(format!("{} {what}\n{tail}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let line = fs::read(format!("/proc/{}/cmdline", self.id())).unwrap_or_default();
        let _ = self.terminate();
        if self.is_ours {
            let line = String::from_utf8_lossy(&line);
            secrets::demand_none(&format!("the command line of {}", self.name), &line);
        }
        self.demand_no_secrets();
    }
}

/// Whether a command runs the program under test.
#[must_use]
pub fn is_ours(command: &Command) -> bool {
    let program = Path::new(command.get_program());
    program.file_name().is_some_and(|name| name == "crossload") || Crossload::binary().is_ok_and(|ours| ours == program)
}

fn kill_all(ids: &[u32]) {
    for id in ids {
        let _ = kill_process(pid(*id), Signal::KILL);
    }
}

fn pid(id: u32) -> Pid {
    i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .expect("the kernel's process ids are positive and fit in 31 bits")
}

fn read_lossy(path: &Path) -> String {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    fn shell(script: &str, scratch: &Scratch) -> Process {
        Process::spawn("shell", Command::new("sh").args(["-c", script]), scratch.path()).expect("sh starts")
    }

    #[test]
    fn output_is_awaited_and_termination_reported() {
        let scratch = Scratch::new("process").expect("scratch");
        let mut process = shell("trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done", &scratch);
        let seen = process
            .wait_for("up", Duration::from_secs(10), |p| {
                p.stdout().lines().next().map(str::to_owned)
            })
            .expect("greets");
        assert_eq!(seen, "up");
        assert!(process.memory().expect("memory").resident_bytes > 0);
        assert_eq!(process.terminate().expect("ends").code(), Some(7));
    }

    #[test]
    fn an_early_end_is_an_error_with_the_log() {
        let scratch = Scratch::new("process").expect("scratch");
        let mut process = shell("echo no luck >&2; exit 1", &scratch);
        let waited = process.wait_for("up", Duration::from_secs(10), |_| None::<()>);
        assert!(matches!(waited, Err(Error::Failed(words)) if words.contains("no luck")));
    }

    #[test]
    fn a_hard_kill_takes_the_children_too() {
        let scratch = Scratch::new("process").expect("scratch");
        let mut process = shell("sleep 600 & echo $!; wait", &scratch);
        let child: u32 = process
            .wait_for("up", Duration::from_secs(10), |p| p.stdout().trim().parse().ok())
            .expect("tells its child");
        assert!(procfs::tree(process.id()).contains(&child));
        process.kill_hard();
        assert!(!process.is_running());
        let gone = || fs::read_to_string(format!("/proc/{child}/stat")).map_or(true, |stat| stat.contains(") Z "));
        let end = Instant::now() + Duration::from_secs(10);
        while !gone() && Instant::now() < end {
            thread::yield_now();
        }
        assert!(gone(), "the child still runs");
    }

    #[test]
    fn a_paused_process_can_be_resumed_and_ended() {
        let scratch = Scratch::new("process").expect("scratch");
        let mut process = shell("trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done", &scratch);
        process
            .wait_for("up", Duration::from_secs(10), |p| {
                p.stdout().contains("up").then_some(())
            })
            .expect("greets");
        let state = |p: &Process| fs::read_to_string(format!("/proc/{}/stat", p.id())).unwrap_or_default();
        process.pause().expect("paused");
        process
            .wait_for("stopped", Duration::from_secs(10), |p| {
                state(p).contains(") T ").then_some(())
            })
            .expect("stands still");
        process.resume().expect("resumed");
        process
            .wait_for("running", Duration::from_secs(10), |p| {
                (!state(p).contains(") T ")).then_some(())
            })
            .expect("runs on");
        process.pause().expect("paused again");
        assert_eq!(process.terminate().expect("ends").code(), Some(7));
    }

    #[test]
    fn a_program_of_ours_that_tells_a_secret_fails_the_test() {
        let scratch = Scratch::new("process").expect("scratch");
        let stand_in = scratch.join("crossload");
        std::os::unix::fs::symlink("/bin/sh", &stand_in).expect("a link");
        let secret = "told-by-a-program-of-ours-in-a-test-of-testkit";
        secrets::note("what it was told", secret);
        let tells = |script: &str, arguments: &[&str]| {
            let mut command = Command::new(&stand_in);
            command.args(["-c", script]).args(arguments).env("SECRET", secret);
            let mut process = Process::spawn("telling", &mut command, scratch.path()).expect("it starts");
            process
                .wait_for("ready", Duration::from_secs(10), |p| {
                    p.stdout().contains("ready").then_some(())
                })
                .expect("it runs");
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(process))).is_err()
        };
        assert!(!tells("echo ready; read x", &[]));
        assert!(tells("echo $SECRET; echo ready; sleep 60", &[]));
        assert!(tells("echo $SECRET >&2; echo ready; sleep 60", &[]));
        assert!(tells("echo ready; sleep 60; :", &[secret]));
        // What others say is not ours to answer for.
        let mut others = Command::new("/bin/sh");
        others.args(["-c", "echo $SECRET; echo ready"]).env("SECRET", secret);
        let mut process = Process::spawn("others", &mut others, scratch.path()).expect("it starts");
        let _ = process.terminate();
        drop(process);
    }

    #[test]
    fn processor_time_counts_children() {
        let scratch = Scratch::new("process").expect("scratch");
        let mut process = shell("(while :; do :; done) & wait", &scratch);
        process
            .wait_for("busy", Duration::from_secs(30), |p| {
                p.cpu_seconds().ok().filter(|seconds| *seconds > 0.1)
            })
            .expect("the child's time is seen");
        process.kill_hard();
    }
}
