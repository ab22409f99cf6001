//! Options of the commands about jobs that were submitted.

use clap::Args;

use super::QueueCommon;

/// Options of `queue status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueStatusOptions {
    /// Jobs, by the identifiers that submit printed
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// Show each file
    #[arg(short = 'l', long)]
    pub(crate) files: bool,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueListOptions {
    /// Jobs in these states only, such as SUBMITTED,ACTIVE
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) state: Vec<String>,
    /// Include jobs that ended within this time, in seconds or as 30m, 2h
    #[arg(long, value_name = "TIME", value_parser = crate::command_line::client::time)]
    pub(crate) since: Option<std::time::Duration>,
    /// Jobs of this user [default: yours]
    #[arg(short, long = "userdn", visible_alias = "user", value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Jobs of this virtual organisation
    #[arg(short = 'o', long = "voname", visible_alias = "vo", value_name = "NAME")]
    pub(crate) vo: Option<String>,
    /// Jobs from this storage, such as davs://a.example.org
    #[arg(long, value_name = "STORAGE")]
    pub(crate) source: Option<String>,
    /// Jobs to this storage
    #[arg(long, value_name = "STORAGE")]
    pub(crate) destination: Option<String>,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue cancel`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueCancelOptions {
    /// Jobs, or some files of a job by their numbers
    #[arg(required = true, value_name = "JOB[:FILE,...]")]
    pub(crate) jobs: Vec<String>,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue log`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueLogOptions {
    /// A job, or some files of it by their numbers
    #[arg(value_name = "JOB[:FILE,...]")]
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue priority`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueuePriorityOptions {
    /// The job
    pub(crate) job: String,
    /// Its priority within each link, 1 (last) to 5 (first)
    #[arg(value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) priority: u8,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue whoami`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueWhoamiOptions {
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue delegate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueDelegateOptions {
    /// Withdraw the proxy: copies that have not begun fail
    #[arg(long)]
    pub(crate) withdraw: bool,
    #[command(flatten)]
    pub(crate) ignored: IgnoredDelegateOptions,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `fts-rest-delegate` that change nothing here.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of FTS's client")]
pub(crate) struct IgnoredDelegateOptions {
    /// Delegate although the queue has a proxy: this is always done
    #[arg(short, long, hide = true)]
    force: bool,
    /// Hours that the proxy lasts
    #[arg(short = 'H', long, value_name = "HOURS", hide = true)]
    hours: Option<u32>,
    /// Make a proxy of the old kind
    #[arg(long, hide = true)]
    legacy_mode: bool,
}

impl IgnoredDelegateOptions {
    /// Those that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let all = [
            (self.force, "--force"),
            (self.hours.is_some(), "--hours"),
            (self.legacy_mode, "--legacy-mode"),
        ];
        all.into_iter()
            .filter(|(is_given, _)| *is_given)
            .map(|(_, name)| name)
            .collect()
    }
}
