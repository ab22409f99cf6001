//! Our own client against our own servers: every command, every mode, exit codes, output for
//! programs, resumption.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use conformance::{
    Endpoint, Reply, Run, Scripted, Site, Slot, Twins, adler32, background, bytes, is_whole, json_lines, last_json,
    md5_of, put_tree, run, shared, tree, until,
};
use serde_json::Value;
use testkit::{Crossload, Direction, Fault, Relay, Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

pub(crate) fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::of_ours("client"))
}

#[test]
fn every_mode_copies_between_servers() {
    let Some(site) = available("every_mode_copies_between_servers", site()) else {
        return;
    };
    let content = bytes(20 << 20, 101);
    site.first.put("modes/source", &content);
    let sum = format!("adler32:{:08x}", adler32(&content));
    for (mode, streams) in [("pull", "4"), ("push", "1"), ("stream", "1"), ("auto", "2")] {
        let name = format!("modes/new/{mode}");
        let (source, target) = (site.first.davs("modes/source"), site.second.davs(&name));
        let copied = site.lab.run_client(
            "copy",
            &[
                "-p", "-K", &sum, "--mode", mode, "-n", streams, "--json", &source, &target,
            ],
        );
        let copied = copied.succeeded();
        assert!(site.second.stored(&name) == Some(content.clone()), "{mode}");
        let lines = json_lines(&copied);
        let done = lines.iter().find(|line| line["event"] == "done").expect("an end");
        assert_eq!(done["bytes"], content.len());
        let used = if mode == "auto" { "pull" } else { mode };
        assert!(
            done["mode"].as_str().is_some_and(|text| text.starts_with(used)),
            "{done}"
        );
        assert_eq!(last_json(&copied)["event"], "summary");
    }
}

#[test]
fn auto_tries_the_next_mode_and_says_why() {
    let Some(site) = available("auto_tries_the_next_mode_and_says_why", site()) else {
        return;
    };
    let mut options = site.lab.options("shy");
    options.allow_local_peers = false;
    let shy = Endpoint::Crossload(Box::new(Crossload::start(options).expect("it starts")));
    let content = bytes(1 << 20, 102);
    site.first.put("auto/source", &content);
    // The destination may not fetch from loopback, so the source has to send.
    let (source, target) = (site.first.davs("auto/source"), shy.davs("target"));
    let copied = site.lab.run_client("copy", &["--json", &source, &target]).succeeded();
    assert!(shy.stored("target") == Some(content));
    let lines = json_lines(&copied);
    let failed = lines
        .iter()
        .find(|line| line["event"] == "mode_failed")
        .expect("the mode that failed");
    assert_eq!(failed["mode"], "pull", "{failed}");
    assert!(
        failed["error"]["message"]
            .as_str()
            .is_some_and(|words| !words.is_empty()),
        "{failed}"
    );
    let pull = site.lab.run_client("copy", &["-f", "--mode", "pull", &source, &target]);
    assert_ne!(pull.code, Some(0), "{}", pull.said());
}

#[test]
fn a_command_about_one_server_has_no_source_and_no_destination() {
    let Some(site) = available("a_command_about_one_server", site()) else {
        return;
    };
    let none = site.lab.fresh("none").join("missing");
    for (place, side) in [
        (site.first.davs("missing/file"), "server open: "),
        (site.first.root("missing/file"), "server open: "),
        (none.to_str().expect("plain").to_owned(), "client open: "),
    ] {
        for command in ["ls", "stat", "sum", "cat", "rm", "mkdir", "mv"] {
            let (within, beside) = (format!("{place}/new"), format!("{place}-new"));
            let arguments: &[&str] = match command {
                "mkdir" => &[&within],
                "mv" => &[&place, &beside],
                _ => &[&place],
            };
            let run = site.lab.run_client(command, arguments);
            assert_ne!(run.code, Some(0), "{command}: {}", run.said());
            assert!(run.stderr.contains(side), "{command}: {}", run.said());
        }
    }
}

#[test]
fn trees_go_up_across_and_down() {
    let Some(site) = available("trees_go_up_across_and_down", site()) else {
        return;
    };
    let names = ["plain", "a b/c d", "100%/#1", "deep/er/file", "ä/日本", "q?/x", "empty"];
    let (local, back) = (site.lab.fresh("local"), site.lab.fresh("back"));
    put_tree(&local, &names);
    let (from, to) = (format!("{}/", local.display()), back.to_str().expect("plain"));
    site.lab
        .run_client("copy", &["-r", "-p", &from, &site.first.davs("tree")])
        .succeeded();
    assert!(tree(&site.first.data().join("tree")) == tree(&local));
    site.lab
        .run_client(
            "copy",
            &["-r", "-p", &site.first.davs("tree/"), &site.second.davs("tree")],
        )
        .succeeded();
    assert!(tree(&site.second.data().join("tree")) == tree(&local));
    site.lab
        .run_client("copy", &["-r", "-p", &site.second.url("tree/"), to])
        .succeeded();
    assert!(tree(&back) == tree(&local));
    site.lab
        .run_client("rm", &["-r", &site.second.davs("tree")])
        .succeeded();
    assert!(!site.second.data().join("tree").exists());
}

#[test]
fn exit_codes_have_one_meaning_or_are_those_of_gfal() {
    let Some(site) = available("exit_codes_have_one_meaning_or_are_those_of_gfal", site()) else {
        return;
    };
    let (missing, target) = (site.first.davs("codes/none"), site.second.davs("codes/target"));
    for mode in ["pull", "push", "stream", "auto"] {
        let failed = site
            .lab
            .run_client("copy", &["--mode", mode, &missing, &target])
            .failed_with(2);
        assert!(failed.stderr.contains("No such file or directory"), "{}", failed.said());
        assert_eq!(site.second.stored("codes/target"), None);
    }
    site.first.put("codes/source", b"new");
    site.second.put("codes/target", b"old");
    let source = site.first.davs("codes/source");
    for mode in ["pull", "push", "stream", "auto"] {
        site.lab
            .run_client("copy", &["--mode", mode, &source, &target])
            .failed_with(17);
        assert_eq!(site.second.stored("codes/target").as_deref(), Some(&b"old"[..]));
    }
    site.lab.run_client("copy", &["-f", &source, &target]).succeeded();
    assert_eq!(site.second.stored("codes/target").as_deref(), Some(&b"new"[..]));
    let wrong = site
        .lab
        .run_client("copy", &["-f", "-K", "adler32:00000001", &source, &target])
        .failed_with(74);
    assert!(wrong.stderr.contains("CHECKSUM MISMATCH"), "{}", wrong.said());
    assert_eq!(site.second.stored("codes/target").as_deref(), Some(&b"new"[..]));
    site.lab.run_client("ls", &[&missing]).failed_with(2);
    site.lab.run_client("stat", &[&missing]).failed_with(2);
    site.lab.run_client("sum", &[&missing]).failed_with(2);
    site.lab.run_client("rm", &[&missing]).failed_with(2);
    site.lab.run_client("cat", &[&missing]).failed_with(2);
    let as_gfal = |command: &str, arguments: &[&str]| {
        let arguments = site.lab.client_arguments(command, arguments);
        let mut client = site.lab.client(arguments).expect("the client is built");
        run(client.env("CROSSLOAD_EXIT_CODES", "gfal"))
    };
    let sum = adler32(b"new");
    let list = |lines: &[(&str, u32)]| {
        let lines: String = lines.iter().map(|(url, sum)| format!("{url} {sum:08x}\n")).collect();
        site.lab.file(lines.as_bytes()).to_str().expect("plain").to_owned()
    };
    let (differs, lost) = (
        list(&[(&source, 1), (&missing, 1)]),
        list(&[(&source, sum), (&missing, 1)]),
    );
    let (here, empty) = (site.lab.fresh("codes"), site.lab.fresh("codes-empty"));
    put_tree(&here, &["a"]);
    std::fs::create_dir(&empty).expect("a directory");
    let [here, empty] = [&here, &empty].map(|path| path.to_str().expect("plain"));
    for (command, arguments, own, gfal) in [
        ("ls", &["https://localhost:1/data"][..], 111, 112),
        ("ls", &["--no-such-option"], 22, 2),
        ("rm", &[&missing, &missing], 1, 2),
        ("stat", &[&source], 0, 0),
        // What is found wrong with a command line after it was parsed.
        ("copy", &["--evict", &source, &target], 22, 2),
        ("sum", &["-c", "/dev/null"], 22, 2),
        // Data, and the answer no.
        ("copy", &["-f", "-K", "adler32:xyz", &source, &target], 22, 2),
        ("copy", &["-f", "-K", "adler32:00000001", &source, &target], 74, 5),
        ("sum", &["-c", &differs], 3, 1),
        ("sum", &["-c", &lost], 1, 2),
        ("sum", &[&source, &missing, "adler32"], 1, 2),
        ("compare", &[here, empty], 3, 1),
        ("compare", &[here, here], 0, 0),
        ("compare", &[here, &missing], 2, 2),
        // How tests ended is no question of files.
        ("mesh", &["/nonexistent"], 22, 22),
    ] {
        site.lab.run_client(command, arguments).failed_with(own);
        as_gfal(command, arguments).failed_with(gfal);
    }
    let mut unknown = site
        .lab
        .client(["ls", &site.first.davs("")])
        .expect("the client is built");
    unknown.env("X509_CERT_DIR", "/nonexistent");
    let untrusted = run(&unknown);
    assert_ne!(
        untrusted.code,
        Some(0),
        "an unknown authority was believed\n{}",
        untrusted.said()
    );
}

#[test]
fn names_are_listed_shown_made_moved_and_removed() {
    let Some(site) = available("names_are_listed_shown_made_moved_and_removed", site()) else {
        return;
    };
    let content = bytes(12_345, 103);
    site.first.put("names/a file", &content);
    site.first.put("names/inner/deep", b"1");
    let url = |name: &str| site.first.davs(&format!("names/{name}"));
    let listed = site.lab.run_client("ls", &[&url("")]).succeeded().text();
    let mut names: Vec<&str> = listed.lines().map(|line| line.trim_end_matches('/')).collect();
    names.sort_unstable();
    assert_eq!(names, ["a file", "inner"]);
    let entries = json_lines(&site.lab.run_client("ls", &["--json", &url("")]).succeeded());
    assert_eq!(entries.len(), 2);
    let file = entries.iter().find(|entry| entry["kind"] == "file").expect("the file");
    assert_eq!(file["name"], "a file");
    let stat = site.lab.run_client("stat", &[&url("a%20file")]).succeeded().text();
    assert!(stat.contains("12345"), "{stat}");
    for (algorithm, value) in [
        ("adler32", format!("{:08x}", adler32(&content))),
        ("md5", conformance::hex(&md5_of(&content))),
    ] {
        let sum = site
            .lab
            .run_client("sum", &[&url("a%20file"), algorithm])
            .succeeded()
            .text();
        assert!(sum.contains(&value), "{sum}");
    }
    let twice = [url("made")];
    site.lab.run_client("mkdir", &[&twice[0]]).succeeded();
    site.lab.run_client("mkdir", &[&twice[0]]).failed_with(17);
    site.lab.run_client("mkdir", &["-p", &url("made/x/y")]).succeeded();
    site.lab
        .run_client("mv", &[&url("a%20file"), &url("made/x/y/moved")])
        .succeeded();
    assert!(site.first.stored("names/made/x/y/moved") == Some(content.clone()));
    assert!(site.lab.run_client("cat", &[&url("made/x/y/moved")]).succeeded().stdout == content);
    site.lab.run_client("rm", &[&url("made")]).failed_with(21);
    site.first.put("names/made/x%41", b"another than xA");
    let listed = site.lab.run_client("rm", &["-r", "--dry-run", &url("made")]);
    let listed = listed.succeeded().text();
    let escaped = format!("{}\tWOULD DELETE", url("made/x%2541"));
    assert!(listed.lines().any(|line| line == escaped), "{listed}");
    assert!(site.first.stored("names/made/x/y/moved").is_some());
    site.lab.run_client("rm", &["-r", &url("made")]).succeeded();
    assert!(!site.first.data().join("names/made").exists());
}

/// A failure's message has these words, and none of the others.
pub(crate) fn assert_says(run: &Run, code: i32, words: &str, never: &[&str]) {
    assert_eq!(run.code, Some(code), "{}", run.said());
    assert!(run.stderr.contains(words), "{words}: {}", run.said());
    for other in never {
        assert!(!run.stderr.contains(other), "{other}: {}", run.said());
    }
}

#[test]
fn what_cannot_be_renamed_or_made_is_told_with_what_helps() {
    let Some(site) = available("what_cannot_be_renamed_or_made_is_told_with_what_helps", site()) else {
        return;
    };
    let client = |command: &str, arguments: &[&str]| site.lab.run_client(command, arguments);
    let local = site.lab.fresh("renamed");
    for directory in [local.join("d"), local.join("empty")] {
        std::fs::create_dir_all(directory).expect("a directory");
    }
    std::fs::write(local.join("f"), b"content").expect("a file");
    let local = local.to_str().expect("plain");
    site.first.put("renamed/f", b"content");
    site.first.put("renamed/d/other", b"content");
    site.first.make_directory("renamed/empty");
    for (here, there) in [
        (site.first.davs("renamed"), site.second.davs("renamed")),
        (site.first.root("renamed"), site.second.root("renamed")),
    ] {
        let file = format!("{here}/f");
        let elsewhere = client("mv", &[&file, &format!("{there}/f")]);
        assert_says(&elsewhere, 18, &format!(" && crossload rm {file}"), &["administrator"]);
    }
    let elsewhere = client("mv", &[&format!("{local}/f"), &site.first.davs("renamed/g")]);
    assert_says(&elsewhere, 18, &format!(" && crossload rm {local}/f"), &[]);
    for base in [site.first.davs("renamed"), site.first.root("renamed"), local.to_owned()] {
        let (file, directory) = (format!("{base}/f"), format!("{base}/d"));
        let whole = format!("Give the complete new name: {directory}/f");
        for arguments in [&[&file[..], &directory][..], &["-f", &file, &directory]] {
            assert_says(&client("mv", arguments), 21, &whole, &["Use -f", "parent"]);
        }
        // Servers would replace this one.
        let empty = format!("{base}/empty");
        assert_says(
            &client("mv", &["-f", &file, &empty]),
            21,
            &format!("name: {empty}/f"),
            &[],
        );
        // Servers of the XRootD protocol take an existing directory for made.
        if !base.starts_with("root") {
            assert_says(&client("mkdir", &[&directory]), 17, "mkdir -p accepts it", &["Use -f"]);
        }
        let on_file = client("mkdir", &[&file]);
        assert_says(&on_file, 17, "this one belongs to a file", &["Use -f", "mkdir -p"]);
        client("mkdir", &["-p", &directory]).succeeded();
        let removed = client("rm", &["-r", "--dry-run", &directory]).succeeded();
        assert_eq!(
            removed.text().lines().last(),
            Some(&format!("{directory}\tWOULD DELETE")[..])
        );
    }
}

#[test]
fn a_server_that_may_not_connect_is_told_of_with_what_its_user_can_do() {
    let test = "a_server_that_may_not_connect_is_told_of_with_what_its_user_can_do";
    let Some(site) = available(test, site()) else {
        return;
    };
    let mut options = site.lab.options("refusing");
    options.allow_local_peers = false;
    let refusing = Endpoint::Crossload(Box::new(Crossload::start(options).expect("it starts")));
    refusing.put("source", b"content");
    site.first.put("refused/source", b"content");
    for (mode, source, target) in [
        ("push", refusing.davs("source"), site.first.davs("refused/pushed")),
        ("pull", site.first.davs("refused/source"), refusing.davs("pulled")),
        ("pull", site.first.root("refused/source"), refusing.root("fetched")),
    ] {
        let refused = site.lab.run_client("copy", &["-p", "--mode", mode, &source, &target]);
        let own = ["tpc.", "allow_local_peers", "TransferHeader"];
        assert_says(&refused, 13, "Use --mode stream.", &own);
        site.lab
            .run_client("copy", &["-p", "--mode", "stream", &source, &target])
            .succeeded();
    }
}

#[test]
fn what_was_tried_is_told_when_no_way_works() {
    let Some(site) = available("what_was_tried_is_told_when_no_way_works", site()) else {
        return;
    };
    let mut options = site.lab.options("alone");
    options.allow_local_peers = false;
    let alone = Endpoint::Crossload(Box::new(Crossload::start(options).expect("it starts")));
    site.first.put("tried/source", b"content");
    let (source, target) = (site.first.davs("tried/source"), alone.davs("target"));
    let wrong = ["--checksum-mode", "target", "-K", "adler32:00000001"];
    let failed = site.lab.run_client("copy", &[&wrong[..], &[&source, &target]].concat());
    let tried = "tried pull (peer_address_refused at the source), then push (checksum_mismatch at the ";
    assert_says(&failed, 74, tried, &[]);
    let failed = site
        .lab
        .run_client("copy", &[&wrong[..], &["--json", &source, &target]].concat());
    let lines = json_lines(&failed);
    let tried = lines
        .iter()
        .find(|line| line["event"] == "tried")
        .expect("the attempts");
    let ways: Vec<_> = tried["attempts"].as_array().expect("a list").iter().collect();
    assert_eq!(ways.len(), 2, "{tried}");
    let last = (&ways[1]["way"], &ways[1]["error"]["code"]);
    assert_eq!(last, (&"push".into(), &"checksum_mismatch".into()));
    assert_eq!(alone.stored("target"), None);
}

#[test]
fn a_name_cannot_give_orders_to_a_terminal() {
    let Some(site) = available("a_name_cannot_give_orders_to_a_terminal", site()) else {
        return;
    };
    let tree = site.lab.fresh("odd names");
    std::fs::create_dir(&tree).expect("a directory");
    std::fs::write(tree.join("a\u{1b}[31mb\nc"), b"x").expect("a file");
    let raw = std::os::unix::ffi::OsStrExt::from_bytes(&b"\x9b2J\xff"[..]);
    std::fs::write(tree.join::<&std::ffi::OsStr>(raw), b"x").expect("a file");
    let (from, to) = (tree.to_str().expect("plain"), site.first.davs("odd"));
    for (command, arguments) in [
        ("ls", vec![from]),
        ("ls", vec!["-l", from]),
        ("copy", vec!["-r", "-p", from, &to]),
        ("rm", vec!["-r", "--dry-run", from]),
    ] {
        let told = site.lab.run_client(command, &arguments);
        let all = [told.stdout.clone(), told.stderr.clone().into_bytes()].concat();
        assert!(
            !all.contains(&0x1b) && !all.contains(&0x9b),
            "{command}: {}",
            told.said()
        );
        let said = String::from_utf8_lossy(&all).into_owned();
        assert!(
            said.contains(r"a\x1b[31mb\x0ac") && said.contains(r"\x9b2J\xff"),
            "{command}: {said}"
        );
    }
}

#[test]
fn a_copy_without_a_checksum_to_compare_says_why_or_fails() {
    let test = "a_copy_without_a_checksum_to_compare_says_why_or_fails";
    let Some(site) = available(test, site()) else { return };
    let server = Scripted::start(|seen| match seen.method.as_str() {
        "GET" | "HEAD" => Reply::whole(seen, "200 OK", &[], b"content"),
        _ => Reply::whole(seen, "405 Method Not Allowed", &["Allow: GET, HEAD"], b""),
    });
    site.first.put("verify/f", b"content");
    let (plain, summed) = (server.url("/f"), site.first.davs("verify/f"));
    let (local, other) = (site.lab.fresh("verified"), site.lab.fresh("verified-again"));
    let (local, other) = (local.to_str().expect("plain"), other.to_str().expect("plain"));
    let copy = |options: &[&str], source: &str, target: &str| {
        let arguments = [&["-f", "--verify"], options, &[source, target]].concat();
        site.lab.run_client("copy", &arguments)
    };
    copy(&["required"], &plain, local).failed_with(61);
    assert!(!std::path::Path::new(local).exists());
    let between = copy(&["required"], &plain, &site.second.davs("verify-f")).failed_with(61);
    assert!(between.said().contains("--verify available"), "{}", between.said());
    let warned = copy(&["available"], &plain, local).succeeded();
    assert!(warned.said().contains("no checksum of"), "{}", warned.said());
    copy(&["required"], &summed, "-").failed_with(61);
    let sum = Value::from(format!("adler32:{:08x}", adler32(b"content")));
    for (verify, source, target, verified, unverified, count) in [
        ("required", summed.as_str(), local, sum.clone(), Value::Null, 0),
        ("never", &summed, local, Value::Null, "not_asked".into(), 0),
        ("available", &plain, local, Value::Null, "none_at_source".into(), 1),
        ("available", local, other, Value::Null, "local".into(), 1),
        ("required", local, other, sum.clone(), Value::Null, 0),
    ] {
        let lines = json_lines(&copy(&[verify, "--json"], source, target).succeeded());
        let event = |name: &str| lines.iter().find(|line| line["event"] == name).expect("a line");
        let (done, summary) = (event("done"), event("summary"));
        assert_eq!(
            (&done["verified"], &done["unverified"]),
            (&verified, &unverified),
            "{source}"
        );
        assert_eq!(summary["unverified"], count, "{verify} {source}");
    }
}

#[test]
fn nothing_is_written_by_a_dry_run() {
    let Some(site) = available("nothing_is_written_by_a_dry_run", site()) else {
        return;
    };
    site.first.put("dry/source", b"content");
    let target = site.second.davs("dry/new/target");
    let told = site
        .lab
        .run_client(
            "copy",
            &["--dry-run", "--json", "-p", &site.first.davs("dry/source"), &target],
        )
        .succeeded();
    let lines = json_lines(&told);
    let would = lines.iter().find(|line| line["event"] == "would").expect("a plan");
    assert_eq!(would["plan"]["chosen"]["way"], "pull", "{would}");
    assert_eq!(would["plan"]["left"][1]["way"], "stream", "{would}");
    let dry = |source: &str, target: &str| {
        let told = site.lab.run_client("copy", &["--dry-run", source, target]);
        told.succeeded().text()
    };
    let told = dry(&site.first.root("dry/source"), &target);
    let words = "by pull (the destination fetches directly from the source, if it can); if that fails, stream; no push";
    assert!(told.contains(words), "{told}");
    // Between the protocols a server of the XRootD protocol is asked.
    let told = dry(&site.first.davs("dry/source"), &site.second.root("dry/new/target"));
    let words =
        "by pull (the destination fetches directly from the source: it says so); if that fails, push, then stream";
    assert!(told.contains(words), "{told}");
    assert!(!site.second.data().join("dry").exists());
    site.lab
        .run_client("copy", &["--dry-run", &site.first.davs("dry/none"), &target])
        .failed_with(2);
}

#[test]
fn standard_input_and_output_are_places() {
    let Some(site) = available("standard_input_and_output_are_places", site()) else {
        return;
    };
    let content = bytes(3 << 20, 104);
    let url = site.first.davs("pipe/file");
    site.lab
        .run_client_with_input("copy", &["-p", "-", &url], &content)
        .succeeded();
    assert!(site.first.stored("pipe/file") == Some(content.clone()));
    assert!(site.lab.run_client("copy", &[&url, "-"]).succeeded().stdout == content);
    let local = site.lab.fresh("local");
    let local_name = local.to_str().expect("plain");
    site.lab
        .run_client("copy", &["-K", "md5", &url, local_name])
        .succeeded();
    assert!(is_whole(&local, &content));
    site.lab
        .run_client(
            "copy",
            &["-f", "-K", "crc32c", local_name, &site.first.url("pipe/again")],
        )
        .succeeded();
    assert!(site.first.stored("pipe/again") == Some(content));
}

#[test]
fn an_interrupted_download_goes_on_where_it_stopped() {
    let Some(site) = available("an_interrupted_download_goes_on_where_it_stopped", site()) else {
        return;
    };
    let size = 32 << 20;
    let content = bytes(size, 105);
    site.first.put("resume/file", &content);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, site.first.port()));
    let relay = Relay::start(address).expect("a relay");
    relay.set_fault(Fault::StallAfter(Direction::ToClient, 20_000_000), 1);
    let url = format!("https://localhost:{}/data/resume/file", relay.port());
    let target = site.lab.fresh("resumed");
    let arguments = site
        .lab
        .client_arguments("copy", &["--json", &url, target.to_str().expect("plain")]);
    let mut command = site.lab.client(arguments).expect("the client is built");
    let mut first = background(&mut command, site.lab.scratch()).expect("it starts");
    until("most of it has come", Duration::from_secs(30), || {
        relay.passed_bytes(Direction::ToClient) >= 20_000_000
    });
    // What the relay has passed must have been written too, which takes the client a moment.
    first
        .wait_for("written", Duration::from_secs(30), |process| {
            process.stdout().contains("\"bytes\":1").then_some(())
        })
        .expect("the client tells its progress");
    first.kill_hard();
    assert!(!target.exists(), "an unfinished file is under the final name");
    relay.heal();
    let before = relay.passed_bytes(Direction::ToClient);
    let second = run(&command).succeeded();
    assert!(is_whole(&target, &content), "{}", second.said());
    let passed = relay.passed_bytes(Direction::ToClient) - before;
    assert!(
        passed < (size - 8_000_000) as u64,
        "{passed} bytes came again of {size}"
    );
    let beside: Vec<_> = std::fs::read_dir(target.parent().expect("a directory"))
        .expect("listed")
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.contains("resumed-") && entry.path() != target
        })
        .collect();
    assert!(beside.is_empty(), "{beside:?}");
}

#[test]
fn tokens_are_found_and_handed_over() {
    let test = "tokens_are_found_and_handed_over";
    let Some(site) = available(test, site()) else { return };
    let Some(twins) = available(test, Twins::start(&site.lab, "twins")) else {
        return;
    };
    let content = bytes(100_000, 106);
    twins.open.put("tokens/source", &content);
    let token = twins.macaroon(&site.lab, "tokens", "DOWNLOAD,UPLOAD,LIST,MANAGE,DELETE");
    let guarded = twins.guarded.davs("tokens/source");
    site.lab.run_client("cat", &[&guarded]).failed_with(13);
    let file = site.lab.file(format!("{token}\n").as_bytes());
    let by_option = ["--token-file", file.to_str().expect("plain"), &guarded];
    assert!(site.lab.run_client("cat", &by_option).succeeded().stdout == content);
    for (variable, value) in [
        ("BEARER_TOKEN", token.as_str()),
        ("BEARER_TOKEN_FILE", file.to_str().expect("plain")),
    ] {
        for mode in ["pull", "push", "stream"] {
            // The open twin knows the token too, but is another origin with another name for the
            // file.
            let name = format!("tokens/{variable}/{mode}");
            let target = twins.open.davs(&name);
            let arguments = site
                .lab
                .client_arguments("copy", &["-p", "--mode", mode, &guarded, &target]);
            let mut command = site.lab.client(arguments).expect("the client is built");
            command.env(variable, value);
            let copied = run(&command).succeeded();
            assert!(!copied.said().contains(&token), "{}", copied.said());
            assert!(twins.open.stored(&name) == Some(content.clone()));
        }
        let mut command = site
            .lab
            .client(site.lab.client_arguments("cat", &[&guarded]))
            .expect("the client is built");
        command.env(variable, value);
        assert!(run(&command).succeeded().stdout == content, "{variable}");
    }
    let within = [twins.guarded.davs("tokens/source"), twins.guarded.davs("tokens/copy")];
    site.lab
        .run_client(
            "copy",
            &["--token-file", file.to_str().expect("plain"), &within[0], &within[1]],
        )
        .succeeded();
    assert!(twins.open.stored("tokens/copy") == Some(content));
}
