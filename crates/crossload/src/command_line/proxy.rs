//! Options of `proxy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::client::time;

/// What to do with proxies.
#[derive(Debug, Subcommand)]
pub(crate) enum ProxyAction {
    /// Show the proxy or certificate that commands use, and how long it lasts
    ///
    /// It is the one that --proxy names, or the first of X509_USER_PROXY, X509_USER_CERT with
    /// X509_USER_KEY, and /tmp/x509up_u<uid>.
    #[command(after_help = super::examples::PROXY_INFO)]
    Info(ProxyInfoOptions),
}

/// Options of `proxy info`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyInfoOptions {
    /// Authenticate with this proxy
    #[arg(long, value_name = "PEM")]
    pub(crate) proxy: Option<PathBuf>,
    /// Fail if it does not last as long as this, such as 30m or 12h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) valid: Option<Duration>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}
