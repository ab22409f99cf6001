//! Our own client on trees and lists: several files at a time, in both protocols, between servers,
//! up and down, and on this machine.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use conformance::{Run, Site, Slot, background, bytes, json_lines, last_json, put_tree, shared, tree, until};
use serde_json::Value;
use testkit::{Direction, Fault, Relay, Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::of_ours("trees"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// The events of this name.
fn events(run: &Run, name: &str) -> Vec<Value> {
    let lines = json_lines(run).into_iter();
    lines.filter(|line| line["event"] == name).collect()
}

#[test]
fn files_of_a_tree_are_copied_at_the_same_time() {
    let Some(site) = available("files_of_a_tree_are_copied_at_the_same_time", site()) else {
        return;
    };
    let (long, short) = (["long/1", "long/2", "long/3"], ["short/1", "short/2", "short/3"]);
    for name in long {
        site.first.put(&format!("wide/{name}"), &bytes(4 << 20, 11));
    }
    put_tree(&site.first.data().join("wide"), &short);
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, site.first.port()))).expect("a relay");
    // Only the long files get so far.
    relay.set_fault(Fault::StallAfter(Direction::ToClient, 2_000_000), long.len());
    let url = format!("https://localhost:{}/data/wide", relay.port());
    let back = site.lab.fresh("wide");
    let arguments = ["-r", "--json", "--transfers", "8", &url, text(&back)];
    let arguments = site.lab.client_arguments("copy", &arguments);
    let mut command = site.lab.client(arguments).expect("the client is built");
    let mut copying = background(&mut command, site.lab.scratch()).expect("it starts");
    let patience = Duration::from_secs(60);
    until("all long files are on their way", patience, || {
        relay.struck() == long.len()
    });
    until("the short ones do not wait for them", patience, || {
        short.iter().all(|name| back.join(name).exists())
    });
    copying
        .wait_for("the totals", patience, |process| {
            let totals = process.stdout();
            let found = totals.lines().rfind(|line| line.contains(r#""event":"total""#))?;
            found.contains(r#""found_files":6"#).then_some(())
        })
        .expect("the client tells how far it is");
    assert!(long.iter().all(|name| !back.join(name).exists()));
    relay.heal();
    until("the copy ends", patience, || !copying.is_running());
    let summary = copying.stdout().lines().last().unwrap_or_default().to_owned();
    assert!(summary.contains(r#""failed":0,"files":6"#), "{summary}");
    assert!(tree(&back) == tree(&site.first.data().join("wide")));
}

#[test]
fn a_file_that_fails_stops_no_other() {
    let Some(site) = available("a_file_that_fails_stops_no_other", site()) else {
        return;
    };
    let names = ["a", "b", "c", "d/e", "d/f"];
    put_tree(&site.first.data().join("some"), &names);
    let local = site.first.data().join("some");
    let (back, up) = (site.lab.fresh("back"), "up-some");
    // A directory is in the way of a file.
    fs::create_dir_all(back.join("some/b")).expect("a directory");
    site.second.make_directory("up-some/some/b");
    let targets = [
        (site.first.davs("some"), text(&back).to_owned()),
        (site.first.root("some"), text(&back).to_owned()),
        (text(&local).to_owned(), text(&back).to_owned()),
        (text(&local).to_owned(), site.second.davs(up)),
        (site.first.davs("some"), site.second.davs(up)),
        (site.first.root("some"), site.second.root(up)),
    ];
    for (source, target) in targets {
        let copied = site.lab.run_client("copy", &["-r", "-f", "--json", &source, &target]);
        let copied = copied.failed_with(1);
        let failed = events(&copied, "failed");
        assert_eq!(failed.len(), 1, "{}", copied.said());
        assert!(
            failed[0]["source"].as_str().is_some_and(|name| name.ends_with("/b")),
            "{failed:?}"
        );
        let summary = last_json(&copied);
        assert_eq!(
            (&summary["files"], &summary["failed"]),
            (&4.into(), &1.into()),
            "{summary}"
        );
    }
    for copy in [back.join("some"), site.second.data().join("up-some/some")] {
        let found: Vec<_> = tree(&copy).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["a", "c", "d/e", "d/f"]);
    }
    // With a list, the first failure may end it.
    let list = format!("{}\n{}\n", site.first.davs("missing"), site.first.davs("some/a"));
    let list = site.lab.file(list.as_bytes());
    let into = site.lab.fresh("into");
    let listed = ["--from-file", text(&list), &format!("{}/", text(&into))];
    let aborted = [&["--abort-on-failure", "-p"][..], &listed].concat();
    site.lab.run_client("copy", &aborted).failed_with(2);
    assert!(!into.exists());
    let all = [&["-p"][..], &listed].concat();
    site.lab.run_client("copy", &all).failed_with(1);
    assert!(into.join("a").exists());
}
