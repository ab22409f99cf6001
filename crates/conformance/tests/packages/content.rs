//! What is in the packages, with which modes, and that the same commit makes the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::run;
use testkit::{available, require};

use crate::workshop::{EPOCH, VERSION, Workshop, recipe, workshop};

/// What every package installs, as Debian's packages name it.
const INSTALLED: [&str; 15] = [
    "/etc/crossload/conf.d",
    "/etc/crossload/crossload.toml",
    "/usr/lib/systemd/system/crossload.service",
    "/usr/lib/systemd/system/crossload@.service",
    "/usr/lib/sysusers.d/crossload.conf",
    "/usr/lib/tmpfiles.d/crossload.conf",
    "/usr/bin/crossload",
    "/usr/share/bash-completion/completions/crossload",
    "/usr/share/fish/vendor_completions.d/crossload.fish",
    "/usr/share/man/man1/crossload.1.gz",
    "/usr/share/man/man1/crossload-queue-submit.1.gz",
    "/usr/share/doc/crossload/README.md",
    "/usr/share/doc/crossload/changelog.gz",
    "/usr/share/doc/crossload/third-party-licenses.gz",
    "/usr/share/doc/crossload/examples/monitoring/alerts.yaml",
];

/// A line of `dpkg-deb --contents`: mode, owner and path.
fn entries(package: &Path) -> Vec<(String, String, String)> {
    let mut list = Command::new("dpkg-deb");
    let listed = run(list.arg("--contents").arg(package)).succeeded().text();
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let path = words[5].trim_start_matches('.');
        // A directory ends with a slash.
        let path = path.trim_end_matches('/').to_owned();
        (words[0].to_owned(), words[1].to_owned(), path)
    };
    listed.lines().map(entry).collect()
}

fn field(package: &Path, name: &str) -> String {
    let mut show = Command::new("dpkg-deb");
    let shown = run(show.arg("--field").arg(package).arg(name)).succeeded();
    shown.text().trim().to_owned()
}

#[test]
fn a_debian_package_is_complete_and_without_faults() {
    let test = "a_debian_package_is_complete_and_without_faults";
    let Some(workshop) = available(test, workshop()) else {
        return;
    };
    let made = workshop.pack("deb", &workshop.light, Some(&workshop.light_symbols), "deb");
    let names: Vec<_> = made.iter().filter_map(|path| path.file_name()).collect();
    assert_eq!(
        names,
        ["crossload_9.8.7-1_amd64.deb", "crossload-dbgsym_9.8.7-1_amd64.deb"]
    );
    let found = entries(&made[0]);
    for path in INSTALLED.iter().chain(&[
        "/usr/share/zsh/vendor-completions/_crossload",
        "/usr/share/doc/crossload/copyright",
        "/usr/share/doc/crossload/changelog.Debian.gz",
    ]) {
        assert!(found.iter().any(|entry| entry.2 == *path), "{path}: {found:?}");
    }
    for (mode, owner, path) in &found {
        let expected = match (mode.starts_with('d'), path == "/usr/bin/crossload") {
            (true, _) => "drwxr-xr-x",
            (false, true) => "-rwxr-xr-x",
            (false, false) => "-rw-r--r--",
        };
        assert_eq!((mode.as_str(), owner.as_str()), (expected, "root/root"), "{path}");
    }
    let mut conffiles = Command::new("dpkg-deb");
    let conffiles = run(conffiles.arg("--info").arg(&made[0]).arg("conffiles"));
    let kept: Vec<&str> = found
        .iter()
        .filter(|entry| entry.2.starts_with("/etc/") && entry.0.starts_with('-'))
        .map(|entry| entry.2.as_str())
        .collect();
    assert_eq!(conffiles.text().lines().collect::<Vec<_>>(), kept);
    assert!(
        field(&made[0], "Depends").starts_with("libc6 (>= 2."),
        "{}",
        field(&made[0], "Depends")
    );
    assert_eq!(field(&made[1], "Depends"), "crossload (= 9.8.7-1)");
    if let Some(lintian) = available(test, require("lintian")) {
        // Symbols of a program without any are a fault.
        run(Command::new(lintian).args(["--fail-on", "error"]).arg(&made[0])).succeeded();
    }
}

#[test]
fn an_rpm_package_is_complete_and_old_releases_read_it() {
    let test = "an_rpm_package_is_complete_and_old_releases_read_it";
    let Some(workshop) = available(test, workshop()) else {
        return;
    };
    let made = workshop.pack("rpm", &workshop.light, Some(&workshop.light_symbols), "rpm");
    let query = |format: &str| {
        let mut rpm = Command::new("rpm");
        run(rpm
            .args(["--query", "--package", "--queryformat", format])
            .arg(&made[0]))
        .succeeded()
        .text()
    };
    let files = query("[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags}\n]");
    for path in INSTALLED.iter().chain(&[
        "/usr/share/zsh/site-functions/_crossload",
        "/usr/share/licenses/crossload/LICENSE",
    ]) {
        assert!(
            files.lines().any(|line| line.split(' ').next() == Some(path)),
            "{path}: {files}"
        );
    }
    for line in files.lines() {
        assert!(line.contains(" root:root "), "{line}");
        let is_configuration = line.starts_with("/etc/") && line.contains(" -rw");
        assert_eq!(line.ends_with(" cn"), is_configuration, "{line}");
    }
    assert_eq!(
        query("%{BUILDHOST} %{BUILDTIME} %{VERSION}-%{RELEASE}"),
        format!("reproducible {EPOCH} 9.8.7-1")
    );
    // What the rpm of EL 8 (4.14) knows of, and no more.
    let needed = query("[%{REQUIRENAME}\n]");
    for feature in needed.lines().filter(|line| line.starts_with("rpmlib(")) {
        let known = [
            "CompressedFileNames",
            "FileDigests",
            "PayloadFilesHavePrefix",
            "PayloadIsXz",
        ];
        assert!(
            known.iter().any(|name| feature == format!("rpmlib({name})")),
            "{feature}"
        );
    }
    assert!(needed.contains("libc.so.6(GLIBC_2."), "{needed}");
    let mut details = Command::new("rpm");
    run(details.arg("-qpil").arg(&made[1])).succeeded();
}

#[test]
fn the_archive_of_the_client_has_what_its_users_need() {
    let Some(workshop) = available("the_archive_of_the_client_has_what_its_users_need", workshop()) else {
        return;
    };
    let mut archive = recipe("archive");
    archive
        .arg("--client")
        .args([&workshop.light, &workshop.scratch.join("client")]);
    let made = run(&archive).succeeded().text();
    let mut list = Command::new("tar");
    let listed = run(list.args(["--list", "--file", made.trim()])).succeeded().text();
    let top = format!("crossload-client-{VERSION}-linux-x86_64");
    for path in [
        "bin/crossload",
        "share/man/man1/crossload-copy.1.gz",
        "share/bash-completion/completions/crossload",
        "share/zsh/site-functions/_crossload",
        "LICENSE",
        "third-party-licenses.gz",
    ] {
        assert!(
            listed.lines().any(|line| line == format!("{top}/{path}")),
            "{path}: {listed}"
        );
    }
    assert!(!listed.contains("systemd"), "{listed}");
}

/// All packages of a tree, made below another directory, in the surroundings of another user.
fn packed(workshop: &Workshop, stage: &Path, directory: &str, umask: &str) -> Vec<PathBuf> {
    let output = workshop.scratch.create(directory).expect("a directory");
    let temporary = workshop
        .scratch
        .create(&format!("temporary-{umask}"))
        .expect("a directory");
    let commands = [
        ("deb/build", Some(&workshop.light_symbols)),
        ("rpm/build", Some(&workshop.light_symbols)),
        ("archive", None),
    ];
    for (name, symbols) in commands {
        let made = recipe(name);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("umask {umask} && exec \"$@\""), "sh"]);
        shell.arg(made.get_program()).arg(stage).arg(&output).args(symbols);
        shell.envs(made.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("TMPDIR", &temporary).env("LANG", format!("{umask}.UTF-8"));
        run(&shell).succeeded();
    }
    let mut found: Vec<PathBuf> = fs::read_dir(&output)
        .expect("the packages")
        .map(|entry| entry.expect("a package").path())
        .collect();
    found.sort();
    found
}

#[test]
fn the_same_program_makes_the_same_packages() {
    let Some(workshop) = available("the_same_program_makes_the_same_packages", workshop()) else {
        return;
    };
    // The same content with other times, found by the file system in another order.
    let copy = workshop.scratch.join("light-copy");
    let mut copies = Command::new("cp");
    run(copies.args(["-r", "--preserve=mode"]).args([&workshop.light, &copy])).succeeded();
    let first = packed(&workshop, &workshop.light, "first", "022");
    let second = packed(&workshop, &copy, "second", "077");
    assert_eq!(first.len(), 5, "{first:?}");
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(one.file_name(), other.file_name());
        let is_same = fs::read(one).expect("a package") == fs::read(other).expect("a package");
        assert!(is_same, "{} and {} differ", one.display(), other.display());
    }
}
