//! `gplazma.conf`: how clients are authenticated, mapped, banned, and given a session.

use super::layout::{Cell, Layout};
use crate::lookup::{FoundFile, Lookup};
use crate::migration::Migration;
use crate::source::Source;

/// A line of `gplazma.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plugin {
    /// `auth`, `map`, `account`, `session` or `identity`.
    pub(crate) phase: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether a login fails if it does (`required`, `requisite`).
    pub(crate) is_demanded: bool,
    /// Settings of this line.
    pub(crate) arguments: Vec<(String, String)>,
    pub(crate) source: Source,
}

/// Reads the lines. Those that are none are remarks.
pub(crate) fn parse(file: &str, text: &str, migration: &mut Migration) -> Vec<Plugin> {
    let mut plugins = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let plain = line.split(" #").next().unwrap_or(line);
        let source = Source::new(file, index + 1, plain);
        let mut words = plain.split_whitespace();
        let (phase, modifier, name) = (words.next(), words.next(), words.next());
        let (Some(phase), Some(modifier), Some(name)) = (phase, modifier, name) else {
            migration.unknown(&source, "this is no line of gplazma.conf", "Correct it there first");
            continue;
        };
        let (phase, modifier) = (phase.to_ascii_lowercase(), modifier.to_ascii_lowercase());
        let is_phase = ["auth", "map", "account", "session", "identity"].contains(&phase.as_str());
        let is_modifier = ["optional", "sufficient", "required", "requisite"].contains(&modifier.as_str());
        if !is_phase || !is_modifier {
            migration.unknown(&source, "this is no line of gplazma.conf", "Correct it there first");
            continue;
        }
        let arguments = words
            .filter_map(|word| word.trim_matches('"').split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        plugins.push(Plugin {
            phase,
            name: name.to_owned(),
            is_demanded: matches!(modifier.as_str(), "required" | "requisite"),
            arguments,
            source,
        });
    }
    plugins
}

/// The stack of plug-ins, with the settings of gPlazma's service.
pub(crate) struct Stack<'a> {
    pub(crate) plugins: Vec<Plugin>,
    pub(crate) layout: &'a Layout,
    /// The service `gplazma`, if a layout has it.
    pub(crate) cell: Option<&'a Cell>,
    pub(crate) lookup: &'a Lookup<'a>,
}

impl Stack<'_> {
    /// The first plug-in of a phase with this name.
    pub(crate) fn find(&self, phase: &str, name: &str) -> Option<&Plugin> {
        let mut plugins = self.plugins.iter();
        plugins.find(|plugin| plugin.phase == phase && plugin.name == name)
    }

    /// Whether a phase has one of these plug-ins.
    pub(crate) fn has(&self, phase: &str, names: &[&str]) -> bool {
        names.iter().any(|name| self.find(phase, name).is_some())
    }

    /// A setting of a plug-in: that of its line, else that of the service.
    pub(crate) fn setting(&self, plugin: &Plugin, key: &str) -> Option<String> {
        let own = plugin.arguments.iter().find(|(name, _)| name == key);
        match own {
            Some((_, value)) => Some(value.clone()),
            None => self.layout.value(self.cell, key).ok().flatten().map(|value| value.text),
        }
    }

    /// The file that a setting of a plug-in names, and its path there. A missing one is a remark.
    pub(crate) fn file(&self, plugin: &Plugin, key: &str, migration: &mut Migration) -> Option<(String, FoundFile)> {
        let path = self.setting(plugin, key);
        let found = path.as_ref().and_then(|path| self.lookup.find(path));
        match (path, found) {
            (Some(path), Some(found)) => Some((path, found)),
            (path, _) => {
                let path = path.unwrap_or_else(|| key.to_owned());
                let words = format!("the file {path} was not found, so its lines are missing in the result");
                migration.in_part(&plugin.source, words, "Give the file as a further argument");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_phase_modifier_name_and_settings() {
        let mut migration = Migration::default();
        let text = "# c\nauth optional x509 #1.1\n\nmap sufficient multimap gplazma.multimap.file=/m \"a=b\"\nmap maybe x\nmap\n";
        let plugins = parse("gplazma.conf", text, &mut migration);
        assert_eq!(plugins.len(), 2);
        assert_eq!((plugins[0].phase.as_str(), plugins[0].name.as_str()), ("auth", "x509"));
        let arguments = [("gplazma.multimap.file", "/m"), ("a", "b")];
        let arguments: Vec<_> = arguments
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(plugins[1].arguments, arguments);
        assert_eq!(migration.remarks.len(), 2);
    }
}
