//! Launcher for XRootD as sites run it: its own protocol with TLS, checksums and third-party
//! copies, beside HTTP, HTTPS, HTTP-TPC and, if wanted, macaroons.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ports::start_elsewhere;
use crate::{
    Error, HostCertificate, Process, RESOLVER_OPTIONS, Result, XrootdVersion, free_port, is_superuser, require,
};

/// The user that XRootD runs as when we are root, which it refuses to be: Debian's `nobody` and
/// `nogroup`.
const NOBODY: u32 = 65_534;
/// Stands for the port of HTTP in further lines of the configuration.
const HTTP_PORT: &str = "HTTP_PORT";
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The key that signs macaroons: any bytes, in base64. It guards nothing but the files of a test.
const MACAROON_SECRET: &str = "Y3Jvc3Nsb2FkIHRocm93LWF3YXkgbWFjYXJvb24gc2VjcmV0LCBhdCBsZWFzdCB0aGlydHktdHdvIGJ5dGVz\n";

/// Who may do what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum XrootdAccess {
    /// Everybody may read, write and delete: no authorisation is configured.
    #[default]
    Open,
    /// Anonymous clients may do everything below `/data`, and macaroons are issued and checked.
    OpenWithMacaroons,
    /// Anonymous clients may read below `/data` and get macaroons for reading; nothing else.
    ReadOnlyWithMacaroons,
}

/// The addresses that a server listens for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamilies {
    /// Those of IPv4 (`-I v4`).
    V4,
    /// Those of IPv6 (`-I v6`).
    V6,
    /// Both, as XRootD does unless told otherwise. Then it names a client of IPv4
    /// `[::ffff:192.0.2.7]` where the name service does not know that form, as `/etc/hosts` does
    /// not: its third-party copies fail for hosts that are called `localhost`.
    Both,
}

impl AddressFamilies {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::V4 => &["-I", "v4"],
            Self::V6 => &["-I", "v6"],
            Self::Both => &[],
        }
    }

    /// An address at which it answers.
    fn loopback(self) -> IpAddr {
        match self {
            Self::V4 | Self::Both => Ipv4Addr::LOCALHOST.into(),
            Self::V6 => Ipv6Addr::LOCALHOST.into(),
        }
    }
}

/// How to start it.
#[derive(Debug, Clone)]
pub struct XrootdOptions {
    /// Which release; its own client is the one that pulls third-party copies.
    pub version: XrootdVersion,
    /// A short name, of letters and digits, for its files and its macaroons' location.
    pub name: String,
    /// Where its configuration and logs go; made if need be.
    pub directory: PathBuf,
    /// The directory that is exported as `/data`. Its last part must be `data`; made if need be.
    pub data: PathBuf,
    /// Certificate and key.
    pub certificate: HostCertificate,
    /// The trust directory for its connections to other servers.
    pub trust_directory: PathBuf,
    /// Who may do what.
    pub access: XrootdAccess,
    /// For which addresses it listens.
    pub families: AddressFamilies,
    /// Further lines of its configuration, put at the end. `HTTP_PORT` in them stands for the port
    /// of HTTP.
    pub more: String,
}

/// A running XRootD. It answers HTTP and HTTPS on one port and its own protocol on another, on all
/// addresses of its families (no narrower choice exists).
#[derive(Debug)]
pub struct Xrootd {
    version: XrootdVersion,
    process: Process,
    port: u16,
    root_port: u16,
    data: PathBuf,
}

impl Xrootd {
    /// Starts it and waits until it accepts connections.
    ///
    /// # Errors
    /// [`Error::Missing`] when this release is not installed.
    pub fn start(options: &XrootdOptions) -> Result<Self> {
        let program = options.version.require("xrootd")?;
        if options.data.file_name().is_none_or(|name| name != "data") {
            return Err(Error::Failed(format!("{} must end in data", options.data.display())));
        }
        prepare(options)?;
        start_elsewhere(|| Self::start_once(&program, options))
    }

    fn start_once(program: &Path, options: &XrootdOptions) -> Result<Self> {
        let (port, root_port) = (free_port()?, free_port()?);
        let file = options.directory.join("xrootd.cfg");
        fs::write(&file, configuration(options, port, root_port)?)?;
        let mut command = unprivileged(program)?;
        command
            .arg("-c")
            .arg(&file)
            .args(["-n", &options.name])
            .args(options.families.arguments())
            .current_dir(&options.directory)
            .env("RES_OPTIONS", RESOLVER_OPTIONS)
            // Where its plug-in for tokens keeps the keys of issuers; otherwise they were shared
            // between servers.
            .env("XDG_CACHE_HOME", options.directory.join("cache"))
            .env("X509_CERT_DIR", &options.trust_directory);
        let mut process = Process::spawn(&options.name, &mut command, &options.directory)?;
        let address = SocketAddr::new(options.families.loopback(), port);
        process.wait_listening(address, START_TIMEOUT)?;
        // The port accepts before the plug-ins are loaded; this line comes after.
        process.wait_for("initialised", START_TIMEOUT, |process| {
            process.stderr().contains("initialization completed.\n").then_some(())
        })?;
        Ok(Self {
            version: options.version,
            process,
            port,
            root_port,
            data: options.data.clone(),
        })
    }

    /// Its release.
    #[must_use]
    pub fn version(&self) -> XrootdVersion {
        self.version
    }

    /// The URL of `path` (which begins with `/data`) over TLS.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// The URL of `path` in clear text.
    #[must_use]
    pub fn clear_url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    /// The port of both.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of `path` in its own protocol. With `roots` in place of `root` it goes over TLS.
    #[must_use]
    pub fn root_url(&self, path: &str) -> String {
        format!("root://localhost:{}/{path}", self.root_port)
    }

    /// The port of its own protocol.
    #[must_use]
    pub fn root_port(&self) -> u16 {
        self.root_port
    }

    /// The directory behind `/data`.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The process, to be measured or broken.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// `program` as an ordinary user, because XRootD refuses to run as root.
pub(crate) fn unprivileged(program: &Path) -> Result<Command> {
    if !is_superuser() {
        return Ok(Command::new(program));
    }
    let mut command = Command::new(require("setpriv")?);
    let id = NOBODY.to_string();
    command
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .arg(program);
    Ok(command)
}

/// Creates the directories and the files of its own (a key that others can read is refused).
fn prepare(options: &XrootdOptions) -> Result<()> {
    let own = &options.directory;
    for directory in [own.clone(), own.join("admin"), own.join("run"), options.data.clone()] {
        fs::create_dir_all(&directory)?;
        give(&directory)?;
    }
    let copies: [(&str, Vec<u8>); 4] = [
        ("host.pem", fs::read(&options.certificate.certificate)?),
        ("host.key", fs::read(&options.certificate.key)?),
        ("macaroon-secret", MACAROON_SECRET.into()),
        ("authdb", authorisation(options.access).into()),
    ];
    for (name, content) in copies {
        let path = own.join(name);
        if path.exists() {
            fs::remove_file(&path)?;
        }
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400))?;
        give(&path)?;
    }
    Ok(())
}

pub(crate) fn give(path: &Path) -> Result<()> {
    if is_superuser() {
        chown(path, Some(NOBODY), Some(NOBODY)).map_err(|e| Error::during(path.display(), e))?;
    }
    Ok(())
}

/// One line of XRootD's authorisation file: `a` is everything, `lr` list and read.
fn authorisation(access: XrootdAccess) -> &'static str {
    match access {
        XrootdAccess::Open | XrootdAccess::OpenWithMacaroons => "u * /data a\n",
        XrootdAccess::ReadOnlyWithMacaroons => "u * /data lr\n",
    }
}

fn configuration(options: &XrootdOptions, http_port: u16, root_port: u16) -> Result<String> {
    let own = options.directory.display();
    let root = options.data.parent().unwrap_or(Path::new("/")).display();
    let trust = options.trust_directory.display();
    // It pulls by the client program; the keys that tie the parties together may be as old as its
    // default allows.
    let puller = options.version.require("xrdcp")?;
    let mut text = format!(
        "all.sitename {name}\n\
         all.adminpath {own}/admin\n\
         all.pidpath {own}/run\n\
         oss.localroot {root}\n\
         all.export /data\n\
         xrd.port {root_port}\n\
         xrd.protocol http:{http_port} libXrdHttp.so\n\
         xrd.tls {own}/host.pem {own}/host.key\n\
         xrd.tlsca certdir {trust}\n\
         xrootd.chksum max 2 adler32 md5 crc32c\n\
         ofs.tpc autorm ttl 7 15 xfr 9 pgm {puller} --server\n\
         http.exthandler xrdtpc libXrdHttpTPC.so\n\
         http.header2cgi Authorization authz\n\
         http.listingdeny no\n",
        name = options.name,
        puller = puller.display(),
    );
    if options.version >= XrootdVersion::V6 {
        // It refuses addresses of this machine otherwise; older ones take the line for a mistake.
        text.push_str("tpc.allow local\n");
    }
    if options.access != XrootdAccess::Open {
        let _ = write!(
            text,
            "ofs.authorize 1\n\
             acc.authdb {own}/authdb\n\
             ofs.authlib libXrdMacaroons.so\n\
             macaroons.secretkey {own}/macaroon-secret\n\
             http.exthandler xrdmacaroons libXrdMacaroons.so\n"
        );
    }
    text.push_str(&options.more.replace(HTTP_PORT, &http_port.to_string()));
    Ok(text)
}
