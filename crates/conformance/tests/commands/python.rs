//! The Python module (`python/`): its wheel is built and installed, and its own tests run against
//! ours and XRootD over both protocols.

use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Site, run};
use serde_json::json;
use testkit::{Crossload, Result, available, require_python};

use crate::root_client;

fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python")
}

/// Python with the tools of the tests, in the environment of the site.
fn python(site: &Site, installed: &Path) -> Result<Command> {
    let mut command = site.lab.prepared(&require_python("pytest")?);
    command
        .env("PYTHONPATH", installed)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(module());
    Ok(command)
}

/// Builds the wheel and installs it into a new directory.
fn install(site: &Site) -> Result<PathBuf> {
    let (wheels, installed) = (site.lab.fresh("wheels"), site.lab.fresh("installed"));
    let mut build = python(site, &installed)?;
    build
        .env("CROSSLOAD_BIN", Crossload::binary()?)
        .args(["-m", "hatchling", "build", "-t", "wheel", "-d"])
        .arg(&wheels);
    run(&build).succeeded();
    let built = std::fs::read_dir(&wheels).expect("wheels");
    let built: Vec<_> = built.map(|entry| entry.expect("a wheel").path()).collect();
    let [wheel] = &built[..] else {
        panic!("one wheel is built: {built:?}");
    };
    let name = wheel.file_name().and_then(|name| name.to_str()).expect("plain");
    let begin = concat!("crossload-", env!("CARGO_PKG_VERSION"), "-py3-none-linux_");
    assert!(name.starts_with(begin), "{name}");
    let mut install = python(site, &installed)?;
    install
        .args(["-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target"])
        .arg(&installed)
        .arg(wheel);
    run(&install).succeeded();
    Ok(installed)
}

/// The directories that the tests may write to.
fn places(site: &Site) -> String {
    let places = [site.theirs(), site.ours()].map(|server| {
        server.make_directory("python");
        let directory = server.data().join("python");
        [server.davs("python/"), server.root("python/")]
            .map(|url| json!({"url": url, "directory": directory, "is_ours": server.is_ours()}))
    });
    json!(places.concat()).to_string()
}

#[test]
fn the_python_module_works_at_every_server() {
    let test = "the_python_module_works_at_every_server";
    let needed = require_python("hatchling").and_then(|_| root_client::site());
    let Some(site) = available(test, needed) else { return };
    let Some(installed) = available(test, install(&site)) else {
        return;
    };
    // The console script is the program.
    let mut script = python(&site, &installed).expect("it was there");
    script.args(["-c", "from crossload._program import main; main()", "--version"]);
    let version = run(&script).succeeded().text();
    assert_eq!(version.trim(), concat!("crossload ", env!("CARGO_PKG_VERSION")));
    // One after the other, since each may take two minutes at most.
    for file in [
        "test_client.py",
        "test_process.py",
        "test_filesystem.py",
        "test_fsspec.py",
    ] {
        let mut tests = python(&site, &installed).expect("it was there");
        tests
            .env_remove("CROSSLOAD_BIN")
            .env("CROSSLOAD_TEST_PLACES", places(&site))
            .args(["-m", "pytest", "-q", "--tb=short", "--durations=5"])
            .args(["-p", "no:cacheprovider", "-p", "no:warnings"])
            .arg(Path::new("tests").join(file));
        run(&tests).succeeded();
    }
}

#[test]
fn the_python_module_is_typed() {
    let test = "the_python_module_is_typed";
    let needed = require_python("mypy").and_then(|_| root_client::site());
    let Some(site) = available(test, needed) else { return };
    let mut check = python(&site, Path::new("src")).expect("it was there");
    check.args(["-m", "mypy", "--cache-dir"]).arg(site.lab.fresh("mypy"));
    run(&check).succeeded();
}
