//! Checks the message bus: whether its servers take this one, and allow what it needs.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::nats::announcement::Announcement;
use cluster::nats::trial::{Refusal, ServerPlace, Trial, Unusable, as_node, as_redirector};
use cluster::nats::{Access, BusName, Subjects};
use config::{Bus, Configuration};
use net::address::AddressPolicy;
use net::dial::dial;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use types::{Location, Side, is_loopback_host};

use super::finding::Finding;
use super::lines::Lines;
use crate::server::{bus_access, bus_name, bus_subjects, bus_unusable};

/// Time limit of a connection, and of the greeting.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// Longest greeting.
const GREETING_BYTES_MAX: usize = 16 * 1024;

/// The nodes that announced themselves, by their names on the bus.
pub(super) type Announced = BTreeMap<String, Announcement>;

/// What can be said without network.
pub(super) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let bus = &configuration.bus;
    let mut findings = Vec::new();
    if bus.servers.is_empty() {
        return findings;
    }
    for server in &bus.servers {
        match ServerPlace::parse(server) {
            None => {
                let says = format!("\"{server}\" is not a server of NATS");
                let finding = Finding::error("bus_server_malformed", says).at(lines.of("bus", "servers"));
                findings.push(finding.change("write it as \"tls://bus.example.org:4222\""));
            }
            Some(place) if bus.clear_text && bus.password_file.is_some() && !is_loopback_host(&place.host) => {
                let says = format!("the password for the message bus goes to {} in clear text", place.host);
                let finding = Finding::warning("bus_clear_text", says).at(lines.of("bus", "clear_text"));
                findings.push(finding.change("set `tls` in nats-server.conf, and remove clear_text"));
            }
            Some(_) => {}
        }
    }
    findings.extend(unusual_name(configuration, lines));
    findings.extend(same_names(configuration, lines));
    findings
}

/// Redirectors expect a node's name to follow from its URL.
fn unusual_name(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let name = configuration.bus.name.as_ref()?;
    let known = configuration.server.name.as_deref()?;
    let place = Location::parse(known).ok()?;
    let expected = BusName::of_url(&format!("{}:{}", place.host(), place.port()))?;
    let is_node = !configuration.exports.is_empty() && expected.as_str() != name;
    is_node.then(|| {
        let says = format!("the name on the message bus is {name}, but redirectors expect {expected} for {known}");
        let change = format!("set name = \"{expected}\", or bus_name = \"{name}\" at the redirectors' [[node]]");
        Finding::note("bus_name_unusual", says)
            .at(lines.of("bus", "name"))
            .change(change)
    })
}

fn same_names(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut known = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, node) in configuration.nodes.iter().enumerate().filter(|(_, node)| node.bus) {
        let position = || lines.of_item("node", index, "bus_name");
        match bus_name(node) {
            Err(failure) => findings.push(
                Finding::error("bus_name_malformed", failure.words)
                    .at(position())
                    .change(
                        "choose a name of at most 64 letters, digits, - and _, and set it as the node's [bus] name",
                    ),
            ),
            Ok(name) => {
                if let Some(other) = known.insert(name.clone(), &node.url) {
                    let says = format!("{other} and {} have the same name on the message bus: {name}", node.url);
                    let finding = Finding::error("bus_name_twice", says).at(position());
                    findings.push(finding.change("give each node its own [bus] name, and bus_name here"));
                }
            }
        }
    }
    findings
}

/// Connects to each server, and tries what this server needs. Answers also which nodes are there,
/// if this is a redirector and the bus works.
pub(super) async fn check_servers(configuration: &Configuration, lines: &Lines) -> (Vec<Finding>, Option<Announced>) {
    let bus = &configuration.bus;
    let (Ok(Some(access)), Ok(subjects)) = (bus_access(bus), bus_subjects(bus)) else {
        // No bus, or files that another check reports.
        return (Vec::new(), None);
    };
    let (mut findings, mut announced) = (Vec::new(), None);
    for server in &bus.servers {
        let one = Server {
            bus,
            lines,
            server,
            subjects: &subjects,
            access: Access {
                servers: vec![server.clone()],
                ..access.clone()
            },
        };
        if let Err(finding) = one.greeting().await {
            findings.push(finding);
            continue;
        }
        if let (Some(name), false) = (&bus.name, configuration.exports.is_empty())
            && let Some(name) = BusName::parse(name)
        {
            let exports: Vec<_> = configuration.exports.iter().map(|export| export.path.clone()).collect();
            let tried = as_node(&one.access, &subjects, &name, &exports).await;
            findings.extend(one.judge(tried.as_ref(), Some(&name)));
        }
        if !configuration.nodes.is_empty() {
            let nodes = configuration.nodes.iter().filter(|node| node.bus);
            let wanted: Vec<BusName> = nodes.filter_map(|node| bus_name(node).ok()).collect();
            let tried = as_redirector(&one.access, &subjects, &wanted).await;
            findings.extend(one.judge(tried.as_ref(), None));
            if let Ok(trial) = tried.as_ref()
                && trial.refused.is_empty()
            {
                announced
                    .get_or_insert_with(Announced::new)
                    .extend(trial.announced.clone());
            }
        }
    }
    (findings, announced)
}

/// One server of the bus.
struct Server<'a> {
    bus: &'a Bus,
    lines: &'a Lines,
    server: &'a str,
    subjects: &'a Subjects,
    access: Access,
}

/// What a server says before anything else.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Greeting {
    version: String,
    auth_required: bool,
    tls_required: bool,
    tls_available: bool,
}

impl Server<'_> {
    fn finding(&self, code: &'static str, says: String, key: &str, change: &str) -> Finding {
        Finding::error(code, says).at(self.lines.of("bus", key)).change(change)
    }

    /// Whether it is there, is a server of NATS, and offers TLS where that is wanted.
    async fn greeting(&self) -> Result<(), Finding> {
        let server = self.server;
        let Some(place) = ServerPlace::parse(server) else {
            // Reported without network.
            return Err(Finding::note("bus_not_tried", format!("{server} was not tried")));
        };
        let connected = dial(&place.host, place.port, AddressPolicy::ANY, GREETING_TIME, Side::Active).await;
        let mut stream = connected.map_err(|error| {
            let change = "start nats-server there, correct servers, or open its port in the firewall; nodes and \
                          redirectors go on trying";
            let says = format!("the message bus {server} cannot be reached: {error}");
            self.finding("bus_unreachable", says, "servers", change)
        })?;
        let mut said = Vec::new();
        let reading = async {
            while !said.contains(&b'\n') && said.len() < GREETING_BYTES_MAX {
                if stream.read_buf(&mut said).await.unwrap_or(0) == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(GREETING_TIME, reading).await;
        let greeting = said.strip_prefix(b"INFO ").and_then(|said| {
            let line = said.split(|byte| *byte == b'\n').next()?;
            serde_json::from_slice::<Greeting>(line).ok()
        });
        let Some(greeting) = greeting else {
            let says = format!("at {server} is no server of NATS: it does not greet as one");
            return Err(self.finding(
                "bus_not_nats",
                says,
                "servers",
                "correct host and port; NATS usually has 4222",
            ));
        };
        if self.access.requires_tls && !greeting.tls_required && !greeting.tls_available {
            let says = format!("the message bus {server} has no TLS");
            let change = "set `tls` in nats-server.conf; on a network that you trust, set clear_text = true here";
            return Err(self.finding("bus_without_tls", says, "servers", change));
        }
        Ok(())
    }

    /// What a trial means; with `node` as that node, otherwise as a redirector.
    fn judge(&self, tried: Result<&Trial, &Unusable>, node: Option<&BusName>) -> Vec<Finding> {
        let trial = match tried {
            Ok(trial) => trial,
            Err(unusable) => return vec![self.kept_out(unusable)],
        };
        let mut findings: Vec<Finding> = [true, false]
            .into_iter()
            .filter_map(|is_publishing| self.refused(&trial.refused, is_publishing, node))
            .collect();
        if trial.speaks_for_others {
            let says = format!("{} may speak for every node on the message bus", self.user());
            let change = format!("limit it in nats-server.conf: {}", self.permissions(true, node));
            findings.push(
                Finding::warning("bus_unprotected", says)
                    .at(self.lines.of("bus", "user"))
                    .change(change),
            );
        }
        findings.extend(trial.doubled.iter().map(|name| {
            let says = format!("two servers use the name {name} on the message bus: redirectors believe neither");
            let change = "give each server its own [bus] name and user; one was copied from the other";
            self.finding("bus_name_doubled", says, "servers", change)
        }));
        if trial.refused.is_empty() {
            let role = node.map_or_else(|| "as a redirector".to_owned(), |name| format!("as node {name}"));
            let says = format!("{} takes us {role}; NATS {}", self.server, trial.version);
            findings.insert(0, Finding::ok("bus", says));
        }
        findings
    }

    fn user(&self) -> String {
        match &self.bus.user {
            Some(user) => format!("the user \"{user}\""),
            None => "this server".to_owned(),
        }
    }

    fn kept_out(&self, unusable: &Unusable) -> Finding {
        let server = self.server;
        match unusable {
            Unusable::Access(fault) => {
                let says = bus_unusable(fault).words;
                self.finding(
                    "bus_unusable",
                    says,
                    "servers",
                    "correct it, or the file that [bus] names",
                )
            }
            Unusable::Unresolved(words) | Unusable::Unreachable(words) => {
                let says = format!("the connection to the message bus {server} fails: {words}");
                let change = "see the log of nats-server; nodes and redirectors go on trying";
                self.finding("bus_unreachable", says, "servers", change)
            }
            Unusable::Tls(words) => {
                let says = format!("TLS with the message bus {server} fails: {words}");
                let change = "name the authority of its certificate in ca_files; the certificate must have the host \
                              of servers; with `verify` in nats-server.conf, set certificate and key";
                self.finding("bus_tls_failed", says, "ca_files", change)
            }
            Unusable::Login(words) => {
                let says = format!("the message bus {server} does not let {} in: {words}", self.user());
                let change = "compare user and password_file with `authorization` in nats-server.conf, and reload \
                              nats-server after a change there";
                self.finding("bus_login_refused", says, "user", change)
            }
        }
    }

    fn refused(&self, refused: &[Refusal], is_publishing: bool, node: Option<&BusName>) -> Option<Finding> {
        let same = refused.iter().filter(|refusal| refusal.is_publishing == is_publishing);
        let subjects: Vec<&str> = same.map(|refusal| refusal.subject.as_str()).collect();
        (!subjects.is_empty()).then(|| {
            let verb = if is_publishing { "publish" } else { "subscribe" };
            let says = format!("{} may not {verb} to {}", self.user(), subjects.join(", "));
            let change = format!(
                "allow it in nats-server.conf: {}",
                self.permissions(is_publishing, node)
            );
            self.finding("bus_refused", says, "user", &change)
        })
    }

    /// The line that `docs/cluster.md` recommends.
    fn permissions(&self, is_publishing: bool, node: Option<&BusName>) -> String {
        let prefix = &self.bus.prefix;
        match (node, is_publishing) {
            (Some(name), true) => format!("publish: \"{prefix}.from.{name}.>\""),
            (Some(name), false) => format!(
                "subscribe: [\"{}\", \"{prefix}.all.>\"]",
                self.subjects.to(name.as_str())
            ),
            (None, true) => format!("publish: \"{prefix}.>\""),
            (None, false) => format!("subscribe: \"{prefix}.from.>\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn codes(text: &str) -> Vec<&'static str> {
        let configuration = Configuration::parse(text, Path::new("/"), "test").expect("valid");
        let lines = Lines::new(Path::new("test"), text.to_owned());
        check(&configuration, &lines)
            .iter()
            .map(|finding| finding.code)
            .collect()
    }

    #[test]
    fn mistakes_are_found_without_network() {
        let user = "user = \"u\"\npassword_file = \"p\"\n";
        let bus = |server: &str, more: &str| format!("[bus]\nservers = [\"{server}\"]\n{more}");
        assert_eq!(codes(""), [""; 0]);
        assert_eq!(codes(&bus("tls://bus.example", user)), [""; 0]);
        assert_eq!(codes(&bus("http://bus.example", "")), ["bus_server_malformed"]);
        let clear = format!("{user}clear_text = true\n");
        assert_eq!(codes(&bus("nats://bus.example", &clear)), ["bus_clear_text"]);
        for near in ["nats://localhost", "nats://127.0.0.1:4222", "nats://[::1]"] {
            assert_eq!(codes(&bus(near, &clear)), [""; 0], "{near}");
        }
        let node = "name = \"d1\"\n[server]\nname = \"https://d1.example:1094\"\n[[export]]\ndirectory = \"d\"\n";
        assert_eq!(codes(&bus("tls://b", node)), ["bus_name_unusual"]);
        let usual = node.replace("\"d1\"", "\"d1_example_1094\"");
        assert_eq!(codes(&bus("tls://b", &usual)), [""; 0]);
        let twice =
            "[[node]]\nurl = \"https://d1\"\nbus_name = \"d\"\n[[node]]\nurl = \"https://d2\"\nbus_name = \"d\"\n";
        assert_eq!(codes(&bus("tls://b", twice)), ["bus_name_twice"]);
        let beside = twice.replacen("bus_name = \"d\"", "bus = false", 1);
        assert_eq!(codes(&bus("tls://b", &beside)), [""; 0]);
        let wrong = "[[node]]\nurl = \"https://d1\"\nbus_name = \"d.1\"\n";
        assert_eq!(codes(&bus("tls://b", wrong)), ["bus_name_malformed"]);
    }
}
