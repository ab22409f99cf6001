//! Checks the receivers of the monitoring. Whether packets arrive, UDP does not tell.

use config::Configuration;

use super::finding::Finding;
use super::lines::Lines;

/// Whether the names of the receivers have addresses.
pub(crate) async fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let wanted = &configuration.monitoring;
    let lists = [
        ("monitoring", "destinations", &wanted.destinations),
        ("monitoring", "copy_destinations", &wanted.copy_destinations),
        ("scitags", "destinations", &configuration.scitags.destinations),
    ];
    let mut findings = Vec::new();
    for (section, key, list) in lists {
        for receiver in list {
            let found = tokio::net::lookup_host(receiver.as_str()).await;
            if found.is_ok_and(|mut addresses| addresses.next().is_some()) {
                continue;
            }
            let says = format!("the name of the receiver {receiver} has no address, so that it gets nothing");
            let finding = Finding::warning("monitoring_destination_unknown", says).at(lines.of(section, key));
            findings.push(finding.change("correct the name, or its entry in the name service"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn names_without_addresses_are_told() {
        let text = "[monitoring]\ndestinations = [\"127.0.0.1:9993\", \"shoveler.invalid:9993\"]\n\
                    [scitags]\ndestinations = [\"flows.invalid:10514\"]\n";
        let configuration = Configuration::parse(text, Path::new("/"), "c.toml").unwrap();
        let findings = check(&configuration, &Lines::new(Path::new("c.toml"), text.to_owned())).await;
        let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["monitoring_destination_unknown"; 2]);
    }
}
