//! What is needed for clients to be known and acted for: the authorities of their certificates, the local users that
//! mappings name, and the directory of what they delegate.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use config::{Configuration, Switch};
use credentials::x509::{GridMap, Revocation, VomsMap};
use endpoint::{UserSettings, Users};
use types::ErrorCode;

use super::finding::{Finding, Spot};
use super::lines::Lines;
use super::trust::Authorities;

/// Permissions for others than the owner.
const OTHERS: u32 = 0o077;
/// Users that are looked up; a directory service is not to be asked for all its people.
const USERS_MAX: usize = 200;

/// Examines them; local users only where this process could act as them.
pub(crate) fn check(configuration: &Configuration, lines: &Lines, now_s: i64) -> Vec<Finding> {
    let mut findings = authorities(configuration, lines, now_s);
    findings.extend(voms(configuration, lines));
    findings.extend(delegations(configuration, lines));
    if configuration.users.switch != Switch::Never && Users::can_switch() {
        findings.extend(users(configuration, lines));
    }
    findings
}

/// The authorities whose users are let in: more is at stake than with those of other servers.
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

/// A directory that names no server of any virtual organisation makes nobody a member.
fn voms(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let directory = configuration.x509.voms_directory.as_deref()?;
    // One that cannot be read is a finding of its own.
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
        "{} has no .lsc file in the directory of any virtual organisation: no VOMS attribute is believed",
        directory.display()
    );
    let finding = Finding::warning("voms_directory_empty", says).at(lines.of("x509", "voms_directory"));
    Some(finding.change("install the .lsc files of the virtual organisations, as VO/HOST.lsc"))
}

/// The server does not start where others may look at what was delegated.
fn delegations(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let directory = configuration.delegation.directory.as_deref()?;
    let shown = directory.display();
    let spot = lines.of("delegation", "directory");
    let Ok(facts) = std::fs::metadata(directory) else {
        let says = format!("{shown} will be made when the server starts");
        return Some(Finding::note("delegations_not_made_yet", says).at(spot));
    };
    let mode = facts.mode() & 0o7777;
    if !facts.is_dir() {
        let says = format!("{shown}, where delegated credentials are to be kept, is no directory");
        let finding = Finding::error("delegations_unusable", says).at(spot);
        return Some(finding.change("name a directory of its own"));
    }
    if mode & OTHERS != 0 {
        let says =
            format!("others may look at the delegated credentials in {shown} (mode {mode:o}): no server starts so");
        let finding = Finding::error("delegations_open_to_others", says).at(spot);
        return Some(finding.change(format!("chmod 700 {shown}")));
    }
    Some(Finding::ok(
        "delegations",
        format!("only its owner may look into {shown}"),
    ))
}

/// Local users that are named and cannot be acted as: whoever is mapped to one is refused everything.
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
    for (name, spot) in named.into_iter().take(USERS_MAX) {
        let Err(error) = runtime.block_on(users.find(Some(&name))) else {
            continue;
        };
        let says = format!("the local user {name} cannot be acted as: {}", error.public());
        let finding = match error.code() {
            ErrorCode::UserUnknown => Finding::error("user_unknown", says).change("make the user, or name another one"),
            ErrorCode::UserRefused => {
                Finding::error("user_refused", says).change("name another user, or lower users.minimum_uid")
            }
            _ => Finding::warning("users_unavailable", says).change("see why the name service does not answer"),
        };
        findings.push(finding.at(spot));
    }
    if findings.is_empty() && count > 0 {
        findings.push(Finding::ok(
            "users",
            format!("{count} local users that are named can be acted as"),
        ));
    }
    findings
}

/// All that the configuration and its maps name, each with the first place that does so.
fn named_users(configuration: &Configuration, lines: &Lines) -> BTreeMap<String, Spot> {
    let mut named: BTreeMap<String, Spot> = BTreeMap::new();
    let mut add = |name: &str, spot: Spot| {
        named.entry(name.to_owned()).or_insert(spot);
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
    // What cannot be read is a finding of its own.
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
