//! Reports files of the server inside exports, with which it does not start, and secrets with
//! several hard links.

use std::path::Path;

use config::Configuration;

use super::finding::Finding;
use super::lines::Lines;
use crate::server::exposed::{Exposed, find, linked};

/// Reports each of them.
pub(crate) fn check(configuration: &Configuration, file: &Path, lines: &Lines) -> Vec<Finding> {
    let finding = |exposed: &Exposed| {
        let finding = Finding::error("exported_secret", format!("{exposed}; the server does not start"));
        let finding = finding.change(format!("move {} out of all exports", exposed.path.display()));
        match exposed.place {
            Some(place) => finding.at(lines.of_place(&place)),
            None => finding,
        }
    };
    let linked = linked(configuration).into_iter().map(|linked| {
        let change = format!(
            "replace {} by a copy, and search the exports for the other link",
            linked.path.display()
        );
        let finding = Finding::warning("linked_secret", linked.to_string()).change(change);
        finding.at(lines.of_place(&linked.place))
    });
    find(configuration, Some(file))
        .iter()
        .map(finding)
        .chain(linked)
        .collect()
}
