//! Options of `serve`, `config` and `demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use config::parse_size;
use policy::AnonymousAccess;
use types::LogicalPath;

use super::remotes::{ImportAction, RemoteAction};

/// Options of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    /// Directory to serve, readable for everyone
    #[arg(required_unless_present = "config")]
    pub(crate) directory: Option<PathBuf>,
    /// Configuration file (crossload config docs lists its keys)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen on this address; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Address for metrics, health, and lines of the log about a transfer [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    /// Let everyone write and delete in DIRECTORY
    #[arg(long, requires = "directory")]
    pub(crate) write: bool,
    /// URL path of DIRECTORY [default: /]
    #[arg(long, value_name = "/PATH", requires = "directory", value_parser = logical_path)]
    pub(crate) path: Option<LogicalPath>,
    /// Certificate chain of the server [default: none, clear text only]
    #[arg(
        long,
        value_name = "PEM",
        requires = "key",
        help_heading = "TLS and third-party copies"
    )]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(
        long,
        value_name = "PEM",
        requires = "cert",
        help_heading = "TLS and third-party copies"
    )]
    pub(crate) key: Option<PathBuf>,
    /// Also trust the authorities in this file, when connecting to peers
    #[arg(long, value_name = "PEM", help_heading = "TLS and third-party copies")]
    pub(crate) cacert: Vec<PathBuf>,
    /// Allow copies from and to loopback, link-local and this host's addresses
    #[arg(long, help_heading = "TLS and third-party copies")]
    pub(crate) allow_local_peers: bool,
    /// The nodes of a redirector.
    #[arg(skip)]
    pub(crate) nodes: Vec<String>,
    /// What a redirector lets clients without a credential do.
    #[arg(skip)]
    pub(crate) redirects_anyone: Option<AnonymousAccess>,
}

/// Options of `redirector`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RedirectorOptions {
    /// A server to which clients are sent: its URL (http, https, root, roots). Repeat it
    #[arg(long = "node", value_name = "URL", required_unless_present = "config")]
    pub(crate) nodes: Vec<String>,
    /// Configuration file, with [redirector] and [[node]] (crossload config docs lists its keys)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen on this address; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Address for metrics, health, and lines of the log about a transfer [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    /// Let everyone write and delete, where the nodes do
    #[arg(long, requires = "nodes")]
    pub(crate) write: bool,
    /// URL path of the tree that is on the nodes [default: /]
    #[arg(long, value_name = "/PATH", requires = "nodes", value_parser = logical_path)]
    pub(crate) path: Option<LogicalPath>,
    /// Certificate chain of the redirector [default: none, clear text only]
    #[arg(long, value_name = "PEM", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(long, value_name = "PEM", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Also trust the authorities in this file; can be repeated
    #[arg(long, value_name = "PEM")]
    pub(crate) cacert: Vec<PathBuf>,
}

impl From<RedirectorOptions> for ServeOptions {
    fn from(options: RedirectorOptions) -> Self {
        let anyone = match options.write {
            true => AnonymousAccess::Write,
            false => AnonymousAccess::Read,
        };
        Self {
            directory: None,
            config: options.config,
            listen: options.listen,
            admin: options.admin,
            write: options.write,
            path: options.path,
            cert: options.cert,
            key: options.key,
            cacert: options.cacert,
            allow_local_peers: false,
            redirects_anyone: (!options.nodes.is_empty()).then_some(anyone),
            nodes: options.nodes,
        }
    }
}

/// What to do with the configuration file.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print the manual of all keys of a server in Markdown
    Docs,
    /// Print a server's configuration file with every key
    Example,
    /// Convert an XRootD authdb into rules of a configuration file, and print them
    ImportAuthdb {
        /// The authdb
        file: PathBuf,
    },
    /// Print the OpenAPI document of the queue's own API
    #[command(hide = true)]
    Openapi,
    /// Servers and directories with names: NAME:PATH instead of a URL
    #[command(subcommand)]
    Remote(RemoteAction),
    /// Take the remotes of another program
    #[command(subcommand)]
    Import(ImportAction),
    /// List the mistakes in a configuration file
    Check {
        /// The configuration file
        file: PathBuf,
    },
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// Copy the files of this directory instead of generated data
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Keep the endpoints running until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
    /// Show a redirector and three nodes instead
    #[arg(long, conflicts_with_all = ["data", "keep", "size"])]
    pub(crate) cluster: bool,
    /// Size of the generated file
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    pub(crate) size: u64,
}

pub(super) fn logical_path(text: &str) -> Result<LogicalPath, String> {
    LogicalPath::parse(text).map_err(|error| error.public())
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "not a size such as 64MiB".to_owned())
}
