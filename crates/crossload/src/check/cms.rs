//! Checks the membership in an XRootD cluster: what managers can learn, and whether they answer.

use std::time::Duration;

use cluster::cms::ManagerAddress;
use config::Configuration;
use net::address::AddressPolicy;
use net::dial::dial;
use types::Side;

use super::finding::Finding;
use super::lines::Lines;

/// The registered port of the XRootD protocol.
const XROOTD_PORT: u16 = 1094;
/// Time limit of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether clients that a manager sends can arrive, and find what was promised.
pub(crate) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    if configuration.cms.managers.is_empty() {
        return findings;
    }
    let listen = &configuration.server.listen;
    if listen.iter().all(|address| address.ip().to_canonical().is_loopback()) {
        let says = "managers send clients here, but server.listen has only loopback addresses";
        let finding = Finding::warning("cluster_unreachable", says).at(lines.of("server", "listen"));
        findings.push(finding.change("listen on an address that clients reach, such as \"[::]:1094\""));
    }
    for manager in &configuration.cms.managers {
        let port = ManagerAddress::parse(manager, None).map(|address| address.port);
        if port == Some(XROOTD_PORT) {
            let says = format!("{manager} has the usual port of xrootd, but servers log in to the cmsd");
            let finding = Finding::warning("cluster_manager_port", says).at(lines.of("cms", "managers"));
            findings.push(finding.change("use the port of all.manager, usually 1213"));
        }
    }
    for (index, export) in configuration.exports.iter().enumerate() {
        let path = export.path.as_str();
        if path.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            let says = format!("the export {path:?} cannot be announced to a manager: its path contains white space");
            let finding = Finding::error("cluster_export_unfit", says).at(lines.of_item("export", index, "path"));
            findings.push(finding.change("choose a path without white space, or remove cms.managers"));
        }
    }
    findings
}

/// Whether the managers answer.
pub(crate) async fn check_managers(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manager in &configuration.cms.managers {
        let Some(ManagerAddress { host, port }) = ManagerAddress::parse(manager, None) else {
            continue;
        };
        let connection = dial(&host, port, AddressPolicy::ANY, CONNECT_TIMEOUT, Side::Source).await;
        findings.push(match connection {
            Ok(_) => Finding::ok("cluster_manager", format!("the manager {manager} takes connections")),
            Err(error) => {
                let says = format!("the manager {manager} cannot be reached: {error}");
                let finding = Finding::warning("cluster_manager_unreachable", says).at(lines.of("cms", "managers"));
                finding.change("check name and port of its cmsd, and the firewall; the server goes on trying")
            }
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_managers_cannot_use_is_reported() {
        let codes = |text: &str| {
            let configuration = Configuration::parse(text, Path::new("/"), "test").expect("valid");
            let lines = Lines::new(Path::new("test"), text.to_owned());
            let findings = check(&configuration, &lines);
            findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
        };
        let export = "[[export]]\npath = \"/a b\"\ndirectory = \"data\"\n";
        let cms = "[cms]\nmanagers = [\"cms.example:1213\"]\n";
        assert_eq!(codes(export), [""; 0]);
        assert_eq!(
            codes(&format!("{export}{cms}")),
            ["cluster_unreachable", "cluster_export_unfit"]
        );
        let listen = "[server]\nlisten = [\"[::]:1094\"]\n[[export]]\ndirectory = \"data\"\n";
        assert_eq!(codes(&format!("{listen}{cms}")), [""; 0]);
        let port = cms.replace("1213", "1094");
        assert_eq!(codes(&format!("{listen}{port}")), ["cluster_manager_port"]);
    }
}
