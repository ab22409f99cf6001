//! Checks the configuration of a transfer queue. A file with `[queue]` and without exports is one
//! of a queue alone, and is judged as such.

use std::path::Path;

use config::Configuration;
use rustix::fs::{Access, access};

use super::finding::{Finding, Position};
use super::lines::Lines;
use crate::queue::{anonymous_warning, login_warning, token_clients};

/// Whether the file configures a queue and no endpoint.
pub(crate) fn is_queue_alone(configuration: &Configuration, lines: &Lines) -> bool {
    configuration.exports.is_empty() && lines.of("queue", "").line.is_some()
}

/// The configuration as its doors are checked: the queue's addresses are those of the server.
pub(crate) fn as_server(configuration: &mut Configuration) {
    configuration.server.listen.clone_from(&configuration.queue.listen);
    configuration.xroot.enabled = false;
}

/// Findings about the addresses of the server are about those of the queue.
pub(crate) fn place(findings: &mut [Finding], lines: &Lines) {
    for finding in findings {
        let is_listen = |position: &&mut Position| position.key == "server.listen";
        if let Some(position) = finding.position.as_mut().filter(is_listen) {
            *position = lines.of("queue", "listen");
        }
    }
}

/// Checks the section of the queue.
pub(crate) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let queue = &configuration.queue;
    let mut findings = Vec::new();
    if let Some(directory) = &queue.state_directory {
        findings.extend(state_directory(directory, lines));
    }
    if queue.database.is_some() && queue.key_file.is_none() {
        let says = "several queues share the database, but each would make its own key in its state_directory";
        let finding = Finding::warning("queue_key_own", says).at(lines.of("queue", "database"));
        findings.push(finding.change("set key_file to the same key everywhere, unless this is the only process"));
    }
    if let Some(file) = &queue.token_clients_file {
        findings.push(match token_clients::load(file) {
            Ok(issuers) => Finding::ok("token_clients", format!("{} issuers renew tokens", issuers.len())),
            Err(failure) => Finding::error("token_clients_unusable", failure.words)
                .at(lines.of("queue", "token_clients_file"))
                .change("write a line for each issuer: ISSUER NAME SECRET [TOKEN_ENDPOINT]"),
        });
    }
    let warnings = [
        ("queue_anonymous", "anonymous", anonymous_warning(configuration)),
        ("queue_for_nobody", "listen", login_warning(configuration)),
    ];
    for (code, key, warning) in warnings {
        if let Some((says, change)) = warning.as_deref().and_then(|warning| warning.split_once("; ")) {
            let says = says.trim_start_matches("warning: ");
            findings.push(Finding::warning(code, says).at(lines.of("queue", key)).change(change));
        }
    }
    if queue.operators.is_empty() {
        let says = "no user may change limits, ban storages or see the jobs of all";
        let finding = Finding::note("queue_without_operators", says).at(lines.of("queue", "operators"));
        findings.push(finding.change("name users in operators; `crossload queue whoami` prints a user's name"));
    }
    findings
}

/// The directory, or the one in which it will be made.
fn state_directory(directory: &Path, lines: &Lines) -> Option<Finding> {
    let existing = directory.ancestors().find(|place| place.is_dir())?;
    let place = if existing == directory { directory } else { existing };
    access(place, Access::WRITE_OK | Access::EXEC_OK).err().map(|cause| {
        let says = format!("the queue cannot write in {}: {cause}", place.display());
        let finding = Finding::error("queue_state_unwritable", says).at(lines.of("queue", "state_directory"));
        finding.change("chown it to the queue's user, or run the check as that user")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> (Configuration, Lines, Vec<&'static str>) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        let configuration = Configuration::load(file.path()).expect("valid");
        let lines = Lines::new(file.path(), text.to_owned());
        let codes = check(&configuration, &lines)
            .iter()
            .map(|finding| finding.code)
            .collect();
        (configuration, lines, codes)
    }

    #[test]
    fn a_file_for_a_queue_is_judged_as_one() {
        let (configuration, lines, codes) = checked("[queue]\ndatabase = \"postgres://u@h/d\"\n");
        assert!(is_queue_alone(&configuration, &lines));
        assert_eq!(codes, ["queue_key_own", "queue_for_nobody", "queue_without_operators"]);
        let open = "[queue]\nlisten = [\"0.0.0.0:8446\"]\nanonymous = true\noperators = [\"*\"]\n";
        assert_eq!(checked(open).2, ["queue_anonymous"]);
        let local = "[queue]\nanonymous = true\noperators = [\"*\"]\ntoken_clients_file = \"/nowhere\"\n";
        assert_eq!(checked(local).2, ["token_clients_unusable"]);
        let (configuration, lines, _) = checked("[server]\nlisten = [\"127.0.0.1:1\"]\n");
        assert!(!is_queue_alone(&configuration, &lines));
    }

    #[test]
    fn addresses_are_found_at_the_queue() {
        let (mut configuration, lines, _) = checked("[queue]\nlisten = [\"127.0.0.1:9\"]\n");
        as_server(&mut configuration);
        assert_eq!(configuration.server.listen, configuration.queue.listen);
        let mut findings = vec![Finding::error("port_held", "x").at(lines.of("server", "listen"))];
        place(&mut findings, &lines);
        let position = findings[0].position.as_ref().expect("a position");
        assert_eq!((position.key.as_str(), position.line), ("queue.listen", Some(2)));
    }
}
