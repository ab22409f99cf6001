//! An endpoint, a redirector and a queue that have done a bit of everything, for those who watch.

use std::net::UdpSocket;
use std::time::Duration;

use conformance::{Lab, bytes, last_line, run, until};
use testkit::{Crossload, Queue, Result};

const SOON: Duration = Duration::from_secs(30);
const FILE_BYTES: usize = 200_000;

/// The servers.
pub(crate) struct Watched {
    pub(crate) lab: Lab,
    pub(crate) endpoint: Crossload,
    pub(crate) redirector: Crossload,
    pub(crate) queue: Queue,
    /// It hears what the endpoint reports.
    _receiver: UdpSocket,
    /// The server behind one of the endpoint's exports.
    behind: Crossload,
}

impl Watched {
    pub(crate) fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let behind = lab.crossload(lab.options("behind"))?;
        std::fs::write(behind.data().join("f"), bytes(FILE_BYTES, 6))?;
        let receiver = UdpSocket::bind("127.0.0.1:0")?;
        let endpoint = lab.crossload(endpoint(&lab, &behind, receiver.local_addr()?.port()))?;
        let mut options = lab.options("redirector");
        options.exports.clear();
        options.more = format!(
            "[redirector]\npath = \"/data\"\nanonymous = \"write\"\n[[node]]\nurl = {:?}\n",
            endpoint.url("")
        );
        let redirector = lab.crossload(options)?;
        let queue = Queue::start(lab.queue_options("anonymous = true\noperators = [\"*\"]\n"))?;
        let this = Self {
            lab,
            endpoint,
            redirector,
            queue,
            _receiver: receiver,
            behind,
        };
        this.use_endpoint();
        this.use_cluster();
        this.use_queue();
        Ok(this)
    }

    /// The admin doors: name and URL of the metrics.
    pub(crate) fn pages(&self) -> [(&'static str, String); 3] {
        let of = |server: &Crossload| server.admin_url("/metrics").expect("an admin door");
        [
            ("endpoint", of(&self.endpoint)),
            ("redirector", of(&self.redirector)),
            ("queue", self.queue.admin_url("/metrics")),
        ]
    }

    fn use_endpoint(&self) {
        let (lab, server) = (&self.lab, &self.endpoint);
        let url = |name: &str| server.url(&format!("/data/{name}"));
        lab.upload(&url("file"), &bytes(FILE_BYTES, 5), &[]).expect(201);
        lab.curl(&[&url("file")]).expect(200);
        lab.curl(&[&url("missing")]).expect(404);
        let root = format!("roots://localhost:{}//data/file", server.port());
        let local = lab.fresh("local");
        lab.run_client("copy", &[&root, &local.to_string_lossy()]).succeeded();
        let source = format!("Source: {}", self.behind.url("/data/f"));
        let copied = lab.copy(&url("copied"), &source, &[]);
        assert!(last_line(&copied).starts_with("success"), "{}", copied.text());
        lab.copy(&url("failed"), "Source: https://localhost:1/x", &[]);
        for name in ["cached", "far"] {
            lab.curl(&[&server.url(&format!("/{name}/f"))]).expect(200);
        }
    }

    fn use_cluster(&self) {
        let url = self.redirector.url("/data/file");
        until("the redirector knows its node", SOON, || {
            self.lab.curl(&["-L", &url]).status == 200
        });
        self.lab.curl(&[&self.redirector.url("/data/missing")]).expect(404);
    }

    /// One file arrives, one fails for good, and one waits: its storages are banned.
    fn use_queue(&self) {
        let lab = &self.lab;
        let queue = self.queue.url();
        let ours = |command: &str, more: &[&str]| {
            let words = ["queue"].into_iter().chain(command.split(' '));
            let mut program = lab.client(words.chain(["-s", &queue])).expect("built");
            program.args(more);
            run(&program).succeeded().text()
        };
        let url = |name: &str| self.endpoint.url(&format!("/data/{name}"));
        let submit = |from: &str, to: &str| ours("submit", &[&url(from), &url(to)]).trim().to_owned();
        submit("file", "arrived");
        submit("missing", "never");
        until("both have ended", SOON, || {
            let page = lab.curl(&[&self.queue.admin_url("/metrics")]).text();
            let has = |line: &str| page.lines().any(|have| have.starts_with(line));
            has("crossload_queue_finished_total 1") && has("crossload_queue_failures_total{outcome=\"failed\"")
        });
        let storage = format!("https://localhost:{}", self.endpoint.port());
        ours("pause", &[&storage, &storage]);
        submit("file", "waits");
        ours("webhooks add", &["--vo", "anonymous", "https://monitor.example.org/x"]);
    }
}

fn endpoint(lab: &Lab, behind: &Crossload, receiver: u16) -> testkit::CrossloadOptions {
    let mut options = lab.options("endpoint");
    options.exports[0].quota_bytes = 1 << 30;
    let (cached, cache) = (lab.fresh("slow"), lab.fresh("cache"));
    for directory in [&cached, &cache] {
        std::fs::create_dir_all(directory).expect("a directory");
    }
    std::fs::write(cached.join("f"), bytes(FILE_BYTES, 7)).expect("a file");
    options.more = format!(
        "[x509]\ntrust_directory = {:?}\n[[quota]]\nvo = \"atlas\"\npath = \"/data/atlas\"\nbytes = 1000000\n\
         [monitoring]\ndestinations = [\"127.0.0.1:{receiver}\"]\nflush_interval = \"1s\"\n\
         broker = \"stomp://127.0.0.1:1\"\nspool = {:?}\n\
         [[export]]\npath = \"/cached\"\ndirectory = {cached:?}\nanonymous = \"read\"\nread_only = true\n\
         cache_directory = {cache:?}\ncache_size_bytes = \"1GiB\"\n\
         [[export]]\npath = \"/far\"\nremote = {:?}\nanonymous = \"write\"\n",
        lab.authority().trust_directory(),
        // Its broker is away, so that packets wait.
        lab.fresh("spool"),
        behind.url("/data"),
    );
    options
}
