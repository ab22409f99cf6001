//! Options of `node`.

use clap::{Args, Subcommand};

use super::client::Common;
use super::examples;

/// Commands for one node of a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeAction {
    /// Print how busy a node is, what room it has, and what it is used for
    Status(NodeOptions),
    /// Take a node out of use, in steps
    ///
    /// It tells its redirectors at once, and refuses new files after cluster.drain_grace; with
    /// --reads it begins no other transfer either. Transfers that run finish.
    #[command(after_help = examples::NODE_DRAIN)]
    Drain(NodeDrainOptions),
    /// Use a node for everything again
    Undrain(NodeOptions),
    /// Wait until a drained node has no transfers left
    ///
    /// Without --reads of drain: no uploads and no copies from other servers. Prints what is left
    /// as it changes. With --timeout, the exit code is 110 if something is left then.
    Wait(NodeOptions),
}

/// Options of `node status`, `node undrain` and `node wait`.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeOptions {
    /// The node, such as https://d1.example.org:1094
    #[arg(value_name = "URL")]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `node drain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeDrainOptions {
    /// Begin no downloads either
    #[arg(long)]
    pub(crate) reads: bool,
    /// Wait as `node wait` does
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) node: NodeOptions,
}

impl NodeAction {
    /// The command's name in error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Status(_) => "node status",
            Self::Drain(_) => "node drain",
            Self::Undrain(_) => "node undrain",
            Self::Wait(_) => "node wait",
        }
    }

    /// The node, and how it is reached.
    pub(crate) fn options(&self) -> &NodeOptions {
        match self {
            Self::Status(options) | Self::Undrain(options) | Self::Wait(options) => options,
            Self::Drain(options) => &options.node,
        }
    }
}
