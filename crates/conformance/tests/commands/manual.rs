//! The manual: each block of shell in it runs against real servers, or says why not. The unit tests
//! of the program parse each command line of it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use conformance::run;
use testkit::{Crossload, available, require};

use crate::manual_blocks::{Block, Place, blocks};
use crate::manual_scene::Scene;
use crate::readme::{pattern, test_sources};

/// Pages that are played at the same time.
const PLAYERS: usize = 3;
/// Blocks that may run nowhere. Find a way to run a new one before this is raised.
const NOWHERE_MAX: usize = 64;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages with their blocks, those with most first.
fn pages() -> Vec<(String, Vec<Block>)> {
    let documents = fs::read_dir(root().join("docs")).expect("the manual");
    let documents = documents.map(|entry| entry.expect("a page").path());
    let mut pages = Vec::new();
    let mut faults = Vec::new();
    for path in documents.chain([root().join("README.md")]) {
        if path.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match blocks(&fs::read_to_string(&path).expect("text")) {
            Ok(blocks) => pages.push((name, blocks)),
            Err(found) => faults.extend(found.into_iter().map(|fault| format!("{name}:{fault}"))),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    pages.sort_by_key(|(name, blocks)| (std::cmp::Reverse(blocks.len()), name.clone()));
    pages
}

/// The first line of the document that the output lacks after those before it. `…` stands for
/// anything, alone for any lines.
fn missing<'a>(expected: &'a [String], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().map(pattern);
    expected
        .iter()
        .filter(|line| !matches!(line.trim(), "" | "…"))
        .find(|line| !printed.any(|printed| is_like(&pattern(line), &printed)))
        .map(String::as_str)
}

/// Whether a line is as it is written, with anything in place of `…`.
fn is_like(written: &str, printed: &str) -> bool {
    let mut rest = printed;
    for (index, part) in written.split('…').map(str::trim).enumerate() {
        match rest.find(part) {
            Some(0) => rest = &rest[part.len()..],
            Some(at) if index > 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    true
}

/// Runs the blocks of a page; what went otherwise than the page says.
fn play(name: &str, page: &[Block]) -> Vec<String> {
    let mut scenes: HashMap<&str, Scene> = HashMap::new();
    let mut faults = Vec::new();
    for block in page {
        let Place::Scene { name: scene, exits } = &block.place else {
            continue;
        };
        let scene = scenes
            .entry(scene.as_str())
            .or_insert_with(|| Scene::start(scene).expect("the scene starts"));
        // Each step is a shell of its own.
        let mut exports = String::new();
        for (index, step) in block.steps.iter().enumerate() {
            let ran = run(&scene.shell(&format!("{exports}{}", step.command)));
            for line in step.command.lines().filter(|line| line.starts_with("export ")) {
                exports.push_str(&format!("{line}\n"));
            }
            let is_last = index + 1 == block.steps.len();
            let is_right = ran
                .code
                .is_some_and(|code| if is_last { exits.contains(&code) } else { code == 0 });
            let expected: Vec<String> = step.output.iter().map(|line| scene.adapted(line)).collect();
            let printed = format!("{}\n{}", ran.text(), ran.stderr);
            let missing = missing(&expected, &printed);
            if !is_right || missing.is_some() {
                let lacks = missing.map(|line| format!("lacks: {line}\n")).unwrap_or_default();
                faults.push(format!(
                    "{name}:{}: {lacks}{}\n{}",
                    block.line,
                    step.command,
                    ran.said()
                ));
            }
        }
    }
    faults
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "what runs nowhere is counted where a reader looks for it"
)]
fn each_block_of_the_manual_runs_or_says_why_not() {
    let programs = ["sh", "curl", "openssl"];
    let there = programs.iter().try_for_each(|program| require(program).map(drop));
    let there = there.and_then(|()| Crossload::binary());
    if available("each_block_of_the_manual_runs_or_says_why_not", there).is_none() {
        return;
    }
    let pages = pages();
    let waiting = Mutex::new(pages.iter());
    let next = || waiting.lock().expect("no player has panicked").next();
    let player = || {
        let mut faults = Vec::new();
        while let Some((name, page)) = next() {
            faults.extend(play(name, page));
        }
        faults
    };
    let faults: Vec<String> = thread::scope(|scope| {
        let players: Vec<_> = (0..PLAYERS).map(|_| scope.spawn(player)).collect();
        players
            .into_iter()
            .flat_map(|player| player.join().expect("a player"))
            .collect()
    });
    let mut nowhere: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut played, mut elsewhere) = (0, 0);
    for block in pages.iter().flat_map(|(_, page)| page) {
        match &block.place {
            Place::Scene { .. } => played += 1,
            Place::Test(_) => elsewhere += 1,
            Place::Nowhere(reason) => *nowhere.entry(reason.as_str()).or_default() += 1,
        }
    }
    let count: usize = nowhere.values().sum();
    println!("the manual: {played} blocks ran, {elsewhere} run in other tests, {count} nowhere:");
    for (reason, count) in &nowhere {
        println!("  {count} {reason}");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n---\n"));
    assert!(played > 50, "{played}");
    assert!(count <= NOWHERE_MAX, "{count} blocks run nowhere");
}

#[test]
fn tests_that_run_blocks_of_the_manual_exist() {
    let tests = test_sources();
    for (name, page) in pages() {
        for block in page {
            if let Place::Test(test) = &block.place {
                let is_there = tests.contains(&format!("#[test]\nfn {test}()"));
                assert!(is_there, "{name}:{}: no test is called {test}", block.line);
            }
        }
    }
}

#[test]
fn output_is_compared_but_for_what_differs_in_each_run() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let printed = "one\ntwo 17 of 20\nthe end: b1f0c36a\n";
    assert_eq!(missing(&lines("one\n…\nthe end: 00000000"), printed), None);
    assert_eq!(missing(&lines("two 1 … 3"), printed), None);
    assert_eq!(missing(&lines("… of 7"), printed), None);
    assert_eq!(missing(&lines("the end: …\none"), printed), Some("one"));
    assert_eq!(missing(&lines("of 20"), printed), Some("of 20"));
}

/// Each version in the support matrix is the one that the tests install.
#[test]
fn the_support_matrix_says_what_the_tests_install() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (dev, manifest) = (read("dev"), read("Cargo.toml"));
    let mut rows = 0;
    for row in read("docs/support.md").lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, version, from, ..] = cells[..] else {
            panic!("{row}")
        };
        let named: Vec<&str> = from.split('`').skip(1).step_by(2).collect();
        let is_right = match named[..] {
            [] => continue,
            ["Cargo.toml"] => manifest.contains(&format!("rust-version = \"{version}\"")),
            ["dev", variable] => dev.contains(&format!("{variable}={version}\n")),
            [package] => dev
                .split_whitespace()
                .any(|word| word.trim_matches('"') == package || word.ends_with(&format!("\"{package}"))),
            [file, module] => read(&format!("crates/conformance/{file}")).contains(&format!("{module}=={version}")),
            _ => false,
        };
        assert!(is_right, "not what the tests install: {row}");
        rows += 1;
    }
    assert!(rows > 25, "{rows}");
}
