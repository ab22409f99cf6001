//! gfal2's tools, which Rucio and FTS build on: copies in every mode, with checksums, and the exit
//! codes that they tell.

use std::sync::{Arc, Weak};

use conformance::{Site, Slot, adler32, bytes, shared};
use testkit::{Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::start("gfal", "gfal-copy"))
}

#[test]
fn copies_in_every_mode_with_the_checksum_verified() {
    let Some(site) = available("copies_in_every_mode_with_the_checksum_verified", site()) else {
        return;
    };
    let content = bytes(8 << 20, 31);
    let sum = format!("ADLER32:{:08x}", adler32(&content));
    site.first.put("modes/source", &content);
    // Between two servers, and within one.
    for (mode, target) in [
        ("pull", &site.second),
        ("push", &site.second),
        ("streamed", &site.second),
        ("pull", &site.first),
        ("push", &site.first),
    ] {
        let name = format!("copied/{mode}/deep/file");
        let copied = site.lab.gfal(
            "copy",
            &[
                "-p",
                "-K",
                &sum,
                "--copy-mode",
                mode,
                "-D",
                "HTTP PLUGIN:ENABLE_FALLBACK_TPC_COPY=false",
                &site.first.davs("modes/source"),
                &target.davs(&name),
            ],
        );
        copied.succeeded();
        assert!(target.stored(&name) == Some(content.clone()), "{mode}");
    }
}

#[test]
fn existing_files_are_replaced_only_when_told() {
    let Some(site) = available("existing_files_are_replaced_only_when_told", site()) else {
        return;
    };
    let content = bytes(100_000, 32);
    site.first.put("force/source", &content);
    site.second.put("force/target", b"old");
    let (source, target) = (site.first.davs("force/source"), site.second.davs("force/target"));
    site.lab.gfal("copy", &[&source, &target]).failed_with(17);
    assert_eq!(site.second.stored("force/target").as_deref(), Some(&b"old"[..]));
    site.lab.gfal("copy", &["-f", &source, &target]).succeeded();
    assert!(site.second.stored("force/target") == Some(content));
}

#[test]
fn failures_have_the_customary_codes() {
    let Some(site) = available("failures_have_the_customary_codes", site()) else {
        return;
    };
    let target = site.second.davs("failed/target");
    site.lab
        .gfal("copy", &[&site.first.davs("failed/none"), &target])
        .failed_with(2);
    site.lab.gfal("ls", &[&site.first.davs("failed/none")]).failed_with(2);
    site.lab.gfal("stat", &[&site.first.davs("failed/none")]).failed_with(2);
    site.lab.gfal("rm", &[&site.first.davs("failed/none")]).failed_with(2);
    site.first.put("failed/source", b"content");
    let wrong = ["-K", "ADLER32:00000001", &site.first.davs("failed/source"), &target];
    site.lab.gfal("copy", &wrong).failed_with(5);
    assert_eq!(site.second.stored("failed/target"), None);
}

#[test]
fn names_are_listed_shown_made_moved_and_removed() {
    let Some(site) = available("names_are_listed_shown_made_moved_and_removed", site()) else {
        return;
    };
    let content = bytes(12_345, 33);
    site.first.put("names/file", &content);
    site.first.put("names/inner/deep", b"1");
    let url = |name: &str| site.first.davs(&format!("names/{name}"));
    let listed = site.lab.gfal("ls", &[&url("")]).succeeded().text();
    let mut names: Vec<&str> = listed.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["file", "inner"]);
    let long = site.lab.gfal("ls", &["-l", &url("")]).succeeded().text();
    assert!(
        long.lines()
            .any(|line| line.contains("12345") && line.ends_with("file\t") || line.contains("12345")),
        "{long}"
    );
    assert!(
        long.lines().any(|line| line.starts_with('d') && line.contains("inner")),
        "{long}"
    );
    let stat = site.lab.gfal("stat", &[&url("file")]).succeeded().text();
    assert!(stat.contains("Size: 12345") && stat.contains("regular file"), "{stat}");
    let stat = site.lab.gfal("stat", &[&url("inner")]).succeeded().text();
    assert!(stat.contains("directory"), "{stat}");
    let sum = site.lab.gfal("sum", &[&url("file"), "ADLER32"]).succeeded().text();
    assert!(sum.trim_end().ends_with(&format!("{:08x}", adler32(&content))), "{sum}");
    site.lab.gfal("mkdir", &[&url("made")]).succeeded();
    if site.first.is_ours() {
        site.lab.gfal("mkdir", &[&url("made")]).failed_with(17);
    }
    site.lab.gfal("mkdir", &["-p", &url("made/a/b")]).succeeded();
    site.lab
        .gfal("rename", &[&url("file"), &url("made/a/b/moved")])
        .succeeded();
    assert!(site.first.stored("names/made/a/b/moved") == Some(content));
    site.lab.gfal("rm", &[&url("made/a/b/moved")]).succeeded();
    site.lab.gfal("rm", &["-r", &url("made")]).succeeded();
    assert!(!site.first.data().join("names/made").exists());
}

#[test]
fn files_go_up_and_down() {
    let Some(site) = available("files_go_up_and_down", site()) else {
        return;
    };
    let content = bytes(3 << 20, 34);
    let local = site.lab.file(&content);
    let up = site.first.davs("up/file");
    site.lab
        .gfal(
            "copy",
            &["-p", "-K", "ADLER32", &format!("file://{}", local.display()), &up],
        )
        .succeeded();
    assert!(site.first.stored("up/file") == Some(content.clone()));
    let down = site.lab.fresh("down");
    site.lab
        .gfal("copy", &["-K", "ADLER32", &up, &format!("file://{}", down.display())])
        .succeeded();
    assert!(conformance::is_whole(&down, &content));
}
