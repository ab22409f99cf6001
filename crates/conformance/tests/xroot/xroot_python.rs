//! XRootD's Python client, on which analysis programs build, against XRootD and then against ours:
//! Debian's 5.5, and a later one where `./dev` could fetch it. What is demanded is in
//! `python/xroot.py`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Site, Slot, bytes, run, shared};
use testkit::{Result, available, require_debian_python, require_python};

struct Pythons {
    site: Site,
    pythons: Vec<PathBuf>,
}

static SITE: Slot<Pythons> = Slot::new(Weak::new());

fn site() -> Result<Arc<Pythons>> {
    shared(&SITE, || {
        let mut pythons = vec![require_debian_python("XRootD")?, require_python("XRootD")?];
        // Without the later one, the second is Debian's again.
        pythons.dedup();
        let site = Site::with_xrootd("xroot-python", "setpriv")?;
        Ok(Pythons { site, pythons })
    })
}

/// Runs a check of the script with every client against both servers.
#[track_caller]
fn check(test: &str, name: &str, url: impl Fn(&Endpoint, &str) -> String) {
    let Some(shared) = available(test, site()) else { return };
    let content = bytes(8_500_003, 231);
    shared.site.compare(|lab: &Lab, server: &Endpoint| {
        for (index, python) in shared.pythons.iter().enumerate() {
            if name == "attributes" && index == 0 {
                continue;
            }
            // A directory of its own for each test: they run at the same time.
            let directory = format!("{test}-{index}");
            server.put(&format!("{directory}/source"), &content);
            let local = lab.file(&content);
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/xroot.py");
            let mut command = lab.prepared(python);
            command.arg(script).arg(name).arg(url(server, &directory)).arg(&local);
            let done = run(&command).succeeded();
            assert!(done.text().contains(&format!("done {name}")), "{}", done.said());
        }
    });
}

#[test]
fn vector_reads_bring_every_piece() {
    check("vector_reads_bring_every_piece", "vectors", Endpoint::root);
}

#[test]
fn vector_reads_bring_every_piece_over_tls() {
    check("vector_reads_bring_every_piece_over_tls", "vectors", Endpoint::roots);
}

#[test]
fn a_file_that_is_being_written_is_there_for_others() {
    check(
        "a_file_that_is_being_written_is_there_for_others",
        "pending",
        Endpoint::root,
    );
}

#[test]
fn reads_end_where_the_file_ends() {
    check("reads_end_where_the_file_ends", "reads", Endpoint::root);
}

#[test]
fn files_are_written_in_any_order_and_changed_in_place() {
    check(
        "files_are_written_in_any_order_and_changed_in_place",
        "writes",
        Endpoint::root,
    );
}

#[test]
fn attributes_are_kept() {
    let test = "attributes_are_kept";
    // Debian's cannot set any.
    if available(test, require_python("uproot")).is_some() {
        check(test, "attributes", Endpoint::root);
    }
}

#[test]
fn a_copy_process_runs_many_jobs() {
    check("a_copy_process_runs_many_jobs", "copies", Endpoint::root);
}

#[test]
fn uploads_over_tls_end_13_bytes_after_a_chunk() {
    check(
        "uploads_over_tls_end_13_bytes_after_a_chunk",
        "thirteen",
        Endpoint::roots,
    );
}

#[test]
fn names_are_made_listed_moved_and_removed() {
    check("names_are_made_listed_moved_and_removed", "names", Endpoint::root);
}

#[test]
fn many_requests_at_once_do_not_mix() {
    check("many_requests_at_once_do_not_mix", "crowd", Endpoint::root);
}
