//! What the statements of the catalog do not do.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Whether a statement counts rows of files or jobs.
fn counts(statement: &str) -> bool {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let is_table = |word: &str| matches!(word.trim_matches(['"', ')', ';']), "file" | "job");
    words.windows(2).any(|pair| pair[0] == "FROM" && is_table(pair[1]))
}

/// A count takes as long as there are rows. Counters are kept instead.
#[test]
fn no_statement_counts_files_or_jobs_without_a_bound() {
    let operations = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/operation");
    let mut counting = BTreeSet::new();
    for entry in fs::read_dir(operations).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        // To the end of the statement of Rust that it is in.
        let mut counted = text.split("COUNT(").skip(1).filter_map(|rest| rest.split(";\n").next());
        if counted.any(counts) {
            counting.insert(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    // Up to a limit; files that are being copied, by an index of these.
    assert_eq!(
        counting,
        ["count.rs", "sign.rs", "workers.rs"].map(str::to_owned).into()
    );
}
