//! Circles: modules of a crate that use each other, directly or over others.

use super::source::{Kind, SourceFile};
use super::{Finding, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// Crates whose modules form no circle. The list grows until it names every crate.
const WITHOUT_CIRCLES: [&str; 18] = [
    "bench",
    "crossload",
    "door-admin",
    "door-http",
    "door-queue",
    "door-xroot",
    "endpoint",
    "gsi-wire",
    "http-server",
    "http-wire",
    "identity",
    "markup",
    "net",
    "probe",
    "reports",
    "transfer",
    "types",
    "xroot-wire",
];

/// What each module of a crate uses, with the file and line of the first use.
type Uses = BTreeMap<String, BTreeMap<String, (String, usize)>>;

/// Collects the uses of all sources, crate by crate.
#[derive(Default)]
pub(crate) struct Circles(BTreeMap<String, Uses>);

impl Circles {
    /// Notes what one source uses: paths that begin with `crate`, outside of tests.
    pub(crate) fn add(&mut self, source: &SourceFile) {
        let name = source.crate_name();
        if !WITHOUT_CIRCLES.contains(&name) {
            return;
        }
        let Some(module) = module_of(&source.path) else {
            return;
        };
        let uses = self.0.entry(name.to_owned()).or_default();
        let known = uses.entry(module.to_owned()).or_default();
        for (used, line) in used_modules(source) {
            if used != module {
                known.entry(used).or_insert((source.path.clone(), line));
            }
        }
    }

    /// One finding for each use that is part of a circle.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for uses in self.0.values() {
            for (module, used) in uses {
                for (other, (path, line)) in used {
                    if reaches(uses, other, module) {
                        let detail = format!("`{module}` uses `{other}`, which uses `{module}`");
                        findings.push(Finding::new(path, *line, Rule::Circles, detail));
                    }
                }
            }
        }
        findings
    }
}

/// The module that a file belongs to: the first name below `src`, and none for the crate's root.
fn module_of(path: &str) -> Option<&str> {
    let (_, below) = path.split_once("/src/")?;
    let name = below.split('/').next()?.trim_end_matches(".rs");
    (!matches!(name, "lib" | "main")).then_some(name)
}

/// The modules in `crate::module` and `crate::{module, module::item}`, with their lines.
fn used_modules(source: &SourceFile) -> Vec<(String, usize)> {
    let tokens: Vec<_> = source.product_tokens().collect();
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let is_path = |at: usize| tokens.get(at).is_some_and(|token| token.kind == Kind::Other(':'));
        if token.kind != Kind::Ident("crate".to_owned()) || !is_path(index + 1) || !is_path(index + 2) {
            continue;
        }
        let mut depth = 0_usize;
        // Names count where a path begins: behind `crate::`, the outer brace, and each comma in it.
        let mut begins = true;
        for token in &tokens[index + 3..] {
            match &token.kind {
                Kind::Ident(name) if begins => {
                    found.push((name.clone(), token.line));
                    begins = false;
                    if depth == 0 {
                        break;
                    }
                }
                Kind::Other('{') => depth += 1,
                Kind::Other('}') if depth <= 1 => break,
                Kind::Other('}') => depth -= 1,
                Kind::Other(',') if depth == 1 => begins = true,
                Kind::Other(_) | Kind::Ident(_) if depth > 0 => {}
                _ => break,
            }
        }
    }
    found
}

/// Whether `from` uses `to`, directly or over others.
fn reaches(uses: &Uses, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            open.extend(uses.get(module).into_iter().flatten().map(|(used, _)| used.as_str()));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let mut circles = Circles::default();
        for (name, text) in files {
            let path = format!("crates/door-http/src/{name}");
            circles.add(&SourceFile::parse(&path, text).expect("the snippet parses"));
        }
        let found = circles.findings();
        found
            .iter()
            .map(|finding| format!("{}:{}", finding.path, finding.line))
            .collect()
    }

    #[test]
    fn uses_that_only_point_down_are_no_circle() {
        let verb = "use crate::exchange::Exchange;\nfn f() { crate::limits::g() }\n";
        let files = [
            ("get.rs", verb),
            ("exchange.rs", "use crate::limits::L;\n"),
            ("limits.rs", ""),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn a_circle_is_found_over_several_modules() {
        let files = [
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "//! B.\nuse crate::{d, c::{C, Z}};\n"),
            ("c.rs", "fn f() { crate::a::g() }\n"),
            ("d.rs", ""),
        ];
        let expected = ["a.rs:1", "b.rs:2", "c.rs:1"].map(|place| format!("crates/door-http/src/{place}"));
        assert_eq!(circles(&files), expected);
    }

    #[test]
    fn files_of_one_module_and_tests_do_not_count() {
        let files = [
            ("a/mod.rs", "use crate::a::x::X;\n"),
            ("a/x.rs", "use crate::a::Y;\n"),
            ("b.rs", "use crate::a::X;\n"),
            ("lib.rs", "pub use crate::b::B;\n"),
        ];
        assert!(circles(&files).is_empty());
        let test = "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n";
        assert!(circles(&[("a.rs", test), ("b.rs", "use crate::a::A;\n")]).is_empty());
    }
}
