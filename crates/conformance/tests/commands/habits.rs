//! Habits of other programs that our client has: what it says after a failed connection, after
//! Ctrl-C, and when no program reads its output.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use conformance::{Reply, Scripted, bytes, run, until};
use testkit::available;

use crate::client::{assert_says, site};

/// A server that speaks no protocol: it closes each connection when it has read a byte.
fn silent_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    // Ends with the test program.
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 1]);
        }
    });
    port
}

#[test]
fn a_wrong_scheme_or_an_unknown_authority_leads_to_what_to_type() {
    let test = "a_wrong_scheme_or_an_unknown_authority_leads_to_what_to_type";
    let Some(site) = available(test, site()) else { return };
    let port = silent_port();
    let place = format!("://localhost:{port}//f");
    for (wrong, right) in [("https", "http"), ("davs", "dav"), ("http", "https")] {
        let listed = site.lab.run_client("ls", &[&format!("{wrong}{place}")]);
        assert_says(&listed, 104, &format!("write {right}{place};"), &["--cacert"]);
    }
    // These sessions begin in clear text, whatever the scheme.
    for scheme in ["root", "roots"] {
        let listed = site.lab.run_client("ls", &[&format!("{scheme}{place}")]);
        assert_says(&listed, 104, "next: Check the port in the URL", &["Try again"]);
    }
    let url = site.first.davs("");
    let mut unknown = site.lab.client(["stat", "--json", &url]).expect("the client is built");
    let unknown = run(unknown.env("X509_CERT_DIR", "/nonexistent"));
    assert_says(
        &unknown,
        71,
        "next: Give the file of its authority with --cacert",
        &["Host is down"],
    );
}

#[test]
fn a_second_interrupt_ends_a_command_whose_output_nobody_reads() {
    let test = "a_second_interrupt_ends_a_command_whose_output_nobody_reads";
    let Some(site) = available(test, site()) else { return };
    // A pipe holds less.
    let file = site.lab.file(&bytes(1 << 20, 107));
    let file = file.to_str().expect("plain");
    let mut command = site
        .lab
        .client(["head", "-c", "1MiB", file])
        .expect("the client is built");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = command.spawn().expect("it starts");
    let mut out = client.stdout.take().expect("a pipe");
    out.read_exact(&mut [0]).expect("it has begun");
    let mut kill = Command::new("sh");
    kill.args(["-c", &format!("kill -INT {}", client.id())]);
    until("it ends", Duration::from_secs(60), || {
        let _ = run(&kill);
        client.try_wait().expect("it can be waited for").is_some()
    });
    assert_eq!(client.wait().expect("it has ended").code(), Some(4));
}

#[test]
fn a_command_ends_with_the_program_that_reads_its_output() {
    let test = "a_command_ends_with_the_program_that_reads_its_output";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(4 << 20, 108);
    site.first.put("unread/file", &content);
    let url = site.first.davs("unread/file");
    for (command, arguments) in [("cat", &[&url[..]][..]), ("copy", &[&url, "-"]), ("cat", &["-"])] {
        let arguments = site.lab.client_arguments(command, arguments);
        let mut client = site.lab.client(arguments).expect("the client is built");
        let mut client = client
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = client.stdin.take().expect("a pipe");
        input.write_all(b"x").expect("it reads");
        let mut out = client.stdout.take().expect("a pipe");
        out.read_exact(&mut [0]).expect("it has begun");
        // Its input stays open.
        drop(out);
        let mut said = String::new();
        let mut complaints = client.stderr.take().expect("a pipe");
        complaints.read_to_string(&mut said).expect("text");
        let code = client.wait().expect("it ends").code();
        assert_eq!((code, said.as_str()), (Some(141), ""), "{command}");
        drop(input);
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let test = "output_that_cannot_be_written_is_an_error";
    let Some(site) = available(test, site()) else { return };
    site.first.put("unwritten/file", b"content");
    let (url, file) = (site.first.davs("unwritten/file"), site.lab.file(b"content"));
    let file = file.to_str().expect("plain");
    for arguments in [
        &["ls", file][..],
        &["find", "--json", file],
        &["sum", file],
        &["head", file],
        &["cat", file],
        &["cat", &url],
        &["copy", &url, "-"],
    ] {
        let mut command = site.lab.client(arguments).expect("the client is built");
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let ended = command.stdout(full).output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(28), "{arguments:?}: {said}");
        let says = said.contains("No space left on device") && said.contains("standard output");
        assert!(says && !said.contains("administrator"), "{arguments:?}: {said}");
    }
}

#[test]
fn requests_and_answers_are_shown_without_secrets() {
    let test = "requests_and_answers_are_shown_without_secrets";
    let Some(site) = available(test, site()) else { return };
    let server = Scripted::start(|seen| match seen.path.as_str() {
        "/f" => Reply::whole(seen, "302 Found", &["Location: /g?signature=SECRET"], b""),
        _ => Reply::whole(seen, "200 OK", &["X-Other: SECRET"], b"content"),
    });
    let token = site.lab.file(b"SECRET.a.b");
    let token = token.to_str().expect("plain");
    let shown = site
        .lab
        .run_client("cat", &["-vv", "--token-file", token, &server.url("/f")]);
    let shown = shown.succeeded().said();
    for line in ["> GET http://", "< 302", "< Location: /g\n", "< 200", "< X-Other: …"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("SECRET"), "{shown}");
    site.first.put("shown/f", b"content");
    let (url, log) = (site.first.root("shown/f"), site.lab.fresh("log"));
    let log_file = ["--log-file", log.to_str().expect("plain"), &url];
    for times in 1..=2 {
        let run = site.lab.run_client("stat", &log_file).succeeded();
        assert!(!run.said().contains("> Stat"), "{}", run.said());
        let written = std::fs::read_to_string(&log).expect("a log");
        assert_eq!(written.matches("> Stat root://").count(), times, "{written}");
        assert!(written.matches("< ok").count() >= times, "{written}");
    }
}

#[test]
fn a_command_goes_on_after_a_failure() {
    let test = "a_command_goes_on_after_a_failure";
    let Some(site) = available(test, site()) else { return };
    site.first.put("goes-on/file", b"content");
    let url = |name: &str| site.first.davs(&format!("goes-on/{name}"));
    let list = site.lab.file(format!("{}\n{}\n", url("none"), url("file")).as_bytes());
    let list = list.to_str().expect("plain");
    for (command, words) in [("stat", "  Size: 7\tregular file\n"), ("cat", "content")] {
        for places in [&[&url("none")[..], &url("file")][..], &["--from-file", list]] {
            let run = site.lab.run_client(command, places).failed_with(1);
            assert!(run.text().contains(words), "{}", run.said());
            assert_eq!(
                run.stderr.matches("error: 2 (No such file").count(),
                1,
                "{}",
                run.said()
            );
        }
    }
    let made = site.lab.run_client("mkdir", &[&url("none/new"), &url("new")]);
    assert_eq!(made.failed_with(1).stderr.matches("error").count(), 1);
    assert!(site.first.data().join("goes-on/new").is_dir());
    for command in ["stage", "evict", "archived"] {
        let run = site.lab.run_client(command, &[&url("file"), "/", &url("new")]);
        let run = run.failed_with(1);
        assert_eq!(run.text().matches("\tFAILED\n").count(), 3, "{}", run.said());
        assert_eq!(run.stderr.matches(&format!("crossload {command} error")).count(), 2);
    }
}
