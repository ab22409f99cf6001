//! Three nodes and a redirector, all over TLS, on free ports of loopback.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use conformance::{Lab, until};
use testkit::{Access, Crossload, Result};

/// How long a test waits for what takes a moment.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The nodes, and the redirector that sends clients to them. Names below `/data` are everywhere.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Crossload>,
    pub(crate) redirector: Crossload,
}

/// How to start a cluster.
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    /// What anonymous clients may do on the nodes.
    pub(crate) on_nodes: Access,
    /// What anonymous clients may do at the redirector.
    pub(crate) anonymous: &'static str,
    /// Further sections of each node, by its URL.
    pub(crate) more: Box<dyn Fn(&str) -> String>,
    /// Further lines and sections of the redirector, behind `[redirector]`.
    pub(crate) redirector: String,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            nodes: 3,
            on_nodes: Access::Write,
            anonymous: "write",
            more: Box::new(|_| String::new()),
            redirector: String::new(),
        }
    }
}

impl Cluster {
    /// Starts the nodes, then the redirector, and waits until it has looked at all of them.
    pub(crate) fn start(lab: &Lab, shape: &Shape) -> Result<Self> {
        // What the redirector issues is good on the nodes, if they share its secret.
        let secret = lab.file(format!("{}\n", "c2VjcmV0".repeat(11)).as_bytes());
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600))?;
        let macaroons = format!("[macaroons]\nsecret_file = {secret:?}\n");
        let mut nodes = Vec::new();
        for number in 0..shape.nodes {
            let mut options = lab.options(&format!("node-{number}"));
            options.exports[0].anonymous = shape.on_nodes;
            options.port = testkit::free_port()?;
            options.macaroons = false;
            let more = (shape.more)(&format!("https://localhost:{}", options.port));
            options.more = format!("{macaroons}{more}");
            nodes.push(Crossload::start(options)?);
        }
        let mut options = lab.options("redirector");
        options.exports.clear();
        options.macaroons = false;
        options.more = format!(
            "{macaroons}[redirector]\npath = \"/data\"\nanonymous = {:?}\n{}\n",
            shape.anonymous, shape.redirector
        );
        for node in &nodes {
            options.more.push_str(&format!("[[node]]\nurl = {:?}\n", node.url("")));
        }
        let this = Self {
            nodes,
            redirector: Crossload::start(options)?,
        };
        until("all nodes are known", PATIENCE, || this.came() == shape.nodes);
        Ok(this)
    }

    /// How often the redirector has noticed that a node came.
    pub(crate) fn came(&self) -> usize {
        self.redirector
            .log()
            .stderr()
            .matches("\"event\":\"node_came\"")
            .count()
    }

    /// The URL of a name at the redirector.
    pub(crate) fn url(&self, name: &str) -> String {
        self.redirector.url(&format!("/data/{name}"))
    }

    /// The numbers of the nodes that have a name.
    pub(crate) fn having(&self, name: &str) -> Vec<usize> {
        let has = |(number, node): (usize, &Crossload)| node.data().join(name).exists().then_some(number);
        self.nodes.iter().enumerate().filter_map(has).collect()
    }

    /// Stores a file on one node, behind the redirector's back.
    pub(crate) fn put(&self, node: usize, name: &str, content: &[u8]) {
        let path = self.nodes[node].data().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }

    /// The content of a name on one node.
    pub(crate) fn stored(&self, node: usize, name: &str) -> Vec<u8> {
        std::fs::read(self.nodes[node].data().join(name)).unwrap_or_default()
    }
}
