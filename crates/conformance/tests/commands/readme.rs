//! The README's quick start, word by word: the commands are read from the file, run in order in an
//! empty directory, and print what the file says. Only ports, the directory and our program's place
//! differ.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use conformance::{Lab, background, is_whole, run};
use testkit::{Crossload, Process, Result, available, free_port, require};

const PROGRAMS: [&str; 6] = ["sh", "curl", "gfal-copy", "davix-get", "rclone", "xrdcp"];
const START_LIMIT: Duration = Duration::from_secs(30);
/// The directory that the printed output names.
const PRINTED_DIRECTORY: &str = "/tmp/try";

/// A command, and what it prints according to the file.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

/// The commands of a section, block by block.
pub(crate) fn steps(text: &str, heading: &str) -> Vec<Vec<Step>> {
    let section = text.split("\n## ").find(|section| section.starts_with(heading));
    let mut blocks = Vec::new();
    let mut block: Option<Vec<Step>> = None;
    for line in section.expect("the section").lines() {
        match (&mut block, line) {
            (None, "```console") => block = Some(Vec::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(block), line) => match (line.strip_prefix("$ "), block.last_mut()) {
                (Some(command), _) => block.push(Step {
                    command: command.to_owned(),
                    output: Vec::new(),
                }),
                (None, Some(step)) => step.output.push(line.to_owned()),
                (None, None) => panic!("a block begins with a command: {line}"),
            },
            _ => {}
        }
    }
    blocks
}

/// A line with numbers, rates and checksums replaced, which differ from run to run.
pub(crate) fn pattern(line: &str) -> String {
    let word = |word: &str| -> String {
        let bare = word.trim_end_matches(',');
        let value = bare.rsplit(':').next().unwrap_or(bare);
        if bare.ends_with("B/s") {
            return "RATE".to_owned();
        }
        if value.len() == 8 && value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return word.replace(value, "CHECKSUM");
        }
        let mut text = String::new();
        for character in word.chars() {
            match character.is_ascii_digit() {
                true if text.ends_with('0') => {}
                true => text.push('0'),
                false => text.push(character),
            }
        }
        text
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The places of one run, which differ from those in the file.
pub(crate) struct Places {
    lab: Lab,
    pub(crate) here: PathBuf,
    /// Variables of the shell.
    pub(crate) variables: Vec<(String, String)>,
    /// What stands in the file, and what it is in this run.
    pub(crate) replaced: Vec<(String, String)>,
}

impl Places {
    /// An empty directory, our program in the search path, and a free port for each of these.
    pub(crate) fn new(lab: Lab, ports: &[u16]) -> Result<Self> {
        let binary = fs::canonicalize(Crossload::binary()?).expect("the program");
        let directory = binary.parent().and_then(Path::to_str).expect("a plain directory");
        let path = format!("{directory}:{}", env::var("PATH").unwrap_or_default());
        let here = lab.fresh("empty");
        fs::create_dir_all(&here).expect("a directory");
        let mut replaced = vec![(PRINTED_DIRECTORY.to_owned(), here.to_str().expect("plain").to_owned())];
        for port in ports {
            replaced.push((format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", free_port()?)));
        }
        Ok(Self {
            lab,
            here,
            variables: vec![("PATH".to_owned(), path)],
            replaced,
        })
    }

    pub(crate) fn adapted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.replaced {
            text = text.replace(from, to);
        }
        text
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = self.lab.prepared(Path::new("/bin/sh"));
        command.args(["-c", &self.adapted(line)]).current_dir(&self.here);
        command.envs(self.variables.iter().cloned());
        command
    }

    /// Runs a step to its end, or starts the server that it leaves in the background.
    pub(crate) fn play(&mut self, step: &Step) -> Option<Process> {
        if let Some((name, value)) = step.command.strip_prefix("export ").and_then(|set| set.split_once('=')) {
            self.variables.push((name.to_owned(), self.adapted(value)));
            return None;
        }
        let expected = |places: &Self| -> Vec<String> {
            let lines = step.output.iter();
            lines.map(|line| pattern(&places.adapted(line))).collect()
        };
        if let Some(line) = step.command.strip_suffix('&') {
            let mut command = self.shell(&format!("exec {line}"));
            let mut server = background(&mut command, self.lab.scratch()).expect("it starts");
            let printed = server.wait_for(line, START_LIMIT, |server| {
                let lines: Vec<String> = server.stdout().lines().map(pattern).collect();
                (lines == expected(self)).then_some(())
            });
            printed.expect("it prints what the README says");
            return Some(server);
        }
        let ran = run(&self.shell(&step.command));
        assert_eq!(ran.code, Some(0), "{}\n{}", step.command, ran.said());
        if !step.output.is_empty() {
            // The identifiers of jobs are others in each run.
            let (told, real) = (identifiers(&step.output.join("\n")), identifiers(&ran.text()));
            self.replaced.extend(told.into_iter().zip(real));
            let printed: Vec<String> = ran.text().lines().map(pattern).collect();
            assert_eq!(printed, expected(self), "{}\n{}", step.command, ran.said());
        }
        None
    }
}

/// The identifiers of jobs in a text, in their order.
fn identifiers(text: &str) -> Vec<String> {
    let is_one = |word: &&str| word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
    text.split_whitespace().filter(is_one).map(str::to_owned).collect()
}

#[test]
fn the_quick_start_works_word_by_word() {
    let prepared = PROGRAMS
        .iter()
        .try_for_each(|program| require(program).map(drop))
        .and_then(|()| Places::new(Lab::new("readme")?, &[8080, 8081]));
    let Some(mut places) = available("the_quick_start_works_word_by_word", prepared) else {
        return;
    };
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let mut blocks = steps(&fs::read_to_string(readme).expect("the README"), "Quick start");
    // The build is what tests run already, and the end ends the shell's own jobs.
    let commands = |block: &[Step]| -> Vec<String> { block.iter().map(|step| step.command.clone()).collect() };
    let (first, last) = (blocks.remove(0), blocks.pop().expect("a last block"));
    assert_eq!(
        commands(&first),
        ["./dev build", "export PATH=\"$PWD/target/release:$PATH\""]
    );
    assert_eq!(commands(&last), ["kill %1 %2"]);
    let mut servers = Vec::new();
    for step in blocks.iter().flatten() {
        servers.extend(places.play(step));
    }
    assert_eq!(servers.len(), 2);
    let picture = fs::read(places.here.join("picture.jpg")).expect("the picture");
    let copies = [
        "first/by-curl.jpg",
        "first/by-gfal.jpg",
        "second/picture.jpg",
        "second/again.jpg",
        "second/by-copy.jpg",
        "by-davix.jpg",
        "by-rclone/picture.jpg",
        "by-xrdcp.jpg",
    ];
    for copy in copies {
        assert!(is_whole(&places.here.join(copy), &picture), "{copy}");
    }
}

/// The text of all tests of this crate.
pub(crate) fn test_sources() -> String {
    let mut tests = String::new();
    for program in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")).expect("the tests") {
        for file in fs::read_dir(program.expect("a program").path()).expect("its files") {
            let path = file.expect("a file").path();
            if path.is_file() {
                tests.push_str(&fs::read_to_string(path).expect("its text"));
            }
        }
    }
    tests
}

/// Each row of the comparison with other clients names the test that shows what it says of ours.
#[test]
fn what_is_compared_has_a_test() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(base.join("../../docs/compare.md")).expect("the comparison");
    let tests = test_sources();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, _, _, _, ours, test] = cells[..] else {
            panic!("{row}")
        };
        let is_there = tests.contains(&format!("#[test]\nfn {}()", test.trim_matches('`')));
        assert!(is_there, "{ours} has no test: {row}");
        count += 1;
    }
    assert!(count > 30, "{count}");
}
