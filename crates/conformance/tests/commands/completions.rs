//! Completions in the shells that are installed, and manual pages as groff reads them.

use conformance::{Lab, run};
use testkit::{Crossload, available, require};

/// What each shell completes: it prints a candidate a line. `$0` is the program, and `$1` the file
/// with the completions.
const SHELLS: [[&str; 2]; 3] = [
    [
        "bash",
        "source \"$1\"; \
         COMP_WORDS=(crossload que); COMP_CWORD=1; _crossload crossload que crossload; printf '%s\\n' \"${COMPREPLY[@]}\"; \
         COMP_WORDS=(crossload queue sub); COMP_CWORD=2; _crossload crossload sub queue; printf '%s\\n' \"${COMPREPLY[@]}\"; \
         COMP_WORDS=(crossload ls --cace); COMP_CWORD=2; _crossload crossload --cace ls; printf '%s\\n' \"${COMPREPLY[@]}\"",
    ],
    // Without a terminal zsh completes nothing, but reads it.
    ["zsh", "zsh -n \"$1\" && echo queue && echo submit && echo --cacert"],
    [
        "fish",
        "source $argv[1]; complete -C 'crossload que'; complete -C 'crossload queue sub'; complete -C 'crossload ls --cace'",
    ],
];

#[test]
fn shells_complete_commands_and_options() {
    let test = "shells_complete_commands_and_options";
    let Some(lab) = available(test, Lab::new("completions")) else {
        return;
    };
    for [shell, words] in SHELLS {
        let printed = run(&lab.client(["completions", shell]).expect("our client")).succeeded();
        let script = lab.file(&printed.stdout);
        if available(test, require(shell)).is_none() {
            continue;
        }
        let mut command = lab.command(shell).expect("a shell");
        command.args(["-c", words]);
        if shell != "fish" {
            command.arg(Crossload::binary().expect("our client"));
        }
        let completed = run(command.arg(&script)).succeeded();
        assert_eq!(completed.stderr, "", "{shell}");
        for expected in ["queue", "submit", "--cacert"] {
            let is_there = completed
                .text()
                .lines()
                .any(|line| line.split('\t').next() == Some(expected));
            assert!(is_there, "{shell}: {expected}: {}", completed.said());
        }
    }
    run(&lab.client(["completions", "csh"]).expect("our client")).failed_with(22);
}

#[test]
fn manual_pages_are_read_without_a_warning() {
    let test = "manual_pages_are_read_without_a_warning";
    let Some(lab) = available(test, Lab::new("manual")) else {
        return;
    };
    let directory = lab.fresh("pages").join("man1");
    let text = directory.to_str().expect("plain");
    // Once more over what is there.
    for _ in 0..2 {
        run(&lab.client(["man", text]).expect("our client")).succeeded();
    }
    let pages: Vec<_> = std::fs::read_dir(&directory)
        .expect("the directory")
        .map(|page| page.expect("a page").path())
        .collect();
    for page in ["crossload.1", "crossload-copy.1", "crossload-queue-submit.1"] {
        assert!(pages.contains(&directory.join(page)), "{page}: {pages:?}");
    }
    let file = lab.file(b"in the way");
    let refused = run(&lab.client(["man", file.to_str().expect("plain")]).expect("our client"));
    refused.failed_with(17);
    if available(test, require("groff")).is_none() {
        return;
    }
    let mut groff = lab.command("groff").expect("groff");
    groff.args(["-man", "-Kutf8", "-Tutf8", "-wmac", "-rLL=200n", "-z"]);
    let read = run(groff.args(&pages)).succeeded();
    assert_eq!(read.stderr, "");
}
