//! Options of `explain`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use types::LogicalPath;

use super::server::{logical_path, size};

/// What is asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AskedOperation {
    /// Look at size, time and checksum
    Stat,
    /// Read a file
    Read,
    /// List a directory
    List,
    /// Write a file, once as a new one and once in place of an existing one
    Write,
    /// Write a new file
    Create,
    /// Write in place of an existing file
    Overwrite,
    /// Delete a file
    #[value(alias = "rm")]
    Delete,
    /// Delete an empty directory
    Rmdir,
    /// Delete a directory with everything in it
    Rmtree,
    /// Make a directory
    Mkdir,
    /// Give a file another name, see --to
    #[value(alias = "mv")]
    Rename,
}

impl AskedOperation {
    /// The word by which a server is asked.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
            Self::Create => "create",
            Self::Overwrite => "overwrite",
            Self::Delete => "delete",
            Self::Rmdir => "rmdir",
            Self::Rmtree => "rmtree",
            Self::Mkdir => "mkdir",
            Self::Rename => "rename",
        }
    }
}

/// Options of `explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainOptions {
    /// The request that a server refused, by the name that it told the client: asks it why
    #[arg(value_name = "ID", requires = "admin", conflicts_with_all = ["op", "path", "to", "token", "proxy", "size", "url"])]
    pub(crate) id: Option<String>,
    /// The server's admin address, for ID
    #[arg(long, value_name = "URL", requires = "id", conflicts_with = "op")]
    pub(crate) admin: Option<String>,
    /// What is asked
    #[arg(long, value_enum, required_unless_present = "id")]
    pub(crate) op: Option<AskedOperation>,
    /// For which path [default: that of --url]
    #[arg(long, value_name = "/PATH", value_parser = logical_path, required_unless_present_any = ["id", "url"])]
    pub(crate) path: Option<LogicalPath>,
    /// The new name, for --op rename
    #[arg(long, value_name = "/PATH", value_parser = logical_path, required_if_eq("op", "rename"))]
    pub(crate) to: Option<LogicalPath>,
    /// The file with the token or macaroon that is shown; - is standard input [default: no token]
    #[arg(long, visible_aliases = ["token-file", "macaroon"], value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Fetch the keys of the token's issuer, when they are not at hand, to check its signature
    #[arg(long, requires = "token", conflicts_with = "url")]
    pub(crate) online: bool,
    /// The proxy, or certificate with its key, that is shown
    #[arg(long, value_name = "PEM", conflicts_with = "token")]
    pub(crate) proxy: Option<PathBuf>,
    /// Ask this server what it would do, with the credential shown to it; nothing is done
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "from"])]
    pub(crate) url: Option<String>,
    /// Believe the server of --url, whatever its certificate says
    #[arg(short = 'k', long, requires = "url")]
    pub(crate) insecure: bool,
    /// Trust the authorities in this file too, for --url
    #[arg(long, value_name = "PEM", requires = "url")]
    pub(crate) cacert: Vec<PathBuf>,
    /// The server's configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/crossload/crossload.toml")]
    pub(crate) config: PathBuf,
    /// The client's address
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) from: IpAddr,
    /// The size of the file that is written, such as 4GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Print JSON, one object in each line
    #[arg(long)]
    pub(crate) json: bool,
}
