//! Parses a configuration file and reports all mistakes at once, each with its line.

use std::path::Path;

use toml::de::DeValue;

use crate::section::{DeTable, Fault, Section, Sections, tables};
use crate::suggest;

/// Why a configuration cannot be used: one line per mistake, each beginning with `file:line:`.
#[derive(Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<String>);

impl std::fmt::Display for Faults {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

/// Parses a text. Relative file names start from `base`; `name` stands for the file in messages.
/// `check` looks for mistakes that involve several keys; it gets the table and a function from byte
/// offset to line.
///
/// # Errors
/// Every mistake with its line.
pub fn parse<C: Sections>(
    text: &str,
    base: &Path,
    name: &str,
    check: impl FnOnce(&mut C, &DeTable<'_>, &dyn Fn(usize) -> usize, &mut Vec<Fault>),
) -> Result<C, Faults> {
    let mut faults = Vec::new();
    let configuration = match DeTable::parse(text) {
        Ok(table) => {
            let root = table.get_ref();
            check_names(root, C::SECTIONS, &mut faults);
            let mut configuration = C::read(root, base, &mut faults);
            if let Some(configuration) = &mut configuration {
                check(configuration, root, &|offset| line_of(text, offset), &mut faults);
            }
            configuration
        }
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            let words = error.message().to_owned();
            faults.push(Fault { offset, words });
            None
        }
    };
    match configuration {
        Some(configuration) if faults.is_empty() => Ok(configuration),
        _ => {
            faults.sort_by_key(|fault| fault.offset);
            let lines = faults
                .iter()
                .map(|fault| format!("{name}:{}: {}", line_of(text, fault.offset), fault.words));
            Err(Faults(lines.collect()))
        }
    }
}

/// The line that contains a byte of the file, counted from one.
fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

/// Finds sections and keys that do not exist.
fn check_names(root: &DeTable<'_>, sections: &[Section], faults: &mut Vec<Fault>) {
    for (name, value) in root {
        let (word, offset) = (name.get_ref().as_ref(), name.span().start);
        let Some(section) = sections.iter().find(|section| section.name == word) else {
            faults.push(Fault {
                offset,
                words: unknown_section(word, sections),
            });
            continue;
        };
        let is_section = match value.get_ref() {
            DeValue::Table(_) => true,
            DeValue::Array(list) => section.repeated && list.iter().all(|item| item.get_ref().is_table()),
            _ => false,
        };
        if !is_section {
            let words = format!("\"{word}\" is a section: write [{word}]");
            faults.push(Fault { offset, words });
        }
        for (table, _) in tables(root, word) {
            let unknown = table
                .keys()
                .filter(|key| section.keys.iter().all(|known| known.name != key.get_ref().as_ref()));
            for key in unknown {
                let words = unknown_key(key.get_ref(), section, sections);
                let offset = key.span().start;
                faults.push(Fault { offset, words });
            }
        }
    }
}

fn unknown_section(word: &str, sections: &[Section]) -> String {
    if let Some(section) = holder_of(word, sections) {
        return format!("the key \"{word}\" belongs in the section [{section}]");
    }
    let names = sections.iter().map(|section| section.name);
    match suggest::nearest(word, names.clone()) {
        Some(known) => format!("unknown section \"{word}\"; did you mean \"{known}\"?"),
        None => {
            let names: Vec<&str> = names.collect();
            format!("unknown section \"{word}\"; there are {}", names.join(", "))
        }
    }
}

fn unknown_key(word: &str, section: &Section, sections: &[Section]) -> String {
    let here = section.name;
    if let Some(known) = suggest::nearest(word, section.keys.iter().map(|key| key.name)) {
        return format!("unknown key \"{word}\" in [{here}]; did you mean \"{known}\"?");
    }
    match holder_of(word, sections) {
        Some(other) => format!("unknown key \"{word}\" in [{here}]; it belongs in [{other}]"),
        None => format!("unknown key \"{word}\" in [{here}]; `crossload config docs` lists all keys"),
    }
}

/// The section that has a key with this name.
fn holder_of(key: &str, sections: &[Section]) -> Option<&'static str> {
    let holds = |section: &&Section| section.keys.iter().any(|known| known.name == key);
    sections.iter().find(holds).map(|section| section.name)
}
