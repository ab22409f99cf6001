//! The client's commands about names and trees, against ours, XRootD 5.5 and 6.2 over both
//! protocols, and on this machine.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Weak};

use conformance::{Lab, Run, Site, Slot, adler32, bytes, json_lines, run, shared};
use testkit::{Result, XrootdVersion, available};

use crate::root_client;

static NEWER: Slot<Site> = Slot::new(Weak::new());

fn newer() -> Result<Arc<Site>> {
    shared(&NEWER, || Site::with_xrootd_of(XrootdVersion::V6, "verbs", "xrootd"))
}

/// Where a check works.
struct Ground<'a> {
    lab: &'a Lab,
    /// A new directory as the client names it.
    url: String,
    /// The same directory on the disk.
    directory: &'a Path,
    is_ours: bool,
}

impl Ground<'_> {
    /// Runs our client.
    #[track_caller]
    fn run(&self, command: &str, arguments: &[&str]) -> Run {
        self.lab.run_client(command, arguments)
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Writes a file that XRootD may write, too: it keeps a checksum with the file, and computes
    /// it anew for each question otherwise.
    fn put(&self, name: &str, content: &[u8]) {
        let path = self.directory.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(path, Permissions::from_mode(0o666)).expect("permissions");
    }

    /// Makes a file by the client: XRootD changes and removes nothing that another user made.
    fn upload(&self, name: &str) {
        match self.is_local() {
            true => self.put(name, b"x"),
            false => {
                let copied = self.lab.run_client_with_input("copy", &["-", &self.at(name)], b"x");
                copied.succeeded();
            }
        }
    }

    fn is_local(&self) -> bool {
        !self.url.contains("://")
    }
}

/// Runs a check on every server over both protocols, and on this machine.
#[track_caller]
fn everywhere(test: &str, check: impl Fn(&Ground<'_>)) {
    for site in [available(test, root_client::site()), available(test, newer())] {
        let Some(site) = site else { continue };
        site.compare(|lab, server| {
            for (scheme, url) in [("davs", server.davs("")), ("root", server.root(""))] {
                let name = format!("{test}-{scheme}");
                server.make_directory(&name);
                check(&Ground {
                    lab,
                    url: format!("{url}{name}"),
                    directory: &server.data().join(&name),
                    is_ours: server.is_ours(),
                });
            }
        });
    }
    let Some(site) = available(test, root_client::site()) else {
        return;
    };
    let local = site.lab.fresh(test);
    std::fs::create_dir(&local).expect("a directory");
    check(&Ground {
        lab: &site.lab,
        url: local.to_str().expect("plain").to_owned(),
        directory: &local,
        is_ours: true,
    });
}

/// Two levels of directories, and a hidden file.
fn put_sample(ground: &Ground<'_>) {
    for (name, size) in [("B", 2048), ("a", 10), (".hidden", 1), ("sub/c", 5), ("sub/deep/d", 0)] {
        ground.put(name, &bytes(size, 11));
    }
    let path = ground.directory.join("a");
    let file = std::fs::File::options().write(true).open(path).expect("the file");
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400))
        .expect("an old file");
}

#[test]
fn ls_lists_trees_in_the_order_that_is_asked_for() {
    everywhere("ls_lists_trees_in_the_order_that_is_asked_for", |ground| {
        put_sample(ground);
        let url = &ground.url;
        let lines = |options: &[&str]| {
            let listed = ground.run("ls", &[options, &[url]].concat()).succeeded().text();
            listed.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&[]), ["B", "a", "sub"]);
        assert_eq!(lines(&["-r"]), ["sub", "a", "B"]);
        assert_eq!(lines(&["--sort", "size"]), ["B", "a", "sub"]);
        assert_eq!(lines(&["-a", "--sort", "time"]).last().map(String::as_str), Some("a"));
        let mut unsorted = lines(&["-a", "--sort", "none"]);
        unsorted.sort_unstable();
        assert_eq!(unsorted, [".hidden", "B", "a", "sub"]);
        assert!(lines(&["-l", "-h"])[0].contains(" 2.0K "), "{:?}", lines(&["-lh"]));
        let (sub, deep) = (format!("{url}/sub:"), format!("{url}/sub/deep:"));
        let tree = [
            &format!("{url}:"),
            "B",
            "a",
            "sub",
            "",
            &sub,
            "c",
            "deep",
            "",
            &deep,
            "d",
        ];
        assert_eq!(lines(&["-R"]), tree);

        let entries = json_lines(&ground.run("ls", &["-R", "--json", url]).succeeded());
        let places: Vec<_> = entries
            .iter()
            .map(|entry| entry["place"].as_str().expect("a place"))
            .collect();
        if !ground.is_local() {
            assert_eq!(
                places,
                ["B", "a", "sub", "sub/c", "sub/deep", "sub/deep/d"].map(|name| ground.at(name))
            );
        }
        let (sub, none) = (ground.at("sub"), ground.at("none"));
        let listed = ground.run("ls", &[&sub, &none, &ground.at("a")]).failed_with(1);
        assert_eq!(
            listed.text(),
            format!("{sub}:\nc\ndeep\n{}\n", ground.at("a")),
            "{}",
            listed.said()
        );
        assert!(listed.stderr.contains("No such file"), "{}", listed.said());
        let list = format!("# a list\n\n{}\n", ground.at("a"));
        let arguments = ["--from-file", "-", &sub];
        let listed = ground
            .lab
            .run_client_with_input("ls", &arguments, list.as_bytes())
            .succeeded();
        assert_eq!(listed.text(), format!("{sub}:\nc\ndeep\n{}\n", ground.at("a")));
    });
}

#[test]
fn du_adds_up_what_is_below() {
    everywhere("du_adds_up_what_is_below", |ground| {
        put_sample(ground);
        let url = &ground.url;
        let (sub, deep) = (ground.at("sub"), ground.at("sub/deep"));
        let all = format!("0\t{deep}\n5\t{sub}\n2064\t{url}\n");
        assert_eq!(ground.run("du", &[url]).succeeded().text(), all);
        let first = format!("5\t{sub}\n2064\t{url}\n");
        assert_eq!(ground.run("du", &["-d", "1", url]).succeeded().text(), first);
        let sum = ground.run("du", &["-s", "-h", url, &ground.at("a")]).succeeded();
        assert_eq!(sum.text(), format!("2.0K\t{url}\n10\t{}\n", ground.at("a")));
        let sum = json_lines(&ground.run("du", &["-s", "--json", url]).succeeded());
        let (files, directories) = (&sum[0]["files"], &sum[0]["directories"]);
        assert_eq!(
            (files, directories, &sum[0]["bytes"]),
            (&5.into(), &3.into(), &2064.into())
        );
        ground.run("du", &[&ground.at("none")]).failed_with(2);
    });
}

#[test]
fn find_prints_what_fits() {
    everywhere("find_prints_what_fits", |ground| {
        put_sample(ground);
        let found = |options: &[&str]| {
            let found = ground
                .run("find", &[options, &[&ground.url]].concat())
                .succeeded()
                .text();
            let names = found
                .lines()
                .map(|line| line.strip_prefix(&ground.url).expect("below").to_owned());
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            names
        };
        let all = ["", "/.hidden", "/B", "/a", "/sub", "/sub/c", "/sub/deep", "/sub/deep/d"];
        assert_eq!(found(&[]), all);
        let options = ["--type", "file", "--min-size", "5", "--max-size", "1KiB"];
        assert_eq!(found(&options), ["/a", "/sub/c"]);
        assert_eq!(found(&["--type", "directory", "--max-depth", "1"]), ["", "/sub"]);
        assert_eq!(
            found(&["--name", "[cd]", "--name", "B*"]),
            ["/B", "/sub/c", "/sub/deep/d"]
        );
        assert_eq!(found(&["--type", "f", "--min-age", "30d"]), ["/a"]);
        let young = ["/.hidden", "/B", "/sub/c", "/sub/deep/d"];
        assert_eq!(found(&["--type", "f", "--max-age", "1d"]), young);
        let with_nul = ground.run("find", &["-0", "--name", "a", &ground.url]).succeeded();
        assert_eq!(with_nul.text(), format!("{}\0", ground.at("a")));
        if ground.is_local() {
            std::os::unix::fs::symlink(".", ground.directory.join("link")).expect("a link");
            assert_eq!(found(&["--type", "other"]), ["/link"]);
        }
        ground.run("find", &[&ground.at("none")]).failed_with(2);
    });
}

#[test]
fn tree_draws_what_is_below() {
    everywhere("tree_draws_what_is_below", |ground| {
        put_sample(ground);
        let url = &ground.url;
        let whole = format!(
            "{url}\n├── .hidden\n├── B\n├── a\n└── sub\n    ├── c\n    └── deep\n        └── d\n\n2 directories, 5 files\n"
        );
        assert_eq!(ground.run("tree", &[url]).succeeded().text(), whole);
        ground.put("a2/only", b"x");
        let top = ground.run("tree", &["-L", "1", "-h", url]).succeeded().text();
        let lines = format!(
            "{url}\n├── [      1]  .hidden\n├── [   2.0K]  B\n├── [     10]  a\n├── a2\n└── sub\n\n2 directories, 3 files\n"
        );
        assert_eq!(top, lines);
        let between = ground.run("tree", &[url]).succeeded().text();
        assert!(between.contains("├── a2\n│   └── only\n└── sub\n"), "{between}");
        ground.run("tree", &[&ground.at("none")]).failed_with(2);
    });
}

#[test]
fn sum_prints_many_and_compares_a_list() {
    everywhere("sum_prints_many_and_compares_a_list", |ground| {
        let contents: Vec<_> = (0..3).map(|number| bytes(70_000 + number, 12)).collect();
        let places: Vec<_> = (0..3).map(|number| ground.at(&format!("file {number}"))).collect();
        for (number, content) in contents.iter().enumerate() {
            ground.put(&format!("file {number}"), content);
        }
        let [first, second, third] = [&places[0], &places[1], &places[2]];
        let expected: String = places
            .iter()
            .zip(&contents)
            .map(|(place, content)| format!("{place} {:08x}\n", adler32(content)))
            .collect();
        let sums = ground.run("sum", &[first, second, third, "ADLER32"]).succeeded().text();
        assert_eq!(sums, expected);
        let check = |list: &str| ground.lab.run_client_with_input("sum", &["-c", "-"], list.as_bytes());
        let equal = format!("{first}: OK\n{second}: OK\n{third}: OK\n");
        assert_eq!(check(&sums).succeeded().text(), equal);

        let none = ground.at("none");
        let wrong = sums.replacen(&format!("{:08x}", adler32(&contents[1])), "00000001", 1);
        let failed = check(&format!("{wrong}{none} 00000002\nno checksum\n")).failed_with(3);
        let outcome = format!("{first}: OK\n{second}: FAILED\n{third}: OK\n{none}: FAILED to read\n");
        assert_eq!(failed.text(), outcome, "{}", failed.said());
        for words in [
            "expected is adler32:00000001",
            "No such file",
            "of 4 files: 1 different, 1 not readable",
        ] {
            assert!(failed.stderr.contains(words), "{words}: {}", failed.said());
        }
        check("nothing\n").failed_with(22);
        ground.run("sum", &[&none]).failed_with(2);
        ground.run("sum", &[first, &none]).failed_with(1);
        // XRootD over HTTP answers nothing to this question about a directory.
        if ground.is_ours || !ground.url.starts_with("davs") {
            ground.run("sum", &[&ground.url]).failed_with(21);
        }
    });
}

#[test]
fn head_and_tail_print_the_ends_of_files() {
    everywhere("head_and_tail_print_the_ends_of_files", |ground| {
        // Longer than some of the pieces that are read.
        let lines: Vec<String> = (0..60_000).map(|number| format!("line {number}\n")).collect();
        let whole = lines.concat();
        ground.put("log", whole.as_bytes());
        ground.put("open", b"one\ntwo");
        ground.put("empty", b"");
        let print = |command: &str, arguments: &[&str], name: &str| {
            let run = ground.run(command, &[arguments, &[&ground.at(name)]].concat());
            run.succeeded().text()
        };
        assert_eq!(print("head", &[], "log"), lines[..10].concat());
        assert_eq!(print("tail", &[], "log"), lines[lines.len() - 10..].concat());
        assert_eq!(print("head", &["-n", "50000"], "log"), lines[..50_000].concat());
        assert_eq!(print("tail", &["-n", "50000"], "log"), lines[10_000..].concat());
        assert_eq!(print("head", &["-c", "100KiB"], "log"), whole[..100 << 10]);
        assert_eq!(print("tail", &["-c", "7"], "log"), whole[whole.len() - 7..]);
        assert_eq!(print("tail", &["-n", "+50001"], "log"), lines[50_000..].concat());
        assert_eq!(print("tail", &["-n", "+60001"], "log"), "");
        assert_eq!(print("tail", &["-n", "+0"], "open"), "one\ntwo");
        assert_eq!(print("tail", &["-c", "+6"], "open"), "wo");
        assert_eq!(print("tail", &["-c", "+9"], "open"), "");
        for command in ["head", "tail"] {
            assert!(print(command, &["-n", "1000000"], "log") == whole, "{command}");
            assert_eq!(print(command, &["-c", "1MiB"], "open"), "one\ntwo");
            assert_eq!(print(command, &["-n", "0"], "open"), "");
            assert_eq!(print(command, &[], "empty"), "");
            ground.run(command, &[&ground.at("none")]).failed_with(2);
            ground.run(command, &[&ground.url]).failed_with(21);
        }
        assert_eq!(print("head", &["-n", "1"], "open"), "one\n");
        assert_eq!(print("tail", &["-n", "1"], "open"), "two");
        let (open, none) = (ground.at("open"), ground.at("none"));
        let both = ground.run("tail", &["-n", "1", &open, &none, &open]).failed_with(1);
        assert_eq!(
            both.text(),
            format!("==> {open} <==\ntwo\n==> {open} <==\ntwo"),
            "{}",
            both.said()
        );
    });
}

#[test]
fn rm_takes_lists_and_ignores_what_is_missing() {
    everywhere("rm_takes_lists_and_ignores_what_is_missing", |ground| {
        for name in ["a b.tmp", "c.tmp", "kept"] {
            ground.upload(name);
        }
        let none = ground.at("none");
        let missing = format!("{none}\tMISSING\n");
        assert_eq!(ground.run("rm", &[&none]).failed_with(2).text(), missing);
        assert_eq!(ground.run("rm", &["-f", &none]).succeeded().text(), missing);
        ground.run("rm", &["-f", &ground.url]).failed_with(21);

        let found = ground.run("find", &["--name", "*.tmp", &ground.url]).succeeded().text();
        let list = format!("{found}{none}\n");
        let rm = |options: &[&str]| {
            let arguments = [options, &["--from-file", "-"]].concat();
            ground.lab.run_client_with_input("rm", &arguments, list.as_bytes())
        };
        let removed = rm(&[]).failed_with(1);
        assert!(
            removed.stderr.contains("1 of 3 could not be removed"),
            "{}",
            removed.said()
        );
        assert_eq!(removed.text().matches("\tDELETED\n").count(), 2, "{}", removed.said());
        assert_eq!(rm(&["-f"]).succeeded().text().matches("\tMISSING\n").count(), 3);
        assert_eq!(ground.run("ls", &[&ground.url]).succeeded().text(), "kept\n");
    });
}

#[test]
fn df_prints_the_space_that_servers_report() {
    everywhere("df_prints_the_space_that_servers_report", |ground| {
        ground.put("file", b"x");
        for place in [&ground.url, &ground.at("file")] {
            let run = ground.run("df", &["--json", place]);
            if !ground.is_ours && place.starts_with("davs") {
                // XRootD reports no quota over HTTP.
                let failed = run.failed_with(38);
                assert!(failed.stderr.contains("its space is unknown"), "{}", failed.said());
                continue;
            }
            let run = run.succeeded();
            let line = &json_lines(&run)[0];
            let [total, used, available] =
                ["total_bytes", "used_bytes", "available_bytes"].map(|key| line[key].as_u64().expect("a number"));
            assert!(total >= available && total > used && available > 0, "{line}");
            let text = ground.run("df", &["-h", place]).succeeded().text();
            let rows: Vec<_> = text.lines().collect();
            assert!(
                rows.len() == 2 && rows[1].ends_with(place.as_str()) && rows[1].contains('%'),
                "{text}"
            );
        }
    });
}

#[test]
fn mv_between_servers_says_how_it_is_done() {
    everywhere("mv_between_servers_says_how_it_is_done", |ground| {
        put_sample(ground);
        let there = ground.lab.fresh("there is space");
        let (local, other) = (there.to_str().expect("plain"), "https://localhost:1/f");
        for (name, options, slash) in [("a", "", ""), ("sub", " -r", "/")] {
            let from = ground.at(name);
            let target = if ground.is_local() { other } else { local };
            let refused = ground.run("mv", &[&from, target]).failed_with(18);
            let shown = if ground.is_local() {
                other.to_owned()
            } else {
                format!("'{local}'")
            };
            let advice = format!("next: crossload copy{options} {from}{slash} {shown} && crossload rm{options} {from}");
            assert!(refused.stderr.contains(&advice), "{advice}: {}", refused.said());
            assert_ne!(refused.code, ground.run("ls", &[&from]).succeeded().code);
        }
    });
}

#[test]
fn a_new_name_that_cannot_be_is_the_one_that_is_named() {
    everywhere("a_new_name_that_cannot_be_is_the_one_that_is_named", |ground| {
        put_sample(ground);
        let (file, lost) = (ground.at("a"), ground.at("none/b"));
        let within = ground.run("mv", &[&ground.at("sub"), &ground.at("sub/in")]);
        let within = within.failed_with(22).stderr;
        assert!(
            within.contains("a new name outside") && !within.contains("credential"),
            "{within}"
        );
        let moved = ground.run("mv", &[&file, &lost]);
        // XRootD makes the directory.
        if moved.code != Some(0) {
            let moved = moved.failed_with(2);
            assert!(
                moved.stderr.contains("none/b; next: Make it with crossload mkdir -p."),
                "{}",
                moved.said()
            );
        }
        if ground.is_local() {
            let copied = ground.run("copy", &[&file, &lost]).failed_with(2);
            assert!(copied.stderr.contains("or give -p."), "{}", copied.said());
        }
    });
}

#[test]
fn touch_creates_files_and_chmod_sets_permissions() {
    everywhere("touch_creates_files_and_chmod_sets_permissions", |ground| {
        let (one, two) = (ground.at("one"), ground.at("two"));
        ground.run("touch", &[&one, &two]).succeeded();
        assert_eq!(std::fs::read(ground.directory.join("two")).expect("a file"), b"");
        if ground.is_local() {
            // Servers make the directory.
            ground.run("touch", &[&ground.at("none/file")]).failed_with(2);
        }
        ground.put("old", b"kept");
        let again = ground.run("touch", &[&ground.at("old")]);
        match ground.is_local() {
            true => drop(again.succeeded()),
            false => assert!(again.failed_with(38).stderr.contains("the file exists"), "not refused"),
        }
        assert_eq!(std::fs::read(ground.directory.join("old")).expect("a file"), b"kept");

        let changed = ground.run("chmod", &["640", &one, &two]);
        if ground.url.starts_with("davs") {
            assert!(
                changed.failed_with(1).stderr.contains("knows no such request"),
                "not refused"
            );
            return;
        }
        changed.succeeded();
        let found = std::fs::metadata(ground.directory.join("two")).expect("a file");
        assert_eq!(found.permissions().mode() & 0o777, 0o640);
        ground.run("chmod", &["640", &ground.at("none")]).failed_with(2);
    });
}

#[test]
fn xattr_lists_prints_sets_and_removes() {
    everywhere("xattr_lists_prints_sets_and_removes", |ground| {
        let file = ground.at("file");
        ground.upload("file");
        let xattr = |arguments: &[&str]| {
            let action = ["xattr", arguments[0]].join(" ");
            let (ca, rest) = (ground.lab.authority().ca_file(), &arguments[1..]);
            let ca = ca.to_str().expect("plain");
            let command = [&["xattr", arguments[0], "--cacert", ca], rest].concat();
            let run = run(&ground.lab.client(command).expect("the client is built"));
            assert!(
                run.code == Some(0) || run.stderr.contains(&format!("crossload {action} error")),
                "{}",
                run.said()
            );
            run
        };
        if ground.url.starts_with("davs") {
            let refused = xattr(&["set", &file, "origin", "x"]).failed_with(38);
            assert!(refused.stderr.contains("knows no such request"), "{}", refused.said());
            return;
        }
        xattr(&["set", &file, "origin", "simulated ä"]).succeeded();
        xattr(&["set", &file, "other", ""]).succeeded();
        let mut names: Vec<_> = xattr(&["ls", &file])
            .succeeded()
            .text()
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.retain(|name| matches!(name.as_str(), "origin" | "other"));
        assert_eq!(names, ["origin", "other"]);
        assert_eq!(xattr(&["get", &file, "origin"]).succeeded().text(), "simulated ä\n");
        let line = &json_lines(&xattr(&["get", &file, "origin", "--json"]).succeeded())[0];
        assert_eq!(line["value"], "simulated ä");
        xattr(&["rm", &file, "origin"]).succeeded();
        assert_ne!(xattr(&["get", &file, "origin"]).code, Some(0));
        xattr(&["ls", &ground.at("none")]).failed_with(2);
    });
}

/// More entries than a walk reads before it enters a directory, by more than a batch.
const MANY: usize = 20_000;

#[test]
fn a_walk_of_a_loop_ends_however_long_its_directories_are() {
    let test = "a_walk_of_a_loop_ends_however_long_its_directories_are";
    let Some(site) = available(test, root_client::site()) else {
        return;
    };
    let server = site.ours();
    server.make_directory(test);
    let directory = server.data().join(test);
    let small = directory.join("small");
    std::fs::create_dir(&small).expect("a directory");
    for directory in [&small, &directory] {
        std::os::unix::fs::symlink(".", directory.join("loop")).expect("a link");
        std::fs::write(directory.join("file"), b"x").expect("a file");
    }
    for number in 0..MANY {
        std::fs::write(directory.join(number.to_string()), b"").expect("a file");
    }
    for url in [server.davs(test), server.root(test)] {
        let listed = site
            .lab
            .run_client("ls", &["-R", "--json", "--sort", "none", &url])
            .failed_with(1);
        let loops = listed.stderr.matches("a symbolic link forms a loop").count();
        assert_eq!(loops, 2, "{}", listed.said());
        // The loop of the long directory is seen when it has been listed once more.
        let files = json_lines(&listed)
            .iter()
            .filter(|entry| entry["kind"] == "file")
            .count();
        assert_eq!(files, 2 * (MANY + 1) + 1);
    }
    let local = site
        .lab
        .run_client("ls", &["-R", "--json", directory.to_str().expect("plain")])
        .succeeded();
    assert_eq!(
        json_lines(&local).len(),
        MANY + 5,
        "links of this machine are not followed"
    );
}
