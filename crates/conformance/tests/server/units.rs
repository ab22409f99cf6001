//! The units of systemd and the configurations that packages install, judged by systemd's own tools
//! and by the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Lab, run};
use testkit::{Crossload, available, is_superuser};

/// Exposure by `systemd-analyze security`, in tenths.
const EXPOSURE_MAX: u32 = 20;
/// The same where files belong to mapped users.
const MAPPED_EXPOSURE_MAX: u32 = 40;
/// Where units expect the program.
const INSTALLED: &str = "/usr/bin/crossload";
/// How lines of an example begin in the comments of a configuration.
const EXAMPLE: &str = "#   ";

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// The files of a directory with one of these endings, in the order of their names.
fn files(directory: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).expect("a directory");
    let ends = |path: &PathBuf| {
        path.extension()
            .is_some_and(|own| endings.iter().any(|ending| own == *ending))
    };
    let mut files: Vec<PathBuf> = listed
        .map(|entry| entry.expect("an entry").path())
        .filter(ends)
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", directory.display());
    files
}

/// Copies files, with the path of the program under test.
fn copy(files: &[PathBuf], directory: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(directory).expect("a directory");
    let binary = Crossload::binary().expect("the program");
    let copied = files.iter().map(|file| {
        let text = fs::read_to_string(file).expect("text");
        let copy = directory.join(file.file_name().expect("a name"));
        fs::write(&copy, text.replace(INSTALLED, binary.to_str().expect("text"))).expect("a copy");
        copy
    });
    copied.collect()
}

/// Demands that systemd finds no mistake, and no more exposure than this.
fn assert_good(lab: &Lab, units: &[PathBuf], exposure_max: u32) {
    let mut command = lab.command("systemd-analyze").expect("systemd");
    command.args(["verify", "--man=no"]).args(units);
    let verified = run(&command).succeeded();
    // What it ignores is no failure for it.
    assert_eq!(verified.stderr, "");
    let services = units
        .iter()
        .filter(|unit| unit.extension().is_some_and(|ending| ending == "service"));
    let mut command = lab.command("systemd-analyze").expect("systemd");
    command.args(["security", "--offline=true", "--no-pager"]);
    command.arg(format!("--threshold={exposure_max}")).args(services);
    let judged = run(&command);
    assert_eq!(judged.code, Some(0), "{}", judged.said());
}

#[test]
fn units_have_no_mistake_and_little_exposure() {
    let test = "units_have_no_mistake_and_little_exposure";
    let Some(lab) = available(
        test,
        Lab::new("units").and_then(|lab| lab.command("systemd-analyze").map(|_| lab)),
    ) else {
        return;
    };
    let directory = lab.fresh("units");
    let units = copy(&files(&packaging("systemd"), &["service", "socket"]), &directory);
    assert_good(&lab, &units, EXPOSURE_MAX);

    let service = directory.join("crossload.service");
    let examples = files(&packaging("systemd/examples/crossload.service.d"), &["conf"]);
    copy(&examples, &directory.join("crossload.service.d"));
    assert_good(&lab, &[service], MAPPED_EXPOSURE_MAX);
}

#[test]
fn the_account_and_its_directories_can_be_made() {
    let test = "the_account_and_its_directories_can_be_made";
    let Some(lab) = available(
        test,
        Lab::new("sysusers").and_then(|lab| lab.command("systemd-sysusers").map(|_| lab)),
    ) else {
        return;
    };
    let root = lab.fresh("root");
    fs::create_dir_all(root.join("etc")).expect("a directory");
    let made = |program: &str, arguments: &[&str], file: &str| {
        let mut command = lab.command(program).expect("systemd");
        command.arg("--root").arg(&root).args(arguments).arg(packaging(file));
        run(&command).succeeded();
    };
    // Both change owners.
    if is_superuser() {
        made("systemd-sysusers", &[], "systemd/sysusers.d/crossload.conf");
        let users = fs::read_to_string(root.join("etc/passwd")).expect("users");
        assert!(users.starts_with("crossload:x:"), "{users}");
        made("systemd-tmpfiles", &["--create"], "systemd/tmpfiles.d/crossload.conf");
        for directory in ["var/lib/crossload", "srv/crossload"] {
            assert!(root.join(directory).is_dir(), "{directory}");
        }
    }
}

#[test]
fn packaged_configurations_are_valid_as_are_their_examples() {
    let test = "packaged_configurations_are_valid_as_are_their_examples";
    let Some(lab) = available(test, Lab::new("packaged")) else {
        return;
    };
    let directory = lab.fresh("etc");
    fs::create_dir(&directory).expect("a directory");
    for file in files(&packaging("etc/crossload"), &["toml"]) {
        let text = fs::read_to_string(&file).expect("text");
        let name = file.file_stem().expect("a name").to_str().expect("text");
        let main = directory.join(format!("{name}.toml"));
        fs::write(&main, &text).expect("a file");
        check(&lab, &main);
        // The example is a file of its own, which is merged over it.
        let more = directory.join(if name == "crossload" {
            "conf.d".to_owned()
        } else {
            format!("{name}.d")
        });
        let example: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(EXAMPLE)).collect();
        assert!(!example.is_empty(), "{name}");
        fs::create_dir(&more).expect("a directory");
        fs::write(more.join("site.toml"), example.join("\n")).expect("a file");
        check(&lab, &main);

        // The socket unit fits without changes.
        let unit = if name == "crossload" {
            name.to_owned()
        } else {
            format!("crossload-{name}")
        };
        let socket = fs::read_to_string(packaging("systemd").join(format!("{unit}.socket"))).expect("a socket unit");
        let address = socket
            .lines()
            .find_map(|line| line.strip_prefix("ListenStream="))
            .expect("an address");
        assert!(
            text.contains(&format!("\nlisten = [\"{address}\"]\n")),
            "{unit}: {address}"
        );
    }
}

fn check(lab: &Lab, file: &Path) {
    let path = file.to_str().expect("text");
    run(&lab.client(["config", "check", path]).expect("the program")).succeeded();
}

#[test]
fn services_without_a_configuration_of_the_site_say_what_is_missing() {
    let test = "services_without_a_configuration_of_the_site_say_what_is_missing";
    let Some(lab) = available(test, Lab::new("unconfigured")) else {
        return;
    };
    let file = packaging("etc/crossload/redirector.toml");
    let run = run(Command::new(Crossload::binary().expect("the program"))
        .args(["redirector", "--config"])
        .arg(file));
    // Units do not restart with this code.
    assert_eq!(run.code, Some(22), "{}", run.said());
    assert!(run.stderr.contains("[[node]]"), "{}", run.stderr);
    for unit in files(&packaging("systemd"), &["service"]) {
        let text = fs::read_to_string(&unit).expect("text");
        assert!(
            text.contains("\nRestartPreventExitStatus=13 22\n"),
            "{}",
            unit.display()
        );
    }
    drop(lab);
}
