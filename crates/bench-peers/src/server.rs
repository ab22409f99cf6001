//! The servers that are compared, behind one face, and the place where their files lie.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustls::crypto::aws_lc_rs;
use testkit::{
    Access, AddressFamilies, Authority, Crossload, CrossloadOptions, Error, HostCertificate, Nginx, NginxOptions,
    Process, Result, Scratch, TokenIssuer, Xrootd, XrootdAccess, XrootdOptions, XrootdVersion,
};

use crate::clients::Program;
use crate::floor::Tls;
use crate::handshake::{Beginning, config};
use crate::root::{User, Users, make_many};

const BLOCK_BYTES: usize = 1 << 20;

/// Whose figures stand side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Crossload,
    Xrootd(XrootdVersion),
    Nginx,
    /// A client that stands beside ours.
    Client(Program),
    /// No server: what the path cannot do without ([`crate::floor`]).
    Floor,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Crossload,
        Self::Xrootd(XrootdVersion::V5),
        Self::Xrootd(XrootdVersion::V6),
        Self::Nginx,
        Self::Client(Program::Gfal),
        Self::Client(Program::Xrdcp),
        Self::Client(Program::Rclone),
        Self::Client(Program::Aws),
        Self::Floor,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crossload => "Crossload",
            Self::Xrootd(XrootdVersion::V5) => "XRootD 5.5.3",
            Self::Xrootd(XrootdVersion::V6) => "XRootD 6.2.1",
            Self::Nginx => "nginx",
            Self::Client(program) => program.name(),
            Self::Floor => "floor",
        }
    }

    /// Whether it is ours to beat, and not the floor.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Self::Xrootd(_) | Self::Nginx | Self::Client(_))
    }

    /// Whether it can be started as a server.
    pub(crate) fn is_server(self) -> bool {
        !matches!(self, Self::Client(_) | Self::Floor)
    }

    /// Whether it can be the active side of a third-party copy, and answers PROPFIND.
    pub(crate) fn is_storage(self) -> bool {
        matches!(self, Self::Crossload | Self::Xrootd(_))
    }
}

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Https,
    Http,
}

impl Scheme {
    pub(crate) const BOTH: [Self; 2] = [Self::Https, Self::Http];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

/// A running server.
pub(crate) enum Server {
    Crossload(Box<Crossload>),
    Xrootd(Xrootd),
    Nginx(Nginx),
}

impl Server {
    /// The URL of the file `name` in its data directory.
    pub(crate) fn url(&self, scheme: Scheme, name: &str) -> String {
        let path = format!("/data/{name}");
        match (self, scheme) {
            (Self::Crossload(server), Scheme::Https) => server.url(&path),
            (Self::Crossload(server), Scheme::Http) => server.clear_url(&path),
            (Self::Xrootd(server), Scheme::Https) => server.url(&path),
            (Self::Xrootd(server), Scheme::Http) => server.clear_url(&path),
            (Self::Nginx(server), Scheme::Https) => server.url(&path),
            (Self::Nginx(server), Scheme::Http) => server.clear_url(&path),
        }
    }

    /// The port of its XRootD protocol, in clear text and over TLS.
    pub(crate) fn root_port(&self) -> Result<u16> {
        match self {
            Self::Crossload(server) => Ok(server.port()),
            Self::Xrootd(server) => Ok(server.root_port()),
            Self::Nginx(_) => Err(Error::Failed("nginx does not speak the XRootD protocol".to_owned())),
        }
    }

    /// The port of HTTP.
    pub(crate) fn http_port(&self, scheme: Scheme) -> Result<u16> {
        let url = self.url(scheme, "");
        let authority = url.split('/').nth(2).unwrap_or_default();
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.ok_or_else(|| Error::Failed(format!("{url} has no port")))
    }

    /// The file `name` as it lies in memory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let data = match self {
            Self::Crossload(server) => server.data(),
            Self::Xrootd(server) => server.data(),
            Self::Nginx(server) => server.data(),
        };
        data.join(name)
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        match self {
            Self::Crossload(server) => server.process(),
            Self::Xrootd(server) => server.process(),
            Self::Nginx(server) => server.process(),
        }
    }
}

/// Files, certificates and sources for one run of the benchmark.
pub(crate) struct Lab {
    memory: Scratch,
    logs: Scratch,
    authority: Authority,
    host: HostCertificate,
    started: u32,
    sources: BTreeMap<u64, u32>,
    /// Started when it is needed.
    issuer: Option<TokenIssuer>,
    /// Made when they are needed.
    users: Option<Users>,
}

impl Lab {
    pub(crate) fn new() -> Result<Self> {
        let memory = Scratch::in_memory("bench")?;
        let logs = Scratch::new("bench")?;
        let authority = Authority::new(logs.path())?;
        let host = authority.issue_localhost()?;
        Ok(Self {
            memory,
            logs,
            authority,
            host,
            started: 0,
            sources: BTreeMap::new(),
            issuer: None,
            users: None,
        })
    }

    /// The authority that clients are to trust.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.authority.ca_file()
    }

    /// The servers' certificate.
    pub(crate) fn host_certificate(&self) -> HostCertificate {
        self.host.clone()
    }

    /// A name for one more server, and a place on disk for its files.
    pub(crate) fn place(&mut self, kind: &str) -> (String, PathBuf) {
        self.started += 1;
        let name = format!("{kind}{}", self.started);
        let directory = self.logs.join(&name);
        (name, directory)
    }

    /// The same with a short path in memory.
    pub(crate) fn place_in_memory(&mut self, kind: &str) -> (String, PathBuf) {
        self.started += 1;
        let name = format!("{kind}{}", self.started);
        let directory = self.memory.join(&name);
        (name, directory)
    }

    /// Both ends of a TLS connection with the servers' certificate.
    pub(crate) fn tls(&self) -> Result<Tls> {
        let provider = aws_lc_rs::default_provider();
        Ok(Tls {
            server: testkit::tls_server_of(provider, &self.host.certificate, &self.host.key)?,
            client: config(&self.ca_file(), Beginning::Full)?,
        })
    }

    /// The same for clients that want a directory.
    pub(crate) fn trust_directory(&self) -> PathBuf {
        self.authority.trust_directory()
    }

    /// A place for the clients' own files.
    pub(crate) fn client_directory(&self) -> Result<PathBuf> {
        self.logs.create("client")
    }

    /// Starts one more server of `kind` with an empty data directory.
    pub(crate) fn start(&mut self, kind: Kind) -> Result<Server> {
        self.started += 1;
        let letters = kind.name().chars().filter(char::is_ascii_alphabetic);
        let name = format!("{}{}", letters.collect::<String>().to_lowercase(), self.started);
        let directory = self.logs.join(&name);
        let data = self.memory.join(&name).join("data");
        Ok(match kind {
            Kind::Crossload => {
                let mut options = CrossloadOptions::open(&name, &directory, &data, &self.host, &self.ca_file());
                // Clients are asked for certificates, as XRootD asks them; none has one, so
                // sessions need none.
                let trust = self.authority.trust_directory();
                options.more = format!("[x509]\ntrust_directory = {trust:?}\n[xroot]\nauthentication = []\n");
                Server::Crossload(Box::new(Crossload::start(options)?))
            }
            Kind::Xrootd(version) => Server::Xrootd(Xrootd::start(&XrootdOptions {
                version,
                name,
                directory,
                data,
                certificate: self.host.clone(),
                trust_directory: self.authority.trust_directory(),
                access: XrootdAccess::Open,
                families: AddressFamilies::V4,
                more: String::new(),
            })?),
            Kind::Nginx => {
                let certificate = self.host.clone();
                Server::Nginx(Nginx::start(&NginxOptions {
                    name,
                    directory,
                    data,
                    certificate,
                })?)
            }
            Kind::Client(_) | Kind::Floor => return Err(Error::Failed(format!("{} is no server", kind.name()))),
        })
    }

    /// One more user who can log in by gsi.
    pub(crate) fn user(&mut self) -> Result<User> {
        let mut users = match self.users.take() {
            Some(users) => users,
            None => Users::new()?,
        };
        let user = users.next(&self.authority);
        self.users = Some(users);
        user
    }

    /// Starts a server of `kind` that wants logins by gsi, asks for proxies, and copies with them.
    /// Servers that have none log in by `unix`, which proves nothing.
    pub(crate) fn start_guarded(&mut self, kind: Kind) -> Result<Server> {
        self.started += 1;
        let name = format!("guarded{}", self.started);
        let (directory, data) = (self.logs.join(&name), self.memory.join(&name).join("data"));
        let (trust, certificate) = (self.authority.trust_directory(), self.host.clone());
        Ok(match kind {
            Kind::Crossload => {
                let mut options = CrossloadOptions::open(&name, &directory, &data, &certificate, &self.ca_file());
                let store = directory.join("delegated");
                // With them clients would be made to switch to TLS.
                options.macaroons = false;
                options.more = format!(
                    "[xroot]\nauthentication = [\"gsi\", \"unix\"]\n[x509]\ntrust_directory = {trust:?}\n\
                     [delegation]\ndirectory = {store:?}\nkey_file = \"delegation.key\"\n"
                );
                Server::Crossload(Box::new(Crossload::start(options)?))
            }
            Kind::Xrootd(version) => Server::Xrootd(Xrootd::start(&XrootdOptions {
                version,
                name,
                data,
                certificate,
                access: XrootdAccess::Open,
                families: AddressFamilies::V4,
                more: format!(
                    "xrootd.seclib libXrdSec.so\n\
                     sec.protocol gsi -certdir:{trust} -cert:{own}/host.pem -key:{own}/host.key -crl:1 -gmapopt:0 \
                     -dlgpxy:request -exppxy:=creds\n\
                     sec.protocol unix\n\
                     ofs.tpc fcreds ?gsi =X509_USER_PROXY\n",
                    trust = trust.display(),
                    own = directory.display(),
                ),
                trust_directory: trust,
                directory,
            })?),
            Kind::Nginx | Kind::Client(_) | Kind::Floor => {
                return Err(Error::Failed(format!("{} has no gsi", kind.name())));
            }
        })
    }

    /// A server of ours without any monitoring but its log.
    pub(crate) fn start_unobserved(&mut self) -> Result<Server> {
        self.start_with("unobserved", String::new())
    }

    /// A server of ours with all monitoring, whose packets go to this receiver. Its log is JSON, as
    /// that of all servers whose standard error is no terminal.
    pub(crate) fn start_observed(&mut self, receiver: SocketAddr) -> Result<Server> {
        let more = format!(
            "[monitoring]\ndestinations = [\"{receiver}\"]\ncopy_destinations = [\"{receiver}\"]\n\
             [scitags]\ndestinations = [\"{receiver}\"]\nexcluded = []\n[[flow]]\nexperiment = 2\n\
             [web]\nlisten = \"127.0.0.1:0\"\n"
        );
        self.start_with("observed", more)
    }

    fn start_with(&mut self, kind: &str, more: String) -> Result<Server> {
        self.started += 1;
        let name = format!("{kind}{}", self.started);
        let (directory, data) = (self.logs.join(&name), self.memory.join(&name).join("data"));
        let mut options = CrossloadOptions::open(&name, &directory, &data, &self.host, &self.ca_file());
        options.more = more;
        Ok(Server::Crossload(Box::new(Crossload::start(options)?)))
    }

    /// Starts a server of ours that believes an issuer; returns a token of that issuer too.
    pub(crate) fn start_with_issuer(&mut self, anonymous: Access) -> Result<(Server, String)> {
        let issuer = match self.issuer.take() {
            Some(issuer) => issuer,
            None => TokenIssuer::start(&self.authority)?,
        };
        let (url, scopes) = (issuer.url(), "storage.read:/data storage.modify:/data/user openid");
        let token = issuer.token().scope(scopes).mint();
        self.issuer = Some(issuer);
        self.started += 1;
        let name = format!("issued{}", self.started);
        let (directory, data) = (self.logs.join(&name), self.memory.join(&name).join("data"));
        let mut options = CrossloadOptions::open(&name, &directory, &data, &self.host, &self.ca_file());
        options.exports[0].anonymous = anonymous;
        options.more = format!("[[issuer]]\nurl = \"{url}\"\n");
        Ok((Server::Crossload(Box::new(Crossload::start(options)?)), token))
    }

    /// A file of `size_bytes` in memory that clients send, with its adler32. Made once for each
    /// size.
    pub(crate) fn source(&mut self, size_bytes: u64) -> Result<(PathBuf, u32)> {
        let path = self.memory.join(&format!("source-{size_bytes}"));
        if let Some(checksum) = self.sources.get(&size_bytes) {
            return Ok((path, *checksum));
        }
        let checksum = generate(&path, size_bytes)?;
        self.sources.insert(size_bytes, checksum);
        Ok((path, checksum))
    }

    /// A directory with [`crate::root::STAT_FILES`] empty files that no server has.
    pub(crate) fn many(&self) -> Result<PathBuf> {
        let directory = self.memory.join("many");
        make_many(&directory)?;
        Ok(directory)
    }

    /// Puts a file of `size_bytes` named `name` under `server` without going through it. It is a
    /// hard link to [`Lab::source`], so it takes no memory. Returns its adler32.
    pub(crate) fn plant(&mut self, server: &Server, name: &str, size_bytes: u64) -> Result<u32> {
        let (source, checksum) = self.source(size_bytes)?;
        let file = server.file(name);
        if !file.exists() {
            fs::hard_link(source, file)?;
        }
        Ok(checksum)
    }
}

/// Writes `size_bytes` that do not compress (xorshift64) to `path` and returns their adler32.
fn generate(path: &Path, size_bytes: u64) -> Result<u32> {
    let mut output = BufWriter::with_capacity(BLOCK_BYTES, File::create(path)?);
    let mut adler = storage::Adler32::new();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ size_bytes;
    let mut block = vec![0; BLOCK_BYTES];
    let mut left = size_bytes;
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK_BYTES);
        adler.update(&block[..length]);
        output.write_all(&block[..length])?;
        left -= length as u64;
    }
    output.flush()?;
    Ok(adler.finish())
}

/// The adler32 of the file at `path`.
pub(crate) fn adler32(path: &Path) -> Result<u32> {
    use std::io::Read as _;
    let mut file = File::open(path)?;
    let mut adler = storage::Adler32::new();
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(adler.finish()),
            length => adler.update(&block[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_have_their_size_and_checksum() {
        let scratch = Scratch::new("bench-test").expect("scratch");
        let path = scratch.join("file");
        let size = BLOCK_BYTES as u64 + 12_345;
        let checksum = generate(&path, size).expect("written");
        assert_eq!(path.metadata().expect("facts").len(), size);
        assert_eq!(adler32(&path).expect("read"), checksum);
        fs::write(&path, b"Wikipedia").expect("written");
        assert_eq!(adler32(&path), Ok(0x11E6_0398));
    }
}
