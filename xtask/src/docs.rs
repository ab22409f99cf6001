//! The documents that are made from code: `docs/errors.md` from the table of error codes,
//! `docs/configuration.md` from the configuration's own description, and `docs/openapi.json` from
//! the routes of the queue's own API. The binary prints the last two (`crossload config docs`,
//! `crossload config openapi`).
//!
//! Without `CROSSLOAD_BIN` what it prints is left out: a binary found by chance may be older than
//! the code.

use crate::tidy::{Finding, Rule};
use std::fs;
use std::path::Path;
use std::process::Command;
use types::ErrorCode;
use types::error::{AnotherWay, FAMILIES, Retry, Row, Scope};

const ERRORS_FILE: &str = "docs/errors.md";
const CONFIGURATION_FILE: &str = "docs/configuration.md";
const OPENAPI_FILE: &str = "docs/openapi.json";
/// Names the binary that prints documents.
const BINARY_VARIABLE: &str = "CROSSLOAD_BIN";

struct Document {
    path: &'static str,
    text: String,
}

/// Writes all generated documents.
///
/// # Errors
/// When the binary cannot be asked or a file cannot be written.
pub(crate) fn write(root: &Path) -> Result<String, String> {
    let mut written = Vec::new();
    for document in documents()? {
        let path = root.join(document.path);
        fs::write(&path, document.text).map_err(|error| format!("{}: {error}", path.display()))?;
        written.push(document.path);
    }
    Ok(format!("docs: wrote {}", written.join(", ")))
}

/// Compares the documents with what the code would write now.
///
/// # Errors
/// The documents that differ, or why the binary could not be asked.
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let documents = documents()?;
    let findings: Vec<String> = documents
        .iter()
        .filter_map(|document| difference(root, document))
        .map(|finding| finding.to_string())
        .collect();
    if findings.is_empty() {
        return Ok(format!("docs: {} documents agree with the code", documents.len()));
    }
    Err(findings.join("\n"))
}

/// The findings of `tidy`: documents that can be made without a binary, and those of the binary
/// when one is named.
pub(crate) fn findings(root: &Path) -> Vec<Finding> {
    match documents() {
        Ok(documents) => documents
            .iter()
            .filter_map(|document| difference(root, document))
            .collect(),
        Err(reason) => vec![Finding::new(CONFIGURATION_FILE, 1, Rule::GeneratedDocs, reason)],
    }
}

fn documents() -> Result<Vec<Document>, String> {
    let mut documents = vec![Document {
        path: ERRORS_FILE,
        text: errors_document(),
    }];
    if let Some(binary) = std::env::var_os(BINARY_VARIABLE) {
        for (path, what) in [(CONFIGURATION_FILE, "docs"), (OPENAPI_FILE, "openapi")] {
            let text = printed(Path::new(&binary), what)?;
            documents.push(Document { path, text });
        }
    }
    Ok(documents)
}

fn difference(root: &Path, document: &Document) -> Option<Finding> {
    let found = fs::read_to_string(root.join(document.path)).unwrap_or_default();
    if found == document.text {
        return None;
    }
    let same = found
        .lines()
        .zip(document.text.lines())
        .take_while(|(a, b)| a == b)
        .count();
    let detail = "differs from what the code says; run `cargo xtask docs`";
    Some(Finding::new(document.path, same + 1, Rule::GeneratedDocs, detail))
}

/// What `crossload config WHAT` prints.
fn printed(binary: &Path, what: &str) -> Result<String, String> {
    let output = Command::new(binary)
        .args(["config", what])
        .output()
        .map_err(|error| format!("{} cannot be started: {error}", binary.display()))?;
    if !output.status.success() {
        return Err(format!(
            "`{} config {what}` failed: {}",
            binary.display(),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("what `config {what}` prints is not UTF-8"))
}

const ERRORS_PREAMBLE: &str = "\
<!-- Made by `cargo xtask docs` from the table in crates/types/src/error/rows; change it there. -->

# Error codes

Every failure has one of these codes. It is in the log (`code`), in the metrics' labels and in the client's `--json`
output. Codes stay the same from release to release; the sentences may change.

A message also names the side at fault (source, destination, server, client, queue), the phase (queued, staging,
connect, tls, authenticate, authorize, open, transfer, checksum, commit, cleanup, archiving) and, if a peer answered,
its status and words.

## What to do

The client prints the second column to its user, with the options of `crossload` that help. The server writes the third
to its log (`next`), for its administrator. Some answers of servers without a code of their own have another exit code
and another next step: 413 (27, too large), 423 (16, locked), 429 and 503 (11, with the time to wait if the server says
it), 408 and 504 (110), and *not a directory* (20).
";

const ADVICE_HEAD: &str = "\
| code | meaning | client | administrator |
|---|---|---|---|
";

const ANSWERS_PREAMBLE: &str = "
## What each protocol says

- *HTTP*, *XRootD* and *S3*: the status, error number or error code of the answer.
- *exit*: the exit code, the `errno` that gfal's tools use for the same case; [exit-codes.md](exit-codes.md) says
  where the client's own differs.
- *FTS*: how the transfer service FTS3 reports it, as `SCOPE [errno] text`, where the errno is the exit code. SIDE stands
  for SOURCE or DESTINATION.
- *again*: whether the same attempt can succeed later.
- *another way*: whether the client tries another way of copying (pull, push, stream).
";

const ANSWERS_HEAD: &str = "\
| code | HTTP | XRootD | S3 | exit | FTS | again | another way |
|---|---|---|---|---|---|---|---|
";

fn errors_document() -> String {
    let mut text = ERRORS_PREAMBLE.to_owned();
    push_groups(&mut text, ADVICE_HEAD, |row| advice_row(row.code));
    text.push_str(ANSWERS_PREAMBLE);
    push_groups(&mut text, ANSWERS_HEAD, answers_row);
    text
}

/// A heading and a table for each subject.
fn push_groups(text: &mut String, head: &str, line: impl Fn(&Row) -> String) {
    for family in FAMILIES {
        text.push_str(&format!("\n### {}\n\n{head}", family.subject));
        family.rows.iter().for_each(|row| text.push_str(&line(row)));
    }
}

/// What can be done about one code.
fn advice_row(code: ErrorCode) -> String {
    format!(
        "| `{}` | {} | {} | {} |\n",
        code.name(),
        cell(code.meaning()),
        cell(&code.for_our_client()),
        cell(code.for_administrator()),
    )
}

/// What each protocol says of one code.
fn answers_row(row: &Row) -> String {
    let again = match row.retry {
        Retry::Yes => "yes",
        Retry::No => "no",
        Retry::PeerDecides => "by the peer's status",
    };
    let another_way = match row.another_way {
        AnotherWay::Yes => "yes",
        AnotherWay::No => "no",
        AnotherWay::PeerDecides => "unless the peer answers 409",
    };
    let scope = match row.fts.scope {
        Scope::Side => "SIDE",
        Scope::Transfer => "TRANSFER",
        Scope::General => "GENERAL_FAILURE",
        Scope::Staging => "STAGING",
        Scope::Archiving => "ARCHIVING",
    };
    format!(
        "| `{}` | {} | {} | {} {} | {} | {scope}: {} | {again} | {another_way} |\n",
        row.name,
        row.http,
        row.xrootd,
        row.s3.status(),
        row.s3.code(),
        row.exit,
        cell(row.fts.text),
    )
}

/// Text that cannot end a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_row() {
        let text = errors_document();
        for code in ErrorCode::ALL {
            assert!(text.contains(&format!("| `{}` |", code.name())), "{}", code.name());
        }
    }

    #[test]
    fn a_difference_is_reported_at_its_line() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let own = fs::read_to_string(root.join("Cargo.toml")).expect("the manifest can be read");
        let same = Document {
            path: "Cargo.toml",
            text: own.clone(),
        };
        assert!(difference(root, &same).is_none());
        let changed = Document {
            path: "Cargo.toml",
            text: own.replacen("name = \"xtask\"", "name = \"other\"", 1),
        };
        assert_eq!(difference(root, &changed).map(|finding| finding.line), Some(2));
    }
}
