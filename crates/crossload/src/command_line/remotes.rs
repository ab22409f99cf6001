//! Options of `config remote` and `config import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with named remotes.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteAction {
    /// Add a remote
    ///
    /// NAME:PATH is then a place at this server, and the options hold for it. What a remote shows
    /// instead of your usual credentials is named by file, never written into the configuration.
    #[command(after_help = super::examples::REMOTE_ADD)]
    Add(Box<RemoteOptions>),
    /// List the remotes
    List {
        /// Print JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Show the keys of a remote
    Show {
        /// Its name
        name: String,
        /// Print JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Remove a remote, and secrets that "config import" stored for it
    Remove {
        /// Its name
        name: String,
    },
}

/// Options of `config remote add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RemoteOptions {
    /// Its name: letters, digits, "-", "_" and "."
    pub(crate) name: String,
    /// URL of the server or directory, or an absolute path
    pub(crate) url: String,
    /// Send the token or macaroon in this file
    #[arg(long, value_name = "FILE", help_heading = "Credentials and trust")]
    pub(crate) token_file: Option<PathBuf>,
    /// Send tokens of this issuer (crossload login)
    #[arg(long, value_name = "URL", help_heading = "Credentials and trust")]
    pub(crate) issuer: Option<String>,
    /// Send this user's name and password, over HTTPS only
    #[arg(
        long,
        value_name = "NAME",
        requires = "password_file",
        help_heading = "Credentials and trust"
    )]
    pub(crate) user: Option<String>,
    /// File with the password
    #[arg(long, value_name = "FILE", requires = "user", help_heading = "Credentials and trust")]
    pub(crate) password_file: Option<PathBuf>,
    /// Authenticate with this proxy
    #[arg(long, value_name = "PEM", help_heading = "Credentials and trust")]
    pub(crate) proxy: Option<PathBuf>,
    /// Authenticate with this certificate; its key is in the same file or in that of --key
    #[arg(
        short = 'E',
        long,
        value_name = "PEM",
        conflicts_with = "proxy",
        help_heading = "Credentials and trust"
    )]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(long, value_name = "PEM", requires = "cert", help_heading = "Credentials and trust")]
    pub(crate) key: Option<PathBuf>,
    /// Also trust the authorities in this file; can be repeated
    #[arg(long, value_name = "PEM", help_heading = "Credentials and trust")]
    pub(crate) cacert: Vec<PathBuf>,
    /// Access key of an S3 storage
    #[arg(
        long,
        value_name = "ID",
        requires = "secret_key_file",
        help_heading = "Credentials and trust"
    )]
    pub(crate) access_key_id: Option<String>,
    /// File with the secret key of the S3 storage
    #[arg(
        long,
        value_name = "FILE",
        requires = "access_key_id",
        help_heading = "Credentials and trust"
    )]
    pub(crate) secret_key_file: Option<PathBuf>,
    /// Region of the S3 storage [default: us-east-1]
    #[arg(long, requires = "access_key_id", help_heading = "Credentials and trust")]
    pub(crate) region: Option<String>,
    /// Where the bucket is in URLs of the S3 storage [default: path, and host at Amazon]
    #[arg(
        long,
        value_name = "WHERE",
        value_parser = ["path", "host"],
        requires = "access_key_id",
        help_heading = "Credentials and trust"
    )]
    pub(crate) addressing: Option<String>,
    /// Connections per file, 1 to 100
    #[arg(short = 'n', long, value_name = "N", help_heading = "Transfer")]
    pub(crate) nbstreams: Option<u32>,
    /// Files that are copied at the same time, 1 to 256
    #[arg(long, value_name = "N", help_heading = "Transfer")]
    pub(crate) transfers: Option<u32>,
}

/// Whose remotes are taken.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportAction {
    /// Take the remotes of rclone
    ///
    /// Of the types webdav, http, local and s3. Tokens, passwords and secret keys go into files
    /// of their own. Each remote is named with what was not taken.
    #[command(after_help = super::examples::IMPORT_RCLONE)]
    Rclone(ImportOptions),
}

/// Options of `config import rclone`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportOptions {
    /// The configuration [default: RCLONE_CONFIG, or rclone/rclone.conf beside our own]
    pub(crate) file: Option<PathBuf>,
    /// Only print what would be taken
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}
