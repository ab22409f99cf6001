//! The servers in between, each started as its field does.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use testkit::{
    AddressFamilies, Crossload, CrossloadOptions, Error, Process, Relay, Result, Xrootd, XrootdAccess, XrootdOptions,
    XrootdVersion, free_port,
};

use super::Upstream;
use super::site::{Objects, Site};
use crate::clients::Program;
use crate::server::{Kind, Lab};

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// What our cache and XRootD's may keep, in bytes and of the file system with its files.
const CACHE_SIZE: &str = "4GiB";
const XROOTD_CACHE_SHARES: &str = "0.9 0.95";

/// What a server in between has behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// A bucket.
    S3,
    /// XRootD.
    Dtn,
    /// XRootD, with a cache in front, and a relay between that counts.
    Cache,
    /// XRootD, far away.
    Far(Upstream),
}

enum Server {
    Crossload(Box<Crossload>),
    Xrootd(Xrootd),
    Other { process: Process, port: u16 },
}

/// A running server.
pub(super) struct Front {
    server: Server,
    /// Between it and the server behind, where bytes are counted.
    pub(super) relay: Option<Relay>,
}

impl Front {
    /// Starts one; [`Error::Missing`] where the kind has none of this role.
    pub(super) fn start(lab: &mut Lab, site: &mut Site, kind: Kind, role: Role) -> Result<Self> {
        if role == Role::S3 {
            let objects = site.objects(lab, 0)?;
            let server = match kind {
                Kind::Client(Program::Rclone) => rclone(lab, objects)?,
                _ => {
                    let export = bucket_export(lab, objects)?;
                    crossload(lab, &export)?
                }
            };
            return Ok(Self { server, relay: None });
        }
        let (upstream, port) = match role {
            Role::Far(upstream) => (upstream, site.far_port(lab, upstream)?),
            _ => (Upstream::Root, site.origin(lab)?.root_port()?),
        };
        let counted = || Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let relay = (role == Role::Cache).then(counted).transpose()?;
        let port = relay.as_ref().map_or(port, Relay::port);
        let server = match kind {
            Kind::Xrootd(version) => xrootd(lab, version, port, role == Role::Cache)?,
            _ => {
                let export = remote_export(lab, upstream, port, role == Role::Cache)?;
                crossload(lab, &export)?
            }
        };
        Ok(Self { server, relay })
    }

    /// The URL of a file in clear text.
    pub(super) fn url(&self, name: &str) -> String {
        match &self.server {
            Server::Crossload(server) => server.clear_url(&format!("/data/{name}")),
            Server::Xrootd(server) => server.clear_url(&format!("/data/{name}")),
            Server::Other { port, .. } => format!("http://localhost:{port}/{name}"),
        }
    }

    /// The port of HTTP in clear text.
    pub(super) fn port(&self) -> u16 {
        match &self.server {
            Server::Crossload(server) => server.port(),
            Server::Xrootd(server) => server.port(),
            Server::Other { port, .. } => *port,
        }
    }

    /// The URL of a file in the XRootD protocol.
    pub(super) fn root_url(&self, name: &str) -> Result<String> {
        match &self.server {
            Server::Crossload(server) => Ok(server.root_url(&format!("/data/{name}"))),
            Server::Xrootd(server) => Ok(server.root_url(&format!("/data/{name}"))),
            Server::Other { .. } => Err(Error::Missing("the XRootD protocol".to_owned())),
        }
    }

    pub(super) fn process(&mut self) -> &mut Process {
        match &mut self.server {
            Server::Crossload(server) => server.process(),
            Server::Xrootd(server) => server.process(),
            Server::Other { process, .. } => process,
        }
    }
}

fn crossload(lab: &mut Lab, export: &str) -> Result<Server> {
    let (name, directory) = lab.place("store");
    let (host, ca_file) = (lab.host_certificate(), lab.ca_file());
    let mut options = CrossloadOptions::open(&name, &directory, &directory, &host, &ca_file);
    options.exports.clear();
    options.more = format!("[[export]]\npath = \"/data\"\nanonymous = \"write\"\n{export}");
    Ok(Server::Crossload(Box::new(Crossload::start(options)?)))
}

/// The export of a bucket, for [`crossload`].
fn bucket_export(lab: &mut Lab, objects: &Objects) -> Result<String> {
    let bucket = objects.bucket();
    let directory = lab.place("keys").1;
    fs::create_dir_all(&directory)?;
    let secret = directory.join("secret");
    fs::write(&secret, bucket.secret_key())?;
    private(&secret)?;
    Ok(format!(
        "s3 = {:?}\ns3_access_key_id = {:?}\ns3_secret_key_file = {secret:?}\n",
        format!("{}/{}", objects.endpoint(), bucket.name()),
        bucket.access_key(),
    ))
}

fn private(path: &PathBuf) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o600))?)
}

/// The export of another server's directory, for [`crossload`].
fn remote_export(lab: &mut Lab, upstream: Upstream, port: u16, is_cached: bool) -> Result<String> {
    let url = match upstream {
        Upstream::Root => format!("root://localhost:{port}//data"),
        Upstream::Http => format!("http://localhost:{port}/data"),
    };
    if !is_cached {
        return Ok(format!("remote = {url:?}\n"));
    }
    let cache = lab.place_in_memory("cache").1;
    fs::create_dir_all(&cache)?;
    Ok(format!(
        "remote = {url:?}\ncache_directory = {cache:?}\ncache_size_bytes = {CACHE_SIZE:?}\n"
    ))
}

/// A proxy as XRootD's documentation has it. Its cache is where a server would have its files.
fn xrootd(lab: &mut Lab, version: XrootdVersion, port: u16, is_cached: bool) -> Result<Server> {
    let mut more = format!("ofs.osslib libXrdPss.so\npss.origin localhost:{port}\n");
    if is_cached {
        version.require_plug_in("libXrdPfc")?;
        more.push_str(&format!(
            "pss.cachelib libXrdPfc.so\npfc.ram 1g\npfc.diskusage {XROOTD_CACHE_SHARES}\n"
        ));
    }
    let (name, directory) = lab.place("proxy");
    let data = lab.place_in_memory("proxy").1.join("data");
    Ok(Server::Xrootd(Xrootd::start(&XrootdOptions {
        version,
        name,
        directory,
        data,
        certificate: lab.host_certificate(),
        trust_directory: lab.trust_directory(),
        access: XrootdAccess::Open,
        families: AddressFamilies::V4,
        more,
    })?))
}

/// versitygw never answers `Expect: 100-continue`, and rclone waits a second for that in each PUT:
/// what is measured here is not that second.
pub(super) const RCLONE_NO_WAIT: (&str, &str) = ("RCLONE_EXPECT_CONTINUE_TIMEOUT", "0s");

fn rclone(lab: &mut Lab, objects: &Objects) -> Result<Server> {
    let (name, directory) = lab.place("rclone");
    let port = free_port()?;
    let mut command = Command::new(Program::Rclone.path()?);
    command
        .args(["serve", "webdav", "--addr", &format!("127.0.0.1:{port}")])
        .arg(rclone_remote(objects, ""))
        .env("RCLONE_CONFIG", "/dev/null")
        .env(RCLONE_NO_WAIT.0, RCLONE_NO_WAIT.1)
        .env("HOME", &directory)
        .env_remove("AWS_CA_BUNDLE");
    let mut process = Process::spawn(&name, &mut command, &directory)?;
    process.wait_listening(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), START_TIMEOUT)?;
    Ok(Server::Other { process, port })
}

/// How rclone names an object without a configuration file.
pub(super) fn rclone_remote(objects: &Objects, key: &str) -> String {
    let bucket = objects.bucket();
    format!(
        ":s3,provider=Other,env_auth=false,access_key_id={},secret_access_key={},region={},force_path_style=true,\
         endpoint='{}':{}/{key}",
        bucket.access_key(),
        bucket.secret_key(),
        bucket.region(),
        objects.endpoint(),
        bucket.name(),
    )
}
