//! rclone over WebDAV: a whole tree with names that need care, up, down, and compared by rclone
//! itself.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, SystemTime};

use conformance::{Endpoint, Lab, Run, put_tree, run, tree};
use testkit::{Result, available, require};

/// Files whose names need care in URLs and in pages, each in a directory of its own but the first.
pub(crate) const NAMES: [&str; 10] = [
    "plain",
    "deep/er/and/deeper/file",
    "with blanks/a file with blanks",
    "per%cent/100%",
    "hash#tag/a#b",
    "question?/what?",
    "unicode/äöü-日本語-🚀",
    "signs/a+b&c=d;e,f@g!h$i'j(k)",
    "markup/<a> & \"b\"",
    "dots/.hidden",
];

struct Site {
    lab: Lab,
    server: Endpoint,
}

fn site() -> Result<Site> {
    require("rclone")?;
    let lab = Lab::new("rclone")?;
    let server = lab.endpoint("server")?;
    Ok(Site { lab, server })
}

impl Site {
    fn rclone(&self, arguments: &[&str]) -> Run {
        self.rclone_for("other", arguments)
    }

    /// Runs it as for a server of this vendor.
    fn rclone_for(&self, vendor: &str, arguments: &[&str]) -> Run {
        let mut command: Command = self.lab.command("rclone").expect("rclone is installed");
        command
            .args([
                "--config",
                "/dev/null",
                "--retries",
                "1",
                "--low-level-retries",
                "2",
                "--ca-cert",
            ])
            .arg(self.lab.authority().ca_file())
            .args(["--webdav-vendor", vendor, "--webdav-url", &self.server.url("")])
            .args(arguments);
        run(&command)
    }
}

#[test]
fn a_tree_goes_up_and_down_and_compares_equal() {
    let Some(site) = available("a_tree_goes_up_and_down_and_compares_equal", site()) else {
        return;
    };
    // XRootD sends names in listings without encoding, which rclone cannot read.
    let names: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| site.server.is_ours() || name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'/'))
        .collect();
    let (local, back) = (site.lab.fresh("local"), site.lab.fresh("back"));
    put_tree(&local, &names);
    let (from, to) = (local.to_str().expect("plain"), back.to_str().expect("plain"));
    site.rclone(&["copy", from, ":webdav:tree"]).succeeded();
    assert!(tree(&site.server.data().join("tree")) == tree(&local));
    site.rclone(&["check", "--download", from, ":webdav:tree"]).succeeded();
    site.rclone(&["check", "--size-only", from, ":webdav:tree"]).succeeded();
    site.rclone(&["copy", ":webdav:tree", to]).succeeded();
    assert!(tree(&back) == tree(&local));
}

/// For servers of ownCloud it sends the time with each file, and compares it afterwards.
#[test]
fn times_are_kept() {
    let Some(site) = available("times_are_kept", site()) else {
        return;
    };
    if !site.server.is_ours() {
        return;
    }
    let local = site.lab.fresh("local");
    put_tree(&local, &["a", "b/c"]);
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let file = File::options().write(true).open(local.join("b/c")).expect("a file");
    file.set_modified(then).expect("its time is set");
    let from = local.to_str().expect("plain");
    site.rclone_for("owncloud", &["copy", from, ":webdav:timed"])
        .succeeded();
    let stored = std::fs::metadata(site.server.data().join("timed/b/c")).expect("a file");
    assert_eq!(stored.modified().expect("a time"), then);
    let again = site
        .rclone_for("owncloud", &["copy", "-v", from, ":webdav:timed"])
        .succeeded();
    assert!(!again.said().contains("Copied"), "{}", again.said());
}

#[test]
fn streams_moves_and_deletions() {
    let Some(site) = available("streams_moves_and_deletions", site()) else {
        return;
    };
    if !site.server.is_ours() {
        return;
    }
    let content = conformance::bytes(1 << 20, 51);
    let mut command = site.lab.command("rclone").expect("rclone is installed");
    command
        .args(["--config", "/dev/null", "--retries", "1", "--ca-cert"])
        .arg(site.lab.authority().ca_file())
        .args([
            "--webdav-vendor",
            "other",
            "--webdav-url",
            &site.server.url(""),
            "rcat",
            ":webdav:rcat/file",
        ]);
    conformance::run_with_input(&command, &content).succeeded();
    assert!(site.server.stored("rcat/file") == Some(content.clone()));
    site.rclone(&["moveto", ":webdav:rcat/file", ":webdav:moved to/a file"])
        .succeeded();
    assert!(site.server.stored("moved to/a file") == Some(content));
    assert_eq!(site.server.stored("rcat/file"), None);
    // A directory that holds something stays (XRootD refuses it too), so rclone has to remove the
    // files first.
    site.rclone(&["delete", ":webdav:moved to"]).succeeded();
    site.rclone(&["rmdirs", ":webdav:moved to"]).succeeded();
    assert!(!site.server.data().join("moved to").exists());
}
