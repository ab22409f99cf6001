//! A real Rucio, its server and its daemons, with the queue as its transfer service: one hop, two
//! hops with different protocols, several sources, Debian's XRootD at either end, a file that
//! cannot be copied until it is repaired, and one whose copy is canceled. About 30 s: Rucio's
//! modules take ten to load, and its server and daemons are Python.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use conformance::{adler32, bytes, hex, md5_of, run};
use serde_json::{Value, json};
use testkit::{Crossload, Queue, Result, Xrootd, XrootdAccess, available, free_port, require_queue_python};

use conformance::Lab;

use crate::site;

const PROGRAM: &str = "rucio_flow.py";

struct Grid {
    lab: Lab,
    /// One endpoint of each site: A, B, C and H, through which files go.
    sites: Vec<(&'static str, Crossload)>,
    /// Site X.
    xrootd: Xrootd,
    /// Site N: it takes connections and never answers.
    mute: TcpListener,
    queue: Queue,
}

/// Six sites and a queue for everyone, with these sections of its configuration.
fn grid(lab: Lab, more: &str) -> Result<Grid> {
    require_queue_python("python3")?;
    let names = ["SITE_A", "SITE_B", "SITE_C", "SITE_H"];
    let start = |name| Ok((name, lab.crossload(lab.options(name))?));
    let sites = names.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    let mut options = site::options(&lab, "anonymous = true");
    options.certificate = None;
    options.more = more.to_owned();
    let queue = Queue::start(options)?;
    let xrootd = lab.xrootd("site-x", XrootdAccess::Open)?;
    // XRootD runs as another user than the tests do when they are run by root.
    let store = xrootd.data().join("store/test");
    std::fs::create_dir_all(&store)?;
    std::fs::set_permissions(&store, PermissionsExt::from_mode(0o777))?;
    let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(Grid {
        lab,
        sites,
        xrootd,
        mute,
        queue,
    })
}

/// Where Rucio's algorithm `hash` puts a file.
fn place(name: &str) -> String {
    let digits = hex(&md5_of(format!("test:{name}").as_bytes()));
    format!("store/test/{}/{}/{name}", &digits[..2], &digits[2..4])
}

impl Grid {
    /// The directory and the port of a site's server.
    fn server(&self, site: &str) -> (&Path, u16) {
        if site == "SITE_X" {
            return (self.xrootd.data(), self.xrootd.root_port());
        }
        let (_, server) = self.sites.iter().find(|(known, _)| *known == site).expect("a site");
        (server.data(), server.port())
    }

    fn put(&self, site: &str, name: &str, content: &[u8]) -> Value {
        let path = self.server(site).0.join(place(name));
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, content).expect("file");
        json!({"name": name, "bytes": content.len(), "adler32": format!("{:08x}", adler32(content)), "at": [site]})
    }

    fn has(&self, site: &str, name: &str, content: &[u8]) -> bool {
        std::fs::read(self.server(site).0.join(place(name))).is_ok_and(|found| found == content)
    }

    /// A protocol of a site, as Rucio sees it.
    fn protocol(&self, site: &str, scheme: &str) -> Value {
        let prefix = if scheme == "root" {
            "//data/store/"
        } else {
            "/data/store/"
        };
        json!({"scheme": scheme, "hostname": "localhost", "port": self.server(site).1, "prefix": prefix})
    }

    fn mute_protocol(&self) -> Value {
        let port = self.mute.local_addr().expect("a port").port();
        json!({"scheme": "davs", "hostname": "localhost", "port": port, "prefix": "/data/store/"})
    }

    /// What Rucio knows of the sites and these files. There are no rules in it.
    fn plan(&self, files: &[Value]) -> Value {
        let home = self.lab.fresh("rucio-home");
        std::fs::create_dir(&home).expect("a directory");
        let storage = |name: &str, schemes: &[&str], attributes: Value| {
            let protocols: Vec<Value> = schemes.iter().map(|scheme| self.protocol(name, scheme)).collect();
            json!({"name": name, "protocols": protocols, "attributes": attributes})
        };
        json!({
            "directory": home,
            "queue": self.queue.url().replace("localhost", "127.0.0.1"),
            "proxy": self.lab.host().certificate,
            "server_port": free_port().expect("a port"),
            "storages": [
                storage("SITE_A", &["davs"], json!({})),
                storage("SITE_B", &["davs"], json!({})),
                storage("SITE_C", &["root"], json!({})),
                storage("SITE_H", &["davs", "root"], json!({"available_for_multihop": true})),
                storage("SITE_X", &["root"], json!({})),
                {"name": "SITE_N", "protocols": [self.mute_protocol()]},
            ],
            "distances": [["SITE_A", "SITE_B"], ["SITE_A", "SITE_H"], ["SITE_H", "SITE_C"], ["SITE_B", "SITE_H", 2],
                          ["SITE_C", "SITE_X"], ["SITE_X", "SITE_C"], ["SITE_A", "SITE_N"]],
            "files": files,
            "timeout_s": 60,
        })
    }

    fn run(&self, plan: &Value) -> Value {
        let file = self.lab.file(plan.to_string().as_bytes());
        let python = require_queue_python("python3").expect("as before");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(PROGRAM);
        let mut command = self.lab.prepared(&python);
        command.arg(script).arg(file);
        let ran = run(&command).succeeded();
        let text = ran.text();
        let line = text.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|_| panic!("{}\n{}", ran.said(), self.queue.log()))
    }
}

#[test]
fn rucio_moves_files_with_our_queue() {
    let test = "rucio_moves_files_with_our_queue";
    let Some(grid) = available(test, Lab::new("rucio").and_then(|lab| grid(lab, ""))) else {
        return;
    };
    let contents: Vec<Vec<u8>> = (71..77).map(|seed| bytes(100_000 + seed as usize, seed)).collect();
    // Rucio believes that the nearer site has it too.
    let mut several = grid.put("SITE_B", "several", &contents[2]);
    several["at"] = json!(["SITE_A", "SITE_B"]);
    // Rucio believes that the file is there, and it comes later.
    let repaired = grid.put("SITE_A", "repaired", &contents[3]);
    let (missing, kept) = (grid.server("SITE_A").0.join(place("repaired")), grid.lab.fresh("kept"));
    std::fs::rename(&missing, &kept).expect("a file");
    let files = [
        grid.put("SITE_A", "direct", &contents[0]),
        grid.put("SITE_A", "hops", &contents[1]),
        several,
        repaired,
        grid.put("SITE_C", "to-xrootd", &contents[4]),
        grid.put("SITE_X", "from-xrootd", &contents[5]),
        grid.put("SITE_A", "canceled", &contents[0]),
    ];
    let mut plan = grid.plan(&files);
    plan["rules"] = json!([{"name": "direct", "to": "SITE_B"}, {"name": "hops", "to": "SITE_C"},
                  {"name": "several", "to": "SITE_H"}, {"name": "repaired", "to": "SITE_B"},
                  {"name": "to-xrootd", "to": "SITE_X"}, {"name": "from-xrootd", "to": "SITE_C"}]);
    plan["repairs"] = json!([{"from": kept, "to": missing}]);
    plan["canceled"] = json!([{"name": "canceled", "to": "SITE_N"}]);
    let states = grid.run(&plan);
    for (name, at, content) in [
        ("direct", "SITE_B", 0),
        ("hops", "SITE_H", 1),
        ("hops", "SITE_C", 1),
        ("several", "SITE_H", 2),
        ("to-xrootd", "SITE_X", 4),
        ("from-xrootd", "SITE_C", 5),
    ] {
        let told = || format!("{name}: {states}\n{}", grid.queue.log());
        assert_eq!(states[name]["state"], "OK", "{}", told());
        assert!(grid.has(at, name, &contents[content]), "{}", told());
    }
    let job = &states["several"]["job"];
    let tried = |number: usize, site: &str, state: &str| {
        let file = &job["files"][number];
        let port = format!(":{}/", grid.server(site).1);
        file[1] == state && file[0].as_str().is_some_and(|url| url.contains(&port))
    };
    assert!(
        job["type"] == "R" && tried(0, "SITE_A", "FAILED") && tried(1, "SITE_B", "FINISHED"),
        "{job}"
    );
    let repaired = &states["repaired"];
    assert_eq!(
        (&repaired["before"], &repaired["state"]),
        (&json!("STUCK"), &json!("OK")),
        "{states}"
    );
    assert!(
        ["SITE_B", "SITE_H"]
            .iter()
            .any(|site| grid.has(site, "repaired", &contents[3]))
    );
    let canceled = json!({"state": "STUCK", "was": "ACTIVE", "job": "CANCELED"});
    assert_eq!(states["canceled"], canceled, "{}", grid.queue.log());
}

/// Its receiver is connected to our topic, and its poller does not run: what it knows of a file
/// comes from our messages. Two files are of one job, which is still active when the first ends.
#[test]
fn rucio_learns_of_the_end_from_our_messages() {
    let test = "rucio_learns_of_the_end_from_our_messages";
    let start = || {
        let lab = Lab::new("rucio-messages")?;
        let passwords = lab.file(b"rucio:pass-word");
        std::fs::set_permissions(&passwords, PermissionsExt::from_mode(0o600))?;
        let more = format!("[messages]\nlisten = [\"127.0.0.1:0\"]\npassword_file = {passwords:?}\n");
        grid(lab, &more)
    };
    let Some(grid) = available(test, start()) else { return };
    let contents = [bytes(300_000, 81), bytes(200_000, 82)];
    let files = [
        grid.put("SITE_A", "first", &contents[0]),
        grid.put("SITE_A", "second", &contents[1]),
        grid.put("SITE_A", "hops", &contents[1]),
        json!({"name": "missing", "bytes": 5, "adler32": "0a0b0c0d", "at": ["SITE_A"]}),
    ];
    let mut plan = grid.plan(&files);
    plan["rules"] = json!([{"name": "first", "to": "SITE_B"}, {"name": "second", "to": "SITE_B"},
                  {"name": "hops", "to": "SITE_C"}, {"name": "missing", "to": "SITE_B"}]);
    plan["polls"] = json!(false);
    plan["group_policy"] = json!("src_dest");
    plan["vo"] = json!("anonymous");
    plan["messages_port"] = json!(grid.queue.messages_port().expect("a port for messages"));
    plan["messages_user"] = json!("rucio");
    plan["messages_password"] = json!("pass-word");
    let states = grid.run(&plan);
    for name in ["first", "second", "hops"] {
        assert_eq!(states[name]["state"], "OK", "{name}: {states}\n{}", grid.queue.log());
    }
    assert_eq!(states["missing"]["state"], "STUCK", "{states}");
    assert!(grid.has("SITE_B", "first", &contents[0]) && grid.has("SITE_B", "second", &contents[1]));
}
