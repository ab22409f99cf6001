//! Finds rights that are wider or narrower than probably intended.

use config::Configuration;
use policy::{AnonymousAccess, Area, Who};
use types::LogicalPath;

use super::finding::Finding;
use super::lines::Lines;
use crate::server::rules::meets;

/// Checks rights, and the doors that serve them.
pub(crate) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = exports(configuration, lines);
    findings.extend(rules(configuration, lines));
    findings.extend(doors(configuration, lines));
    findings
}

/// A tree that clients see: an export, or that of a redirector.
pub(super) struct Tree<'a> {
    pub(super) path: &'a LogicalPath,
    anonymous: AnonymousAccess,
    read_only: bool,
    section: &'static str,
    index: usize,
}

/// All trees.
pub(super) fn trees(configuration: &Configuration) -> Vec<Tree<'_>> {
    let exports = configuration.exports.iter().enumerate().map(|(index, export)| Tree {
        path: &export.path,
        anonymous: export.anonymous,
        read_only: export.is_read_only(),
        section: "export",
        index,
    });
    let redirector = &configuration.redirector;
    let redirected = (!configuration.nodes.is_empty()).then_some(Tree {
        path: &redirector.path,
        anonymous: redirector.anonymous,
        read_only: redirector.read_only,
        section: "redirector",
        index: 0,
    });
    exports.chain(redirected).collect()
}

fn exports(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    let trees = trees(configuration);
    if trees.is_empty() {
        let finding = Finding::error("nothing_exported", "no export").at(lines.of("export", "path"));
        findings.push(finding.change("add an [[export]] section with path and directory"));
    }
    let has_credentials = takes_credentials(configuration);
    for tree in trees {
        let position = |key: &str| lines.of_item(tree.section, tree.index, key);
        let path = tree.path;
        match tree.anonymous {
            AnonymousAccess::Write if tree.read_only => {
                let says = format!("anonymous = \"write\" has no effect in {path}, which is read-only");
                let finding = Finding::warning("anonymous_write_void", says).at(position("anonymous"));
                findings.push(finding.change("set anonymous = \"read\", or read_only = false"));
            }
            AnonymousAccess::Write => {
                let says = format!("anyone who can connect may write to {path} and delete everything in it");
                let finding = Finding::warning("anonymous_write", says).at(position("anonymous"));
                findings.push(finding.change("set anonymous = \"read\" or \"none\" unless this is a test"));
            }
            AnonymousAccess::None if !has_credentials => {
                let says =
                    format!("no client can use {path}: anonymous access is off, and no rule or token gives rights");
                let finding = Finding::warning("export_no_clients", says).at(position("anonymous"));
                findings.push(
                    finding.change(
                        "set macaroons.secret_file, add an [[issuer]] or a [[rule]], or set anonymous = \"read\"",
                    ),
                );
            }
            AnonymousAccess::Read | AnonymousAccess::None => {}
        }
    }
    findings
}

/// Whether any credential or rule, or another server, can give rights.
pub(crate) fn takes_credentials(configuration: &Configuration) -> bool {
    let by_others = configuration.hand_over.takes_clients_of_others();
    let by_rule = !configuration.rules.is_empty() || configuration.policy.authdb_file.is_some();
    let by_issuer = !configuration.issuers.is_empty() || configuration.tokens.scitokens_file.is_some();
    by_others || by_rule || by_issuer || configuration.macaroons.secret_file.is_some()
}

/// Rules that can never match.
fn rules(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let trees = trees(configuration);
    let mut findings = Vec::new();
    let mut end = None;
    for (index, rule) in configuration.policy_rules().iter().enumerate() {
        let number = index + 1;
        let place = |key: &str| lines.of_item("rule", index, key);
        let area = rule.area.to_string();
        if let Some(end) = end {
            let says = format!("rule {number} is never reached: rule {end} is the last one for everyone, everywhere");
            let finding = Finding::warning("rule_never_reached", says).at(place("who"));
            findings.push(finding.change(format!("move it before rule {end}, or remove it")));
        } else if !trees.iter().any(|tree| meets(&area, tree.path.as_str())) {
            let says = format!("rule {number} has no effect: {area} is in no export");
            let finding = Finding::warning("rule_outside", says).at(place("path"));
            findings.push(finding.change("use a path that begins with that of an export"));
        }
        let why = rule.who.iter().find_map(|who| why_no_client(who, configuration));
        if let Some((why, change)) = why {
            let says = format!("rule {number} is for no client: {why}");
            findings.push(
                Finding::warning("rule_no_clients", says)
                    .at(place("who"))
                    .change(change),
            );
        }
        let is_for_all = rule.who == [Who::Anyone] && rule.area == Area::everything() && rule.except.is_empty();
        if rule.last && is_for_all {
            end.get_or_insert(number);
        }
    }
    findings
}

/// Why no client can be one that a rule is for, and the remedy; `None` if one can.
fn why_no_client(who: &Who, configuration: &Configuration) -> Option<(String, String)> {
    // Names that a redirector or a file of issuers gives are not known here.
    if configuration.hand_over.accept_as.is_some() || configuration.tokens.scitokens_file.is_some() {
        return None;
    }
    let issuers = &configuration.issuers;
    let has_attributes = configuration.x509.can_verify() && configuration.x509.voms_directory.is_some();
    let told = |why: String, change: String| Some((why, change));
    match who {
        Who::Vo(vo) if !has_attributes && !issuers.iter().any(|issuer| issuer.vo.as_deref() == Some(vo)) => told(
            format!("neither certificates nor tokens give the organisation {vo}"),
            format!("set x509.voms_directory, or vo = \"{vo}\" at its [[issuer]]"),
        ),
        Who::Fqan(_) | Who::Role(_) if !has_attributes => told(
            "certificates carry no attributes of VOMS here".to_owned(),
            "set x509.trust_directory and x509.voms_directory".to_owned(),
        ),
        Who::Issuer(url) if !issuers.iter().any(|issuer| issuer.url == *url) => told(
            format!("tokens of {url} are not accepted"),
            "add an [[issuer]] with this url".to_owned(),
        ),
        _ => None,
    }
}

fn doors(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    let server = &configuration.server;
    let is_reachable = server.listen.iter().any(|address| !address.ip().is_loopback());
    if let Some(admin) = server.admin_listen.filter(|admin| !admin.ip().is_loopback()) {
        let says =
            format!("anyone who can connect to {admin} gets metrics, explanations and lines of the log, in clear text");
        let finding = Finding::warning("admin_open", says).at(lines.of("server", "admin_listen"));
        findings.push(finding.change("listen on 127.0.0.1, or protect the port by a firewall"));
    }
    if server.certificate.is_none() && is_reachable {
        let says = "no certificate: tokens and data go over the network in clear text";
        let finding = Finding::warning("no_certificate", says).at(lines.of("server", "certificate"));
        findings.push(finding.change("set server.certificate and server.key"));
    }
    if configuration.tpc.allow_local_peers && is_reachable {
        let says = "clients can make this server connect to services on its own loopback addresses";
        let finding = Finding::warning("local_peers_allowed", says).at(lines.of("tpc", "allow_local_peers"));
        findings.push(finding.change("set tpc.allow_local_peers = false"));
    }
    if server.name.is_none() && configuration.macaroons.secret_file.is_some() {
        let says = "server.name is not set: macaroons do not say which server issued them";
        let finding = Finding::note("no_name", says).at(lines.of("server", "name"));
        findings.push(finding.change("set server.name = \"https://host:port\""));
    }
    if server.name.is_some() && !is_reachable {
        let says = "the server has a name, but listens on loopback addresses only: other hosts cannot connect";
        let finding = Finding::note("loopback_only", says).at(lines.of("server", "listen"));
        findings.push(finding.change("set server.listen = [\"[::]:443\"], unless a proxy forwards to it"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirector_is_judged_by_its_tree() {
        let codes = |text: &str| {
            let configuration = Configuration::parse(text, std::path::Path::new("/"), "test").expect("valid");
            let lines = Lines::new(std::path::Path::new("test"), text.to_owned());
            let findings = exports(&configuration, &lines)
                .into_iter()
                .chain(rules(&configuration, &lines));
            findings.map(|finding| finding.code).collect::<Vec<_>>()
        };
        let node = "[[node]]\nurl = \"https://d1\"\n";
        assert_eq!(codes("[redirector]\npath = \"/data\"\n"), ["nothing_exported"]);
        assert_eq!(
            codes(&format!("{node}[redirector]\nanonymous = \"write\"\n")),
            ["anonymous_write"]
        );
        assert_eq!(codes(node), ["export_no_clients"]);
        // A node for whose clients its redirector judges.
        let export = "[[export]]\npath = \"/data\"\ndirectory = \"/d\"\nanonymous = \"none\"\n";
        assert_eq!(codes(export), ["export_no_clients"]);
        let judged = "[hand_over]\nkey_file = \"k\"\naccept_as = \"https://d1.example:1094\"\n";
        assert_eq!(codes(&format!("{export}{judged}")), [""; 0]);
        let rule = |path: &str| format!("[[rule]]\nwho = \"anyone\"\npath = \"{path}\"\nmay = [\"read\"]\n");
        let tree = format!("{node}[redirector]\npath = \"/data\"\n");
        assert_eq!(codes(&format!("{tree}{}", rule("/data/a"))), [""; 0]);
        assert_eq!(codes(&format!("{tree}{}", rule("/other"))), ["rule_outside"]);
        let voms = "[x509]\nsystem_authorities = true\nvoms_directory = \"/v\"\n";
        let issuer = "[[issuer]]\nurl = \"https://i\"\nvo = \"atlas\"\n";
        for (who, enough) in [
            ("vo:atlas", voms),
            ("vo:atlas", issuer),
            ("fqan:/atlas/*", voms),
            ("issuer:https://i", issuer),
        ] {
            let rule = rule("/data").replace("anyone", who);
            assert_eq!(codes(&format!("{tree}{rule}")), ["rule_no_clients"], "{who}");
            assert_eq!(codes(&format!("{tree}{rule}{enough}")), [""; 0], "{who}");
        }
    }
}
