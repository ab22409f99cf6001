//! The README's quick start, word by word: its commands are read from the file and run in order, with the programs that it
//! names. Only the port, the served directory and the place of our program are others.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use conformance::{Lab, background, bytes, is_whole, run};
use testkit::{Crossload, available, free_port, require};

const PROGRAMS: [&str; 6] = ["sh", "curl", "gfal-copy", "davix-get", "rclone", "xrdcp"];
const START_LIMIT: Duration = Duration::from_secs(30);

/// The commands of a section, block by block, without the remarks behind them.
fn commands(text: &str, heading: &str) -> Vec<Vec<String>> {
    let section = text.split("\n## ").find(|section| section.starts_with(heading));
    let mut blocks = Vec::new();
    let mut block: Option<Vec<String>> = None;
    for line in section.expect("the section").lines() {
        match (&mut block, line) {
            (None, "```sh") => block = Some(Vec::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(block), line) => block.push(line.split("  #").next().unwrap_or_default().trim().to_owned()),
            _ => {}
        }
    }
    blocks
}

#[test]
fn the_quick_start_works_word_by_word() {
    let prepared = PROGRAMS
        .iter()
        .try_for_each(|program| require(program).map(drop))
        .and_then(|()| Ok((Lab::new("readme")?, Crossload::binary()?, free_port()?)));
    let Some((lab, binary, port)) = available("the_quick_start_works_word_by_word", prepared) else {
        return;
    };
    let binary = fs::canonicalize(&binary).expect("the program");
    let (here, served) = (lab.fresh("here"), lab.fresh("served"));
    fs::create_dir_all(&here).expect("a directory");
    let picture = bytes(300_001, 17);
    fs::write(here.join("picture.jpg"), &picture).expect("a picture");
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let blocks = commands(&fs::read_to_string(readme).expect("the README"), "Quick start");
    let adapted = |line: &str| {
        line.replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"))
            .replace("/tmp/files", served.to_str().expect("plain"))
            .replace("target/release/crossload", binary.to_str().expect("plain"))
    };
    let shell = |line: &str| -> Command {
        let mut command = lab.prepared(&PathBuf::from("/bin/sh"));
        command.args(["-c", &adapted(line)]).current_dir(&here);
        command
    };
    let [first, second, ..] = blocks.as_slice() else {
        panic!("the quick start has two blocks of commands: {blocks:?}");
    };
    let [build, directory, serve] = first.as_slice() else {
        panic!("three commands start the server: {first:?}");
    };
    assert_eq!(build, "./dev build");
    run(&shell(directory)).succeeded();
    let mut server = background(&mut shell(&format!("exec {serve}")), lab.scratch()).expect("it starts");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    server.wait_listening(address, START_LIMIT).expect("it serves");
    assert!(second.len() >= 9, "{second:?}");
    for line in second {
        let ran = run(&shell(line));
        assert_eq!(ran.code, Some(0), "{line}\n{}", ran.said());
    }
    for name in ["picture.jpg", "again.jpg"] {
        assert!(is_whole(&served.join(name), &picture), "{name} on the server");
        assert!(
            is_whole(&here.join("everything").join(name), &picture),
            "{name} by rclone"
        );
    }
    let copies = fs::read_dir(&here).expect("it can be listed").flatten();
    for copy in copies.map(|entry| entry.path()).filter(|path| path.is_file()) {
        assert!(is_whole(&copy, &picture), "{}", copy.display());
    }
}
