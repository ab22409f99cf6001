//! A release is made of a tag only, and its notes are those of the changelog.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use conformance::{Run, run};
use testkit::{Result, Scratch, available, require};

use crate::workshop::repository;

const CHART: &str = "packaging/chart/crossload/Chart.yaml";
/// What `./dev release --check` reads.
const FILES: [&str; 9] = [
    "dev",
    "Cargo.toml",
    "Cargo.lock",
    "packaging/settings",
    "packaging/tasks",
    "packaging/release-notes",
    CHART,
    "crates/conformance/requirements.txt",
    "crates/testkit/helm/go.mod",
];

/// A repository with no more than that.
struct Repository {
    scratch: Scratch,
}

impl Repository {
    fn new() -> Result<Self> {
        require("git")?;
        let scratch = Scratch::new("release")?;
        let here = repository();
        for directory in [
            "tree/packaging/chart/crossload",
            "tree/crates/conformance",
            "tree/crates/testkit/helm",
        ] {
            scratch.create(directory)?;
        }
        for name in FILES {
            fs::copy(here.join(name), scratch.join("tree").join(name))?;
        }
        let repository = Self { scratch };
        repository.set_version("1.2.3");
        repository.write(
            "CHANGELOG.md",
            "# Changelog\n\n## [1.2.3] - 2026-12-24\n\n- It is new.\n\n## [1.2.2] - 2026-12-23\n\n- It is old.\n",
        );
        repository.git(&["init", "-q"]);
        repository.commit();
        Ok(repository)
    }

    fn tree(&self) -> PathBuf {
        self.scratch.join("tree")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.tree().join(name), text).expect("a file");
    }

    fn set_version(&self, version: &str) {
        let chart = format!("apiVersion: v2\nname: crossload\nversion: {version}\nappVersion: {version}\n");
        self.write(CHART, &chart);
        for (name, before) in [
            ("Cargo.toml", "[workspace.package]\n"),
            ("Cargo.lock", "name = \"crossload\"\n"),
        ] {
            let text = fs::read_to_string(self.tree().join(name)).expect("a file");
            let (head, rest) = text.split_once(before).expect("its section");
            let (_, rest) = rest.split_once('\n').expect("a line");
            self.write(name, &format!("{head}{before}version = \"{version}\"\n{rest}"));
        }
    }

    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "commit.gpgSign=false",
        ]);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        run(git.args(arguments).current_dir(self.tree())).succeeded();
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "-q", "--message", "All"]);
    }

    fn check(&self) -> Run {
        let mut dev = Command::new("./dev");
        dev.env_remove("SOURCE_DATE_EPOCH").env_remove("PACKAGE_VERSION");
        run(dev.args(["release", "--check"]).current_dir(self.tree()))
    }

    #[track_caller]
    fn refused(&self, reason: &str) {
        let refused = self.check().failed_with(1);
        assert!(refused.stderr.contains(reason), "{}", refused.said());
    }
}

#[test]
fn a_release_needs_its_tag_its_heading_and_a_clean_tree() {
    let test = "a_release_needs_its_tag_its_heading_and_a_clean_tree";
    let Some(repository) = available(test, Repository::new()) else {
        return;
    };
    repository.refused("does not have the tag v1.2.3");
    repository.git(&["tag", "v1.2.3"]);
    let allowed = repository.check().succeeded();
    assert!(allowed.stderr.contains("v1.2.3 can be released"), "{}", allowed.said());
    repository.write("more", "of it");
    repository.refused("changes that are in no commit");
    repository.commit();
    repository.refused("does not have the tag v1.2.3");

    repository.set_version("1.2.4");
    repository.commit();
    repository.git(&["tag", "v1.2.4"]);
    repository.refused("no heading '## [1.2.4] - YEAR-MONTH-DAY'");

    let mut notes = Command::new("packaging/release-notes");
    let printed = run(notes.arg("1.2.3").current_dir(repository.tree()))
        .succeeded()
        .text();
    assert!(printed.starts_with("# Crossload 1.2.3\n\n- It is new.\n"), "{printed}");
    assert!(!printed.contains("It is old."), "{printed}");
    assert!(
        printed.contains("apt install ./crossload_1.2.3-1_amd64.deb"),
        "{printed}"
    );
    let mut notes = Command::new("packaging/release-notes");
    run(notes.arg("1.2.4").current_dir(repository.tree())).failed_with(1);
}
