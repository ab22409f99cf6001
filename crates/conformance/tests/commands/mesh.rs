//! `crossload mesh`: what is planted is named on its side and in its phase, and nothing is left.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use conformance::{Lab, Run, Slot, background, last_json, run, shared, until, visible};
use serde_json::Value;
use testkit::{Crossload, Direction, Fault, Nginx, NginxOptions, Process, Relay, Xrootd, XrootdAccess, available};

/// Time for what a busy machine does slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// The servers of the meshes.
struct Servers {
    lab: Lab,
    ours: Crossload,
    theirs: Xrootd,
    nginx: Nginx,
}

static SERVERS: Slot<Servers> = Mutex::new(Weak::new());

fn servers(test: &str) -> Option<Arc<Servers>> {
    let start = || {
        let lab = Lab::new("mesh")?;
        let ours = lab.crossload(lab.options("ours"))?;
        let theirs = lab.xrootd("theirs", XrootdAccess::Open)?;
        let nginx = Nginx::start(&NginxOptions {
            name: "nginx".to_owned(),
            directory: lab.fresh("nginx"),
            data: lab.fresh("nginx-root").join("data"),
            certificate: lab.host().clone(),
        })?;
        Ok(Servers {
            lab,
            ours,
            theirs,
            nginx,
        })
    };
    available(test, shared(&SERVERS, start))
}

impl Servers {
    /// A directory of this name on each server, made anew.
    fn directories(&self, name: &str) -> [PathBuf; 3] {
        let made = [self.ours.data(), self.theirs.data(), self.nginx.data()].map(|data| data.join(name));
        for directory in &made {
            fs::create_dir_all(directory).expect("a directory");
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            fs::set_permissions(directory, open).expect("its permissions");
        }
        made
    }

    /// A relay before our server, and the URL of a directory behind it, in clear text.
    fn relayed(&self, directory: &str, fault: Fault) -> (Relay, String) {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ours.port()));
        let relay = Relay::start(server).expect("a relay");
        relay.set_fault(fault, usize::MAX);
        let url = format!("http://127.0.0.1:{}/data/{directory}", relay.port());
        (relay, url)
    }

    /// The URLs of a directory over TLS: of ours, of theirs and of nginx.
    fn urls(&self, directory: &str) -> [String; 3] {
        let path = format!("/data/{directory}");
        [self.ours.url(&path), self.theirs.url(&path), self.nginx.url(&path)]
    }

    /// Those in the XRootD protocol, of ours and of theirs.
    fn root_urls(&self, directory: &str) -> [String; 2] {
        let path = format!("/data/{directory}");
        [self.ours.root_url(&path), self.theirs.root_url(&path)]
    }

    fn file(&self, lines: &[&str]) -> PathBuf {
        self.lab.file(lines.concat().as_bytes())
    }

    fn mesh(&self, file: &Path, arguments: &[&str]) -> Run {
        let file = file.to_str().expect("plain");
        self.lab.run_client("mesh", &[&[file][..], arguments].concat())
    }

    fn start_mesh(&self, file: &Path) -> Process {
        let arguments = self.lab.client_arguments("mesh", &[file.to_str().expect("plain")]);
        let mut command = self.lab.client(arguments).expect("the client is built");
        background(&mut command, self.lab.scratch()).expect("it starts")
    }
}

pub(crate) fn endpoint(name: &str, urls: &[&str], more: &str) -> String {
    format!("[[endpoint]]\nname = \"{name}\"\nurls = {urls:?}\n{more}\n")
}

/// The cells that failed, such as `A>B https pull: destination open peer_unsupported`.
pub(crate) fn failed(results: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cells = results["cells"].as_array().expect("cells");
    let mut failed: Vec<String> = cells
        .iter()
        .filter(|cell| cell["outcome"]["is"] == "failed")
        .map(|cell| {
            let (link, outcome) = (&cell["link"], &cell["outcome"]);
            let [source, destination, protocol, mode] =
                ["source", "destination", "destination_protocol", "mode"].map(|key| text(&link[key]));
            let [side, phase, code] = ["side", "phase", "code"].map(|key| text(&outcome[key]));
            format!("{source}>{destination} {protocol} {mode}: {side} {phase} {code}")
        })
        .collect();
    failed.sort();
    failed
}

#[test]
fn what_is_planted_is_named_on_its_side_and_in_its_phase() {
    let test = "what_is_planted_is_named_on_its_side_and_in_its_phase";
    let Some(servers) = servers(test) else { return };
    let directories = servers.directories("planted");
    let kept = servers.directories("kept");
    let refused = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    let (_keeping, keeping) = servers.relayed("kept", Fault::AnswerAt("DELETE", refused));
    let short = "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nConnection: close\r\n\r\nshort";
    let (_cutting, cutting) = servers.relayed("planted", Fault::AnswerAt("GET", short));
    let [ours, theirs, nginx] = servers.urls("planted");
    let [ours_root, theirs_root] = servers.root_urls("planted");
    let rest = "[[downtime]]\nendpoint = \"RESTING\"\nfrom = \"2020-01-01T00:00:00Z\"\n\
        until = \"2100-01-01T00:00:00Z\"\nreason = \"new disks\"\n";
    let file = servers.file(&[
        "[mesh]\ntitle = \"planted\"\nsize = \"300KB\"\nparallel = 6\n",
        &endpoint("OURS", &[&ours, &ours_root], ""),
        &endpoint("THEIRS", &[&theirs, &theirs_root], ""),
        &endpoint("NGINX", &[&nginx], ""),
        &endpoint("KEEPING", &[&keeping], "roles = [\"destination\", \"passive\"]"),
        &endpoint("CUTTING", &[&cutting], "roles = [\"source\", \"passive\"]"),
        &endpoint("RESTING", &[&ours], ""),
        rest,
    ]);
    let history = servers.lab.fresh("history.sqlite");
    let history = history.to_str().expect("plain");
    let run = servers.mesh(&file, &["--json", "--history", history]).failed_with(1);
    let results = last_json(&run);
    let exported = servers.lab.client(["history", "export", "--history", history, "1"]);
    assert_eq!(last_json(&conformance::run(&exported.expect("built"))), results);
    assert_eq!(failed(&results), PLANTED, "{}\n{results:#}", run.stderr);
    assert_eq!(results["is_complete"], true);
    let software = results["endpoints"][1]["software"].as_str();
    assert!(
        software.is_some_and(|words| words.starts_with("XRootD v")),
        "{results:#}"
    );
    rests(&results);
    shows_again(&servers, &results);
    for directory in &directories {
        assert_eq!(visible(directory), Vec::<String>::new());
    }
    // What cannot be removed is named.
    let left = visible(&kept[0]);
    assert_eq!(left.len(), 5, "{left:?}");
    for name in left {
        assert!(
            run.stderr.contains(&format!("/data/kept/{name} cannot be removed: ")),
            "{}",
            run.stderr
        );
    }
}

/// What fails. Nginx knows no third-party copies and has no checksums: it refuses to fetch, and
/// takes a push for a copy within itself. No other endpoint fails.
const PLANTED: [&str; 21] = [
    "CUTTING>KEEPING http streamed: source transfer peer_closed",
    "CUTTING>NGINX https pull: destination open peer_failed",
    "CUTTING>NGINX https streamed: source transfer peer_closed",
    "CUTTING>OURS https pull: source open peer_failed",
    "CUTTING>OURS https streamed: source transfer peer_closed",
    "CUTTING>THEIRS https pull: source transfer peer_failed",
    "CUTTING>THEIRS https streamed: source transfer peer_closed",
    "NGINX>KEEPING http push: source open peer_failed",
    "NGINX>KEEPING http streamed: destination cleanup peer_forbidden",
    "NGINX>OURS https push: source transfer peer_misbehaved",
    "NGINX>THEIRS https push: source transfer peer_misbehaved",
    "OURS>KEEPING http push: destination cleanup peer_forbidden",
    "OURS>KEEPING http streamed: destination cleanup peer_forbidden",
    "OURS>NGINX https pull: destination open peer_failed",
    "OURS>NGINX https push: destination checksum checksum_unavailable",
    "OURS>NGINX https streamed: destination checksum checksum_unavailable",
    "THEIRS>KEEPING http push: destination cleanup peer_forbidden",
    "THEIRS>KEEPING http streamed: destination cleanup peer_forbidden",
    "THEIRS>NGINX https pull: destination open peer_failed",
    "THEIRS>NGINX https push: destination checksum checksum_unavailable",
    "THEIRS>NGINX https streamed: destination checksum checksum_unavailable",
];

/// An endpoint in downtime is not tried.
fn rests(results: &Value) {
    let touches = |cell: &&Value| {
        ["source", "destination"]
            .iter()
            .any(|end| cell["link"][end] == "RESTING")
    };
    let cells: Vec<&Value> = results["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter(touches)
        .collect();
    let skipped = cells.iter().filter(|cell| cell["outcome"]["is"] == "skipped");
    assert!(skipped.clone().count() > 0, "{cells:#?}");
    for cell in skipped {
        assert_eq!(cell["outcome"]["why"], "RESTING is in downtime: new disks");
    }
    assert!(cells.iter().all(|cell| cell["copies"] == 0), "{cells:#?}");
}

/// The lines of a failure show it again, and leave nothing.
fn shows_again(servers: &Servers, results: &Value) {
    let mut cells = results["cells"].as_array().expect("cells").iter();
    let is_it = |cell: &&Value| {
        let link = &cell["link"];
        (&link["source"], &link["destination"], &link["mode"]) == (&"OURS".into(), &"NGINX".into(), &"pull".into())
    };
    let cell = cells.find(is_it).expect("the cell");
    let lines = &cell["outcome"]["reproduce"];
    let shown = run(&servers.lab.pasted("-c", lines));
    assert!(shown.text().contains("400 Bad Request"), "{lines:#?}\n{}", shown.said());
}

#[test]
fn nothing_is_left_after_an_interruption_and_a_killed_run_is_cleaned_up_by_the_next() {
    let test = "nothing_is_left_after_an_interruption_and_a_killed_run_is_cleaned_up_by_the_next";
    let Some(servers) = servers(test) else { return };
    let [ours, theirs, _] = servers.directories("stopped");
    let (relay, slow) = servers.relayed("stopped", Fault::StallAfter(Direction::ToClient, 0));
    let file = servers.file(&[
        "[mesh]\ntitle = \"stopped\"\nsize = \"100KB\"\nmodes = [\"streamed\"]\nprotocols = [\"http\"]\n",
        &endpoint("THEIRS", &[&servers.urls("stopped")[1]], ""),
        &endpoint("SLOW", &[&slow], "roles = [\"destination\"]"),
    ]);
    let has_seed = || !visible(&theirs).is_empty();
    let mut mesh = servers.start_mesh(&file);
    until("a file is stored", PATIENCE, has_seed);
    // One run of a mesh at a time.
    let second = servers.mesh(&file, &[]).failed_with(22);
    assert!(
        second.stderr.contains("another process runs the mesh"),
        "{}",
        second.said()
    );
    relay.heal();
    let status = mesh.interrupt().expect("it ends");
    let said = mesh.stderr();
    assert_eq!(status.code(), Some(4), "{said}");
    assert!(said.contains("interrupted; the test files were removed"), "{said}");
    assert_eq!((visible(&ours), visible(&theirs)), (Vec::new(), Vec::new()));

    relay.set_fault(Fault::StallAfter(Direction::ToClient, 0), usize::MAX);
    let mut mesh = servers.start_mesh(&file);
    until("a file is stored", PATIENCE, has_seed);
    mesh.kill_hard();
    relay.heal();
    let former = visible(&theirs);
    assert!(former[0].starts_with("crossload-mesh-"), "{former:?}");
    // Files of other meshes, and names that only look alike, stay.
    let (prefix, rest) = former[0].split_at("crossload-mesh-".len());
    let foreign = [
        format!("{prefix}{}{}", "0123456789abcdef", &rest[16..]),
        format!("{}-copy", former[0]),
        format!("{}.bak", former[0]),
    ];
    for name in &foreign {
        fs::write(theirs.join(name), b"foreign").expect("a file");
    }
    let run = servers.mesh(&file, &[]).succeeded();
    assert!(
        run.stderr
            .contains("THEIRS: removed 1 file that an interrupted run left"),
        "{}",
        run.said()
    );
    let mut left = visible(&theirs);
    left.sort();
    let mut kept = foreign.to_vec();
    kept.sort();
    assert_eq!((left, visible(&ours)), (kept, Vec::new()));
}

/// A stress test that goes on until a limit or the end of `hold`.
fn stress(servers: &Servers, file: &Path, hold: &str, more: &[&str]) -> (Run, Value) {
    let usual = [
        "--copies", "10", "--per", "1s", "--ramp", "1s", "--hold", hold, "--mode", "pull",
    ];
    let arguments = [&[file.to_str().expect("plain"), "--json"], &usual[..], more].concat();
    let run = servers.lab.run_client("stress", &arguments);
    let results = last_json(&run);
    (run, results)
}

/// The cell of a link.
fn cell<'a>(results: &'a Value, source: &str, destination: &str) -> &'a Value {
    let mut cells = results["cells"].as_array().expect("cells").iter();
    let is_it = |cell: &&Value| cell["link"]["source"] == source && cell["link"]["destination"] == destination;
    cells.find(is_it).unwrap_or_else(|| panic!("{results:#}"))
}

#[test]
fn a_stress_test_counts_bytes_and_reasons_and_stops_at_its_limits() {
    let test = "a_stress_test_counts_bytes_and_reasons_and_stops_at_its_limits";
    let Some(servers) = servers(test) else { return };
    let directories = servers.directories("stressed");
    let [ours, theirs, nginx] = servers.urls("stressed");
    let file = servers.file(&[
        "[mesh]\ntitle = \"stressed\"\n",
        &endpoint("OURS", &[&ours], ""),
        &endpoint("THEIRS", &[&theirs], ""),
        &endpoint("NGINX", &[&nginx], ""),
    ]);
    let pair = ["--only", "THEIRS", "--topology", "star:OURS"];
    let limited = [&pair[..], &["--size", "100KB", "--max-bytes", "800KB"]].concat();
    let (run, results) = stress(&servers, &file, "10m", &limited);
    assert_eq!(run.code, Some(0), "{}", run.said());
    assert!(run.stderr.contains("the limit of bytes is reached"), "{}", run.stderr);
    assert_eq!(
        (&results["instrument"], &results["is_complete"]),
        (&"stress".into(), &false.into())
    );
    assert_eq!(results["ended_by"], "the limit of bytes is reached");
    let both = [cell(&results, "OURS", "THEIRS"), cell(&results, "THEIRS", "OURS")];
    let sum = |key: &str| both.iter().filter_map(|cell| cell[key].as_u64()).sum::<u64>();
    assert_eq!((sum("copies"), sum("bytes")), (8, 800_000), "{results:#}");
    let rates = both.iter().filter_map(|cell| cell["rates"].as_array()).flatten();
    let over_time: u64 = rates.filter_map(|point| point["bytes"].as_u64()).sum();
    assert_eq!(over_time, 800_000, "{results:#}");

    // Nginx does not fetch.
    let refused = [
        "--only",
        "NGINX",
        "--topology",
        "star:OURS",
        "--size",
        "10KB",
        "--max-failures",
        "3",
    ];
    let (run, results) = stress(&servers, &file, "10m", &refused);
    assert_eq!(run.code, Some(1), "{}", run.said());
    let failures = cell(&results, "OURS", "NGINX")["failures"]
        .as_array()
        .expect("failures");
    assert_eq!(failures.len(), 1, "{results:#}");
    assert_eq!(results["ended_by"], "the limit of failures is reached");
    assert!(
        failures[0]["count"].as_u64().is_some_and(|count| count >= 3),
        "{results:#}"
    );
    assert_eq!(failures[0]["failure"]["side"], "destination", "{results:#}");
    for directory in &directories {
        assert_eq!(visible(directory), Vec::<String>::new());
    }
}

#[test]
fn a_stress_test_begins_no_copy_to_an_endpoint_without_room() {
    let test = "a_stress_test_begins_no_copy_to_an_endpoint_without_room";
    let Some(servers) = servers(test) else { return };
    servers.directories("roomy");
    let mut options = servers.lab.options("full");
    options.exports[0].quota_bytes = 1_000_000;
    let Some(full) = available(test, servers.lab.crossload(options)) else {
        return;
    };
    let file = servers.file(&[
        "[mesh]\ntitle = \"full\"\n",
        &endpoint("OURS", &[&servers.urls("roomy")[0]], ""),
        // The room is that of the directory above, until the first file makes this one.
        &endpoint(
            "FULL",
            &[&full.url("/data/new/one")],
            "roles = [\"destination\", \"active\"]",
        ),
    ]);
    let (run, results) = stress(&servers, &file, "1s", &["--size", "400KB"]);
    assert_eq!(run.code, Some(2), "{}", run.said());
    let cell = cell(&results, "OURS", "FULL");
    let why = cell["outcome"]["why"].as_str().unwrap_or_default();
    assert!(why.starts_with("the destination has no room: "), "{results:#}");
    assert_eq!(visible(full.data()), Vec::<String>::new());
    // What it would move.
    let file = file.to_str().expect("plain");
    let told = servers.lab.run_client("stress", &[file, "--dry-run"]).succeeded();
    assert!(
        told.text().contains("1 link: 270 transfers each, 270 in all"),
        "{}",
        told.said()
    );
    let limited = servers
        .lab
        .run_client("stress", &[file, "--dry-run", "--max-bytes", "9GB"]);
    let said = limited.succeeded().text();
    assert!(said.contains("270 transfers each, 2 in all with --max-bytes"), "{said}");
    for limit in ["--max-bytes", "--max-failures"] {
        servers
            .lab
            .run_client("stress", &[file, "--dry-run", limit, "0"])
            .failed_with(22);
    }
    // A mesh of one endpoint has nothing to try.
    let alone = servers.file(&[
        "[mesh]\ntitle = \"alone\"\n",
        &endpoint("OURS", &[&servers.urls("roomy")[0]], ""),
    ]);
    let said = servers.mesh(&alone, &[]).failed_with(2).said();
    assert!(said.contains("nothing was tried"), "{said}");
}
