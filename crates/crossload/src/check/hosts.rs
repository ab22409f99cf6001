//! Checks the hosts that clients of a forwarding proxy may name. None of them is asked: they are
//! many, and which protocol they speak is for the clients to know.

use std::net::IpAddr;
use std::time::Duration;

use config::Export;
use net::address::AddressPolicy;
use net::names::addresses_of;
use types::AllowedHosts;

use super::finding::{Finding, Position};

/// Time limit of one look-up.
const LOOK_UP_TIME: Duration = Duration::from_secs(5);
/// Most hosts that are looked up.
const LOOKED_UP_MAX: usize = 32;

/// Checks the hosts of an export.
pub(super) async fn check(export: &Export, at: &Position) -> Vec<Finding> {
    let Ok(hosts) = AllowedHosts::parse(&export.remote_hosts) else {
        return Vec::new();
    };
    let path = &export.path;
    let change = if export.is_read_only() {
        "read"
    } else {
        "read and change"
    };
    let says = format!(
        "clients may {change} files in {path} at {}",
        export.remote_hosts.join(", ")
    );
    let mut findings = vec![Finding::ok("upstream", says)];
    for domain in hosts.domains().filter(|domain| !domain[1..].contains('.')) {
        let says = format!("remote_hosts of {path} lets clients name all hosts of the top-level domain *{domain}");
        let finding = Finding::warning("forwarded_domain_wide", says).at(at.clone());
        findings.push(finding.change("list the hosts, or the domains of their sites"));
    }
    let has_credential = export.remote_token_file.is_some() || export.remote_certificate.is_some();
    if has_credential && hosts.names_of_hosts().next().is_none() {
        let says =
            format!("the credential of {path} is shown to no host: it is for hosts, and only domains are listed");
        let finding = Finding::warning("forwarded_credential_void", says).at(at.clone());
        findings.push(finding.change("list the hosts that may see it by their names"));
    }
    for host in hosts.names_of_hosts().take(LOOKED_UP_MAX) {
        let addresses = addresses_of(host, LOOK_UP_TIME).await;
        findings.extend(looked_up(host, &addresses).map(|finding| finding.at(at.clone())));
    }
    findings
}

fn looked_up(host: &str, addresses: &[IpAddr]) -> Option<Finding> {
    if addresses.is_empty() {
        let says = format!("the host {host} of remote_hosts is unknown to the name service");
        return Some(Finding::warning("forwarded_host_unknown", says).change("correct the name, or remove it"));
    }
    let elsewhere = AddressPolicy {
        local: false,
        private: true,
    };
    let local = addresses.iter().find(|address| !elsewhere.allows(**address))?;
    if AllowedHosts::is_address(host) {
        return None;
    }
    let says = format!("the host {host} of remote_hosts is {local}, an address of this machine, and is refused");
    let change = format!("list \"{local}\" itself, with its port, if clients may reach services of this machine");
    Some(Finding::warning("forwarded_host_local", says).change(change))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::Configuration;

    use super::super::lines::Lines;
    use super::*;

    #[tokio::test]
    async fn hosts_that_no_client_reaches_are_told() {
        let text = "[[export]]\nremote_hosts = [\"localhost:1095\", \"host.invalid\", \"*.org\", \"127.0.0.1:1\"]\n";
        let configuration = Configuration::parse(text, Path::new("/"), "c.toml").unwrap();
        let at = Lines::new(Path::new("c.toml"), text.to_owned()).of_item("export", 0, "remote_hosts");
        let found = format!("{:?}", check(&configuration.exports[0], &at).await);
        for code in ["upstream", "forwarded_domain_wide", "forwarded_host_unknown"] {
            assert!(found.contains(&format!("\"{code}\"")), "{code}: {found}");
        }
        assert!(!found.contains("forwarded_host_local"), "listed themselves: {found}");
        let told = looked_up("disk.example.org", &["127.0.0.1".parse().unwrap()]);
        assert!(format!("{told:?}").contains("forwarded_host_local"));
    }
}
