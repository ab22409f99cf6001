//! Copies from and to foreign servers, real and scripted: only files are stored as files, and a
//! copy succeeds only when the destination has the file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use conformance::{
    Lab, Reply, Scripted, Seen, Slot, adler32, bytes, json_lines, last_json, last_line, shared, transfers, until,
};
use testkit::{Crossload, Nginx, NginxOptions, Process, Result, Xrootd, XrootdAccess, available, free_port, require};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

struct Site {
    lab: Lab,
    server: Crossload,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site(test: &str) -> Option<Arc<Site>> {
    let made = shared(&SITE, || {
        require("curl")?;
        let lab = Lab::new("foreign")?;
        let server = lab.crossload(lab.options("server"))?;
        Ok(Site { lab, server })
    });
    available(test, made)
}

impl Site {
    /// The last line of a pull of this URL to `/data/NAME`.
    fn pull(&self, url: &str, name: &str, headers: &[&str]) -> String {
        let target = self.server.url(&format!("/data/{name}"));
        let answer = self.lab.copy(&target, &format!("Source: {url}"), headers);
        format!("{} {}", answer.status, last_line(&answer))
    }

    /// The last line of a push of `/data/NAME` to this URL.
    fn push(&self, name: &str, url: &str, headers: &[&str]) -> String {
        let source = self.server.url(&format!("/data/{name}"));
        let answer = self.lab.copy(&source, &format!("Destination: {url}"), headers);
        format!("{} {}", answer.status, last_line(&answer))
    }

    fn has(&self, name: &str) -> bool {
        self.server.data().join(name).exists()
    }

    /// What the log says of the pull to this name.
    fn logged(&self, name: &str) -> serde_json::Value {
        let path = format!("/data/{name}");
        let mut line = None;
        until("the copy is in the log", PATIENCE, || {
            line = transfers(self.server.log())
                .into_iter()
                .find(|line| line["path"] == path.as_str());
            line.is_some()
        });
        line.expect("it was waited for")
    }
}

/// `rclone serve` of a directory, with its URL.
fn rclone(lab: &Lab, what: &str, directory: &Path) -> Result<(Process, String)> {
    let port = free_port()?;
    let address = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
    let mut command = lab.command("rclone")?;
    command
        .args(["serve", what, "--addr", &address.to_string()])
        .arg(directory);
    let mut process = Process::spawn(&format!("rclone-{what}"), &mut command, &lab.fresh("log"))?;
    process.wait_listening(address, PATIENCE)?;
    Ok((process, format!("http://{address}")))
}

/// Foreign servers that hold a directory `d` with a file. They run as long as this lives.
struct Holders {
    _servers: (Nginx, Xrootd, [Process; 2]),
    /// The directory's URL at each.
    urls: Vec<String>,
}

fn holders(lab: &Lab) -> Result<Holders> {
    let nginx = Nginx::start(&NginxOptions {
        name: "nginx".to_owned(),
        directory: lab.fresh("nginx"),
        data: lab.fresh("nginx-root").join("data"),
        certificate: lab.host().clone(),
    })?;
    let xrootd = lab.xrootd("xrootd", XrootdAccess::Open)?;
    let plain = lab.fresh("plain");
    for directory in [nginx.data(), xrootd.data(), &plain] {
        std::fs::create_dir_all(directory.join("d"))?;
        std::fs::write(directory.join("d/f"), b"within")?;
    }
    let (dav, dav_url) = rclone(lab, "webdav", &plain)?;
    let (web, web_url) = rclone(lab, "http", &plain)?;
    let urls = vec![
        nginx.clear_url("/data/d"),
        nginx.clear_url("/data/d/"),
        xrootd.clear_url("/data/d"),
        xrootd.root_url("/data/d"),
        format!("{dav_url}/d"),
        format!("{dav_url}/d/"),
        format!("{web_url}/d/"),
    ];
    Ok(Holders {
        _servers: (nginx, xrootd, [dav, web]),
        urls,
    })
}

#[test]
fn a_directory_is_not_stored_as_its_listing() {
    let test = "a_directory_is_not_stored_as_its_listing";
    let Some(site) = site(test) else { return };
    let Some(holders) = available(test, holders(&site.lab)) else {
        return;
    };
    let mut urls = holders.urls.clone();
    let source = Crossload::start(site.lab.options("source")).expect("it starts");
    std::fs::create_dir(source.data().join("d")).expect("a directory");
    urls.extend(["/data/d", "/data/d/"].map(|path| source.url(path)));
    for (number, url) in urls.iter().enumerate() {
        for headers in [&[][..], &["Copy-Flags: NoHead"]] {
            let name = format!("listing-{number}");
            let said = site.pull(url, &name, headers);
            assert!(said.contains("Is a directory"), "{url} {headers:?}: {said}");
            assert!(!site.has(&name), "{url} {headers:?}");
        }
        let target = site.server.url(&format!("/data/streamed-{number}"));
        let streamed = site.lab.run_client("copy", &["--mode", "stream", url, &target]);
        assert_ne!(streamed.code, Some(0), "{url}: {}", streamed.said());
        let local = site.lab.fresh("local");
        let down = site.lab.run_client("copy", &[url, local.to_str().expect("plain")]);
        assert_ne!(down.code, Some(0), "{url}: {}", down.said());
        assert!(!local.exists() && !site.has(&format!("streamed-{number}")), "{url}");
        let cat = site.lab.run_client("cat", &[url]);
        assert!(cat.code != Some(0) && cat.stdout.is_empty(), "{url}: {}", cat.said());
    }
}

#[test]
fn foreign_programs_do_not_take_our_listing_for_a_file() {
    let test = "foreign_programs_do_not_take_our_listing_for_a_file";
    let Some(site) = site(test) else { return };
    let xrootd = site.lab.xrootd("puller", XrootdAccess::Open);
    let Some(xrootd) = available(test, xrootd) else { return };
    std::fs::create_dir_all(site.server.data().join("ours")).expect("a directory");
    let url = site.server.url("/data/ours");
    let answer = site
        .lab
        .copy(&xrootd.url("/data/taken"), &format!("Source: {url}"), &[]);
    assert!(!last_line(&answer).contains("success"), "{}", answer.text());
    site.lab.curl(&[&url]).expect(409);
    site.lab.curl(&["-H", "Accept: text/html", &url]).expect(200);
    let page = site.lab.curl(&[&format!("{url}/")]).expect(200);
    assert_eq!(page.header("Content-Location"), Some("/data/ours/"));
}

#[test]
fn a_body_that_is_encoded_is_not_stored() {
    let Some(site) = site("a_body_that_is_encoded_is_not_stored") else {
        return;
    };
    let source = Scripted::start(|seen| {
        assert_eq!(seen.header("Accept-Encoding"), Some("identity"));
        Reply::whole(seen, "200 OK", &["Content-Encoding: gzip"], b"packed")
    });
    for headers in [&[][..], &["Copy-Flags: NoHead"]] {
        let said = site.pull(&source.url("/f"), "encoded", headers);
        assert!(said.contains("gzip"), "{said}");
        assert!(!site.has("encoded"));
    }
}

#[test]
fn a_body_that_ends_with_the_connection_is_not_verified() {
    let Some(site) = site("a_body_that_ends_with_the_connection_is_not_verified") else {
        return;
    };
    let source = Scripted::start(|seen| {
        let body = if seen.method == "HEAD" { "" } else { "some of it" };
        Reply::SayAndClose(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}").into_bytes())
    });
    for headers in [
        &["RequireChecksumVerification: true"][..],
        &["RequireChecksumVerification: true", "Copy-Flags: NoHead"],
    ] {
        let said = site.pull(&source.url("/f"), "required", headers);
        assert!(!said.contains("success"), "{said}");
        assert!(!site.has("required"));
    }
    let said = site.pull(&source.url("/f"), "unverified", &[]);
    assert!(said.contains("success"), "{said}");
    assert!(site.logged("unverified")["verified"].is_null());
}

/// A destination that takes what is sent, and answers what comes behind it with `after`.
fn destination(put: &'static str, after: &'static str) -> Scripted {
    let puts = AtomicUsize::new(0);
    Scripted::start(move |seen| match seen.method.as_str() {
        "PUT" => {
            puts.fetch_add(1, Ordering::SeqCst);
            Reply::whole(seen, put, &[], b"")
        }
        _ if puts.load(Ordering::SeqCst) == 0 => Reply::whole(seen, "404 Not Found", &[], b""),
        _ => Reply::whole(seen, after, &["X-From: test"], b""),
    })
}

#[test]
fn a_push_that_the_destination_does_not_know_of_is_no_success() {
    let Some(site) = site("a_push_that_the_destination_does_not_know_of_is_no_success") else {
        return;
    };
    let content = bytes(10_000, 621);
    std::fs::write(site.server.data().join("pushed"), &content).expect("a file");
    let local = site.lab.file(&content);
    for (put, after, is_stored) in [
        ("201 Created", "404 Not Found", false),
        ("201 Created", "410 Gone", false),
        ("201 Created", "500 Oh", false),
        ("202 Accepted", "404 Not Found", false),
        ("202 Accepted", "403 Forbidden", false),
        ("201 Created", "401 Unauthorized", true),
        ("201 Created", "403 Forbidden", true),
        ("201 Created", "405 Not Allowed", true),
        ("201 Created", "501 Not Implemented", true),
    ] {
        let said = site.push("pushed", &destination(put, after).url("/f"), &[]);
        assert_eq!(said.contains("success"), is_stored, "{put}, {after}: {said}");
        let there = destination(put, after);
        let up = ["-f", local.to_str().expect("plain"), &there.url("/f")];
        let run = site.lab.run_client("copy", &up);
        assert_eq!(run.code == Some(0), is_stored, "{put}, {after}: {}", run.said());
    }
}

/// A destination that takes a COPY, hangs up on its client, and has the file when it is asked for
/// the second time.
fn leaves_its_client(content: Vec<u8>) -> Scripted {
    let looks = AtomicUsize::new(usize::MAX);
    let digest = format!("Digest: adler32={:08x}", adler32(&content));
    Scripted::start(move |seen| match seen.method.as_str() {
        "COPY" => {
            looks.store(0, Ordering::SeqCst);
            let begun = "HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\nc\r\nPerf Marker\n\r\n";
            Reply::SayAndClose(begun.into())
        }
        "HEAD" if looks.load(Ordering::SeqCst) < usize::MAX && looks.fetch_add(1, Ordering::SeqCst) > 0 => {
            Reply::whole(seen, "200 OK", &[&digest], &content)
        }
        _ => Reply::whole(seen, "404 Not Found", &[], b""),
    })
}

#[test]
fn a_copy_that_goes_on_without_its_client_is_found_and_no_other_way_is_tried() {
    let test = "a_copy_that_goes_on_without_its_client_is_found_and_no_other_way_is_tried";
    let Some(site) = site(test) else { return };
    let content = bytes(10_000, 623);
    std::fs::write(site.server.data().join("lost"), &content).expect("a file");
    let destination = leaves_its_client(content);
    let source = site.server.url("/data/lost");
    let run = site
        .lab
        .run_client("copy", &["--json", &source, &destination.url("/f")]);
    assert_eq!(run.code, Some(0), "{}", run.said());
    let lines = json_lines(&run);
    let found = lines
        .iter()
        .find(|line| line["event"] == "found_whole")
        .expect("an event");
    assert_eq!(found["error"]["code"], "outcome_unknown", "{found}");
    let done = lines.iter().find(|line| line["event"] == "done").expect("an end");
    assert!(
        done["verified"].as_str().is_some_and(|sum| sum.starts_with("adler32")),
        "{done}"
    );
    let seen = destination.seen();
    let changing = |seen: &Seen| ["COPY", "PUT", "DELETE"].contains(&seen.method.as_str());
    assert_eq!(seen.iter().filter(|seen| changing(seen)).count(), 1, "{seen:?}");
    assert!(
        seen.iter().all(|seen| seen.method != "OPTIONS"),
        "no round trip is spent on it"
    );
}

/// The file, for GET only, once it has been put off `busy` times.
fn get_only(seen: &Seen, refusal: &str, content: &[u8], busy: &AtomicUsize, again: &str) -> Reply {
    if seen.method != "GET" {
        return Reply::whole(seen, refusal, &[], b"");
    }
    let left = busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    match left {
        Ok(_) => Reply::whole(seen, again, &["Retry-After: 0"], b""),
        Err(_) => Reply::whole(seen, "200 OK", &[], content),
    }
}

#[test]
fn sources_that_know_only_get_are_read_and_busy_ones_waited_for() {
    let Some(site) = site("sources_that_know_only_get_are_read_and_busy_ones_waited_for") else {
        return;
    };
    let content = bytes(30_000, 622);
    for (number, (refusal, again)) in [
        ("403 Forbidden", "429 Too Many Requests"),
        ("405 Method Not Allowed", "503 Busy"),
    ]
    .into_iter()
    .enumerate()
    {
        let start = || {
            let (content, busy) = (content.clone(), AtomicUsize::new(1));
            Scripted::start(move |seen| get_only(seen, refusal, &content, &busy, again))
        };
        let name = format!("get-only-{number}");
        let said = site.pull(&start().url("/f"), &name, &[]);
        assert!(said.contains("success"), "{refusal}: {said}");
        assert!(std::fs::read(site.server.data().join(&name)).is_ok_and(|stored| stored == content));
        let required = site.pull(
            &start().url("/f"),
            "get-required",
            &["RequireChecksumVerification: true"],
        );
        assert!(!required.contains("success"), "{required}");
        let target = site.server.url(&format!("/data/streamed-only-{number}"));
        for way in ["pull", "stream", "auto"] {
            let run = site
                .lab
                .run_client("copy", &["-f", "--mode", way, &start().url("/f"), &target]);
            assert_eq!(run.code, Some(0), "{refusal}, {way}: {}", run.said());
        }
        let local = site.lab.fresh("local");
        let source = start();
        let down = ["--json", &source.url("/f"), local.to_str().expect("plain")];
        let run = site.lab.run_client("copy", &down).succeeded();
        assert!(last_json(&run)["verified"].is_null());
        assert!(std::fs::read(&local).is_ok_and(|stored| stored == content));
    }
}

/// A server that puts off the first request of each method that changes something, and then stores
/// or copies.
fn busy(again: &'static str) -> Scripted {
    let put_off: Mutex<Vec<String>> = Mutex::default();
    let stored = AtomicBool::new(false);
    Scripted::start(move |seen| {
        let mut put_off = put_off.lock().expect("no panic");
        if !put_off.contains(&seen.method) {
            put_off.push(seen.method.clone());
            return Reply::whole(seen, again, &["Retry-After: 0"], b"");
        }
        match seen.method.as_str() {
            "PUT" => {
                stored.store(true, Ordering::SeqCst);
                Reply::whole(seen, "201 Created", &[], b"")
            }
            "COPY" => Reply::whole(seen, "201 Created", &[], b"success: Created\n"),
            _ if stored.load(Ordering::SeqCst) => Reply::whole(seen, "200 OK", &[], b""),
            _ => Reply::whole(seen, "404 Not Found", &[], b""),
        }
    })
}

#[test]
fn destinations_and_active_servers_that_are_busy_are_waited_for() {
    let Some(site) = site("destinations_and_active_servers_that_are_busy_are_waited_for") else {
        return;
    };
    std::fs::write(site.server.data().join("for-busy"), b"").expect("a file");
    let local = site.lab.file(b"");
    for again in ["429 Too Many Requests", "503 Busy"] {
        let there = busy(again);
        let said = site.push("for-busy", &there.url("/f"), &[]);
        assert!(said.contains("success"), "{again}: {said}");
        assert_eq!(there.seen().iter().filter(|seen| seen.method == "PUT").count(), 2);
        let there = busy(again);
        let upload = ["-f", local.to_str().expect("plain"), &there.url("/f")];
        site.lab.run_client("copy", &upload).succeeded();
        let active = busy(again);
        let source = site.server.url("/data/for-busy");
        let order = ["-f", "--mode", "pull", &source, &active.url("/f")];
        let run = site.lab.run_client("copy", &order);
        let orders = active.seen().iter().filter(|seen| seen.method == "COPY").count();
        assert_eq!(orders, 2, "{again}: {}", run.said());
    }
    // One that puts off for longer than is waited is not waited for at all.
    let never = Scripted::start(|seen| match seen.method.as_str() {
        "COPY" => Reply::whole(seen, "503 Busy", &["Retry-After: 86400"], b""),
        _ => Reply::whole(seen, "404 Not Found", &[], b""),
    });
    let source = site.server.url("/data/for-busy");
    let order = ["-f", "--mode", "pull", &source, &never.url("/f")];
    let run = site.lab.run_client("copy", &order);
    assert!(run.stderr.contains("the peer answered 503"), "{}", run.said());
    assert_eq!(never.seen().iter().filter(|seen| seen.method == "COPY").count(), 1);
}

#[test]
fn a_source_that_tells_no_validator_but_a_checksum_is_taken_up() {
    let Some(site) = site("a_source_that_tells_no_validator_but_a_checksum_is_taken_up") else {
        return;
    };
    let content = bytes(4 << 20, 623);
    let digest = format!("Digest: adler32={:08x}", adler32(&content));
    let ranges = Arc::new(AtomicUsize::new(0));
    let source = Scripted::start({
        let (content, ranges) = (content.clone(), Arc::clone(&ranges));
        move |seen| match (seen.method.as_str(), seen.header("Range")) {
            ("GET", None) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
                let half = &content[..content.len() / 2];
                Reply::SayAndClose([head.as_bytes(), half].concat())
            }
            ("GET", Some(range)) => {
                ranges.fetch_add(1, Ordering::SeqCst);
                let (from, to) = range.trim_start_matches("bytes=").split_once('-').expect("a range");
                let from: usize = from.parse().expect("a number");
                assert_eq!(to, (content.len() - 1).to_string(), "a closed range");
                let part = format!("Content-Range: bytes {from}-{to}/{}", content.len());
                Reply::whole(seen, "206 Partial Content", &[&part], &content[from..])
            }
            _ => Reply::whole(seen, "200 OK", &[&digest], &content),
        }
    });
    let said = site.pull(&source.url("/f"), "taken-up", &["X-Number-Of-Streams: 1"]);
    assert!(said.contains("success"), "{said}");
    assert!(std::fs::read(site.server.data().join("taken-up")).is_ok_and(|stored| stored == content));
    assert_eq!(ranges.load(Ordering::SeqCst), 1);
    let logged = site.logged("taken-up");
    assert_eq!(logged["resumed"], 1, "{logged}");
    assert!(
        logged["verified"]
            .as_str()
            .is_some_and(|sum| sum.starts_with("adler32:"))
    );
}

#[test]
fn names_that_the_other_protocol_cannot_express_are_refused() {
    let test = "names_that_the_other_protocol_cannot_express_are_refused";
    let Some(site) = site(test) else { return };
    let Some(other) = available(test, Crossload::start(site.lab.options("other"))) else {
        return;
    };
    std::fs::write(site.server.data().join("a?b"), b"new").expect("a file");
    std::fs::write(other.data().join("a"), b"somebody else's").expect("a file");
    let source = site.server.url("/data/a%3Fb");
    for mode in ["auto", "pull", "push", "stream"] {
        let run = site
            .lab
            .run_client("copy", &["-f", "--mode", mode, &source, &other.root_url("/data/")]);
        assert_ne!(run.code, Some(0), "{mode}: {}", run.said());
        assert!(run.said().contains("cannot express"), "{mode}: {}", run.said());
        assert!(std::fs::read(other.data().join("a")).is_ok_and(|kept| kept == b"somebody else's"));
    }
    let local = site.server.data().join("a?b");
    let run = site.lab.run_client(
        "copy",
        &["-f", local.to_str().expect("plain"), &other.root_url("/data/")],
    );
    assert_ne!(run.code, Some(0), "{}", run.said());
    assert!(std::fs::read(other.data().join("a")).is_ok_and(|kept| kept == b"somebody else's"));
}

#[test]
fn auto_finds_another_way_for_root_destinations() {
    let test = "auto_finds_another_way_for_root_destinations";
    let Some(site) = site(test) else { return };
    let mut options = site.lab.options("strict");
    options.allow_local_peers = false;
    let Some(strict) = available(test, Crossload::start(options)) else {
        return;
    };
    for name in ["plain", "with&and=more"] {
        std::fs::write(site.server.data().join(name), b"content").expect("a file");
        let local = name.replace('&', "%26");
        let sources = [
            site.server.root_url(&format!("/data/{name}")),
            site.server.url(&format!("/data/{local}")),
        ];
        for (number, source) in sources.iter().enumerate() {
            // One cannot connect to the other, and one can: names with & cannot be ordered.
            for (to, server) in [("strict", &strict), ("open", &site.server)] {
                let target = format!("there-{to}-{number}-{}", name.len());
                let run = site
                    .lab
                    .run_client("copy", &[source, &server.root_url(&format!("/data/{target}"))]);
                assert_eq!(run.code, Some(0), "{source} to {to}: {}", run.said());
                assert!(std::fs::read(server.data().join(&target)).is_ok_and(|stored| stored == b"content"));
            }
        }
    }
}
