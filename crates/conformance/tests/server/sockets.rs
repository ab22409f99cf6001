//! Listening sockets that the service manager has opened before the server starts.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use conformance::{Lab, until};
use testkit::{Crossload, Process, Result, available, free_port, require};

use crate::service_manager::{configuration, configured};

/// Limit for what must happen.
const SOON: Duration = Duration::from_secs(20);

/// Standard input becomes the socket that `sd_listen_fds(3)` describes.
const PASSES_SOCKET: &str =
    "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=front-door; exec \"$@\"";

/// A configuration that has this address, and an administrators' port.
fn listening(address: &str, admin: &str) -> String {
    format!(
        "[server]\nlisten = [\"{address}\"]\nadmin_listen = \"{admin}\"\n\
         [[export]]\npath = \"/\"\ndirectory = \"data\"\nanonymous = \"read\"\n"
    )
}

/// A server that gets this socket.
fn command(listener: &TcpListener, file: &Path) -> Result<Command> {
    // The shell becomes the server, which so has the process id that the shell wrote down.
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60", "sh", "-c", PASSES_SOCKET, "sh"]);
    command.arg(Crossload::binary()?).args(["serve", "--config"]).arg(file);
    command.stdin(OwnedFd::from(listener.try_clone()?));
    Ok(command)
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // `timeout` passes the signal on.
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.0.wait();
    }
}

fn start(listener: &TcpListener, file: &Path) -> Ended {
    let mut command = command(listener, file).expect("a command");
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Ended(child.expect("a process"))
}

/// A client that has asked for the root directory.
fn asking(port: u16) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    socket.set_read_timeout(Some(SOON)).expect("a time limit");
    let request = b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(request).expect("a request");
    socket
}

fn assert_answered(mut socket: TcpStream) {
    let mut begin = [0; 12];
    socket.read_exact(&mut begin).expect("an answer");
    assert_eq!(&begin, b"HTTP/1.1 200");
}

#[test]
fn clients_that_come_while_no_server_runs_are_answered() {
    let test = "clients_that_come_while_no_server_runs_are_answered";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let Some((_lab, file)) = configured(test, "sockets", &listening(&address.to_string(), "127.0.0.1:0")) else {
        return;
    };
    for _ in 0..2 {
        let early = asking(address.port());
        let _server = start(&listener, &file);
        assert_answered(early);
    }
}

#[test]
fn a_socket_that_no_key_names_is_an_error() {
    let test = "a_socket_that_no_key_names_is_an_error";
    let Some((_lab, file)) = configured(test, "sockets-unknown", &listening("127.0.0.1:0", "127.0.0.1:0")) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let said = |output: Output| {
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let words = said(
        command(&listener, &file)
            .and_then(|mut command| Ok(command.output()?))
            .expect("a process"),
    );
    assert!(words.contains(&format!("{address} (\"front-door\")")), "{words}");
    assert!(
        words.contains("server.listen") && words.contains("ListenStream="),
        "{words}"
    );

    // What a socket unit with Accept=yes passes.
    let client = TcpStream::connect(address).expect("a connection");
    let mut command = command(&listener, &file).expect("a command");
    command.stdin(OwnedFd::from(client));
    let words = said(command.output().expect("a process"));
    assert!(
        words.contains("does not listen") && words.contains("Accept=no"),
        "{words}"
    );
}

#[test]
fn systemd_starts_a_server_with_the_first_connection() {
    let test = "systemd_starts_a_server_with_the_first_connection";
    let prepared = || -> Result<_> {
        let program = require("systemd-socket-activate")?;
        let lab = Lab::new("sockets-systemd")?;
        let [door, admin] = [free_port()?, free_port()?].map(|port| format!("127.0.0.1:{port}"));
        let file = configuration(&lab, &listening(&door, &admin))?;
        Ok((lab, program, door, admin, file))
    };
    let Some((_lab, program, door, admin, file)) = available(test, prepared()) else {
        return;
    };
    let mut command = Command::new(program);
    command.args(["-l", &door, "-l", &admin, "--fdname=door:admin"]);
    let binary = Crossload::binary().expect("the program");
    command.arg(binary).args(["serve", "--config"]).arg(&file);
    let directory = file.parent().expect("a directory");
    let mut server = Process::spawn("activated", &mut command, directory).expect("a process");
    // Connecting to a socket that waits for its server works at once.
    until("it listens", SOON, || TcpStream::connect(&door).is_ok());
    let port = |address: &str| address.rsplit(':').next().and_then(|port| port.parse().ok());
    assert_answered(asking(port(&door).expect("a port")));
    let mut socket = TcpStream::connect(&admin).expect("a connection");
    socket.set_read_timeout(Some(SOON)).expect("a time limit");
    let request = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(request).expect("a request");
    assert_answered(socket);
    assert!(server.terminate().expect("it ends").success());
}
