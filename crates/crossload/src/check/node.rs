//! Checks a server as a node of a cluster: whether it is drained, and whether orders last.

use std::path::Path;

use config::Configuration;
use policy::Drain;
use rustix::fs::{Access, access};

use super::finding::Finding;
use super::lines::Lines;
use crate::server::node::load_order;

/// Checks the section of the node.
pub(crate) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let node = &configuration.cluster;
    let mut findings = Vec::new();
    if node.drain != Drain::Active {
        let says = format!("the server is drained by its configuration: {}", node.drain.name());
        let finding = Finding::warning("node_drained", says).at(lines.of("cluster", "drain"));
        findings.push(finding.change("remove the key to use the server for everything"));
    }
    match &node.state_file {
        Some(file) => findings.extend(state_file(file, lines)),
        None if !node.operators.is_empty() => {
            let says = "orders to drain this server end with its process";
            let finding = Finding::warning("node_order_not_kept", says).at(lines.of("cluster", "operators"));
            findings.push(finding.change("set state_file to a file that the server may write"));
        }
        None => {}
    }
    findings
}

fn state_file(file: &Path, lines: &Lines) -> Vec<Finding> {
    let place = || lines.of("cluster", "state_file");
    let mut findings = Vec::new();
    match load_order(file) {
        Ok(order) if order.drain != Drain::Active => {
            let says = format!(
                "the server is drained by order of {}: {}",
                order.ordered_by,
                order.drain.name()
            );
            let finding = Finding::warning("node_drained", says).at(place());
            findings.push(finding.change("`crossload node undrain URL` ends it"));
        }
        Ok(_) => {}
        Err(failure) => findings.push(
            Finding::error("node_state_unusable", failure.words)
                .at(place())
                .change("restore the file, or remove it: the server is then used for everything"),
        ),
    }
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if access(parent, Access::WRITE_OK).is_err() {
        let says = format!("orders cannot be kept: {} cannot be written", parent.display());
        let finding = Finding::error("node_state_unwritable", says).at(place());
        findings.push(finding.change(format!("make {} writable for the server's user", parent.display())));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str, site: &Path) -> Vec<&'static str> {
        let configuration = Configuration::parse(text, site, "c").unwrap();
        let findings = check(&configuration, &Lines::new(Path::new("c"), text.to_owned()));
        findings.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_drained_node_is_reported_and_where_orders_do_not_last() {
        let site = tempfile::tempdir().unwrap();
        assert!(codes("", site.path()).is_empty());
        assert_eq!(
            codes("[cluster]\ndrain = \"no_reads\"\n", site.path()),
            ["node_drained"]
        );
        let operated = "[cluster]\noperators = [\"dn:/CN=Jane\"]\n";
        assert_eq!(codes(operated, site.path()), ["node_order_not_kept"]);
        let kept = format!("{operated}state_file = \"state\"\n");
        assert!(codes(&kept, site.path()).is_empty());
        let write = |text: &str| std::fs::write(site.path().join("state"), text).unwrap();
        write("{\"drain\": \"no_writes\", \"ordered_by\": \"jane\"}");
        assert_eq!(codes(&kept, site.path()), ["node_drained"]);
        write("?");
        assert_eq!(codes(&kept, site.path()), ["node_state_unusable"]);
        let missing = "[cluster]\nstate_file = \"missing/state\"\n";
        assert_eq!(codes(missing, site.path()), ["node_state_unwritable"]);
    }
}
