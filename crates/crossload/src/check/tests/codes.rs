//! The codes of findings in the manual, and those in the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What stands before the code of a finding. Codes that stand elsewhere are found by the manual
/// alone.
const BEGINNINGS: [&str; 6] = [
    "Finding::note(",
    "Finding::warning(",
    "Finding::error(",
    "fault(",
    ".finding(",
    "code: ",
];

/// The sources of `check`, without their tests.
fn sources() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(sources.join("check")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let files = files.chain([sources.join("upstream_fault.rs")]);
    let files = files.filter(|file| file.extension().is_some_and(|end| end == "rs") && !file.ends_with("tests.rs"));
    let own = |file: std::path::PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()
    };
    files.map(own).collect()
}

fn written_as_code(text: &str) -> Option<&str> {
    text.trim_start().strip_prefix('"')?.split('"').next()
}

#[test]
fn the_manual_lists_the_codes_of_findings() {
    let sources = sources();
    let behind = |begin| sources.split(begin).skip(1).filter_map(written_as_code);
    let used: BTreeSet<&str> = BEGINNINGS.into_iter().flat_map(behind).collect();
    let manual = include_str!("../../../../../docs/check.md");
    let table = manual.split("## Codes").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let listed: BTreeSet<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    assert!(used.len() > 100 && listed.len() >= used.len(), "{used:?}");
    let missing: Vec<_> = used.difference(&listed).collect();
    assert!(missing.is_empty(), "not in docs/check.md: {missing:?}");
    let gone = listed.iter().filter(|code| !sources.contains(&format!("\"{code}\"")));
    assert_eq!(
        gone.collect::<Vec<_>>(),
        [""; 0].iter().collect::<Vec<_>>(),
        "not in the code"
    );
}
