//! Tape of XRootD 6: its simulator of the WLCG Tape REST API, which the same release's clients are
//! tested with.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;
use testkit::{Result, Xrootd, XrootdAccess, XrootdOptions, XrootdVersion, available};

use crate::open_site::OpenSite;

/// XRootD whose files are below `disk` in `state`, and on tape below `archive` beside it.
struct Simulator {
    server: Xrootd,
    state: PathBuf,
}

impl Simulator {
    fn start(site: &OpenSite) -> Result<Self> {
        XrootdVersion::V6.require_plug_in("libXrdHttpTapeApi")?;
        let state = site.lab.fresh("tape");
        fs::create_dir_all(state.join("disk"))?;
        // XRootD runs as another user.
        for directory in [&state, &state.join("disk")] {
            fs::set_permissions(directory, Permissions::from_mode(0o777))?;
        }
        let server = Xrootd::start(&XrootdOptions {
            version: XrootdVersion::V6,
            data: state.join("disk/data"),
            more: format!(
                "http.exthandler xrdhttptapeapi libXrdHttpTapeApi.so {}\n",
                state.display()
            ),
            ..site.lab.xrootd_options("tape", XrootdAccess::Open)
        })?;
        Ok(Self { server, state })
    }

    /// Puts a file on tape.
    fn archive(&self, name: &str, content: &[u8]) {
        let directory = self.state.join("archive/data");
        fs::create_dir_all(&directory).expect("directory");
        fs::write(directory.join(name), content).expect("file");
    }
}

#[test]
fn files_come_from_the_tape_of_xrootd_and_go_there() {
    let test = "files_come_from_the_tape_of_xrootd_and_go_there";
    let Some(site) = available(test, OpenSite::start("tape-xrootd")) else {
        return;
    };
    let Some(tape) = available(test, Simulator::start(&site)) else {
        return;
    };
    tape.archive("a", b"from tape");
    let pair = |name: &str| {
        let path = format!("/data/{name}");
        (tape.server.url(&path), site.endpoint.url(&path))
    };
    let params = json!({"bring_online": 3600, "retry": -1});
    let job = site.submit(&[pair("a"), pair("missing")], params);
    site.becomes(&job, &["FINISHED", "FAILED"]);
    let reason = site.job(&job)["files"][1]["reason"].to_string();
    assert!(
        reason.contains("STAGING [5] ") && reason.contains("not stored on tape"),
        "{reason}"
    );
    let copied = fs::read(site.endpoint.data().join("a")).expect("there");
    assert_eq!(copied, b"from tape");
    let on_disk = tape.state.join("disk/data/a");
    conformance::until("it is released", std::time::Duration::from_secs(20), || {
        !on_disk.exists()
    });

    fs::write(site.endpoint.data().join("b"), b"to tape").expect("file");
    let (to, from) = pair("b");
    let job = site.submit(&[(from, to)], json!({"archive_timeout": 3600}));
    site.becomes(&job, &["ARCHIVING"]);
    tape.archive("b", b"to tape");
    site.becomes(&job, &["FINISHED"]);
}
