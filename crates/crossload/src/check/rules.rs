//! What the configuration allows, where that is more or less than its author may think.

use config::Configuration;
use policy::{AnonymousAccess, Area, Who};

use super::finding::Finding;
use super::lines::Lines;

/// Examines rights and the doors that they are for.
pub(crate) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = exports(configuration, lines);
    findings.extend(rules(configuration, lines));
    findings.extend(doors(configuration, lines));
    findings
}

fn exports(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    if configuration.exports.is_empty() {
        let finding = Finding::error("nothing_exported", "no directory is exported").at(lines.of("export", "path"));
        findings.push(finding.change("add an [[export]] section with path and directory"));
    }
    let has_credentials = takes_credentials(configuration);
    for (index, export) in configuration.exports.iter().enumerate() {
        let spot = |key: &str| lines.of_item("export", index, key);
        let path = &export.path;
        match export.anonymous {
            AnonymousAccess::Write if export.read_only => {
                let says = format!("everybody may write to {path}, which is read-only: nobody can");
                let finding = Finding::warning("anonymous_write_void", says).at(spot("anonymous"));
                findings.push(finding.change("set anonymous = \"read\", or read_only = false"));
            }
            AnonymousAccess::Write => {
                let says = format!("everybody who reaches the server may write to {path} and delete everything in it");
                let finding = Finding::warning("anonymous_write", says).at(spot("anonymous"));
                findings.push(finding.change("set anonymous = \"read\" or \"none\" unless this is a test"));
            }
            AnonymousAccess::None if !has_credentials => {
                let says =
                    format!("nobody can do anything in {path}: it is closed to all, and no rule or token opens it");
                let finding = Finding::warning("export_for_nobody", says).at(spot("anonymous"));
                findings.push(
                    finding.change(
                        "set macaroons.secret_file, add an [[issuer]] or a [[rule]], or set anonymous = \"read\"",
                    ),
                );
            }
            AnonymousAccess::Read | AnonymousAccess::None => {}
        }
    }
    findings
}

/// Whether anybody can have rights by what he shows, or by a rule.
pub(crate) fn takes_credentials(configuration: &Configuration) -> bool {
    let by_rule = !configuration.rules.is_empty() || configuration.policy.authdb_file.is_some();
    let by_issuer = !configuration.issuers.is_empty() || configuration.tokens.scitokens_file.is_some();
    by_rule || by_issuer || configuration.macaroons.secret_file.is_some()
}

/// Rules that can never match.
fn rules(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut end = None;
    for (index, rule) in configuration.policy_rules().iter().enumerate() {
        let number = index + 1;
        let place = |key: &str| lines.of_item("rule", index, key);
        let area = rule.area.to_string();
        if let Some(end) = end {
            let says = format!("rule {number} never holds: rule {end} is the last one for everybody, everywhere");
            let finding = Finding::warning("rule_never_reached", says).at(place("who"));
            findings.push(finding.change(format!("move it in front of rule {end}, or remove it")));
        } else if !configuration
            .exports
            .iter()
            .any(|export| meets(&area, export.path.as_str()))
        {
            let says = format!("rule {number} never holds: {area} is in no export");
            let finding = Finding::warning("rule_outside", says).at(place("path"));
            findings.push(finding.change("correct its path, which begins with that of an export"));
        }
        let is_for_all = rule.who == [Who::Anyone] && rule.area == Area::everything() && rule.except.is_empty();
        if rule.last && is_for_all {
            end.get_or_insert(number);
        }
    }
    findings
}

/// Whether an area, as it is written, and an export have any path in common.
pub(super) fn meets(area: &str, export: &str) -> bool {
    let begin = area.split(['*', '{']).next().unwrap_or_default().trim_end_matches('/');
    let export = export.trim_end_matches('/');
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    within(begin, export) || within(export, begin) || (area.contains('*') && export.starts_with(begin))
}

fn doors(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    let server = &configuration.server;
    let is_reachable = server.listen.iter().any(|address| !address.ip().is_loopback());
    if let Some(admin) = server.admin_listen.filter(|admin| !admin.ip().is_loopback()) {
        let says = format!("metrics and explanations are shown in clear text to everybody who reaches {admin}");
        let finding = Finding::warning("admin_open", says).at(lines.of("server", "admin_listen"));
        findings.push(finding.change("listen on 127.0.0.1, or let a firewall keep others out"));
    }
    if server.certificate.is_none() && is_reachable {
        let says = "there is no certificate: tokens and data go over the network in clear text";
        let finding = Finding::warning("no_certificate", says).at(lines.of("server", "certificate"));
        findings.push(finding.change("set server.certificate and server.key"));
    }
    if configuration.tpc.allow_local_peers && is_reachable {
        let says = "clients from elsewhere may send this server to services on its own loopback addresses";
        let finding = Finding::warning("local_peers_allowed", says).at(lines.of("tpc", "allow_local_peers"));
        findings.push(finding.change("set tpc.allow_local_peers = false"));
    }
    if server.name.is_none() && configuration.macaroons.secret_file.is_some() {
        let says = "the server does not know its own name, so its macaroons do not say whose they are";
        let finding = Finding::note("no_name", says).at(lines.of("server", "name"));
        findings.push(finding.change("set server.name = \"https://host:port\""));
    }
    if server.name.is_some() && !is_reachable {
        let says = "the server has a name, and listens on loopback addresses only: nobody else reaches it";
        let finding = Finding::note("loopback_only", says).at(lines.of("server", "listen"));
        findings.push(finding.change("set server.listen = [\"[::]:443\"], unless something in front forwards to it"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_meet_exports_that_hold_them_or_lie_in_them() {
        for (area, export) in [
            ("/", "/data"),
            ("/data/x", "/data"),
            ("/data/*", "/data"),
            ("/da*", "/data"),
            ("/x", "/"),
        ] {
            assert!(meets(area, export), "{area} {export}");
        }
        for (area, export) in [
            ("/dat", "/data"),
            ("/data2", "/data"),
            ("/other/*", "/data"),
            ("/users/{user}", "/data"),
        ] {
            assert!(!meets(area, export), "{area} {export}");
        }
    }
}
