//! Parses a configuration and reports all mistakes at once, each with its file and line.

use std::path::Path;

use toml::de::DeValue;

use crate::credential;
use crate::section::{DeTable, Fault, Section, Sections, is_section, tables};
use crate::sources::Sources;
use crate::suggest;

/// Why a configuration cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Mistake>);

/// A mistake in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub file: String,
    /// The line of the key, or of its section if the key is not written; `None` for a file that
    /// cannot be read.
    pub line: Option<usize>,
    /// The key with its section, `section.key`; the section alone, or nothing, for mistakes in no
    /// key.
    pub key: String,
    /// What is wrong.
    pub says: String,
    /// What to do, if the manual's words about the key are not enough.
    pub change: Option<String>,
    /// What the manual says about the key.
    pub about: Option<String>,
}

impl Mistake {
    /// The file cannot be read.
    pub(crate) fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        Self {
            file: file.display().to_string(),
            line: None,
            key: String::new(),
            says: error.to_string(),
            change: Some("name a file that exists, and let the server's user read it".to_owned()),
            about: None,
        }
    }

    /// A file that cannot be one of a configuration.
    pub(crate) fn unusable(file: &Path, says: &str, change: &str) -> Self {
        Self {
            file: file.display().to_string(),
            line: None,
            key: String::new(),
            says: says.to_owned(),
            change: Some(change.to_owned()),
            about: None,
        }
    }

    fn new(fault: Fault, sources: &Sources, sections: &[Section]) -> Self {
        let (file, line) = sources.position(fault.offset);
        // A semicolon in quotation marks belongs to what is written there.
        let parts = fault.words.rsplit_once("; ");
        let parts = parts.filter(|(says, _)| says.matches('"').count().is_multiple_of(2));
        let (says, change) = match parts {
            Some((says, change)) => (says.to_owned(), Some(change.to_owned())),
            None => (fault.words.clone(), None),
        };
        Self {
            file: file.to_owned(),
            line: Some(line),
            about: about(&fault.key, sections),
            key: fault.key,
            says,
            change,
        }
    }

    /// What is wrong, and what to do if that is not in the manual.
    pub fn words(&self) -> String {
        match &self.change {
            Some(change) => format!("{}; {change}", self.says),
            None => self.says.clone(),
        }
    }

    /// What to do.
    pub fn remedy(&self) -> &str {
        let manual = "`crossload config docs` lists all keys";
        self.change.as_deref().or(self.about.as_deref()).unwrap_or(manual)
    }
}

/// `file:line: what is wrong; what to do`.
impl std::fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(formatter, "{line}:")?;
        }
        write!(formatter, " {}", self.words())
    }
}

/// A line for each mistake.
impl std::fmt::Display for Faults {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Mistake::to_string).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

/// The kind of a key's value, and the first sentence about it.
fn about(key: &str, sections: &[Section]) -> Option<String> {
    let (section, name) = key.split_once('.')?;
    let section = sections.iter().find(|known| known.name == section)?;
    let key = section.keys.iter().find(|known| known.name == name)?;
    let about = key.about.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = about.split(". ").next()?.trim_end_matches('.');
    Some(format!("{name} ({}): {sentence}", key.kind))
}

/// Parses a text. Relative file names start from `base`; `name` stands for the file in messages.
/// `check` is as of [`parse_sources`].
///
/// # Errors
/// Every mistake with its line.
pub fn parse<C: Sections>(
    text: &str,
    base: &Path,
    name: &str,
    check: impl FnOnce(&mut C, &DeTable<'_>, &Sources, &mut Vec<Fault>),
) -> Result<C, Faults> {
    parse_sources(&Sources::of(name, text), base, None, check)
}

/// Parses the texts of a configuration. `credentials` is where the service manager shows
/// credentials. `check` looks for mistakes that involve several keys; it
/// gets the merged tables, and what turns offsets in them into lines.
///
/// # Errors
/// Every mistake with its file and line.
pub(crate) fn parse_sources<C: Sections>(
    sources: &Sources,
    base: &Path,
    credentials: Option<&Path>,
    check: impl FnOnce(&mut C, &DeTable<'_>, &Sources, &mut Vec<Fault>),
) -> Result<C, Faults> {
    let mut faults = Vec::new();
    let configuration = match sources.merged(C::SECTIONS) {
        Ok(mut root) => {
            credential::resolve(&mut root, C::SECTIONS, credentials, &mut faults);
            check_names(&root, C::SECTIONS, &mut faults);
            let mut configuration = C::read(&root, base, &mut faults);
            if let Some(configuration) = &mut configuration {
                check(configuration, &root, sources, &mut faults);
            }
            configuration
        }
        Err(broken) => {
            faults = broken;
            None
        }
    };
    match configuration {
        Some(configuration) if faults.is_empty() => Ok(configuration),
        _ => {
            faults.sort_by_key(|fault| fault.offset);
            let mistakes = faults
                .into_iter()
                .map(|fault| Mistake::new(fault, sources, C::SECTIONS));
            Err(Faults(mistakes.collect()))
        }
    }
}

/// Finds sections and keys that do not exist.
fn check_names(root: &DeTable<'_>, sections: &[Section], faults: &mut Vec<Fault>) {
    for (name, value) in root {
        let (word, offset) = (name.get_ref().as_ref(), name.span().start);
        let Some(section) = sections.iter().find(|section| section.name == word) else {
            faults.push(Fault {
                offset,
                key: word.to_owned(),
                words: unknown_section(word, sections),
            });
            continue;
        };
        let is_fit = match value.get_ref() {
            DeValue::Table(_) => true,
            DeValue::Array(list) => section.repeated && list.iter().all(|item| item.get_ref().is_table()),
            _ => false,
        };
        if !is_fit {
            faults.push(Fault {
                offset,
                key: word.to_owned(),
                words: format!(
                    "\"{word}\" is a section; write {} on a line of its own, and its keys below",
                    section.written()
                ),
            });
        }
        for (table, _) in tables(root, word) {
            let unknown = table
                .iter()
                .filter(|(key, _)| section.keys.iter().all(|known| known.name != key.get_ref().as_ref()));
            for (key, value) in unknown {
                let name = key.get_ref();
                let as_section = is_section(value.get_ref()).then(|| section.keys_of(name)).flatten();
                faults.push(Fault {
                    offset: key.span().start,
                    key: format!("{word}.{name}"),
                    words: match as_section {
                        Some(words) => format!("{name}: {words}"),
                        None => unknown_key(name, section, sections),
                    },
                });
            }
        }
    }
}

fn unknown_section(word: &str, sections: &[Section]) -> String {
    if let Some(section) = holder_of(word, sections) {
        return format!("the key \"{word}\" is in no section; it belongs in the section [{section}]");
    }
    if let Some(words) = sections.iter().find_map(|section| section.keys_of(word)) {
        return format!("\"{word}\" {words}");
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
