//! What belongs to a configuration: which files a backup has, where they are, and what it leaves
//! out. Nothing is read here but the configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use config::{Configuration, NamedFile, Purpose, Sections as _, Sources};
use serde::{Deserialize, Serialize};

use crate::queue::state::{Database, State};
use crate::server::configured::CREDENTIALS_OF_UNITS;

/// The role of the configuration file itself.
pub(super) const CONFIGURATION: &str = "configuration";
/// The role of the database of a queue.
pub(super) const DATABASE: &str = "queue.database";
/// The role of the file with the password of that database.
pub(super) const PASSWORD: &str = "queue.database_password_file#0";
/// The end of the name of a delegated credential's file.
const DELEGATED: &str = "delegated";

/// The kind of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A file.
    File,
    /// A private key, or the certificate for it: only if it is wanted.
    Key,
    /// The files of a directory with this ending.
    Directory(String),
    /// The SQLite database of a queue.
    Sqlite,
    /// The PostgreSQL database of a queue, with its URL in the configuration.
    Postgres,
    /// The history of tests, in SQLite.
    History,
}

/// Something that a backup has.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// What it is for the configuration: a backup is restored by roles, since paths may differ.
    pub(super) role: String,
    /// Where it is.
    pub(super) path: PathBuf,
    /// What to call it.
    pub(super) what: String,
    pub(super) kind: Kind,
}

/// Something that a backup does not have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) path: String,
    pub(super) what: String,
    pub(super) why: String,
}

/// What belongs to a configuration.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) items: Vec<Item>,
    pub(super) left_out: Vec<LeftOut>,
    /// The URL of the queue's database, if it is not a file. A password in a file of its own is
    /// missing.
    pub(super) postgres: Option<String>,
}

/// What a configuration names. `sources` are its files.
pub(super) fn plan(file: &Path, configuration: &Configuration, sources: &Sources) -> Plan {
    let mut plan = Plan::default();
    plan.add(CONFIGURATION, file, "the configuration", Kind::File);
    plan.add(
        &format!("{CONFIGURATION}.d"),
        &more_directory(file),
        "the configuration",
        Kind::Directory("toml".to_owned()),
    );
    let mut named = configuration.files();
    named.sort_by_key(|file| (file.place.section, file.place.index, file.place.key.name));
    let mut before: Option<(String, usize)> = None;
    for file in &named {
        let name = role(file);
        let number = match &before {
            Some((known, number)) if *known == name => number + 1,
            _ => 0,
        };
        before = Some((name.clone(), number));
        plan.add_named(file, &format!("{name}#{number}"));
    }
    let is_queue = configuration.exports.is_empty() && configuration.nodes.is_empty();
    if is_queue || sources.has_section("queue") {
        plan.add_queue(configuration);
    }
    plan
}

/// The directory whose files complete a configuration.
pub(super) fn more_directory(file: &Path) -> PathBuf {
    match file.file_name().is_some_and(|name| name == "crossload.toml") {
        true => file.with_file_name("conf.d"),
        false => {
            let mut name = file.file_stem().map(OsString::from).unwrap_or_default();
            name.push(".d");
            file.with_file_name(name)
        }
    }
}

/// A key of the configuration, and which of its sections.
fn role(file: &NamedFile) -> String {
    match file.place.index {
        0 => file.place.name(),
        index => format!("{}[{index}].{}", file.place.section, file.place.key.name),
    }
}

impl Plan {
    /// Where something is in this configuration, by its role; files of a directory have its role, a
    /// slash and their names.
    pub(super) fn place(&self, role: &str) -> Option<(&Item, PathBuf)> {
        let (whole, name) = match role.split_once('/') {
            Some((directory, name)) => (directory, Some(name)),
            None => (role, None),
        };
        let item = self.items.iter().find(|item| item.role == whole)?;
        match (&item.kind, name) {
            (Kind::Directory(ending), Some(name)) if is_plain_name(name) && has_ending(name, ending) => {
                Some((item, item.path.join(name)))
            }
            (Kind::Directory(_), _) | (_, Some(_)) => None,
            (_, None) => Some((item, item.path.clone())),
        }
    }

    /// Why a database that is missing may be elsewhere: without a configured directory, the place
    /// is that of the user who asks.
    pub(super) fn lost_database(&self, configuration: &Configuration) -> Option<String> {
        let (item, path) = self.place(DATABASE)?;
        let is_usual = item.kind == Kind::Sqlite && configuration.queue.state_directory.is_none();
        (is_usual && matches!(path.try_exists(), Ok(false))).then(|| {
            format!(
                "the queue has no database at {}, which is the place for this user, since queue.state_directory is \
                 not set: set it, or run the command as the queue's user",
                path.display()
            )
        })
    }

    fn add(&mut self, role: &str, path: &Path, what: &str, kind: Kind) {
        self.items.push(Item {
            role: role.to_owned(),
            path: path.to_owned(),
            what: what.to_owned(),
            kind,
        });
    }

    pub(super) fn leave(&mut self, path: &Path, what: &str, why: &str) {
        self.left_out.push(LeftOut {
            path: path.display().to_string(),
            what: what.to_owned(),
            why: why.to_owned(),
        });
    }

    fn add_named(&mut self, file: &NamedFile, role: &str) {
        if file.path.starts_with(CREDENTIALS_OF_UNITS) {
            return self.leave(
                &file.path,
                file.what,
                "it is a credential that LoadCredential= of the unit names",
            );
        }
        let why = match (file.place.section, file.place.key.name) {
            // Those of the queue are added with its database.
            ("queue", "state_directory" | "key_file") => return,
            ("export", "cache_directory") => "it is filled again",
            ("log", "file") => "it is no state",
            ("monitoring", "spool") => "its packets are sent to the broker",
            ("tokens", "state_directory") => "the keys are fetched again",
            ("delegation", "directory") => {
                return self.add(role, &file.path, file.what, Kind::Directory(DELEGATED.to_owned()));
            }
            ("web", "history") => return self.add(role, &file.path, file.what, Kind::History),
            _ => match file.purpose {
                Purpose::Payload => "data is not in a backup",
                Purpose::AuthorityDirectory => "it comes with the packages of the authorities",
                Purpose::PrivateKey | Purpose::Certificate => {
                    return self.add(role, &file.path, file.what, Kind::Key);
                }
                _ => return self.add(role, &file.path, file.what, Kind::File),
            },
        };
        self.leave(&file.path, file.what, why);
    }

    fn add_queue(&mut self, configuration: &Configuration) {
        let state = State::of(configuration);
        let what = "the database of the queue";
        match &state.database {
            Database::Sqlite(path) => self.add(DATABASE, path, what, Kind::Sqlite),
            Database::Postgres(url) => {
                self.add(DATABASE, Path::new("postgres"), what, Kind::Postgres);
                self.postgres = Some(url.clone());
            }
        }
        self.add("queue.key_file", &state.key_file, "the key of the queue", Kind::File);
        self.leave(
            &state.uploads,
            "uploads under way to S3",
            "crossload cleanup removes what they left",
        );
    }
}

/// Whether a name leads to no other directory.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
}

/// Whether a backup takes files of this name.
fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(text: &str) -> Plan {
        let configuration = Configuration::parse(text, Path::new("/base"), "x").unwrap();
        plan(
            Path::new("/base/crossload.toml"),
            &configuration,
            &Sources::of("x", text),
        )
    }

    fn path_of(plan: &Plan, role: &str) -> Option<PathBuf> {
        plan.place(role).map(|(_, path)| path)
    }

    #[test]
    fn roles_lead_to_places_also_with_other_paths() {
        let text = |directory: &str| {
            format!(
                "[[export]]\npath = \"/a\"\ndirectory = \"/srv\"\n[macaroons]\nsecret_file = \"{directory}secret\"\n\
                 old_secret_files = [\"{directory}one\", \"{directory}two\"]\n[delegation]\ndirectory = \
                 \"{directory}delegated\"\nkey_file = \"{directory}key\"\n"
            )
        };
        let (one, other) = (planned(&text("")), planned(&text("/elsewhere/")));
        for (role, name) in [
            ("macaroons.secret_file#0", "secret"),
            ("macaroons.old_secret_files#0", "one"),
            ("macaroons.old_secret_files#1", "two"),
            ("delegation.directory#0/0a.delegated", "delegated/0a.delegated"),
        ] {
            assert_eq!(path_of(&one, role), Some(Path::new("/base").join(name)), "{role}");
            assert_eq!(
                path_of(&other, role),
                Some(Path::new("/elsewhere").join(name)),
                "{role}"
            );
        }
        for role in [
            "delegation.directory#0/../x",
            "delegation.directory#0/..",
            "delegation.directory#0/0a.sh",
            "configuration.d/evil.sh",
            "delegation.directory#0/",
            "delegation.directory#0",
            "macaroons.secret_file#0/x",
            "macaroons.secret_file#1",
            "queue.database",
        ] {
            assert_eq!(path_of(&one, role), None, "{role}");
        }
        assert!(one.left_out.iter().any(|left| left.path == "/srv"));
    }

    #[test]
    fn a_queue_has_its_database_and_its_key() {
        let sqlite = planned("[queue]\nstate_directory = \"state\"\n");
        let at = |name: &str| Some(Path::new("/base/state").join(name));
        assert_eq!(path_of(&sqlite, DATABASE), at("queue.db"));
        assert_eq!(path_of(&sqlite, "queue.key_file"), at("key"));
        let shared = planned("[queue]\ndatabase = \"postgres://u@h/n\"\nkey_file = \"k\"\n");
        assert_eq!(shared.place(DATABASE).unwrap().0.kind, Kind::Postgres);
        assert_eq!(path_of(&shared, "queue.key_file"), Some("/base/k".into()));
    }

    #[test]
    fn a_database_that_may_be_at_the_place_of_another_user_is_not_passed_over() {
        let lost = |text: &str| {
            let configuration = Configuration::parse(text, Path::new("/base"), "x").unwrap();
            let planned = planned(text);
            let is_there = path_of(&planned, DATABASE).is_some_and(|path| path.exists());
            (planned.lost_database(&configuration), is_there)
        };
        let (words, is_there) = lost("[queue]\n");
        assert_eq!(words.is_some(), !is_there);
        assert!(words.is_none_or(|words| words.contains("queue.state_directory is not set")));
        for text in [
            "[queue]\nstate_directory = \"state\"\n",
            "[queue]\ndatabase = \"postgres://u@h/n\"\n",
            "[[export]]\npath = \"/a\"\ndirectory = \"/srv\"\n",
        ] {
            assert_eq!(lost(text).0, None, "{text}");
        }
    }

    #[test]
    fn credentials_of_a_unit_are_left_out() {
        let text = "[macaroons]\nsecret_file = \"/run/credentials/crossload.service/secret\"\n";
        let planned = planned(text);
        assert!(planned.items.iter().all(|item| !item.role.starts_with("macaroons")));
        assert!(
            planned.left_out[0].why.contains("LoadCredential="),
            "{:?}",
            planned.left_out
        );
    }

    #[test]
    fn more_of_a_configuration_is_beside_it() {
        for (file, directory) in [("/e/crossload.toml", "/e/conf.d"), ("/e/queue.toml", "/e/queue.d")] {
            assert_eq!(more_directory(Path::new(file)), Path::new(directory));
        }
    }
}
