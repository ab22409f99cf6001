//! uproot, which reads ROOT's files without ROOT, as analysis does: a few ranges of a file, many of
//! them in one request. Over the XRootD protocol and over HTTP, against XRootD and then against
//! ours.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Run, Site, Slot, run, shared};
use testkit::{Result, available, require_python};

struct Uproot {
    site: Site,
    python: PathBuf,
    file: Vec<u8>,
}

static SITE: Slot<Uproot> = Slot::new(Weak::new());

fn site() -> Result<Arc<Uproot>> {
    shared(&SITE, || {
        let python = require_python("uproot")?;
        let site = Site::with_xrootd("uproot", "setpriv")?;
        let made = site.lab.fresh("made.root");
        script(&site.lab, &python, &["make", made.to_str().expect("plain")]).succeeded();
        let file = std::fs::read(&made).expect("the file was made");
        Ok(Uproot { site, python, file })
    })
}

#[track_caller]
fn script(lab: &Lab, python: &Path, arguments: &[&str]) -> Run {
    let mut command = lab.prepared(python);
    command
        .env("SSL_CERT_FILE", lab.authority().ca_file())
        .env("NO_PROXY", "localhost")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/rootfile.py"))
        .args(arguments);
    run(&command)
}

#[track_caller]
fn check(test: &str, url: impl Fn(&Endpoint, &str) -> String, handler: &str) {
    let Some(shared) = available(test, site()) else { return };
    shared.site.compare(|lab, server| {
        server.put("uproot/events.root", &shared.file);
        let url = url(server, "uproot/events.root");
        script(lab, &shared.python, &["read", &url, handler]).succeeded();
    });
}

#[test]
fn a_root_file_is_read_by_xrootd() {
    check("a_root_file_is_read_by_xrootd", Endpoint::root, "default");
}

#[test]
fn a_root_file_is_read_by_vector_reads() {
    check("a_root_file_is_read_by_vector_reads", Endpoint::root, "xrootd");
}

#[test]
fn a_root_file_is_read_by_xrootd_over_tls() {
    check("a_root_file_is_read_by_xrootd_over_tls", Endpoint::roots, "xrootd");
}

#[test]
fn a_root_file_is_read_over_http() {
    check("a_root_file_is_read_over_http", Endpoint::clear_url, "default");
}

#[test]
fn a_root_file_is_read_by_ranges_over_http() {
    check("a_root_file_is_read_by_ranges_over_http", Endpoint::clear_url, "http");
}

#[test]
fn a_root_file_is_read_by_ranges_over_tls() {
    check("a_root_file_is_read_by_ranges_over_tls", Endpoint::url, "http");
}
