//! Launcher for a cluster of XRootD: a manager, and data servers with disks of their own. Each is
//! an `xrootd` for clients and a `cmsd` for the cluster.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::xrootd::{give, unprivileged};
use crate::{Process, RESOLVER_OPTIONS, Result, XrootdVersion, free_port};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A server or a manager.
#[derive(Debug)]
pub struct XrootdNode {
    xrootd: Process,
    cmsd: Process,
    root_port: u16,
    data: PathBuf,
}

impl XrootdNode {
    /// Its port for clients.
    #[must_use]
    pub fn root_port(&self) -> u16 {
        self.root_port
    }

    /// The directory behind `/data`.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Its `cmsd`.
    pub fn cmsd(&mut self) -> &mut Process {
        &mut self.cmsd
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.cmsd.kill_hard();
        self.xrootd.kill_hard();
    }
}

/// How to start a cluster.
#[derive(Debug, Clone)]
pub struct XrootdClusterOptions {
    /// Which release.
    pub version: XrootdVersion,
    /// Where its files go; of a short path, because it has the sockets.
    pub directory: PathBuf,
    /// How many data servers.
    pub servers: usize,
    /// Whether its delays are those of its defaults: a new manager answers after 90 s, a lookup
    /// takes 5 s. Otherwise both take a second.
    pub default_delays: bool,
    /// Whether all answer HTTP too, in clear text on the port of their own protocol.
    pub http: bool,
}

/// A running cluster on loopback, over IPv4. Everybody may do everything below `/data`.
#[derive(Debug)]
pub struct XrootdCluster {
    options: XrootdClusterOptions,
    cms_port: u16,
    manager: XrootdNode,
    servers: Vec<XrootdNode>,
}

impl XrootdCluster {
    /// Starts a manager and so many servers in `directory` (of a short path: it has their
    /// sockets), and waits until the manager knows them. Its delays are shortened: a lookup takes
    /// a second, and it answers a second after it started.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when this release is not installed.
    pub fn start(version: XrootdVersion, directory: &Path, servers: usize) -> Result<Self> {
        Self::start_with(XrootdClusterOptions {
            version,
            directory: directory.to_owned(),
            servers,
            default_delays: false,
            http: false,
        })
    }

    /// Starts a cluster, and waits until its manager knows all servers. With its default delays it
    /// does not answer yet.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when this release is not installed.
    pub fn start_with(options: XrootdClusterOptions) -> Result<Self> {
        let (cms_port, root_port) = (free_port()?, free_port()?);
        let manager = Site {
            name: "m",
            options: &options,
            cms_port,
            root_port,
        };
        let manager = manager.start_manager()?;
        let mut cluster = Self {
            options,
            cms_port,
            manager,
            servers: Vec::new(),
        };
        for number in 1..=cluster.options.servers {
            cluster.add_server(&format!("s{number}"))?;
        }
        Ok(cluster)
    }

    fn add_server(&mut self, name: &str) -> Result<()> {
        let root_port = free_port()?;
        let site = Site {
            name,
            options: &self.options,
            cms_port: self.cms_port,
            root_port,
        };
        let cmsd_port = free_port()?;
        let lines = format!("all.role server\nif exec cmsd\nxrd.port {cmsd_port}\nfi\ncms.space min 1m 2m\n");
        self.servers.push(site.start(&lines)?);
        self.wait_for_server(root_port)
    }

    /// Waits until the manager's log says that a server with this port takes clients.
    ///
    /// # Errors
    /// A timeout, with the log.
    pub fn wait_for_server(&mut self, root_port: u16) -> Result<()> {
        let server = format!(":{root_port} ");
        let is_known = |line: &str| line.contains(&server) && line.ends_with(" logged in.");
        let is_resumed = |line: &str| line.contains(&server) && line.contains("service resumed");
        self.manager.cmsd.wait_for("a server", START_TIMEOUT, |cmsd| {
            let log = cmsd.stderr();
            log.lines().any(|line| is_known(line) || is_resumed(line)).then_some(())
        })
    }

    /// The address of the manager for servers.
    #[must_use]
    pub fn manager_address(&self) -> String {
        format!("localhost:{}", self.cms_port)
    }

    /// The URL of `path` (which begins with `/data`) at the manager.
    #[must_use]
    pub fn root_url(&self, path: &str) -> String {
        format!("root://localhost:{}/{path}", self.manager.root_port)
    }

    /// The address of the manager for clients.
    #[must_use]
    pub fn root_address(&self) -> String {
        format!("root://localhost:{}", self.manager.root_port)
    }

    /// The manager.
    pub fn manager(&mut self) -> &mut XrootdNode {
        &mut self.manager
    }

    /// The manager's `xrootd` and `cmsd`, to be measured.
    #[must_use]
    pub fn manager_processes(&self) -> [&Process; 2] {
        [&self.manager.xrootd, &self.manager.cmsd]
    }

    /// The data servers.
    pub fn servers(&mut self) -> &mut [XrootdNode] {
        &mut self.servers
    }

    /// Kills the manager and starts it again on the same ports. Its log begins anew.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart_manager(&mut self) -> Result<()> {
        self.manager.kill();
        let site = Site {
            name: "m",
            options: &self.options,
            cms_port: self.cms_port,
            root_port: self.manager.root_port,
        };
        self.manager = site.start_manager()?;
        Ok(())
    }
}

const DELAYS: &str = "cms.delay startup 1 service 1 lookup 1 drop 5s\n";

/// Where a node lives.
struct Site<'a> {
    name: &'a str,
    options: &'a XrootdClusterOptions,
    cms_port: u16,
    root_port: u16,
}

impl Site<'_> {
    fn start_manager(&self) -> Result<XrootdNode> {
        let delays = if self.options.default_delays { "" } else { DELAYS };
        let cms_port = self.cms_port;
        self.start(&format!(
            "all.role manager\nif exec cmsd\nxrd.port {cms_port}\nfi\n{delays}"
        ))
    }

    fn start(&self, lines: &str) -> Result<XrootdNode> {
        let own = self.options.directory.join(self.name);
        let data = own.join("root/data");
        for part in ["a", "run", "root", "root/data"] {
            fs::create_dir_all(own.join(part))?;
            give(&own.join(part))?;
        }
        give(&own)?;
        let file = own.join("node.cfg");
        fs::write(&file, self.configuration(&own, lines))?;
        let cmsd = self.spawn("cmsd", &own, &file)?;
        let mut xrootd = self.spawn("xrootd", &own, &file)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.root_port));
        xrootd.wait_listening(address, START_TIMEOUT)?;
        Ok(XrootdNode {
            xrootd,
            cmsd,
            root_port: self.root_port,
            data,
        })
    }

    fn configuration(&self, own: &Path, lines: &str) -> String {
        let (own, cms_port, root_port) = (own.display(), self.cms_port, self.root_port);
        let mut text = format!(
            "all.adminpath {own}/a\n\
             all.pidpath {own}/run\n\
             all.manager localhost:{cms_port}\n\
             all.export /data\n\
             oss.localroot {own}/root\n\
             xrootd.chksum max 2 adler32\n"
        );
        let http = match self.options.http {
            true => format!("xrd.protocol http:{root_port} libXrdHttp.so\n"),
            false => String::new(),
        };
        let _ = write!(text, "if exec xrootd\nxrd.port {root_port}\n{http}fi\n{lines}");
        text
    }

    fn spawn(&self, program: &str, own: &Path, file: &Path) -> Result<Process> {
        let mut command: Command = unprivileged(&self.options.version.require(program)?)?;
        command.arg("-c").arg(file).args(["-n", self.name, "-I", "v4"]);
        command.current_dir(own).env("RES_OPTIONS", RESOLVER_OPTIONS);
        Process::spawn(&format!("{}-{program}", self.name), &mut command, own)
    }
}
