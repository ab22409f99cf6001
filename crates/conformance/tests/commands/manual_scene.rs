//! Where commands of the manual run: a directory with files, and behind the manual's names of hosts
//! servers on loopback.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Lab, bytes};
use testkit::{Access, Crossload, Export, Queue, QueueOptions, Result, TokenIssuer};

/// Bytes of the files in the directory.
const FILE_BYTES: usize = 30_000;

/// A directory, and servers.
pub(crate) struct Scene {
    /// They end before their files are removed.
    _servers: Servers,
    lab: Lab,
    here: PathBuf,
    path: String,
    /// Names of hosts in the manual, and where they are; a port behind a name is replaced, too.
    hosts: Vec<(&'static str, String)>,
    /// What else is replaced.
    replaced: Vec<(&'static str, String)>,
}

#[derive(Default)]
struct Servers {
    _endpoints: Vec<Crossload>,
    _queue: Option<Queue>,
    _issuer: Option<TokenIssuer>,
}

impl Scene {
    /// The scene of this name: `here` has no servers, `site` two endpoints, a queue and an issuer
    /// of tokens, `cluster` a redirector and two nodes.
    ///
    /// # Errors
    /// As the launchers.
    ///
    /// # Panics
    /// There is no such scene.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let lab = Lab::new("manual")?;
        let here = lab.fresh("here");
        put(
            &here,
            &[
                "file",
                "file.root",
                "picture.jpg",
                "set/4.root",
                "set/5.txt",
                "set/below/6.root",
            ],
        );
        fs::write(here.join("list"), "picture.jpg\n")?;
        let binary = fs::canonicalize(Crossload::binary()?)?;
        let directory = binary.parent().unwrap_or(Path::new("/")).display();
        let path = format!("{directory}:{}", env::var("PATH").unwrap_or_default());
        let scene = Self {
            lab,
            here,
            path,
            hosts: Vec::new(),
            replaced: Vec::new(),
            _servers: Servers::default(),
        };
        match name {
            "here" => Ok(scene),
            "site" => scene.with_servers(),
            "cluster" => scene.with_cluster(),
            other => panic!("no scene is called {other}"),
        }
    }

    fn with_servers(mut self) -> Result<Self> {
        let issuer = TokenIssuer::start(self.lab.authority())?;
        for (name, token) in [
            ("token", issuer.token().scope("storage.read:/ storage.modify:/")),
            ("mysite.token", issuer.token().scope("storage.read:/")),
            ("read.token", issuer.token().scope("storage.read:/")),
            ("group.token", issuer.token().groups(&["/atlas", "/atlas/production"])),
        ] {
            let file = self.here.join(name);
            fs::write(&file, token.mint())?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        }
        let first = endpoint(&self.lab, "first", &issuer)?;
        let second = endpoint(&self.lab, "second", &issuer)?;
        put(
            first.data(),
            &[
                "f",
                "g",
                "file",
                "file.root",
                "set/1.root",
                "set/2.root",
                "set/notes.txt",
                "set/below/3.root",
            ],
        );
        fs::write(first.data().join("log.txt"), "a line\n".repeat(50))?;
        let options = QueueOptions {
            certificate: Some(self.lab.host().clone()),
            more: "[web]\nqueue_listen = \"127.0.0.1:0\"\n".to_owned(),
            ..self.lab.queue_options("anonymous = true\noperators = [\"*\"]")
        };
        let queue_file = options.directory.join("queue.toml");
        let mut queue = Queue::start(options)?;
        let at = |port: &str| format!("localhost:{port}");
        self.hosts = vec![
            ("a.example.org", at(&first.port().to_string())),
            ("b.example.org", at(&second.port().to_string())),
            ("queue.example.org", at(&queue.port().to_string())),
            (
                "iam.example.org",
                issuer.url().trim_start_matches("https://").to_owned(),
            ),
        ];
        let admin = |server: &Crossload| at(port_of(&server.admin_url("").unwrap_or_default()));
        self.replaced = vec![
            ("127.0.0.1:9090", admin(&first)),
            ("127.0.0.1:9091", admin(&second)),
            ("127.0.0.1:9446", at(port_of(&queue.admin_url("")))),
            ("127.0.0.1:8450", at(port_of(&first.log().pages_url("http")))),
            ("127.0.0.1:8451", at(port_of(&queue.process().pages_url("http")))),
            (
                "/etc/crossload/crossload.toml",
                first.configuration().display().to_string(),
            ),
            ("/etc/crossload/queue.toml", queue_file.display().to_string()),
            (
                "/etc/grid-security/certificates",
                self.lab.authority().trust_directory().display().to_string(),
            ),
        ];
        let endpoints = "[[endpoint]]\nname = \"A\"\nurls = [\"https://a.example.org/data\"]\n\
                         [[endpoint]]\nname = \"B\"\nurls = [\"https://b.example.org/data\"]\n";
        let mesh = self.adapted(&format!("[mesh]\ntitle = \"Our sites\"\n{endpoints}"));
        fs::write(self.here.join("sites.toml"), mesh)?;
        self._servers = Servers {
            _endpoints: vec![first, second],
            _queue: Some(queue),
            _issuer: Some(issuer),
        };
        Ok(self)
    }

    fn with_cluster(mut self) -> Result<Self> {
        let node = |name: &str| self.lab.crossload(self.lab.options(name));
        let (first, second) = (node("first")?, node("second")?);
        put(first.data(), &["f"]);
        let urls = [&first, &second].map(|node| node.url(""));
        let options = self.lab.options("redirector").redirecting_to(&urls);
        let redirector = self.lab.crossload(options)?;
        let at = |server: &Crossload| format!("localhost:{}", server.port());
        self.hosts = vec![
            ("se.example.org", at(&redirector)),
            ("d1.example.org", at(&first)),
            ("d2.example.org", at(&second)),
        ];
        self._servers._endpoints = vec![first, second, redirector];
        Ok(self)
    }

    /// A text of the manual with the names and ports of this run.
    pub(crate) fn adapted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (host, place) in &self.hosts {
            text = with_place(&text, host, place);
        }
        for (from, to) in &self.replaced {
            text = text.replace(from, to);
        }
        text
    }

    /// A shell with these lines, which ends at the first that fails.
    pub(crate) fn shell(&self, lines: &str) -> Command {
        let mut shell = self.lab.prepared(Path::new("/bin/sh"));
        shell.args(["-e", "-c", &self.adapted(lines)]).current_dir(&self.here);
        shell
            .env("PATH", &self.path)
            .env("HOME", &self.here)
            .env("CURL_CA_BUNDLE", self.lab.authority().ca_file());
        shell
    }
}

/// An endpoint whose exports are those of the manual.
fn endpoint(lab: &Lab, name: &str, issuer: &TokenIssuer) -> Result<Crossload> {
    let mut options = lab.options(name);
    let files = options.directory.join("files");
    for (path, anonymous, quota_bytes) in [
        ("/scratch", Access::Write, 0),
        ("/public", Access::Read, 0),
        ("/atlas", Access::Read, 0),
        ("/full", Access::Write, 4096),
    ] {
        options.exports.push(Export {
            path: path.to_owned(),
            directory: files.join(&path[1..]),
            anonymous,
            quota_bytes,
        });
    }
    put(&files, &["public/file", "atlas/f", "atlas/data/f", "atlas/set/1.root"]);
    options.more = format!(
        "[[issuer]]\nurl = {:?}\nvo = \"atlas\"\nbase_paths = [\"/atlas\"]\n[tokens]\nstate_directory = {:?}\n\
         [[rule]]\nwho = \"group:/atlas/production\"\npath = \"/atlas\"\nmay = [\"read\", \"write\"]\n\
         [web]\nlisten = \"127.0.0.1:0\"\n",
        issuer.url(),
        options.directory.join("keys"),
    );
    lab.crossload(options)
}

/// Files of different content.
fn put(directory: &Path, names: &[&str]) {
    for (name, seed) in names.iter().zip(1..) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, bytes(FILE_BYTES, seed)).expect("a file");
    }
}

/// The port at the end of a URL.
fn port_of(url: &str) -> &str {
    url.trim_end_matches('/').rsplit(':').next().unwrap_or_default()
}

/// A text in which a place stands for a host and a port behind it.
fn with_place(text: &str, host: &str, place: &str) -> String {
    let mut parts = text.split(host);
    let mut adapted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part
            .strip_prefix(':')
            .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        adapted.push_str(place);
        adapted.push_str(if digits > 0 { &part[digits + 1..] } else { part });
    }
    adapted
}

#[test]
fn names_of_hosts_become_places_of_this_run() {
    let text = "https://a.example.org/x root://a.example.org:1094//y a.example.org: z";
    assert_eq!(
        with_place(text, "a.example.org", "localhost:7"),
        "https://localhost:7/x root://localhost:7//y localhost:7: z"
    );
    assert_eq!(port_of("http://localhost:9/"), "9");
}
