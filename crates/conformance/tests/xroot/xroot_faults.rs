//! Clients of the XRootD protocol that die, stop in the middle, never read or join sessions of
//! others, and servers that are killed: nothing unfinished stays under a final name, what was taken
//! is given back, and the next client is served.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use conformance::{
    ABLE_TLS, GOES_TO_TLS, GREETING, HAS_TLS, RootSocket, WANT_TLS, alone, assert_root_alive, background, bytes,
    opcode, open_option, parameters, parts, request_bytes, status, tls_session, until, visible,
};
use testkit::{Crossload, Direction, Fault, Relay, available, require};

/// How soon a server must have cleaned up.
const SOON: Duration = Duration::from_secs(15);
/// Make a file, replace what there is, and make the directories that lead to it.
const UPLOAD: u16 = open_option::DELETE | open_option::UPDATE | open_option::MAKE_PATH;
/// Flag of a stat: the file is being written (`kXR_poscpend`).
const PENDING: u32 = 64;

#[test]
fn who_says_half_of_a_request_is_not_waited_for() {
    let test = "who_says_half_of_a_request_is_not_waited_for";
    let started = alone(test, |options| {
        options.limits = "head_timeout = \"1s\"\nstall_timeout = \"1s\"\nidle_timeout = \"1s\"\n".to_owned();
    });
    let Some((_lab, server)) = started else { return };
    let mut silent = RootSocket::connect(server.port());
    let mut idle = RootSocket::session(server.port());
    let mut halfway = RootSocket::connect(server.port());
    halfway.say(&GREETING[..10]);
    let mut request = RootSocket::session(server.port());
    request.say(&request_bytes(1, opcode::STAT, &[0; 16], 11, b"/da"));
    let mut upload = RootSocket::session(server.port());
    let handle = upload.open("/data/stalled", UPLOAD);
    upload.say(&request_bytes(
        1,
        opcode::WRITE,
        &parameters(&[&handle]),
        1_000_000,
        &[7; 1000],
    ));
    for client in [&mut silent, &mut idle, &mut halfway, &mut request, &mut upload] {
        // It may say why.
        assert!(
            client
                .until_closed()
                .iter()
                .all(|answer| answer.status == status::ERROR)
        );
    }
    until("nothing is left", SOON, || parts(server.data()).is_empty());
    assert_root_alive(server.port());
    assert_eq!(visible(server.data()), ["alive"]);
}

/// Open files of a process.
fn descriptors(server: &mut Crossload) -> usize {
    let directory = format!("/proc/{}/fd", server.process().id());
    std::fs::read_dir(directory).expect("its files").count()
}

#[test]
fn handles_left_open_are_bounded_and_given_back() {
    let test = "handles_left_open_are_bounded_and_given_back";
    let Some((_lab, mut server)) = alone(test, |_| {}) else {
        return;
    };
    let port = server.port();
    assert_root_alive(port);
    let before = descriptors(&mut server);
    let mut client = RootSocket::session(port);
    let mut handles = Vec::new();
    for index in 0..512 {
        // Some are uploads, whose parts must go too.
        let handle = if index % 8 == 0 {
            client.open(&format!("/data/up/{index}"), UPLOAD)
        } else {
            client.open("/data/alive", open_option::READ)
        };
        handles.push(handle);
    }
    let distinct: std::collections::HashSet<_> = handles.iter().collect();
    assert_eq!(distinct.len(), 512);
    let refused = client.try_open("/data/alive", open_option::READ);
    assert_eq!(refused.status, status::ERROR, "{}", refused.words());
    // The session still works, and a returned handle is available again.
    assert_eq!(client.read(handles[511], 0, 100).expect_ok(), b"content");
    let _ = client.close(handles[511]).expect_ok();
    client.close(handles[511]).expect_error(3004);
    let _ = client.open("/data/alive", open_option::READ);
    drop(client);
    until("all files are closed", SOON, || descriptors(&mut server) <= before + 2);
    until("all parts are gone", SOON, || parts(server.data()).is_empty());
    assert_root_alive(port);
    assert_eq!(visible(server.data()), ["alive"]);
}

#[test]
fn sessions_of_others_are_not_joined() {
    let test = "sessions_of_others_are_not_joined";
    let Some((_lab, server)) = alone(test, |_| {}) else {
        return;
    };
    let port = server.port();
    let mut owner = RootSocket::greeted(port);
    let number: [u8; 16] = owner.login()[..16].try_into().expect("a session's number");
    // Guessed, ended, or seen by another host.
    RootSocket::greeted(port)
        .ask(0, opcode::BIND, &[0x5A; 16], &[])
        .expect_error(3011);
    let mut changed = number;
    changed[15] ^= 1;
    RootSocket::greeted(port)
        .ask(0, opcode::BIND, &changed, &[])
        .expect_error(3011);
    let mut elsewhere = RootSocket::connect_from(Ipv4Addr::new(127, 0, 0, 2), port);
    elsewhere.greet(0);
    let refused = elsewhere.ask(0, opcode::BIND, &number, &[]);
    assert!([3010, 3011].contains(&refused.error()), "{}", refused.words());
    // As many further streams as given.
    let mut streams = Vec::new();
    for _ in 0..15 {
        let mut stream = RootSocket::greeted(port);
        let path = stream.ask(0, opcode::BIND, &number, &[]).expect_ok();
        assert!(path.len() == 1 && (1..=15).contains(&path[0]), "{path:?}");
        streams.push((path[0], stream));
    }
    let one_more = RootSocket::greeted(port).ask(0, opcode::BIND, &number, &[]);
    assert_eq!(one_more.status, status::ERROR, "{}", one_more.words());
    // What was asked on the first connection is answered on the stream that was named, and only
    // there.
    let handle = owner.open("/data/alive", open_option::READ);
    let (path, stream) = &mut streams[7];
    let read = parameters(&[&handle, &0_i64.to_be_bytes(), &100_i32.to_be_bytes()]);
    owner.send(77, opcode::READ, &read, &[*path, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(stream.whole(77).expect_ok(), b"content");
    owner
        .ask(78, opcode::READ, &read, &[200, 0, 0, 0, 0, 0, 0, 0])
        .expect_error(3000);
    // A further stream cannot be used to do anything of its own.
    stream.send(1, opcode::REMOVE, &[0; 16], b"/data/alive");
    drop(owner);
    for (_, mut stream) in streams {
        assert!(stream.until_closed().iter().all(|answer| answer.status != status::OK));
    }
    assert_root_alive(port);
    RootSocket::greeted(port)
        .ask(0, opcode::BIND, &number, &[])
        .expect_error(3011);
    assert_eq!(visible(server.data()), ["alive"]);
}

#[test]
fn tls_that_is_demanded_is_not_gone_around() {
    let test = "tls_that_is_demanded_is_not_gone_around";
    let started = alone(test, |options| {
        options.more = "[xroot]\ntls = \"login\"\nauthentication = []\n".to_owned()
    });
    let Some((lab, server)) = started else { return };
    // A client without TLS gets a refusal that says so, and no session.
    let mut plain = RootSocket::connect(server.port());
    assert_eq!(plain.greet(0) & GOES_TO_TLS, 0);
    plain.try_login().expect_error(3028);
    plain.send(2, opcode::STAT, &[0; 16], b"/data/alive");
    assert!(plain.until_closed().iter().all(|answer| answer.status == status::ERROR));
    // Who can is taken there at once, and clear text is not understood from then on.
    let mut rude = RootSocket::connect(server.port());
    assert_ne!(rude.greet(ABLE_TLS) & GOES_TO_TLS, 0);
    rude.send(0, opcode::LOGIN, &parameters(&[&[0; 4], b"tester\0\0"]), &[]);
    // At most an alert of TLS comes back, whose first byte no answer begins with.
    let mut first = [0];
    let count = std::io::Read::read(&mut rude.socket, &mut first).unwrap_or(0);
    assert!(count == 0 || first[0] == 0x15, "{first:?}");
    let mut client = RootSocket::connect(server.port());
    assert_ne!(client.greet(ABLE_TLS) & GOES_TO_TLS, 0);
    let mut client = RootSocket::over_tls(client, tls_session(&lab.authority().ca_file()));
    let _ = client.login();
    let handle = client.open("/data/alive", open_option::READ);
    assert_eq!(client.read(handle, 0, 100).expect_ok(), b"content");
}

#[test]
fn tls_that_is_wanted_and_not_there_is_told() {
    let test = "tls_that_is_wanted_and_not_there_is_told";
    let Some((lab, server)) = alone(test, |options| options.certificate = None) else {
        return;
    };
    let mut client = RootSocket::connect(server.port());
    assert_eq!(client.greet(ABLE_TLS | WANT_TLS) & (HAS_TLS | GOES_TO_TLS), 0);
    if available(test, require("xrdcp")).is_some() {
        let url = format!("roots://localhost:{}//data/alive", server.port());
        let refused = lab.xrdcp(&[&url, "-"]);
        assert_ne!(refused.code, Some(0), "{}", refused.said());
        assert!(
            refused.stderr.contains("TLS") || refused.stderr.contains("encryption"),
            "{}",
            refused.said()
        );
    }
    assert_root_alive(server.port());
}

#[test]
fn a_client_that_dies_leaves_nothing() {
    let test = "a_client_that_dies_leaves_nothing";
    let Some((lab, mut server)) = alone(test, |_| {}) else {
        return;
    };
    let port = server.port();
    // By hand: new, over what exists, and with every byte written but not closed.
    let content = bytes(3 << 20, 251);
    std::fs::write(server.data().join("old"), b"old content").expect("written");
    for name in ["new", "old"] {
        let mut client = RootSocket::session(port);
        let handle = client.open(&format!("/data/{name}"), UPLOAD);
        let _ = client.write(handle, 0, &content).expect_ok();
        let _ = client.ask(1, opcode::SYNC, &parameters(&[&handle]), &[]).expect_ok();
        assert!(!server.data().join("new").exists(), "not before it is closed");
        drop(client);
        until("the part is gone", SOON, || parts(server.data()).is_empty());
    }
    assert_eq!(
        std::fs::read(server.data().join("old")).ok().as_deref(),
        Some(&b"old content"[..])
    );
    std::fs::remove_file(server.data().join("old")).expect("removed");
    // A real client, killed.
    if available(test, require("xrdcp")).is_some() {
        let mut command = lab.command("xrdcp").expect("it is there");
        // It never ends by itself: its input does not.
        command.args(["--nopbar", "-", &format!("root://localhost:{port}//data/killed")]);
        let fifo = lab.fresh("fifo");
        conformance::run(std::process::Command::new("mkfifo").arg(&fifo)).succeeded();
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", "exec \"$0\" \"$@\" <\"$FIFO\""])
            .arg(command.get_program())
            .args(command.get_args());
        shell
            .env("FIFO", &fifo)
            .env("XRD_NETWORKSTACK", "IPv4")
            .env("X509_CERT_DIR", lab.authority().trust_directory());
        let mut client = background(&mut shell, lab.scratch()).expect("it starts");
        let mut input = std::fs::OpenOptions::new().write(true).open(&fifo).expect("its input");
        input.write_all(&bytes(20 << 20, 252)).expect("it takes a part");
        until("a part is begun", SOON, || !parts(server.data()).is_empty());
        client.kill_hard();
        drop(input);
        until("the part is gone", SOON, || parts(server.data()).is_empty());
    }
    server.start_again().expect("it starts again");
    assert_root_alive(port);
    assert_eq!(visible(server.data()), ["alive"]);
    assert!(parts(server.data()).is_empty());
}

/// XRootD's clients connect again when a connection breaks, open the file for update, and send what
/// was not acknowledged. That must not go into the file that was there before.
#[test]
fn a_client_that_connects_again_leaves_the_old_file_as_it_was() {
    let test = "a_client_that_connects_again_leaves_the_old_file_as_it_was";
    let Some((lab, mut server)) = alone(test, |_| {}) else {
        return;
    };
    if available(test, require("xrdcp")).is_none() {
        return;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    let relay = Relay::start(address).expect("a relay");
    let (old, new) = (bytes(5 << 20, 255), bytes(3 << 20, 256));
    let file = lab.file(&new);
    let stored = server.data().join("old");
    std::fs::write(&stored, &old).expect("written");
    let upload = |scheme: &str| {
        let mut command = lab.command("xrdcp").expect("it is there");
        let to = format!("{scheme}://localhost:{}//data/old", relay.port());
        command.args(["-f", "-s"]).arg(&file).arg(&to);
        command
            .env("XRD_CONNECTIONWINDOW", "5")
            .env("XRD_STREAMERRORWINDOW", "5");
        command
    };
    for (scheme, fault) in [
        ("roots", Fault::FlipBitAfter(Direction::ToTarget, 1 << 20)),
        ("roots", Fault::CutAfter(Direction::ToTarget, 1 << 20)),
        ("root", Fault::CutAfter(Direction::ToTarget, 2 << 20)),
        ("root", Fault::CutAfter(Direction::ToTarget, (3 << 20) + 200)),
    ] {
        relay.set_fault(fault, 1);
        let said = conformance::run(&upload(scheme));
        relay.heal();
        assert_ne!(said.code, Some(0), "{scheme}, {fault:?}: {}", said.said());
        let found = std::fs::read(&stored).expect("it is there");
        assert!(
            found == old,
            "{scheme}, {fault:?}: the old file was changed; {}",
            said.said()
        );
    }
    // The same when the server is another one when the client connects again.
    relay.set_fault(Fault::StallAfter(Direction::ToTarget, 2 << 20), 1);
    let mut client = background(&mut upload("root"), lab.scratch()).expect("it starts");
    until("it has sent a part", SOON, || {
        relay.passed_bytes(Direction::ToTarget) > 2 << 20 && relay.struck() == 5
    });
    server.process().kill_hard();
    server.start_again().expect("it starts again");
    relay.heal();
    until("the client ends", SOON, || !client.is_running());
    assert!(std::fs::read(&stored).expect("it is there") == old, "after a restart");
    // And what nothing disturbs replaces it.
    conformance::run(&upload("root")).succeeded();
    assert!(std::fs::read(&stored).expect("it is there") == new);
}

#[test]
fn a_server_that_is_killed_shows_nothing_unfinished() {
    let test = "a_server_that_is_killed_shows_nothing_unfinished";
    let Some((_lab, mut server)) = alone(test, |_| {}) else {
        return;
    };
    let content = bytes(1 << 20, 253);
    let mut clients: Vec<(RootSocket<TcpStream>, [u8; 4])> = (0..6)
        .map(|index| {
            let mut client = RootSocket::session(server.port());
            let handle = client.open(&format!("/data/killed/{index}"), UPLOAD);
            let _ = client.write(handle, 0, &content).expect_ok();
            (client, handle)
        })
        .collect();
    // One is closed before, and is to be found again.
    let (mut done, handle) = clients.pop().expect("a client");
    let _ = done.close(handle).expect_ok();
    assert!(!parts(server.data()).is_empty());
    server.process().kill_hard();
    for (client, handle) in &mut clients {
        client.send(1, opcode::CLOSE, &parameters(&[handle]), &[]);
        assert!(client.until_closed().is_empty());
    }
    assert_eq!(visible(server.data()), ["alive", "killed/5"]);
    server.start_again().expect("it starts again");
    assert_eq!(visible(server.data()), ["alive", "killed/5"]);
    assert_eq!(std::fs::read(server.data().join("killed/5")).ok(), Some(content));
    until("all parts are gone", SOON, || parts(server.data()).is_empty());
    assert_root_alive(server.port());
}

#[test]
fn who_asks_and_never_reads_costs_little() {
    let test = "who_asks_and_never_reads_costs_little";
    let started = alone(test, |options| options.limits = "stall_timeout = \"1s\"\n".to_owned());
    let Some((_lab, mut server)) = started else { return };
    let port = server.port();
    std::fs::write(server.data().join("large"), bytes(64 << 20, 254)).expect("written");
    assert_root_alive(port);
    let files = descriptors(&mut server);
    let before = server.process().memory().expect("memory").resident_bytes;
    let mut clients = Vec::new();
    for kind in 0..3 {
        let mut client = RootSocket::session(port);
        let handle = client.open("/data/large", open_option::READ);
        let read = parameters(&[&handle, &0_i64.to_be_bytes(), &(64_i32 << 20).to_be_bytes()]);
        let request = match kind {
            0 => request_bytes(1, opcode::READ, &read, 0, &[]),
            1 => request_bytes(1, opcode::READ_PAGES, &read, 0, &[]),
            _ => request_bytes(1, opcode::STAT, &[0; 16], 11, b"/data/alive"),
        };
        let many = request.repeat(10_000);
        client
            .socket
            .set_write_timeout(Some(Duration::from_millis(500)))
            .expect("timeout");
        // Until the server takes no more, or has had enough of it.
        while client.socket.write_all(&many).is_ok() {}
        clients.push(client);
    }
    let after = server.process().memory().expect("memory").resident_bytes;
    assert!(after < before + (64 << 20), "{before} bytes before, {after} after");
    assert_root_alive(port);
    // They are given up, and their files closed.
    until("their connections are closed", SOON, || connections(&server) == 0);
    until("their files are closed", SOON, || descriptors(&mut server) <= files + 2);
    drop(clients);
    assert_root_alive(port);
}

/// Connections of clients that a server holds.
fn connections(server: &Crossload) -> usize {
    let port = format!(":{:04X}", server.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("its sockets");
    // Field 1 is the local address, 3 the state; 01 is established.
    table
        .lines()
        .filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.len() > 3 && fields[1].ends_with(&port) && fields[3] == "01"
        })
        .count()
}

#[test]
fn a_file_that_is_being_written_is_pending_for_others() {
    let test = "a_file_that_is_being_written_is_pending_for_others";
    let Some((_lab, server)) = alone(test, |_| {}) else {
        return;
    };
    let port = server.port();
    let mut writer = RootSocket::session(port);
    let handle = writer.open("/data/half", UPLOAD);
    let _ = writer.write(handle, 0, b"half of").expect_ok();
    let mut reader = RootSocket::session(port);
    // It is there, not whole, and cannot be opened.
    let told = String::from_utf8(reader.stat("/data/half").expect_ok()).expect("text");
    let flags: u32 = told
        .split(' ')
        .nth(2)
        .and_then(|flags| flags.parse().ok())
        .expect("flags");
    assert_ne!(flags & PENDING, 0, "{told}");
    reader.try_open("/data/half", open_option::READ).expect_error(3011);
    // The writer sees what it has written.
    assert_eq!(writer.read(handle, 0, 100).expect_ok(), b"half of");
    let size = writer
        .ask(1, opcode::STAT, &parameters(&[&[0; 12], &handle]), &[])
        .expect_ok();
    assert_eq!(String::from_utf8_lossy(&size).split(' ').nth(1), Some("7"));
    let _ = writer.write(handle, 7, b" it").expect_ok();
    let _ = writer.close(handle).expect_ok();
    assert!(!reader.stat("/data/half").expect_ok().is_empty());
    assert_eq!(
        std::fs::read(server.data().join("half")).ok().as_deref(),
        Some(&b"half of it"[..])
    );
}
