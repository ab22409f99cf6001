//! Options of `login` and `logout`.

use std::path::PathBuf;

use clap::Args;

use super::client::Common;

/// Options of `login`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoginOptions {
    /// The issuer: its https URL, or a remote that has one
    #[arg(value_name = "ISSUER")]
    pub(crate) issuer: String,
    /// Name of a client that is registered at the issuer for device codes [default: as before]
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// File with the secret of this client, if it has one
    #[arg(long, value_name = "FILE", requires = "client_id")]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// Ask for this scope, such as storage.read:/; can be repeated
    ///
    /// Default: as before, or openid. A refresh token (offline_access) is always asked for.
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Ask for a token for this server only; can be repeated [default: as before, or any]
    #[arg(long, value_name = "URL")]
    pub(crate) audience: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `logout`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LogoutOptions {
    /// The issuer: its https URL, or a remote that has one
    #[arg(value_name = "ISSUER")]
    pub(crate) issuer: String,
    #[command(flatten)]
    pub(crate) common: Common,
}
