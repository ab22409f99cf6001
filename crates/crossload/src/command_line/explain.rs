//! Options of `explain`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use types::LogicalPath;

use super::server::{logical_path, size};
use crate::input_file::{InputFile, input_file};

/// The operation to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AskedOperation {
    /// Read size, time and checksum
    Stat,
    /// Read a file
    Read,
    /// List a directory
    List,
    /// Write a file: both create and overwrite
    Write,
    /// Write a new file
    Create,
    /// Overwrite an existing file
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
    /// Rename to the path of --to
    #[value(alias = "mv")]
    Rename,
}

impl AskedOperation {
    /// The name of the operation in a query to a server.
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
    /// Request ID of a refusal: ask the server of --admin for its reasons
    #[arg(value_name = "ID", requires = "admin", conflicts_with_all = ["op", "path", "to", "token", "proxy", "size", "url"])]
    pub(crate) id: Option<String>,
    /// Admin address of the server that refused ID
    #[arg(
        long,
        value_name = "URL",
        requires = "id",
        conflicts_with = "op",
        help_heading = "Asking the server"
    )]
    pub(crate) admin: Option<String>,
    /// The operation
    #[arg(long, value_enum, value_name = "OP", required_unless_present = "id")]
    pub(crate) op: Option<AskedOperation>,
    /// The path to work on [default: that of --url]
    #[arg(long, value_name = "/PATH", value_parser = logical_path, required_unless_present_any = ["id", "url"])]
    pub(crate) path: Option<LogicalPath>,
    /// The new name, for --op rename
    #[arg(long, value_name = "/PATH", value_parser = logical_path, required_if_eq("op", "rename"))]
    pub(crate) to: Option<LogicalPath>,
    /// File with the token or macaroon; - is standard input [default: none]
    #[arg(long, visible_aliases = ["token-file", "macaroon"], value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Fetch the keys of the token's issuer if needed to verify its signature
    #[arg(long, requires = "token", conflicts_with = "url", help_heading = "Deciding here")]
    pub(crate) online: bool,
    /// File with the client's proxy, or its certificate and key [default: none]
    #[arg(long, value_name = "PEM", conflicts_with = "token")]
    pub(crate) proxy: Option<PathBuf>,
    /// The client's certificate; its key is in the same file or in that of --key [default: none]
    #[arg(short = 'E', long, value_name = "PEM", conflicts_with_all = ["token", "proxy", "id"])]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(long, value_name = "PEM", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Ask this server instead of deciding here; it does not do the operation
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["config", "from"],
        help_heading = "Asking the server"
    )]
    pub(crate) url: Option<String>,
    /// Do not verify server certificates (unsafe)
    #[arg(short = 'k', long, requires = "url", help_heading = "Asking the server")]
    pub(crate) insecure: bool,
    /// Also trust the authorities in this file; can be repeated
    #[arg(
        long,
        value_name = "PEM",
        value_parser = input_file(),
        value_hint = ValueHint::FilePath,
        requires = "url",
        help_heading = "Asking the server"
    )]
    pub(crate) cacert: Vec<InputFile>,
    /// Configuration file of the server
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/crossload/crossload.toml",
        help_heading = "Deciding here"
    )]
    pub(crate) config: PathBuf,
    /// Address of the client
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", help_heading = "Deciding here")]
    pub(crate) from: IpAddr,
    /// Size of the file to write, such as 4GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}
