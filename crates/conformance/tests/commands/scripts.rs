//! Command lines of scripts, found in public documents and programs: `crossload` in front of one
//! does the same as the program that it was written for. Each runs twice, on the same files: with
//! the program, and with ours. What lies on the server and here afterwards, the exit code and what
//! is printed are compared.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Run, Site, Slot, run_with_input, shared, visible};
use testkit::{Result, available, require};

static SITE: Slot<Site> = Slot::new(Weak::new());

/// Ours, and XRootD.
fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        require("xrdfs")?;
        Site::with_xrootd("scripts", "gfal-copy")
    })
}

/// What both programs print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prints {
    /// Not compared: progress, or words of their own.
    Anything,
    /// The same.
    Same,
    /// The same last names, in any order, at the ends of the lines.
    Names,
    /// The same names, in any order, at the beginnings of the lines.
    Removed,
    /// This, among other things.
    Text(&'static str),
    /// The same total of bytes.
    Total,
}

use Prints::{Anything, Names, Removed, Same, Text, Total};

/// How ours ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// As the other program.
    Alike,
    /// It refuses, and says this.
    Refuses(&'static str),
}

use Ends::{Alike, Refuses};

/// Where command lines come from: titles and addresses.
const SOURCES: [(&str, &str); 17] = [
    (
        "gfal-copy(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-copy.1.html",
    ),
    (
        "gfal-ls(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-ls.1.html",
    ),
    (
        "gfal-rm(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-rm.1.html",
    ),
    (
        "gfal-sum(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-sum.1.html",
    ),
    (
        "gfal-mkdir(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-mkdir.1.html",
    ),
    (
        "gfal-stat(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-stat.1.html",
    ),
    (
        "gfal-xattr(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-xattr.1.html",
    ),
    (
        "gfal-cat(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-cat.1.html",
    ),
    (
        "gfal-save(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-save.1.html",
    ),
    (
        "gfal-rename(1)",
        "https://manpages.ubuntu.com/manpages/noble/man1/gfal-rename.1.html",
    ),
    (
        "SURF grid documentation",
        "https://github.com/sara-nl/griddocs/blob/master/source/Pages/Advanced/storage_clients/gfal.rst",
    ),
    (
        "Basic usage of xrdcp",
        "http://confluence.slac.stanford.edu/display/xrd/xrdcp",
    ),
    (
        "ATLAS analysis facility",
        "https://github.com/usatlas/AFdocs/blob/main/tier3docs/doma/DataSharing/uchicago/uc_cern_work.md",
    ),
    (
        "cms-bot",
        "https://github.com/cms-sw/cms-bot/blob/master/das-utils/copy-ib-lfn-to-eos.sh",
    ),
    (
        "XCache at LRZ",
        "https://wiki.physik.uni-muenchen.de/etp/index.php/XCache_Server",
    ),
    ("TOTEM", "https://twiki.cern.ch/twiki/bin/view/TOTEM/CompEOS"),
    (
        "XRootD smoke test",
        "https://github.com/xrootd/xrootd/blob/master/tests/XRootD/smoke.sh",
    ),
];

/// Source, command line, what is printed, how ours ends. Hosts and directories are replaced:
/// `{davs}` and `{root}` are URLs of the directory of the row, `{host}` and `{path}` its server and
/// path, `{here}` the local directory in which the command runs.
const LINES: [(&str, &str, Prints, Ends); 59] = [
    (
        "gfal-copy(1)",
        "gfal-copy file://{here}/group {davs}/empty/",
        Anything,
        Alike,
    ),
    (
        "gfal-copy(1)",
        "gfal-copy file://{here}/group {davs}/test",
        Anything,
        Alike,
    ),
    (
        "gfal-copy(1)",
        "gfal-copy file://{here}/group {davs}/file",
        Anything,
        Alike,
    ),
    (
        "gfal-copy(1)",
        "gfal-copy -f file://{here}/group {davs}/file",
        Anything,
        Alike,
    ),
    (
        "gfal-copy(1)",
        "gfal-copy file://{here}/group {davs}/test file://{here}/test2",
        Anything,
        Refuses("a command for each"),
    ),
    (
        "gfal-copy(1)",
        "gfal-copy -r file://{here}/tree {davs}/new",
        Anything,
        Alike,
    ),
    ("gfal-copy(1)", "gfal-copy -r {davs}/set new", Anything, Alike),
    ("gfal-copy(1)", "gfal-copy -r {root}/set ./", Anything, Alike),
    (
        "gfal-copy(1)",
        "gfal-copy -p -K ADLER32 {davs}/file {davs}/a/b/copied",
        Anything,
        Alike,
    ),
    (
        "gfal-copy(1)",
        "gfal-copy -K ADLER32:00000001 {davs}/file file://{here}/wrong",
        Anything,
        Alike,
    ),
    (
        "gfal-copy(1)",
        "gfal-copy {davs}/none file://{here}/none",
        Anything,
        Alike,
    ),
    ("gfal-copy(1)", "gfal-copy", Anything, Alike),
    ("gfal-ls(1)", "gfal-ls -laH {davs}/set", Names, Alike),
    ("gfal-ls(1)", "gfal-ls -d file://{here}", Same, Alike),
    // Scripts pick columns by their numbers.
    ("gfal-ls(1)", "gfal-ls -l {davs}/file", Same, Alike),
    (
        "gfal-ls(1)",
        "gfal-ls -l --time-style long-iso file://{here}/group",
        Same,
        Alike,
    ),
    ("gfal-ls(1)", "gfal-ls -l --full-time {davs}/file", Same, Alike),
    ("gfal-ls(1)", "gfal-ls {davs}/none", Same, Alike),
    ("gfal-rm(1)", "gfal-rm file://{here}/group", Same, Alike),
    ("gfal-rm(1)", "gfal-rm -r {davs}/set", Removed, Alike),
    ("gfal-rm(1)", "gfal-rm {davs}/empty", Anything, Alike),
    ("gfal-sum(1)", "gfal-sum {davs}/file ADLER32", Same, Alike),
    ("gfal-sum(1)", "gfal-sum file://{here}/group MD5", Same, Alike),
    (
        "gfal-mkdir(1)",
        "gfal-mkdir -p -m 0700 file://{here}/path1/path2",
        Same,
        Alike,
    ),
    (
        "gfal-mkdir(1)",
        "gfal-mkdir {davs}/directory1 {davs}/directory2",
        Same,
        Alike,
    ),
    ("gfal-stat(1)", "gfal-stat file://{here}/tree", Text("directory"), Alike),
    (
        "gfal-stat(1)",
        "gfal-stat {davs}/file",
        Text("  Size: 6\tregular file"),
        Alike,
    ),
    (
        "gfal-xattr(1)",
        "gfal-xattr file://{here}/tree/a user.status=new_value",
        Same,
        Alike,
    ),
    (
        "gfal-xattr(1)",
        "gfal-xattr file://{here}/marked user.status",
        Same,
        Alike,
    ),
    ("gfal-cat(1)", "gfal-cat {davs}/file", Same, Alike),
    ("gfal-save(1)", "gfal-save {davs}/group", Same, Alike),
    (
        "gfal-rename(1)",
        "gfal-rename file://{here}/group file://{here}/newname",
        Same,
        Alike,
    ),
    ("SURF grid documentation", "gfal-mkdir {davs}/homer", Same, Alike),
    ("SURF grid documentation", "gfal-ls -l {root}/set", Names, Alike),
    (
        "SURF grid documentation",
        "gfal-copy {root}/file file:///{here}/zap.tar",
        Anything,
        Alike,
    ),
    ("SURF grid documentation", "gfal-rm {root}/file", Same, Alike),
    (
        "Basic usage of xrdcp",
        "xrdcp {here}/group {root}/new/f1",
        Anything,
        Alike,
    ),
    (
        "Basic usage of xrdcp",
        "xrdcp {root}/file {here}/new/f1",
        Anything,
        Alike,
    ),
    (
        "Basic usage of xrdcp",
        "xrdcp {root}/file {root}/file1",
        Anything,
        Alike,
    ),
    (
        "Basic usage of xrdcp",
        "xrdcp {here}/group {root}/file",
        Anything,
        Alike,
    ),
    ("Basic usage of xrdcp", "xrdcp {root}/none {here}/none", Anything, Alike),
    (
        "Basic usage of xrdcp",
        "xrdcp -p {root}/file {here}/x/y",
        Anything,
        Alike,
    ),
    (
        "Basic usage of xrdcp",
        "xrdcp -fp {here}/group {root}/x/y",
        Anything,
        Alike,
    ),
    (
        "Basic usage of xrdcp",
        "xrdcp --tpc only {root}/file {here}/new",
        Anything,
        Alike,
    ),
    (
        "Basic usage of xrdcp",
        "xrdcp -T only group {root}/new",
        Anything,
        Alike,
    ),
    ("ATLAS analysis facility", "xrdcp {root}/file .", Anything, Alike),
    ("ATLAS analysis facility", "xrdcp -r {root}/set/ .", Anything, Alike),
    (
        "cms-bot",
        "xrdcp --force --posc -v {root}/file {root}/set/one.tmp",
        Anything,
        Alike,
    ),
    (
        "XCache at LRZ",
        "xrdcp -d 2 -f {root}/file {here}/tree",
        Anything,
        Alike,
    ),
    ("TOTEM", "xrdcopy group {root}/eos.txt", Anything, Alike),
    (
        "XRootD smoke test",
        "xrdfs {host} query config version",
        Anything,
        Refuses("only checksum and space"),
    ),
    (
        "XRootD smoke test",
        "xrdfs {host} stat {path}/file",
        Text("Size:"),
        Alike,
    ),
    ("XRootD smoke test", "xrdfs {host} spaceinfo {path}", Total, Alike),
    ("XRootD smoke test", "xrdfs {host} mkdir -p {path}/a/b", Same, Alike),
    ("XRootD smoke test", "xrdfs {host} ls -l {path}/set", Names, Alike),
    (
        "XRootD smoke test",
        "xrdfs {host} query checksum {path}/file?cks.type=crc32c",
        Same,
        Alike,
    ),
    ("XRootD smoke test", "xrdfs {host} rm {path}/file", Anything, Alike),
    ("XRootD smoke test", "xrdfs {host} rmdir {path}/empty", Same, Alike),
    ("XRootD smoke test", "xrdfs {host} rmdir {path}/set", Anything, Alike),
];

/// The files of a row, for one of the two programs.
struct Ground {
    site: Arc<Site>,
    /// Whether the server is ours. It is for HTTP: XRootD 5.5.3 now and then closes a connection
    /// before it answers, or does not see the end of an upload, whichever program sends it.
    is_on_ours: bool,
    /// Name of the directory at the server.
    name: String,
    here: PathBuf,
}

/// Files at the server.
const STORED: [(&str, &str); 3] = [("file", "hello\n"), ("set/one", "one\n"), ("set/sub/two", "two\n")];
/// Files here.
const LOCAL: [(&str, &str); 4] = [
    ("group", "local\n"),
    ("marked", ""),
    ("tree/a", "a\n"),
    ("tree/sub/b", "b\n"),
];
/// What is fed to the commands that read it.
const INPUT: &[u8] = b"from a pipe\n";

impl Ground {
    fn new(site: &Arc<Site>, row: usize, program: &str) -> Self {
        let name = format!("scripts/{row:02}/{program}");
        let here = site.lab.scratch().join(&name);
        let site = Arc::clone(site);
        let is_on_ours = LINES[row].1.contains("{davs}");
        let this = Self {
            site,
            is_on_ours,
            name,
            here,
        };
        this.fill();
        this
    }

    fn server(&self) -> &Endpoint {
        if self.is_on_ours {
            self.site.ours()
        } else {
            self.site.theirs()
        }
    }

    /// Makes the files.
    fn fill(&self) {
        let (server, name, here) = (self.server(), &self.name, &self.here);
        for (file, content) in STORED {
            server.put(&format!("{name}/{file}"), content.as_bytes());
        }
        server.make_directory(&format!("{name}/empty"));
        for (file, content) in LOCAL {
            let path = here.join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            std::fs::write(path, content).expect("a file");
        }
        // The same for both programs, and older than half a year: listings show it.
        let mut date = Command::new("touch");
        date.args(["-d", "2024-02-29T12:34:56Z"]).arg(here.join("group"));
        conformance::run(date.arg(server.data().join(format!("{name}/file")))).succeeded();
        let mut mark = Command::new("python3");
        mark.args(["-c", "import os,sys; os.setxattr(sys.argv[1], 'user.status', b'value')"]);
        conformance::run(mark.arg(here.join("marked"))).succeeded();
    }

    fn filled(&self, line: &str) -> Vec<String> {
        let server = self.server();
        let fill = |word: &str| {
            word.replace("{davs}", &server.davs(&self.name))
                .replace("{root}", &server.root(&self.name))
                .replace("{host}", &server.root_address())
                .replace("{path}", &format!("/data/{}", self.name))
                .replace("{here}", self.here.to_str().expect("plain"))
        };
        line.split_whitespace().map(fill).collect()
    }

    /// Runs the program, or ours with its command line.
    fn run(&self, line: &str, is_ours: bool) -> Run {
        let words = self.filled(line);
        let lab = &self.site.lab;
        let mut command = match is_ours {
            true => lab.client(&words).expect("the client is built"),
            false => {
                let mut command = lab.command(&words[0]).expect("it is installed");
                command.args(&words[1..]);
                command
            }
        };
        run_with_input(command.env("TZ", "UTC").current_dir(&self.here), INPUT)
    }

    /// What is there afterwards.
    fn result(&self) -> Vec<(String, Vec<u8>)> {
        let stored = self.server().data().join(&self.name);
        let mut found = below(&stored);
        found.extend(below(&self.here));
        found
    }

    /// What was printed, without what differs between the grounds.
    fn shown(&self, run: &Run) -> String {
        let (program, row) = (self.name.rsplit('/').next().expect("a name"), "PROGRAM");
        run.text().replace(program, row)
    }
}

/// Files with their content, and directories in which there are no others with their permissions:
/// those of the directories above differ between programs.
fn below(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut listing = Command::new("find");
    listing
        .arg(directory)
        .args(["-mindepth", "1", "-type", "d", "-links", "2", "-printf", "%P %m\\n"]);
    let mut lines: Vec<String> = conformance::run(&listing).text().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let directories = lines.into_iter().map(|line| (line, Vec::new()));
    let files = visible(directory).into_iter().map(|name| {
        let content = std::fs::read(directory.join(&name)).unwrap_or_default();
        (name, content)
    });
    directories.chain(files).collect()
}

/// The words at the ends of lines, or at their beginnings, down to the last name.
fn names(text: &str, is_first: bool) -> BTreeSet<String> {
    let words = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        if is_first { words.next() } else { words.next_back() }
    });
    words
        .map(|word| word.rsplit('/').next().unwrap_or(word).to_owned())
        .collect()
}

/// The first long number.
fn total(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    words
        .find(|word| word.len() > 8 && word.parse::<u64>().is_ok())
        .map(str::to_owned)
}

/// What differs between the two runs of a row.
fn difference(site: &Arc<Site>, row: usize) -> Option<String> {
    let (_, line, prints, ends) = LINES[row];
    let (theirs, ours) = (Ground::new(site, row, "theirs"), Ground::new(site, row, "ours"));
    let (expected, found) = (theirs.run(line, false), ours.run(line, true));
    let differs = |what: &str| {
        let said = format!("{}\n--- ours:\n{}", expected.said(), found.said());
        Some(format!("{line}\nanother {what}: {said}"))
    };
    if let Refuses(words) = ends {
        let refused = found.code.is_some_and(|code| code != 0) && found.stderr.contains(words);
        return if refused { None } else { differs("refusal") };
    }
    if expected.code != found.code {
        return differs("exit code");
    }
    if theirs.result() != ours.result() {
        return differs("result");
    }
    let (expected_text, found_text) = (theirs.shown(&expected), ours.shown(&found));
    let alike = match prints {
        Anything => true,
        Same => expected_text.trim() == found_text.trim(),
        Names => names(&expected_text, false) == names(&found_text, false),
        Removed => names(&expected_text, true) == names(&found_text, true),
        Text(text) => expected_text.contains(text) && found_text.contains(text),
        Total => total(&expected_text).is_some() && total(&expected_text) == total(&found_text),
    };
    if alike { None } else { differs("output") }
}

#[test]
fn command_lines_of_other_programs_do_the_same_with_ours_in_front() {
    let test = "command_lines_of_other_programs_do_the_same_with_ours_in_front";
    let Some(site) = available(test, site()) else { return };
    let next = std::sync::atomic::AtomicUsize::new(0);
    let differences = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let rows = std::iter::from_fn(|| {
                        let row = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        (row < LINES.len()).then_some(row)
                    });
                    rows.filter_map(|row| difference(&site, row)).collect::<Vec<_>>()
                })
            })
            .collect();
        let found = workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("it compares"));
        found.collect::<Vec<_>>()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn each_command_line_names_its_source() {
    for (source, line, ..) in LINES {
        assert!(SOURCES.iter().any(|(title, _)| *title == source), "{line}");
    }
    for (title, _) in SOURCES {
        assert!(LINES.iter().any(|(source, ..)| *source == title), "{title}");
    }
}
