//! Options of `backup`, `restore` and `upgrade`.

use std::path::PathBuf;

use clap::Args;

/// The configuration that is used where none is named.
const USUAL: &str = "/etc/crossload/crossload.toml";

pub(super) const EXAMPLES: &str = "\
Examples:
  # Each night, by cron
  crossload backup /backup/queue-20261130.tar --config /etc/crossload/queue.toml

  # Without secrets in clear text on the disk of the backups
  crossload backup /run/crossload.tar
  gpg --encrypt --recipient admin@example.org --output /backup/crossload.tar.gpg /run/crossload.tar";

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  # What is in it, and where would it go?
  crossload restore --dry-run /backup/queue-20261130.tar --config /etc/crossload/queue.toml

  systemctl stop crossload-queue
  crossload restore /backup/queue-20261130.tar --config /etc/crossload/queue.toml
  systemctl start crossload-queue

  # The state only, into the places of a configuration that is there
  crossload restore --keep-config /backup/queue-20261130.tar";

/// Options of `backup`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BackupOptions {
    /// The backup to make; it must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Configuration file of the server, redirector or queue
    #[arg(long, value_name = "FILE", default_value = USUAL)]
    pub(crate) config: PathBuf,
    /// Also take certificates with their private keys
    ///
    /// Without, the backup names only their places: a machine has its own certificate.
    #[arg(long)]
    pub(crate) with_host_key: bool,
}

/// Options of `restore`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RestoreOptions {
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where the configuration file goes
    #[arg(long, value_name = "FILE", default_value = USUAL)]
    pub(crate) config: PathBuf,
    /// Leave the configuration as it is, and put the rest where it says
    #[arg(long)]
    pub(crate) keep_config: bool,
    /// Replace what is there
    ///
    /// Files that are replaced are kept as NAME.before-restore.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Only check the backup, and print where its files would go
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}
