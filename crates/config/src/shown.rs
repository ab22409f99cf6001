//! The configuration in effect, for people who look at it: without secrets.

use crate::section::{Key, KeyPath, Sections};

/// Stands for what is not shown.
const HIDDEN: &str = "…";
/// Names whose values are secret in connection strings and the queries of URLs.
const SECRET_NAMES: [&str; 5] = ["password", "secret", "token", "authz", "passfile"];

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownValue {
    /// It is not set.
    Unset,
    /// As TOML.
    Text(String),
    /// It is set, and names a secret file.
    Hidden,
}

/// A key with its value.
#[derive(Clone)]
pub struct ShownKey {
    /// The key.
    pub key: &'static Key,
    /// Its value.
    pub value: ShownValue,
    /// Whether that is the default.
    pub is_default: bool,
}

/// A section.
#[derive(Clone)]
pub struct ShownSection {
    /// Its name.
    pub name: &'static str,
    /// Its number among those of its name, from 1, if there can be several.
    pub number: Option<usize>,
    /// Its keys, in the order of the manual.
    pub keys: Vec<ShownKey>,
}

/// All sections of a configuration, in the order of the manual.
pub fn shown<C: Sections>(configuration: &C) -> Vec<ShownSection> {
    let mut sections: Vec<ShownSection> = Vec::new();
    for (place, written) in configuration.written() {
        let section = C::SECTIONS.iter().find(|section| section.name == place.section);
        let number = section.filter(|section| section.repeated).map(|_| place.index + 1);
        let key = one(place, written);
        match sections
            .last_mut()
            .filter(|last| last.name == place.section && last.number == number)
        {
            Some(last) => last.keys.push(key),
            None => sections.push(ShownSection {
                name: place.section,
                number,
                keys: vec![key],
            }),
        }
    }
    sections
}

fn one(place: KeyPath, written: Option<String>) -> ShownKey {
    let is_secret = place.key.facts.file.is_some_and(|(purpose, _)| purpose.is_secret());
    let is_default = written == (place.key.default)();
    ShownKey {
        key: place.key,
        value: match written {
            None => ShownValue::Unset,
            Some(_) if is_secret && !is_default => ShownValue::Hidden,
            Some(text) => ShownValue::Text(without_passwords(&text)),
        },
        is_default,
    }
}

/// The text without the passwords of URLs and connection strings.
pub fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, behind) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = behind
            .find(['/', '"', ' ', '?', '#', '\\', ','])
            .unwrap_or(behind.len());
        let (authority, after) = behind.split_at(end);
        // A slash in a password must be escaped; where it is not, the password goes on behind it.
        let token_end = behind.find(['"', ' ', ',']).unwrap_or(behind.len());
        let in_password = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.bytes().all(|byte| byte.is_ascii_digit() || byte == b']'));
        let (user_end, is_hidden) = match (authority.rfind('@'), behind[..token_end].rfind('@')) {
            (Some(at), _) => (at, true),
            (None, Some(at)) if in_password => (at, true),
            _ => (0, false),
        };
        if is_hidden {
            shown.push_str(HIDDEN);
            rest = &behind[user_end..];
        } else {
            shown.push_str(authority);
            rest = after;
        }
    }
    shown.push_str(rest);
    without_values(&shown)
}

/// The text with what follows `password=` and the like hidden.
fn without_values(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('=') {
        let (before, behind) = rest.split_at(at + 1);
        shown.push_str(before);
        rest = behind;
        let name = before.trim_end_matches(['=', ' ']).to_ascii_lowercase();
        if SECRET_NAMES.iter().any(|secret| name.ends_with(secret)) {
            let value = behind.trim_start_matches(' ');
            let (value, end) = match value.strip_prefix('\'') {
                Some(quoted) => (quoted, quoted.find(['\'', '"'])),
                None => (value, value.find(['"', ' ', '&', '\\'])),
            };
            shown.push_str(HIDDEN);
            rest = &value[end.unwrap_or(value.len())..];
        }
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Configuration;

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        let cases = [
            ("\"postgres://q:pw@db/queue\"", "\"postgres://…@db/queue\""),
            (
                "\"postgres://db/queue?password=pw&x=1\"",
                "\"postgres://db/queue?password=…&x=1\"",
            ),
            ("\"host=db password='p w' user=q\"", "\"host=db password=…' user=q\""),
            ("\"postgres://q:p/w@db/queue\"", "\"postgres://…@db/queue\""),
            ("\"https://[::1]:443/a@b\"", "\"https://[::1]:443/a@b\""),
            ("\"host=db Password = pw\"", "\"host=db Password =…\""),
            ("[\"nats://a:b@h:1\", \"nats://c\"]", "[\"nats://…@h:1\", \"nats://c\"]"),
            ("\"/data\"", "\"/data\""),
            ("\"dn:/C=CH/CN=a=b\"", "\"dn:/C=CH/CN=a=b\""),
        ];
        for (text, shown) in cases {
            assert_eq!(without_passwords(text), shown);
        }
    }

    #[test]
    fn all_keys_are_shown_and_no_secret() {
        let text = "[server]\ncertificate = \"c.pem\"\nkey = \"c.key\"\n[queue]\ndatabase = \"postgres://q:pw@db/q\"\n\
            [[export]]\npath = \"/a\"\ndirectory = \"d\"\n[[export]]\npath = \"/b\"\ndirectory = \"e\"\n\
            [macaroons]\nsecret_file = \"hush\"\n";
        let configuration = Configuration::parse(text, Path::new("/etc"), "c").unwrap();
        let sections = shown(&configuration);
        let value = |section: &str, number: Option<usize>, key: &str| {
            let section = sections.iter().find(|one| one.name == section && one.number == number);
            let key = section.unwrap().keys.iter().find(|one| one.key.name == key).unwrap();
            (key.value.clone(), key.is_default)
        };
        let written = |text: &str| ShownValue::Text(text.to_owned());
        assert_eq!(value("server", None, "certificate"), (written("\"/etc/c.pem\""), false));
        assert_eq!(value("server", None, "key"), (ShownValue::Hidden, false));
        assert_eq!(value("macaroons", None, "secret_file"), (ShownValue::Hidden, false));
        assert_eq!(
            value("queue", None, "database"),
            (written("\"postgres://…@db/q\""), false)
        );
        assert_eq!(value("export", Some(2), "path"), (written("\"/b\""), false));
        assert_eq!(value("xroot", None, "enabled"), (written("true"), true));
        assert_eq!(value("server", None, "admin_listen"), (ShownValue::Unset, true));
        let keys: usize = sections.iter().map(|section| section.keys.len()).sum();
        let declared = Configuration::SECTIONS.iter().filter(|section| !section.repeated);
        let declared: usize = declared.map(|section| section.keys.len()).sum();
        let of_exports = sections
            .iter()
            .filter(|one| one.name == "export")
            .map(|one| one.keys.len());
        assert_eq!(keys, declared + of_exports.sum::<usize>());
    }
}
