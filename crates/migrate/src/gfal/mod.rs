//! gfal: its configuration, and the protocols of storages as Rucio lists them. The client takes
//! most of what gfal has in files as options, so that little becomes configuration.

mod settings;
mod storages;

use std::path::{Path, PathBuf};

use config::Remote;
use types::Location;

use crate::document::DocumentKind;
use crate::files::{Files, Unreadable};
use crate::ini::{self, Entry};
use crate::limits::FILES_MAX;
use crate::migration::Migration;
use crate::source::Source;
use crate::system::Order;

/// Translates the files: `/etc/gfal2.d`, or files in it, and lists of storages (`.json`).
///
/// # Errors
/// A file that was asked for cannot be read.
pub(crate) fn migrate(order: &Order, files: &dyn Files) -> Result<Migration, Unreadable> {
    let mut migration = Migration::default();
    let mut entries = Vec::new();
    let mut lists = Vec::new();
    for path in &order.files {
        match files.text(path) {
            Ok(text) => file(path, text, &mut entries, &mut lists, &mut migration),
            Err(refused) => {
                let list = files.list(path).unwrap_or_default();
                let is_one = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "conf");
                let found: Vec<PathBuf> = list.into_iter().filter(is_one).take(FILES_MAX).collect();
                if found.is_empty() {
                    return Err(refused);
                }
                for path in found {
                    let text = files.text(&path)?;
                    file(&path, text, &mut entries, &mut lists, &mut migration);
                }
            }
        }
    }
    settings::write(&entries, &mut migration);
    let identity = Identity::of(&entries);
    for (name, text) in lists {
        storages::read(&name, &text, &identity, &mut migration);
    }
    Ok(migration)
}

fn file(
    path: &Path,
    text: String,
    entries: &mut Vec<Entry>,
    lists: &mut Vec<(String, String)>,
    migration: &mut Migration,
) {
    let name = path.display().to_string();
    if name.ends_with(".json") {
        lists.push((name, text));
        return;
    }
    let (read, others) = ini::parse(&name, &text);
    for source in others {
        migration.unknown(&source, "this is no setting", "Correct it there first");
    }
    entries.extend(read);
}

/// The certificate of gfal's configuration.
#[derive(Clone, Debug, Default)]
struct Identity {
    certificate: Option<(String, Source)>,
    key: Option<(String, Source)>,
}

impl Identity {
    fn of(entries: &[Entry]) -> Self {
        let find = |key: &str| {
            let is_it = |entry: &&Entry| entry.section == "X509" && entry.key == key && !entry.value.is_empty();
            let entry = entries.iter().rfind(is_it)?;
            Some((entry.value.clone(), entry.source.clone()))
        };
        let certificate = find("CERT");
        Self {
            key: find("KEY").filter(|_| certificate.is_some()),
            certificate,
        }
    }
}

/// Adds a remote. The result is `false`, and nothing was added, if its name or URL cannot be used.
fn add_remote(name: &str, url: &str, source: &Source, migration: &mut Migration) -> bool {
    let is_place = Location::parse(url).is_ok_and(|place| place.query().is_none());
    let remotes = migration.find(DocumentKind::Client);
    let is_known = remotes.is_some_and(|document| {
        let mut sections = document.sections.iter();
        sections.any(|remote| remote.get("name").and_then(toml::Value::as_str) == Some(name))
    });
    if !Remote::is_name(name) || !is_place || is_known {
        return false;
    }
    let remote = migration.document(DocumentKind::Client).add("remote");
    remote.set("name", name, source);
    remote.set("url", url, source);
    for entry in remote.entries.iter_mut().skip(1) {
        entry.sources.clear();
    }
    true
}
