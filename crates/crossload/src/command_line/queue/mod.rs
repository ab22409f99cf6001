//! Options of `queue`.

mod jobs;
mod operate;
mod serve;
mod submit;
mod webhooks;

use std::time::Duration;

use clap::{ArgAction, Args, Subcommand};
use types::Secret;

use super::client::{Access, Common, time};
use super::display::DisplayOptions;
use super::examples;
use super::habits::GfalOptions;
pub(crate) use jobs::{
    QueueCancelOptions, QueueDelegateOptions, QueueListOptions, QueueLogOptions, QueuePriorityOptions,
    QueueStatusOptions, QueueWhoamiOptions,
};
pub(crate) use operate::{
    BanStatus, Limit, QueueBanOptions, QueueDrainOptions, QueueLimitsOptions, QueueLinkOptions, QueueLinksOptions,
    QueueSharesOptions, QueueWatchOptions, QueueWhyOptions, Rate, ThirdParty,
};
pub(crate) use serve::QueueServeOptions;
pub(crate) use submit::QueueSubmitOptions;
pub(crate) use webhooks::{QueueWebhooksOptions, WebhookAction, WebhookAddOptions, WebhookNameOptions};

/// What to do with a transfer queue.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueAction {
    /// Run a transfer queue
    ///
    /// It takes jobs by the REST API of FTS3, and orders the copies from the servers. Without a
    /// configuration file it keeps everything in one directory.
    #[command(after_help = examples::QUEUE_SERVE)]
    Serve(Box<QueueServeOptions>),
    /// Submit copies to a queue
    ///
    /// Prints the jobs. With a certificate, a proxy is delegated to the queue if it has none that
    /// lasts; with a token, each file gets one.
    #[command(
        override_usage = "crossload queue submit [OPTIONS] <SOURCE> <DESTINATION> [CHECKSUM]\n       \
                          crossload queue submit [OPTIONS] --file <FILE>",
        after_help = examples::QUEUE_SUBMIT
    )]
    Submit(Box<QueueSubmitOptions>),
    /// Show jobs
    #[command(after_help = examples::QUEUE_STATUS)]
    Status(Box<QueueStatusOptions>),
    /// List jobs
    ///
    /// Without --state and --since: your jobs that have not ended.
    #[command(after_help = examples::QUEUE_LIST)]
    List(Box<QueueListOptions>),
    /// Cancel jobs, or some of their files
    #[command(after_help = examples::QUEUE_CANCEL)]
    Cancel(Box<QueueCancelOptions>),
    /// Print the log of files
    ///
    /// An FTS serves its logs by another server: their addresses are printed.
    #[command(after_help = examples::QUEUE_LOG)]
    Log(Box<QueueLogOptions>),
    /// Change the priority of a job
    #[command(after_help = examples::QUEUE_PRIORITY)]
    Priority(Box<QueuePriorityOptions>),
    /// Explain what files or a link wait for
    ///
    /// Prints each reason, who is ahead, and when the copy may start. Not with an FTS.
    #[command(after_help = examples::QUEUE_WHY)]
    Why(Box<QueueWhyOptions>),
    /// Follow jobs until they end
    #[command(after_help = examples::QUEUE_WATCH)]
    Watch(Box<QueueWatchOptions>),
    /// List links, or explain one
    ///
    /// An FTS only knows their limits.
    #[command(after_help = examples::QUEUE_LINKS)]
    Links(Box<QueueLinksOptions>),
    /// Pause a link: no further copy starts. Not with an FTS
    #[command(after_help = examples::QUEUE_PAUSE)]
    Pause(Box<QueueLinkOptions>),
    /// Let a paused link go on. Not with an FTS
    Resume(Box<QueueLinkOptions>),
    /// Show or change how many copies storages and links take at once
    #[command(after_help = examples::QUEUE_LIMITS)]
    Limits(Box<QueueLimitsOptions>),
    /// Ban a storage or user, or list bans
    #[command(after_help = examples::QUEUE_BAN)]
    Ban(Box<QueueBanOptions>),
    /// Drain a worker, or list workers
    #[command(after_help = examples::QUEUE_DRAIN)]
    Drain(Box<QueueDrainOptions>),
    /// Show or change the shares of activities and of virtual organisations
    #[command(after_help = examples::QUEUE_SHARES)]
    Shares(Box<QueueSharesOptions>),
    /// List, add and remove receivers of events. Not with an FTS
    #[command(after_help = examples::QUEUE_WEBHOOKS)]
    Webhooks(Box<QueueWebhooksOptions>),
    /// Print who you are to the queue, and how long your proxy there lasts
    ///
    /// Operators are named in the queue's configuration by the name that it prints.
    #[command(after_help = examples::QUEUE_WHOAMI)]
    Whoami(Box<QueueWhoamiOptions>),
    /// Delegate a proxy to the queue, or withdraw it
    ///
    /// submit does so when it is needed. Files that wait use the proxy that was delegated last.
    #[command(after_help = examples::QUEUE_DELEGATE)]
    Delegate(Box<QueueDelegateOptions>),
}

impl QueueAction {
    /// The command's name in error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Serve(_) => "queue serve",
            Self::Submit(_) => "queue submit",
            Self::Status(_) => "queue status",
            Self::List(_) => "queue list",
            Self::Cancel(_) => "queue cancel",
            Self::Log(_) => "queue log",
            Self::Priority(_) => "queue priority",
            Self::Why(_) => "queue why",
            Self::Watch(_) => "queue watch",
            Self::Links(_) => "queue links",
            Self::Pause(_) => "queue pause",
            Self::Resume(_) => "queue resume",
            Self::Limits(_) => "queue limits",
            Self::Ban(_) => "queue ban",
            Self::Drain(_) => "queue drain",
            Self::Shares(_) => "queue shares",
            Self::Webhooks(_) => "queue webhooks",
            Self::Whoami(_) => "queue whoami",
            Self::Delegate(_) => "queue delegate",
        }
    }

    /// The options that all commands of the client have; `None` for `serve`.
    pub(crate) fn common(&self) -> Option<Common> {
        self.queue_common().map(QueueCommon::common)
    }

    /// The queue's URL; `None` for `serve`.
    pub(crate) fn endpoint(&self) -> Option<&str> {
        self.queue_common().map(|options| options.endpoint.as_str())
    }

    fn queue_common(&self) -> Option<&QueueCommon> {
        Some(match self {
            Self::Serve(_) => return None,
            Self::Submit(options) => &options.common,
            Self::Status(options) => &options.common,
            Self::List(options) => &options.common,
            Self::Cancel(options) => &options.common,
            Self::Log(options) => &options.common,
            Self::Priority(options) => &options.common,
            Self::Why(options) => &options.common,
            Self::Watch(options) => &options.common,
            Self::Links(options) => &options.common,
            Self::Pause(options) | Self::Resume(options) => &options.common,
            Self::Limits(options) => &options.common,
            Self::Ban(options) => &options.common,
            Self::Drain(options) => &options.common,
            Self::Shares(options) => &options.common,
            Self::Webhooks(options) => options.action.common(),
            Self::Whoami(options) => &options.common,
            Self::Delegate(options) => &options.common,
        })
    }
}

/// Options of all commands that talk to a queue. `--timeout` and `-t` are not among them, because
/// FTS's client has them for other things.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "General options")]
pub(crate) struct QueueCommon {
    /// The queue, such as https://queue.example.org:8446
    #[arg(
        short = 's',
        long,
        visible_alias = "queue",
        value_name = "URL",
        env = "CROSSLOAD_QUEUE",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) endpoint: String,
    /// Print details, such as which credential is sent; -vv: requests and answers, without secrets
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print JSON, one object per line
    #[arg(short, long)]
    pub(crate) json: bool,
    /// Abort after this time, in seconds or as 30s, 5m, 2h [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) abort_after: Option<Duration>,
    /// Send this token; others see it in the list of processes
    #[arg(long, alias = "access-token", value_name = "TOKEN", conflicts_with = "token_file")]
    pub(crate) fts_access_token: Option<String>,
    #[command(flatten)]
    pub(crate) access: Access,
}

impl QueueCommon {
    fn common(&self) -> Common {
        Common {
            verbose: self.verbose,
            log_file: None,
            timeout: self.abort_after,
            json: self.json,
            client_info: Vec::new(),
            display: DisplayOptions::default(),
            gfal: GfalOptions::default(),
            access: Access {
                token: self.fts_access_token.as_deref().map(Secret::new),
                ..self.access.clone()
            },
        }
    }
}
