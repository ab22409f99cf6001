//! `fts3config` and `fts3restconfig`.

use std::net::IpAddr;

use super::{broker, roles, set};
use crate::document::DocumentKind;
use crate::ini::{Entry, is_true};
use crate::migration::Migration;
use crate::source::Source;

/// FTS's audience of tokens for any server.
const ANY_AUDIENCE: &str = "https://wlcg.cern.ch/jwt/v1/any";

/// Lines of all files.
#[derive(Default)]
pub(crate) struct Settings {
    /// Of `fts3config` and `fts3restconfig`.
    pub(crate) entries: Vec<Entry>,
    /// Of the file about messages.
    pub(crate) broker: Vec<Entry>,
}

impl Settings {
    /// The last line with a key, in sections that are not about anything else.
    pub(crate) fn find(&self, key: &str) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.rfind(|entry| is_main(&entry.section) && entry.key == key && !entry.value.is_empty())
    }

    /// The organisations whose members are served; `None`: all.
    pub(crate) fn organisations(&self) -> Option<Vec<String>> {
        let entry = self.find("AuthorizedVO")?;
        let all = entry.value.split(';').map(str::trim).filter(|vo| !vo.is_empty());
        let all: Vec<String> = all.map(str::to_owned).collect();
        (!all.iter().any(|vo| vo == "*")).then_some(all)
    }
}

fn is_main(section: &str) -> bool {
    section.is_empty() || section == "fts3"
}

/// Writes what the files say.
pub(crate) fn write(settings: &Settings, migration: &mut Migration) {
    if settings.entries.is_empty() && settings.broker.is_empty() {
        return;
    }
    server(settings, migration);
    for entry in settings.entries.iter().filter(|entry| is_main(&entry.section)) {
        one(entry, migration);
    }
    roles::write(settings, migration);
    issuers(settings, migration);
    let is_off = settings
        .find("MonitoringMessaging")
        .is_some_and(|entry| !is_true(&entry.value));
    broker::write(&settings.broker, is_off, migration);
    for entry in &settings.entries {
        let is_known = is_main(&entry.section) || ["roles", "providers"].contains(&entry.section.as_str());
        if !is_known {
            migration.not_needed(&entry.source, format!("[{}] is about FTS's own program", entry.section));
        }
    }
}

/// What FTS has in the settings of its web server.
fn server(settings: &Settings, migration: &mut Migration) {
    let usual = Source::of_file("FTS's usual files");
    for (place, file) in [
        ("server.certificate", "/etc/grid-security/hostcert.pem"),
        ("server.key", "/etc/grid-security/hostkey.pem"),
        ("x509.trust_directory", "/etc/grid-security/certificates"),
        ("x509.voms_directory", "/etc/grid-security/vomsdir"),
        ("queue.state_directory", "/var/lib/crossload/queue"),
    ] {
        set(migration, place, file, &usual);
    }
    match (settings.organisations(), settings.find("AuthorizedVO")) {
        (Some(organisations), Some(entry)) => {
            migration.push(DocumentKind::Queue, "queue.listen", "127.0.0.1:8446", &entry.source);
            let words = format!(
                "the queue serves everyone whose certificate or token it can verify, and not only {}; so it listens \
                 on loopback",
                organisations.join(", ")
            );
            let advice = "Set [queue] listen = [\"[::]:8446\"] if that is acceptable; users see their own jobs only";
            migration.in_part(&entry.source, words, advice);
        }
        _ => {
            migration.push(DocumentKind::Queue, "queue.listen", "[::]:8446", &usual);
        }
    }
    if let Some(entry) = settings.find("Alias").filter(|entry| is_host(&entry.value)) {
        set(
            migration,
            "server.name",
            format!("https://{}:8446", entry.value),
            &entry.source,
        );
    }
}

fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    text.bytes().all(is_plain) && text.contains('.') && text.parse::<IpAddr>().is_err()
}

/// A setting. Those that decide nothing here get a remark.
fn one(entry: &Entry, migration: &mut Migration) {
    let (key, source) = (entry.key.as_str(), &entry.source);
    match key {
        "MaxUrlCopyProcesses" => number(entry, "queue.copies", migration),
        "OptimizerMaxStreams" => number(entry, "limits.streams", migration),
        "CleanInterval" => match entry.value.parse::<u32>() {
            Ok(days) if days > 0 => {
                set(migration, "queue.history", format!("{days}d"), source);
                migration.taken(source, "queue.history");
            }
            _ => migration.in_part(source, "the number of days cannot be read", "Set [queue] history"),
        },
        "Alias" if is_host(&entry.value) => migration.taken(source, "server.name"),
        "Alias" => migration.in_part(source, "the alias is no host name", "Set [server] name"),
        "AuthorizedVO" if !entry.value.contains('*') => {}
        "AuthorizedVO" => migration.taken(source, "everyone who can be verified is served"),
        "AuthorizedAudiences" => {
            for audience in entry.value.split(';').map(str::trim) {
                if !audience.is_empty() && audience != ANY_AUDIENCE {
                    migration.push(DocumentKind::Queue, "tokens.audiences", audience, source);
                }
            }
            migration.taken(
                source,
                "tokens.audiences; that of WLCG's profile for any server is always accepted",
            );
        }
        "DbType" | "DbConnectString" | "DbUserName" | "DbPassword" => {
            let words = "the queue has a database of its own, and FTS's jobs end where they are";
            let advice = "Nothing to do for SQLite; for PostgreSQL set [queue] database (docs/queue.md)";
            migration.no_equivalent(source, words, advice);
        }
        "SiteName" => migration.no_equivalent(source, "messages carry no name of the queue's site", "Nothing to do"),
        "MonitoringMessaging" => migration.taken(source, "[messages]"),
        "MonitoringPublishDN" => {
            let words = "whether messages name users is set for each virtual organisation";
            migration.no_equivalent(source, words, "POST /config/global with show_user_dn (docs/queue.md)");
        }
        "UseFixedJobPriority"
        | "CancelUnusedMultihopFiles"
        | "AllowJobPriority"
        | "NonManagedTokens"
        | "AllowNonManagedTokens"
        | "AllowedOAuth2IssuerURLs" => {
            migration.no_equivalent(
                source,
                "the queue has no such setting",
                "See docs/queue.md for what it does",
            );
        }
        _ => own(key, source, migration),
    }
}

/// Settings about FTS's processes and their intervals.
fn own(key: &str, source: &Source, migration: &mut Migration) {
    let beginnings = [
        "Optimizer",
        "Staging",
        "ArchivePoll",
        "FetchStaging",
        "FetchArchiving",
        "Token",
        "Messaging",
        "Log",
        "Db",
        "Clean",
        "HeartBeat",
        "Scheduling",
        "Cancel",
        "Check",
        "Purge",
        "MultihopSanity",
        "QueueTimeout",
        "ActiveTimeout",
        "ForceStart",
        "Supervisor",
        "AutoSessionReuse",
        "AllowSessionReuse",
        "UrlCopyProcess",
        "Default",
        "BringOnline",
        "JobMetadata",
        "FileMetadata",
        "ArchiveMetadata",
        "OverwriteHop",
        "Experimental",
        "JWK",
        "ValidateAccessToken",
        "Info",
        "Port",
        "IP",
        "User",
        "Group",
        "Pid",
        "TransferLog",
        "ServerLog",
        "Profiling",
        "InternalThreadPool",
        "MinRequiredFreeRAM",
        "BackupTables",
        "OAuth2",
        "SigKill",
        "Monitoring",
    ];
    match beginnings.iter().any(|beginning| key.starts_with(beginning)) {
        true => migration.not_needed(source, "it is about FTS's own processes; the queue is one"),
        false => migration.unknown(
            source,
            "this setting is not known",
            "Look for it in FTS's documentation",
        ),
    }
}

fn number(entry: &Entry, place: &str, migration: &mut Migration) {
    match entry.value.parse::<u32>() {
        Ok(0) => migration.not_needed(&entry.source, "0 means no limit, and ours has a default"),
        Ok(number) => {
            set(migration, place, i64::from(number), &entry.source);
            migration.taken(&entry.source, place);
        }
        Err(_) => migration.in_part(
            &entry.source,
            "the number cannot be read",
            format!("Set {place} by hand"),
        ),
    }
}

/// Issuers of tokens: `[providers]`. Names and secrets of the queue go into a file of their own.
fn issuers(settings: &Settings, migration: &mut Migration) {
    let section = || settings.entries.iter().filter(|entry| entry.section == "providers");
    let mut known: Vec<String> = Vec::new();
    for entry in section() {
        let (name, part) = match entry.key.split_once('_') {
            Some((name, part)) => (name, Some(part)),
            None => (entry.key.as_str(), None),
        };
        match part {
            None => {
                // FTS adds the slash before it compares.
                let url = format!("{}/", entry.value.trim_end_matches('/'));
                if !url.starts_with("https://") || url.contains(['?', '#', ' ']) || known.contains(&url) {
                    let words = "an issuer needs an https URL of its own";
                    migration.no_equivalent(&entry.source, words, "Write an [[issuer]] by hand");
                    continue;
                }
                let vo = section().find(|other| other.key == format!("{name}_VO") && !other.value.contains('/'));
                let issuer = migration.document(DocumentKind::Queue).add("issuer");
                issuer.note =
                    Some("Exactly as \"iss\" in its tokens: with or without the slash at its end.".to_owned());
                issuer.set("url", url.as_str(), &entry.source);
                if let Some(vo) = vo.filter(|vo| !vo.value.is_empty()) {
                    issuer.set("vo", vo.value.as_str(), &vo.source);
                }
                known.push(url);
                migration.taken(&entry.source, "[[issuer]]");
            }
            Some("ClientId" | "ClientSecret") => {
                let file = "/etc/crossload/token-clients";
                migration
                    .set(DocumentKind::Queue, "queue.token_clients_file", file, &entry.source)
                    .note = Some(
                    "A line for each issuer: ISSUER NAME SECRET; only the server's account may read it.".to_owned(),
                );
                let words = format!("{} and its secret belong into {file}", entry.key);
                migration.in_part(&entry.source, words, "Copy them from FTS's file, and chmod 600");
            }
            Some("VO") => migration.taken(&entry.source, "[[issuer]] vo"),
            Some(_) => {
                let words = "the queue finds everything else by the issuer's own documents";
                migration.not_needed(&entry.source, words);
            }
        }
    }
}
