//! Options of the commands that explain, watch and steer a queue.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::QueueCommon;
use crate::command_line::client::time;
use crate::command_line::server::size;

/// Options of `queue why`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueWhyOptions {
    /// A job, a file of a job, a file by its number, or the source of a link
    #[arg(value_name = "JOB[:FILE]|FILE|SOURCE")]
    pub(crate) what: String,
    /// The destination of the link: as links --why
    pub(crate) destination: Option<String>,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue watch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueWatchOptions {
    /// Jobs; ends when they have ended
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// Print each job when it has ended, and nothing before
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Time between two looks at a job, if the queue reports no events
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) interval: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue links`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueLinksOptions {
    /// Links from this storage
    pub(crate) source: Option<String>,
    /// Links to this storage
    #[arg(requires = "source")]
    pub(crate) destination: Option<String>,
    /// Explain the link from SOURCE to DESTINATION
    #[arg(long, requires = "destination")]
    pub(crate) why: bool,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue pause` and `queue resume`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueLinkOptions {
    /// The storage that is read, such as https://a.example.org:443; * is any
    pub(crate) source: String,
    /// The storage that is written; * is any
    ///
    /// A link is paused as long as its own pause or one with * holds.
    pub(crate) destination: String,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue limits`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueLimitsOptions {
    /// The storage whose limits are changed, or the source of a link; * is all others
    #[arg(value_name = "STORAGE|SOURCE")]
    pub(crate) storage: Option<String>,
    /// The destination of the link whose limits are changed
    pub(crate) destination: Option<String>,
    /// Copies into the storage at once, or none
    #[arg(long, value_name = "N", value_parser = limit, requires = "storage", conflicts_with = "destination")]
    pub(crate) inbound: Option<Limit>,
    /// Copies out of the storage at once, or none
    #[arg(long, value_name = "N", value_parser = limit, requires = "storage", conflicts_with = "destination")]
    pub(crate) outbound: Option<Limit>,
    /// Size into the storage per second, with its unit, such as 500MiB, or none
    ///
    /// Copies through the queue's machine are slowed to it; of those between two servers, the queue
    /// starts fewer.
    #[arg(long, value_name = "SIZE", value_parser = rate, requires = "storage", conflicts_with = "destination")]
    pub(crate) inbound_rate: Option<Rate>,
    /// Size out of the storage per second, with its unit, such as 500MiB, or none
    ///
    /// As with --inbound-rate.
    #[arg(long, value_name = "SIZE", value_parser = rate, requires = "storage", conflicts_with = "destination")]
    pub(crate) outbound_rate: Option<Rate>,
    /// What the storage does in third-party copies
    ///
    /// - full: it fetches and sends
    /// - pull: it only fetches
    /// - push: it only sends
    /// - none: neither; others fetch from it and send to it
    /// - default: what the queue's configuration says
    #[arg(
        long,
        value_name = "ROLE",
        value_enum,
        requires = "storage",
        conflicts_with = "destination"
    )]
    pub(crate) third_party: Option<ThirdParty>,
    /// Copies on the link at once, or none
    #[arg(long = "max", value_name = "N", value_parser = limit, requires = "destination")]
    pub(crate) maximum: Option<Limit>,
    /// Copies on the link that the queue does not go below, or none
    #[arg(long = "min", value_name = "N", value_parser = limit, requires = "destination")]
    pub(crate) minimum: Option<Limit>,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// A limit, or the wish to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u32>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        _ => text
            .parse()
            .map(|count| Limit(Some(count)))
            .map_err(|_| "not a number or none".to_owned()),
    }
}

/// A limit in bytes per second, or the wish to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) Option<u64>);

fn rate(text: &str) -> Result<Rate, String> {
    match text {
        "none" => Ok(Rate(None)),
        // FTS counts MiB/s here, our other sizes bytes: a number alone would be misread.
        _ if text != "0" && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("give a unit, such as {text}MiB (per second)"))
        }
        _ => size(text).map(|bytes| Rate(Some(bytes))),
    }
}

/// The part of a storage in third-party copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThirdParty {
    /// It fetches and sends
    Full,
    /// It only fetches
    Pull,
    /// It only sends
    Push,
    /// Neither: others fetch from it and send to it
    None,
    /// What the queue's configuration says
    Default,
}

/// What a ban does to files that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BanStatus {
    /// They are canceled
    Cancel,
    /// They wait for the end of the ban
    Wait,
}

/// Options of `queue ban`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueBanOptions {
    /// The storage
    #[arg(value_name = "STORAGE", conflicts_with = "storage")]
    pub(crate) place: Option<String>,
    /// The storage
    #[arg(long, value_name = "STORAGE", conflicts_with = "user")]
    pub(crate) storage: Option<String>,
    /// Ban this user: the name of a certificate, or subject@issuer of a token
    #[arg(long, value_name = "NAME", conflicts_with = "place")]
    pub(crate) user: Option<String>,
    /// End the ban
    #[arg(long)]
    pub(crate) unban: bool,
    /// What happens to files that wait
    #[arg(long, value_enum, default_value_t = BanStatus::Cancel, ignore_case = true)]
    pub(crate) status: BanStatus,
    /// With --status wait: cancel after so many seconds, and refuse new jobs
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u32>,
    /// Accept new jobs, which wait too
    #[arg(long)]
    pub(crate) allow_submit: bool,
    /// Why, for users
    #[arg(long, visible_alias = "reason", value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Only for this virtual organisation
    #[arg(long, value_name = "NAME")]
    pub(crate) vo: Option<String>,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue drain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueDrainOptions {
    /// The worker, as `queue.worker` or the list names it; without, all are listed
    pub(crate) worker: Option<String>,
    /// Let it take work again
    #[arg(long, requires = "worker")]
    pub(crate) off: bool,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue shares`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueSharesOptions {
    /// The virtual organisation
    #[arg(conflicts_with = "link")]
    pub(crate) vo: Option<String>,
    /// Weights of its activities; default is all others
    #[arg(value_name = "ACTIVITY=WEIGHT", value_parser = weight, requires = "vo")]
    pub(crate) shares: Vec<Share>,
    /// Show or change the shares of virtual organisations on this link; * is any storage
    #[arg(long, num_args = 2, value_names = ["SOURCE", "DESTINATION"])]
    pub(crate) link: Vec<String>,
    /// The weight of a virtual organisation on the link, a whole number; 0 removes it
    #[arg(long = "share", value_name = "VO=WEIGHT", value_parser = weight, requires = "link")]
    pub(crate) link_shares: Vec<Share>,
    /// Remove the shares of the virtual organisation
    #[arg(long, requires = "vo", conflicts_with = "shares")]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// The weight of an activity, or of a virtual organisation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    pub(crate) name: String,
    pub(crate) weight: f64,
}

fn weight(text: &str) -> Result<Share, String> {
    let parsed = text.rsplit_once('=').and_then(|(activity, weight)| {
        let weight = weight
            .parse::<f64>()
            .ok()
            .filter(|weight| weight.is_finite() && *weight >= 0.0)?;
        (!activity.is_empty()).then(|| Share {
            name: activity.to_owned(),
            weight,
        })
    });
    parsed.ok_or_else(|| "not a weight such as production=0.7".to_owned())
}
