//! gfal2 over the XRootD protocol, as Rucio and FTS use it: names, checksums, copies up and down,
//! and copies between this protocol and WebDAV.

use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Site, Slot, adler32, bytes, hex, is_whole, md5_of, shared};
use testkit::{Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::with_xrootd("xroot-gfal", "gfal-copy"))
}

/// Runs a check against both servers.
#[track_caller]
fn compare(test: &str, check: impl Fn(&Lab, &Endpoint)) {
    if let Some(site) = available(test, site()) {
        site.compare(check);
    }
}

#[test]
fn names_are_listed_shown_made_moved_and_removed() {
    compare("names_are_listed_shown_made_moved_and_removed", |lab, server| {
        let content = bytes(12_345, 221);
        server.put("names/file", &content);
        server.put("names/inner/deep", b"1");
        let url = |name: &str| server.root(&format!("names/{name}"));
        let listed = lab.gfal("ls", &[&url("")]).succeeded().text();
        let mut names: Vec<&str> = listed.lines().collect();
        names.sort_unstable();
        assert_eq!(names, ["file", "inner"]);
        let long = lab.gfal("ls", &["-l", &url("")]).succeeded().text();
        assert!(
            long.lines().any(|line| line.contains("12345") && line.contains("file")),
            "{long}"
        );
        assert!(
            long.lines().any(|line| line.starts_with('d') && line.contains("inner")),
            "{long}"
        );
        let stat = lab.gfal("stat", &[&url("file")]).succeeded().text();
        assert!(stat.contains("Size: 12345") && stat.contains("regular file"), "{stat}");
        let stat = lab.gfal("stat", &[&url("inner")]).succeeded().text();
        assert!(stat.contains("directory"), "{stat}");
        for (algorithm, sum) in [
            ("ADLER32", format!("{:08x}", adler32(&content))),
            ("MD5", hex(&md5_of(&content))),
        ] {
            let told = lab.gfal("sum", &[&url("file"), algorithm]).succeeded().text();
            assert!(told.trim_end().ends_with(&sum), "{told}");
        }
        lab.gfal("mkdir", &[&url("made")]).succeeded();
        lab.gfal("mkdir", &["-p", &url("made/a/b")]).succeeded();
        let local = lab.file(&content);
        let local = format!("file://{}", local.display());
        lab.gfal("copy", &[&local, &url("made/own")]).succeeded();
        lab.gfal("rename", &[&url("made/own"), &url("made/a/b/moved")])
            .succeeded();
        assert!(server.stored("names/made/a/b/moved").as_ref() == Some(&content));
        // Debian's program shows text only.
        assert_eq!(lab.gfal("cat", &[&url("inner/deep")]).succeeded().text(), "1");
        lab.gfal("rm", &[&url("made/a/b/moved")]).succeeded();
        lab.gfal("rm", &["-r", &url("made")]).succeeded();
        assert!(!server.data().join("names/made").exists());
    });
}

#[test]
fn failures_have_the_customary_codes() {
    compare("failures_have_the_customary_codes", |lab, server| {
        let missing = server.root("failed/none");
        let down = format!("file://{}", lab.fresh("down").display());
        for arguments in [&["ls"][..], &["stat"], &["rm"], &["cat"], &["sum"]] {
            let mut all = vec![missing.as_str()];
            if arguments == ["sum"] {
                all.push("ADLER32");
            }
            lab.gfal(arguments[0], &all).failed_with(2);
        }
        lab.gfal("copy", &[&missing, &down]).failed_with(2);
        server.put("failed/file", b"old");
        let local = format!("file://{}", lab.file(b"new").display());
        lab.gfal("copy", &[&local, &server.root("failed/file")]).failed_with(17);
        assert_eq!(server.stored("failed/file").as_deref(), Some(&b"old"[..]));
        lab.gfal("mkdir", &[&server.root("failed/file")]).failed_with(17);
        // XRootD 5 has no number of its own for what is not empty.
        server.put("failed/full/inner", b"1");
        let kept = lab.gfal("rm", &[&server.root("failed/full")]);
        assert_ne!(kept.code, Some(0), "{}", kept.said());
        assert!(server.stored("failed/full/inner").is_some());
    });
}

#[test]
fn files_go_up_and_down_with_their_checksums() {
    compare("files_go_up_and_down_with_their_checksums", |lab, server| {
        for (index, size) in [0, 1, 9_000_001].into_iter().enumerate() {
            let content = bytes(size, 222);
            let local = format!("file://{}", lab.file(&content).display());
            let name = format!("up/{index}/deep/file");
            for (kind, url) in [("root", server.root(&name)), ("roots", server.roots(&name))] {
                lab.gfal("copy", &["-f", "-p", "-K", "ADLER32", &local, &url])
                    .succeeded();
                assert!(
                    server.stored(&name).as_ref() == Some(&content),
                    "{size} bytes by {kind}"
                );
                let down = lab.fresh("down");
                let target = format!("file://{}", down.display());
                lab.gfal("copy", &["-K", "ADLER32", &url, &target]).succeeded();
                assert!(is_whole(&down, &content), "{size} bytes by {kind}");
            }
        }
        let (source, target) = (server.root("up/1/deep/file"), lab.fresh("wrong"));
        let target = format!("file://{}", target.display());
        let refused = lab.gfal("copy", &["-K", "ADLER32:00000001", &source, &target]);
        assert_ne!(refused.code, Some(0), "{}", refused.said());
        assert!(refused.said().contains("CheckSum error"), "{}", refused.said());
    });
}

#[test]
fn copies_pass_between_the_protocols() {
    compare("copies_pass_between_the_protocols", |lab, server| {
        let content = bytes(9_000_001, 223);
        server.put("between/source", &content);
        for (index, (source, target)) in [("root", "davs"), ("davs", "root"), ("roots", "davs"), ("davs", "roots")]
            .into_iter()
            .enumerate()
        {
            let url = |scheme: &str, name: &str| match scheme {
                "davs" => server.davs(name),
                "roots" => server.roots(name),
                _ => server.root(name),
            };
            let name = format!("between/{index}");
            let copied = lab.gfal(
                "copy",
                &["-K", "ADLER32", &url(source, "between/source"), &url(target, &name)],
            );
            copied.succeeded();
            assert!(server.stored(&name).as_ref() == Some(&content), "{source} to {target}");
        }
    });
}

#[test]
fn copies_pass_between_the_servers_in_both_protocols() {
    let test = "copies_pass_between_the_servers_in_both_protocols";
    let Some(site) = available(test, site()) else { return };
    if Lab::tests_xrootd() {
        return;
    }
    let content = bytes(5_000_001, 224);
    for (from, to) in [(site.ours(), site.theirs()), (site.theirs(), site.ours())] {
        from.put("across/source", &content);
        to.make_directory("across");
        for (source, target) in [
            (from.root("across/source"), to.davs("across/to-davs")),
            (from.davs("across/source"), to.root("across/to-root")),
        ] {
            site.lab.gfal("copy", &["-K", "ADLER32", &source, &target]).succeeded();
        }
        for name in ["across/to-davs", "across/to-root"] {
            assert!(to.stored(name).as_ref() == Some(&content), "{name}");
        }
    }
}
