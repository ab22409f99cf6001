//! A throw-away site: an authority, endpoints that trust it, and commands of all clients prepared
//! to trust it too.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use testkit::{
    Access, AddressFamilies, Authority, Crossload, CrossloadOptions, HostCertificate, QueueOptions, Result, Scratch,
    Xrootd, XrootdAccess, XrootdOptions, XrootdVersion, require,
};

use crate::endpoint::Endpoint;
use crate::files::unique;

/// Names another server to run the tests against.
const SERVER_VARIABLE: &str = "CONFORMANCE_SERVER";
/// Variables that would lead the clients to credentials of the person who runs the tests.
const CREDENTIAL_VARIABLES: [&str; 15] = [
    "BEARER_TOKEN",
    "BEARER_TOKEN_FILE",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "X509_USER_PROXY",
    "X509_USER_CERT",
    "X509_USER_KEY",
    "http_proxy",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
];

/// A throw-away site; dropping it removes its files.
#[derive(Debug)]
pub struct Lab {
    scratch: Scratch,
    authority: Authority,
    host: HostCertificate,
}

impl Lab {
    /// A site with its files in memory.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] without openssl.
    pub fn new(name: &str) -> Result<Self> {
        let scratch = Scratch::in_memory(name)?;
        let authority = Authority::new(&scratch.create("authority")?)?;
        let host = authority.issue_localhost()?;
        Ok(Self {
            scratch,
            authority,
            host,
        })
    }

    /// Where its files are.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Its authority.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The certificate of all its endpoints.
    #[must_use]
    pub fn host(&self) -> &HostCertificate {
        &self.host
    }

    /// A path in it that no other test uses.
    #[must_use]
    pub fn fresh(&self, name: &str) -> PathBuf {
        self.scratch.join(&format!("{name}-{}", unique()))
    }

    /// A file in it with `content`, outside of all exports.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn file(&self, content: &[u8]) -> PathBuf {
        let path = self.fresh("file");
        std::fs::write(&path, content).expect("file in the scratch directory");
        path
    }

    /// Options of one of our endpoints, open to everybody, to be changed before [`Lab::crossload`].
    #[must_use]
    pub fn options(&self, name: &str) -> CrossloadOptions {
        let own = self.fresh(name);
        let data = own.join("files/data");
        let mut options = CrossloadOptions::open(name, &own, &data, &self.host, &self.authority.ca_file());
        options.exports[0].anonymous = Access::Write;
        options
    }

    /// Starts one of our endpoints.
    ///
    /// # Errors
    /// As [`Crossload::start`].
    pub fn crossload(&self, options: CrossloadOptions) -> Result<Crossload> {
        Crossload::start(options)
    }

    /// Starts one of our endpoints that is open to the owner of a certificate only.
    ///
    /// # Errors
    /// As [`Crossload::start`].
    pub fn crossload_for(&self, name: &str, dn: &str) -> Result<Crossload> {
        let mut options = self.options(name);
        options.exports[0].anonymous = Access::None;
        options.more = format!(
            "[x509]\ntrust_directory = {:?}\n[[rule]]\nwho = \"dn:{dn}\"\nmay = \"all\"\n",
            self.authority.trust_directory()
        );
        self.crossload(options)
    }

    /// Options of a queue in clear text that trusts the authority, with further lines in its
    /// section.
    #[must_use]
    pub fn queue_options(&self, queue: &str) -> QueueOptions {
        QueueOptions {
            name: "queue".to_owned(),
            directory: self.fresh("queue"),
            port: 0,
            certificate: None,
            ca_file: self.authority.ca_file(),
            trust_directory: self.authority.trust_directory(),
            voms_directory: None,
            queue: queue.to_owned(),
            more: String::new(),
        }
    }

    /// Starts Debian's XRootD.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] when it is not installed.
    pub fn xrootd(&self, name: &str, access: XrootdAccess) -> Result<Xrootd> {
        self.xrootd_with(name, access, "")
    }

    /// Starts Debian's XRootD with further lines of its configuration.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] when it is not installed.
    pub fn xrootd_with(&self, name: &str, access: XrootdAccess, more: &str) -> Result<Xrootd> {
        Xrootd::start(&XrootdOptions {
            more: more.to_owned(),
            ..self.xrootd_options(name, access)
        })
    }

    /// Starts an XRootD of this release.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] when it is not installed.
    pub fn xrootd_of(&self, version: XrootdVersion, name: &str, access: XrootdAccess) -> Result<Xrootd> {
        Xrootd::start(&XrootdOptions {
            version,
            ..self.xrootd_options(name, access)
        })
    }

    /// Options of Debian's XRootD on the addresses of IPv4.
    #[must_use]
    pub fn xrootd_options(&self, name: &str, access: XrootdAccess) -> XrootdOptions {
        let own = self.fresh(name);
        XrootdOptions {
            version: XrootdVersion::V5,
            name: name.to_owned(),
            data: own.join("files/data"),
            directory: own,
            certificate: self.host.clone(),
            trust_directory: self.authority.trust_directory(),
            access,
            families: AddressFamilies::V4,
            more: String::new(),
        }
    }

    /// Starts an endpoint that everybody may read and write: ours, or the server that the
    /// environment names.
    ///
    /// # Errors
    /// As the launchers.
    pub fn endpoint(&self, name: &str) -> Result<Endpoint> {
        if Self::tests_xrootd() {
            let server = self.xrootd(name, XrootdAccess::OpenWithMacaroons)?;
            return Ok(Endpoint::Xrootd(Box::new(server)));
        }
        Ok(Endpoint::Crossload(Box::new(self.crossload(self.options(name))?)))
    }

    /// Whether the tests run against XRootD now.
    #[must_use]
    pub fn tests_xrootd() -> bool {
        std::env::var_os(SERVER_VARIABLE).is_some_and(|name| name == "xrootd")
    }

    /// A command of `program` that finds the authority in its environment and no credentials of the
    /// user's.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] when it is not installed.
    pub fn command(&self, program: &str) -> Result<Command> {
        Ok(self.prepared(&require(program)?))
    }

    /// A command of our own client, which trusts the authority.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] when it has not been built.
    pub fn client<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Command> {
        let mut command = self.prepared(&Crossload::binary()?);
        command.args(arguments);
        Ok(command)
    }

    /// A command of the program at a path, prepared as [`Lab::command`] does.
    #[must_use]
    pub fn prepared(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for variable in CREDENTIAL_VARIABLES {
            command.env_remove(variable);
        }
        command
            .env("X509_CERT_DIR", self.authority.trust_directory())
            .env("GFAL_PYTHONBIN", "/usr/bin/python3")
            .env("HOME", self.scratch.path())
            .env("LC_ALL", "C.UTF-8")
            // They look the machine's own addresses up; a name service that loses a packet must not
            // cost five seconds.
            .env("RES_OPTIONS", testkit::RESOLVER_OPTIONS)
            // XRootD's clients ask for an address of IPv6 first, and wait for minutes before they
            // give a server up.
            .env("XRD_NETWORKSTACK", "IPv4")
            .env("XRD_CONNECTIONWINDOW", "10")
            .env("XRD_CONNECTIONRETRY", "1")
            .current_dir(self.scratch.path());
        command
    }
}

/// A place for what the tests of one file share while at least one of them uses it.
pub type Slot<T> = Mutex<Weak<T>>;

/// The content of the slot, made when no test holds it. The last test that lets go drops it and its
/// servers; a plain static would never be dropped.
///
/// # Errors
/// As `make`.
pub fn shared<T>(slot: &Slot<T>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(present) = held.upgrade() {
        return Ok(present);
    }
    let made = Arc::new(make()?);
    *held = Arc::downgrade(&made);
    Ok(made)
}
