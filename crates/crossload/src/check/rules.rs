//! What the configuration allows, where that is more or less than its author may think.

use policy::AnonymousAccess;

use super::finding::Finding;
use super::lines::Lines;
use crate::configuration::Configuration;

/// Examines rights and the doors that they are for.
pub(crate) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = exports(configuration, lines);
    findings.extend(doors(configuration, lines));
    findings
}

fn exports(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    if configuration.exports.is_empty() {
        let finding = Finding::error("nothing_exported", "no directory is exported").at(lines.of("export", "path"));
        findings.push(finding.change("add an [[export]] section with path and directory"));
    }
    let has_tokens = configuration.macaroons.secret_file.is_some();
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
            AnonymousAccess::None if !has_tokens => {
                let says = format!("nobody can do anything in {path}: it is closed to all, and no token is accepted");
                let finding = Finding::warning("export_for_nobody", says).at(spot("anonymous"));
                findings.push(finding.change("set macaroons.secret_file, or anonymous = \"read\""));
            }
            AnonymousAccess::Read | AnonymousAccess::None => {}
        }
    }
    findings
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
