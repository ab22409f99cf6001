//! What our client says and does where a server or a host refuses in a particular way, and the
//! options of xrdcp.

use conformance::{adler32, alone, bytes, hex, is_whole, json_lines, md5_of};
use testkit::available;

use crate::client::{assert_says, site};

/// An upload to an export that takes none, or no more; a host that does not exist.
#[test]
fn a_refusal_has_a_code_and_advice_of_its_own() {
    let test = "a_refusal_has_a_code_and_advice_of_its_own";
    let made = alone(test, |options| {
        let base = options.exports[0].directory.clone();
        let export = |name: &str, more: &str| {
            let directory = base.join(name);
            std::fs::create_dir_all(&directory).expect("a directory");
            format!("[[export]]\npath = \"/{name}\"\ndirectory = {directory:?}\nanonymous = \"write\"\n{more}\n")
        };
        options.more = export("fixed", "read_only = true") + &export("small", "quota_bytes = 1000");
    });
    let Some((lab, server)) = made else { return };
    let file = lab.file(&bytes(5000, 501));
    let file = file.to_str().expect("plain");
    for address in ["https://localhost", "root://localhost"] {
        for (export, code, words) in [
            ("fixed", 30, "Read-only file system"),
            ("small", 122, "Disk quota exceeded"),
        ] {
            let slashes = if address.starts_with("root") { "//" } else { "/" };
            let url = format!("{address}:{}{slashes}{export}/file", server.port());
            let refused = lab.run_client("copy", &[file, &url]);
            assert_says(
                &refused,
                code,
                &format!("error: {code} ({words})"),
                &["administrator of this server"],
            );
            assert!(refused.stderr.contains("; next: "), "{}", refused.said());
        }
    }
    for url in ["davs://nowhere.invalid/f", "root://nowhere.invalid//f"] {
        let unknown = lab.run_client("stat", &[url]);
        assert_says(&unknown, 113, "error: 113 (Unknown host)", &["Host is down"]);
        assert!(unknown.stderr.contains("; next: "), "{}", unknown.said());
    }
}

/// xrdcp's own options, in its own spelling.
#[test]
fn options_of_xrdcp_do_what_they_do_there() {
    let test = "options_of_xrdcp_do_what_they_do_there";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(300_000, 502);
    site.first.put("options/file", &content);
    let (source, target) = (site.first.root("options/file"), site.second.root("options/copied"));
    let sum = format!("{:08x}", adler32(&content));
    let digest = hex(&md5_of(&content));
    let download = |options: &[&str]| {
        let back = site.lab.fresh("back");
        let places = [source.as_str(), back.to_str().expect("plain")];
        let copied = site.lab.run_client("xrdcp", &[options, &places].concat());
        (back, copied)
    };
    for (options, printed) in [
        (&["-s"][..], ""),
        (&["--silent", "-S", "3"], ""),
        (&["-np", "-C", "adler32:print"], sum.as_str()),
        (&["--nopbar", "--cksum", "md5:source"], &digest),
        (&["-md5"], &digest),
        (&["-C", &format!("adler32:{sum}"), "-X", "100m"], &sum),
        (&["-y", "2", "-t", "3", "--allow-http", "-F", "-Z"], ""),
    ] {
        let (back, copied) = download(options);
        let copied = copied.succeeded();
        assert!(is_whole(&back, &content), "{options:?}");
        assert!(copied.text().contains(printed), "{options:?}: {}", copied.said());
        let is_silent = options.iter().any(|option| matches!(*option, "-s" | "--silent"));
        assert!(!is_silent || copied.text().is_empty(), "{options:?}: {}", copied.said());
    }
    let (back, wrong) = download(&["-C", "adler32:00000001"]);
    assert!(wrong.code == Some(53) && !back.exists(), "{}", wrong.said());
    let (_, refused) = download(&["--xattr"]);
    assert_says(&refused, 22, "crossload xattr get", &[]);
    let list = site.lab.file(format!("{source}\n").as_bytes());
    let into = site.lab.fresh("into");
    std::fs::create_dir(&into).expect("a directory");
    let listed = [
        "--infiles",
        list.to_str().expect("plain"),
        &format!("{}/", into.display()),
    ];
    site.lab.run_client("xrdcp", &listed).succeeded();
    assert!(is_whole(&into.join("file"), &content));
    let only = site
        .lab
        .run_client("xrdcp", &["-T", "only", "--json", &source, &target])
        .succeeded();
    let done = json_lines(&only).into_iter().find(|line| line["event"] == "done");
    assert_eq!(done.expect("an end")["mode"], "pull", "{}", only.said());
    assert!(site.second.stored("options/copied") == Some(content));
}
