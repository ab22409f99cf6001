//! Storages with their protocols, as Rucio lists them (`rucio-admin rse info`, `/rses/NAME`): a
//! remote for each.

use serde_json::{Map, Value};

use super::{Identity, add_remote};
use crate::document::DocumentKind;
use crate::migration::Migration;
use crate::source::Source;

/// Our schemes, the best first.
const SCHEMES: &[&str] = &["davs", "https", "roots", "root", "xroot", "s3s", "dav", "http", "s3"];
/// Most storages of a list.
const STORAGES_MAX: usize = 2000;

/// A storage with its protocols.
struct Storage<'a> {
    name: &'a str,
    protocols: Vec<&'a Map<String, Value>>,
}

/// Reads a list.
pub(crate) fn read(file: &str, text: &str, identity: &Identity, migration: &mut Migration) {
    let document = match serde_json::from_str::<Value>(text) {
        Ok(document) => document,
        Err(error) => {
            let source = Source::new(file, error.line(), "");
            return migration.in_part(
                &source,
                "this is no JSON, so nothing in it was read",
                "Get the list again",
            );
        }
    };
    let items: Vec<&Value> = match &document {
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    };
    let mut storages: Vec<Storage<'_>> = Vec::new();
    for item in items.into_iter().filter_map(Value::as_object) {
        let name = ["rse", "name"]
            .iter()
            .find_map(|key| item.get(*key).and_then(Value::as_str));
        let Some(name) = name else { continue };
        let protocols: Vec<&Map<String, Value>> = match item.get("protocols").and_then(Value::as_array) {
            Some(list) => list.iter().filter_map(Value::as_object).collect(),
            None => vec![item],
        };
        match storages.iter().position(|storage| storage.name == name) {
            Some(index) => storages[index].protocols.extend(protocols),
            None if storages.len() < STORAGES_MAX => storages.push(Storage { name, protocols }),
            None => {}
        }
    }
    if storages.is_empty() {
        let words = "this is no list of storages with their protocols";
        migration.unknown(&Source::of_file(file), words, "Give the answer of Rucio's /rses/NAME");
    }
    for storage in storages {
        one(file, &storage, identity, migration);
    }
}

fn one(file: &str, storage: &Storage<'_>, identity: &Identity, migration: &mut Migration) {
    let source = Source::new(file, 0, &format!("storage {}", storage.name));
    let urls = SCHEMES.iter().flat_map(|scheme| {
        let of_scheme = storage
            .protocols
            .iter()
            .filter(move |protocol| text(protocol, "scheme") == Some(*scheme));
        of_scheme.filter_map(|protocol| url(protocol))
    });
    let urls: Vec<String> = urls.collect();
    let Some(best) = urls.first() else {
        let words = "none of its protocols is spoken here";
        return migration.no_equivalent(&source, words, "Ask the site for a davs or root URL");
    };
    if !add_remote(storage.name, best, &source, migration) {
        let words = "no remote was made: its name or URL cannot be used, or the name is taken";
        return migration.in_part(&source, words, format!("crossload config remote add NAME {best}"));
    }
    let is_s3 = best.starts_with("s3");
    let remote = migration.document(DocumentKind::Client).sections.last_mut();
    if let Some(remote) = remote.filter(|_| !is_s3) {
        for (key, value) in [("cert", &identity.certificate), ("key", &identity.key)] {
            if let Some((file, source)) = value {
                remote.set(key, file.as_str(), source);
            }
        }
    }
    let words = match urls.len() {
        1 => "a remote".to_owned(),
        _ => format!("a remote; it also has {}", urls[1..].join(", ")),
    };
    migration.taken(&source, words);
}

/// The URL of a protocol's directory.
fn url(protocol: &Map<String, Value>) -> Option<String> {
    let scheme = text(protocol, "scheme")?;
    let host = text(protocol, "hostname").filter(|host| is_host(host))?;
    let port = match protocol
        .get("port")
        .and_then(Value::as_u64)
        .filter(|port| *port <= 65_535)?
    {
        0 => String::new(),
        port => format!(":{port}"),
    };
    let prefix = text(protocol, "prefix").unwrap_or_default().trim_matches('/');
    if prefix.contains(['?', '#']) || prefix.contains(char::is_control) {
        return None;
    }
    let slashes = if scheme.contains("root") { "//" } else { "/" };
    Some(format!("{scheme}://{host}{port}{slashes}{prefix}"))
}

fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte))
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}
