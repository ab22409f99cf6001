//! The container image: what is in it, and that it works without a shell and without rights.

use std::path::PathBuf;
use std::process::Command;

use conformance::run;
use serde_json::Value;
use testkit::{Crossload, Error, Result, Scratch, available, is_superuser, require};

/// The largest image, compressed. The program of tests is larger than that of a release.
const ARCHIVE_BYTES_MAX: u64 = 40 << 20;
/// The time that the image is made for.
const EPOCH: &str = "1700000000";
/// A version between two releases.
const VERSION: &str = "1.2.3+202311142213.0123456";

/// What the test needs: buildah, the program, and a place for layers.
fn needed() -> Result<(PathBuf, PathBuf, Scratch)> {
    if !is_superuser() {
        return Err(Error::Missing("only root makes files of other users".to_owned()));
    }
    Ok((require("buildah")?, Crossload::binary()?, Scratch::new("image")?))
}

#[test]
fn the_demo_runs_from_the_image() {
    let Some((buildah, program, scratch)) = available("the_demo_runs_from_the_image", needed()) else {
        return;
    };
    let archive = scratch.join("image.tar");
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/image/build");
    let mut build = Command::new(recipe);
    build.args([&program, &archive]).env("TMPDIR", scratch.path());
    build.env("SOURCE_DATE_EPOCH", EPOCH).env("REVISION", "abc");
    build.env("PACKAGE_VERSION", VERSION);
    run(&build).succeeded();
    let size_bytes = archive.metadata().expect("an archive").len();
    assert!(size_bytes <= ARCHIVE_BYTES_MAX, "{size_bytes}");

    let storage = scratch.join("storage");
    let in_storage = |arguments: &[&str]| {
        let mut command = Command::new(&buildah);
        command.args(["--storage-driver", "vfs", "--root"]).arg(&storage);
        command.arg("--runroot").arg(scratch.join("run")).args(arguments);
        run(&command)
    };
    let source = format!("oci-archive:{}", archive.display());
    let container = in_storage(&["from", "-q", &source]).succeeded().text();
    let container = container.trim();
    let facts = in_storage(&["inspect", container]).succeeded().text();
    let facts: Value = serde_json::from_str(&facts).expect("JSON");
    let image = &facts["OCIv1"];
    assert_eq!(image["created"], "2023-11-14T22:13:20Z", "{image}");
    let config = &image["config"];
    assert_eq!(config["User"], "65532:65532", "{config}");
    assert_eq!(
        config["Entrypoint"],
        serde_json::json!(["/usr/bin/crossload"]),
        "{config}"
    );
    let label = |name: &str| config["Labels"][format!("org.opencontainers.image.{name}")].clone();
    assert_eq!(label("version"), VERSION, "{config}");
    assert_eq!(
        (label("revision"), label("licenses")),
        ("abc".into(), "Apache-2.0".into())
    );

    let inside = |arguments: &[&str]| {
        let start = ["run", "--isolation", "chroot", container, "--", "/usr/bin/crossload"];
        in_storage(&[&start[..], arguments].concat())
    };
    let shown = inside(&["demo", "--size", "1MiB"]).succeeded().text();
    assert!(shown.contains("are equal on both sides"), "{shown}");
    // What its health check says without a server.
    let refused = inside(&["healthy", "http://127.0.0.1:1", "--timeout", "8s"]).failed_with(111);
    assert!(refused.stderr.contains("Connection refused"), "{}", refused.said());
    let containers = ["rm", container];
    in_storage(&containers).succeeded();
}
