//! Options of `queue serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Options of `queue serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueServeOptions {
    /// Configuration file (crossload config docs lists its keys)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen on this address; port 0 takes a free one [default: 127.0.0.1:8446]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Address for metrics, health, and lines of the log about a job
    ///
    /// Default: 127.0.0.1:9446 if it is free; with --config or --anonymous, none.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    /// Directory for the database and the keys
    ///
    /// Default: /var/lib/crossload/queue for root and in the packages' unit, else
    /// ~/.local/state/crossload/queue.
    #[arg(long, value_name = "DIR")]
    pub(crate) state_directory: Option<PathBuf>,
    /// Database that several queues share, such as postgres://user@host/name
    ///
    /// Default: a SQLite file in the state directory. Others see a password in it in the list of
    /// processes: give a file with it in queue.database_password_file.
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// Take the key of key_file although the credentials in the database were sealed with another
    ///
    /// For a key that is lost: these credentials are deleted. Users delegate and submit again, and
    /// operators store the keys of storages and the secrets of webhooks again. Stop the other
    /// processes of the database first.
    #[arg(long)]
    pub(crate) new_key: bool,
    /// Serve clients without credentials too, for tests
    #[arg(long)]
    pub(crate) anonymous: bool,
    /// Let this user change settings and see all jobs; can be repeated, and "*" is everyone
    #[arg(long, value_name = "NAME")]
    pub(crate) operator: Vec<String>,
    /// Certificate chain of the queue
    ///
    /// Default: /etc/grid-security/hostcert.pem with hostkey.pem, and the authorities beside them,
    /// if they can be read. Otherwise, and with --config or --anonymous, none: clear text only.
    #[arg(long, value_name = "PEM", requires = "key", help_heading = "TLS and copies")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(long, value_name = "PEM", requires = "cert", help_heading = "TLS and copies")]
    pub(crate) key: Option<PathBuf>,
    /// Directory with the authorities of clients' certificates
    #[arg(long, value_name = "DIR", help_heading = "TLS and copies")]
    pub(crate) trust_directory: Option<PathBuf>,
    /// Also trust the authorities in this file, when connecting to storages
    #[arg(long, value_name = "PEM", help_heading = "TLS and copies")]
    pub(crate) cacert: Vec<PathBuf>,
    /// Allow copies from and to loopback, link-local and this host's addresses
    #[arg(long, help_heading = "TLS and copies")]
    pub(crate) allow_local_peers: bool,
}
