//! Uploads of standard input, whose size nothing says: over every protocol, and what is left of one
//! that does not come to its end.

use std::fs::File;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use conformance::{bytes, parts, run, until};
use testkit::available;

use crate::client::site;

const PATIENCE: Duration = Duration::from_secs(60);

/// How an upload ends before its input does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The input cannot be read.
    Unreadable,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-C on a terminal: the program that writes the input ends too.
    Group,
    /// The client is killed.
    Kill,
}

/// Starts an upload whose input goes on.
fn begin(command: &mut Command, is_under_way: impl FnMut() -> bool) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut client = command.spawn().expect("it starts");
    let input = client.stdin.as_mut().expect("a pipe");
    input.write_all(&bytes(3 << 20, 401)).expect("it reads");
    until("a part is stored", PATIENCE, is_under_way);
    client
}

#[test]
fn an_input_of_unknown_size_is_stored_whole_or_not_at_all() {
    let test = "an_input_of_unknown_size_is_stored_whole_or_not_at_all";
    let Some(site) = available(test, site()) else { return };
    let (lab, server) = (&site.lab, &site.second);
    let content = bytes((3 << 20) + 17, 402);
    for (scheme, url) in [
        ("http", server.clear_url("input")),
        ("davs", server.davs("input")),
        ("root", server.root("input")),
        ("roots", server.roots("input")),
    ] {
        for (name, size) in [("empty", 0), ("whole", content.len())] {
            let stored = format!("input/{scheme}-{name}");
            let target = format!("{url}/{scheme}-{name}");
            let put = lab.run_client_with_input("put", &["-p", "-", &target], &content[..size]);
            put.succeeded();
            assert!(server.stored(&stored).as_deref() == Some(&content[..size]), "{target}");
        }
        for end in [End::Unreadable, End::Interrupt, End::Group, End::Kill] {
            let (name, target) = (format!("input/{scheme}-{end:?}"), format!("{url}/{scheme}-{end:?}"));
            let mut command = lab
                .client(lab.client_arguments("copy", &["-", &target]))
                .expect("the client is built");
            if end == End::Unreadable {
                // A directory can be opened, and not be read.
                let directory = File::open(lab.scratch().path()).expect("a directory");
                let ended = command.stdin(directory).output().expect("it ends");
                let said = String::from_utf8_lossy(&ended.stderr);
                assert!(ended.status.code().is_some_and(|code| code != 0), "{target}: {said}");
                assert!(said.contains("standard input"), "{target}: {said}");
            } else {
                let mut client = begin(&mut command, || !parts(server.data()).is_empty());
                let mut input = client.stdin.take();
                let signal = if end == End::Kill { "KILL" } else { "INT" };
                let kill = format!("kill -{signal} {}", client.id());
                run(Command::new("sh").args(["-c", &kill])).succeeded();
                if end == End::Group {
                    input = None;
                }
                let status = client.wait().expect("it ends");
                assert_ne!(status.code(), Some(0), "{target}");
                drop(input);
            }
            until("nothing is left", PATIENCE, || parts(server.data()).is_empty());
            assert_eq!(server.stored(&name), None, "{target}");
        }
    }
}
