//! Files and directories that say who is who, and the right to act as others.

use std::path::Path;

use super::finding::Finding;
use super::lines::Lines;
use crate::configuration::{Configuration, Switch};

/// Examines them on behalf of the user `uid`.
pub(crate) fn check(configuration: &Configuration, lines: &Lines, uid: u32) -> Vec<Finding> {
    let mut findings = files(configuration, lines);
    findings.extend(switching(configuration, lines, uid));
    findings.extend(audiences(configuration, lines));
    findings
}

/// Whatever is named must be there to be read.
fn files(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let (x509, tokens, policy) = (&configuration.x509, &configuration.tokens, &configuration.policy);
    let mut named = vec![
        (x509.trust_directory.as_deref(), lines.of("x509", "trust_directory")),
        (x509.voms_directory.as_deref(), lines.of("x509", "voms_directory")),
        (x509.grid_map_file.as_deref(), lines.of("x509", "grid_map_file")),
        (x509.voms_map_file.as_deref(), lines.of("x509", "voms_map_file")),
        (tokens.scitokens_file.as_deref(), lines.of("tokens", "scitokens_file")),
        (policy.authdb_file.as_deref(), lines.of("policy", "authdb_file")),
    ];
    for (index, issuer) in configuration.issuers.iter().enumerate() {
        let spot = |key: &str| lines.of_item("issuer", index, key);
        named.push((issuer.name_map_file.as_deref(), spot("name_map_file")));
        named.push((issuer.jwks_file.as_deref(), spot("jwks_file")));
    }
    let missing = named.into_iter().filter_map(|(path, spot)| {
        let path = path?;
        let why = unreadable(path)?;
        let says = format!("{} cannot be read: {why}", path.display());
        let finding = Finding::error("file_missing", says).at(spot);
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
