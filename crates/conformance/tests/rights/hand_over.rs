//! Hand-over: requests that were authorised over TLS and whose payload goes in clear text, with the
//! clients that people use, and with everything that a capability must not be good for.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use conformance::{Answer, Endpoint, Lab, Twins, bytes, is_whole, requests_with, run, until};
use serde_json::Value;
use testkit::{Crossload, Process, Result, available, free_port, require};

const MIB: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
const BOTH: &str = "[hand_over]\nreads = true\nwrites = true\n";

/// A pair of servers; the guarded one hands over.
fn site(program: &str, more: &str) -> Result<(Lab, Twins)> {
    require(program)?;
    let lab = Lab::new("hand-over")?;
    let twins = Twins::start_with(&lab, "twins", |options| options.more.push_str(more))?;
    Ok((lab, twins))
}

/// The server that hands over, whose log it is.
fn guarded(twins: &Twins) -> &Process {
    match &twins.guarded {
        Endpoint::Crossload(server) => server.log(),
        Endpoint::Xrootd(_) => unreachable!("the twins are ours"),
    }
}

fn log(twins: &Twins) -> String {
    guarded(twins).stderr()
}

fn is_by_capability(line: &Value) -> bool {
    line["credential"] == "capability"
}

/// Where an answer sends its client: a URL in clear text with a capability.
fn sent_to(answer: &Answer) -> String {
    let url = answer.header("Location").expect("a Location").to_owned();
    assert!(
        url.starts_with("http://localhost:") && url.contains("capability="),
        "{url}"
    );
    assert_eq!(answer.header("Cache-Control"), Some("no-store"));
    url
}

fn capability_of(url: &str) -> &str {
    url.split_once("capability=").expect("a capability").1
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn reading_is_handed_over_and_the_capability_reads_that_file_only() {
    let test = "reading_is_handed_over_and_the_capability_reads_that_file_only";
    let Some((lab, twins)) = available(test, site("curl", BOTH)) else {
        return;
    };
    let content = bytes(2 * MIB, 1);
    let (url, other) = (twins.guarded.url("dir/f"), twins.guarded.clear_url("dir/g"));
    twins.open.put("dir/f", &content);
    twins.open.put("dir/g", &content);
    twins.open.put("small", b"small");
    let token = twins.macaroon(&lab, "", "DOWNLOAD,LIST");
    let bearer = bearer(&token);
    let asked = lab
        .request("GET", &format!("{url}?x=1&authz=Bearer%20{token}"), &[])
        .expect(302);
    let place = sent_to(&asked);
    assert!(
        place.contains("?x=1&capability=") && !place.contains("authz"),
        "{place}"
    );
    for _ in 0..2 {
        assert!(
            lab.curl(&[&place]).expect(200).body == content,
            "reading again is allowed"
        );
    }
    assert_eq!(lab.curl(&["-r", "5-9", &place]).expect(206).body, content[5..10]);
    lab.curl(&["-I", &place]).expect(200);

    let capability = capability_of(&place);
    let with = |url: &str| format!("{url}?capability={capability}");
    for (method, url) in [
        ("GET", with(&other)),
        ("DELETE", place.clone()),
        ("PROPFIND", place.clone()),
        ("PUT", place.clone()),
        ("GET", format!("{place}A")),
        ("GET", place[..place.len() - 2].to_owned()),
    ] {
        let refused = lab.request(method, &url, &[&bearer]).expect(403);
        assert!(refused.text().contains("capability"), "{method} {}", refused.text());
    }
    lab.curl(&[&twins.guarded.clear_url("dir/f")]).expect(401);

    lab.request("HEAD", &url, &[&bearer]).expect(200);
    lab.request("GET", &url, &[&bearer, "Secure-Redirection: 1"])
        .expect(200);
    lab.request("GET", &url, &[&bearer, "Secure-Redirection: 0"])
        .expect(302);
    lab.request("GET", &twins.guarded.url("small"), &[&bearer]).expect(200);
    lab.request("GET", &twins.guarded.clear_url("dir/f"), &[&bearer])
        .expect(200);
    lab.request("GET", &url, &[]).expect(401);

    requests_with(guarded(&twins), 4, "four reads by capability", is_by_capability);
    let log = log(&twins);
    assert!(!log.contains(capability) && !log.contains(&token));
}

#[test]
fn writing_is_handed_over_once() {
    let Some((lab, twins)) = available("writing_is_handed_over_once", site("curl", BOTH)) else {
        return;
    };
    let content = bytes(2 * MIB, 2);
    let token = twins.macaroon(&lab, "", "UPLOAD,MANAGE,DELETE,LIST");
    let bearer = bearer(&token);
    let url = twins.guarded.url("up/f");
    // Only the head: the answer comes before the body.
    let asked = lab
        .upload(&url, &content, &[&bearer, "Expect: 100-continue"])
        .expect(307);
    assert!(!asked.heads.contains("100 Continue"), "{}", asked.heads);
    let place = sent_to(&asked);
    let longer = lab.upload(&place, &bytes(2 * MIB + 1, 2), &["Expect: 100-continue"]);
    assert!(longer.expect(403).text().contains("larger"));
    assert_eq!(twins.open.stored("up/f"), None);
    lab.curl(&["-H", "Expect:", &place]).expect(403);
    // What was refused before it began does not count.
    lab.upload(&place, &content, &["Expect: 100-continue"]).expect(201);
    let again = lab.upload(&place, &content, &["Expect: 100-continue"]).expect(403);
    assert!(again.text().contains("already used"), "{}", again.text());
    assert!(twins.open.stored("up/f").as_deref() == Some(&content[..]));
    lab.upload(&place, &bytes(2 * MIB, 3), &[]).expect(403);
    assert!(
        twins.open.stored("up/f").as_deref() == Some(&content[..]),
        "a replay changes nothing"
    );

    // A body that is under way is taken here.
    lab.upload(&url, &content, &[&bearer, "Expect:"]).expect(204);
    lab.upload(
        &url,
        &content,
        &[&bearer, "Secure-Redirection: 1", "Expect: 100-continue"],
    )
    .expect(204);
    lab.upload(&url, b"few", &[&bearer, "Expect: 100-continue"]).expect(204);
    let first = lab.upload(
        &twins.guarded.url("up/new"),
        &content,
        &[&bearer, "Expect: 100-continue", "If-None-Match: *"],
    );
    let place = sent_to(&first.expect(307));
    twins.open.put("up/new", b"meanwhile");
    let late = lab.upload(&place, &content, &["Expect: 100-continue"]).expect(412);
    assert!(late.text().contains("File exists"), "{}", late.text());
    assert!(!log(&twins).contains(capability_of(&place)));
}

#[test]
fn an_expired_one_one_of_before_a_restart_and_one_for_another_address_are_refused() {
    let test = "an_expired_one_one_of_before_a_restart_and_one_for_another_address_are_refused";
    let more = format!("{BOTH}lifetime = \"1s\"\n");
    let Some((lab, mut twins)) = available(test, site("curl", &more)) else {
        return;
    };
    twins.open.put("f", &bytes(MIB, 4));
    let bearer = bearer(&twins.macaroon(&lab, "", "DOWNLOAD"));
    let url = twins.guarded.url("f");
    let place = sent_to(&lab.request("GET", &url, &[&bearer]).expect(302));
    until("it has expired", PATIENCE, || {
        lab.curl(&[&place]).text().contains("has expired")
    });

    let place = sent_to(&lab.request("GET", &url, &[&bearer]).expect(302));
    let place = place.replacen("localhost", "127.0.0.1", 1);
    let elsewhere = lab.curl(&["--interface", "127.0.0.2", &place]).expect(403);
    assert!(elsewhere.text().contains("another address"), "{}", elsewhere.text());

    let place = sent_to(&lab.request("GET", &url, &[&bearer]).expect(302));
    if let Endpoint::Crossload(server) = &mut twins.guarded {
        server.start_again().expect("comes up again");
    }
    let refused = lab.curl(&[&place]).expect(403);
    assert!(refused.text().contains("another key"), "{}", refused.text());
}

#[test]
fn a_capability_is_of_no_use_in_an_export_that_was_closed() {
    let test = "a_capability_is_of_no_use_in_an_export_that_was_closed";
    let Some((lab, twins)) = available(test, site("curl", BOTH)) else {
        return;
    };
    let content = bytes(2 * MIB, 6);
    twins.open.put("f", &content);
    let bearer = bearer(&twins.macaroon(&lab, "", "DOWNLOAD,UPLOAD,MANAGE,LIST"));
    let url = twins.guarded.url("new");
    let ask = |url: &str| lab.upload(url, &content, &[&bearer, "Expect: 100-continue"]);
    let writes = sent_to(&ask(&url).expect(307));
    let reads = sent_to(&lab.request("GET", &twins.guarded.url("f"), &[&bearer]).expect(302));
    let Endpoint::Crossload(server) = &twins.guarded else {
        unreachable!("the twins are ours")
    };
    let file = server.configuration();
    let text = std::fs::read_to_string(&file).expect("the configuration");
    let closed = text.replace("[[export]]\n", "[[export]]\nread_only = true\n");
    assert_ne!(closed, text);
    std::fs::write(&file, closed).expect("written");
    until("the export is read-only", PATIENCE, || ask(&url).status == 403);
    let refused = lab.upload(&writes, &content, &["Expect: 100-continue"]).expect(403);
    assert!(refused.text().contains("read-only"), "{}", refused.text());
    assert!(lab.curl(&[&reads]).expect(200).body == content);
    assert_eq!(twins.open.stored("new"), None);

    // Open again: what was refused meanwhile has not been used.
    std::fs::write(&file, text).expect("written");
    until("the export can be written", PATIENCE, || ask(&url).status == 307);
    lab.upload(&writes, &content, &["Expect: 100-continue"]).expect(201);
}

#[test]
fn clients_follow_with_reading_and_writing() {
    let Some((lab, twins)) = available("clients_follow_with_reading_and_writing", site("curl", BOTH)) else {
        return;
    };
    let content = bytes(3 * MIB, 5);
    let source = twins.open.put("f", &content);
    let token = twins.macaroon(&lab, "", "DOWNLOAD,UPLOAD,LIST,MANAGE,DELETE");
    let (bearer, local) = (bearer(&token), lab.file(&content));
    let (plain, url) = (local.to_str().expect("plain"), twins.guarded.url("f"));
    let target = |name: &str| twins.guarded.url(name);

    for trust in ["--location", "--location-trusted"] {
        let got = lab.curl(&[trust, "-H", &bearer, &url]).expect(200);
        assert!(got.body == content && got.heads.contains("302"), "{}", got.heads);
        let to = target(&format!("curl{trust}"));
        let put = lab.curl(&[trust, "-H", &bearer, "-H", "Expect: 100-continue", "-T", plain, &to]);
        assert!(put.expect(201).heads.contains("307"));
        assert!(twins.open.stored(&format!("curl{trust}")).as_deref() == Some(&content[..]));
    }
    let fetched = lab.fresh("fetched");
    let fetched_name = fetched.to_str().expect("plain");
    let mut ways: Vec<(&str, Vec<std::process::Command>)> = Vec::new();
    let mut davix = Vec::new();
    for (tool, arguments) in [
        ("davix-get", vec![url.clone(), fetched_name.to_owned()]),
        ("davix-put", vec![plain.to_owned(), target("davix")]),
    ] {
        let Some(mut command) = available("davix", lab.command(tool)) else {
            continue;
        };
        command.arg("--capath").arg(lab.authority().trust_directory());
        command.args(["-H", &bearer]).args(arguments);
        davix.push(command);
    }
    ways.push(("davix", davix));
    if let Some(mut get) = available("gfal", lab.command("gfal-copy")) {
        get.env("BEARER_TOKEN", &token);
        let mut put = lab.command("gfal-copy").expect("as before");
        put.env("BEARER_TOKEN", &token);
        get.args([
            "-f",
            &url.replacen("https", "davs", 1),
            &format!("file://{fetched_name}"),
        ]);
        put.args([&format!("file://{plain}"), &target("gfal").replacen("https", "davs", 1)]);
        ways.push(("gfal", vec![get, put]));
    }
    if let Some(mut ours) = available("crossload", lab.client(["copy", "-f", &url, fetched_name])) {
        ours.env("BEARER_TOKEN", &token);
        let mut put = lab.client(["copy", plain, &target("crossload")]).expect("as before");
        put.env("BEARER_TOKEN", &token);
        ways.push(("crossload", vec![ours, put]));
    }
    if available("rclone", require("rclone")).is_some() {
        let rclone = |arguments: &[&str]| {
            let mut command = lab.command("rclone").expect("rclone is installed");
            command.args(["--config", "/dev/null", "--retries", "1", "--ca-cert"]);
            command.arg(lab.authority().ca_file());
            command.args(["--webdav-vendor", "other", "--webdav-bearer-token", &token]);
            command.args(["--webdav-url", &twins.guarded.url("")]).args(arguments);
            command
        };
        let get = rclone(&["copyto", ":webdav:f", fetched_name]);
        ways.push(("rclone", vec![get, rclone(&["copyto", plain, ":webdav:rclone"])]));
    }
    for (name, commands) in ways.into_iter().filter(|(_, commands)| !commands.is_empty()) {
        let _ = std::fs::remove_file(&fetched);
        for command in commands {
            run(&command).succeeded();
        }
        assert!(is_whole(&fetched, &content), "{name} read something else");
        assert!(
            twins.open.stored(name).as_deref() == Some(&content[..]),
            "{name} wrote something else"
        );
    }
    assert!(source.starts_with("https"));
    assert!(!log(&twins).contains(&token));
}

#[test]
fn a_third_party_copy_reads_and_writes_what_is_handed_over() {
    let test = "a_third_party_copy_reads_and_writes_what_is_handed_over";
    let Some((lab, twins)) = available(test, site("curl", BOTH)) else {
        return;
    };
    let Some(third) = available(test, lab.crossload(lab.options("third"))) else {
        return;
    };
    let content = bytes(2 * MIB, 6);
    twins.open.put("f", &content);
    let token = twins.macaroon(&lab, "", "DOWNLOAD,UPLOAD,LIST,MANAGE,DELETE");
    let header = format!("TransferHeaderAuthorization: Bearer {token}");
    let from = format!("Source: {}", twins.guarded.url("f"));
    let pulled = lab.copy(&third.url("/data/pulled"), &from, &[&header]);
    assert!(pulled.text().contains("success"), "{}", pulled.text());
    assert!(std::fs::read(third.data().join("pulled")).expect("there") == content);
    let to = format!("Destination: {}", twins.guarded.url("pushed"));
    let pushed = lab.copy(&third.url("/data/pulled"), &to, &[&header]);
    assert!(pushed.text().contains("success"), "{}", pushed.text());
    assert!(twins.open.stored("pushed").as_deref() == Some(&content[..]));
    requests_with(guarded(&twins), 2, "both copies in clear text", is_by_capability);
    let there = third.log().stderr();
    assert!(!there.contains("capability="), "{there}");
}

#[test]
fn another_endpoint_honours_what_is_meant_for_it() {
    let test = "another_endpoint_honours_what_is_meant_for_it";
    let Some(lab) = available(test, Lab::new("hand-over")) else {
        return;
    };
    let port = free_port().expect("a free port");
    let key = lab.file(b"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("mode");
    let section = |more: &str| format!("[hand_over]\nkey_file = {key:?}\n{more}");
    let mut disk = lab.options("disk");
    disk.port = port;
    disk.exports[0].anonymous = testkit::Access::None;
    disk.more = section(&format!("accept_as = \"http://localhost:{port}\"\n"));
    let data = disk.exports[0].directory.clone();
    let disk = Crossload::start(disk).expect("the disk server");
    let mut other = lab.options("other");
    other.exports[0].anonymous = testkit::Access::None;
    other.exports[0].directory.clone_from(&data);
    other.more = section("accept_as = \"http://other.example.org:80\"\n");
    let other = Crossload::start(other).expect("the other disk server");
    let mut head = lab.options("head");
    head.exports[0].directory = data;
    let to = format!("target = \"http://localhost:{port}\"\nreads = true\nwrites = true\n");
    head.more = section(&to);
    let head = Crossload::start(head).expect("the head node");

    let content = bytes(MIB, 7);
    std::fs::write(disk.data().join("f"), &content).expect("file");
    let place = sent_to(&lab.request("GET", &head.url("/data/f"), &[]).expect(302));
    assert!(
        place.starts_with(&format!("http://localhost:{port}/data/f?")),
        "{place}"
    );
    assert!(lab.curl(&[&place]).expect(200).body == content);
    // The head node has checked the links in these files.
    std::os::unix::fs::symlink("f", disk.data().join("link")).expect("a link");
    let over_link = sent_to(&lab.request("GET", &head.url("/data/link"), &[]).expect(302));
    assert!(lab.curl(&[&over_link]).expect(200).body == content);
    let astray = place.replacen(&format!(":{port}/"), &format!(":{}/", other.port()), 1);
    let refused = lab
        .curl(&["-H", &format!("Host: localhost:{port}"), &astray])
        .expect(403);
    assert!(refused.text().contains("another server"), "{}", refused.text());

    // Just after its start it cannot know what was used before.
    let write = || {
        let asked = lab
            .upload(&head.url("/data/w"), &content, &["Expect: 100-continue"])
            .expect(307);
        let place = sent_to(&asked);
        (lab.upload(&place, &content, &["Expect: 100-continue"]), place)
    };
    let early = write().0.expect(503);
    assert!(early.text().contains("[just_started]"), "{}", early.text());
    let mut written = None;
    until("writing is accepted", PATIENCE, || {
        let (answer, place) = write();
        written = (answer.status == 201).then_some(place);
        written.is_some()
    });
    let place = written.expect("it was written");
    lab.upload(&place, &content, &["Expect: 100-continue"]).expect(403);
}

#[test]
fn hand_over_begins_and_ends_with_a_reload() {
    let test = "hand_over_begins_and_ends_with_a_reload";
    let Some((lab, mut twins)) = available(test, site("curl", "")) else {
        return;
    };
    twins.open.put("f", &bytes(2 * MIB, 2));
    let url = twins.guarded.url("f");
    let bearer = bearer(&twins.macaroon(&lab, "", "DOWNLOAD,LIST"));
    let status = || lab.request("GET", &url, &[&bearer]).status;
    assert_eq!(status(), 200);
    let Endpoint::Crossload(server) = &mut twins.guarded else {
        unreachable!("the twins are ours");
    };
    let file = server.configuration().to_owned();
    let before = std::fs::read_to_string(&file).expect("the configuration");
    for (text, expected) in [(format!("{before}\n{BOTH}"), 302), (before, 200)] {
        std::fs::write(&file, text).expect("written");
        server.process().hang_up().expect("SIGHUP");
        until("the reload took effect", PATIENCE, || status() == expected);
    }
}
