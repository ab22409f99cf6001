//! Checks the files of mappings and issuers, and the right to act as local users.

use std::path::Path;

use config::{Configuration, NamedFile, Sections as _, Switch};

use super::finding::Finding;
use super::lines::Lines;

/// Checks them on behalf of the user `uid`.
pub(crate) fn check(configuration: &Configuration, lines: &Lines, uid: u32) -> Vec<Finding> {
    let mut findings = files(&configuration.files(), lines);
    findings.extend(switching(configuration, lines, uid));
    findings.extend(audiences(configuration, lines));
    findings
}

/// Every named file must be readable.
pub(super) fn files(named: &[NamedFile], lines: &Lines) -> Vec<Finding> {
    let missing = named
        .iter()
        .filter(|file| file.purpose.must_be_readable())
        .filter_map(|file| {
            let why = unreadable(&file.path)?;
            let says = format!("{} cannot be read: {why}", file.path.display());
            let finding = Finding::error("file_missing", says).at(lines.of_place(&file.place));
            Some(finding.change("make it readable for the server's user, or correct the name"))
        });
    missing.collect()
}

fn unreadable(path: &Path) -> Option<String> {
    let read = match path.is_dir() {
        true => std::fs::read_dir(path).map(drop),
        false => std::fs::File::open(path).map(drop),
    };
    read.err().map(|cause| cause.to_string())
}

/// Local users have no effect in a server that may not act as them.
fn switching(configuration: &Configuration, lines: &Lines, uid: u32) -> Option<Finding> {
    // The server may get its capabilities from its systemd unit, which this process cannot see.
    if uid == 0 {
        return None;
    }
    let names_users = configuration.rules.iter().any(|rule| rule.user.is_some())
        || configuration.users.default_user.is_some()
        || configuration
            .issuers
            .iter()
            .any(|issuer| issuer.default_user.is_some() || issuer.map_subject);
    let finding = match configuration.users.switch {
        Switch::Never => return None,
        Switch::Required => Finding::warning(
            "users_switch",
            "the server acts as local users, which needs root or CAP_SETUID and CAP_SETGID: this process has neither",
        ),
        Switch::Auto if names_users => Finding::warning(
            "users_switch",
            "local users are configured, but without root or CAP_SETUID and CAP_SETGID all files belong to the \
             server's account",
        ),
        Switch::Auto => return None,
    };
    let finding = finding.at(lines.of("users", "switch"));
    Some(finding.change("add AmbientCapabilities=CAP_SETUID CAP_SETGID to the unit, or set users.switch = \"never\""))
}

/// The audiences that tokens must have.
fn audiences(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    if configuration.issuers.is_empty() {
        return None;
    }
    let audiences = &configuration.tokens.audiences;
    Some(match (audiences.is_empty(), &configuration.server.name) {
        (false, _) => Finding::ok(
            "audiences",
            format!("tokens must be for one of {}", audiences.join(", ")),
        ),
        (true, Some(name)) => Finding::ok(
            "audiences",
            format!("tokens must be for {name} or the server's addresses"),
        ),
        (true, None) => Finding::warning(
            "audiences_unknown",
            "server.name is not set: tokens must have an address or a certificate name of the server as audience",
        )
        .at(lines.of("server", "name"))
        .change("set server.name, or tokens.audiences"),
    })
}
