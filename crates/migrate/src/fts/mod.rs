//! FTS: the server, its REST service, its messages, and settings as its routes give them.

mod broker;
mod limits;
mod roles;
mod settings;

use std::path::{Path, PathBuf};

use crate::document::DocumentKind;
use crate::files::{Files, Unreadable};
use crate::ini;
use crate::migration::Migration;
use crate::source::Source;
use crate::system::Order;
use settings::Settings;

/// The files of a directory that are read.
const FILES: &[&str] = &[
    "fts3config",
    "fts3restconfig",
    "fts-msg-monitoring.conf",
    "fts-activemq.conf",
];

/// Translates the files: `/etc/fts3`, or its files, and answers of routes such as `/config/se`.
///
/// # Errors
/// A file that was asked for cannot be read.
pub(crate) fn migrate(order: &Order, files: &dyn Files) -> Result<Migration, Unreadable> {
    let mut migration = Migration::default();
    let mut settings = Settings::default();
    let mut commands = Vec::new();
    for path in &order.files {
        match files.text(path) {
            Ok(text) => file(path, &text, &mut settings, &mut commands, &mut migration),
            Err(refused) => {
                let list = files.list(path).unwrap_or_default();
                let is_one = |file: &PathBuf| {
                    file.file_name()
                        .is_some_and(|name| FILES.iter().any(|one| name == *one))
                };
                let found: Vec<PathBuf> = list.into_iter().filter(is_one).collect();
                if found.is_empty() {
                    return Err(refused);
                }
                for path in found {
                    let text = files.text(&path)?;
                    file(&path, &text, &mut settings, &mut commands, &mut migration);
                }
            }
        }
    }
    settings::write(&settings, &mut migration);
    limits::write(commands, &mut migration);
    Ok(migration)
}

fn file(path: &Path, text: &str, settings: &mut Settings, commands: &mut Vec<String>, migration: &mut Migration) {
    let name = path.display().to_string();
    if name.ends_with(".json") {
        return limits::read(&name, text, commands, migration);
    }
    let (entries, others) = ini::parse(&name, text);
    for source in others {
        migration.unknown(&source, "this is no setting", "Correct it there first");
    }
    let is_broker = ["msg-monitoring", "activemq"].iter().any(|word| name.contains(word));
    match is_broker {
        true => settings.broker.extend(entries),
        false => settings.entries.extend(entries),
    }
}

/// Sets a key of the queue's configuration.
fn set(migration: &mut Migration, place: &str, value: impl Into<toml::Value>, source: &Source) {
    migration.set(DocumentKind::Queue, place, value, source);
}
