//! SciTags: fireflies as the receiver of the module scitags reads them.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conformance::{Lab, alone, bytes, last_line, log_lines, run, until};
use serde_json::Value;
use testkit::{Crossload, Error, Process, available, require, require_python};

const LIMIT: Duration = Duration::from_secs(60);
const FILE_BYTES: usize = 3_000_000;

/// Prints its port, and each flow that comes there with its usage. The module wants a file of
/// configuration when it is imported.
const RECEIVER: &str = r#"
import json, os, queue, sys, threading, types
config = types.ModuleType("scitags.config")
config.config = {}
sys.modules["scitags.config"] = config
from scitags.plugins import firefly
out = os.fdopen(os.dup(1), "w")
sys.stdout = open(os.devnull, "w")
flows = queue.Queue()

class Handler(firefly.ThreadedUDPRequestHandler):
    def handle(self):
        super().handle()
        text = self.request[0].decode()
        flows.put(json.loads(text[text.index("{"):]))

server = firefly.ThreadedUDPServer(("127.0.0.1", 0), Handler, flows)
print(server.server_address[1], file=out, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
while True:
    flow = flows.get()
    print(json.dumps(flow if isinstance(flow, dict) else flow._asdict()), file=out, flush=True)
"#;

struct Receiver {
    port: u16,
    told: Arc<Mutex<Vec<Value>>>,
    process: Child,
}

/// A firefly in short.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    state: String,
    experiment: u64,
    activity: u64,
    source_port: u64,
    destination_port: u64,
    /// Only where the whole firefly was kept.
    sent_bytes: Option<u64>,
    application: String,
}

impl Receiver {
    fn start() -> testkit::Result<Self> {
        let python = require_python("scitags")?;
        let mut process = Command::new(python)
            .args(["-c", RECEIVER])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let port = lines.next().expect("its port")?.trim().parse().expect("a port");
        let told = Arc::new(Mutex::new(Vec::new()));
        let kept = told.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock()
                    .expect("whole")
                    .push(serde_json::from_str(&line).expect("JSON"));
            }
        });
        Ok(Self { port, told, process })
    }

    /// Flows as the module read them, without the documents that it was given.
    fn flows(&self) -> Vec<Value> {
        let told = self.told.lock().expect("whole");
        told.iter()
            .filter(|one| one.get("flow-id").is_none())
            .cloned()
            .collect()
    }

    fn fireflies(&self) -> Vec<Told> {
        let told = self.told.lock().expect("whole");
        let documents = told.iter().filter(|one| one.get("flow-id").is_some());
        let number = |one: &Value, part: &str, key: &str| one[part][key].as_u64().expect("a number");
        let text = |one: &Value, part: &str, key: &str| one[part][key].as_str().expect("a text").to_owned();
        documents
            .map(|one| Told {
                state: text(one, "flow-lifecycle", "state"),
                experiment: number(one, "context", "experiment-id"),
                activity: number(one, "context", "activity-id"),
                source_port: number(one, "flow-id", "src-port"),
                destination_port: number(one, "flow-id", "dst-port"),
                sent_bytes: one["usage"]["sent"].as_u64(),
                application: text(one, "context", "application"),
            })
            .collect()
    }

    /// The ends of flows with this label, once all their bytes have come.
    fn ended(&self, experiment: u64, activity: u64, bytes: u64) -> Vec<Told> {
        let ends = || -> Vec<Told> {
            let of_label = |told: &Told| (told.experiment, told.activity) == (experiment, activity);
            let fireflies = self.fireflies().into_iter().filter(of_label);
            fireflies.filter(|told| told.state == "end").collect()
        };
        until(&format!("flows of {experiment}/{activity} have ended"), LIMIT, || {
            ends().iter().filter_map(|told| told.sent_bytes).sum::<u64>() >= bytes
        });
        ends()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn marking(receiver: &Receiver) -> String {
    format!(
        "[scitags]\ndestinations = [\"127.0.0.1:{}\"]\nexcluded = []\n\
         [[flow]]\npath = \"/data/dune\"\nexperiment = \"dune\"\nactivity = 3\n",
        receiver.port
    )
}

#[test]
fn connections_with_payload_are_told_with_the_right_ends() {
    let test = "connections_with_payload_are_told_with_the_right_ends";
    let Some(receiver) = available(test, Receiver::start()) else {
        return;
    };
    let Some((lab, server)) = alone(test, |options| options.more = marking(&receiver)) else {
        return;
    };
    let content = bytes(FILE_BYTES, 1);
    std::fs::create_dir(server.data().join("dune")).expect("a directory");
    for name in ["source", "dune/source"] {
        std::fs::write(server.data().join(name), &content).expect("written");
    }
    let (all, port) = (FILE_BYTES as u64, u64::from(server.port()));
    let url = |name: &str| server.url(&format!("/data/{name}"));

    lab.curl(&[&url("source")]).expect(200);
    lab.curl(&["-H", "SciTag: 132", &url("source")]).expect(200);
    let [download] = &receiver.ended(2, 4, all)[..] else {
        panic!("{:?}", receiver.fireflies())
    };
    assert_eq!((download.source_port, download.sent_bytes), (port, Some(all)));
    assert_eq!(download.application, "http-get");

    lab.upload(&url("put"), &content, &["SciTag: 313"]).expect(201);
    let [upload] = &receiver.ended(4, 57, all)[..] else {
        panic!("{:?}", receiver.fireflies())
    };
    assert_eq!(
        (upload.destination_port, upload.application.as_str()),
        (port, "http-put")
    );

    // The rule counts where the client says nothing.
    lab.curl(&[&url("dune/source")]).expect(200);
    assert_eq!(receiver.ended(8, 3, all)[0].source_port, port);

    let into = lab.fresh("fetched");
    let source = format!("{}?scitag.flow=196", server.root_url("/data/source"));
    let mut xrdcp = lab.command("xrdcp").expect("xrdcp");
    run(xrdcp.args(["-f", "-s", &source, into.to_str().expect("a path")])).succeeded();
    let [read] = &receiver.ended(3, 4, all)[..] else {
        panic!("{:?}", receiver.fireflies())
    };
    assert_eq!((read.source_port, read.application.as_str()), (port, "xroot"));

    let again = lab.fresh("fetched");
    let source = server.root_url("/data/source");
    let ours = ["--scitag", "452", &source, again.to_str().expect("a path")];
    lab.run_client("copy", &ours).succeeded();
    assert_eq!(receiver.ended(7, 4, all)[0].source_port, port);

    copies(&lab, &server, &receiver);
    // The module has read all of them: each begin and end with the same ends.
    let flows = receiver.flows();
    assert_eq!(flows.len(), receiver.fireflies().len());
    let of = |state: &str| flows.iter().filter(|flow| flow["state"] == state).count();
    assert_eq!(of("start"), of("end"));
    assert_eq!(of("start") + of("end"), flows.len(), "{flows:?}");
}

/// Third-party copies: each connection to the other server is a flow.
fn copies(lab: &Lab, server: &Crossload, receiver: &Receiver) {
    let peer = lab.crossload(lab.options("peer")).expect("a peer");
    let content = bytes(FILE_BYTES, 2);
    std::fs::write(peer.data().join("source"), &content).expect("written");
    let (all, port) = (FILE_BYTES as u64, u64::from(peer.port()));
    let here = |name: &str| server.url(&format!("/data/{name}"));
    let source = format!("Source: {}", peer.url("/data/source"));
    lab.copy(&here("pulled"), &source, &["SciTag: 260"]).expect(202);
    let pulled = receiver.ended(4, 4, all);
    assert!(pulled.iter().all(|told| told.source_port == port), "{pulled:?}");
    let destination = format!("Destination: {}", peer.url("/data/pushed"));
    lab.copy(&here("pulled"), &destination, &["SciTag: 324"]).expect(202);
    let pushed = receiver.ended(5, 4, all);
    assert!(pushed.iter().all(|told| told.destination_port == port), "{pushed:?}");
    let to = format!("{}?scitag.flow=388", server.root_url("/data/fetched"));
    lab.xrdcp(&["--tpc", "only", "-f", &peer.root_url("/data/source"), &to])
        .succeeded();
    let fetched = receiver.ended(6, 4, all);
    assert!(fetched.iter().all(|told| told.source_port == port), "{fetched:?}");
    assert_eq!(fetched.iter().filter_map(|told| told.sent_bytes).sum::<u64>(), all);
    // The other server can tell of its side.
    until("the peer has the label of the fetched file", LIMIT, || {
        log_lines(peer.log()).iter().any(|line| line["scitag"] == 388)
    });
}

/// Serves the directory of its argument over IPv6. Prints its port, and for each connection the
/// label of the packet that began it (`struct in6_flowlabel_req`, `IPV6_FL_F_REMOTE`).
const LABEL_READER: &str = r#"
import ctypes, functools, http.server, socket, sys
IPV6, FLOWLABEL_MGR, OF_OTHER_END, SIZE = 41, 32, 8, 32
library = ctypes.CDLL(None, use_errno=True)

class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        flags = OF_OTHER_END.to_bytes(2, sys.byteorder)
        request = ctypes.create_string_buffer(bytes(22) + flags + bytes(8), SIZE)
        length = ctypes.c_uint(SIZE)
        done = library.getsockopt(self.request.fileno(), IPV6, FLOWLABEL_MGR, request, ctypes.byref(length))
        assert done == 0, ctypes.get_errno()
        print(int.from_bytes(request.raw[16:20], "big"), flush=True)

    def log_message(self, *words):
        pass

class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6

server = Server(("::1", 0), functools.partial(Handler, directory=sys.argv[1]))
print(server.server_address[1], flush=True)
server.serve_forever()
"#;
/// The bits of a label in packets that are not random.
const FIXED_BITS: u32 = 0x3_fefc;

#[test]
fn packets_to_the_source_of_a_copy_have_its_label() {
    let test = "packets_to_the_source_of_a_copy_have_its_label";
    let six = TcpListener::bind("[::1]:0").map_err(|cause| Error::Missing(format!("IPv6: {cause}")));
    let Some(python) = available(test, six.and_then(|_| require("python3"))) else {
        return;
    };
    let collector = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = collector.local_addr().expect("an address").port();
    let more = format!("[scitags]\ndestinations = [\"127.0.0.1:{port}\"]\nexcluded = []\n");
    let Some((lab, server)) = alone(test, |options| options.more = more) else {
        return;
    };
    let files = lab.fresh("files");
    std::fs::create_dir(&files).expect("a directory");
    std::fs::write(files.join("source"), bytes(FILE_BYTES, 3)).expect("written");
    let mut command = lab.prepared(&python);
    command.arg("-c").arg(LABEL_READER).arg(&files);
    let reader = Process::spawn("labels", &mut command, lab.scratch().path()).expect("started");
    let numbers = || -> Vec<u32> {
        let said = reader.stdout();
        said.lines().filter_map(|line| line.parse().ok()).collect()
    };
    until("it listens", LIMIT, || !numbers().is_empty());
    let source = format!("http://[::1]:{}/source", numbers()[0]);
    let marked = |label: u32| {
        let all = numbers();
        all[1..].iter().filter(|seen| **seen & FIXED_BITS == label).count()
    };

    // Experiment 2 backwards in nine bits, and activity 4.
    let label = 0x1_0010;
    let copy = |name: &str, more: &[&str]| {
        let copied = lab.copy(
            &server.url(&format!("/data/{name}")),
            &format!("Source: {source}"),
            more,
        );
        assert!(last_line(&copied).starts_with("success"), "{}", copied.text());
    };
    copy("plain", &[]);
    assert_eq!(marked(label), 0, "{:?}", numbers());
    // The connection of that copy, which is kept, does not serve this one.
    copy("marked", &["SciTag: 132"]);
    until("its label is seen", LIMIT, || marked(label) > 0);

    // Experiment 7, by our client.
    let into = lab.fresh("fetched");
    let ours = ["--scitag", "452", &source, into.to_str().expect("a path")];
    lab.run_client("copy", &ours).succeeded();
    until("the client's label is seen", LIMIT, || marked(0x3_8010) > 0);
}
