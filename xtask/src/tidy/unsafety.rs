//! Where `unsafe` may stand, and that it is explained there.

use super::source::{Kind, SourceFile};
use super::{Finding, Rule};

/// Crates that talk to the kernel directly.
const UNSAFE_CRATES: [&str; 2] = ["net", "storage"];
/// How far above its `unsafe` the comment may begin.
const COMMENT_REACH_LINES: usize = 6;

/// Checks one file.
pub(crate) fn check(source: &SourceFile) -> Vec<Finding> {
    let allowed = UNSAFE_CRATES.contains(&source.crate_name());
    let mut findings = Vec::new();
    for token in &source.tokens {
        if token.kind != Kind::Ident("unsafe".to_owned()) {
            continue;
        }
        if !allowed {
            findings.push(Finding::new(
                &source.path,
                token.line,
                Rule::UnsafePlace,
                "`unsafe` outside of net and storage",
            ));
        } else if !is_explained(source, token.line) {
            let detail = format!("no `SAFETY:` comment within {COMMENT_REACH_LINES} lines above");
            findings.push(Finding::new(&source.path, token.line, Rule::UnsafeReason, detail));
        }
    }
    if source.is_crate_root() && !allowed && !is_outside_the_workspace(source) && !forbids_unsafe(source) {
        findings.push(Finding::new(
            &source.path,
            1,
            Rule::ForbidUnsafe,
            "`#![forbid(unsafe_code)]` is missing",
        ));
    }
    findings
}

/// The `SAFETY:` comment of a block, or the `# Safety` section of an `unsafe fn`.
fn is_explained(source: &SourceFile, line: usize) -> bool {
    let first = line.saturating_sub(COMMENT_REACH_LINES + 1);
    source.lines[first..line].iter().any(|text| {
        let comment = text.find("//").map_or("", |start| &text[start..]);
        comment.contains("SAFETY:") || comment.contains("# Safety")
    })
}

fn forbids_unsafe(source: &SourceFile) -> bool {
    source.tokens.windows(3).any(|three| {
        three[0].kind == Kind::Ident("forbid".to_owned())
            && three[1].kind == Kind::Other('(')
            && three[2].kind == Kind::Ident("unsafe_code".to_owned())
    })
}

fn is_outside_the_workspace(source: &SourceFile) -> bool {
    source.path.starts_with("fuzz/libfuzzer/")
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn unsafe_stays_in_net_and_storage() {
        let text = "//! Doc.\n// SAFETY: it is.\nfn f() { unsafe { g() } }\n";
        assert!(findings_in("crates/net/src/a.rs", text).is_empty());
        assert_eq!(findings_in("crates/remote/src/a.rs", text), [(Rule::UnsafePlace, 3)]);
    }

    #[test]
    fn unsafe_is_explained_close_by() {
        let far = format!(
            "//! Doc.\n// SAFETY: too far.\n{}fn f() {{ unsafe {{ g() }} }}\n",
            "\n".repeat(6)
        );
        assert_eq!(findings_in("crates/storage/src/a.rs", &far), [(Rule::UnsafeReason, 9)]);
        let near = format!(
            "//! Doc.\n// SAFETY: near.\n{}fn f() {{ unsafe {{ g() }} }}\n",
            "\n".repeat(5)
        );
        assert!(findings_in("crates/storage/src/a.rs", &near).is_empty());
        let function = "//! Doc.\n/// # Safety\n/// Never null.\npub unsafe fn f() {}\n";
        assert!(findings_in("crates/storage/src/a.rs", function).is_empty());
    }

    #[test]
    fn every_other_crate_forbids_it() {
        assert_eq!(
            findings_in("crates/policy/src/lib.rs", "//! Doc.\n"),
            [(Rule::ForbidUnsafe, 1)]
        );
        assert!(findings_in("crates/policy/src/lib.rs", "//! Doc.\n#![forbid(unsafe_code)]\n").is_empty());
        assert!(findings_in("crates/net/src/lib.rs", "//! Doc.\n").is_empty());
    }
}
