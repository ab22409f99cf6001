//! Exceptions to the rules, from `xtask/exceptions.toml`.

use super::{Finding, Rule};
use std::fs;
use std::path::Path;

/// Where exceptions are written down.
const EXCEPTIONS_FILE: &str = "xtask/exceptions.toml";

struct Exception {
    rule: Rule,
    path: String,
    line: usize,
}

/// Takes away the findings that are excepted, and adds one for each exception that has nothing to except.
///
/// # Errors
/// When the file of exceptions cannot be understood.
pub(crate) fn apply(root: &Path, findings: Vec<Finding>) -> Result<Vec<Finding>, String> {
    let text = fs::read_to_string(root.join(EXCEPTIONS_FILE)).map_err(|error| format!("{EXCEPTIONS_FILE}: {error}"))?;
    let exceptions = parse(&text).map_err(|error| format!("{EXCEPTIONS_FILE}: {error}"))?;
    Ok(filter(&exceptions, findings))
}

fn filter(exceptions: &[Exception], findings: Vec<Finding>) -> Vec<Finding> {
    let covers =
        |exception: &Exception, finding: &Finding| exception.rule == finding.rule && exception.path == finding.path;
    let unneeded: Vec<Finding> = exceptions
        .iter()
        .filter(|exception| !findings.iter().any(|finding| covers(exception, finding)))
        .map(|exception| {
            let detail = format!(
                "{} no longer breaks {}: remove the exception",
                exception.path,
                exception.rule.name()
            );
            Finding::new(EXCEPTIONS_FILE, exception.line, Rule::Exceptions, detail)
        })
        .collect();
    let mut kept: Vec<Finding> = findings
        .into_iter()
        .filter(|finding| !exceptions.iter().any(|exception| covers(exception, finding)))
        .collect();
    kept.extend(unneeded);
    kept
}

fn parse(text: &str) -> Result<Vec<Exception>, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
    let Some(entries) = table.get("exception").and_then(toml::Value::as_array) else {
        return Ok(Vec::new());
    };
    entries.iter().map(|entry| parse_entry(entry, text)).collect()
}

fn parse_entry(entry: &toml::Value, text: &str) -> Result<Exception, String> {
    let field = |key: &str| {
        let value = entry
            .get(key)
            .and_then(toml::Value::as_str)
            .filter(|value| !value.trim().is_empty());
        value.ok_or_else(|| format!("an exception lacks `{key}`: {entry}"))
    };
    let (name, path, _reason) = (field("rule")?, field("path")?, field("reason")?);
    let rule = Rule::ALL
        .into_iter()
        .find(|rule| rule.name() == name)
        .ok_or_else(|| format!("no rule is called `{name}`"))?;
    let line = text
        .lines()
        .position(|line| line.contains(path))
        .map_or(1, |index| index + 1);
    Ok(Exception {
        rule,
        path: path.to_owned(),
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[exception]]\nrule = \"file-length\"\npath = \"a.rs\"\nreason = \"a table\"\n";

    #[test]
    fn an_exception_covers_its_rule_and_file_only() {
        let exceptions = parse(ONE).expect("parses");
        let long = |path: &str| Finding::new(path, 1, Rule::FileLength, "long");
        assert!(filter(&exceptions, vec![long("a.rs")]).is_empty());
        assert_eq!(filter(&exceptions, vec![long("a.rs"), long("b.rs")]).len(), 1);
        assert_eq!(
            filter(
                &exceptions,
                vec![long("a.rs"), Finding::new("a.rs", 1, Rule::ModuleDoc, "none")]
            )
            .len(),
            1
        );
    }

    #[test]
    fn an_exception_nobody_needs_is_a_finding() {
        let exceptions = parse(ONE).expect("parses");
        let findings = filter(&exceptions, Vec::new());
        assert_eq!(
            (findings.len(), findings[0].rule, findings[0].line),
            (1, Rule::Exceptions, 3)
        );
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_known_rule() {
        assert!(parse(&ONE.replace("a table", " ")).is_err());
        assert!(parse(&ONE.replace("file-length", "taste")).is_err());
    }
}
