//! Checks DNS: the server's name must lead to its addresses, and these back to the name.

use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use config::Configuration;
use net::names::{addresses_of, name_of};
use types::Location;

use super::finding::{Finding, Position};
use super::lines::Lines;

/// `server.name` must be a URL, for clients, macaroons and audiences.
pub(crate) fn unusable(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let name = configuration.server.name.as_deref()?;
    if Location::parse(name).is_ok_and(|place| place.is_http() || place.is_xrootd()) {
        return None;
    }
    let says = format!("server.name is {name:?}, which is not a URL: clients and tokens cannot use it");
    let finding = Finding::error("name_without_scheme", says).at(lines.of("server", "name"));
    let host = name.split("://").last().unwrap_or(name);
    Some(finding.change(format!("set name = \"https://{host}\"")))
}

/// The storage resource report has URLs, which collectors keep and clients use.
pub(crate) fn unnamed_report(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let is_reported = configuration.storage_report.path.is_some() && configuration.server.name.is_none();
    let says = "the storage resource report has the name of this machine in its URLs, as server.name is not set";
    let finding = Finding::warning("report_unnamed", says).at(lines.of("storage_report", "path"));
    is_reported.then(|| finding.change("set name in [server] to the URL under which clients know this server"))
}

/// Time limit of a DNS query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Resolves the name, and each of its addresses back.
pub(crate) async fn check(host: &str, position: &Position) -> Vec<Finding> {
    let addresses = addresses_of(host, QUERY_TIMEOUT).await;
    let mut known = Vec::new();
    for address in addresses {
        let name = name_of(address, QUERY_TIMEOUT).await;
        known.push(Known {
            address,
            name,
            is_here: TcpListener::bind((address, 0)).is_ok(),
        });
    }
    judge(host, &known, position)
}

/// The DNS answer for one address.
pub(crate) struct Known {
    pub(crate) address: IpAddr,
    pub(crate) name: Option<String>,
    /// Whether it is an address of this machine.
    pub(crate) is_here: bool,
}

/// Judges the DNS answers.
pub(crate) fn judge(host: &str, known: &[Known], position: &Position) -> Vec<Finding> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if known.is_empty() {
        let finding = Finding::error("name_unknown", format!("DNS has no address for {host}"));
        return vec![
            finding
                .at(position.clone())
                .change("add the name to DNS, or correct server.name"),
        ];
    }
    let mut findings = Vec::new();
    for Known { address, name, .. } in known {
        if bare.parse::<IpAddr>().is_ok() {
            continue;
        }
        let says = match name {
            Some(name) if name.trim_end_matches('.').eq_ignore_ascii_case(bare) => continue,
            Some(name) => format!("{host} has the address {address}, whose name is {name}"),
            None => format!("{host} has the address {address}, which has no name"),
        };
        let finding = Finding::note("name_not_back", says).at(position.clone());
        findings.push(finding.change("add the reverse entry: some XRootD servers identify the peer of a copy by it"));
    }
    if known.iter().all(|one| !one.is_here) {
        let says = format!("none of the addresses of {host} belongs to this machine");
        let finding = Finding::note("name_elsewhere", says).at(position.clone());
        findings.push(finding.change("expected behind a load balancer or NAT; else correct server.name"));
    }
    if findings.is_empty() {
        let listed: Vec<String> = known.iter().map(|one| one.address.to_string()).collect();
        findings.push(Finding::ok(
            "name",
            format!("{host} resolves to {} and back", listed.join(", ")),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_report_without_a_name_is_warned_of() {
        let code = |text: &str| {
            let configuration = Configuration::parse(text, Path::new("/"), "c.toml").unwrap();
            let lines = Lines::new(Path::new("c.toml"), text.to_owned());
            unnamed_report(&configuration, &lines).map(|finding| finding.code)
        };
        let report = "[storage_report]\npath = \"/srr\"\n";
        assert_eq!(code(report), Some("report_unnamed"));
        assert_eq!(
            code(&format!("[server]\nname = \"https://se.example.org\"\n{report}")),
            None
        );
        assert_eq!(code(""), None);
    }
}
