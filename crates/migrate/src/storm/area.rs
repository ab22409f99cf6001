//! Storage areas: a file of properties in `sa.d` for each.

use crate::migration::Migration;
use crate::properties::{self, Content};
use crate::rights::plain_path;
use crate::source::Source;

/// What StoRM has as names of settings, as they count in any case.
const SWITCHES: &[&str] = &[
    "authenticatedReadEnabled",
    "anonymousReadEnabled",
    "voMapEnabled",
    "voMapGrantsWritePermission",
    "orgsGrantReadPermission",
    "orgsGrantWritePermission",
    "wlcgScopeAuthzEnabled",
    "fineGrainedAuthzEnabled",
];

/// A storage area.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    pub(crate) name: String,
    /// The directory with its files.
    pub(crate) root: String,
    /// Its paths in URLs.
    pub(crate) paths: Vec<String>,
    /// VOs of VOMS that are trusted.
    pub(crate) vos: Vec<String>,
    /// Issuers of tokens that are trusted.
    pub(crate) issuers: Vec<String>,
    switches: Vec<(String, bool)>,
    sources: Vec<(String, Source)>,
}

impl Area {
    /// Whether a switch is on.
    pub(crate) fn is_on(&self, switch: &str) -> bool {
        let set = self.switches.iter().rfind(|(name, _)| name == switch);
        set.map_or(default_of(switch), |(_, is_on)| *is_on)
    }

    /// The line of a setting, else that of the area's name.
    pub(crate) fn source(&self, key: &str) -> Source {
        let find = |key: &str| self.sources.iter().rfind(|(name, _)| name == key);
        let found = find(key).or_else(|| find("name")).or_else(|| find("rootPath"));
        found.map_or_else(|| Source::of_file(&self.name), |(_, source)| source.clone())
    }

    /// Whether a setting is in the file.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.sources.iter().any(|(name, _)| name == key)
    }
}

/// What StoRM takes if a switch is missing. Its documentation and its program differ about writing
/// by tokens: the narrower one is taken.
fn default_of(switch: &str) -> bool {
    matches!(switch, "voMapEnabled" | "orgsGrantReadPermission")
}

/// Reads an area. `None`: it cannot be served, and a remark says why.
pub(crate) fn read(file: &str, text: &str, migration: &mut Migration) -> Option<Area> {
    let mut area = Area {
        name: String::new(),
        root: String::new(),
        paths: Vec::new(),
        vos: Vec::new(),
        issuers: Vec::new(),
        switches: Vec::new(),
        sources: Vec::new(),
    };
    for line in properties::parse(text) {
        let source = Source::new(file, line.number, &line.text);
        let Content::Setting { key, value } = line.content else {
            migration.unknown(&source, "this is no setting", "Correct it there first");
            continue;
        };
        setting(&mut area, &key, &value, &source, migration);
        area.sources.push((key, source));
    }
    let words = match (area.root.starts_with('/'), area.paths.is_empty()) {
        (true, false) => return Some(area),
        (false, _) => "the area is left out: rootPath is no absolute directory",
        (true, true) => "the area is left out: it has no access point",
    };
    migration.in_part(&area.source("rootPath"), words, "Write an [[export]] by hand");
    None
}

fn setting(area: &mut Area, key: &str, value: &str, source: &Source, migration: &mut Migration) {
    let list = || value.split(',').map(str::trim).filter(|item| !item.is_empty());
    match key {
        "name" => area.name = value.to_owned(),
        "rootPath" => area.root = value.to_owned(),
        "accessPoints" => {
            for path in list() {
                match plain_path(path) {
                    Some(path) => area.paths.push(path),
                    None => migration.in_part(
                        source,
                        "a path cannot be used here and was left out",
                        "Export it by hand",
                    ),
                }
            }
        }
        "vos" => area.vos = list().map(str::to_owned).collect(),
        "orgs" => area.issuers = list().map(str::to_owned).collect(),
        "filesystemType" => migration.not_needed(source, "the server asks the kernel what a file system can do"),
        "tapeEnabled" => match value.eq_ignore_ascii_case("true") {
            true => {
                let words = "this server has no tape system";
                migration.no_equivalent(
                    source,
                    words,
                    "Keep StoRM in front of tape, and export its URL (remote)",
                );
            }
            false => migration.not_needed(source, "this server has no tape system"),
        },
        "voMapGrantsWriteAccess" => {
            let switch = "voMapGrantsWritePermission".to_owned();
            area.switches.push((switch, value.eq_ignore_ascii_case("true")));
        }
        switch if SWITCHES.contains(&switch) => {
            area.switches
                .push((switch.to_owned(), value.eq_ignore_ascii_case("true")));
        }
        _ => {
            let words = "StoRM WebDAV has no such setting, so it has no effect there";
            migration.unknown(source, words, "Look for a misspelt name");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_have_defaults_and_unknown_ones_a_remark() {
        let mut migration = Migration::default();
        let text = "name=a\nrootPath=/srv/a\naccessPoints=/a, /b,/../c\nvos=x,y\norgsGrantReadPermissions=false\n\
            anonymousReadEnabled=TRUE\nvoMapGrantsWriteAccess=true\n";
        let area = read("a.properties", text, &mut migration).unwrap();
        assert_eq!(area.paths, ["/a", "/b"]);
        assert_eq!(area.vos, ["x", "y"]);
        assert!(area.is_on("anonymousReadEnabled") && area.is_on("orgsGrantReadPermission"));
        assert!(area.is_on("voMapGrantsWritePermission") && !area.is_on("orgsGrantWritePermission"));
        assert_eq!(migration.remarks.len(), 2);
        assert!(read("b", "name=b\nrootPath=b\naccessPoints=/b\n", &mut migration).is_none());
    }
}
