//! Options of `queue webhooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::QueueCommon;

/// Options of `queue webhooks`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueWebhooksOptions {
    #[command(subcommand)]
    pub(crate) action: WebhookAction,
}

/// What to do with the receivers of events.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum WebhookAction {
    /// List webhooks with their status and pending events
    List(WebhookListOptions),
    /// Add a webhook, and print its name and secret
    ///
    /// The secret is not shown again. Events from now on are posted, signed as
    /// <https://www.standardwebhooks.com> says.
    Add(WebhookAddOptions),
    /// Remove webhooks
    Remove(WebhookNameOptions),
    /// Post again to webhooks that are disabled or fail
    Enable(WebhookNameOptions),
}

impl WebhookAction {
    /// The options that all commands of the client have.
    pub(super) fn common(&self) -> &QueueCommon {
        match self {
            Self::List(options) => &options.common,
            Self::Add(options) => &options.common,
            Self::Remove(options) | Self::Enable(options) => &options.common,
        }
    }
}

/// Options of `queue webhooks list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WebhookListOptions {
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue webhooks add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WebhookAddOptions {
    /// Where events are posted, an https URL
    pub(crate) url: String,
    /// Events of these kinds only: state, optimizer
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Events of this virtual organisation, and those that concern all
    #[arg(long, value_name = "NAME")]
    pub(crate) vo: Option<String>,
    /// The secret that signs messages: a file with whsec_ and base64 [default: the queue makes one]
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}

/// Options of `queue webhooks remove` and `enable`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WebhookNameOptions {
    /// Names of webhooks, as the list shows them
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) common: QueueCommon,
}
