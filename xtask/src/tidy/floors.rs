//! Dependency directions: a crate uses only crates on floors below its own.

use super::source::crate_of;
use super::{Finding, Rule};

/// The house, floor by floor. A crate that is not listed here has no place yet: give it one, and
/// one in ARCHITECTURE.md.
const FLOORS: [(&str, u8); 39] = [
    ("types", 0),
    ("markup", 0),
    ("http-wire", 1),
    ("xroot-wire", 1),
    ("stomp-wire", 1),
    ("s3-wire", 1),
    ("gsi-wire", 1),
    ("records", 1),
    ("monitoring-wire", 1),
    ("execution", 1),
    ("net", 2),
    ("credentials", 2),
    ("schedule", 2),
    ("policy", 3),
    ("remote", 3),
    ("storage", 3),
    ("telemetry", 3),
    ("broker", 3),
    ("config", 4),
    ("endpoint", 4),
    ("identity", 4),
    ("cache", 4),
    ("storage-remote", 4),
    ("history", 4),
    ("catalog", 4),
    ("migrate", 5),
    ("reports", 5),
    ("transfer", 5),
    ("http-server", 5),
    ("queue", 6),
    ("cluster", 6),
    ("door-http", 7),
    ("door-xroot", 7),
    ("door-admin", 7),
    ("door-queue", 7),
    ("door-web", 7),
    ("bench", 8),
    ("probe", 8),
    ("crossload", 9),
];

/// Crates beside the house: they may use every crate, and no crate of the house may use them.
const BESIDE: [&str; 6] = [
    "testkit",
    "testsite",
    "conformance",
    "bench-peers",
    "fuzz-targets",
    "xtask",
];

/// The floor of a crate of the house.
pub(crate) fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

fn is_ours(name: &str) -> bool {
    floor(name).is_some() || BESIDE.contains(&name)
}

/// Checks one manifest; those outside of the crates (the workspace's, the nightly fuzzer's) have
/// nothing to check.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    if path == "Cargo.toml" || path.starts_with("fuzz/libfuzzer/") {
        return Vec::new();
    }
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 1, Rule::Syntax, format!("does not parse: {error}"))],
    };
    let name = crate_of(path);
    let mut findings = Vec::new();
    if !is_ours(name) {
        let detail = format!("crate `{name}` has no floor; give it one in xtask/src/tidy/floors.rs");
        findings.push(Finding::new(path, 1, Rule::Floors, detail));
    }
    if !inherits_lints(&manifest) {
        findings.push(Finding::new(
            path,
            1,
            Rule::Floors,
            "`[lints] workspace = true` is missing",
        ));
    }
    for section in sections(&manifest) {
        for dependency in section.names.iter().filter(|dependency| is_ours(dependency)) {
            let tests_only = section.kind == "dev-dependencies";
            if !may_use(name, dependency, tests_only) {
                let detail = format!("{name} ({}) uses {dependency} ({})", place(name), place(dependency));
                findings.push(Finding::new(path, line_of(text, dependency), Rule::Floors, detail));
            }
        }
    }
    findings
}

struct Section {
    kind: String,
    names: Vec<String>,
}

/// The dependency tables, those for one platform included.
fn sections(manifest: &toml::Table) -> Vec<Section> {
    let mut found = Vec::new();
    let mut tables: Vec<&toml::Table> = vec![manifest];
    if let Some(platforms) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(platforms.values().filter_map(toml::Value::as_table));
    }
    for table in tables {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            if let Some(entries) = table.get(kind).and_then(toml::Value::as_table) {
                let names = entries.iter().map(|(name, value)| package_name(name, value)).collect();
                found.push(Section {
                    kind: kind.to_owned(),
                    names,
                });
            }
        }
    }
    found
}

/// The package behind a dependency's key, which may be an alias (`package = "…"`).
fn package_name(key: &str, value: &toml::Value) -> String {
    value
        .get("package")
        .and_then(toml::Value::as_str)
        .unwrap_or(key)
        .to_owned()
}

fn inherits_lints(manifest: &toml::Table) -> bool {
    manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool)
        == Some(true)
}

fn may_use(user: &str, used: &str, tests_only: bool) -> bool {
    match (floor(user), floor(used)) {
        (None, _) => true,
        (Some(_), None) => tests_only && matches!(used, "testkit" | "testsite"),
        (Some(user), Some(used)) => used < user,
    }
}

fn place(name: &str) -> String {
    floor(name).map_or_else(|| "beside the house".to_owned(), |floor| format!("floor {floor}"))
}

fn line_of(text: &str, dependency: &str) -> usize {
    let is_entry = |line: &str| {
        let key = line
            .split(['=', '.'])
            .next()
            .unwrap_or_default()
            .trim()
            .trim_matches('"');
        key == dependency || line.contains(&format!("\"{dependency}\""))
    };
    text.lines().position(is_entry).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn found(name: &str, dependencies: &str) -> Vec<(Rule, usize)> {
        let text = format!("{LINTS}{dependencies}");
        let path = format!("crates/{name}/Cargo.toml");
        check(&path, &text)
            .iter()
            .map(|finding| (finding.rule, finding.line))
            .collect()
    }

    #[test]
    fn dependencies_point_down() {
        assert!(found("transfer", "[dependencies]\nnet = { workspace = true }\n").is_empty());
        let up = "[dependencies]\ntypes = { workspace = true }\ntransfer = { workspace = true }\n";
        assert_eq!(found("net", up), [(Rule::Floors, 5)]);
    }

    #[test]
    fn neighbours_do_not_know_each_other() {
        assert_eq!(
            found("door-http", "[dependencies]\ndoor-admin.workspace = true\n"),
            [(Rule::Floors, 4)]
        );
        assert!(found("remote", "[dependencies]\nnet = { workspace = true }\n").is_empty());
        assert_eq!(
            found("net", "[dependencies]\nremote = { workspace = true }\n"),
            [(Rule::Floors, 4)]
        );
    }

    #[test]
    fn the_test_kit_is_for_tests() {
        assert!(found("net", "[dev-dependencies]\ntestkit = { workspace = true }\n").is_empty());
        assert_eq!(
            found("net", "[dependencies]\ntestkit = { workspace = true }\n"),
            [(Rule::Floors, 4)]
        );
        assert_eq!(
            found("net", "[dev-dependencies]\nconformance = { path = \"x\" }\n"),
            [(Rule::Floors, 4)]
        );
    }

    #[test]
    fn an_alias_or_a_platform_does_not_hide_a_dependency() {
        assert_eq!(
            found(
                "net",
                "[dependencies]\ncopy = { package = \"transfer\", path = \"x\" }\n"
            ),
            [(Rule::Floors, 4)]
        );
        let platform = "[target.'cfg(unix)'.dependencies]\ntransfer = { workspace = true }\n";
        assert_eq!(found("net", platform), [(Rule::Floors, 4)]);
    }

    #[test]
    fn a_crate_needs_a_floor_and_the_common_lints() {
        assert_eq!(found("attic", ""), [(Rule::Floors, 1)]);
        let findings = check("crates/net/Cargo.toml", "[package]\nname = \"net\"\n");
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}
