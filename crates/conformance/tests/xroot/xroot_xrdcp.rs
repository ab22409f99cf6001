//! XRootD's copy program over its own protocol, against XRootD and then against ours: both
//! directions, with every kind of request that it knows for reading and writing.

use std::fs;
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Site, Slot, adler32, bytes, is_whole, put_tree, run, run_with_input, shared, tree};
use testkit::{Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::with_xrootd("xrdcp", "xrdcp"))
}

/// Runs a check against both servers.
#[track_caller]
fn compare(test: &str, check: impl Fn(&Lab, &Endpoint)) {
    if let Some(site) = available(test, site()) {
        site.compare(check);
    }
}

/// Around pages (4 KiB) and the chunks of the program (8 MiB).
const SIZES: [usize; 7] = [0, 1, 4095, 4097, 300_000, (8 << 20) - 1, (17 << 20) + 5];

/// Copies files of all sizes up and down, with the checksums of both sides compared.
#[track_caller]
fn up_and_down(lab: &Lab, variables: &[(&str, &str)], name: &str, url: impl Fn(&str) -> String, server: &Endpoint) {
    for (index, size) in SIZES.into_iter().enumerate() {
        let content = bytes(size, 201);
        let (local, down) = (lab.file(&content), lab.fresh("down"));
        let (local, back) = (local.to_str().expect("plain"), down.to_str().expect("plain"));
        let name = format!("{name}/{index}");
        let up = ["-C", "adler32:source", local, &url(&name)];
        lab.xrdcp_with(variables, &up).succeeded();
        assert!(server.stored(&name) == Some(content.clone()), "{size} bytes up");
        let down_again = ["-C", "adler32:source", &url(&name), back];
        lab.xrdcp_with(variables, &down_again).succeeded();
        assert!(is_whole(&down, &content), "{size} bytes down");
    }
}

#[test]
fn files_go_up_and_down_in_pages_with_checksums() {
    compare("files_go_up_and_down_in_pages_with_checksums", |lab, server| {
        up_and_down(lab, &[], "pages", |name| server.root(name), server);
    });
}

#[test]
fn files_go_up_and_down_without_pages() {
    compare("files_go_up_and_down_without_pages", |lab, server| {
        let variables = [("XRD_CPUSEPGWRTRD", "0")];
        up_and_down(lab, &variables, "plain", |name| server.root(name), server);
    });
}

#[test]
fn files_go_up_and_down_over_tls() {
    compare("files_go_up_and_down_over_tls", |lab, server| {
        up_and_down(lab, &[], "tls", |name| server.roots(name), server);
    });
}

#[test]
fn uploads_over_tls_end_13_bytes_after_a_chunk() {
    compare("uploads_over_tls_end_13_bytes_after_a_chunk", |lab, server| {
        for chunks in 1..=4 {
            let content = bytes((chunks << 23) + 13, 204);
            let local = lab.file(&content);
            let name = format!("thirteen/{chunks}");
            lab.xrdcp(&[local.to_str().expect("plain"), &server.roots(&name)])
                .succeeded();
            assert!(server.stored(&name) == Some(content), "{chunks} chunks");
        }
    });
}

#[test]
fn several_streams_and_odd_chunks_make_the_same_file() {
    compare("several_streams_and_odd_chunks_make_the_same_file", |lab, server| {
        let content = bytes(20_000_003, 202);
        server.put("streams/source", &content);
        let (clear, tls) = (server.root("streams/"), server.roots("streams/"));
        for (index, (streams, chunk, parallel, url)) in [
            ("1", "65536", "1", &clear),
            ("4", "1000003", "16", &clear),
            ("15", "2097152", "8", &clear),
            ("4", "1000003", "4", &tls),
        ]
        .into_iter()
        .enumerate()
        {
            let variables = [("XRD_CPCHUNKSIZE", chunk), ("XRD_CPPARALLELCHUNKS", parallel)];
            let (down, target) = (lab.fresh("down"), format!("streams/{index}"));
            let back = down.to_str().expect("plain");
            lab.xrdcp_with(&variables, &["-S", streams, &format!("{url}source"), back])
                .succeeded();
            assert!(is_whole(&down, &content), "{streams} streams of {chunk} bytes");
            lab.xrdcp_with(&variables, &["-S", streams, back, &format!("{url}{index}")])
                .succeeded();
            assert!(
                server.stored(&target).as_ref() == Some(&content),
                "{streams} streams of {chunk} bytes"
            );
        }
    });
}

#[test]
fn trees_go_up_and_down() {
    compare("trees_go_up_and_down", |lab, server| {
        let names = ["plain", "deep/er/file", "a b/c d", "100%/#1", "ä/日本", "empty"];
        let (local, back) = (lab.fresh("local"), lab.fresh("back"));
        put_tree(&local, &names);
        fs::create_dir(&back).expect("a directory");
        let (from, to) = (local.to_str().expect("plain"), back.to_str().expect("plain"));
        server.make_directory("trees");
        lab.xrdcp(&["-r", from, &server.root("trees/")]).succeeded();
        let name = local.file_name().expect("a name").to_str().expect("plain");
        assert!(tree(&server.data().join("trees").join(name)) == tree(&local));
        lab.xrdcp(&["-r", &server.root(&format!("trees/{name}")), to])
            .succeeded();
        assert!(
            tree(&back.join(name)) == tree(&local),
            "{:?}",
            conformance::visible(&back)
        );
    });
}

#[test]
fn what_exists_is_replaced_only_when_told() {
    compare("what_exists_is_replaced_only_when_told", |lab, server| {
        let (old, new) = (bytes(100_000, 203), bytes(50_000, 204));
        server.put("force/target", &old);
        let local = lab.file(&new);
        let local = local.to_str().expect("plain");
        let refused = lab.xrdcp(&[local, &server.root("force/target")]).failed_with(50);
        assert!(refused.stderr.contains("file exists"), "{}", refused.said());
        assert!(server.stored("force/target").as_ref() == Some(&old));
        lab.xrdcp(&["-f", local, &server.root("force/target")]).succeeded();
        assert!(server.stored("force/target").as_ref() == Some(&new));
        // Kept on a successful close only; the place is made.
        lab.xrdcp(&["-p", "-P", local, &server.root("force/new/er/posc")])
            .succeeded();
        assert!(server.stored("force/new/er/posc").as_ref() == Some(&new));
        lab.xrdcp(&["-f", "-P", local, &server.root("force/new/er/posc")])
            .succeeded();
        assert!(server.stored("force/target").as_ref() == Some(&new));
    });
}

#[test]
fn checksums_are_asked_for_compared_and_believed() {
    compare("checksums_are_asked_for_compared_and_believed", |lab, server| {
        let content = bytes(1_234_567, 205);
        server.put("sums/source", &content);
        let sum = format!("{:08x}", adler32(&content));
        let url = server.root("sums/source");
        for how in [
            "adler32:print",
            "md5:print",
            "crc32c:print",
            "adler32:source",
            "md5:source",
            "crc32c:source",
        ] {
            let down = lab.fresh("down");
            let copied = lab.xrdcp(&["-C", how, &url, down.to_str().expect("plain")]).succeeded();
            assert!(is_whole(&down, &content));
            assert!(
                how != "adler32:print" || copied.said().contains(&sum),
                "{}",
                copied.said()
            );
        }
        let down = lab.fresh("down");
        let right = format!("adler32:{sum}");
        lab.xrdcp(&["-C", &right, &url, down.to_str().expect("plain")])
            .succeeded();
        let local = lab.file(&content);
        let local = local.to_str().expect("plain");
        let wrong = [
            "-C",
            "adler32:00000001",
            "--rm-bad-cksum",
            local,
            &server.root("sums/wrong"),
        ];
        let refused = lab.xrdcp(&wrong);
        assert_ne!(refused.code, Some(0), "{}", refused.said());
        assert!(refused.said().contains("CheckSum error"), "{}", refused.said());
        assert_eq!(server.stored("sums/wrong"), None, "the program was told to remove it");
    });
}

#[test]
fn what_is_missing_is_told() {
    compare("what_is_missing_is_told", |lab, server| {
        let down = lab.fresh("down");
        let missing = lab.xrdcp(&[&server.root("none/at/all"), down.to_str().expect("plain")]);
        let missing = missing.failed_with(54);
        assert!(missing.stderr.contains("[3011]"), "{}", missing.said());
        assert!(!down.exists());
        server.put("directory/inner", b"x");
        let directory = lab.xrdcp(&[&server.root("directory"), down.to_str().expect("plain")]);
        assert_ne!(directory.code, Some(0), "{}", directory.said());
        let local = lab.file(b"x");
        let onto = lab.xrdcp(&[
            "-f",
            local.to_str().expect("plain"),
            &server.root("directory/inner/below"),
        ]);
        assert_ne!(onto.code, Some(0), "{}", onto.said());
        assert_eq!(server.stored("directory/inner").as_deref(), Some(&b"x"[..]));
    });
}

#[test]
fn pipes_are_places() {
    compare("pipes_are_places", |lab, server| {
        let content = bytes(20_000_001, 206);
        let url = server.root("pipes/file");
        let mut up = lab.command("xrdcp").expect("XRootD's client is installed");
        up.args(["--nopbar", "-", &url]);
        run_with_input(&up, &content).succeeded();
        assert!(server.stored("pipes/file").as_ref() == Some(&content));
        assert!(lab.xrdcp(&[&url, "-"]).succeeded().stdout == content);
    });
}

#[test]
fn an_interrupted_download_goes_on() {
    compare("an_interrupted_download_goes_on", |lab, server| {
        let content = bytes(12_000_000, 207);
        server.put("continue/source", &content);
        let down = lab.file(&content[..5_000_001]);
        lab.xrdcp(&[
            "--continue",
            &server.root("continue/source"),
            down.to_str().expect("plain"),
        ])
        .succeeded();
        assert!(is_whole(&down, &content));
    });
}

#[test]
fn many_files_come_at_once() {
    compare("many_files_come_at_once", |lab, server| {
        let names: Vec<String> = (0..12).map(|index| format!("many/{index}")).collect();
        for (index, name) in names.iter().enumerate() {
            server.put(name, &bytes(200_000 + index, index as u64));
        }
        let down = lab.fresh("down");
        fs::create_dir(&down).expect("a directory");
        let urls: Vec<String> = names.iter().map(|name| server.root(name)).collect();
        let mut arguments = vec!["--parallel", "4"];
        arguments.extend(urls.iter().map(String::as_str));
        arguments.push(down.to_str().expect("plain"));
        lab.xrdcp(&arguments).succeeded();
        for index in 0..names.len() {
            let content = bytes(200_000 + index, index as u64);
            assert!(is_whole(&down.join(index.to_string()), &content), "{index}");
        }
    });
}

#[test]
fn a_member_of_an_archive_is_read_alone() {
    compare("a_member_of_an_archive_is_read_alone", |lab, server| {
        let content = bytes(700_000, 208);
        let (member, archive) = (lab.file(&content), lab.fresh("archive"));
        let mut zip = lab.command("python3").expect("Python is installed");
        zip.args(["-m", "zipfile", "-c"]).arg(&archive).arg(&member);
        run(&zip).succeeded();
        let url = server.root("archives/zip");
        server.put("archives/zip", &fs::read(&archive).expect("the archive"));
        let (name, down) = (member.file_name().expect("a name"), lab.fresh("down"));
        let arguments = [
            "--zip",
            name.to_str().expect("plain"),
            &url,
            down.to_str().expect("plain"),
        ];
        // Debian's program now and then dies when all is done, so only what it did is looked at.
        let copied = lab.xrdcp(&arguments);
        assert!(is_whole(&down, &content), "{}", copied.said());
    });
}
