//! Options of `backup`, `restore` and `upgrade`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::client::time;

/// The configuration that is used where none is named.
const USUAL: &str = "/etc/crossload/crossload.toml";

pub(super) const EXAMPLES: &str = "\
Examples:
  # Each night, by cron
  crossload backup /backup/queue-20261130.tar \\
      --config /etc/crossload/queue.toml

  # Encrypted, with `| gpg --encrypt --recipient NAME > FILE` behind it
  crossload backup -";

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  # What is in it, and where would it go?
  crossload restore --dry-run /backup/queue-20261130.tar \\
      --config /etc/crossload/queue.toml

  systemctl stop crossload-queue
  crossload restore /backup/queue-20261130.tar \\
      --config /etc/crossload/queue.toml
  systemctl start crossload-queue

  # An encrypted one
  gpg --decrypt /backup/crossload.tar.gpg | crossload restore -

  # The state only, into the places of a configuration that is there
  crossload restore --keep-config /backup/queue-20261130.tar";

pub(super) const UPGRADE_EXAMPLES: &str = "\
Examples:
  # As packages do it; also after a program was replaced by hand
  crossload upgrade --previous /var/backups/crossload.old

  crossload upgrade --unit crossload-queue --watch 60s

Exit code: 0 all services are up, 1 the previous program is in use again.";

/// Options of `backup`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BackupOptions {
    /// The backup to make, which must not exist; - is standard output
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
    /// The backup; - is standard input
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
    /// Files that are replaced are kept as NAME.before-restore, or with a number behind it; a
    /// database in PostgreSQL is not.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Only check the backup, and print where its files would go
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// Options of `upgrade`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UpgradeOptions {
    /// The program from before the upgrade
    #[arg(long, value_name = "FILE", default_value = "/usr/lib/crossload/previous/crossload")]
    pub(crate) previous: PathBuf,
    /// Only this unit; can be repeated [default: all that run]
    #[arg(long, value_name = "NAME")]
    pub(crate) unit: Vec<String>,
    /// How long a service must stay up after its restart
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) watch: Duration,
    /// File in which the upgrade is recorded
    #[arg(long, value_name = "FILE", default_value = "/var/log/crossload-upgrade.log")]
    pub(crate) log: PathBuf,
    /// The new program [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}
