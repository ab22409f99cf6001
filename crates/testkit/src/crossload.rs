//! Launcher for the Crossload binary under test.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::programs::target_directory;
use crate::{Error, HostCertificate, Process, Result, secrets};

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a page may take when a server is about to end.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Names the binary to test when it is not the one in the target directory.
const BINARY_VARIABLE: &str = "CROSSLOAD_BIN";
/// The profiles whose builds are looked for without it.
const PROFILES: [&str; 3] = ["conformance", "release", "debug"];

/// What anonymous clients may do below an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Read and list.
    Read,
    /// Read, write and delete.
    #[default]
    Write,
}

impl Access {
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// A directory shown under a URL path.
#[derive(Debug, Clone)]
pub struct Export {
    /// The URL path, such as `/data`.
    pub path: String,
    /// The directory; made if need be.
    pub directory: PathBuf,
    /// What anonymous clients may do.
    pub anonymous: Access,
    /// Quota in bytes; 0 is none.
    pub quota_bytes: u64,
}

impl Export {
    /// `/data` on `directory`, where everybody may write.
    #[must_use]
    pub fn open(directory: &Path) -> Self {
        Self {
            path: "/data".to_owned(),
            directory: directory.to_owned(),
            anonymous: Access::Write,
            quota_bytes: 0,
        }
    }
}

/// How to start it.
#[derive(Debug, Clone)]
pub struct CrossloadOptions {
    /// The binary; [`Crossload::binary`] when not given.
    pub binary: Option<PathBuf>,
    /// A short name for its files.
    pub name: String,
    /// Where its configuration and logs go; made if need be.
    pub directory: PathBuf,
    /// What it shows.
    pub exports: Vec<Export>,
    /// The address of its door, such as `127.0.0.1` or `[::]`.
    pub address: String,
    /// The port of its door; 0 takes a free one.
    pub port: u16,
    /// Certificate and key; without, it speaks clear text only.
    pub certificate: Option<HostCertificate>,
    /// Authorities that it trusts when it connects to others. The system's are not trusted.
    pub ca_files: Vec<PathBuf>,
    /// Whether third-party copies may connect to loopback. On, because all tests are on loopback.
    pub allow_local_peers: bool,
    /// Further lines of `[server]`.
    pub server: String,
    /// Whether it issues macaroons, and accepts its own.
    pub macaroons: bool,
    /// Whether sessions of the XRootD protocol begin as the server's defaults say. Otherwise they
    /// are asked nothing, and stay in clear text when their client wants that; `more` with
    /// `[xroot]` or `[x509]` decides for itself.
    pub default_sessions: bool,
    /// Further lines of TOML for the `[tpc]` section.
    pub tpc: String,
    /// Further lines of TOML for the `[limits]` section.
    pub limits: String,
    /// Further sections of TOML, put at the end.
    pub more: String,
}

impl CrossloadOptions {
    /// An endpoint with TLS, one export that everybody may write to, and `ca_file` trusted.
    #[must_use]
    pub fn open(name: &str, directory: &Path, data: &Path, certificate: &HostCertificate, ca_file: &Path) -> Self {
        Self {
            binary: None,
            name: name.to_owned(),
            directory: directory.to_owned(),
            exports: vec![Export::open(data)],
            address: "127.0.0.1".to_owned(),
            port: 0,
            certificate: Some(certificate.clone()),
            ca_files: vec![ca_file.to_owned()],
            allow_local_peers: true,
            server: String::new(),
            macaroons: true,
            default_sessions: false,
            tpc: String::new(),
            limits: String::new(),
            more: String::new(),
        }
    }
}

impl CrossloadOptions {
    /// Makes it a redirector without files of its own: `/data` is on these nodes, given by their
    /// URLs, and everybody may do everything there.
    #[must_use]
    pub fn redirecting_to<S: AsRef<str>>(mut self, nodes: &[S]) -> Self {
        self.exports.clear();
        self.more
            .push_str("[redirector]\npath = \"/data\"\nanonymous = \"write\"\n");
        for node in nodes {
            let _ = writeln!(self.more, "[[node]]\nurl = {:?}", node.as_ref());
        }
        self
    }
}

/// A running Crossload. HTTP and the XRootD protocol, over TLS and in clear text, are on the same
/// port of loopback.
#[derive(Debug)]
pub struct Crossload {
    options: CrossloadOptions,
    process: Process,
    port: u16,
    admin_port: Option<u16>,
}

impl Crossload {
    /// The binary under test: `CROSSLOAD_BIN`, or the latest build of any profile.
    ///
    /// # Errors
    /// [`Error::Missing`] when none has been built.
    pub fn binary() -> Result<PathBuf> {
        if let Some(named) = std::env::var_os(BINARY_VARIABLE) {
            return Ok(PathBuf::from(named));
        }
        let target = target_directory();
        PROFILES
            .iter()
            .map(|profile| target.join(profile).join("crossload"))
            .filter(|path| path.is_file())
            .max_by_key(|path| path.metadata().and_then(|facts| facts.modified()).ok())
            .ok_or_else(|| Error::Missing("the crossload binary has not been built".to_owned()))
    }

    /// Writes the configuration, starts the server on free ports and waits until it says that it is
    /// ready.
    ///
    /// # Errors
    /// [`Error::Missing`] without a binary; [`Error::Failed`] with its log when it does not come
    /// up.
    pub fn start(options: CrossloadOptions) -> Result<Self> {
        let (process, started) = launch(&options, options.port)?;
        let secret = fs::read_to_string(options.directory.join("macaroon.secret")).unwrap_or_default();
        secrets::note("the macaroon secret", &secret);
        Ok(Self {
            options,
            process,
            port: started.port,
            admin_port: started.admin_port,
        })
    }

    /// Starts it again on the same port and the same files, after [`Process::kill_hard`] or
    /// [`Process::terminate`].
    ///
    /// # Errors
    /// As [`Crossload::start`].
    pub fn start_again(&mut self) -> Result<()> {
        self.process.terminate()?;
        // Its log is overwritten now.
        self.process.demand_no_secrets();
        let (process, started) = launch(&self.options, self.port)?;
        self.process = process;
        self.admin_port = started.admin_port;
        Ok(())
    }

    /// The same with another program, as after an upgrade.
    ///
    /// # Errors
    /// As [`Crossload::start`].
    pub fn start_again_with(&mut self, program: &Path) -> Result<()> {
        self.options.binary = Some(program.to_owned());
        self.start_again()
    }

    /// The URL of `path` over TLS.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// The URL of `path` in clear text.
    #[must_use]
    pub fn clear_url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    /// The URL of `path` in the XRootD protocol. With `roots` in place of `root` it goes over TLS.
    #[must_use]
    pub fn root_url(&self, path: &str) -> String {
        format!("root://localhost:{}/{path}", self.port)
    }

    /// The URL of `path` on the admin listener.
    #[must_use]
    pub fn admin_url(&self, path: &str) -> Option<String> {
        self.admin_port.map(|port| format!("http://localhost:{port}{path}"))
    }

    /// The port of the door.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its configuration file.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.options.directory.join("crossload.toml")
    }

    /// The directory of the first export.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.options.exports[0].directory
    }

    /// The process, to be read only: its log is [`Process::stderr`].
    #[must_use]
    pub fn log(&self) -> &Process {
        &self.process
    }

    /// The process, to be measured or broken. Its log is [`Process::stderr`].
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Drop for Crossload {
    /// What it shows to administrators must hold no secret either; the rest is searched with its
    /// process.
    fn drop(&mut self) {
        if let Some(port) = self.admin_port.filter(|_| self.process.is_running()) {
            let page = page(port, "/metrics").unwrap_or_default();
            secrets::demand_none("the metrics", &page);
        }
    }
}

/// Fetches a small page in clear text.
fn page(port: u16, path: &str) -> std::io::Result<String> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(PAGE_TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut text = Vec::new();
    // A server that was stopped on purpose does not answer.
    let _ = socket.read_to_end(&mut text);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn launch(options: &CrossloadOptions, port: u16) -> Result<(Process, Started)> {
    fs::create_dir_all(&options.directory)?;
    for export in &options.exports {
        fs::create_dir_all(&export.directory)?;
    }
    let file = options.directory.join("crossload.toml");
    fs::write(&file, configuration(options, port))?;
    let mut command = Command::new(options.binary.clone().map_or_else(Crossload::binary, Ok)?);
    command
        .arg("serve")
        .arg("--config")
        .arg(&file)
        .env("XDG_STATE_HOME", options.directory.join("state"))
        .current_dir(&options.directory);
    let mut process = Process::spawn(&options.name, &mut command, &options.directory)?;
    let started = process.wait_for("ready", START_TIMEOUT, |process| started(&process.stdout()))?;
    Ok((process, started))
}

/// What the server said on standard output when it came up.
#[derive(Debug, PartialEq, Eq)]
struct Started {
    port: u16,
    admin_port: Option<u16>,
}

/// Reads the lines that the server prints when it starts; `None` until it is ready and has said
/// where it listens.
fn started(stdout: &str) -> Option<Started> {
    let (lines, _) = stdout.split_once("ready\n")?;
    let port_after = |prefix: &str| -> Option<u16> {
        let url = lines.lines().find_map(|line| line.strip_prefix(prefix))?;
        url.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()
    };
    Some(Started {
        port: port_after("listening on ")?,
        admin_port: port_after("admin on "),
    })
}

fn configuration(options: &CrossloadOptions, port: u16) -> String {
    let address = &options.address;
    let mut text = format!("[server]\nlisten = [\"{address}:{port}\"]\nadmin_listen = \"127.0.0.1:0\"\n");
    text.push_str(&options.server);
    // Otherwise only root may measure it.
    if !crate::is_superuser() {
        text.push_str("core_dumps = true\n");
    }
    if let Some(host) = &options.certificate {
        let _ = writeln!(text, "certificate = {}", quoted(&host.certificate));
        let _ = writeln!(text, "key = {}", quoted(&host.key));
    }
    for export in &options.exports {
        let _ = write!(
            text,
            "[[export]]\npath = {:?}\ndirectory = {}\nanonymous = {:?}\nquota_bytes = {}\n",
            export.path,
            quoted(&export.directory),
            export.anonymous.word(),
            export.quota_bytes
        );
    }
    if options.macaroons {
        let secret = quoted(&options.directory.join("macaroon.secret"));
        let _ = write!(text, "[macaroons]\nsecret_file = {secret}\n");
    }
    let decides = options.default_sessions
        || ["[xroot]", "[x509]"]
            .iter()
            .any(|section| options.more.contains(section));
    if !decides {
        text.push_str("[xroot]\nauthentication = []\n");
    }
    let _ = write!(
        text,
        "[tpc]\nallow_local_peers = {}\n{}\n[trust]\nca_files = [{}]\nsystem = false\n",
        options.allow_local_peers,
        options.tpc,
        options
            .ca_files
            .iter()
            .map(|path| quoted(path))
            .collect::<Vec<_>>()
            .join(", "),
    );
    if !options.limits.is_empty() {
        let _ = write!(text, "[limits]\n{}\n", options.limits);
    }
    text.push_str(&options.more);
    text
}

/// A path as a TOML string. Test paths are plain text, in which Rust's and TOML's escapes agree.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_lines_are_read_once_ready() {
        let lines = "listening on https://127.0.0.1:40001\nadmin on http://127.0.0.1:40002\n";
        assert_eq!(started(lines), None);
        let expected = Started {
            port: 40_001,
            admin_port: Some(40_002),
        };
        assert_eq!(started(&format!("{lines}ready\n")), Some(expected));
        let plain = "listening on http://127.0.0.1:1\nready\n";
        assert_eq!(
            started(plain),
            Some(Started {
                port: 1,
                admin_port: None
            })
        );
        assert_eq!(started("ready\n"), None);
    }

    #[test]
    fn the_configuration_names_exports_and_trust() {
        let host = HostCertificate {
            certificate: "/c/host.pem".into(),
            key: "/c/host.key".into(),
        };
        let options = CrossloadOptions::open("a", Path::new("/w"), Path::new("/d"), &host, Path::new("/c/ca.pem"));
        let text = configuration(&options, 7);
        for line in [
            "listen = [\"127.0.0.1:7\"]",
            "certificate = \"/c/host.pem\"",
            "directory = \"/d\"",
            "anonymous = \"write\"",
            "allow_local_peers = true",
            "ca_files = [\"/c/ca.pem\"]",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("[limits]"));
    }

    #[test]
    fn a_server_is_started_and_again_on_its_port() {
        let scratch = crate::Scratch::new("crossload").expect("scratch");
        let host = HostCertificate {
            certificate: "/c/host.pem".into(),
            key: "/c/host.key".into(),
        };
        let (own, data) = (scratch.join("own"), scratch.join("files/data"));
        let mut options = CrossloadOptions::open("a", &own, &data, &host, Path::new("/c/ca.pem"));
        options.binary = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-in.sh"));
        let mut server = Crossload::start(options).expect("comes up");
        assert_eq!(server.url("/data/x"), "https://localhost:40001/data/x");
        assert_eq!(
            server.admin_url("/metrics").as_deref(),
            Some("http://localhost:40002/metrics")
        );
        assert!(data.is_dir());
        server.process().kill_hard();
        server.start_again().expect("comes up again");
        assert_eq!(server.port(), 40_001);
        let configuration = fs::read_to_string(own.join("crossload.toml")).expect("configuration");
        assert!(configuration.contains("127.0.0.1:40001"), "{configuration}");
    }
}
