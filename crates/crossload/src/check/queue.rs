//! Checks the configuration of a transfer queue. A file with `[queue]` and without exports is one
//! of a queue alone, and is judged as such.

use std::time::Duration;

use config::Configuration;

use super::finding::{Finding, Position};
use super::lines::Lines;
use super::{queue_state, queue_users};
use crate::queue::{anonymous_warning, login_warning, token_clients};

/// Clients such as Rucio ask for jobs some time after they ended.
const HISTORY_USUAL: Duration = Duration::from_secs(3600);

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
    findings.extend(queue_state::check(configuration, lines));
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
        ("queue_no_clients", "listen", login_warning(configuration)),
    ];
    for (code, key, warning) in warnings {
        if let Some((says, change)) = warning.as_deref().and_then(|warning| warning.split_once("; ")) {
            let says = says.trim_start_matches("warning: ");
            findings.push(Finding::warning(code, says).at(lines.of("queue", key)).change(change));
        }
    }
    if queue.history < HISTORY_USUAL {
        let says = "clients may not learn how their jobs ended: ended jobs are forgotten within an hour";
        let finding = Finding::warning("queue_history_short", says).at(lines.of("queue", "history"));
        findings.push(finding.change("set history to a day or more"));
    }
    findings.extend(queue_users::check(configuration, lines));
    findings
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
    fn a_password_in_a_file_for_all_is_named() {
        for (url, mode, is_open) in [
            ("postgres://u:p@h/d", 0o644, true),
            ("postgres://u@h/d?password=p", 0o640, true),
            ("postgres://u:p@h/d", 0o600, false),
            ("postgres://u@h/d", 0o644, false),
        ] {
            let (configuration, lines, _) = checked(&format!("[queue]\ndatabase = \"{url}\"\n"));
            let found = queue_state::open_password(&configuration, &lines, mode);
            assert_eq!(found.is_some(), is_open, "{url} {mode:o}");
        }
    }

    #[test]
    fn a_file_for_a_queue_is_judged_as_one() {
        let (configuration, lines, codes) = checked("[queue]\ndatabase = \"postgres://u@h/d\"\n");
        assert!(is_queue_alone(&configuration, &lines));
        assert_eq!(codes, ["queue_key_own", "queue_no_clients", "queue_without_operators"]);
        let open = "[queue]\nlisten = [\"0.0.0.0:8446\"]\nanonymous = true\noperators = [\"*\"]\n";
        assert_eq!(checked(open).2, ["queue_anonymous"]);
        let local = "[queue]\nanonymous = true\noperators = [\"*\"]\ntoken_clients_file = \"/nowhere\"\n";
        assert_eq!(checked(local).2, ["token_clients_unusable"]);
        let (configuration, lines, _) = checked("[server]\nlisten = [\"127.0.0.1:1\"]\n");
        assert!(!is_queue_alone(&configuration, &lines));
    }

    fn private_directory() -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o700)).expect("changed");
        place
    }

    /// The codes for a queue with these lines, and with a state directory of its own.
    fn codes_in(directory: &std::path::Path, more: &str) -> Vec<&'static str> {
        let base = "[queue]\nanonymous = true\noperators = [\"*\"]\nstate_directory";
        checked(&format!("{base} = \"{}\"\n{more}", directory.display())).2
    }

    #[test]
    fn a_state_directory_that_the_queue_cannot_use_is_an_error() {
        let place = private_directory();
        assert_eq!(codes_in(place.path(), ""), [""; 0]);
        assert_eq!(codes_in(&place.path().join("later"), ""), [""; 0]);
        let file = place.path().join("file");
        std::fs::write(&file, "").expect("written");
        assert_eq!(codes_in(&file, ""), ["queue_state_unwritable"]);
        assert_eq!(codes_in(&file.join("below"), ""), ["queue_state_unwritable"]);
        std::fs::write(place.path().join("key"), "c2hvcnQ=").expect("written");
        assert_eq!(codes_in(place.path(), ""), ["queue_key_unusable"]);
        std::fs::remove_file(place.path().join("key")).expect("removed");
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).expect("changed");
        assert_eq!(codes_in(place.path(), ""), ["queue_state_open"]);
    }

    #[tokio::test]
    async fn the_key_must_be_that_of_the_database() {
        let place = private_directory();
        let catalog = catalog::Catalog::open_sqlite(&place.path().join("queue.db"))
            .await
            .expect("opened");
        assert_eq!(codes_in(place.path(), ""), [""; 0], "no queue has run yet");
        catalog.keep_key_mark("that of another key").await.expect("stored");
        assert_eq!(codes_in(place.path(), ""), ["queue_key_other"]);
    }

    #[test]
    fn tables_of_a_later_release_are_an_error() {
        let found = |version: usize| {
            let lines = Lines::new(std::path::Path::new("x"), String::new());
            let place = lines.of("queue", "state_directory");
            let finding = queue_state::of_version(Some(version), "queue.db", place);
            finding.map(|finding| finding.code)
        };
        let ours = catalog::TABLES_VERSION;
        assert_eq!(found(ours), None);
        assert_eq!(found(ours + 1), Some("queue_database_newer"));
        assert_eq!(found(ours - 1), Some("queue_database_older"));
    }

    #[test]
    fn messages_need_their_files_and_readers() {
        let place = private_directory();
        let file = place.path().join("passwords");
        let listen = "[messages]\nlisten = [\"127.0.0.1:1\"]\n";
        let named = |key: &str| format!("{key} = \"{}\"\n", file.display());
        let passwords = format!("{listen}{}", named("password_file"));
        assert_eq!(codes_in(place.path(), &passwords), ["messages_passwords_unusable"]);
        std::fs::write(&file, "rucio:word\n").expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
        assert_eq!(codes_in(place.path(), &passwords), ["messages_passwords_unusable"]);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("changed");
        assert_eq!(codes_in(place.path(), &passwords), [""; 0]);
        assert_eq!(codes_in(place.path(), listen), ["messages_open"]);
        let users = "[messages]\nusers = [\"*\"]\n";
        assert_eq!(codes_in(place.path(), users), ["messages_unused"]);
        let broker = format!("[messages]\n{}", named("broker_password_file"));
        assert_eq!(codes_in(place.path(), &broker), ["messages_unused"]);
        let to = |url: &str| format!("{broker}brokers = [\"{url}\"]\n");
        assert_eq!(
            codes_in(place.path(), &to("stomp://mb.example")),
            ["messages_clear_text"]
        );
        for good in ["stomp+ssl://mb.example", "stomp://127.0.0.1:1"] {
            assert_eq!(codes_in(place.path(), &to(good)), [""; 0], "{good}");
        }
        assert_eq!(codes_in(place.path(), "history = \"1s\"\n"), ["queue_history_short"]);
    }

    #[test]
    fn operators_that_nobody_is_are_warned_of() {
        let issuer = "[[issuer]]\nurl = \"https://iam.example/\"\nvo = \"atlas\"\n";
        for (name, is_somebody) in [
            ("6f@https://iam.example/", true),
            ("6f@https://iam.example", false),
            ("/atlas/admins", true),
            ("/cms/admins", false),
            ("/DC=org/CN=Jane", false),
            ("jane", false),
        ] {
            let text = format!("[queue]\noperators = [\"{name}\"]\n{issuer}");
            let expected: &[&str] = if is_somebody { &[] } else { &["queue_name_unmatched"] };
            assert_eq!(checked(&text).2, expected, "{name}");
        }
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
