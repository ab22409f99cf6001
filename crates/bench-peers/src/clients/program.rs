//! How each client is started.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use testkit::{Crossload, Error, Result, require};

use super::site::{Ends, Site};
use super::{Content, Sizes};
use crate::server::Kind;

/// A client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    Crossload,
    Gfal,
    Xrdcp,
    Rclone,
    /// Beside copies between S3 servers only.
    Aws,
}

impl Program {
    /// Those that ours is compared with.
    pub(crate) const PEERS: [Self; 4] = [Self::Gfal, Self::Xrdcp, Self::Rclone, Self::Aws];

    pub(super) fn of(kind: Kind) -> Result<Self> {
        match kind {
            Kind::Crossload => Ok(Self::Crossload),
            Kind::Client(program) => Ok(program),
            _ => Err(Error::Failed(format!("{} is no client", kind.name()))),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crossload => "Crossload",
            Self::Gfal => "gfal",
            Self::Xrdcp => "xrdcp",
            Self::Rclone => "rclone",
            Self::Aws => "aws",
        }
    }

    /// The program that copies.
    ///
    /// # Errors
    /// [`Error::Missing`] if it is not installed.
    pub(crate) fn path(self) -> Result<PathBuf> {
        match self {
            Self::Crossload => Crossload::binary(),
            Self::Gfal => require("gfal-copy"),
            Self::Xrdcp => require("xrdcp"),
            Self::Rclone => require("rclone"),
            Self::Aws => require("aws"),
        }
    }

    /// How many files it copies.
    pub(super) fn files(self, content: Content, rtt_ms: u64, sizes: &Sizes) -> u64 {
        let is_far = rtt_ms > 0;
        match content {
            Content::Large => sizes.large_files,
            Content::Middle if self == Self::Crossload => sizes.third_party_files,
            Content::Middle => sizes.third_party_files / 20,
            Content::Small => match self {
                Self::Crossload => sizes.small_files,
                Self::Rclone if is_far => sizes.small_files / 5,
                Self::Rclone | Self::Aws => sizes.small_files,
                Self::Gfal | Self::Xrdcp if is_far => sizes.small_files / 50,
                Self::Gfal | Self::Xrdcp => sizes.small_files / 5,
            },
        }
    }

    /// Whether its URLs are those of the XRootD protocol.
    pub(super) fn is_xroot(self) -> bool {
        self == Self::Xrdcp
    }

    /// The command that copies a tree.
    pub(super) fn copy(self, site: &Site, ends: &Ends) -> Result<Command> {
        let mut command = self.command(site, self.path()?);
        let local = |end: &str| match end.starts_with('/') {
            true => format!("file://{end}"),
            false => end.to_owned(),
        };
        match self {
            // A slash at the end: its contents, as for the others.
            Self::Crossload => command
                .args(["copy", "-r", "-q", "--cacert"])
                .arg(&site.ca_file)
                .args([format!("{}/", ends.source), ends.destination.clone()]),
            Self::Gfal => command
                .args(["-r", "-f"])
                .args([local(&ends.source), local(&ends.destination)]),
            Self::Xrdcp => command
                .args(["-r", "--force", "--silent", "--nopbar"])
                .args([format!("{}/", ends.source), format!("{}/", ends.destination)]),
            Self::Rclone => {
                let remote = |end: &str| match end.starts_with('/') {
                    true => end.to_owned(),
                    false => format!(":webdav,url='{end}':"),
                };
                command
                    .arg("copy")
                    .args([remote(&ends.source), remote(&ends.destination)])
            }
            Self::Aws => return Err(Error::Failed("it has no WebDAV".to_owned())),
        };
        Ok(command)
    }

    /// The command that lists an empty directory.
    pub(super) fn list(self, site: &Site) -> Result<Command> {
        let url = site.empty(self);
        let program = match self {
            Self::Gfal => require("gfal-ls")?,
            Self::Xrdcp => require("xrdfs")?,
            Self::Crossload | Self::Rclone | Self::Aws => self.path()?,
        };
        let mut command = self.command(site, program);
        match (self, url.split_once("//data")) {
            (Self::Xrdcp, Some((server, _))) => command.args([server, "ls", "/data/empty"]),
            (Self::Rclone, _) => command.args(["lsf", &format!(":webdav,url='{url}':")]),
            (Self::Gfal, _) => command.arg(url),
            _ => command.args(["ls", &url]),
        };
        Ok(command)
    }

    fn command(self, site: &Site, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        for variable in [
            "BEARER_TOKEN",
            "BEARER_TOKEN_FILE",
            "X509_USER_PROXY",
            "X509_USER_CERT",
            "X509_USER_KEY",
        ] {
            command.env_remove(variable);
        }
        command
            .env("X509_CERT_DIR", &site.trust_directory)
            .env("GFAL_PYTHONBIN", "/usr/bin/python3")
            .env("HOME", &site.home)
            .env("XRD_NETWORKSTACK", "IPv4")
            .env("RCLONE_CONFIG", "/dev/null")
            .env("RCLONE_CA_CERT", &site.ca_file)
            .stdin(Stdio::null());
        command
    }
}
