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
    /// Show what a token is and what it allows, offline
    Inspect(InspectOptions),
    /// Request a macaroon from a server, and print it
    #[command(after_help = super::examples::MACAROON)]
    Macaroon(Box<MacaroonOptions>),
    /// Restrict a macaroon further, offline, and print the result
    Attenuate(AttenuateOptions),
}

/// Options of `token inspect`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InspectOptions {
    /// File with the token or macaroon; - is standard input [default: -]
    #[arg(long, visible_alias = "token-file", value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `token macaroon`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MacaroonOptions {
    /// Server and path: an https or davs URL
    pub(crate) url: String,
    /// Allow only these activities
    ///
    /// LIST, DOWNLOAD, UPLOAD, DELETE, MANAGE, READ_METADATA, UPDATE_METADATA, STAGE
    #[arg(long, value_name = "NAME,...", value_parser = activities)]
    pub(crate) activity: Activities,
    /// Allow only this path and everything below it [default: that of the URL]
    #[arg(long, value_name = "/PATH", value_parser = logical_path)]
    pub(crate) path: Option<LogicalPath>,
    /// Lifetime from now on, such as 90s, 30m or 12h
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = time)]
    pub(crate) lifetime: Duration,
    #[command(flatten)]
    pub(crate) limits: MacaroonLimits,
    /// Write to this new file, readable only for you [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `token attenuate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AttenuateOptions {
    /// File with the token or macaroon; - is standard input [default: -]
    #[arg(long, visible_alias = "token-file", value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Allow only these activities
    ///
    /// LIST, DOWNLOAD, UPLOAD, DELETE, MANAGE, READ_METADATA, UPDATE_METADATA, STAGE
    #[arg(long, value_name = "NAME,...", value_parser = activities)]
    pub(crate) activity: Option<Activities>,
    /// Allow only this path and everything below it
    #[arg(long, value_name = "/PATH", value_parser = logical_path)]
    pub(crate) path: Option<LogicalPath>,
    /// Lifetime from now on, such as 90s, 30m or 12h
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) lifetime: Option<Duration>,
    #[command(flatten)]
    pub(crate) limits: MacaroonLimits,
    /// Write to this new file, readable only for you [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Restrictions for any macaroon.
#[derive(Clone, Debug, Args)]
pub(crate) struct MacaroonLimits {
    /// Allow only these client addresses or networks
    #[arg(long, value_name = "ADDR[/BITS]", value_delimiter = ',', value_parser = address)]
    pub(crate) ip: Vec<AddressRange>,
    /// Allow uploads up to this size, such as 4GiB
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
