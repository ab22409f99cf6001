//! Files that are damaged on their way in clear text: what was there before stays where the server
//! can compare, and each failure has its code.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use conformance::{Endpoint, Lab, Reply, Scripted, Site, Slot, adler32, background, bytes, shared, until};
use testkit::{Direction, Fault, Relay, Result, XrootdAccess, XrootdVersion, available};

use crate::trees::text;

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::of_ours("damaged"))
}

const SIZE: usize = 300_000;
/// Behind all heads of requests, within the file.
const FLIPPED: u64 = 100_000;
const OLD: &[u8] = b"the old file";
const PATIENCE: Duration = Duration::from_secs(60);

/// A relay that damages what goes to a server.
fn damaging(server: &Endpoint) -> Relay {
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).expect("a relay");
    relay.set_fault(Fault::FlipBitAfter(Direction::ToTarget, FLIPPED), usize::MAX);
    relay
}

/// The URL of a file or directory in clear text, through the relay.
fn through(relay: &Relay, name: &str) -> String {
    format!("http://localhost:{}/data/{name}", relay.port())
}

#[test]
fn a_damaged_upload_does_not_replace_a_file_at_our_server() {
    let test = "a_damaged_upload_does_not_replace_a_file_at_our_server";
    let Some(site) = available(test, site()) else {
        return;
    };
    let content = bytes(SIZE, 39);
    let tree = site.lab.fresh("from");
    fs::create_dir(&tree).expect("a directory");
    fs::write(tree.join("f"), &content).expect("a file");
    let (file, tree) = (text(&tree.join("f")).to_owned(), format!("{}/", text(&tree)));
    let (file, tree) = (file.as_str(), tree.as_str());
    // It reports no checksum.
    let body = content.clone();
    let plain = Scripted::start(move |seen| Reply::whole(seen, "200 OK", &[], &body));
    let streamed = plain.url("/f");
    let relay = damaging(&site.first);
    for (name, arguments) in [
        ("file", &["copy", "-f", file][..]),
        ("required", &["copy", "-f", "--verify", "required", file][..]),
        ("tree", &["copy", "-r", "-f", tree][..]),
        ("sync", &["sync", tree][..]),
        ("streamed", &["copy", "-f", "--mode", "stream", streamed.as_str()][..]),
    ] {
        let held = format!("replaced-{name}/f");
        site.first.put(&held, OLD);
        let is_tree = arguments.contains(&tree);
        let name_there = if is_tree {
            held.trim_end_matches('f')
        } else {
            held.as_str()
        };
        let target = through(&relay, name_there);
        let more = [&arguments[1..], &["--retries", "0", target.as_str()][..]].concat();
        let run = site.lab.run_client(arguments[0], &more);
        let run = run.failed_with(74);
        let said = run.said();
        assert!(said.contains("CHECKSUM MISMATCH"), "{name}: {said}");
        assert!(!said.contains("may remain"), "{name}: {said}");
        assert!(site.first.stored(&held).as_deref() == Some(OLD), "{name}: {said}");
        // What comes whole replaces it.
        relay.heal();
        let run = site.lab.run_client(arguments[0], &more).succeeded();
        assert!(
            site.first.stored(&held).as_ref() == Some(&content),
            "{name}: {}",
            run.said()
        );
        relay.set_fault(Fault::FlipBitAfter(Direction::ToTarget, FLIPPED), usize::MAX);
    }
}

#[test]
fn a_damaged_input_does_not_replace_a_file_at_our_server() {
    let test = "a_damaged_input_does_not_replace_a_file_at_our_server";
    let Some(site) = available(test, site()) else {
        return;
    };
    let content = bytes(SIZE, 42);
    let relay = damaging(&site.first);
    let target = through(&relay, "input");
    site.first.put("input", OLD);
    let copy = || site.lab.run_client_with_input("copy", &["-f", "-", &target], &content);
    let refused = copy().failed_with(74);
    assert!(site.first.stored("input").as_deref() == Some(OLD), "{}", refused.said());
    relay.heal();
    let copied = copy().succeeded();
    assert!(
        site.first.stored("input").as_ref() == Some(&content),
        "{}",
        copied.said()
    );
    let kept = site.lab.run_client_with_input("copy", &["-", &target], b"new");
    kept.failed_with(17);
}

/// XRootD writes over a file as the data comes, also if our server sends it.
#[test]
fn an_upload_that_is_damaged_before_a_server_of_others_files_names_what_may_remain() {
    let test = "an_upload_that_is_damaged_before_a_server_of_others_files_names_what_may_remain";
    let started = Lab::new("damaged-behind").and_then(|lab| {
        let xrootd = lab.xrootd("behind", XrootdAccess::Open)?;
        Ok((lab, xrootd))
    });
    let Some((lab, xrootd)) = available(test, started) else {
        return;
    };
    let mut options = lab.options("front");
    options.exports.clear();
    options.more = format!(
        "[[export]]\npath = \"/data\"\nremote = \"{}\"\nanonymous = \"write\"\n",
        xrootd.url("/data")
    );
    let front = lab.crossload(options).expect("a server");
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, front.port()))).expect("a relay");
    lab.upload(&front.url("/data/f"), OLD, &[]).expect(201);
    relay.set_fault(Fault::FlipBitAfter(Direction::ToTarget, FLIPPED), usize::MAX);
    let file = lab.file(&bytes(SIZE, 44));
    let target = through(&relay, "f");
    let refused = lab.run_client("copy", &["-f", "--retries", "0", text(&file), &target]);
    let said = refused.failed_with(74).said();
    assert!(said.contains("may remain at"), "{said}");
}

#[test]
fn an_input_that_is_damaged_on_its_way_is_no_new_file() {
    let test = "an_input_that_is_damaged_on_its_way_is_no_new_file";
    let Some(site) = available(test, site()) else {
        return;
    };
    let content = bytes(SIZE, 43);
    let relay = damaging(&site.first);
    let target = through(&relay, "new-input");
    let copy = |more: &[&str]| {
        let arguments = [more, &["-", &target][..]].concat();
        site.lab.run_client_with_input("copy", &arguments, &content)
    };
    let refused = copy(&[]).failed_with(74);
    assert!(refused.said().contains("CHECKSUM MISMATCH"), "{}", refused.said());
    assert_eq!(site.first.stored("new-input"), None, "{}", refused.said());
    relay.heal();
    let copied = copy(&["--verify", "required"]).succeeded();
    assert!(copied.said().contains("adler32"), "{}", copied.said());
    assert!(site.first.stored("new-input").as_ref() == Some(&content));
}

/// Another client stores a good file within the same second, when XRootD still has the checksum of
/// the damaged one. Our clean-up comes some seconds later.
#[test]
fn a_damaged_file_is_removed_and_a_good_one_that_has_replaced_it_stays() {
    let test = "a_damaged_file_is_removed_and_a_good_one_that_has_replaced_it_stays";
    let site = Site::with_xrootd_of(XrootdVersion::V5, "raced", "xrootd");
    let Some(site) = available(test, site) else { return };
    let content = bytes(SIZE, 40);
    let file = site.lab.file(&content);
    let relay = damaging(site.theirs());
    let copy = |name: &str| {
        let target = through(&relay, name);
        let arguments = ["-vv", "--retries", "0", text(&file), target.as_str()];
        let mut command = site
            .lab
            .client(site.lab.client_arguments("copy", &arguments))
            .expect("the client is built");
        let mut copying = background(&mut command, site.lab.scratch()).expect("it starts");
        until("it has compared", PATIENCE, || {
            copying.stderr().to_lowercase().contains("digest: adler32=") || !copying.is_running()
        });
        if name == "raced" {
            fs::write(site.theirs().data().join(name), &content).expect("the other client's file");
        }
        until("it ends", PATIENCE, || !copying.is_running());
        copying.stderr()
    };
    thread::scope(|scope| {
        let alone = scope.spawn(|| copy("alone"));
        let raced = scope.spawn(|| copy("raced"));
        let (alone, raced) = (alone.join().expect("no panic"), raced.join().expect("no panic"));
        assert_eq!(site.theirs().stored("alone"), None, "{alone}");
        assert!(alone.contains("CHECKSUM MISMATCH"), "{alone}");
        assert!(site.theirs().stored("raced").as_ref() == Some(&content), "{raced}");
        assert!(raced.contains("a part of the file may remain at"), "{raced}");
    });
}

#[test]
fn a_source_that_lies_about_its_checksum_is_copied_without() {
    let test = "a_source_that_lies_about_its_checksum_is_copied_without";
    let Some(site) = available(test, site()) else {
        return;
    };
    let liar = Scripted::start(|seen| {
        let of_another_file: &[&str] = match seen.header("want-digest") {
            Some(_) => &["Digest: adler32=12345678"],
            None => &[],
        };
        Reply::whole(seen, "200 OK", of_another_file, b"content")
    });
    let source = liar.url("/f");
    for (name, target) in [
        ("lied-root", site.first.root("lied-root")),
        ("lied-http", site.first.clear_url("lied-http")),
    ] {
        let copy = |verify: &str| {
            let arguments = [
                "--mode",
                "stream",
                "--retries",
                "0",
                "--verify",
                verify,
                &source,
                &target,
            ];
            site.lab.run_client("copy", &arguments)
        };
        copy("available").failed_with(74);
        assert_eq!(site.first.stored(name), None);
        let copied = copy("never").succeeded();
        assert_eq!(
            site.first.stored(name).as_deref(),
            Some(&b"content"[..]),
            "{}",
            copied.said()
        );
    }
}

#[test]
fn a_file_that_our_server_refuses_ends_with_the_code_of_damaged_data() {
    let test = "a_file_that_our_server_refuses_ends_with_the_code_of_damaged_data";
    let Some(site) = available(test, site()) else {
        return;
    };
    let content = bytes(SIZE, 41);
    let file = site.lab.file(&content);
    site.first.put("source", &content);
    let source = site.first.clear_url("source");
    let relay = damaging(&site.second);
    let sum = format!("adler32:{:08x}", adler32(&content));
    for (name, arguments) in [
        ("streamed", &["--mode", "stream", source.as_str()][..]),
        ("expected", &["--checksum", sum.as_str(), text(&file)][..]),
    ] {
        for held in [None, Some(OLD)] {
            if let Some(old) = held {
                site.second.put(name, old);
            }
            let target = through(&relay, name);
            let more = [&["-f", "--retries", "0"][..], arguments, &[target.as_str()][..]].concat();
            let refused = site.lab.run_client("copy", &more).failed_with(74);
            assert!(!refused.said().contains("may remain"), "{}", refused.said());
            assert_eq!(site.second.stored(name).as_deref(), held, "{}", refused.said());
        }
    }
}
