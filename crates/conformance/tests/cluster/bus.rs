//! Nodes that a redirector finds over NATS, with users and permissions as `docs/cluster.md`
//! recommends them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use conformance::{Lab, log_lines, until};
use serde_json::Value;
use testkit::{Crossload, CrossloadOptions, NatsOptions, NatsProof, NatsServer, NatsTls, NatsUser, Result};

use crate::site::PATIENCE;

/// A node that joins is used within this time.
pub(crate) const JOIN_TIME: Duration = Duration::from_secs(1);
/// A node that dies is left out within this time.
pub(crate) const LOSS_TIME: Duration = Duration::from_secs(3);
/// What programs that tests start, and a busy machine, may take in addition.
pub(crate) const SPARE_TIME: Duration = Duration::from_secs(7);

/// Any client of this machine may drain a node.
const OPERATED: &str = "[cluster]\noperators = [\"anyone\"]\ndrain_grace = \"0s\"\n";

/// How to start a site.
pub(crate) struct BusShape {
    /// Nodes in the configuration of the redirector.
    pub(crate) nodes: usize,
    /// How many of them are started.
    pub(crate) started: usize,
    /// Whether the bus has TLS.
    pub(crate) tls: bool,
    /// Trees that the redirector gives to each node.
    pub(crate) exports: fn(usize) -> &'static str,
    /// Which nodes are on the bus; the redirector asks the others directly.
    pub(crate) on_bus: fn(usize) -> bool,
    /// Further sections of the redirector.
    pub(crate) more: String,
}

impl Default for BusShape {
    fn default() -> Self {
        Self {
            nodes: 3,
            started: 3,
            tls: false,
            exports: |_| "/data",
            on_bus: |_| true,
            more: String::new(),
        }
    }
}

/// A bus, nodes and a redirector.
pub(crate) struct BusSite {
    pub(crate) lab: Lab,
    pub(crate) bus: NatsServer,
    pub(crate) nodes: Vec<Crossload>,
    pub(crate) redirector: Crossload,
    /// Of the nodes, in the configuration of the redirector.
    pub(crate) ports: Vec<u16>,
    /// How the redirector was started.
    pub(crate) options: CrossloadOptions,
    is_tls: bool,
}

/// The name on the bus of the node at a port of this machine.
pub(crate) fn bus_name(port: u16) -> String {
    format!("localhost_{port}")
}

fn user(name: &str, publish: String, subscribe: Vec<String>) -> NatsUser {
    NatsUser {
        name: name.to_owned(),
        proof: NatsProof::Password(password(name)),
        publish: vec![publish],
        subscribe,
    }
}

/// The password of a user of the bus.
fn password(user: &str) -> String {
    format!("password-of-{user}")
}

/// The users of the bus: redirectors, a node at each port, and `stranger`, who is a node as well.
fn users(ports: &[u16]) -> Vec<NatsUser> {
    let node = |name: &str| {
        let heard = vec![format!("crossload.to.{name}"), "crossload.all.>".to_owned()];
        user(name, format!("crossload.from.{name}.>"), heard)
    };
    let mut users = vec![
        user(
            "redirector",
            "crossload.>".to_owned(),
            vec!["crossload.from.>".to_owned()],
        ),
        node("stranger"),
    ];
    users.extend(ports.iter().map(|port| node(&bus_name(*port))));
    users
}

impl BusSite {
    /// Starts all, and waits until the redirector knows the nodes.
    pub(crate) fn start(shape: &BusShape) -> Result<Self> {
        Self::start_in(Lab::new("bus")?, shape)
    }

    /// The same with the files of this lab.
    pub(crate) fn start_in(lab: Lab, shape: &BusShape) -> Result<Self> {
        let ports = (0..shape.nodes).map(|_| testkit::free_port());
        let ports = ports.collect::<Result<Vec<u16>>>()?;
        let tls = shape.tls.then(|| NatsTls {
            certificate: lab.host().clone(),
            authority: lab.authority().ca_file(),
            verifies: false,
        });
        let options = NatsOptions {
            users: users(&ports),
            tls,
            ..NatsOptions::default()
        };
        let bus = NatsServer::start(&lab.fresh("nats"), &options)?;
        let mut options = lab.options("redirector");
        options.exports.clear();
        // What it would issue is not good on the nodes.
        options.macaroons = false;
        options.more = "[redirector]\npath = \"/data\"\nanonymous = \"write\"\n".to_owned();
        for (number, port) in ports.iter().enumerate() {
            let exports = (shape.exports)(number);
            let node = format!("[[node]]\nurl = \"https://localhost:{port}\"\nexports = [{exports:?}]\n");
            options.more.push_str(&node);
            if !(shape.on_bus)(number) {
                options.more.push_str("bus = false\n");
            }
        }
        options
            .more
            .push_str(&bus_section(&lab, &bus, "redirector", None, shape.tls));
        options.more.push_str(&shape.more);
        let mut nodes = Vec::new();
        for (number, port) in ports.iter().enumerate().take(shape.started) {
            let name = bus_name(*port);
            let mut options = node_options(&lab, &bus, *port, &name, &name, shape.tls);
            if !(shape.on_bus)(number) {
                OPERATED.clone_into(&mut options.more);
            }
            nodes.push(Crossload::start(options)?);
        }
        let this = Self {
            redirector: Crossload::start(options.clone())?,
            lab,
            bus,
            nodes,
            ports,
            options,
            is_tls: shape.tls,
        };
        until("all nodes are known", PATIENCE, || this.came() >= shape.started);
        Ok(this)
    }

    /// Options of the node at a port, which logs in to the bus as `user`.
    pub(crate) fn node_options(&self, port: u16, name: &str, user: &str) -> CrossloadOptions {
        node_options(&self.lab, &self.bus, port, name, user, self.is_tls)
    }

    /// Starts the next node of the configuration that does not run yet.
    pub(crate) fn start_next(&mut self) -> Result<()> {
        let port = self.ports[self.nodes.len()];
        let name = bus_name(port);
        let node = Crossload::start(self.node_options(port, &name, &name))?;
        self.nodes.push(node);
        Ok(())
    }

    /// The URL of a name at the redirector.
    pub(crate) fn url(&self, name: &str) -> String {
        self.redirector.url(&format!("/data/{name}"))
    }

    /// The URL of a name at a node.
    pub(crate) fn at(&self, node: usize, name: &str) -> String {
        self.nodes[node].url(&format!("/data/{name}"))
    }

    /// Stores a file through the door of a node.
    #[track_caller]
    pub(crate) fn put(&self, node: usize, name: &str, content: &[u8]) {
        let answer = self.lab.upload(&self.at(node, name), content, &[]);
        assert!(matches!(answer.status, 201 | 204), "{} {}", answer.heads, answer.text());
    }

    /// The node to which the redirector sends a reader, or the status of another answer.
    pub(crate) fn reader_of(&self, name: &str) -> std::result::Result<usize, u16> {
        self.reader_at(&self.redirector, name)
    }

    /// The same at another redirector.
    pub(crate) fn reader_at(&self, redirector: &Crossload, name: &str) -> std::result::Result<usize, u16> {
        let answer = self.lab.request("GET", &redirector.url(&format!("/data/{name}")), &[]);
        let location = answer.header("location").unwrap_or_default();
        let leads_to = |port: &u16| location.contains(&format!(":{port}/"));
        self.ports.iter().position(leads_to).ok_or(answer.status)
    }

    /// The numbers of the nodes that have a name.
    pub(crate) fn having(&self, name: &str) -> Vec<usize> {
        let has = |(number, node): (usize, &Crossload)| node.data().join(name).exists().then_some(number);
        self.nodes.iter().enumerate().filter_map(has).collect()
    }

    /// How often the redirector has logged this event.
    pub(crate) fn logged(&self, event: &str) -> usize {
        logged(&self.redirector, event).len()
    }

    fn came(&self) -> usize {
        self.logged("node_came")
    }

    /// The value of a metric without labels; `None` if there is none.
    pub(crate) fn metric(&self, server: &Crossload, name: &str) -> Option<f64> {
        let url = server.admin_url("/metrics").expect("an admin door");
        let text = self.lab.request("GET", &url, &[]).expect(200).text();
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// The text of `/ready`, which is ready.
    #[track_caller]
    pub(crate) fn ready(&self, server: &Crossload) -> String {
        let url = server.admin_url("/ready").expect("an admin door");
        self.lab.request("GET", &url, &[]).expect(200).text()
    }
}

/// The events of this name in the log of a server.
pub(crate) fn logged(server: &Crossload, event: &str) -> Vec<Value> {
    let mut lines = log_lines(server.log());
    lines.retain(|line| line["event"] == event);
    lines
}

fn password_file(lab: &Lab, user: &str) -> PathBuf {
    let file = lab.file(password(user).as_bytes());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    file
}

/// The section for a user of the bus; `name` is that of a node.
pub(crate) fn bus_section(lab: &Lab, bus: &NatsServer, user: &str, name: Option<&str>, is_tls: bool) -> String {
    let file = password_file(lab, user);
    let access = match is_tls {
        true => format!("ca_files = [{:?}]", lab.authority().ca_file()),
        false => "clear_text = true".to_owned(),
    };
    let name = name.map_or_else(String::new, |name| format!("name = {name:?}\n"));
    format!(
        "[bus]\nservers = [{:?}]\nuser = {user:?}\npassword_file = {file:?}\n{access}\n{name}",
        bus.url()
    )
}

fn node_options(lab: &Lab, bus: &NatsServer, port: u16, name: &str, user: &str, is_tls: bool) -> CrossloadOptions {
    let mut options = lab.options("node");
    options.macaroons = false;
    options.port = port;
    let section = bus_section(lab, bus, user, Some(name), is_tls);
    options.more = format!("{section}{OPERATED}");
    options
}
