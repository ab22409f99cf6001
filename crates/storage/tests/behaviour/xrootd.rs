//! We and Debian's XRootD use each other's checksums over the same files, without computing them
//! again.

use std::io::IoSlice;
use std::os::unix::fs::chown;
use std::process::Command;

use storage::{CommitFacts, Overwrite, Storage};
use testkit::{
    AddressFamilies, Authority, Scratch, Xrootd, XrootdAccess, XrootdOptions, XrootdVersion, available, is_superuser,
    require,
};
use types::Checksum;

use crate::support::{options, path, posix};

const CONTENT: &[u8] = b"hello checksum world\n";
/// The true Adler-32 of [`CONTENT`].
const TRUE_VALUE: u32 = 0x590d_07da;
/// A value that cannot be computed from [`CONTENT`]: a server that returns it has read it from the
/// attribute.
const PLANTED_VALUE: u32 = 0x1234_5678;
/// The user that XRootD runs as when the tests run as root.
const NOBODY: u32 = 65_534;

fn lab() -> testkit::Result<(Scratch, Xrootd)> {
    require("curl")?;
    let scratch = Scratch::new("xrootd-checksums")?;
    let authority = Authority::new(scratch.path())?;
    let server = Xrootd::start(&XrootdOptions {
        version: XrootdVersion::V5,
        name: "checksums".to_owned(),
        directory: scratch.create("server")?,
        data: scratch.create("files/data")?,
        certificate: authority.issue_localhost()?,
        trust_directory: authority.trust_directory(),
        access: XrootdAccess::Open,
        families: AddressFamilies::V4,
        more: String::new(),
    })?;
    Ok((scratch, server))
}

/// Asks the server for the Adler-32 of a file; returns the head of its answer.
fn ask(server: &Xrootd, name: &str) -> String {
    let url = server.clear_url(&format!("/data/{name}"));
    let output = Command::new("curl")
        .args(["-sSI", "--max-time", "30", "-H", "Want-Digest: adler32", &url])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).to_ascii_lowercase()
}

#[test]
fn xrootd_answers_from_our_checksums_and_we_from_its_own() {
    let Some((_scratch, server)) = available("xrootd_answers_from_our_checksums_and_we_from_its_own", lab()) else {
        return;
    };
    let store = posix(server.data());
    let commit = |name: &str, checksums: Vec<Checksum>| {
        let upload = store.create(&path(name), &options(None, Overwrite::Allow)).unwrap();
        upload.write_vectored_at(&[IoSlice::new(CONTENT)], 0).unwrap();
        let facts = CommitFacts {
            size_bytes: CONTENT.len() as u64,
            checksums,
            modified: None,
            mode: None,
        };
        upload.commit(&facts).unwrap();
        if is_superuser() {
            chown(server.data().join(&name[1..]), Some(NOBODY), Some(NOBODY)).unwrap();
        }
    };
    commit("/ours", vec![Checksum::adler32(PLANTED_VALUE)]);
    commit("/theirs", Vec::new());
    let told = ask(&server, "ours");
    assert!(told.contains(&format!("adler32={PLANTED_VALUE:08x}")), "{told}");
    assert_eq!(store.stored_checksums(&path("/theirs")).unwrap(), []);
    let told = ask(&server, "theirs");
    assert!(told.contains(&format!("adler32={TRUE_VALUE:08x}")), "{told}");
    let kept = store.stored_checksums(&path("/theirs")).unwrap();
    assert_eq!(kept, [Checksum::adler32(TRUE_VALUE)]);
}
