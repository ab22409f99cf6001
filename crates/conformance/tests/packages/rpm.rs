//! An RPM package's life in a root directory of its own.

use std::fs;
use std::process::Command;

use conformance::{Run, run};
use testkit::{DebianRoot, available, require};

use crate::debian::serves;
use crate::workshop::workshop;

#[test]
fn rpm_installs_verifies_and_removes_the_package() {
    let test = "rpm_installs_verifies_and_removes_the_package";
    let Some(workshop) = available(test, workshop()) else {
        return;
    };
    // Scriptlets need a shell and the programs of a system; whose they are does not matter to rpm.
    let site = require("rpm").and_then(|_| DebianRoot::unpack("bookworm", &workshop.scratch.join("rpm-root")));
    let Some(root) = available(test, site) else {
        return;
    };
    let package = workshop.pack("rpm", &workshop.stage, None, "rpm-package").remove(0);
    let package = package.to_str().expect("plain");
    let rpm = |arguments: &[&str]| -> Run {
        let mut command = Command::new("rpm");
        run(command.arg("--root").arg(root.path()).args(arguments))
    };
    // The packages of the root are in dpkg's database, not in rpm's.
    rpm(&["--install", "--nodeps", package]).succeeded();
    let verified = rpm(&["--verify", "--nodeps", "crossload"]).succeeded();
    assert_eq!(verified.text(), "");
    let mut version = root.command("crossload");
    run(version.arg("--version")).succeeded();
    serves(&root, &workshop);

    fs::write(root.path().join("usr/bin/crossload"), "changed").expect("written");
    let verified = rpm(&["--verify", "--nodeps", "crossload"]);
    assert!(verified.text().contains("/usr/bin/crossload"), "{}", verified.said());
    rpm(&["--upgrade", "--nodeps", "--replacepkgs", package]).succeeded();
    assert_eq!(rpm(&["--verify", "--nodeps", "crossload"]).succeeded().text(), "");

    rpm(&["--erase", "crossload"]).succeeded();
    assert!(!root.path().join("usr/bin/crossload").exists());
    rpm(&["--query", "crossload"]).failed_with(1);
    assert!(root.path().join("srv/crossload/file").exists());
}
