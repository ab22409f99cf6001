//! `xrdcp` of Debian's XRootD, the client that nearly everybody uses.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use testkit::{Result, require};

use crate::client::run_all;
use crate::server::{Lab, Server};

/// How a server is spoken to in the XRootD protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    /// `root`: in clear text.
    Clear,
    /// `roots`: over TLS.
    Tls,
}

impl Security {
    pub(crate) const BOTH: [Self; 2] = [Self::Clear, Self::Tls];

    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Clear => "root",
            Self::Tls => "roots",
        }
    }
}

/// One way to start `xrdcp`.
pub(crate) struct Xrdcp {
    program: PathBuf,
    trust_directory: PathBuf,
    security: Security,
    streams: u32,
    pages: bool,
}

impl Xrdcp {
    pub(crate) fn new(lab: &Lab, security: Security, streams: u32) -> Result<Self> {
        Ok(Self {
            program: require("xrdcp")?,
            trust_directory: lab.trust_directory(),
            security,
            streams,
            pages: true,
        })
    }

    /// Reads and writes without page checksums, as older clients do.
    pub(crate) fn without_pages(mut self) -> Self {
        self.pages = false;
        self
    }

    /// The URL of the file `name` at `server`.
    pub(crate) fn url(&self, server: &Server, name: &str) -> Result<String> {
        let port = server.root_port()?;
        Ok(format!("{}://localhost:{port}//data/{name}", self.security.scheme()))
    }

    /// Copies one file.
    pub(crate) fn copy(&self, source: &str, destination: &str) -> Result<()> {
        let mut command = Command::new(&self.program);
        command
            .args(["--force", "--silent", "--nopbar"])
            .env("X509_CERT_DIR", &self.trust_directory)
            .env("XRD_NETWORKSTACK", "IPv4")
            .env("XRD_CPUSEPGWRTRD", if self.pages { "1" } else { "0" })
            .stdin(Stdio::null());
        if self.streams > 1 {
            command.args(["--streams", &self.streams.to_string()]);
        }
        command.arg(source).arg(destination);
        run_all([command]).map(drop)
    }
}
