//! Debug symbols apart from the program, and what a program asks of glibc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::run;
use testkit::{Result, Scratch, available, require};

use crate::workshop::{recipe, workshop};

/// What `./dev package` has linked in; `packaging/split` replaces it.
const PLACEHOLDER: &str = "-Wl,--build-id=0x0000000000000000000000000000000000000000";

fn sections(program: &Path) -> String {
    let mut readelf = Command::new("readelf");
    run(readelf.arg("-SnW").arg(program)).succeeded().text()
}

/// A C compiler, and a directory for what it makes.
fn compiler(name: &str) -> Result<(PathBuf, Scratch)> {
    Ok((require("cc")?, Scratch::new(name)?))
}

fn build_id(text: &str) -> &str {
    let (_, identifier) = text.split_once("Build ID: ").expect("a build identifier");
    identifier.split_whitespace().next().expect("its digits")
}

#[test]
fn symbols_are_apart_and_are_found() {
    let Some(workshop) = available("symbols_are_apart_and_are_found", workshop()) else {
        return;
    };
    let (program, symbols) = (sections(&workshop.program), sections(&workshop.symbols));
    assert!(!program.contains(".debug_line"), "{program}");
    assert!(!program.contains(".symtab"), "{program}");
    assert!(symbols.contains(".debug_line"), "{symbols}");
    assert_eq!(build_id(&program), build_id(&symbols));
    run(Command::new(&workshop.program).arg("--version")).succeeded();
}

/// The same code with other symbols: the build identifier is that of the code.
#[test]
fn the_build_identifier_does_not_depend_on_where_the_program_was_built() {
    let test = "the_build_identifier_does_not_depend_on_where_the_program_was_built";
    let Some((compiler, scratch)) = available(test, compiler("identifier")) else {
        return;
    };
    let made = ["one", "another-place"].map(|place| {
        let directory = scratch.create(place).expect("a directory");
        fs::write(directory.join("main.c"), "int main(void) { return 0; }\n").expect("a source");
        let mut build = Command::new(&compiler);
        build.args(["-g", PLACEHOLDER, "-o", "program", "main.c"]);
        run(build.current_dir(&directory)).succeeded();
        let output = directory.join("split");
        run(recipe("split").args([&directory.join("program"), &output])).succeeded();
        let (program, symbols) = (output.join("crossload"), output.join("crossload.debug"));
        assert_eq!(build_id(&sections(&program)), build_id(&sections(&symbols)));
        run(&Command::new(&program)).succeeded();
        (
            fs::read(program).expect("a program"),
            fs::read(symbols).expect("symbols"),
        )
    });
    assert!(made[0].0 == made[1].0, "the programs differ");
    assert!(made[0].1 != made[1].1, "the symbols name the directory");
}

/// `getrandom` came with glibc 2.25, and `__libc_start_main`, which only programs need, has a newer
/// version wherever this is linked.
#[test]
fn the_newest_version_of_glibc_counts() {
    let test = "the_newest_version_of_glibc_counts";
    let Some((compiler, scratch)) = available(test, compiler("glibc")) else {
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
