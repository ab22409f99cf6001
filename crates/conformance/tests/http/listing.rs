//! Listings of directories and errors as pages: for people, and for programs that read links.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use conformance::{Lab, Look, assert_pages_are_good, look_at, put_tree, run, run_with_input, tree};
use serde_json::{Value, json};
use testkit::{Crossload, Result, available, require};

use crate::rclone::NAMES;

const BROWSER: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8";
/// As many entries as are sorted, and one more.
const LARGE: usize = 4096 + 1;

struct Site {
    lab: Lab,
    server: Crossload,
}

impl Site {
    fn new(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let server = lab.crossload(lab.options("server"))?;
        Ok(Self { lab, server })
    }

    /// A file behind the server's back.
    fn put(&self, name: &str, size: usize, modified_s: u64) {
        let path = self.server.data().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, vec![b'x'; size]).expect("a file");
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(modified_s);
        let file = File::options().write(true).open(&path).expect("a file");
        file.set_modified(then).expect("its time is set");
    }

    /// The page at a path, as a browser gets it.
    #[track_caller]
    fn page(&self, path: &str) -> String {
        let url = self.server.clear_url(path);
        self.lab.curl(&["-H", BROWSER, &url]).expect(200).text()
    }
}

/// The links of the rows of a page, in their order.
fn rows(page: &str) -> Vec<&str> {
    let rows = page.split("<th scope=\"row\"><a href=\"").skip(1);
    rows.filter_map(|row| row.split_once('"'))
        .map(|(link, _)| link)
        .collect()
}

#[test]
fn listings_and_errors_are_good_pages() {
    let name = "listings_and_errors_are_good_pages";
    let Some(site) = available(name, Site::new("listing-looks")) else {
        return;
    };
    let long = "n".repeat(200);
    let directory = "a directory with a name that is not short";
    for file in [
        "plain.root",
        "<b>&\"'",
        "to \u{202e}evil",
        "日本",
        long.as_str(),
        "sub/f",
    ] {
        site.put(&format!("{directory}/{file}"), 3_000_000, 1_795_287_684);
    }
    let encoded = "/data/a%20directory%20with%20a%20name%20that%20is%20not%20short";
    let paths = [
        "/".to_owned(),
        format!("{encoded}/"),
        format!("{encoded}/?sort=size&order=desc"),
        format!("{encoded}/missing"),
        "/data/an%2Fencoded-slash".to_owned(),
    ];
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let url = site.server.clear_url("");
    let Some(seen) = available(name, look_at(&site.lab, &Look::new(&url, &paths))) else {
        return;
    };
    // The last one is refused before its path is known, so it has nothing that keys could reach.
    let (last, known) = paths.split_last().expect("paths");
    let (refused, seen): (Vec<Value>, Vec<Value>) = seen.into_iter().partition(|page| page["path"] == *last);
    assert_pages_are_good(&seen, known);
    assert_eq!(refused.len(), 4);
    for page in &refused {
        assert_eq!((&page["axe"], &page["status"]), (&json!([]), &json!(400)), "{page:#}");
    }
}

/// U+FFFE and U+FFFF may be in names, and not in XML.
#[test]
fn a_name_that_xml_cannot_hold_hides_no_directory() {
    let name = "a_name_that_xml_cannot_hold_hides_no_directory";
    let Some(site) = available(name, Site::new("listing-unwritable")) else {
        return;
    };
    let odd = "a\u{fffe}\u{ffff}b";
    for file in [odd, "plain"] {
        site.put(&format!("list/{file}"), 5, 1_795_287_684);
    }
    let url = site.server.clear_url("/data/list/");
    let asked = ["-X", "PROPFIND", "-H", "Depth: 1", &url];
    let body = site.lab.curl(&asked).expect(207).body;
    let script = "import sys, xml.etree.ElementTree as tree\n\
                  print(len(list(tree.parse(sys.stdin.buffer).getroot())))";
    let mut python = site.lab.command("python3").expect("python3");
    let read = run_with_input(python.args(["-c", script]), &body).succeeded();
    assert_eq!(read.text(), "3\n");
    let listed = run(&site.lab.client(["ls", &url]).expect("our client")).succeeded();
    assert!(listed.text().contains(odd), "{}", listed.said());
    if available(name, require("davix-ls")).is_some() {
        let mut davix = site.lab.command("davix-ls").expect("davix-ls");
        let listed = run(davix.arg(&url)).succeeded();
        assert_eq!(listed.text().lines().count(), 2, "{}", listed.said());
    }
}

#[test]
fn people_choose_the_order_of_a_listing() {
    let name = "people_choose_the_order_of_a_listing";
    let Some(site) = available(name, Site::new("listing-order")) else {
        return;
    };
    // In 2026, a second each apart.
    let then = 1_795_287_684;
    for (file, size, later_s) in [("a", 5, 2), ("b", 3_000_000, 0), ("c", 1, 1), ("d/x", 1, 0)] {
        site.put(&format!("list/{file}"), size, then + later_s);
    }
    let by = |query: &str| {
        let page = site.page(&format!("/data/list/{query}"));
        rows(&page).join(" ")
    };
    for (query, expected) in [
        ("", "./d/ ./a ./b ./c"),
        ("?sort=name&order=desc", "./d/ ./c ./b ./a"),
        ("?sort=size&order=desc", "./d/ ./b ./a ./c"),
        ("?sort=date&order=asc", "./d/ ./b ./c ./a"),
        ("?sort=colour&order=%3Cb%3E&xrdcl.requuid=1", "./d/ ./a ./b ./c"),
    ] {
        assert_eq!(by(query), expected, "{query}");
    }
    let page = site.page("/data/list/?sort=size&order=desc");
    for needed in [
        "aria-sort=\"descending\"><a href=\"./?sort=size&amp;order=asc\"",
        "1 directory, 3 files, <data value=\"3000006\" title=\"3000006 bytes\">2.9 MiB</data>",
        "<time datetime=\"2026-11-21T19:01:26Z\">2026-11-21 19:01</time>",
        "<li><a href=\"../../\" aria-label=\"root directory\">/</a></li><li><a href=\"../\">data</a></li>",
    ] {
        assert!(page.contains(needed), "{needed} is missing in {page}");
    }
    // A token stays out of the page.
    let page = site.page("/data/list/?sort=size&access_token=not-for-others");
    assert!(!page.contains("not-for-others"), "{page}");
    let answer = site.lab.curl(&["-H", BROWSER, &site.server.clear_url("/data/list/")]);
    let policy = answer.header("Content-Security-Policy").expect("a policy");
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(answer.header("Vary"), Some("Accept"));
}

/// Programs get links to entries and to the parent alone; those that call themselves browsers do
/// not go astray either.
#[test]
fn programs_follow_the_links_of_a_listing() {
    let name = "programs_follow_the_links_of_a_listing";
    let Some(site) = available(name, Site::new("listing-programs")) else {
        return;
    };
    let stored = site.server.data().join("tree");
    put_tree(&stored, &NAMES);
    put_tree(&site.server.data().join("beside"), &["not asked for"]);
    let url = site.server.clear_url("/data/tree/");
    let page = site.lab.curl(&[&url]).expect(200).text();
    assert_eq!(page.matches("href=").count(), 1 + NAMES.len(), "{page}");
    assert!(
        !page.contains("?sort") && page.contains("<a href=\"../\">..</a>"),
        "{page}"
    );
    for accept in ["Accept: */*", BROWSER] {
        if available(name, require("rclone")).is_some() {
            let back = site.lab.fresh("rclone");
            let mut command = site.lab.command("rclone").expect("rclone is installed");
            command.args(["--config", "/dev/null", "--retries", "1", "--header", accept]);
            command.args(["copy", "--http-url", &url, ":http:"]).arg(&back);
            run(&command).succeeded();
            assert!(tree(&back) == tree(&stored), "rclone, {accept}");
        }
        if available(name, require("wget")).is_some() {
            let back = site.lab.fresh("wget");
            let mut command = site.lab.command("wget").expect("wget is installed");
            command.args(["-q", "-r", "-np", "-nH", "--cut-dirs=2", "-e", "robots=off"]);
            command.args(["--header", accept, "-P"]).arg(&back).arg(&url);
            run(&command).succeeded();
            let mut got = tree(&back);
            got.retain(|(file, _)| {
                let last = Path::new(file).file_name().and_then(|last| last.to_str());
                !last.is_some_and(|last| last.starts_with("index.html"))
            });
            assert!(got == tree(&stored), "wget, {accept}");
        }
    }
}

#[test]
fn a_large_directory_is_complete_and_not_sorted() {
    let name = "a_large_directory_is_complete_and_not_sorted";
    let Some(site) = available(name, Site::new("listing-large")) else {
        return;
    };
    let directory = site.server.data().join("large");
    fs::create_dir_all(&directory).expect("a directory");
    for number in 0..LARGE {
        fs::write(directory.join(format!("events-{number:05}.root")), "abc").expect("a file");
    }
    for query in ["", "?sort=size&order=desc"] {
        let page = site.page(&format!("/data/large/{query}"));
        let mut links = rows(&page);
        links.sort_unstable();
        links.dedup();
        assert_eq!(links.len(), LARGE);
        assert!(!page.contains("?sort=") && !page.contains("aria-sort=\""));
        let (_, behind) = page.split_once("</table>").expect("a table");
        let size = "<data value=\"12291\" title=\"12291 bytes\">12.0 KiB</data>";
        assert!(
            behind.contains(&format!("0 directories, {LARGE} files, {size}")),
            "{behind}"
        );
        assert!(page.contains("More than 4096 entries: in the order of the storage, not sorted."));
    }
    fs::remove_file(directory.join("events-00000.root")).expect("it is there");
    let page = site.page("/data/large/?sort=name&order=desc");
    let links = rows(&page);
    assert!(links.len() == LARGE - 1 && links.iter().rev().is_sorted());
}

#[test]
fn errors_are_pages_for_browsers_and_text_for_programs() {
    let name = "errors_are_pages_for_browsers_and_text_for_programs";
    let Some(site) = available(name, Site::new("listing-errors")) else {
        return;
    };
    site.put("list/f", 10, 1);
    let ask = |path: &str, headers: &[&str]| {
        let url = site.server.url(path);
        let mut arguments: Vec<&str> = headers.iter().flat_map(|header| ["-H", *header]).collect();
        arguments.push(&url);
        site.lab.curl(&arguments)
    };
    for (path, more, status, code) in [
        ("/data/%3Cb%3Emissing", "X-Nothing: 1", 404, "not_found"),
        ("/data/list/f", "Range: bytes=20-30", 416, "range_unsatisfiable"),
        ("/data/a%2Fb", "X-Nothing: 1", 400, "path_refused"),
        ("/data/list/f", "Authorization: Bearer no-token", 401, "invalid_token"),
    ] {
        for program in ["Accept: */*", "Accept: application/json", "Accept:"] {
            let answer = ask(path, &[program, more]).expect(status);
            assert_eq!(answer.header("Content-Type"), Some("text/plain; charset=utf-8"));
            assert_eq!(answer.header("Content-Security-Policy"), None);
            let id = answer.header("X-Request-Id").expect("a name").to_owned();
            let text = answer.text();
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() == 3 && lines[2].ends_with(&format!("] {id}")), "{text}");
            assert!(lines[2].contains(code) && text.ends_with('\n'), "{text}");
        }
        let text = ask(path, &["Accept: */*", more]).text();
        let advice = text.lines().nth(1).expect("advice").replace('\'', "&#39;");
        let answer = ask(path, &[BROWSER, more]).expect(status);
        assert_eq!(answer.header("Content-Type"), Some("text/html; charset=utf-8"));
        assert!(answer.header("Content-Security-Policy").is_some());
        let id = answer.header("X-Request-Id").expect("a name").to_owned();
        let page = answer.text();
        for needed in [
            "<h1>",
            advice.as_str(),
            code,
            id.as_str(),
            "<dt>Side</dt><dd>client</dd>",
        ] {
            assert!(page.contains(needed), "{path}: {needed} is missing in {page}");
        }
        assert!(!page.contains("<b>missing"), "{page}");
        // HEAD has no ranges.
        if status != 416 {
            let head = site
                .lab
                .request("HEAD", &site.server.url(path), &[BROWSER, more])
                .expect(status);
            assert_eq!(head.header("Content-Type"), Some("text/html; charset=utf-8"), "{path}");
        }
    }
    let refused = ask("/data/list/f", &[BROWSER, "Range: bytes=20-30"]).expect(416);
    assert_eq!(refused.header("Content-Range"), Some("bytes */10"));
    // Browsers follow addresses by no other method.
    let url = site.server.url("/data/list/f");
    let made = site.lab.request("MKCOL", &url, &[BROWSER]).expect(405);
    assert_eq!(made.header("Content-Type"), Some("text/plain; charset=utf-8"));
}
