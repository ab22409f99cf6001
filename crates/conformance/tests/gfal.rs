//! gfal2's tools, which Rucio and FTS build on: copies in every mode, with checksums, and the exit codes that they tell.

use std::sync::Weak;

use conformance::{Endpoint, Lab, Run, Slot, adler32, bytes, run, shared};
use testkit::{Result, available, require};

struct Site {
    lab: Lab,
    first: Endpoint,
    second: Endpoint,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<std::sync::Arc<Site>> {
    shared(&SITE, || {
        require("gfal-copy")?;
        let lab = Lab::new("gfal")?;
        let (first, second) = (lab.endpoint("first")?, lab.endpoint("second")?);
        Ok(Site { lab, first, second })
    })
}

impl Site {
    #[track_caller]
    fn gfal(&self, tool: &str, arguments: &[&str]) -> Run {
        let mut command = self.lab.command(&format!("gfal-{tool}")).expect("gfal2 is installed");
        command.args(arguments);
        run(&command)
    }
}

#[test]
fn copies_in_every_mode_with_the_checksum_verified() {
    let Some(site) = available("copies_in_every_mode_with_the_checksum_verified", site()) else {
        return;
    };
    let content = bytes(8 << 20, 31);
    let sum = format!("ADLER32:{:08x}", adler32(&content));
    site.first.put("modes/source", &content);
    for mode in ["pull", "push", "streamed"] {
        let name = format!("copied/{mode}/deep/file");
        let copied = site.gfal(
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
                &site.second.davs(&name),
            ],
        );
        copied.succeeded();
        assert!(site.second.stored(&name) == Some(content.clone()), "{mode}");
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
    site.gfal("copy", &[&source, &target]).failed_with(17);
    assert_eq!(site.second.stored("force/target").as_deref(), Some(&b"old"[..]));
    site.gfal("copy", &["-f", &source, &target]).succeeded();
    assert!(site.second.stored("force/target") == Some(content));
}

#[test]
fn failures_have_the_customary_codes() {
    let Some(site) = available("failures_have_the_customary_codes", site()) else {
        return;
    };
    let target = site.second.davs("failed/target");
    site.gfal("copy", &[&site.first.davs("failed/none"), &target])
        .failed_with(2);
    site.gfal("ls", &[&site.first.davs("failed/none")]).failed_with(2);
    site.gfal("stat", &[&site.first.davs("failed/none")]).failed_with(2);
    site.gfal("rm", &[&site.first.davs("failed/none")]).failed_with(2);
    site.first.put("failed/source", b"content");
    let wrong = ["-K", "ADLER32:00000001", &site.first.davs("failed/source"), &target];
    site.gfal("copy", &wrong).failed_with(5);
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
    let listed = site.gfal("ls", &[&url("")]).succeeded().text();
    let mut names: Vec<&str> = listed.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["file", "inner"]);
    let long = site.gfal("ls", &["-l", &url("")]).succeeded().text();
    assert!(
        long.lines()
            .any(|line| line.contains("12345") && line.ends_with("file\t") || line.contains("12345")),
        "{long}"
    );
    assert!(
        long.lines().any(|line| line.starts_with('d') && line.contains("inner")),
        "{long}"
    );
    let stat = site.gfal("stat", &[&url("file")]).succeeded().text();
    assert!(stat.contains("Size: 12345") && stat.contains("regular file"), "{stat}");
    let stat = site.gfal("stat", &[&url("inner")]).succeeded().text();
    assert!(stat.contains("directory"), "{stat}");
    let sum = site.gfal("sum", &[&url("file"), "ADLER32"]).succeeded().text();
    assert!(sum.trim_end().ends_with(&format!("{:08x}", adler32(&content))), "{sum}");
    site.gfal("mkdir", &[&url("made")]).succeeded();
    if site.first.is_ours() {
        site.gfal("mkdir", &[&url("made")]).failed_with(17);
    }
    site.gfal("mkdir", &["-p", &url("made/a/b")]).succeeded();
    site.gfal("rename", &[&url("file"), &url("made/a/b/moved")]).succeeded();
    assert!(site.first.stored("names/made/a/b/moved") == Some(content));
    site.gfal("rm", &[&url("made/a/b/moved")]).succeeded();
    site.gfal("rm", &["-r", &url("made")]).succeeded();
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
    site.gfal(
        "copy",
        &["-p", "-K", "ADLER32", &format!("file://{}", local.display()), &up],
    )
    .succeeded();
    assert!(site.first.stored("up/file") == Some(content.clone()));
    let down = site.lab.fresh("down");
    site.gfal("copy", &["-K", "ADLER32", &up, &format!("file://{}", down.display())])
        .succeeded();
    assert!(conformance::is_whole(&down, &content));
}
