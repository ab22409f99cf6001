//! Checks what serving clients needs: the authorities of their certificates, the local users that
//! mappings name, and the directory of delegated credentials.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use config::{Configuration, Switch};
use credentials::x509::{GridMap, Revocation, VomsMap};
use endpoint::{UserSettings, Users};
use types::ErrorCode;

use super::finding::{Finding, Position};
use super::lines::Lines;
use super::trust::Authorities;

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// Most users to look up, to spare the directory service.
const USERS_MAX: usize = 200;

/// Checks them; local users only if this process could act as them.
pub(crate) fn check(configuration: &Configuration, lines: &Lines, now_s: i64) -> Vec<Finding> {
    let mut findings = authorities(configuration, lines, now_s);
    findings.extend(voms(configuration, lines));
    findings.extend(delegations(configuration, lines));
    if configuration.users.switch != Switch::Never && Users::can_switch() {
        findings.extend(users(configuration, lines));
    }
    findings
}

/// The authorities of clients. Faults are worse here than with those for peers.
fn authorities(configuration: &Configuration, lines: &Lines, now_s: i64) -> Vec<Finding> {
    let x509 = &configuration.x509;
    let Some(directory) = &x509.trust_directory else {
        return Vec::new();
    };
    let found = Authorities::read(&[], std::slice::from_ref(directory), false, now_s);
    let demanded = match x509.revocation {
        Revocation::Off => None,
        Revocation::IfPresent => Some(false),
        Revocation::Required => Some(true),
    };
    found.check_of_clients(&lines.of("x509", "trust_directory"), demanded)
}

/// A VOMS directory without any server gives no membership.
fn voms(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let directory = configuration.x509.voms_directory.as_deref()?;
    // An unreadable directory is reported elsewhere.
    let organisations = std::fs::read_dir(directory).ok()?;
    let names_server = |file: &Path| matches!(file.extension().and_then(OsStr::to_str), Some("lsc" | "pem"));
    let mut files = organisations
        .filter_map(Result::ok)
        .filter_map(|organisation| std::fs::read_dir(organisation.path()).ok())
        .flatten()
        .filter_map(Result::ok);
    if files.any(|file| names_server(&file.path())) {
        return None;
    }
    let says = format!(
        "{} has no .lsc file in the directory of any virtual organisation: VOMS attributes are ignored",
        directory.display()
    );
    let finding = Finding::warning("voms_directory_empty", says).at(lines.of("x509", "voms_directory"));
    Some(finding.change("install the .lsc files of the virtual organisations, as VO/HOST.lsc"))
}

/// The server does not start if others can access delegated credentials.
fn delegations(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let directory = configuration.delegation.directory.as_deref()?;
    let shown = directory.display();
    let position = lines.of("delegation", "directory");
    let Ok(facts) = std::fs::metadata(directory) else {
        let says = format!("{shown} will be made when the server starts");
        return Some(Finding::note("delegations_not_made_yet", says).at(position));
    };
    let mode = facts.mode() & 0o7777;
    if !facts.is_dir() {
        let says = format!("{shown}, for delegated credentials, is not a directory");
        let finding = Finding::error("delegations_unusable", says).at(position);
        return Some(finding.change("name a separate directory"));
    }
    if mode & OTHERS != 0 {
        let says = format!(
            "others can access the delegated credentials in {shown} (mode {mode:o}): the server does not start"
        );
        let finding = Finding::error("delegations_open_to_others", says).at(position);
        return Some(finding.change(format!("chmod 700 {shown}")));
    }
    Some(Finding::ok("delegations", format!("only its owner can access {shown}")))
}

/// Local users that the server cannot act as. Clients that are mapped to one are refused
/// everything.
fn users(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let named = named_users(configuration, lines);
    let settings = UserSettings {
        minimum_uid: configuration.users.minimum_uid,
        default_user: None,
        all_groups: false,
    };
    let users = Users::new(settings);
    let Ok(runtime) = execution::single_thread_runtime() else {
        return Vec::new();
    };
    let count = named.len().min(USERS_MAX);
    let mut findings: Vec<Finding> = Vec::new();
    for (name, position) in named.into_iter().take(USERS_MAX) {
        let Err(error) = runtime.block_on(users.find(Some(&name))) else {
            continue;
        };
        let says = format!("the server cannot act as the local user {name}: {}", error.public());
        let finding = match error.code() {
            ErrorCode::UserUnknown => Finding::error("user_unknown", says).change("add the user, or name another one"),
            ErrorCode::UserRefused => {
                Finding::error("user_refused", says).change("name another user, or lower users.minimum_uid")
            }
            _ => Finding::warning("users_unavailable", says).change("check the name service (nsswitch.conf)"),
        };
        findings.push(finding.at(position));
    }
    if findings.is_empty() && count > 0 {
        findings.push(Finding::ok(
            "users",
            format!("the server can act as all {count} local users in the configuration"),
        ));
    }
    findings
}

/// All local users in the configuration and its mappings, each with the first key that names it.
fn named_users(configuration: &Configuration, lines: &Lines) -> BTreeMap<String, Position> {
    let mut named: BTreeMap<String, Position> = BTreeMap::new();
    let mut add = |name: &str, position: Position| {
        named.entry(name.to_owned()).or_insert(position);
    };
    if let Some(name) = &configuration.users.default_user {
        add(name, lines.of("users", "default_user"));
    }
    for (index, rule) in configuration.rules.iter().enumerate() {
        if let Some(name) = &rule.user {
            add(name, lines.of_item("rule", index, "user"));
        }
    }
    for (index, issuer) in configuration.issuers.iter().enumerate() {
        if let Some(name) = &issuer.default_user {
            add(name, lines.of_item("issuer", index, "default_user"));
        }
    }
    // An unreadable file is reported elsewhere.
    let text = |file: Option<&Path>| {
        file.and_then(|file| std::fs::read_to_string(file).ok())
            .unwrap_or_default()
    };
    for name in GridMap::parse(&text(configuration.x509.grid_map_file.as_deref()))
        .0
        .users()
    {
        add(name, lines.of("x509", "grid_map_file"));
    }
    for name in VomsMap::parse(&text(configuration.x509.voms_map_file.as_deref()))
        .0
        .users()
    {
        add(name, lines.of("x509", "voms_map_file"));
    }
    named
}
