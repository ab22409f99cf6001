//! Files of environment variables: drop-ins of systemd, and files of `EnvironmentFile=` and
//! `/etc/sysconfig`.

use crate::source::Source;

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// Reads a file: `NAME=value`, with or without quotes and `export`, or `Environment=` with one or
/// more of them. Other lines are left out. Values of secrets are not in the sources.
pub(crate) fn parse(file: &str, text: &str) -> Vec<Variable> {
    let mut variables = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';', '[']) {
            continue;
        }
        let settings = match line.strip_prefix("Environment=") {
            Some(list) => assignments(list),
            None => vec![line.strip_prefix("export ").unwrap_or(line).to_owned()],
        };
        for setting in settings {
            let Some((name, value)) = setting.split_once('=') else {
                continue;
            };
            let name = name.trim();
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name {
                continue;
            }
            let value = unquoted(value.trim());
            let source = match name.contains("SECRET") || name.contains("PASSWORD") {
                true => Source::hidden(file, index + 1, name),
                false => Source::new(file, index + 1, &format!("{name}={value}")),
            };
            variables.push(Variable {
                name: name.to_owned(),
                value: value.to_owned(),
                source,
            });
        }
    }
    variables
}

fn unquoted(value: &str) -> &str {
    let within = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

/// The assignments of `Environment=`: each may be in quotes.
fn assignments(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in list.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            None if character == '"' || character == '\'' => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            None if character.is_whitespace() => found.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    found.extend(word);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_both_kinds_of_files_are_read() {
        let text = "[Service]\n# c\nEnvironment=\"A_1=x y\" B=2\nC=\"three\"\nexport D='4'\nUser=storm\n1-x=2\nE_SECRET=hush\n";
        let variables = parse("f", text);
        let pairs: Vec<_> = variables.iter().map(|one| (&*one.name, &*one.value)).collect();
        let expected = [
            ("A_1", "x y"),
            ("B", "2"),
            ("C", "three"),
            ("D", "4"),
            ("User", "storm"),
            ("E_SECRET", "hush"),
        ];
        assert_eq!(pairs, expected);
        assert_eq!(variables[1].source.line, 3);
        assert!(variables.iter().all(|one| !one.source.to_string().contains("hush")));
    }
}
