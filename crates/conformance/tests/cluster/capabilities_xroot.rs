//! A redirector that judges for its nodes, with XRootD's own clients: they are known at the
//! redirector only, and nothing but what it gives them opens files on the nodes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use conformance::{Lab, Run, adler32, bytes, is_whole, log_lines, requests, run, until};
use testkit::{Access, Crossload, CrossloadOptions, Result, User, XrootdVersion, available};

use crate::site::PATIENCE;

const CLIENTS: [XrootdVersion; 2] = [XrootdVersion::V5, XrootdVersion::V6];
const DN: &str = "/O=Crossload test/CN=Jane Doe";

/// Two nodes without any rule for clients, and a redirector at which Jane may do everything.
struct Site {
    lab: Lab,
    jane: String,
    nodes: Vec<Crossload>,
    redirector: Crossload,
}

fn text(path: &Path) -> String {
    path.to_str().expect("plain").to_owned()
}

fn node(lab: &Lab, name: &str, scheme: &str, section: &str) -> Result<CrossloadOptions> {
    let mut options = lab.options(name);
    options.exports[0].anonymous = Access::None;
    options.macaroons = false;
    options.port = testkit::free_port()?;
    let scheme = if scheme == "root" { "http" } else { scheme };
    options.more = format!(
        "{section}accept_as = \"{scheme}://localhost:{}\"\n\
         [xroot]\nauthentication = []\n\
         [[rule]]\nwho = \"anyone\"\npath = \"/data\"\nmay = [\"stat\"]\n",
        options.port
    );
    Ok(options)
}

impl Site {
    fn start(scheme: &str) -> Result<Self> {
        for version in CLIENTS {
            version.require("xrdcp")?;
        }
        let lab = Lab::new("capable")?;
        let jane: User = lab.authority().issue_user(DN)?;
        let jane = text(&jane.proxy()?.write_proxy(&lab.fresh("proxy"))?);
        let key = lab.file(b"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let section = format!("[hand_over]\nkey_file = {key:?}\n");
        let nodes = ["n1", "n2"].map(|name| lab.crossload(node(&lab, name, scheme, &section)?));
        let nodes = nodes.into_iter().collect::<Result<Vec<_>>>()?;
        let urls: Vec<String> = nodes
            .iter()
            .map(|node| format!("{scheme}://localhost:{}", node.port()))
            .collect();
        let mut options = lab.options("redirector").redirecting_to(&urls);
        options.macaroons = false;
        let capable = "[redirector]\ncapabilities = true\n";
        options.more = options.more.replace("[redirector]\n", capable);
        options.more = options.more.replace("anonymous = \"write\"", "anonymous = \"none\"");
        options.more.push_str(&format!(
            "{section}[x509]\ntrust_directory = \"{}\"\n\
             [xroot]\nauthentication = [\"gsi\"]\n\
             [[rule]]\nwho = \"dn:{DN}\"\npath = \"/data\"\nmay = [\"all\"]\n",
            lab.authority().trust_directory().display(),
        ));
        let redirector = lab.crossload(options)?;
        let mut site = Self {
            lab,
            jane,
            nodes,
            redirector,
        };
        site.redirector.process().wait_for("the nodes", PATIENCE, |process| {
            let came = process.stderr().matches("\"node_came\"").count();
            (came >= 2).then_some(())
        })?;
        Ok(site)
    }

    fn url(&self, name: &str) -> String {
        self.redirector.root_url(&format!("/data/{name}"))
    }

    #[track_caller]
    fn xrdcp(&self, version: XrootdVersion, proxy: &str, arguments: &[&str]) -> Run {
        let mut command = self.lab.xrootd_client(version, "xrdcp").expect("it is installed");
        run(command.env("X509_USER_PROXY", proxy).args(arguments))
    }

    #[track_caller]
    fn xrdfs(&self, version: XrootdVersion, port: u16, arguments: &[&str]) -> Run {
        let mut command = self.lab.xrootd_client(version, "xrdfs").expect("it is installed");
        command.arg(format!("root://localhost:{port}"));
        run(command.env("X509_USER_PROXY", &self.jane).args(arguments))
    }

    fn stored(&self, name: &str) -> Vec<usize> {
        let has = |(number, node): (usize, &Crossload)| node.data().join(name).exists().then_some(number);
        self.nodes.iter().enumerate().filter_map(has).collect()
    }

    /// For some seconds after its start a node accepts nothing for writing.
    fn settle(&self, local: &str) {
        for number in 0..2 {
            until("a node accepts files", PATIENCE, || {
                let name = format!("early-{number}");
                let stored = self.xrdcp(CLIENTS[0], &self.jane, &["-f", local, &self.url(&name)]);
                stored.code == Some(0)
            });
        }
    }

    fn check(&self, version: XrootdVersion) {
        let content = bytes(300_000, 401);
        let local = text(&self.lab.file(&content));
        let name = format!("f-{version:?}");
        let (there, path) = (self.url(&name), format!("/data/{name}"));
        self.xrdcp(version, &self.jane, &["-C", "adler32:source", &local, &there])
            .succeeded();
        let [holder] = self.stored(&name)[..] else {
            panic!("{name} is on one node");
        };
        self.xrdcp(version, &self.jane, &["-f", &local, &there]).succeeded();
        let down = self.lab.fresh("down");
        self.xrdcp(version, &self.jane, &["-C", "adler32:source", &there, &text(&down)])
            .succeeded();
        assert!(is_whole(&down, &content), "{version:?}");

        let port = self.redirector.port();
        let ask = |arguments: &[&str]| self.xrdfs(version, port, arguments).succeeded().text();
        let sum = ask(&["query", "checksum", &path]);
        assert!(sum.contains(&format!("{:08x}", adler32(&content))), "{sum}");
        ask(&["chmod", &path, "rw-r-----"]);
        ask(&["truncate", &path, "10"]);
        assert_eq!(fs::read(self.nodes[holder].data().join(&name)).expect("it").len(), 10);
        ask(&["query", "xattr", &path]);
        ask(&["prepare", "-s", &path]);

        // Without the redirector, and for others, there is nothing.
        let direct = self.nodes[holder].root_url(&path);
        let refused = self.xrdcp(version, &self.jane, &[&direct, "-"]);
        assert!(refused.said().contains("[3010]"), "{}", refused.said());
        for arguments in [["truncate", &path, "1"], ["chmod", &path, "rwx------"]] {
            let refused = self.xrdfs(version, self.nodes[holder].port(), &arguments);
            assert!(refused.said().contains("[3010]"), "{}", refused.said());
        }
        let refused = self.xrdcp(version, "/nowhere", &[&there, "-"]);
        assert_ne!(refused.code, Some(0), "{}", refused.said());
    }

    fn check_third_party(&self, version: XrootdVersion) {
        let content = bytes(2_000_000, 402);
        let source = format!("source-{version:?}");
        fs::write(self.nodes[0].data().join(&source), &content).expect("a file");
        let into = format!("into-{version:?}");
        let arguments = ["--tpc", "only", &self.url(&source), &self.url(&into)];
        self.xrdcp(version, &self.jane, &arguments).succeeded();
        let [stored] = self.stored(&into)[..] else {
            panic!("{into} is on one node");
        };
        assert!(is_whole(&self.nodes[stored].data().join(&into), &content));
    }

    /// The client is known by name in the logs of the nodes, and no capability is in any log.
    fn check_logs(&self) {
        let mut known = 0;
        for node in &self.nodes {
            let served = requests(node.log());
            let by_capability = served
                .iter()
                .filter(|line| line["credential"] == "capability" && line["method"] == "close");
            known += by_capability
                .filter(|line| {
                    line["subject"]
                        .as_str()
                        .is_some_and(|subject| subject.contains("Jane Doe"))
                })
                .count();
        }
        assert!(known > 0);
        for server in self.nodes.iter().chain([&self.redirector]) {
            assert!(!server.log().stderr().contains("capability="));
            assert!(!log_lines(server.log()).is_empty());
        }
    }
}

fn check(test: &str, scheme: &str) {
    let Some(site) = available(test, Site::start(scheme)) else {
        return;
    };
    site.settle(&text(&site.lab.file(b"early")));
    for version in CLIENTS {
        site.check(version);
        site.check_third_party(version);
    }
    site.check_logs();
}

#[test]
fn xrootds_clients_are_judged_once() {
    check("xrootds_clients_are_judged_once", "http");
}

#[test]
fn xrootds_clients_are_judged_once_by_nodes_that_are_asked_in_their_protocol() {
    check(
        "xrootds_clients_are_judged_once_by_nodes_that_are_asked_in_their_protocol",
        "root",
    );
}

#[test]
fn xrootds_clients_are_judged_once_over_tls() {
    check("xrootds_clients_are_judged_once_over_tls", "https");
}
