//! Checks who may change a queue, and who may subscribe to its messages.

use broker::Broker;
use config::Configuration;

use super::finding::Finding;
use super::lines::Lines;
use crate::queue::{messages, messages_warning};
use crate::server::broker_login::{USE_TLS, clear_text_warning};

/// Checks operators and subscribers.
pub(super) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = operators(configuration, lines);
    findings.extend(subscribers(configuration, lines));
    findings
}

fn operators(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let operators = &configuration.queue.operators;
    let of_vos = unmatched(configuration, "vo_operators", &configuration.queue.vo_operators, lines);
    if operators.is_empty() {
        let says = "no user may change limits, ban storages or see the jobs of all";
        let finding = Finding::note("queue_without_operators", says).at(lines.of("queue", "operators"));
        let finding = finding.change("name users in operators; `crossload queue whoami` prints a user's name");
        return [vec![finding], of_vos].concat();
    }
    [unmatched(configuration, "operators", operators, lines), of_vos].concat()
}

/// Names that no credential can have which this configuration accepts.
fn unmatched(configuration: &Configuration, key: &str, names: &[String], lines: &Lines) -> Vec<Finding> {
    let section = if key == "users" { "messages" } else { "queue" };
    let unmatched = names
        .iter()
        .filter_map(|name| Some((name, why_no_user(configuration, name)?)));
    let finding = |(name, why): (&String, String)| {
        Finding::warning(
            "queue_name_unmatched",
            format!("{key}: \"{name}\" matches no user: {why}"),
        )
        .at(lines.of(section, key))
        .change("write the name as `crossload queue whoami` prints it, or an attribute or group with its organisation")
    };
    unmatched.map(finding).collect()
}

/// Why no user has this name; `None` if one can.
fn why_no_user(configuration: &Configuration, name: &str) -> Option<String> {
    let has_file = configuration.tokens.scitokens_file.is_some();
    let mut issuers = configuration.issuers.iter();
    if name == "*" || name == "anonymous" && configuration.queue.anonymous {
        return None;
    }
    if let Some((_, issuer)) = name.split_once("@https://") {
        let url = format!("https://{issuer}");
        let is_known = issuers.any(|issuer| issuer.url == url) || has_file;
        return (!is_known).then(|| format!("tokens of {url} are not accepted"));
    }
    if !name.starts_with('/') {
        return Some("it is no name of a certificate, no attribute or group, and no subject@issuer".to_owned());
    }
    let takes_certificates = configuration.x509.trust_directory.is_some();
    let organisation = name.trim_start_matches('/').split('/').next();
    let is_group = issuers.any(|issuer| issuer.vo.as_deref() == organisation) || has_file;
    // A name of a certificate has attributes (`/DC=org/CN=Jane`), and so has a role.
    (!takes_certificates && !is_group)
        .then(|| "certificates are not accepted, and no [[issuer]] has this organisation as its vo".to_owned())
}

fn subscribers(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let (own, mut findings) = (&configuration.messages, Vec::new());
    for (key, failure) in messages::file_faults(configuration) {
        let finding = Finding::error("messages_passwords_unusable", failure.words).at(lines.of("messages", key));
        findings.push(finding.change("write user:password into the file, and run chmod 600"));
    }
    let has_users = own.password_file.is_some() || !own.users.is_empty();
    match own.listen.is_empty() {
        true if has_users => {
            let key = if own.users.is_empty() { "password_file" } else { "users" };
            let finding = Finding::warning("messages_unused", format!("{key} has no effect: nothing listens"));
            findings.push(finding.at(lines.of("messages", key)).change("set listen in [messages]"));
        }
        false if messages_warning(configuration).is_some() => {
            let says = "everyone may subscribe to the messages about all users";
            let finding = Finding::warning("messages_open", says).at(lines.of("messages", "listen"));
            findings.push(finding.change("set password_file or users in [messages]"));
        }
        _ => {}
    }
    if own.brokers.is_empty() && own.broker_password_file.is_some() {
        let says = "broker_password_file has no effect: there are no brokers";
        let finding = Finding::warning("messages_unused", says).at(lines.of("messages", "broker_password_file"));
        findings.push(finding.change("set brokers in [messages]"));
    }
    let brokers = own.brokers.iter().filter_map(|url| Broker::parse(url));
    for says in brokers.filter_map(|broker| clear_text_warning(&broker, own.broker_password_file.is_some())) {
        let finding = Finding::warning("messages_clear_text", says).at(lines.of("messages", "brokers"));
        findings.push(finding.change(USE_TLS));
    }
    findings.extend(unmatched(configuration, "users", &own.users, lines));
    findings
}
