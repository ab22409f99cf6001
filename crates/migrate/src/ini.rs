//! Files with sections in brackets and lines `key = value`: of FTS and gfal.

use crate::limits::LINES_MAX;
use crate::source::Source;

/// A line with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The section, empty in front of the first one.
    pub(crate) section: String,
    pub(crate) key: String,
    /// Its value, without quotes around it.
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// Reads a file. Lines that are neither are handed back as sources. Values of secrets are not in
/// the sources.
pub(crate) fn parse(file: &str, text: &str) -> (Vec<Entry>, Vec<Source>) {
    let (mut entries, mut others) = (Vec::new(), Vec::new());
    let mut section = String::new();
    for (index, line) in text.lines().take(LINES_MAX).enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            // A continued value could be a secret.
            others.push(Source::new(file, index + 1, "(a line without a key)"));
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let plain = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(value);
        let source = match is_secret(key) {
            true => Source::hidden(file, index + 1, key),
            false => Source::new(file, index + 1, line),
        };
        entries.push(Entry {
            section: section.clone(),
            key: key.to_owned(),
            value: plain.to_owned(),
            source,
        });
    }
    (entries, others)
}

/// Whether the value of a key may be a secret.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let words = ["password", "secret", "passphrase", "token", "json_auth", "accountkey"];
    // Switches and times about tokens are none.
    let is_about = [
        "interval", "size", "period", "time", "log", "allow", "retrieve", "validate", "managed",
    ];
    words.iter().any(|word| key.contains(word)) && !is_about.iter().any(|word| key.contains(word))
}

/// Whether a value switches something on.
pub(crate) fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "1"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keys_and_secrets() {
        let text = "a=1\n# c\n[s x]\n b = \"two words\" \n; d\nDbPassword = hush\nloose\nRETRIEVE_BEARER_TOKEN=true\nTOKEN=hush\n";
        let (entries, others) = parse("f", text);
        let all: Vec<_> = entries
            .iter()
            .map(|one| (&*one.section, &*one.key, &*one.value))
            .collect();
        let expected = [
            ("", "a", "1"),
            ("s x", "b", "two words"),
            ("s x", "DbPassword", "hush"),
            ("s x", "RETRIEVE_BEARER_TOKEN", "true"),
            ("s x", "TOKEN", "hush"),
        ];
        assert_eq!(all, expected);
        assert_eq!(others.len(), 1);
        assert!(entries.iter().all(|one| !one.source.to_string().contains("hush")));
        assert!(entries[3].source.to_string().contains("true"));
    }
}
