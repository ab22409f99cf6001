//! Options of `serve`, `config` and `demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use config::parse_size;
use types::LogicalPath;

/// Options of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    /// Directory to serve; everybody may read it
    #[arg(required_unless_present = "config")]
    pub(crate) directory: Option<PathBuf>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on; port 0 takes any free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Let everybody write to the directory and delete in it
    #[arg(long, requires = "directory")]
    pub(crate) write: bool,
    /// URL path under which the directory is shown
    #[arg(long, value_name = "/PATH", requires = "directory", value_parser = logical_path)]
    pub(crate) path: Option<LogicalPath>,
    /// The server's certificate chain; without it only clear text is spoken
    #[arg(long, value_name = "PEM", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of the certificate
    #[arg(long, value_name = "PEM", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Authorities to trust when connecting to other servers
    #[arg(long, value_name = "PEM")]
    pub(crate) cacert: Vec<PathBuf>,
    /// Address for metrics and health
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    /// Allow third-party copies from and to loopback and link-local addresses, and this machine's own
    #[arg(long)]
    pub(crate) allow_local_peers: bool,
}

/// What to do with the configuration file.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print the manual of all keys in Markdown
    Docs,
    /// Print a configuration file with every key
    Example,
    /// Print the rules of an XRootD authdb as they stand in a configuration file
    ImportAuthdb {
        /// The file
        file: PathBuf,
    },
    /// Say what is wrong with a configuration file
    Check {
        /// The file
        file: PathBuf,
    },
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// Copy the files of this directory instead of generated data
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Leave the endpoints up until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
    /// Size of the generated file
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub(crate) size: u64,
}

pub(super) fn logical_path(text: &str) -> Result<LogicalPath, String> {
    LogicalPath::parse(text).map_err(|error| error.public())
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "not a size such as 64MiB".to_owned())
}
