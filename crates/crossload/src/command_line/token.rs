//! Options of `token`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use credentials::{Activities, AddressRange};
use types::LogicalPath;

use super::client::{Common, time};
use super::server::{logical_path, size};

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Say what a token is and what it allows, without asking anybody
    Inspect(InspectOptions),
    /// Ask a server for a macaroon, and print it
    Macaroon(MacaroonOptions),
    /// Narrow a macaroon on this machine, and print the narrower one
    Attenuate(AttenuateOptions),
}

/// Options of `token inspect`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InspectOptions {
    /// The file with the token; - or none is standard input
    #[arg(long, visible_alias = "token-file", value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `token macaroon`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MacaroonOptions {
    /// The server, and the path for which the macaroon is to be
    pub(crate) url: String,
    /// What it allows: LIST, DOWNLOAD, UPLOAD, DELETE, MANAGE, READ_METADATA, UPDATE_METADATA, STAGE
    #[arg(long, value_name = "NAME,...", value_parser = activities)]
    pub(crate) activity: Activities,
    /// The path for which it is to be, instead of that of the URL
    #[arg(long, value_name = "/PATH", value_parser = logical_path)]
    pub(crate) path: Option<LogicalPath>,
    /// How long it lives, such as 90s, 30m or 12h
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = time)]
    pub(crate) lifetime: Duration,
    #[command(flatten)]
    pub(crate) limits: MacaroonLimits,
    /// Write it to this new file, which only you can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `token attenuate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AttenuateOptions {
    /// The file with the macaroon; - or none is standard input
    #[arg(long, visible_alias = "token-file", value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Allow only these activities
    #[arg(long, value_name = "NAME,...", value_parser = activities)]
    pub(crate) activity: Option<Activities>,
    /// Allow only this path and what is below it
    #[arg(long, value_name = "/PATH", value_parser = logical_path)]
    pub(crate) path: Option<LogicalPath>,
    /// Let it live no longer than this from now on, such as 90s, 30m or 12h
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) lifetime: Option<Duration>,
    #[command(flatten)]
    pub(crate) limits: MacaroonLimits,
    /// Write it to this new file, which only you can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Restrictions that every macaroon can have.
#[derive(Clone, Debug, Args)]
pub(crate) struct MacaroonLimits {
    /// Allow it only from these addresses or networks
    #[arg(long, value_name = "ADDR[/BITS]", value_delimiter = ',', value_parser = address)]
    pub(crate) ip: Vec<AddressRange>,
    /// Allow no upload above this size, such as 4GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_upload: Option<u64>,
}

fn activities(text: &str) -> Result<Activities, String> {
    let names = text.to_ascii_uppercase().replace('-', "_");
    Activities::parse(&names).ok_or_else(|| {
        format!(
            "not a list of activities such as LIST,DOWNLOAD; there are {}",
            Activities::of(&credentials::Activity::ALL)
        )
    })
}

fn address(text: &str) -> Result<AddressRange, String> {
    AddressRange::parse(text).ok_or_else(|| "not an address such as 192.0.2.1 or 192.0.2.0/24".to_owned())
}
