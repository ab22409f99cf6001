//! A server under a service manager such as systemd: notifications of its state.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use conformance::Lab;
use testkit::{Crossload, Process, Result, available};

/// Limit for what must happen.
const SOON: Duration = Duration::from_secs(20);
/// Longest notification.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The side of the service manager.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(lab: &Lab) -> Self {
        let path = lab.fresh("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(SOON)).expect("a time limit");
        Self { socket, path }
    }

    /// The next notification that has this line.
    #[track_caller]
    fn next(&self, line: &str) -> String {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        loop {
            let received = self.socket.recv(&mut buffer);
            let count = received.unwrap_or_else(|error| panic!("no {line}: {error}"));
            let message = String::from_utf8_lossy(&buffer[..count]).into_owned();
            if message.lines().any(|own| own == line) {
                return message;
            }
        }
    }
}

/// The value of a variable in a notification.
fn value<'a>(message: &'a str, variable: &str) -> &'a str {
    let mut lines = message.lines();
    let found = lines.find_map(|line| line.strip_prefix(variable)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {variable} in {message:?}"))
}

/// A configuration file in a directory of its own.
pub(crate) fn configuration(lab: &Lab, text: &str) -> Result<PathBuf> {
    let directory = lab.fresh("managed");
    std::fs::create_dir_all(directory.join("data"))?;
    let file = directory.join("crossload.toml");
    std::fs::write(&file, text)?;
    Ok(file)
}

/// The same in a lab of its own; `None` where no server can be started.
pub(crate) fn configured(test: &str, name: &str, text: &str) -> Option<(Lab, PathBuf)> {
    let made = Lab::new(name).and_then(|lab| {
        let file = configuration(&lab, text)?;
        Ok((lab, file))
    });
    available(test, made)
}

/// The program with a configuration file.
fn program(arguments: &[&str], file: &Path) -> Result<Command> {
    let mut command = Command::new(Crossload::binary()?);
    command.args(arguments).arg("--config").arg(file);
    command.env("XDG_STATE_HOME", file.with_file_name("state"));
    Ok(command)
}

const ENDPOINT: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\ngrace_time = \"600s\"\n\
    [[export]]\npath = \"/\"\ndirectory = \"data\"\nanonymous = \"read\"\n";

/// A client that has begun to fetch a long file, and does not go on.
fn fetching(port: u16, data: &Path) -> TcpStream {
    let made = std::fs::File::create(data.join("long"));
    made.and_then(|file| file.set_len(1 << 30)).expect("a long file");
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let request = b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n";
    socket.write_all(request).expect("a request");
    socket.read_exact(&mut [0; 100]).expect("the beginning");
    socket
}

#[test]
fn a_server_reports_its_state() {
    let test = "a_server_reports_its_state";
    let Some((lab, file)) = configured(test, "notify", ENDPOINT) else {
        return;
    };
    let manager = Manager::new(&lab);
    let mut command = program(&["serve"], &file).expect("the program");
    command
        .env("NOTIFY_SOCKET", &manager.path)
        .env("WATCHDOG_USEC", "200000");
    let directory = file.parent().expect("a directory");
    let mut server = Process::spawn("managed", &mut command, directory).expect("a process");

    let ready = manager.next("READY=1");
    let status = value(&ready, "STATUS");
    assert!(status.starts_with("serving 1 export at 127.0.0.1:"), "{ready}");
    let port = status.rsplit(':').next().and_then(|port| port.parse().ok());
    // No second attempt: it listens already.
    let _client = fetching(port.expect("a port"), &directory.join("data"));
    manager.next("WATCHDOG=1");
    manager.next("WATCHDOG=1");

    server.hang_up().expect("a signal");
    let reloading = manager.next("RELOADING=1");
    assert!(
        value(&reloading, "MONOTONIC_USEC")
            .parse::<u64>()
            .is_ok_and(|us| us > 0),
        "{reloading}"
    );
    assert_eq!(value(&manager.next("READY=1"), "STATUS"), status);

    std::fs::write(&file, format!("{ENDPOINT}[nonsense]\n")).expect("a broken configuration");
    server.hang_up().expect("a signal");
    let failed = loop {
        let ready = manager.next("READY=1");
        if value(&ready, "STATUS") != status {
            break ready;
        }
    };
    let words = value(&failed, "STATUS");
    assert!(
        words.starts_with("the last reload failed") && words.contains("nonsense"),
        "{failed}"
    );

    server.ask_to_stop().expect("a signal");
    let stopping = manager.next("STOPPING=1");
    assert!(
        value(&stopping, "STATUS").starts_with("draining: waiting up to "),
        "{stopping}"
    );
    assert!(value(&stopping, "STATUS").ends_with("for 1 connection"), "{stopping}");
    let extended_us: u64 = value(&stopping, "EXTEND_TIMEOUT_USEC").parse().expect("a number");
    assert!(extended_us > 600_000_000, "longer than the grace time: {stopping}");
    assert!(server.terminate().expect("it ends").success());
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let test = "a_server_that_does_not_start_says_why";
    let Some((lab, file)) = configured(test, "notify-failed", "[server]\nlisten = []\n") else {
        return;
    };
    let manager = Manager::new(&lab);
    let mut command = program(&["serve"], &file).expect("the program");
    let run = conformance::run(command.env("NOTIFY_SOCKET", &manager.path));
    assert_ne!(run.code, Some(0));
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let count = manager.socket.recv(&mut buffer).expect("a notification");
    let message = String::from_utf8_lossy(&buffer[..count]).into_owned();
    let status = value(&message, "STATUS");
    assert!(
        status.contains("crossload.toml:2:") && status.contains("listen"),
        "{message}"
    );
    assert!(!message.contains("READY"), "{message}");
}

#[test]
fn a_queue_reports_its_state() {
    let test = "a_queue_reports_its_state";
    let text = "[queue]\nlisten = [\"127.0.0.1:0\"]\nanonymous = true\nstate_directory = \"state\"\n";
    let Some((lab, file)) = configured(test, "notify-queue", text) else {
        return;
    };
    let manager = Manager::new(&lab);
    let mut command = program(&["queue", "serve"], &file).expect("the program");
    command
        .env("NOTIFY_SOCKET", &manager.path)
        .env("WATCHDOG_USEC", "200000");
    let directory = file.parent().expect("a directory");
    let mut queue = Process::spawn("queue", &mut command, directory).expect("a process");
    let ready = manager.next("READY=1");
    let status = value(&ready, "STATUS");
    assert!(
        status.starts_with("serving the transfer queue at 127.0.0.1:"),
        "{ready}"
    );
    let port: u16 = status
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port");
    drop(TcpStream::connect(("127.0.0.1", port)).expect("it listens already"));
    manager.next("WATCHDOG=1");
    queue.hang_up().expect("a signal");
    manager.next("RELOADING=1");
    assert_eq!(value(&manager.next("READY=1"), "STATUS"), status);
    assert!(queue.terminate().expect("it ends").success());
    manager.next("STOPPING=1");
}

#[test]
fn credentials_of_the_unit_are_used_and_missing_ones_named() {
    let test = "credentials_of_the_unit_are_used_and_missing_ones_named";
    let text = "[server]\nlisten = [\"127.0.0.1:0\"]\ncertificate = \"credential:hostcert\"\n\
        key = \"credential:hostkey\"\n\
        [[export]]\npath = \"/\"\ndirectory = \"data\"\nanonymous = \"read\"\n";
    let Some((lab, file)) = configured(test, "credentials", text) else {
        return;
    };
    let start = |directory: Option<&Path>| {
        let mut command = program(&["serve"], &file).expect("the program");
        match directory {
            Some(directory) => command.env("CREDENTIALS_DIRECTORY", directory),
            None => command.env_remove("CREDENTIALS_DIRECTORY"),
        };
        command
    };
    let refused = conformance::run(&start(None));
    assert_eq!(refused.code, Some(22), "{}", refused.said());
    assert!(
        refused.stderr.contains("crossload.toml:3: certificate: "),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("LoadCredential=hostcert:FILE"),
        "{}",
        refused.stderr
    );

    let credentials = lab.fresh("credentials");
    std::fs::create_dir(&credentials).expect("a directory");
    std::fs::copy(&lab.host().certificate, credentials.join("hostcert")).expect("a copy");
    let refused = conformance::run(&start(Some(&credentials)));
    let words = "crossload.toml:4: key: the unit passes no credential \"hostkey\"; add LoadCredential=hostkey:FILE";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    assert!(!refused.stderr.contains("hostcert"), "{}", refused.stderr);

    // The permissions of the file are copied with it.
    std::fs::copy(&lab.host().key, credentials.join("hostkey")).expect("a copy");
    let manager = Manager::new(&lab);
    let mut command = start(Some(&credentials));
    command.env("NOTIFY_SOCKET", &manager.path);
    let directory = file.parent().expect("a directory");
    let mut server = Process::spawn("credentials", &mut command, directory).expect("a process");
    let ready = manager.next("READY=1");
    let port = value(&ready, "STATUS").rsplit(':').next().expect("a port").to_owned();
    std::fs::write(directory.join("data/file"), "content").expect("a file");
    let answer = lab.curl(&[&format!("https://localhost:{port}/file")]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "content"));
    assert!(server.terminate().expect("it ends").success());
}
