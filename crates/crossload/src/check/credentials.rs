//! Files and directories that say who is who, and the right to act as others.

use std::path::Path;

use config::{Configuration, NamedFile, Sections as _, Switch};

use super::finding::Finding;
use super::lines::Lines;

/// Examines them on behalf of the user `uid`.
pub(crate) fn check(configuration: &Configuration, lines: &Lines, uid: u32) -> Vec<Finding> {
    let mut findings = files(&configuration.files(), lines);
    findings.extend(switching(configuration, lines, uid));
    findings.extend(audiences(configuration, lines));
    findings
}

/// Whatever is named must be there to be read.
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

/// Rules that name local users mean nothing to a server that may not act as them.
fn switching(configuration: &Configuration, lines: &Lines, uid: u32) -> Option<Finding> {
    // The capabilities of a server that runs as somebody else are given by its unit, and not seen from here.
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
            "local users are acted as, which takes root or CAP_SETUID and CAP_SETGID: seen from here there is neither",
        ),
        Switch::Auto if names_users => Finding::warning(
            "users_switch",
            "local users are named, and without root or CAP_SETUID and CAP_SETGID all files belong to the server's own",
        ),
        Switch::Auto => return None,
    };
    let finding = finding.at(lines.of("users", "switch"));
    Some(finding.change("add AmbientCapabilities=CAP_SETUID CAP_SETGID to the unit, or set users.switch = \"never\""))
}

/// For whom tokens must be.
fn audiences(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    if configuration.issuers.is_empty() {
        return None;
    }
    let audiences = &configuration.tokens.audiences;
    Some(match (audiences.is_empty(), &configuration.server.name) {
        (false, _) => Finding::ok("audiences", format!("tokens must be for one of {}", audiences.join(", "))),
        (true, Some(name)) => Finding::ok("audiences", format!("tokens must be for {name} or the server's addresses")),
        (true, None) => Finding::warning(
            "audiences_unknown",
            "tokens must be for this server, whose name is not told: only its addresses and the certificate's names count",
        )
        .at(lines.of("server", "name"))
        .change("set server.name, or tokens.audiences"),
    })
}
