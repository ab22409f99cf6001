//! What stands behind: S3 servers, an XRootD with files in memory, and relays in front of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bench::relay::Relay;
use testkit::{HostCertificate, Process, Result, S3Bucket, S3Method, VersityGateway, XrootdVersion};
use tokio::runtime::Runtime;

use super::{RTT_MS, Upstream};
use crate::client::Client;
use crate::server::{Kind, Lab, Scheme, Server};

/// How long the URLs hold by which objects are stored.
const LIFETIME: Duration = Duration::from_secs(3600);

/// An S3 server whose objects are files in memory.
pub(super) struct Objects {
    gateway: VersityGateway,
    directory: PathBuf,
}

impl Objects {
    fn start(lab: &mut Lab, certificate: &HostCertificate) -> Result<Self> {
        let directory = lab.place_in_memory("s3").1;
        let gateway = VersityGateway::start(&directory, certificate)?;
        Ok(Self { gateway, directory })
    }

    pub(super) fn bucket(&self) -> &S3Bucket {
        self.gateway.bucket()
    }

    pub(super) fn process(&mut self) -> &mut Process {
        self.gateway.process()
    }

    /// The URL of its server.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.bucket().host(false))
    }

    /// The file of an object.
    pub(super) fn file(&self, key: &str) -> PathBuf {
        self.directory.join("data").join(self.bucket().name()).join(key)
    }

    /// Stores a file as an object unless it is there.
    pub(super) fn plant(&self, client: &Client, source: &Path, key: &str) -> Result<()> {
        if self.file(key).exists() {
            return Ok(());
        }
        let bucket = self.bucket();
        let url = bucket.presigned(false, S3Method::Put, key, SystemTime::now(), LIFETIME);
        client.upload(source, &[vec![url]]).map(drop)
    }
}

/// Everything behind, started when it is needed.
pub(crate) struct Site {
    objects: [Option<Objects>; 2],
    origin: Option<Server>,
    /// In front of the origin, for each of its protocols.
    relays: [Option<Relay>; 2],
    /// How many bytes may be under way on each connection of a relay.
    window_bytes: u64,
    /// Where the relays run.
    runtime: Runtime,
}

impl Site {
    pub(super) fn start(window_bytes: u64) -> Result<Self> {
        Ok(Self {
            objects: [None, None],
            origin: None,
            relays: [None, None],
            window_bytes,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?,
        })
    }

    /// The first or the second S3 server.
    pub(super) fn objects(&mut self, lab: &mut Lab, number: usize) -> Result<&mut Objects> {
        let objects = match self.objects[number].take() {
            Some(objects) => objects,
            None => Objects::start(lab, &lab.host_certificate())?,
        };
        Ok(self.objects[number].insert(objects))
    }

    /// Debian's XRootD.
    pub(super) fn origin(&mut self, lab: &mut Lab) -> Result<&mut Server> {
        let origin = match self.origin.take() {
            Some(origin) => origin,
            None => lab.start(Kind::Xrootd(XrootdVersion::V5))?,
        };
        Ok(self.origin.insert(origin))
    }

    /// A port that leads to it as if it were far away.
    pub(super) fn far_port(&mut self, lab: &mut Lab, upstream: Upstream) -> Result<u16> {
        let origin = self.origin(lab)?;
        let (number, port) = match upstream {
            Upstream::Root => (0, origin.root_port()?),
            Upstream::Http => (1, origin.http_port(Scheme::Http)?),
        };
        let relay = match self.relays[number].take() {
            Some(relay) => relay,
            None => {
                let _inside = self.runtime.enter();
                let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                let rtt = Duration::from_millis(RTT_MS);
                Relay::start_with_window(address(0), address(port), rtt, Some(self.window_bytes))?
            }
        };
        Ok(self.relays[number].insert(relay).address().port())
    }
}
