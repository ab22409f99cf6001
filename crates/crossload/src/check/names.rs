//! The name service: the server's name leads to it, and its addresses lead back.

use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use config::Configuration;
use net::names::{addresses_of, name_of};
use types::Location;

use super::finding::{Finding, Spot};
use super::lines::Lines;

/// A name that is no URL is no name at all: clients, macaroons and audiences know the server by its URL.
pub(crate) fn unusable(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let name = configuration.server.name.as_deref()?;
    if Location::parse(name).is_ok_and(|place| place.is_http() || place.is_xrootd()) {
        return None;
    }
    let says = format!("server.name is {name:?}, which is no URL: nothing knows the server by it");
    let finding = Finding::error("name_without_scheme", says).at(lines.of("server", "name"));
    let host = name.split("://").last().unwrap_or(name);
    Some(finding.change(format!("write name = \"https://{host}\"")))
}

/// How long the name service may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks the name up, and each of its addresses.
pub(crate) async fn check(host: &str, spot: &Spot) -> Vec<Finding> {
    let addresses = addresses_of(host, PATIENCE).await;
    let mut known = Vec::new();
    for address in addresses {
        let name = name_of(address, PATIENCE).await;
        known.push(Known {
            address,
            name,
            is_here: TcpListener::bind((address, 0)).is_ok(),
        });
    }
    judge(host, &known, spot)
}

/// What the name service says of one address.
pub(crate) struct Known {
    pub(crate) address: IpAddr,
    pub(crate) name: Option<String>,
    /// Whether it is an address of this machine.
    pub(crate) is_here: bool,
}

/// What is to be said of it.
pub(crate) fn judge(host: &str, known: &[Known], spot: &Spot) -> Vec<Finding> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if known.is_empty() {
        let finding = Finding::error("name_unknown", format!("the name service knows no address of {host}"));
        return vec![
            finding
                .at(spot.clone())
                .change("enter the name into the name service, or correct server.name"),
        ];
    }
    let mut findings = Vec::new();
    for Known { address, name, .. } in known {
        if bare.parse::<IpAddr>().is_ok() {
            continue;
        }
        let says = match name {
            Some(name) if name.trim_end_matches('.').eq_ignore_ascii_case(bare) => continue,
            Some(name) => format!("{host} is {address}, which is called {name}"),
            None => format!("{host} is {address}, which has no name"),
        };
        let finding = Finding::note("name_not_back", says).at(spot.clone());
        findings.push(
            finding.change("have the reverse entry made: some XRootD servers find the other side of a copy by it"),
        );
    }
    if known.iter().all(|one| !one.is_here) {
        let says = format!("none of the addresses of {host} belongs to this machine");
        let finding = Finding::note("name_elsewhere", says).at(spot.clone());
        findings.push(finding.change("right behind a load balancer or NAT; else correct server.name"));
    }
    if findings.is_empty() {
        let listed: Vec<String> = known.iter().map(|one| one.address.to_string()).collect();
        findings.push(Finding::ok(
            "name",
            format!("{host} is {}, and back", listed.join(", ")),
        ));
    }
    findings
}
