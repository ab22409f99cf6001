//! Servers that mislead: `rm` and `mv` destroy what stands under a name, and must not be led to
//! another file; sizes may be made up.

use std::fs;

use conformance::{Lab, Reply, Scripted};
use testkit::available;

#[test]
fn rm_and_mv_follow_a_redirect_to_the_same_name_only() {
    let test = "rm_and_mv_follow_a_redirect_to_the_same_name_only";
    let Some(lab) = available(test, Lab::new("misled")) else {
        return;
    };
    let Some(ours) = available(test, lab.crossload(lab.options("ours"))) else {
        return;
    };
    let node = ours.clear_url("/data");
    let redirector = Scripted::start(move |seen| {
        // The name of the file says where this server leads.
        let name = seen.path.rsplit('/').next().unwrap_or_default();
        let there = if name == "asked" { "precious" } else { name };
        let location = format!("Location: {node}/{there}");
        Reply::whole(seen, "307 Temporary Redirect", &[&location], b"")
    });
    let held = |name: &str| ours.data().join(name);
    for name in ["precious", "found"] {
        fs::write(held(name), name).expect("a file");
    }
    let [asked, found, new] = ["asked", "found", "new"].map(|name| redirector.url(&format!("/{name}")));
    for arguments in [&["rm", &asked][..], &["mv", &asked, &new]] {
        let run = lab.run_client(arguments[0], &arguments[1..]);
        assert_ne!(run.code, Some(0), "{arguments:?}: {}", run.said());
        assert!(
            run.said().contains("the redirect leads to another file, "),
            "{arguments:?}: {}",
            run.said()
        );
        assert_eq!(fs::read(held("precious")).expect("it is still there"), b"precious");
    }
    // As a cluster leads to its nodes.
    lab.run_client("rm", &[&found]).succeeded();
    assert!(!held("found").exists());
}

/// The largest size that a listing can have, three times.
#[test]
fn sizes_that_a_server_makes_up_end_no_command() {
    let test = "sizes_that_a_server_makes_up_end_no_command";
    let Some(lab) = available(test, Lab::new("made-up-sizes")) else {
        return;
    };
    let server = Scripted::start(|seen| {
        let entry = |href: &str, more: &str| {
            format!(
                "<D:response><D:href>{href}</D:href><D:propstat><D:prop>{more}</D:prop>\
                 <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
            )
        };
        let largest = format!("<D:resourcetype/><D:getcontentlength>{}</D:getcontentlength>", u64::MAX);
        let listed = match seen.path.trim_end_matches('/') {
            "/d" => {
                let files = ["/d/a", "/d/b", "/d/c"].map(|file| entry(file, &largest)).concat();
                let is_listed = seen.header("depth") != Some("0");
                let directory = entry("/d/", "<D:resourcetype><D:collection/></D:resourcetype>");
                format!("{directory}{}", if is_listed { &*files } else { "" })
            }
            file => entry(file, &largest),
        };
        let body = format!("<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{listed}</D:multistatus>");
        match seen.method.as_str() {
            "PROPFIND" => Reply::whole(seen, "207 Multi-Status", &["Content-Type: text/xml"], body.as_bytes()),
            _ => Reply::whole(seen, "404 Not Found", &[], b""),
        }
    });
    let (url, here) = (server.url("/d"), lab.fresh("here"));
    let here = here.to_str().expect("plain");
    for arguments in [
        &["copy", "-r", "--dry-run", &url, here][..],
        &["sync", "--dry-run", &url, here],
        &["du", &url],
        &["ls", "-l", &url],
    ] {
        let run = lab.run_client(arguments[0], &arguments[1..]).succeeded();
        assert!(!run.stderr.contains("panicked"), "{arguments:?}: {}", run.said());
    }
    // Nothing can be copied.
    let copied = lab.run_client("copy", &["-r", "--retries", "0", &url, here]);
    assert!(copied.said().contains(" failed"), "{}", copied.said());
    assert!(!copied.stderr.contains("panicked"), "{}", copied.said());
}
