//! `crossload mesh` removes its own files and no others, and names the endpoint that lies.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance::{Lab, Reply, Run, Scripted, adler32, background, last_json, run, until, visible};
use serde_json::Value;
use testkit::{Crossload, Direction, Fault, Nginx, NginxOptions, Relay, available};

use super::mesh::{endpoint, failed};

/// Time for what a busy machine does slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// Our server, and a directory of it for each endpoint.
struct Server {
    lab: Lab,
    ours: Crossload,
}

impl Server {
    fn start(test: &str) -> Option<Self> {
        let lab = available(test, Lab::new("strangers"))?;
        let ours = available(test, lab.crossload(lab.options("ours")))?;
        Some(Self { lab, ours })
    }

    /// A new directory, and its URL in clear text behind a relay with a fault.
    fn relayed(&self, directory: &str, fault: Fault, connections: usize) -> Relayed {
        let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, self.ours.port()))).expect("a relay");
        relay.set_fault(fault, connections);
        Relayed {
            url: format!("http://127.0.0.1:{}/data/{directory}", relay.port()),
            path: self.plain(directory).path,
            relay,
        }
    }

    /// A new directory, and its URL in clear text.
    fn plain(&self, directory: &str) -> Plain {
        let path = self.ours.data().join(directory);
        fs::create_dir_all(&path).expect("a directory");
        let url = self.ours.clear_url(&format!("/data/{directory}"));
        Plain { url, path }
    }

    fn file(&self, modes: &str, endpoints: &[String]) -> PathBuf {
        let mesh = format!("[mesh]\ntitle = \"strangers\"\nsize = \"300KB\"\nmodes = [\"{modes}\"]\n");
        self.lab.file([&[mesh], endpoints].concat().concat().as_bytes())
    }

    fn mesh(&self, file: &Path) -> Command {
        let arguments = self
            .lab
            .client_arguments("mesh", &[file.to_str().expect("plain"), "--json"]);
        self.lab.client(arguments).expect("the client is built")
    }
}

struct Plain {
    url: String,
    path: PathBuf,
}

struct Relayed {
    relay: Relay,
    url: String,
    path: PathBuf,
}

/// The words of the failed cells.
fn words(results: &Value) -> String {
    let cells = results["cells"].as_array().expect("cells").iter();
    let says = cells.filter_map(|cell| cell["outcome"]["says"].as_str());
    says.collect::<Vec<_>>().join("\n")
}

/// A fault lives as long as the test.
fn forever(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

const SOURCE: &str = "roles = [\"source\", \"passive\"]";
const DESTINATION: &str = "roles = [\"destination\", \"passive\"]";

#[test]
fn a_removal_does_not_follow_a_redirect_to_a_file_of_others() {
    let test = "a_removal_does_not_follow_a_redirect_to_a_file_of_others";
    let Some(server) = Server::start(test) else { return };
    let precious = server.ours.data().join("precious");
    fs::write(&precious, b"precious").expect("a file");
    let there = format!("http://127.0.0.1:{}/data/precious", server.ours.port());
    let redirect = format!("HTTP/1.1 307 Elsewhere\r\nLocation: {there}\r\nContent-Length: 0\r\n\r\n");
    let leading = server.relayed("leading", Fault::AnswerAt("DELETE", forever(redirect)), usize::MAX);
    let source = server.plain("source");
    let file = server.file(
        "streamed",
        &[
            endpoint("SOURCE", &[&source.url], SOURCE),
            endpoint("LEADING", &[&leading.url], DESTINATION),
        ],
    );
    let run = run(&server.mesh(&file)).failed_with(1);
    assert_eq!(
        fs::read(&precious).expect("it is still there"),
        b"precious",
        "{}",
        run.said()
    );
    let results = last_json(&run);
    assert_eq!(
        failed(&results),
        ["SOURCE>LEADING http streamed: destination cleanup peer_misbehaved"]
    );
    assert!(words(&results).contains(&there), "{results:#}");
    assert_eq!(visible(&source.path), Vec::<String>::new());
    // What could not be removed is named.
    let left = visible(&leading.path);
    assert!(
        left.len() == 1 && run.stderr.contains(&left[0]),
        "{left:?}\n{}",
        run.stderr
    );
}

#[test]
fn a_file_counts_as_removed_only_if_it_is_not_found_then() {
    let test = "a_file_counts_as_removed_only_if_it_is_not_found_then";
    let Some(server) = Server::start(test) else { return };
    // It has what was stored, says that it removed it, and refuses to be asked then.
    let (is_stored, is_removed) = (AtomicBool::new(false), AtomicBool::new(false));
    let keeping = Scripted::start(move |seen| {
        let content = vec![0; 300_000];
        match seen.method.as_str() {
            "PUT" => {
                is_stored.store(true, Ordering::SeqCst);
                Reply::whole(seen, "201 Created", &[], b"")
            }
            "DELETE" => {
                is_removed.store(true, Ordering::SeqCst);
                Reply::whole(seen, "200 OK", &[], b"")
            }
            "HEAD" if is_removed.load(Ordering::SeqCst) => Reply::whole(seen, "403 Forbidden", &[], b""),
            "HEAD" if is_stored.load(Ordering::SeqCst) => Reply::whole(seen, "200 OK", &[], &content),
            "HEAD" => Reply::whole(seen, "404 Not Found", &[], b""),
            _ => Reply::whole(seen, "405 Method Not Allowed", &[], b""),
        }
    });
    let source = server.plain("source");
    let endpoints = [
        endpoint("SOURCE", &[&source.url], SOURCE),
        endpoint(
            "KEEPING",
            &[&keeping.url("/data")],
            &format!("{DESTINATION}\nchecksums = false"),
        ),
    ];
    let run = run(&server.mesh(&server.file("streamed", &endpoints))).failed_with(1);
    assert_eq!(
        failed(&last_json(&run)),
        ["SOURCE>KEEPING http streamed: destination cleanup peer_forbidden"],
        "{}",
        run.said()
    );
}

#[test]
fn files_that_only_the_servers_can_see_are_named() {
    let test = "files_that_only_the_servers_can_see_are_named";
    let Some(server) = Server::start(test) else { return };
    let (source, destination) = (server.plain("source"), server.plain("destination"));
    let encrypted = server.ours.url("/data/destination");
    let file = server.file(
        "push",
        &[
            endpoint("SOURCE", &[&source.url], "roles = [\"source\", \"active\"]"),
            endpoint("UNKNOWN", &[&encrypted], DESTINATION),
        ],
    );
    // The source trusts the destination, and this client does not.
    let arguments = ["mesh", file.to_str().expect("plain"), "--json"];
    let mut client = server.lab.client(arguments).expect("the client is built");
    let run = run(client.env_remove("X509_CERT_DIR"));
    let left = visible(&destination.path);
    assert!(
        run.code == Some(1) && left.len() == 1 && run.stderr.contains(&left[0]),
        "{left:?}\n{}",
        run.said()
    );
    assert_eq!(visible(&source.path), Vec::<String>::new());
}

/// How a source is untrue.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// It sends other bytes than its checksum says.
    Bytes,
    /// It sends fewer bytes than it stored.
    Length,
    /// Its checksum is that of something else.
    Checksum,
}

/// A server that has what was stored, and sends or says something else.
fn lying(lie: Lie) -> Scripted {
    let stored: Mutex<Option<Vec<u8>>> = Mutex::new(None);
    Scripted::start(move |seen| {
        let mut stored = stored.lock().expect("no panic");
        match (seen.method.as_str(), stored.as_deref()) {
            ("PUT", _) => {
                *stored = Some(seen.body.clone());
                Reply::whole(seen, "201 Created", &[], b"")
            }
            ("DELETE", Some(_)) => {
                *stored = None;
                Reply::whole(seen, "200 OK", &[], b"")
            }
            ("HEAD" | "GET", Some(content)) => {
                let (mut sent, mut sum) = (content.to_vec(), adler32(content));
                match lie {
                    Lie::Bytes => sent[0] ^= 1,
                    Lie::Length => sent.truncate(content.len() - 7),
                    Lie::Checksum => sum = 7,
                }
                Reply::whole(seen, "200 OK", &[&format!("Digest: adler32={sum:08x}")], &sent)
            }
            _ => Reply::whole(seen, "404 Not Found", &[], b""),
        }
    })
}

#[test]
fn a_source_that_is_untrue_is_at_fault_and_not_who_complains() {
    let test = "a_source_that_is_untrue_is_at_fault_and_not_who_complains";
    let Some(server) = Server::start(test) else { return };
    let honest = server.plain("honest");
    for (lie, what) in [
        (Lie::Bytes, "transfer peer_misbehaved"),
        (Lie::Length, "transfer peer_misbehaved"),
        (Lie::Checksum, "checksum checksum_mismatch"),
    ] {
        let liar = lying(lie);
        let endpoints = [
            endpoint("LIAR", &[&liar.url("/data")], SOURCE),
            endpoint("HONEST", &[&honest.url], "roles = [\"destination\", \"active\"]"),
        ];
        let run = run(&server.mesh(&server.file("pull\", \"streamed", &endpoints))).failed_with(1);
        // Of a streamed copy the mesh compares what arrived, and does not ask the source.
        let modes = match lie {
            Lie::Checksum => &["pull"][..],
            _ => &["pull", "streamed"],
        };
        let expected = modes
            .iter()
            .map(|mode| format!("LIAR>HONEST http {mode}: source {what}"));
        let expected = expected.collect::<Vec<_>>();
        assert_eq!(failed(&last_json(&run)), expected, "{lie:?}: {}", run.said());
        assert_eq!(visible(&honest.path), Vec::<String>::new(), "{lie:?}");
    }
}

#[test]
fn a_server_that_copies_a_push_within_itself_keeps_nothing_of_it() {
    let test = "a_server_that_copies_a_push_within_itself_keeps_nothing_of_it";
    let Some(server) = Server::start(test) else { return };
    let nginx = Nginx::start(&NginxOptions {
        name: "nginx".to_owned(),
        directory: server.lab.fresh("nginx"),
        data: server.lab.fresh("nginx-root").join("data"),
        certificate: server.lab.host().clone(),
    });
    let Some(nginx) = available(test, nginx) else { return };
    // The source has another directory than the destination, and one of the same name besides.
    for directory in ["mine", "theirs"] {
        let made = nginx.data().join(directory);
        fs::create_dir_all(&made).expect("a directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&made, open).expect("its permissions");
    }
    fs::create_dir_all(server.ours.data().join("theirs")).expect("a directory");
    let endpoints = [
        endpoint("NGINX", &[&nginx.url("/data/mine")], "roles = [\"source\", \"active\"]"),
        endpoint("OURS", &[&server.ours.url("/data/theirs")], DESTINATION),
    ];
    let run = run(&server.mesh(&server.file("push", &endpoints))).failed_with(1);
    assert_eq!(
        failed(&last_json(&run)),
        ["NGINX>OURS https push: source transfer peer_misbehaved"],
        "{}",
        run.said()
    );
    for directory in ["mine", "theirs"] {
        assert_eq!(
            visible(&nginx.data().join(directory)),
            Vec::<String>::new(),
            "{directory}"
        );
    }
}

#[test]
fn runs_with_different_state_directories_leave_each_others_files() {
    let test = "runs_with_different_state_directories_leave_each_others_files";
    let Some(server) = Server::start(test) else { return };
    let source = server.plain("source");
    // The first run waits for it, and the second one leaves it out.
    let slow = server.relayed("slow", Fault::StallAfter(Direction::ToClient, 0), usize::MAX);
    let fast = server.plain("fast");
    let endpoints = [
        endpoint("SOURCE", &[&source.url], SOURCE),
        endpoint("SLOW", &[&slow.url], DESTINATION),
        endpoint("FAST", &[&fast.url], DESTINATION),
    ];
    let file = server.file("streamed", &endpoints);
    let with_state = |name: &str| {
        let mut command = server.mesh(&file);
        command.env("XDG_STATE_HOME", server.lab.scratch().path().join(name));
        command
    };
    let mut first = background(&mut with_state("one"), server.lab.scratch()).expect("it starts");
    until("a file is stored", PATIENCE, || visible(&source.path).len() == 1);
    let seeds = visible(&source.path);
    let second: Run = run(with_state("other").args(["--only", "FAST"])).succeeded();
    assert!(!second.stderr.contains("an interrupted run left"), "{}", second.said());
    assert_eq!(visible(&source.path), seeds, "{}", second.said());
    // Those with the same one do not run together.
    let third = run(&with_state("one")).failed_with(22);
    assert!(
        third.stderr.contains("another process runs the mesh"),
        "{}",
        third.said()
    );
    slow.relay.heal();
    let status = first.interrupt().expect("it ends");
    assert_eq!(status.code(), Some(4), "{}", first.stderr());
    for path in [&source.path, &slow.path, &fast.path] {
        assert_eq!(visible(path), Vec::<String>::new());
    }
}
