//! `crossload bench` against ourselves, Debian's XRootD and nginx: small files and short samples,
//! because what is looked at is not how fast anybody is but whether all of it is measured, written,
//! compared, and cleaned up.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use conformance::{Endpoint, Lab, Run, background, run, run_with_input, until, visible};
use serde_json::Value;
use testkit::{Access, Direction, Fault, Nginx, NginxOptions, Relay, Result, XrootdAccess, available};

/// Short enough for a test, and several repetitions.
const BULK: [&str; 10] = ["-r", "2", "-c", "1,3", "-n", "1,2", "-s", "300KiB", "--volume", "1MiB"];

/// Ours and, where it is installed, what it stands beside.
struct Bench {
    lab: Lab,
    ours: Endpoint,
    xrootd: Endpoint,
    nginx: Nginx,
}

impl Bench {
    fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let ours = Endpoint::Crossload(Box::new(lab.crossload(lab.options("ours"))?));
        let xrootd = Endpoint::Xrootd(Box::new(lab.xrootd("xrootd", XrootdAccess::OpenWithMacaroons)?));
        let directory = lab.fresh("nginx");
        let nginx = Nginx::start(&NginxOptions {
            name: "nginx".to_owned(),
            data: directory.join("files/data"),
            directory,
            certificate: lab.host().clone(),
        })?;
        Ok(Self {
            lab,
            ours,
            xrootd,
            nginx,
        })
    }

    /// All over both protocols, in pairs of one name.
    fn targets(&self) -> Vec<String> {
        vec![
            format!("ours={}", self.ours.url("")),
            format!("ours={}", self.ours.root("")),
            format!("xrootd={}", self.xrootd.url("")),
            format!("xrootd={}", self.xrootd.root("")),
            format!("nginx={}", self.nginx.url("/data")),
        ]
    }

    /// Nothing of the run is left anywhere.
    fn is_clean(&self) {
        for directory in [self.ours.data(), self.xrootd.data(), self.nginx.data()] {
            assert_eq!(visible(directory), Vec::<String>::new(), "{}", directory.display());
        }
    }
}

fn command(lab: &Lab, load: &str, arguments: &[&str]) -> Command {
    let ca = lab.authority().ca_file().to_string_lossy().into_owned();
    let all = ["bench", load, "--cacert", &ca]
        .into_iter()
        .chain(arguments.iter().copied());
    lab.client(all).expect("the client is built")
}

fn bench(lab: &Lab, load: &str, arguments: &[&str]) -> Run {
    run(&command(lab, load, arguments))
}

/// With `targets` behind `arguments`.
fn bench_all(lab: &Lab, load: &str, arguments: &[&str], targets: &[String]) -> Run {
    let targets = targets.iter().map(String::as_str);
    bench(lab, load, &arguments.iter().copied().chain(targets).collect::<Vec<_>>())
}

fn report(file: &Path) -> Value {
    let text = fs::read_to_string(file).expect("a report");
    serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{cause}: {text}"))
}

/// The rows of the table of this title.
fn rows<'a>(report: &'a Value, title: &str) -> &'a [Value] {
    let mut tables = report["tables"].as_array().into_iter().flatten();
    let table = tables.find(|table| table["title"] == title);
    let rows = table.and_then(|table| table["rows"].as_array());
    rows.unwrap_or_else(|| panic!("no {title} in {report:#}"))
}

/// The labels of a target's rows that have `samples` figures, each once.
fn labels(rows: &[Value], target: &str, samples: usize) -> Vec<String> {
    let is_whole = |row: &&Value| {
        row["target"] == target
            && row["samples"].as_array().is_some_and(|all| all.len() == samples)
            && row["failures"].as_array().is_some_and(Vec::is_empty)
    };
    let mut labels: Vec<String> = rows
        .iter()
        .filter(is_whole)
        .map(|row| row["label"].as_str().unwrap_or_default().to_owned())
        .collect();
    labels.dedup();
    labels.sort();
    labels.dedup();
    labels
}

struct Files {
    json: PathBuf,
    csv: PathBuf,
    html: PathBuf,
}

impl Files {
    fn new(lab: &Lab) -> Self {
        let directory = lab.fresh("report");
        fs::create_dir_all(&directory).expect("a directory");
        let file = |name: &str| directory.join(name);
        Self {
            json: file("report.json"),
            csv: file("report.csv"),
            html: file("report.html"),
        }
    }

    fn options(&self) -> Vec<&str> {
        let text = |path: &'static str, file: &PathBuf| [path.to_owned(), file.display().to_string()];
        let all = [
            text("--json", &self.json),
            text("--csv", &self.csv),
            text("--html", &self.html),
        ];
        all.concat().into_iter().map(|word| &*word.leak()).collect()
    }
}

#[test]
fn bulk_measures_all_side_by_side_and_a_later_run_is_compared() {
    let test = "bulk_measures_all_side_by_side_and_a_later_run_is_compared";
    let Some(mut site) = available(test, Bench::start("bench-bulk")) else {
        return;
    };
    let files = Files::new(&site.lab);
    let pids = [
        format!("--pid=ours={}", site.ours.process().id()),
        format!("--pid=xrootd={}", site.xrootd.process().id()),
        format!("--pid=nginx={}", site.nginx.process().id()),
    ];
    let mut arguments = [&BULK[..], &files.options()].concat();
    arguments.extend(pids.iter().map(String::as_str));
    let run = bench_all(&site.lab, "bulk", &arguments, &site.targets()).succeeded();
    site.is_clean();

    let found = report(&files.json);
    let throughput = rows(&found, "Throughput");
    let both = [
        "GET https",
        "GET https, 2 streams",
        "GET root",
        "GET root, 2 streams",
        "PUT https",
        "PUT root",
    ];
    for target in ["ours", "xrootd"] {
        assert_eq!(labels(throughput, target, 2), both, "{target}: {}", run.said());
    }
    assert_eq!(
        labels(throughput, "nginx", 2),
        ["GET https", "GET https, 2 streams", "PUT https"]
    );
    assert_eq!(found["interrupted"], false);
    assert_eq!(
        found["noise"]["rows"].as_u64().map(|rows| rows >= 30),
        Some(true),
        "{found:#}"
    );

    let text = run.text();
    assert!(
        text.contains("xrootd ÷ ours") && text.contains("nginx ÷ ours"),
        "{text}"
    );
    assert!(
        run.stderr.contains("of 60") && run.stderr.contains("left"),
        "{}",
        run.stderr
    );
    let csv = fs::read_to_string(&files.csv).expect("the CSV");
    assert_eq!(csv.matches("\r\nrow,now,bulk,Throughput,").count(), 30, "{csv}");
    let html = fs::read_to_string(&files.html).expect("the page");
    assert!(
        html.starts_with("<!DOCTYPE html>") && html.contains("<polyline"),
        "{html}"
    );

    // One target alone, beside what it was, and beside what another was.
    let before = files.json.to_str().expect("plain");
    let get = [
        "--quiet", "--only", "get", "-r", "2", "-c", "1,3", "-s", "300KiB", "--volume", "1MiB",
    ];
    let arguments = [&get[..], &["--compare", before]].concat();
    let later = bench_all(&site.lab, "bulk", &arguments, &site.targets()[..1]).succeeded();
    let text = later.text();
    assert!(text.contains("ours: now ÷ earlier"), "{text}");
    assert!(
        text.contains("xrootd, earlier") && text.contains("Compared with the run of"),
        "{text}"
    );
    assert!(later.stderr.is_empty(), "{}", later.stderr);
}

#[test]
fn metadata_asks_over_each_protocol_in_its_own_ways() {
    let test = "metadata_asks_over_each_protocol_in_its_own_ways";
    let Some(site) = available(test, Bench::start("bench-metadata")) else {
        return;
    };
    let files = Files::new(&site.lab);
    let short = ["-q", "-r", "2", "-c", "1,2", "--files", "300", "--during", "100ms"];
    let run = bench_all(
        &site.lab,
        "metadata",
        &[&short[..], &files.options()].concat(),
        &site.targets(),
    )
    .succeeded();
    site.is_clean();
    let found = report(&files.json);
    let requests = rows(&found, "Requests");
    let both = [
        "HEAD https",
        "PROPFIND depth 0 https",
        "stat root",
        "stat root, pipelined",
    ];
    for target in ["ours", "xrootd"] {
        assert_eq!(labels(requests, target, 2), both, "{target}: {}", run.said());
        let listed = labels(rows(&found, "Entries of a directory that is listed"), target, 2);
        assert_eq!(
            listed,
            ["PROPFIND depth 1 https", "dirlist root"],
            "{target}: {}",
            run.said()
        );
    }
    assert_eq!(labels(requests, "nginx", 2), ["HEAD https"]);
    assert!(run.text().contains("nginx offers no WebDAV"), "{}", run.said());
}

#[test]
fn files_that_are_there_can_be_asked_about_without_writing() {
    let test = "files_that_are_there_can_be_asked_about_without_writing";
    let lab = available(test, Lab::new("bench-existing"));
    let Some((lab, server)) = lab.and_then(|lab| {
        let mut options = lab.options("read-only");
        options.exports[0].anonymous = Access::Read;
        let server = available(test, lab.crossload(options))?;
        Some((lab, Endpoint::Crossload(Box::new(server))))
    }) else {
        return;
    };
    for index in 0..5 {
        server.put(&format!("file-{index}"), &conformance::bytes(300_000, index));
    }
    let before = visible(server.data());
    let short = ["-q", "-r", "1", "-c", "1", "--during", "50ms", "--existing"];
    let targets = [format!("se={}", server.url("")), format!("se={}", server.root(""))];
    let run = bench_all(&lab, "metadata", &short, &targets).succeeded();
    assert!(run.text().contains("stat root, pipelined"), "{}", run.said());

    // Without it, what cannot be done is said: to whom, at what, and what to do.
    let run = bench_all(&lab, "bulk", &BULK, &targets).failed_with(1);
    let text = run.text();
    assert!(
        text.contains("failed: se, GET https; GET https, 2 streams: making a directory for the run: server "),
        "{text}"
    );
    assert!(text.contains("give --file URL to read a file that is there"), "{text}");

    let files = Files::new(&lab);
    let file = server.url("file-0");
    let arguments = [&BULK[..], &["--only", "get", "--file", &file], &files.options()].concat();
    bench_all(&lab, "bulk", &arguments, &targets[..1]).succeeded();
    assert_eq!(labels(rows(&report(&files.json), "Throughput"), "se", 2).len(), 2);
    assert_eq!(visible(server.data()), before);
}

/// The samples of a target's only row of this label in a table, with so many of `what` beside it.
fn beside(report: &Value, title: &str, (target, label): (&str, &str), (what, count): (&str, u64)) -> Vec<f64> {
    let is_it = |row: &&Value| {
        row["target"] == target && row["label"] == label && row["parameters"][what].as_f64() == Some(count as f64)
    };
    let row = rows(report, title).iter().find(is_it);
    let samples = row.and_then(|row| row["samples"].as_array());
    samples.into_iter().flatten().filter_map(Value::as_f64).collect()
}

#[test]
fn small_questions_are_timed_beside_transfers_of_all() {
    let test = "small_questions_are_timed_beside_transfers_of_all";
    let Some(site) = available(test, Bench::start("bench-mixed")) else {
        return;
    };
    let files = Files::new(&site.lab);
    let short = ["-q", "-r", "2", "-c", "0,2", "--during", "100ms", "-s", "2MiB"];
    let arguments = [&short[..], &files.options()].concat();
    let run = bench_all(&site.lab, "mixed", &arguments, &site.targets()).succeeded();
    site.is_clean();
    let found = report(&files.json);
    let both = [("HEAD https", "https"), ("stat root", "root")];
    let ways = [("GET", "downloads", ""), ("PUT", "uploads", " beside uploads")];
    let targets = [("ours", &both[..]), ("xrootd", &both), ("nginx", &both[..1])];
    for (way, what, words) in ways {
        for (target, (question, protocol)) in targets
            .iter()
            .flat_map(|(target, all)| all.iter().map(move |one| (*target, *one)))
        {
            for count in [0, 2] {
                let of = |title: &str| {
                    let title = format!("Wait for a small answer{words}: {title}");
                    beside(&found, &title, (target, question), (what, count))
                };
                let middle = of("median");
                let late = of("99th percentile");
                assert_eq!(
                    (middle.len(), late.len()),
                    (2, 2),
                    "{target} {question}: {}",
                    run.said()
                );
                let is_sound = middle
                    .iter()
                    .zip(&late)
                    .all(|(middle, late)| 0.0 < *middle && middle <= late);
                assert!(is_sound, "{target} {question}: {middle:?} {late:?}");
            }
            let (title, transfer) = (format!("Throughput of the {what}"), format!("{way} {protocol}"));
            let moved = |count| beside(&found, &title, (target, &transfer), (what, count)).len();
            assert_eq!((moved(0), moved(2)), (0, 2), "{target} {transfer}: {}", run.said());
        }
    }
}

#[test]
fn the_wait_for_a_small_answer_is_the_one_that_there_was() {
    let test = "the_wait_for_a_small_answer_is_the_one_that_there_was";
    let Some((lab, server)) = conformance::alone(test, |options| options.exports[0].anonymous = Access::Write) else {
        return;
    };
    let relay = Relay::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).expect("a relay");
    relay.set_fault(Fault::Delay(Direction::ToClient, Duration::from_millis(40)), usize::MAX);
    let files = Files::new(&lab);
    let targets = [
        format!("far=http://127.0.0.1:{}/data", relay.port()),
        format!("near=http://127.0.0.1:{}/data", server.port()),
    ];
    let short = [
        "-q", "-r", "3", "-c", "0,1", "--only", "get", "--during", "300ms", "-s", "64KiB",
    ];
    bench_all(&lab, "mixed", &[&short[..], &files.options()].concat(), &targets).succeeded();
    let found = report(&files.json);
    for downloads in [0, 1] {
        let shortest = |target: &str| {
            let waits_ms = beside(
                &found,
                "Wait for a small answer: median",
                (target, "HEAD http"),
                ("downloads", downloads),
            );
            waits_ms.into_iter().fold(f64::INFINITY, f64::min)
        };
        let (far, near) = (shortest("far"), shortest("near"));
        assert!(far >= 40.0 && near < far, "{downloads} downloads: {far} {near}");
    }
}

#[test]
fn overwriting_is_measured_against_new_files() {
    let test = "overwriting_is_measured_against_new_files";
    let Some(site) = available(test, Bench::start("bench-overwrite")) else {
        return;
    };
    let files = Files::new(&site.lab);
    let short = ["-q", "-r", "2", "-c", "1,2", "--files", "2", "-s", "200KiB"];
    let run = bench_all(
        &site.lab,
        "overwrite",
        &[&short[..], &files.options()].concat(),
        &site.targets(),
    )
    .succeeded();
    site.is_clean();
    let found = report(&files.json);
    for (target, protocols) in [
        ("ours", &["https", "root"][..]),
        ("xrootd", &["https", "root"]),
        ("nginx", &["https"]),
    ] {
        let put = |what: &str| {
            protocols
                .iter()
                .map(|protocol| format!("PUT {protocol}{what}"))
                .collect::<Vec<_>>()
        };
        let mut both = [put(", new files"), put(", overwriting")].concat();
        both.sort();
        assert_eq!(labels(rows(&found, "Throughput"), target, 2), both, "{}", run.said());
        let ratio = rows(&found, "Rate of overwriting, divided by that of new files");
        assert_eq!(labels(ratio, target, 2), put(""));
    }
}

#[test]
fn a_redirector_is_measured_like_any_server() {
    let test = "a_redirector_is_measured_like_any_server";
    let Some(site) = available(test, Bench::start("bench-redirector")) else {
        return;
    };
    let files = Files::new(&site.lab);
    let short = ["-q", "-r", "2", "-c", "2", "--files", "3", "--during", "200ms"];
    let run = bench_all(
        &site.lab,
        "redirector",
        &[&short[..], &files.options()].concat(),
        &site.targets(),
    )
    .succeeded();
    site.is_clean();
    let found = report(&files.json);
    for (target, protocols) in [("ours", &["https", "root"][..]), ("nginx", &["https"])] {
        let mut cases = Vec::new();
        for protocol in protocols {
            cases.push(format!("names that do not exist, {protocol}"));
            cases.push(format!("small files read, {protocol}"));
            cases.push(format!("small files stored, {protocol}"));
        }
        cases.sort();
        assert_eq!(labels(rows(&found, "Requests"), target, 2), cases, "{}", run.said());
    }
}

#[test]
fn tls_tries_every_suite_and_clear_text_and_counts_connections() {
    let test = "tls_tries_every_suite_and_clear_text_and_counts_connections";
    let Some(site) = available(test, Bench::start("bench-tls")) else {
        return;
    };
    let files = Files::new(&site.lab);
    let short = [
        "-q",
        "-r",
        "1",
        "-c",
        "1,2",
        "-s",
        "300KiB",
        "--volume",
        "600KiB",
        "--during",
        "100ms",
        "--clients",
        "2",
    ];
    let mut targets = site.targets();
    targets[1] = format!("ours={}", site.ours.roots(""));
    targets[3] = format!("xrootd={}", site.xrootd.roots(""));
    let run = bench_all(&site.lab, "tls", &[&short[..], &files.options()].concat(), &targets);
    site.is_clean();
    let found = report(&files.json);
    let throughput = rows(&found, "Throughput");
    for target in ["ours", "xrootd", "nginx"] {
        let labels = labels(throughput, target, 1);
        for suite in [
            "TLS 1.3, AES-128-GCM",
            "TLS 1.3, AES-256-GCM",
            "TLS 1.2, RSA AES-256-GCM",
        ] {
            let label = format!("https, {suite}, 2 connections");
            assert!(labels.contains(&label), "{target}: {label}: {labels:?}\n{}", run.said());
        }
    }
    let ours = labels(throughput, "ours", 1);
    for label in [
        "http, plain, 1 connection",
        "root, plain, 1 connection",
        "roots, TLS 1.3, AES-128-GCM, 1 connection",
    ] {
        assert!(ours.contains(&label.to_owned()), "{label}: {ours:?}\n{}", run.said());
    }
    let begun = rows(&found, "TLS connections");
    for target in ["ours", "nginx"] {
        let labels = labels(begun, target, 1);
        for label in [
            "TLS 1.3, full handshake",
            "TLS 1.3, full handshake, Nagle on",
            "TLS 1.3, resumed",
            "TLS 1.3, resumed, Nagle on",
            "TLS 1.2, full handshake",
        ] {
            let is_there = labels.contains(&label.to_owned());
            assert!(is_there, "{target}: {label}: {labels:?}\n{}", run.said());
        }
    }
    assert!(
        run.text()
            .contains("ours (https) does not take TLS 1.2, ECDSA AES-128-GCM"),
        "{}",
        run.said()
    );
}

#[test]
fn an_interrupted_run_tells_what_it_has_and_leaves_nothing_behind() {
    let test = "an_interrupted_run_tells_what_it_has_and_leaves_nothing_behind";
    let Some((lab, server)) = conformance::alone(test, |options| options.exports[0].anonymous = Access::Write) else {
        return;
    };
    let before = visible(server.data());
    let relay = Relay::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).expect("a relay");
    relay.set_fault(Fault::Delay(Direction::ToClient, Duration::from_millis(20)), usize::MAX);
    let files = Files::new(&lab);
    let target = format!("http://127.0.0.1:{}/data", relay.port());
    // Hours, unless interrupted.
    let long = ["-r", "1000", "-c", "1,8", "-s", "64KiB", "--volume", "64KiB"];
    let arguments = [&long[..], &files.options(), &[&target]].concat();
    let mut client = background(&mut command(&lab, "bulk", &arguments), lab.scratch()).expect("it starts");
    until("something has been measured", Duration::from_secs(60), || {
        client.stderr().contains("1 of ")
    });
    assert_ne!(visible(server.data()), before);
    let interrupt = format!("kill -INT {}", client.id());
    let sent = run_with_input(Command::new("sh").args(["-c", &interrupt]), &[]);
    assert_eq!(sent.code, Some(0));
    let ended = client.wait_for("over", Duration::from_secs(60), |_| None::<()>);
    let ended = ended.expect_err("it ends").to_string();
    let (said, complaints) = (client.stdout(), client.stderr());
    assert!(ended.contains("130"), "{ended}\n{said}\n{complaints}");
    assert!(
        said.contains("GET http") && said.contains("Interrupted: "),
        "{said}\n{complaints}"
    );
    assert!(
        complaints.contains("interrupted: stopping with the figures so far"),
        "{complaints}"
    );
    assert_eq!(visible(server.data()), before);
    let found = report(&files.json);
    assert_eq!(found["interrupted"], true);
    assert!(
        !rows(&found, "Throughput")[0]["samples"]
            .as_array()
            .expect("samples")
            .is_empty()
    );
    assert!(
        fs::read_to_string(&files.html)
            .expect("the page")
            .contains("interrupted before its end")
    );
}

#[test]
fn the_time_limit_ends_a_run_like_an_interruption() {
    let test = "the_time_limit_ends_a_run_like_an_interruption";
    let Some((lab, server)) = conformance::alone(test, |options| options.exports[0].anonymous = Access::Write) else {
        return;
    };
    let before = visible(server.data());
    let target = server.url("/data");
    // 32 GB: no machine is through with it before the limit, and one that is busy has begun.
    let long = [
        "-r",
        "1000",
        "-c",
        "1",
        "-s",
        "256KiB",
        "--volume",
        "16MiB",
        "--timeout",
        "15s",
        &target,
    ];
    let run = bench(&lab, "bulk", &long).failed_with(130);
    assert!(run.text().contains("GET https"), "{}", run.said());
    assert_eq!(visible(server.data()), before);
}

#[test]
fn what_cannot_be_used_is_said_before_anything_is_measured() {
    let test = "what_cannot_be_used_is_said_before_anything_is_measured";
    let Some((lab, server)) = conformance::alone(test, |options| options.exports[0].anonymous = Access::Write) else {
        return;
    };
    let before = visible(server.data());
    let target = server.url("/data");
    let other = lab.file(b"{\"tables\": 1}").display().to_string();
    let nowhere = lab.fresh("missing").join("report.json").display().to_string();
    for (arguments, words) in [
        (
            ["--compare", other.as_str(), target.as_str()],
            "it is no report of crossload bench",
        ),
        (["--json", &nowhere, &target], "No such file or directory"),
        (["--file", "https://se.example.org/f", &target], "belongs to no target"),
        (["--pid", "other=1", &target], "no target has this name"),
        (["--pid", "4294967295", &target], "no such process"),
        (["-c", "1", "/local/directory"], "bench takes http"),
    ] {
        let run = bench(&lab, "bulk", &arguments);
        assert_ne!(run.code, Some(0), "{}", run.said());
        assert!(
            run.stderr.contains(words) && run.text().is_empty(),
            "{words}: {}",
            run.said()
        );
    }
    assert_eq!(visible(server.data()), before);
}
