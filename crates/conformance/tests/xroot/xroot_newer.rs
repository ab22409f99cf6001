//! `xrdcp` and `xrdfs` of the newest XRootD release, against a server of that release, which shows
//! that the check is right, and then against ours: in the XRootD protocol, and over HTTP, which
//! this release speaks by itself. What it cannot do over HTTP at any server is not asked of it: it
//! sends nothing for an empty file, replaces files without `-f`, does not encode names, and neither
//! moves files nor downloads directories.

use std::fs;
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Run, Site, Slot, adler32, bytes, is_whole, put_tree, run, shared, tree};
use testkit::{Result, XrootdVersion, available};

const NEWEST: XrootdVersion = XrootdVersion::V6;

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        NEWEST.require("xrdcp")?;
        Site::with_xrootd_of(NEWEST, "newest", "setpriv")
    })
}

/// Runs a check against both servers.
#[track_caller]
fn compare(test: &str, check: impl Fn(&Lab, &Endpoint)) {
    if let Some(site) = available(test, site()) {
        site.compare(check);
    }
}

/// The schemes.
const WAYS: [&str; 4] = ["root", "roots", "http", "https"];

fn is_http(way: &str) -> bool {
    way.starts_with("http")
}

fn url(server: &Endpoint, way: &str, name: &str) -> String {
    match way {
        "root" => server.root(name),
        "roots" => server.roots(name),
        "http" => server.clear_url(name),
        _ => server.url(name),
    }
}

#[track_caller]
fn xrdcp(lab: &Lab, arguments: &[&str]) -> Run {
    lab.xrdcp_of(NEWEST, arguments)
}

/// Around pages (4 KiB) and the chunks of the program (8 MiB).
const SIZES: [usize; 4] = [0, 1, 4097, (9 << 20) + 5];

#[test]
fn files_go_up_and_down_with_checksums() {
    compare("files_go_up_and_down_with_checksums", |lab, server| {
        for way in WAYS {
            for (index, size) in SIZES.into_iter().enumerate() {
                if size == 0 && is_http(way) {
                    continue;
                }
                let content = bytes(size, 701);
                let (local, down) = (lab.file(&content), lab.fresh("down"));
                let (local, back) = (local.to_str().expect("plain"), down.to_str().expect("plain"));
                let name = format!("{way}/{index}");
                let there = url(server, way, &name);
                xrdcp(lab, &["-C", "adler32:source", local, &there]).succeeded();
                assert!(server.stored(&name) == Some(content.clone()), "{way}: {size} bytes up");
                xrdcp(lab, &["-C", "adler32:source", &there, back]).succeeded();
                assert!(is_whole(&down, &content), "{way}: {size} bytes down");
            }
        }
    });
}

#[test]
fn several_streams_make_the_same_file() {
    compare("several_streams_make_the_same_file", |lab, server| {
        let content = bytes(20_000_003, 702);
        for way in ["root", "roots"] {
            let (local, down) = (lab.file(&content), lab.fresh("down"));
            let there = url(server, way, &format!("streams/{way}"));
            xrdcp(lab, &["-S", "4", local.to_str().expect("plain"), &there]).succeeded();
            xrdcp(lab, &["-S", "4", &there, down.to_str().expect("plain")]).succeeded();
            assert!(is_whole(&down, &content), "{way}");
        }
    });
}

#[test]
fn trees_go_up_and_down() {
    compare("trees_go_up_and_down", |lab, server| {
        for way in ["root", "https"] {
            let (local, back) = (lab.fresh("local"), lab.fresh("back"));
            let names: &[&str] = match is_http(way) {
                true => &["plain", "deep/er/file"],
                false => &["plain", "deep/er/file", "a b/c d", "empty"],
            };
            put_tree(&local, names);
            // The first has no content.
            fs::write(local.join("plain"), b"plain").expect("a file");
            fs::create_dir(&back).expect("a directory");
            let (from, to) = (local.to_str().expect("plain"), back.to_str().expect("plain"));
            server.make_directory(&format!("trees-{way}"));
            xrdcp(lab, &["-r", from, &url(server, way, &format!("trees-{way}/"))]).succeeded();
            let name = local.file_name().expect("a name").to_str().expect("plain");
            let stored = server.data().join(format!("trees-{way}")).join(name);
            assert!(tree(&stored) == tree(&local), "{way} up");
            if !is_http(way) {
                let there = url(server, way, &format!("trees-{way}/{name}"));
                xrdcp(lab, &["-r", &there, to]).succeeded();
                assert!(tree(&back.join(name)) == tree(&local), "{way} down");
            }
        }
    });
}

#[test]
fn what_is_missing_or_there_already_is_told() {
    compare("what_is_missing_or_there_already_is_told", |lab, server| {
        for way in WAYS {
            let (down, local) = (lab.fresh("down"), lab.file(b"new"));
            let local = local.to_str().expect("plain");
            let missing = url(server, way, &format!("told-{way}/none"));
            let missing = xrdcp(lab, &[&missing, down.to_str().expect("plain")]).failed_with(54);
            assert!(missing.stderr.contains("[3011]"), "{way}: {}", missing.said());
            assert!(!down.exists(), "{way}");
            let name = format!("told-{way}/target");
            server.put(&name, b"old");
            let there = url(server, way, &name);
            if !is_http(way) {
                let refused = xrdcp(lab, &[local, &there]);
                assert_ne!(refused.code, Some(0), "{way}: {}", refused.said());
                assert_eq!(server.stored(&name).as_deref(), Some(&b"old"[..]), "{way}");
            }
            xrdcp(lab, &["-f", local, &there]).succeeded();
            assert_eq!(server.stored(&name).as_deref(), Some(&b"new"[..]), "{way}");
        }
    });
}

#[test]
fn names_are_listed_looked_at_summed_made_moved_and_removed() {
    compare(
        "names_are_listed_looked_at_summed_made_moved_and_removed",
        |lab, server| {
            let content = bytes(1_234_567, 703);
            for way in ["root", "https"] {
                let directory = format!("names-{way}");
                server.put(&format!("{directory}/file"), &content);
                let base = url(server, way, "");
                let host = base
                    .strip_suffix("/data/")
                    .expect("its end")
                    .trim_end_matches('/')
                    .to_owned();
                let xrdfs = |arguments: &[&str]| {
                    let mut command = lab.xrootd_client(NEWEST, "xrdfs").expect("it is installed");
                    run(command.arg(&host).args(arguments))
                };
                let at = |name: &str| format!("/data/{directory}/{name}");
                let listed = xrdfs(&["ls", "-l", &at("")]).succeeded();
                assert!(
                    listed.text().contains("1234567") && listed.text().contains("file"),
                    "{}",
                    listed.said()
                );
                let facts = xrdfs(&["stat", &at("file")]).succeeded();
                assert!(facts.text().contains("1234567"), "{}", facts.said());
                let sum = xrdfs(&["query", "checksum", &at("file")]).succeeded();
                assert!(
                    sum.text().contains(&format!("{:08x}", adler32(&content))),
                    "{}",
                    sum.said()
                );
                xrdfs(&["mkdir", &at("made")]).succeeded();
                let file = if is_http(way) { "file" } else { "made/moved" };
                if !is_http(way) {
                    xrdfs(&["mv", &at("file"), &at(file)]).succeeded();
                }
                let stored = server.stored(&format!("{directory}/{file}"));
                assert!(stored.as_ref() == Some(&content), "{way}");
                xrdfs(&["rm", &at(file)]).succeeded();
                xrdfs(&["rmdir", &at("made")]).succeeded();
                let left = fs::read_dir(server.data().join(&directory)).expect("a directory");
                assert_eq!(left.count(), 0, "{way}");
            }
        },
    );
}
