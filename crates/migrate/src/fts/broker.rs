//! Messages: `fts-msg-monitoring.conf`, later `fts-activemq.conf`.

use super::set;
use crate::document::DocumentKind;
use crate::ini::{Entry, is_true};
use crate::migration::Migration;
use crate::source::Source;

/// FTS's names of what it sends to, by their keys.
const TOPICS: &[(&str, &str)] = &[
    ("START", "transfer.fts_monitoring_start"),
    ("COMPLETE", "transfer.fts_monitoring_complete"),
    ("STATE", "transfer.fts_monitoring_state"),
    ("OPTIMIZER", "transfer.fts_monitoring_queue_state"),
];

/// Where the administrator puts the password.
const PASSWORD_FILE: &str = "/etc/crossload/broker";

/// Writes the broker. `is_off`: the server sends no messages.
pub(crate) fn write(entries: &[Entry], is_off: bool, migration: &mut Migration) {
    if entries.is_empty() {
        return;
    }
    let find = |key: &str| {
        entries
            .iter()
            .rfind(|entry| entry.key == key && !entry.value.is_empty())
    };
    let is_on = |key: &str| find(key).is_some_and(|entry| is_true(&entry.value));
    if is_off || find("ACTIVE").is_some_and(|entry| !is_true(&entry.value)) {
        for entry in entries {
            migration.not_needed(&entry.source, "FTS sends no messages");
        }
        return;
    }
    let has_tls = is_on("SSL");
    if let Some((address, source)) = address(entries, has_tls) {
        let scheme = if has_tls { "stomp+ssl" } else { "stomp" };
        migration.push(
            DocumentKind::Queue,
            "messages.brokers",
            format!("{scheme}://{address}"),
            &source,
        );
        destinations(entries, migration);
        credentials(entries, has_tls, migration);
    }
    remarks(entries, migration);
}

/// `host:port` of the broker.
fn address(entries: &[Entry], has_tls: bool) -> Option<(String, Source)> {
    let find = |key: &str| {
        entries
            .iter()
            .rfind(|entry| entry.key == key && !entry.value.is_empty())
    };
    let is_plain = |text: &str| {
        let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        text.bytes().all(is_one) && text.contains('.')
    };
    if let Some(broker) = find("BROKER").filter(|entry| is_plain(&entry.value)) {
        let address = match broker.value.contains(':') {
            true => broker.value.clone(),
            false => format!("{}:61613", broker.value),
        };
        return Some((address, broker.source.clone()));
    }
    let alias = find("BROKER_DNS_ALIAS").filter(|entry| is_plain(&entry.value))?;
    let (key, usual) = if has_tls {
        ("SSL_PORT", 61616)
    } else {
        ("STOMP_PORT", 61613)
    };
    let port = find(key)
        .and_then(|entry| entry.value.parse::<u16>().ok())
        .unwrap_or(usual);
    Some((format!("{}:{port}", alias.value), alias.source.clone()))
}

/// Names with a common beginning are a prefix here; others cannot be chosen.
fn destinations(entries: &[Entry], migration: &mut Migration) {
    let find = |key: &str| {
        entries
            .iter()
            .rfind(|entry| entry.key == key && !entry.value.is_empty())
    };
    let queues = find("TOPIC").filter(|entry| !is_true(&entry.value));
    let kind = if queues.is_some() { "/queue/" } else { "/topic/" };
    let mut beginning: Option<(String, Source)> = None;
    for (key, usual) in TOPICS {
        let Some(entry) = find(key) else { continue };
        let found = entry.value.strip_suffix(usual).map(str::to_owned);
        let is_common = beginning
            .as_ref()
            .is_none_or(|(known, _)| Some(known) == found.as_ref());
        match found.filter(|_| is_common) {
            Some(found) => beginning = Some((found, entry.source.clone())),
            None => {
                let words = format!("messages go to {usual} here, below the same prefix as the others");
                migration.in_part(&entry.source, words, "Let receivers subscribe to that name");
            }
        }
    }
    let (beginning, source) = match (beginning, queues) {
        (Some((beginning, source)), _) => (beginning, source),
        (None, Some(queues)) => (String::new(), queues.source.clone()),
        (None, None) => return,
    };
    if kind != "/topic/" || !beginning.is_empty() {
        let source = queues.map_or(source, |entry| entry.source.clone());
        set(
            migration,
            "messages.broker_prefix",
            format!("{kind}{beginning}"),
            &source,
        );
    }
}

fn credentials(entries: &[Entry], has_tls: bool, migration: &mut Migration) {
    let find = |key: &str| {
        entries
            .iter()
            .rfind(|entry| entry.key == key && !entry.value.is_empty())
    };
    let is_on = |key: &str| find(key).is_some_and(|entry| is_true(&entry.value));
    if let Some(user) = find("USERNAME").filter(|_| is_on("USE_BROKER_CREDENTIALS")) {
        let entry = migration.set(
            DocumentKind::Queue,
            "messages.broker_password_file",
            PASSWORD_FILE,
            &user.source,
        );
        entry.note = Some("One line, user:password; only the server's account may read it.".to_owned());
        let words = format!("user and password belong into {PASSWORD_FILE}");
        migration.in_part(&user.source, words, "Copy them from FTS's file, and chmod 600");
    }
    if !has_tls {
        return;
    }
    if let Some(authority) = find("SSL_ROOT_CA") {
        migration.push(
            DocumentKind::Queue,
            "trust.ca_files",
            authority.value.as_str(),
            &authority.source,
        );
    }
    if let Some(keys) = find("SSL_CLIENT_KEYSTORE") {
        set(
            migration,
            "messages.broker_certificate",
            keys.value.as_str(),
            &keys.source,
        );
        set(migration, "messages.broker_key", keys.value.as_str(), &keys.source);
    }
    if let Some(entry) = find("SSL_VERIFY").filter(|entry| !is_true(&entry.value)) {
        let words = "certificates of brokers are always verified";
        migration.in_part(&entry.source, words, "Name the broker's authority in [trust] ca_files");
    }
}

fn remarks(entries: &[Entry], migration: &mut Migration) {
    for entry in entries {
        let source = &entry.source;
        if migration.remarks.iter().any(|remark| remark.source == *source) {
            continue;
        }
        match entry.key.as_str() {
            "BROKER" | "BROKER_DNS_ALIAS" if !entry.value.contains('.') => {
                migration.in_part(source, "this is no host of a broker", "Set [messages] brokers");
            }
            "ACTIVE"
            | "BROKER"
            | "BROKER_DNS_ALIAS"
            | "STOMP_PORT"
            | "SSL_PORT"
            | "SSL"
            | "TOPIC"
            | "START"
            | "COMPLETE"
            | "STATE"
            | "OPTIMIZER"
            | "USE_BROKER_CREDENTIALS"
            | "SSL_ROOT_CA"
            | "SSL_CLIENT_KEYSTORE"
            | "SSL_VERIFY"
            | "USERNAME" => migration.taken(source, "[messages]"),
            "PASSWORD" => migration.taken(source, format!("the password belongs into {PASSWORD_FILE}")),
            "SSL_CLIENT_KEYSTORE_PASSWORD" => {
                let words = "keys with a password cannot be used";
                migration.no_equivalent(source, words, "Write the key without one: openssl rsa");
            }
            "TTL" => migration.not_needed(
                source,
                "messages for a broker that is away are kept for a day, as by FTS",
            ),
            _ => migration.not_needed(source, "it is about FTS's own process for messages"),
        }
    }
}
