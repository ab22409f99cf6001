//! Launcher for versitygw, an S3 server over plain files, on loopback in clear text and over TLS:
//! `./dev setup test` builds it.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ports::start_elsewhere;
use crate::programs::{is_executable, target_directory};
use crate::s3_bucket::S3Bucket;
use crate::{Error, HostCertificate, Process, Result, free_port};

const PROGRAM: &str = "versitygw";
/// The process that serves over TLS.
const TLS_NAME: &str = "versitygw-tls";
/// The release that `./dev` builds.
const VERSION: &str = "1.8.0";
/// Names its directory, where that is not below `target/`.
const PREFIX_VARIABLE: &str = "CROSSLOAD_VERSITYGW";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server with one bucket. Clear text and TLS are two processes over the same files.
#[derive(Debug)]
pub struct VersityGateway {
    clear: Process,
    _tls: Process,
    bucket: S3Bucket,
    directory: PathBuf,
}

impl VersityGateway {
    /// Starts one with its files in `directory`, whose file system must have extended attributes,
    /// and waits until it has a bucket.
    ///
    /// # Errors
    /// [`Error::Missing`] when it has not been built.
    pub fn start(directory: &Path, certificate: &HostCertificate) -> Result<Self> {
        let program = program()?;
        fs::create_dir_all(directory.join("data"))?;
        start_elsewhere(|| Self::start_once(&program, directory, certificate))
    }

    fn start_once(program: &Path, directory: &Path, certificate: &HostCertificate) -> Result<Self> {
        let (clear_port, tls_port) = (free_port()?, free_port()?);
        let bucket = S3Bucket::new(clear_port, tls_port);
        let start = |name: &str, port: u16, options: &[&Path]| {
            let mut command = Command::new(program);
            command
                .env("ROOT_ACCESS_KEY_ID", bucket.access_key())
                .env("ROOT_SECRET_ACCESS_KEY", bucket.secret_key());
            command.args(["--region", bucket.region(), "--access-log"]);
            command.arg(directory.join(format!("{name}.requests"))).arg("--port");
            command.arg(format!("127.0.0.1:{port}")).args(options);
            command.arg("posix").arg(directory.join("data"));
            let mut process = Process::spawn(name, &mut command, directory)?;
            process.wait_listening(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), START_TIMEOUT)?;
            Ok::<_, Error>(process)
        };
        let [certificate, key] = [&certificate.certificate, &certificate.key];
        let tls_options = [Path::new("--cert"), certificate, Path::new("--key"), key];
        let mut clear = start(PROGRAM, clear_port, &[])?;
        let tls = start(TLS_NAME, tls_port, &tls_options)?;
        clear.wait_for("a bucket", START_TIMEOUT, |_| bucket.create().ok())?;
        Ok(Self {
            clear,
            _tls: tls,
            bucket,
            directory: directory.to_owned(),
        })
    }

    /// Its bucket.
    #[must_use]
    pub fn bucket(&self) -> &S3Bucket {
        &self.bucket
    }

    /// The lines of its logs about requests for `key`, in the format of Amazon's access logs.
    #[must_use]
    pub fn requests(&self, key: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for name in [PROGRAM, TLS_NAME] {
            let path = self.directory.join(format!("{name}.requests"));
            let text = fs::read_to_string(path).unwrap_or_default();
            lines.extend(text.lines().filter(|line| line.contains(key)).map(str::to_owned));
        }
        lines
    }

    /// The directory that has a directory for each bucket.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The process for clear text.
    pub fn process(&mut self) -> &mut Process {
        &mut self.clear
    }
}

fn program() -> Result<PathBuf> {
    let below_target = || target_directory().join(format!("versitygw-{VERSION}"));
    let path = env::var_os(PREFIX_VARIABLE).map_or_else(below_target, PathBuf::from);
    let path = path.join(PROGRAM);
    if is_executable(&path) {
        return Ok(path);
    }
    Err(Error::Missing(format!(
        "versitygw {VERSION} has not been built; ./dev setup test does it"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_release_is_the_one_that_dev_builds() {
        let dev = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev");
        let line = format!("VERSITYGW_VERSION={VERSION}");
        assert!(fs::read_to_string(dev).expect("dev").lines().any(|found| found == line));
    }
}
