//! Debug symbols apart from the program, and what a program asks of glibc.

use std::fs;
use std::path::Path;
use std::process::Command;

use conformance::run;
use testkit::{Scratch, available, require};

use crate::workshop::{recipe, workshop};

fn sections(program: &Path) -> String {
    let mut readelf = Command::new("readelf");
    run(readelf.arg("-SnW").arg(program)).succeeded().text()
}

fn build_id(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    line.expect("a build identifier")
}

#[test]
fn symbols_are_apart_and_are_found() {
    let Some(workshop) = available("symbols_are_apart_and_are_found", workshop()) else {
        return;
    };
    let (program, symbols) = (sections(&workshop.program), sections(&workshop.symbols));
    assert!(!program.contains(".debug_line"), "{program}");
    assert!(!program.contains(".symtab"), "{program}");
    assert!(program.contains(".gnu_debuglink"), "{program}");
    assert!(symbols.contains(".debug_line"), "{symbols}");
    assert_eq!(build_id(&program), build_id(&symbols));
    run(Command::new(&workshop.program).arg("--version")).succeeded();
}

/// `getrandom` came with glibc 2.25, and `__libc_start_main`, which only programs need, has a newer
/// version wherever this is linked.
#[test]
fn the_newest_version_of_glibc_counts() {
    let test = "the_newest_version_of_glibc_counts";
    let Some((compiler, scratch)) = available(test, require("cc").and_then(|cc| Ok((cc, Scratch::new("glibc")?))))
    else {
        return;
    };
    let source = scratch.join("library.c");
    let text = "#include <sys/random.h>\n#include <stdio.h>\n\
        int f(void) { char c; puts(\"f\"); return (int)getrandom(&c, 1, 0); }\n";
    fs::write(&source, text).expect("a source");
    let library = scratch.join("library.so");
    run(Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source))
    .succeeded();
    let asked = run(recipe("libraries").arg("--glibc").arg(&library)).succeeded();
    assert_eq!(asked.text().trim(), "2.25");
    let depends = run(recipe("libraries").arg(&library)).succeeded();
    assert_eq!(depends.text().trim(), "libc6 (>= 2.25)");
    let refused = run(recipe("libraries").arg(&source));
    assert_eq!(refused.code, Some(1), "{}", refused.said());
    assert!(refused.stderr.contains("is not a program for"), "{}", refused.said());
}
