//! Settings in FTS's database, as its routes give them: of storages (`/config/se`), links, shares,
//! organisations and bans. What our configuration has no key for becomes commands.

use serde_json::{Map, Value};

use super::set;
use crate::document::DocumentKind;
use crate::migration::{Migration, TextFile};
use crate::source::Source;

/// Most commands of all files.
const COMMANDS_MAX: usize = 10_000;
/// The name of the file with commands.
const COMMANDS_FILE: &str = "queue-settings.sh";
/// What FTS calls each of our parts in third-party copies.
const ROLES: &[(&str, &str)] = &[("FULL", "full"), ("PULL", "pull"), ("PUSH", "push"), ("NONE", "none")];

/// Writes the commands, if there are any.
pub(crate) fn write(commands: Vec<String>, migration: &mut Migration) {
    if commands.is_empty() {
        return;
    }
    let mut text = "#!/bin/sh\n# Made by \"crossload migrate\": settings that the queue keeps in its database.\n\
        # Run it as an operator, once the queue runs.\nset -eu\n: \"${CROSSLOAD_QUEUE:?set it to the URL of the queue}\"\n"
        .to_owned();
    for command in commands {
        text.push_str(&command);
        text.push('\n');
    }
    migration.texts.push(TextFile {
        name: COMMANDS_FILE.to_owned(),
        text,
    });
}

/// What a file has.
struct Reader<'a> {
    file: &'a str,
    commands: &'a mut Vec<String>,
    migration: &'a mut Migration,
}

/// Reads an answer of a route.
pub(crate) fn read(file: &str, text: &str, commands: &mut Vec<String>, migration: &mut Migration) {
    let mut reader = Reader {
        file,
        commands,
        migration,
    };
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => reader.object(&object),
        Ok(Value::Array(items)) => {
            for item in &items {
                match item {
                    Value::Object(item) => reader.item(item),
                    _ => reader.unknown("an item"),
                }
            }
        }
        Ok(_) => reader.unknown("the document"),
        Err(error) => {
            let source = Source::new(file, error.line(), "");
            let words = "this is no JSON, so nothing in it was read";
            migration.in_part(&source, words, "Get it again: curl …/config/se");
        }
    }
}

impl Reader<'_> {
    /// A document with a member for each storage or organisation.
    fn object(&mut self, object: &Map<String, Value>) {
        for (name, value) in object {
            let Value::Object(members) = value else {
                self.unknown(name);
                continue;
            };
            if members.contains_key("se_info") || members.contains_key("operations") {
                self.storage(name, members);
            } else if members.contains_key("share") || members.contains_key("active") {
                self.activities(name, members);
            } else {
                self.organisation(name, members);
            }
        }
    }

    /// An item of a list: a link, a share, a ban or a right.
    fn item(&mut self, item: &Map<String, Value>) {
        if item.contains_key("max_active") || item.contains_key("symbolicname") {
            self.link(item);
        } else if item.contains_key("share") {
            self.share(item);
        } else if item.contains_key("se") {
            self.banned_storage(item);
        } else if item.contains_key("operation") {
            let source = self.source("a right of a user");
            let words = "rights of single users are in the queue's database";
            self.migration
                .no_equivalent(&source, words, "POST /config/authorize (docs/queue.md)");
        } else if item.contains_key("dn") {
            self.banned_user(item);
        } else {
            self.unknown("an item");
        }
    }

    fn storage(&mut self, name: &str, members: &Map<String, Value>) {
        let source = self.source(&format!("storage {name}"));
        let empty = Map::new();
        let info = members.get("se_info").and_then(Value::as_object).unwrap_or(&empty);
        if !is_storage(name) {
            let words = "the queue copies over HTTP and the XRootD protocol only";
            return self
                .migration
                .no_equivalent(&source, words, "Use davs or root URLs of this storage");
        }
        let role = text(info, "tpc_support").and_then(|role| ROLES.iter().find(|(fts, _)| *fts == role));
        if let Some((_, role)) = role.filter(|(_, role)| *role != "full") {
            let mut table = toml::Table::new();
            table.insert("name".to_owned(), name.to_ascii_lowercase().into());
            table.insert("third_party".to_owned(), (*role).into());
            let entry = self.migration.document(DocumentKind::Queue).section("queue");
            entry.push("storages", toml::Value::Table(table), &source);
        }
        let count = |key: &str| whole(info, key);
        let (inbound, outbound) = (count("inbound_max_active"), count("outbound_max_active"));
        let mut options = String::new();
        match (name, inbound.into_iter().chain(outbound).min()) {
            ("*", Some(fewest)) => set(self.migration, "queue.storage_copies", fewest, &source),
            _ => {
                for (option, count) in [("inbound", inbound), ("outbound", outbound)] {
                    options.extend(count.map(|count| format!(" --{option} {count}")));
                }
            }
        }
        for (option, key) in [
            ("inbound-rate", "inbound_max_throughput"),
            ("outbound-rate", "outbound_max_throughput"),
        ] {
            let rate = info
                .get(key)
                .and_then(Value::as_f64)
                .filter(|rate| *rate >= 1.0 && *rate < 1e9);
            options.extend(rate.map(|rate| format!(" --{option} {}MiB", rate.floor())));
        }
        if !options.is_empty() {
            self.command(format!("crossload queue limits {}{options}", quoted(name)), &source);
        }
        let others = ["site", "skip_eviction", "overwrite_disk_enabled"];
        let has_others = others.iter().any(|key| info.get(*key).is_some_and(says_something));
        match has_others || members.contains_key("operations") {
            true => {
                let words = "limits and its part in copies; other settings are set by the same route here";
                self.migration
                    .in_part(&source, words, "POST them to /config/se of the queue (docs/queue.md)");
            }
            false => self.migration.taken(&source, format!("[queue] and {COMMANDS_FILE}")),
        }
    }

    fn link(&mut self, item: &Map<String, Value>) {
        let (from, to) = (
            text(item, "source").unwrap_or("*"),
            text(item, "destination").unwrap_or("*"),
        );
        let source = self.source(&format!("link {from} {to}"));
        if !is_storage(from) || !is_storage(to) {
            let words = "the queue copies over HTTP and the XRootD protocol only";
            return self
                .migration
                .no_equivalent(&source, words, "Use davs or root URLs of these storages");
        }
        let (fewest, most) = (whole(item, "min_active"), whole(item, "max_active"));
        if (from, to) == ("*", "*") {
            if let Some(most) = most {
                set(self.migration, "queue.link_copies", most, &source);
                let fewest = fewest.unwrap_or(2).min(most);
                set(self.migration, "queue.link_copies_minimum", fewest, &source);
            }
        } else {
            let mut options = String::new();
            for (option, count) in [("max", most), ("min", fewest)] {
                options.extend(count.map(|count| format!(" --{option} {count}")));
            }
            if !options.is_empty() {
                self.command(
                    format!("crossload queue limits {} {}{options}", quoted(from), quoted(to)),
                    &source,
                );
            }
        }
        let others = ["nostreams", "no_delegation", "optimizer_mode", "tcp_buffer_size"];
        match others.iter().any(|key| item.get(*key).is_some_and(says_something)) {
            true => {
                let words = "its limits; other settings are set by the same route here";
                self.migration.in_part(
                    &source,
                    words,
                    "POST them to /config/links of the queue (docs/queue.md)",
                );
            }
            false => self.migration.taken(&source, format!("[queue] or {COMMANDS_FILE}")),
        }
    }

    /// The share of an organisation on a link.
    fn share(&mut self, item: &Map<String, Value>) {
        let (from, to) = (
            text(item, "source").unwrap_or("*"),
            text(item, "destination").unwrap_or("*"),
        );
        let (vo, share) = (text(item, "vo").unwrap_or_default(), whole(item, "share"));
        let source = self.source(&format!("share of {vo} on {from} {to}"));
        match share.filter(|_| is_name(vo) && is_storage(from) && is_storage(to)) {
            Some(share) => {
                let (from, to) = (quoted(from), quoted(to));
                let command = format!(
                    "crossload queue shares --link {from} {to} --share {}",
                    quoted(&format!("{vo}={share}"))
                );
                self.command(command, &source);
                self.migration.taken(&source, COMMANDS_FILE);
            }
            None => self.migration.in_part(
                &source,
                "this share is not understood",
                "Set it by crossload queue shares",
            ),
        }
    }

    /// Shares of the activities of an organisation.
    fn activities(&mut self, vo: &str, members: &Map<String, Value>) {
        let source = self.source(&format!("shares of activities of {vo}"));
        if members.get("active").is_some_and(|active| !says_something(active)) {
            return self.migration.not_needed(&source, "they are not active there");
        }
        let mut weights: Vec<(String, f64)> = Vec::new();
        let list: Vec<&Map<String, Value>> = match members.get("share") {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_object).collect(),
            Some(Value::Object(one)) => vec![one],
            _ => Vec::new(),
        };
        for (activity, weight) in list.into_iter().flatten() {
            if let Some(weight) = weight.as_f64().filter(|weight| *weight >= 0.0 && weight.is_finite()) {
                weights.push((activity.clone(), weight));
            }
        }
        let is_plain = is_name(vo) && weights.iter().all(|(activity, _)| is_name(activity));
        if weights.is_empty() || !is_plain {
            let words = "these shares are not understood";
            return self
                .migration
                .in_part(&source, words, "Set them by crossload queue shares");
        }
        let words: Vec<String> = weights
            .iter()
            .map(|(activity, weight)| quoted(&format!("{activity}={weight}")))
            .collect();
        self.command(
            format!("crossload queue shares {} {}", quoted(vo), words.join(" ")),
            &source,
        );
        self.migration.taken(&source, COMMANDS_FILE);
    }

    /// Settings of an organisation, or of all (`*`).
    fn organisation(&mut self, vo: &str, members: &Map<String, Value>) {
        let source = self.source(&format!("settings of {vo}"));
        let retries = whole(members, "retry").filter(|_| vo == "*");
        if let Some(retries) = retries {
            set(self.migration, "queue.retries", retries, &source);
        }
        let others = [
            "max_time_queue",
            "global_timeout",
            "sec_per_mb",
            "no_streaming",
            "show_user_dn",
            "retry",
        ];
        let is_open = others.iter().any(|key| {
            let is_known = *key == "retry" && retries.is_some();
            !is_known && members.get(*key).is_some_and(says_something)
        });
        match is_open {
            true => {
                let words = "settings of an organisation are in the queue's database, with the same names";
                self.migration.in_part(
                    &source,
                    words,
                    "POST them to /config/global of the queue (docs/queue.md)",
                );
            }
            false => self.migration.taken(&source, "[queue]"),
        }
    }

    fn banned_storage(&mut self, item: &Map<String, Value>) {
        let name = text(item, "se").unwrap_or_default();
        let source = self.source(&format!("ban of {name}"));
        let waits = text(item, "status").is_some_and(|status| status.starts_with("WAIT"));
        let status = if waits { "wait" } else { "cancel" };
        let vo = text(item, "vo").filter(|vo| *vo != "*");
        if !is_storage(name) || !vo.is_none_or(is_name) {
            let words = "a ban of a storage that the queue does not copy from or to";
            return self.migration.not_needed(&source, words);
        }
        let vo = vo.map(|vo| format!(" --vo {}", quoted(vo))).unwrap_or_default();
        self.command(
            format!("crossload queue ban --status {status}{vo} {}", quoted(name)),
            &source,
        );
        self.migration.taken(&source, COMMANDS_FILE);
    }

    fn banned_user(&mut self, item: &Map<String, Value>) {
        let name = text(item, "dn").unwrap_or_default();
        let source = self.source(&format!("ban of {name}"));
        if !name.starts_with('/') || name.contains(char::is_control) {
            let words = "the ban of a user of tokens needs the issuer, too";
            return self
                .migration
                .no_equivalent(&source, words, "crossload queue ban --user SUBJECT@ISSUER");
        }
        self.command(format!("crossload queue ban --user {}", quoted(name)), &source);
        self.migration.taken(&source, COMMANDS_FILE);
    }

    fn command(&mut self, command: String, source: &Source) {
        match self.commands.len() < COMMANDS_MAX {
            true => self.commands.push(command),
            false => self
                .migration
                .in_part(source, "too many settings for one file of commands", "Give fewer files"),
        }
    }

    fn unknown(&mut self, what: &str) {
        let source = self.source(what);
        let words = "this is no answer of a route that is known";
        self.migration.unknown(
            &source,
            words,
            "Give those of /config/se, links, shares, activity_shares, global, /ban/se, /ban/dn",
        );
    }

    fn source(&self, text: &str) -> Source {
        Source::new(self.file, 0, text)
    }
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// A number above 0, which means nothing in FTS; a text may be one.
fn whole(object: &Map<String, Value>, key: &str) -> Option<i64> {
    let value = object.get(key)?;
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
    number.filter(|number| (1..=i64::from(u32::MAX)).contains(number))
}

/// Whether a setting is not the same as none.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_on) => *is_on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !["", "0", "off", "false"].contains(&text.as_str()),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Whether a name is one of a storage that the queue can use.
fn is_storage(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_known = scheme.is_some_and(|scheme| {
        ["davs", "dav", "https", "http", "root", "roots", "xroot", "s3", "s3s"].contains(&scheme.as_str())
    });
    name == "*" || is_known && !name.contains(|character: char| character.is_control() || character.is_whitespace())
}

/// Whether a text can be the name of an organisation or activity in a command.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.contains(|one: char| one.is_control() || one == '=')
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell_are_one_word() {
        assert_eq!(quoted("a'; rm -rf /"), "'a'\\''; rm -rf /'");
        for bad in ["", "-x", "a=b", "a\nb"] {
            assert!(!is_name(bad), "{bad:?}");
        }
        for (name, is_one) in [
            ("*", true),
            ("davs://a", true),
            ("gsiftp://a", false),
            ("davs://a b", false),
            ("a", false),
        ] {
            assert_eq!(is_storage(name), is_one, "{name}");
        }
    }

    #[test]
    fn zero_says_nothing() {
        let object: Value = serde_json::from_str(r#"{"a": 0, "b": "7", "c": -1, "d": 9, "e": "x"}"#).unwrap();
        let found: Vec<_> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|key| whole(object.as_object().unwrap(), key))
            .collect();
        assert_eq!(found, [None, Some(7), None, Some(9), None]);
    }
}
