//! WebDAV clients on a server that lets them remove and replace full directories
//! (`recursive_delete`): the part of litmus about copies and moves, rclone's purge, and the Python
//! client webdav4 with all that it can.

use std::path::Path;

use conformance::{Lab, bytes, put_tree, run};
use testkit::{Crossload, Result, available, require, require_python};

/// Where such directories may go.
const PLACE: &str = "/trees";

fn server(name: &str) -> Result<(Lab, Crossload)> {
    let lab = Lab::new(name)?;
    let mut options = lab.options("server");
    let directory = lab.fresh("trees");
    std::fs::create_dir_all(&directory)?;
    options.more = format!(
        "[[export]]\npath = \"{PLACE}\"\ndirectory = {directory:?}\nanonymous = \"write\"\nrecursive_delete = true\n"
    );
    let server = lab.crossload(options)?;
    Ok((lab, server))
}

#[test]
fn litmus_copies_and_moves() {
    let test = "litmus_copies_and_moves";
    let Some((lab, server)) = available(test, require("litmus").and_then(|_| server("copymove"))) else {
        return;
    };
    let mut command = lab.command("litmus").expect("litmus is installed");
    command.env("TESTS", "copymove").arg("-k").arg(server.clear_url(PLACE));
    let said = run(&command);
    assert!(said.code == Some(0) && !said.text().contains("FAIL"), "{}", said.said());
}

#[test]
fn rclone_purges_where_it_may() {
    let test = "rclone_purges_where_it_may";
    let Some((lab, server)) = available(test, require("rclone").and_then(|_| server("purge"))) else {
        return;
    };
    let tree = lab.fresh("tree");
    put_tree(&tree, &["one", "below/two", "below/deeper/three"]);
    let rclone = |arguments: &[&str], url: &str| {
        let mut command = lab.command("rclone").expect("rclone is installed");
        let common = [
            "--config",
            "/dev/null",
            "--retries",
            "1",
            "--webdav-vendor",
            "other",
            "--webdav-url",
        ];
        command.args(common).arg(server.clear_url(url)).args(arguments);
        run(&command)
    };
    let tree = tree.to_str().expect("plain");
    for url in [PLACE, "/data"] {
        rclone(&["copy", tree, ":webdav:gone"], url).succeeded();
    }
    rclone(&["purge", ":webdav:gone"], PLACE).succeeded();
    let listed = rclone(&["lsf", ":webdav:"], PLACE);
    assert_eq!(listed.succeeded().text().trim(), "");
    // Elsewhere the refusal names the key that would allow it.
    let refused = rclone(&["purge", ":webdav:gone"], "/data");
    assert!(
        refused.code != Some(0) && refused.said().contains("recursive_delete"),
        "{}",
        refused.said()
    );
    assert!(server.data().join("gone/below/deeper/three").exists());
}

#[test]
fn webdav4_does_all_that_it_can() {
    let test = "webdav4_does_all_that_it_can";
    let ready = require_python("webdav4").and_then(|python| Ok((python, server("webdav4")?)));
    let Some((python, (lab, server))) = available(test, ready) else {
        return;
    };
    let file = lab.file(&bytes(1_000_003, 271));
    let mut command = lab.prepared(&python);
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/webdav.py"))
        .arg(server.clear_url(PLACE))
        .arg(file);
    run(&command).succeeded();
}
