//! Checks the receivers of the monitoring and of traces, and the broker. Whether packets arrive,
//! UDP does not tell.

use broker::Broker;
use config::Configuration;

use super::finding::Finding;
use super::lines::Lines;
use super::traces::check_collector;
use crate::server::{broker_login, broker_sink};

/// Whether the names of the receivers have addresses.
pub(crate) async fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let wanted = &configuration.monitoring;
    let lists = [
        ("monitoring", "destinations", &wanted.destinations),
        ("monitoring", "copy_destinations", &wanted.copy_destinations),
        ("monitoring", "http_destinations", &wanted.http_destinations),
        ("monitoring", "summary_destinations", &wanted.summary_destinations),
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
    findings.extend(check_broker(configuration, lines).await);
    findings.extend(check_collector(configuration, lines).await);
    findings
}

/// Whether the credentials for the broker can be used, and its name has an address.
async fn check_broker(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let wanted = &configuration.monitoring;
    let mut findings = Vec::new();
    for (key, failure) in broker_sink::file_faults(configuration) {
        let finding = Finding::error("monitoring_broker_unusable", failure.words).at(lines.of("monitoring", key));
        findings.push(finding.change("correct the file, and run chmod 600"));
    }
    if wanted.broker.is_none() && wanted.spool.is_some() {
        let says = "spool has no effect: there is no broker";
        let finding = Finding::warning("monitoring_broker_unused", says).at(lines.of("monitoring", "spool"));
        findings.push(finding.change("set broker in [monitoring]"));
    }
    let Some(broker) = wanted.broker.as_deref().and_then(Broker::parse) else {
        return findings;
    };
    if let Some(says) = broker_login::clear_text_warning(&broker, wanted.broker_password_file.is_some()) {
        let finding = Finding::warning("monitoring_broker_clear_text", says).at(lines.of("monitoring", "broker"));
        findings.push(finding.change(broker_login::USE_TLS));
    }
    let found = tokio::net::lookup_host((broker.host(), broker.port())).await;
    if !found.is_ok_and(|mut addresses| addresses.next().is_some()) {
        let says = format!(
            "the name of the broker {} has no address: packets wait on disk",
            broker.url()
        );
        let finding = Finding::warning("monitoring_destination_unknown", says).at(lines.of("monitoring", "broker"));
        findings.push(finding.change("correct the name, or its entry in the name service"));
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

    #[tokio::test]
    async fn a_broker_needs_a_name_and_a_password_that_is_secret() {
        let directory = tempfile::tempdir().unwrap();
        let text = "[monitoring]\nbroker = \"stomp://broker.invalid:61613\"\nspool = \"spool\"\n\
                    broker_password_file = \"missing\"\n";
        let configuration = Configuration::parse(text, directory.path(), "c.toml").unwrap();
        let lines = Lines::new(Path::new("c.toml"), text.to_owned());
        let findings = check(&configuration, &lines).await;
        let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
        let expected = [
            "monitoring_broker_unusable",
            "monitoring_broker_clear_text",
            "monitoring_destination_unknown",
        ];
        assert_eq!(codes, expected);
    }
}
