//! Our own client on trees and lists: several files at a time, in both protocols, between servers,
//! up and down, and on this machine.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use conformance::{Run, Site, Slot, background, bytes, json_lines, last_json, put_tree, shared, tree, until, visible};
use serde_json::Value;
use testkit::{Direction, Fault, Process, Relay, Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

pub(crate) fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::of_ours("trees"))
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// The events of this name.
fn events(run: &Run, name: &str) -> Vec<Value> {
    let lines = json_lines(run).into_iter();
    lines.filter(|line| line["event"] == name).collect()
}

/// Files whose copies stall behind a relay until it is healed.
const LONG: [&str; 3] = ["long/1", "long/2", "long/3"];
/// Files beside them that pass.
const SHORT: [&str; 3] = ["short/1", "short/2", "short/3"];
const PATIENCE: Duration = Duration::from_secs(60);

/// Begins to copy a tree at the first server into `back`, until only the long files are missing.
fn begin_to_copy(site: &Site, directory: &str, back: &Path) -> (Relay, Vec<String>, Process) {
    for name in LONG {
        site.first.put(&format!("{directory}/{name}"), &bytes(4 << 20, 11));
    }
    put_tree(&site.first.data().join(directory), &SHORT);
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, site.first.port()))).expect("a relay");
    // Only the long files get so far.
    relay.set_fault(Fault::StallAfter(Direction::ToClient, 2_000_000), LONG.len());
    let url = format!("https://localhost:{}/data/{directory}", relay.port());
    let target = format!("{}/", text(back));
    let arguments: Vec<String> = ["-r", "-p", "--json", "--transfers", "8", &url, &target]
        .map(str::to_owned)
        .into();
    let plain: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = site
        .lab
        .client(site.lab.client_arguments("copy", &plain))
        .expect("the client is built");
    let copying = background(&mut command, site.lab.scratch()).expect("it starts");
    until("all long files are on their way", PATIENCE, || {
        relay.struck() == LONG.len()
    });
    until("the short ones do not wait for them", PATIENCE, || {
        SHORT.iter().all(|name| back.join(directory).join(name).exists())
    });
    (relay, arguments, copying)
}

#[test]
fn files_of_a_tree_are_copied_at_the_same_time() {
    let Some(site) = available("files_of_a_tree_are_copied_at_the_same_time", site()) else {
        return;
    };
    let back = site.lab.fresh("wide");
    let (relay, _, mut copying) = begin_to_copy(&site, "wide", &back);
    copying
        .wait_for("the totals", PATIENCE, |process| {
            let totals = process.stdout();
            let last = totals.lines().rfind(|line| line.contains(r#""event":"total""#))?;
            last.contains(r#""found_files":6"#).then_some(())
        })
        .expect("the client tells how far it is");
    assert!(LONG.iter().all(|name| !back.join("wide").join(name).exists()));
    relay.heal();
    until("the copy ends", PATIENCE, || !copying.is_running());
    let summary = copying.stdout().lines().last().unwrap_or_default().to_owned();
    assert!(summary.contains(r#""failed":0,"files":6"#), "{summary}");
    assert!(tree(&back.join("wide")) == tree(&site.first.data().join("wide")));
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

/// Files, failed, skipped.
fn counts(copied: &Run) -> [u64; 3] {
    let summary = last_json(copied);
    ["files", "failed", "skipped"].map(|name| summary[name].as_u64().unwrap_or_else(|| panic!("{}", copied.said())))
}

#[test]
fn a_tree_that_was_copied_in_part_is_completed() {
    let Some(site) = available("a_tree_that_was_copied_in_part_is_completed", site()) else {
        return;
    };
    let back = site.lab.fresh("part");
    let (relay, arguments, mut killed) = begin_to_copy(&site, "part", &back);
    killed.kill_hard();
    relay.heal();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let completed = site.lab.run_client("copy", &arguments).succeeded();
    assert_eq!(counts(&completed), [3, 0, 3], "{}", completed.said());
    assert!(tree(&back.join("part")) == tree(&site.first.data().join("part")));
}

/// Gives a file other content, and a time relative to now.
fn change(path: &Path, content: &[u8], seconds: i64) {
    fs::write(path, content).expect("a file");
    let file = fs::File::options().write(true).open(path).expect("it opens");
    let span = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    let time = if seconds < 0 { now - span } else { now + span };
    file.set_modified(time).expect("its time is set");
}

#[test]
fn a_repeated_copy_of_a_tree_copies_nothing_twice() {
    let Some(site) = available("a_repeated_copy_of_a_tree_copies_nothing_twice", site()) else {
        return;
    };
    let names = ["a", "b", "d/c", "d/e/f", "empty/g"];
    let back = site.lab.fresh("back");
    put_tree(&site.first.data().join("again"), &names);
    let local = site.first.data().join("again");
    for (source, target, directory) in [
        (
            text(&local).to_owned(),
            site.second.davs("up-http/"),
            site.second.data().join("up-http"),
        ),
        (
            text(&local).to_owned(),
            site.second.root("up-root/"),
            site.second.data().join("up-root"),
        ),
        (
            text(&local).to_owned(),
            format!("{}/here/", text(&back)),
            back.join("here"),
        ),
        (
            site.first.davs("again"),
            format!("{}/down/", text(&back)),
            back.join("down"),
        ),
        (
            site.first.davs("again"),
            site.second.davs("across/"),
            site.second.data().join("across"),
        ),
        (
            site.first.root("again"),
            site.second.root("away/"),
            site.second.data().join("away"),
        ),
    ] {
        let copy = |more: &[&str]| {
            let arguments = [&["-r", "-p", "--json", &source, &target], more].concat();
            let copied = site.lab.run_client("copy", &arguments);
            (counts(&copied), copied)
        };
        assert_eq!(copy(&[]).0, [5, 0, 0], "{source} {target}");
        let (again, ended) = copy(&[]);
        assert_eq!(again, [0, 0, 5], "{}", ended.succeeded().said());
        let (here, there) = (local.join("d/c"), directory.join("again/d/c"));
        let (old, new) = (fs::read(&here).expect("it"), bytes(4095, 77));
        change(&here, &new, 100);
        let (other, refused) = copy(&[]);
        assert_eq!(other, [0, 1, 4], "{}", refused.said());
        assert!(refused.failed_with(1).stderr.contains("it has another checksum"));
        assert_eq!(copy(&["--skip-existing"]).0, [0, 0, 5]);
        assert_eq!(fs::read(&there).expect("it"), old);
        assert_eq!(copy(&["--update"]).0, [1, 0, 4]);
        assert_eq!(fs::read(&there).expect("it"), new);
        change(&here, b"shorter", -100);
        assert_eq!(copy(&[]).0, [0, 1, 4]);
        assert_eq!(copy(&["--update"]).0, [0, 0, 5], "it is newer there");
        assert_eq!(copy(&["-f"]).0, [5, 0, 0]);
        assert_eq!(fs::read(&there).expect("it"), b"shorter");
        // The copy is newer, but what must be verified is no less so where it is skipped.
        change(&here, b"SHORTER", -100);
        let (required, ended) = copy(&["--verify", "required"]);
        assert_eq!(required, [0, 1, 4], "{}", ended.said());
        change(&here, &old, -100);
    }
}

#[test]
fn where_a_tree_goes_does_not_depend_on_what_is_there() {
    let Some(site) = available("where_a_tree_goes_does_not_depend_on_what_is_there", site()) else {
        return;
    };
    site.first.put("rule/set/file", b"x");
    let back = site.lab.fresh("rule");
    for set in [
        site.first.davs("rule/set"),
        site.first.root("rule/set"),
        text(&site.first.data().join("rule/set")).to_owned(),
    ] {
        for (source, target, wanted) in [
            (set.clone(), "D", "D/set/file"),
            (set.clone(), "E/", "E/set/file"),
            (format!("{set}/"), "F", "F/file"),
            (format!("{set}/"), "G/", "G/file"),
        ] {
            let target = format!("{}/{target}", text(&back));
            for skipped in [0, 1] {
                let copied = site
                    .lab
                    .run_client("copy", &["-r", "--json", &source, &target])
                    .succeeded();
                assert_eq!(counts(&copied), [1 - skipped, 0, skipped], "{source} {target}");
            }
            assert_eq!(visible(&back), [wanted]);
            fs::remove_dir_all(&back).expect("it goes");
        }
    }
}

#[test]
fn files_of_a_tree_are_selected_by_name_age_and_size() {
    let Some(site) = available("files_of_a_tree_are_selected_by_name_age_and_size", site()) else {
        return;
    };
    let tree = site.first.data().join("select");
    for name in [
        "a.root",
        "a.log",
        "deep/b.root",
        "deep/er/c.root",
        "logs/d.root",
        "short.root",
        "old.root",
    ] {
        site.first.put(&format!("select/{name}"), &bytes(100, 5));
    }
    site.first.put("select/short.root", b"x");
    change(&tree.join("old.root"), &bytes(100, 5), -1000);
    let all = [
        "--include",
        "*.root",
        "--exclude",
        "/logs",
        "--exclude",
        "er/",
        "--max-age",
        "500s",
        "--min-size",
        "50",
    ];
    let back = site.lab.fresh("select");
    for source in [
        site.first.davs("select/"),
        site.first.root("select/"),
        format!("{}/", text(&tree)),
    ] {
        let copied = site
            .lab
            .run_client("copy", &[&["-r", "--json"], &all[..], &[&source, text(&back)]].concat());
        assert_eq!(counts(&copied.succeeded()), [2, 0, 0]);
        assert_eq!(visible(&back), ["a.root", "deep/b.root"]);
        assert!(!back.join("deep/er").exists() && !back.join("logs").exists());
        fs::remove_dir_all(&back).expect("it goes");
    }
}

#[test]
fn a_list_may_name_destinations() {
    let Some(site) = available("a_list_may_name_destinations", site()) else {
        return;
    };
    site.first.put("list/a b", b"1");
    site.first.put("list/c", b"2");
    site.first.put("list/d/e", b"3");
    let (back, odd) = (site.lab.fresh("list"), site.first.data().join("list/a b"));
    let lines = format!(
        "# names\n\n{}\t{}/new name\n{} {}\n{}\t{}/\n",
        text(&odd),
        text(&back),
        site.first.davs("list/c"),
        site.second.root("listed/c"),
        site.first.davs("list/d"),
        text(&back),
    );
    let copied = site
        .lab
        .run_client_with_input("copy", &["-r", "-p", "--json", "--from-file", "-"], lines.as_bytes());
    assert_eq!(counts(&copied.succeeded()), [3, 0, 0]);
    assert_eq!(visible(&back), ["d/e", "new name"]);
    assert_eq!(site.second.stored("listed/c").as_deref(), Some(&b"2"[..]));
    let without = site.lab.file(format!("{}\n", text(&odd)).as_bytes());
    let refused = site
        .lab
        .run_client("copy", &["--from-file", text(&without)])
        .failed_with(22);
    assert!(
        refused.stderr.contains("the line names no destination"),
        "{}",
        refused.said()
    );
}

#[test]
fn modification_times_are_kept_where_that_is_possible() {
    let Some(site) = available("modification_times_are_kept_where_that_is_possible", site()) else {
        return;
    };
    let tree = site.first.data().join("times");
    site.first.put("times/file", b"x");
    change(&tree.join("file"), b"content", -5000);
    let modified = |path: &Path| {
        let time = fs::metadata(path).and_then(|found| found.modified()).expect("a time");
        time.duration_since(SystemTime::UNIX_EPOCH).expect("now").as_secs()
    };
    let back = site.lab.fresh("times");
    for source in [
        site.first.davs("times/"),
        site.first.root("times/"),
        format!("{}/", text(&tree)),
    ] {
        for wanted in [[1, 0, 0], [0, 0, 1]] {
            let copied = site
                .lab
                .run_client("copy", &["-r", "--times", "--json", &source, text(&back)]);
            assert_eq!(counts(&copied.succeeded()), wanted);
            assert_eq!(modified(&back.join("file")), modified(&tree.join("file")));
        }
        fs::remove_dir_all(&back).expect("it goes");
    }
    // By X-OC-MTime over HTTP; the XRootD protocol has no such thing, nor do third-party copies.
    let (here, stored) = (format!("{}/", text(&tree)), site.second.data().join("timed/file"));
    let copy = |options: &[&str], source: &str, target: &str| {
        let arguments = [&["-r", "--times", "--json"], options, &[source, target]].concat();
        site.lab.run_client("copy", &arguments).succeeded()
    };
    for (options, source, target, is_kept) in [
        (&[][..], here.as_str(), site.second.davs("timed/"), true),
        (
            &["--mode", "stream"],
            &site.first.root("times/"),
            site.second.davs("timed/"),
            true,
        ),
        (&[], &site.first.davs("times/"), site.second.davs("timed/"), false),
        (&[], &here, site.second.root("timed/"), false),
    ] {
        let copied = copy(options, source, &target);
        assert_eq!(
            modified(&stored) == modified(&tree.join("file")),
            is_kept,
            "{target}: {}",
            copied.said()
        );
        let told = copied.stderr.contains("sets modification times itself");
        assert_eq!(told, !is_kept, "{}", copied.said());
        if is_kept {
            assert_eq!(counts(&copy(options, source, &target)), [0, 0, 1]);
        }
        fs::remove_file(&stored).expect("it goes");
    }
}

#[test]
fn the_last_line_says_what_would_be_done_and_what_was_skipped() {
    let test = "the_last_line_says_what_would_be_done_and_what_was_skipped";
    let Some(site) = available(test, site()) else { return };
    let (from, to) = (site.lab.fresh("from"), site.lab.fresh("to"));
    put_tree(&from, &["new"]);
    put_tree(&to, &["old"]);
    let (source, target) = (format!("{}/", text(&from)), text(&to));
    let last = |command: &str, arguments: &[&str]| {
        let ran = site.lab.run_client(command, arguments).succeeded();
        ran.text().lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(
        last("sync", &["--dry-run", "--delete", &source, target]),
        "1 file would be copied, 0 failed, 1 would be deleted"
    );
    let file = format!("{source}new");
    for words in ["[DONE] ", "0 files copied (0 B), 0 failed, 1 skipped"] {
        let said = last("copy", &["--update", &file, target]);
        assert!(said.starts_with(words), "{said}");
    }
}

#[test]
fn a_tree_is_made_like_another_one() {
    let Some(site) = available("a_tree_is_made_like_another_one", site()) else {
        return;
    };
    let names = ["a", "b", "d/c", "d/e/f"];
    let outside = site.lab.fresh("outside");
    fs::create_dir_all(&outside).expect("a directory");
    fs::write(outside.join("precious"), b"x").expect("a file");
    let back = site.lab.fresh("synced");
    let from = site.first.data().join("sync");
    for (source, target, there) in [
        (
            text(&from).to_owned(),
            site.second.davs("sync-up"),
            site.second.data().join("sync-up"),
        ),
        (
            site.first.root("sync"),
            site.second.root("sync-away"),
            site.second.data().join("sync-away"),
        ),
        (site.first.davs("sync"), text(&back).to_owned(), back.clone()),
    ] {
        put_tree(&from, &names);
        let slash = format!("{source}/");
        let sync = |more: &[&str]| {
            let arguments = [&["--json", &slash, &target], more].concat();
            site.lab.run_client("sync", &arguments)
        };
        assert_eq!(counts(&sync(&[]).succeeded()), [4, 0, 0], "{target}");
        // One is changed, one is gone, and the destination has more, with a link out of it.
        change(&from.join("d/c"), &bytes(4095, 99), 100);
        fs::remove_file(from.join("b")).expect("it goes");
        fs::create_dir_all(there.join("more/deep")).expect("directories");
        fs::write(there.join("more/deep/file"), b"y").expect("a file");
        fs::write(there.join("kept.log"), b"z").expect("a file");
        if there == back {
            symlink(&outside, there.join("more/link")).expect("a link");
        }
        let wanted = ["a", "b", "d/c", "d/e/f", "kept.log", "more/deep/file"];
        let all = || {
            let mut names = visible(&there);
            names.retain(|name| !name.starts_with("more/link"));
            names
        };
        let dry = sync(&["--dry-run", "--delete"]).succeeded();
        assert_eq!(events(&dry, "would_delete").len(), 3, "{}", dry.said());
        assert_eq!(events(&dry, "would").len(), 1, "{}", dry.said());
        let few = sync(&["--max-delete", "4", "--delete"]).failed_with(1);
        assert!(few.stderr.contains("nothing was deleted"), "{}", few.said());
        assert_eq!(counts(&few), [1, 0, 2]);
        assert_eq!(all(), wanted, "{target}");
        assert_eq!(counts(&sync(&[]).succeeded()), [0, 0, 3]);
        assert_eq!(all(), wanted, "{target}");
        sync(&["--delete", "--exclude", "*.log", "--exclude", "deep/"]).succeeded();
        assert_eq!(all(), ["a", "d/c", "d/e/f", "kept.log", "more/deep/file"]);
        let done = sync(&["--delete", "--max-delete", "4"]).succeeded();
        assert_eq!(last_json(&done)["deleted"], 2, "{}", done.said());
        assert_eq!(all(), ["a", "d/c", "d/e/f"]);
        assert!(outside.join("precious").exists() && !there.join("more").exists());
        let compared = site.lab.run_client("compare", &[&slash, &target]).succeeded();
        assert!(compared.text().contains("3 equal, 0 different"), "{}", compared.said());
        fs::remove_dir_all(&from).expect("it goes");
    }
}

#[test]
fn nothing_is_deleted_if_the_source_is_not_known_completely() {
    let test = "nothing_is_deleted_if_the_source_is_not_known_completely";
    let Some(site) = available(test, site()) else { return };
    put_tree(&site.first.data().join("odd-sync"), &["a", "d/b"]);
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff");
    fs::write(site.first.data().join("odd-sync/d").join(odd), b"x").expect("a file");
    for (source, name) in [
        (site.first.davs("odd-sync/"), "odd-http"),
        (site.first.root("odd-sync/"), "odd-root"),
    ] {
        site.second.put(&format!("{name}/more"), b"y");
        let synced = site
            .lab
            .run_client("sync", &["--delete", "--json", &source, &site.second.davs(name)]);
        let synced = synced.failed_with(1);
        assert!(synced.stderr.contains("nothing was deleted"), "{}", synced.said());
        assert_eq!(visible(&site.second.data().join(name)), ["a", "d/b", "more"]);
    }
    // Programs hear of a missing source as copy says it.
    let none = site.first.davs("odd-none/");
    let missing = site
        .lab
        .run_client("sync", &["--delete", "--json", &none, &site.second.davs("odd-http")])
        .failed_with(2);
    assert_eq!(counts(&missing), [0, 1, 0]);
    let failed = events(&missing, "failed");
    assert!(
        failed.len() == 1 && failed[0]["source"] == none && failed[0]["error"]["exit_code"] == 2,
        "{failed:?}"
    );
}

#[test]
fn differences_of_two_trees_are_told() {
    let Some(site) = available("differences_of_two_trees_are_told", site()) else {
        return;
    };
    let (first, second) = (site.first.data().join("first"), site.second.data().join("second"));
    put_tree(&first, &["same", "x/size", "x/content", "x/only-first"]);
    put_tree(&second, &["same", "x/size", "x/content", "y/only-second"]);
    fs::write(second.join("x/size"), b"another").expect("a file");
    change(&second.join("x/content"), &bytes(4095, 55), 100);
    for (here, there) in [
        (site.first.davs("first"), site.second.davs("second")),
        (site.first.root("first"), site.second.root("second/")),
        (text(&first).to_owned(), site.second.davs("second")),
        (text(&first).to_owned(), text(&second).to_owned()),
    ] {
        let compare = |more: &[&str]| {
            let compared = site
                .lab
                .run_client("compare", &[&["--json", &here, &there], more].concat());
            let lines = json_lines(&compared.failed_with(3)).into_iter();
            let mut told: Vec<String> = lines
                .filter_map(|line| {
                    let name = line["place"].as_str()?.rsplit('/').next()?.to_owned();
                    Some(format!("{} {name}", line["event"].as_str()?))
                })
                .collect();
            told.sort();
            told
        };
        let wanted = [
            "only_first only-first",
            "only_second y",
            "other_checksum content",
            "other_size size",
        ];
        assert_eq!(compare(&[]), wanted);
        assert_eq!(compare(&["--compare", "size"]), [wanted[0], wanted[1], wanted[3]]);
        assert_eq!(compare(&["--compare", "time"]), [wanted[0], wanted[1], wanted[3]]);
        let other = site.lab.run_client("compare", &["--include", "same", &here, &there]);
        assert!(other.succeeded().text().contains("1 equal, 0 different"));
    }
    site.lab
        .run_client("compare", &[&site.first.davs("none"), text(&second)])
        .failed_with(2);
}

#[test]
fn a_failure_that_passes_is_tried_again() {
    let Some(site) = available("a_failure_that_passes_is_tried_again", site()) else {
        return;
    };
    // Longer than what the engine tries by itself with a server that cannot be reached.
    let names = ["a", "b", "c"];
    let tree = site.lab.fresh("retried");
    put_tree(&tree, &names);
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, site.second.port()))).expect("a relay");
    let url = format!("https://localhost:{}/data/retried", relay.port());
    site.second.make_directory("retried");
    // Each attempt breaks the first connection that carries a file.
    relay.set_fault(Fault::CutAfter(Direction::ToTarget, 100_000), 1);
    fs::write(tree.join("long"), bytes(1 << 20, 3)).expect("a file");
    let source = format!("{}/", text(&tree));
    let copy = |more: &[&str]| {
        site.lab
            .run_client("copy", &[&["-r", "--json", &source, &url], more].concat())
    };
    let once = copy(&["--retries", "0"]).failed_with(1);
    assert_eq!(counts(&once), [3, 1, 0], "{}", once.said());
    relay.set_fault(Fault::CutAfter(Direction::ToTarget, 100_000), 1);
    let again = copy(&[]).succeeded();
    assert_eq!(counts(&again), [1, 0, 3], "{}", again.said());
    assert_eq!(events(&again, "retry").len(), 1, "{}", again.said());
    assert_eq!(relay.struck(), 2);
}

#[test]
fn all_files_together_keep_to_a_rate() {
    let Some(site) = available("all_files_together_keep_to_a_rate", site()) else {
        return;
    };
    for name in ["1", "2", "3"] {
        site.first.put(&format!("rate/{name}"), &bytes(2 << 20, 9));
    }
    let local = site.first.data().join("rate");
    let back = site.lab.fresh("rate");
    for (number, (source, target)) in [
        (site.first.davs("rate"), text(&back).to_owned()),
        (site.first.root("rate"), text(&back).to_owned()),
        (text(&local).to_owned(), site.second.davs("rate-http")),
        (text(&local).to_owned(), site.second.root("rate-root")),
        (site.first.davs("rate"), site.second.davs("rate-through")),
        (text(&local).to_owned(), text(&back.join("here")).to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        // Without the limit it takes a fraction of a second.
        let limited = ["-r", "-f", "-p", "--mode", "stream", "--bwlimit", "6MiB/s", "--json"];
        let copied = site
            .lab
            .run_client("copy", &[&limited[..], &[&source, &target]].concat());
        let seconds = last_json(&copied.succeeded())["seconds"].as_f64().expect("a time");
        assert!(seconds > 0.8, "{number}: {seconds}");
    }
    let direct = [
        "-r",
        "-p",
        "--bwlimit",
        "1GiB",
        &site.first.davs("rate"),
        &site.second.davs("rate-direct"),
    ];
    let told = site.lab.run_client("copy", &direct).succeeded();
    assert!(told.stderr.contains("--mode stream it does"), "{}", told.said());
}
