//! `rm` and `mv` destroy what stands under a name: a server must not lead them to another file.

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
